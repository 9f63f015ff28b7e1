/* The model checker's programs (tests/lane/model_host.c, model_lane.c) do the accesses that the
 * code does, in the same order: what is proved of the one holds of the other. */

// The code under test, once more, so that it tells of each access.
#define CELL_LANE_TRACE
#include "cells/lane/host.c" // NOLINT(bugprone-suspicious-include)
#include "tests/lane/loop.c" // NOLINT(bugprone-suspicious-include)

#include "tests/lane/model.h"
#include "tests/lane/rig.h"
#include "tests/util.h"

static struct cell_lane lane;
static struct cell_lane_host host;

static struct {
    bool is_on;
    uint8_t sites[MODEL_TRACE_MAX];
    uint32_t n;
} trace;

void cell_lane_trace(enum cell_lane_site site)
{
    if (trace.is_on && (trace.n == 0 || trace.sites[trace.n - 1] != site)) {
        ck_assert_uint_lt(trace.n, MODEL_TRACE_MAX);
        trace.sites[trace.n++] = (uint8_t)site;
    }
}

static uint32_t traced_run(struct lane_loop *loop, uint64_t seq, const struct cell_lane_task *task)
{
    if (task->op == CELL_LANE_RUN) {
        CELL_LANE_NOTE(LANE_READS_OUTSIDE);
        lane_loop_beat(loop);
        ck_assert(!cell_lane_has_attention(loop->lane) && !lane_loop_is_aborted(loop));
        lane_loop_beat(loop);
    }
    CELL_LANE_NOTE(LANE_WRITES_RESULT);
    loop->lane->results[cell_lane_index(loop->lane, seq)].steps_done = 2;
    return 0;
}

/* The host's second part, in the middle of the lane's first idle poll. */
static bool traced_idle(struct lane_loop *loop)
{
    (void)loop;
    cell_lane_host_look(&host, 1);
    ck_assert_uint_eq(cell_lane_host_next(&host), 1);
    cell_lane_host_exit(&host);
    return false;
}

START_TEST(test_the_model_does_what_the_code_does)
{
    struct model_options options;
    uint8_t wanted[MODEL_TRACE_MAX];
    uint32_t ids[64] = {0};
    ck_assert(lane_rig_init(&lane, 2, 64, (enum cell_lane_form)_i));
    cell_lane_host_init(&host, &lane, 0);
    model_options_init(&options);
    options.form = lane.form;
    options.n_tasks = 1;
    uint32_t n = model_trace(&options, wanted);
    struct lane_loop loop = {.lane = &lane, .run = traced_run, .is_idle_over = traced_idle};
    trace.n = 0;
    trace.is_on = true;
    struct cell_lane_task task = {.op = CELL_LANE_RUN, .k_steps = 2};
    cell_lane_host_rows(&host, &task, ids, 64);
    (void)cell_lane_host_submit(&host, &task);
    cell_lane_host_look(&host, 1);
    struct cell_lane_launch launch = cell_lane_host_launch(&host, 0);
    lane_loop_run(&loop, &launch);
    cell_lane_host_look(&host, 1);
    ck_assert_uint_eq(cell_lane_host_next(&host), 2);
    trace.is_on = false;
    for (uint32_t i = 0; i < n && i < trace.n; i++) {
        ck_assert_msg(trace.sites[i] == wanted[i],
                      "access %u: the code is at site %u, the model at %u", i, trace.sites[i],
                      wanted[i]);
    }
    ck_assert_uint_eq(trace.n, n);
    lane_rig_release(&lane);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("lane_trace");
    TCase *tcase = tcase_create("lane_trace");
    tcase_add_loop_test(tcase, test_the_model_does_what_the_code_does, 0, 2);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
