/* A raw server and a client of it, for the suites of the client. */
#ifndef TESTS_LOADGEN_RAW_FIXTURE_H
#define TESTS_LOADGEN_RAW_FIXTURE_H

#include "loadgen/client.h"
#include "tests/loadgen/raw_server.h"

struct raw_fixture {
    struct raw_server *server;
    struct lg_client *client;
    struct base_buf reply; /* of the last call */
    struct base_error error;
};

extern struct raw_fixture raw;

void raw_begin(void);
void raw_end(void);

/* Starts the server and a client of it; or a client of another target. */
void raw_serve(const struct raw_script *script);
void raw_connect(const char *target);

/* One call with an empty message, of 10 s at most or so long. */
enum base_status raw_call(void);
enum base_status raw_call_for(uint64_t timeout_ns);

/* The next call ends with code and words that have part in them. */
void raw_assert_ends(const char *code, const char *part);

/* Turns the client until so many resets have come to the server. */
void raw_wait_for_resets(unsigned count);

#endif
