/* What a run measured, and how each number is defined. docs/cellbatch-load.md is the long form.
 *
 * latency: from the planned send to the whole answer; so a request that had to wait because the
 * server (or this client) was stuck carries that wait (no coordinated omission). In a closed loop
 * nothing is planned, and latency equals service time.
 * service: from the actual send to the whole answer.
 * first: from the planned send to the first message of the answer. */
#ifndef LOADGEN_RESULT_H
#define LOADGEN_RESULT_H

#include "base/hist.h"
#include "loadgen/grpc_wire.h"
#include "loadgen/options.h"

#include <stdbool.h>
#include <stdint.h>

/* The sending side: written by the thread that sends. */
struct lg_sends {
    uint64_t planned; /* requests of the window, sent or not */
    uint64_t missed;  /* of these, sent later than the limit, or not at all */
    uint64_t limit_ns;
    uint64_t lateness_max_ns;
};

struct lg_result {
    enum lg_mode mode;
    double rate_asked;    /* open loop */
    uint32_t concurrency; /* closed loop */
    uint64_t seed;

    uint64_t window_ns; /* really measured: shorter than asked when the run was ended early */

    struct lg_sends sends;

    /* Requests of the window that were sent = ok + cancelled + unfinished + all errors. */
    uint64_t sent;
    uint64_t ok;
    uint64_t cancelled;             /* ended as CANCELLED after this client cancelled it */
    uint64_t unfinished;            /* no answer when the drain time was over */
    uint64_t errors[LG_CODE_COUNT]; /* all other ends, by gRPC code; [0] stays 0 */

    uint64_t ok_in_window; /* answers that came within the window, whenever they were sent */
    uint64_t bytes_sent;   /* message bytes of the sent requests of the window */
    uint64_t cpu_ns;       /* of this whole process, within the window */

    struct base_hist latency; /* of ok */
    struct base_hist service;
    struct base_hist first; /* where answers come in parts */
    bool in_parts;
    uint64_t messages; /* of ok */

    bool interrupted;      /* ended by a signal */
    bool gave_up;          /* ended because the server could not be reached */
    char first_error[128]; /* the server's words for the first failed request; "" = none */
};

/* How one request of the window ended. */
struct lg_outcome {
    uint32_t code; /* gRPC */
    bool we_cancelled;
    bool unfinished;                       /* cancelled by the end of the drain time */
    uint64_t planned_ns, sent_ns, done_ns; /* planned <= sent <= done */
    uint64_t first_ns;                     /* of an OK: sent <= first <= done */
    uint32_t n_messages;
    uint64_t message_bytes;
};

void lg_result_init(struct lg_result *result);

/* Accounts one measured request. */
void lg_result_add(struct lg_result *result, const struct lg_outcome *outcome);

/* Accounts a measured send that was late by lateness_ns, or measured requests that never left. */
void lg_sends_add(struct lg_sends *sends, uint64_t lateness_ns);
void lg_sends_add_unsent(struct lg_sends *sends, uint64_t count);

/* Requests a second, 0 for an empty window. offered counts planned requests, achieved answers. */
double lg_result_offered(const struct lg_result *result);
double lg_result_achieved(const struct lg_result *result);

uint64_t lg_result_failed(const struct lg_result *result); /* errors + unfinished */
double lg_result_missed_share(const struct lg_result *result);
double lg_result_cpu_share(const struct lg_result *result);   /* cores */
double lg_result_cpu_us_each(const struct lg_result *result); /* per answer in the window */

/* A run is valid when it measured at least one request and sent all but 1 % of them in time. */
bool lg_result_is_valid(const struct lg_result *result);

#endif
