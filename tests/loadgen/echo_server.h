/* A small Open Inference Protocol server for the tests of loadgen/: real gRPC on a loopback port,
 * no model behind it. It serves one model, `langid`, and can be slow, fail, stall and die.
 *
 * One thread of its own does everything; the functions here are called from one other thread. */
#ifndef TESTS_LOADGEN_ECHO_SERVER_H
#define TESTS_LOADGEN_ECHO_SERVER_H

#include <stdbool.h>
#include <stdint.h>

struct echo_config {
    bool floats;         /* one input FP32 [-1, -1, 4] and one FP32 [-1, 3], not INT64 [-1, -1] */
    bool check;          /* decode each request; a wrong one gets INVALID_ARGUMENT */
    uint64_t delay_ns;   /* each answer waits so long */
    uint32_t fail_every; /* each n-th request gets RESOURCE_EXHAUSTED; 0 = none */
    uint32_t stall_at;   /* before request n (from 1) the whole server sleeps; 0 = never */
    uint64_t stall_ns;   /* so long */
    uint32_t die_at;     /* at request n all connections are dropped; 0 = never */
    bool silent;         /* requests are taken and never answered */
    uint32_t unready_first; /* so many readiness answers say no */
    int port;               /* 0 = the system's choice */
};

struct echo_stats {
    uint64_t requests;    /* ModelInfer calls begun */
    uint64_t cancelled;   /* of these, ended by the client or its deadline */
    uint64_t wrong;       /* with check: refused */
    uint64_t bytes;       /* of all requests */
    uint64_t connections; /* with check: different peers, up to 16 */
};

struct echo_server;

/* Starts to serve; ends the test when it cannot. End it with echo_server_stop(). */
struct echo_server *echo_server_start(const struct echo_config *config);

/* "127.0.0.1:PORT" while the server lives. */
const char *echo_server_target(const struct echo_server *server);

/* Ends the server, if it has not died, and frees it. *stats may be NULL. */
void echo_server_stop(struct echo_server *server, struct echo_stats *stats);

#endif
