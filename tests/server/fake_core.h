/* A core without cells: implements server/request.h and server/core.h for tests of the front ends,
 * linked in the place of the real one. Loop thread only.
 *
 * Its models are "sum" version 1 and 2 (ready), and "broken" version 1 (unavailable). "sum" takes
 * tokens INT64 [batch, time] and answers sums FP32 [batch, 2]: each row's sum and its length. */
#ifndef TESTS_SERVER_FAKE_CORE_H
#define TESTS_SERVER_FAKE_CORE_H

#include "server/core.h"
#include "server/loop.h"

enum fake_pace {
    FAKE_AT_ONCE, /* done is called from inside start */
    FAKE_LATER,   /* after delay_ms on the loop */
    FAKE_HOLD,    /* by fake_core_release(), or when cancelled or past its deadline */
};

struct srv_core {
    struct srv_loop *loop;
    enum fake_pace pace;
    uint32_t delay_ms;
    enum base_status fail; /* not BASE_OK: what requests are answered with */
    uint32_t answer_rows;  /* > 0: rows of the answer, whatever the request's batch */
    bool ready, draining;
    bool ignore_deadlines; /* leaves them to the front end */
    bool slow_cancels;     /* answered by fake_core_release(), as if the device still ran them */
    struct srv_model models[3];
    struct srv_counters counters;

    /* What a test may look at. */
    uint32_t started, running, cancels;
    enum base_status last_cancel;
    uint64_t last_deadline_ns, last_timeout_ns;
    struct srv_flight *first; /* running, newest first */

    /* Loads and unloads: pace, delay_ms and fail are theirs too. */
    bool control_off; /* the options do not allow them */
    uint32_t controls_begun, controls_running;
    enum srv_control_kind control_kind; /* of the last one, */
    char control_name[CELL_NAME_BYTES];
    struct srv_control *controls; /* running, newest first */
};

/* The loop must outlive it. Cells of the models are static. */
void fake_core_init(struct srv_core *core, struct srv_loop *loop);

/* Ends all loads and unloads that are held, the newest first. */
void fake_core_end_controls(struct srv_core *core);

/* Answers all held requests, the newest first. */
void fake_core_release(struct srv_core *core);

/* Of all held requests that are wanted in parts there is more: a row of sums a step, {its number
 * from 1 on, how many the part has}; such a request's end has what it has without. */
void fake_core_progress(struct srv_core *core);

/* Answers the one that has been held for the longest, or the shortest time. */
void fake_core_release_oldest(struct srv_core *core);
void fake_core_release_newest(struct srv_core *core);

#endif
