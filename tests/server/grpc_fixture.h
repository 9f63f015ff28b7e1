/* A gRPC front end over the fake core on a loop thread of its own, with what its tests share. */
#ifndef TESTS_SERVER_GRPC_FIXTURE_H
#define TESTS_SERVER_GRPC_FIXTURE_H

#include "base/event.h"
#include "server/grpc/server.h"
#include "tests/grpc_client.h"
#include "tests/server/fake_core.h"

#include <pthread.h>

#define GRPC_FIXTURE_SERVICE "/inference.GRPCInferenceService/"

struct grpc_fixture {
    struct srv_loop loop;
    struct srv_core core;
    struct srv_grpc *server;
    uint16_t port;
    pthread_t thread;
    struct base_event drained;
};

/* options NULL: the defaults. Asserts on failure. */
void grpc_fixture_start(struct grpc_fixture *fixture, const struct srv_grpc_options *options);

/* Runs function on the loop thread and waits for it. */
void grpc_fixture_on_loop(struct grpc_fixture *fixture, void (*function)(struct grpc_fixture *));

/* Drains, waits until drained, stops, and joins the loop. */
void grpc_fixture_stop(struct grpc_fixture *fixture);
void grpc_fixture_drain(struct grpc_fixture *fixture);      /* only begins */
void grpc_fixture_drain_here(struct grpc_fixture *fixture); /* by a caller on the loop thread */
void grpc_fixture_cancel_all(struct grpc_fixture *fixture); /* after drain */
bool grpc_fixture_wait_drained(struct grpc_fixture *fixture, uint64_t timeout_ms);
void grpc_fixture_end(struct grpc_fixture *fixture); /* after drained: stops and joins */

struct srv_grpc_counts grpc_fixture_counts(struct grpc_fixture *fixture);

/* Polls until the number of running requests is that; false after ten seconds. */
bool grpc_fixture_wait_running(struct grpc_fixture *fixture, uint32_t running);
/* The same for those that were cancelled, ever. */
bool grpc_fixture_wait_cancels(struct grpc_fixture *fixture, uint32_t cancels);

/* Polls until no call is open; false after ten seconds. counts (may be NULL): of that moment. */
bool grpc_fixture_wait_idle(struct grpc_fixture *fixture, struct srv_grpc_counts *counts);

/* A ModelInferRequest for "sum": batch rows of `time` tokens, each 1, 2, 3, ... Returns its bytes
 * (to be freed with free()). */
uint8_t *grpc_fixture_request(const char *id, uint32_t batch, uint32_t time, size_t *length);

#endif
