/* The command line of cellbatch-load as one value. */
#ifndef LOADGEN_OPTIONS_H
#define LOADGEN_OPTIONS_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define LG_VERSION "0.1.0"

/* Most points of one sweep, texts asked and shapes given. */
#define LG_RATES_MAX  256u
#define LG_ASKS_MAX   64u
#define LG_SHAPES_MAX 16u

enum lg_mode {
    LG_MODE_NONE,   /* only --wait-ready, --help or --version */
    LG_MODE_OPEN,   /* requests leave by a schedule, whatever the server does */
    LG_MODE_CLOSED, /* a fixed number in flight; the next leaves when one ends */
    LG_MODE_ASK,
};

/* All texts point into argv. */
struct lg_options {
    enum lg_mode mode;

    /* Whom and what. */
    const char *target;
    const char *model;
    const char *model_version; /* "" = the server's choice */
    uint64_t connections;
    double wait_ready_s; /* 0 = do not wait */

    /* Load. */
    double rates[LG_RATES_MAX]; /* requests a second, one run each */
    uint32_t rate_count;
    uint64_t concurrency;
    uint64_t session_requests; /* in a session; 0 = none */
    bool in_parts;             /* ask for answers while they are made */
    const char *token_file;    /* NULL: no token is sent */
    bool tls;                  /* with the system's CAs unless tls_ca_file says others */
    const char *tls_ca_file, *tls_cert_file, *tls_key_file; /* NULL: none */
    uint64_t seed;
    double warmup_s, duration_s, cooldown_s;
    uint64_t requests; /* 0 = by duration */
    double drain_s;
    double give_up_s;
    uint64_t in_flight_max;

    /* Requests. */
    const char *lengths; /* see lengths.h */
    const char *text;    /* file, NULL = none */
    const char *shapes[LG_SHAPES_MAX];
    uint32_t shape_count;
    uint64_t batch;
    uint64_t vocab;     /* integer inputs are drawn from 0..vocab */
    double deadline_ms; /* 0 = none */
    double cancel_fraction;
    double cancel_after_ms;

    /* Results. */
    bool json;
    const char *csv, *png; /* files, NULL = none */

    /* Questions. */
    const char *asks[LG_ASKS_MAX];
    uint32_t ask_count;
    const char *labels; /* NULL = models/MODEL/labels.txt */

    bool help, version;
};

/* argv[0] is skipped. INVALID_ARGUMENT with a message that names the flag. */
enum base_status lg_options_parse(int argc, char **argv, struct lg_options *out,
                                  struct base_error *error) __attribute__((warn_unused_result));

/* Every flag with its default, as --help prints it. */
void lg_options_usage(FILE *out);

#endif
