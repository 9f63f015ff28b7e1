/* An HTTP front end over the fake core on a loop thread of its own, with what its tests share. */
#ifndef TESTS_SERVER_HTTP_FIXTURE_H
#define TESTS_SERVER_HTTP_FIXTURE_H

#include "base/event.h"
#include "server/http/server.h"
#include "tests/http_client.h"
#include "tests/server/fake_core.h"

#include <pthread.h>

struct http_fixture {
    struct srv_loop loop;
    struct srv_core core;
    struct srv_http *server;
    uint16_t port, metrics_port;
    pthread_t thread;
    struct base_event drained;
};

/* options NULL: the defaults. Asserts on failure. */
void http_fixture_start(struct http_fixture *fixture, const struct srv_http_options *options);

/* Runs function on the loop thread and waits for it. */
void http_fixture_on_loop(struct http_fixture *fixture, void (*function)(struct http_fixture *));

/* Drains, waits until drained, stops, and joins the loop. Connections have to be closed, or to be
 * idle. */
void http_fixture_stop(struct http_fixture *fixture);
void http_fixture_drain(struct http_fixture *fixture);      /* only begins */
void http_fixture_drain_here(struct http_fixture *fixture); /* by a caller on the loop thread */
void http_fixture_cancel_all(struct http_fixture *fixture); /* after drain */
bool http_fixture_wait_drained(struct http_fixture *fixture, uint64_t timeout_ms);
void http_fixture_end(struct http_fixture *fixture); /* after drained: stops and joins */

/* Sets the core's pace, and the delay of FAKE_LATER. */
void http_fixture_pace(struct http_fixture *fixture, enum fake_pace pace, uint32_t delay_ms);
void http_fixture_release(struct http_fixture *fixture); /* answers all held requests */

/* What a test may look at, read on the loop thread. */
struct http_fixture_state {
    struct srv_http_counts counts;
    uint32_t started, running, cancels;
    enum base_status last_cancel;
    uint64_t last_timeout_ns;
    uint64_t refused[BASE_STATUS_COUNT]; /* and answered, by HTTP */
};
struct http_fixture_state http_fixture_state(struct http_fixture *fixture);

/* Polls until so many requests run, connections are open, requests were answered or lost; false
 * after ten seconds. */
bool http_fixture_wait_running(struct http_fixture *fixture, uint32_t running);
bool http_fixture_wait_connections(struct http_fixture *fixture, uint32_t connections);
bool http_fixture_wait_answered(struct http_fixture *fixture, uint64_t answered);
bool http_fixture_wait_lost(struct http_fixture *fixture, uint64_t lost);

/* Asks "sum" for the sum of so many bytes of binary zeros and their JSON, and reads the answer. */
struct http_answer http_fixture_post_large(struct http_client *client, size_t bytes, bool chunked);

/* The infer body {"id":...} for model "sum": tokens 1, 2, 3. */
#define HTTP_FIXTURE_BODY                                                                          \
    "{\"id\":\"r\",\"inputs\":[{\"name\":\"tokens\",\"datatype\":\"INT64\",\"shape\":[1,3],"       \
    "\"data\":[[1,2,3]]}]}"
/* And its answer. */
#define HTTP_FIXTURE_ANSWER                                                                        \
    "{\"model_name\":\"sum\",\"model_version\":\"2\",\"id\":\"r\",\"outputs\":[{\"name\":"         \
    "\"sums\","                                                                                    \
    "\"datatype\":\"FP32\",\"shape\":[1,2],\"data\":[6.0,3.0]}]}"

#endif
