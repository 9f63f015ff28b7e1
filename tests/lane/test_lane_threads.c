/* Two threads over the lane's very words: the host submits, calls for attention and aborts at
 * random, the lane parks whenever it can. Nothing is lost, nothing torn, and ThreadSanitizer sees
 * no race. */
#include "base/clock.h"
#include "base/event.h"
#include "tests/lane/loop.h"
#include "tests/lane/rig.h"
#include "tests/util.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

#ifdef CELLBATCH_DEBUG
#    define STRESS_TASKS 3000u /* sanitizers are slow */
#else
#    define STRESS_TASKS 10000u
#endif

/* An abort fails no more tasks than the ring holds, so that with one per thirty-two most are
 * done, however the two threads' turns fall. */
#define STRESS_RING           8u
#define STRESS_TASKS_AN_ABORT 32u

static struct cell_lane lane;
static struct cell_lane_host host;

struct stress {
    struct lane_loop loop;
    struct base_event wake;
    _Atomic bool stop;
    struct cell_lane_launch launch; /* the host's until the wake, then the lane's until ended */
    uint32_t polls;
    uint32_t wrong; /* the lane's; read behind the join */
    uint32_t interrupted;
};

static struct stress stress;

/* Every id of a task is its number's; outcomes and results are made of them. */
static uint32_t stress_run(struct lane_loop *loop, uint64_t seq, const struct cell_lane_task *task)
{
    const bool is_outside = (task->flags & CELL_LANE_ROWS_BY_OFFSET) != 0;
    const uint32_t *ids = is_outside ? loop->lane->row_ids + task->rows_off : task->rows;
    const uint32_t index = cell_lane_index(loop->lane, seq);
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the task carries an address
    const uint64_t *input = (const uint64_t *)(uintptr_t)task->x_ref;
    uint32_t steps = 0;
    if (task->op == CELL_LANE_EXIT) {
        return 0;
    }
    stress.wrong += task->user_tag != seq || *input != ~seq;
    for (uint32_t r = 0; r < task->n_rows; r++) {
        stress.wrong += ids[r] != (uint32_t)seq + r;
        loop->lane->outcomes[index * loop->lane->rows_max + r] = (uint32_t)seq ^ r;
    }
    while (steps < task->k_steps) {
        lane_loop_beat(loop);
        steps++;
        if (seq % 8 == 0) {
            (void)sched_yield(); // so that an abort finds it running
        }
        if (lane_loop_is_aborted(loop)) {
            loop->lane->control->fault = (struct cell_lane_fault){.epoch = seq};
            return CELL_LANE_END_FAULT;
        }
        if (cell_lane_has_attention(loop->lane)) {
            stress.interrupted++;
            break;
        }
    }
    loop->lane->results[index] =
        (struct cell_lane_result){.status = (uint32_t)seq, .steps_done = steps};
    return 0;
}

static bool stress_idle(struct lane_loop *loop)
{
    (void)loop;
    (void)sched_yield();
    return stress.polls++ % 8 == 7;
}

static void *stress_main(void *argument)
{
    (void)argument;
    for (;;) {
        (void)base_event_wait(&stress.wake, 0, BASE_WAIT_FOREVER);
        if (atomic_load_explicit(&stress.stop, memory_order_acquire)) {
            return NULL;
        }
        const struct cell_lane_launch launch = stress.launch;
        lane_loop_run(&stress.loop, &launch);
    }
}

static uint64_t inputs[16];

static void stress_submit(uint64_t seq, struct base_random *random)
{
    uint32_t ids[64];
    const uint32_t n_rows = base_random_below(random, 2) == 0 ? 3 : 40;
    for (uint32_t r = 0; r < n_rows; r++) {
        ids[r] = (uint32_t)seq + r;
    }
    inputs[seq % 16] = ~seq;
    struct cell_lane_task task = {.op = CELL_LANE_RUN,
                                  .k_steps = 5,
                                  .x_ref = (uint64_t)(uintptr_t)&inputs[seq % 16],
                                  .user_tag = seq};
    cell_lane_host_rows(&host, &task, ids, n_rows);
    ck_assert_uint_eq(cell_lane_host_submit(&host, &task), seq);
}

/* The record of a launch that has just ended: the task behind the last one that came to an end, by
 * this launch or with an earlier one. */
static bool is_fault_right(void)
{
    const uint64_t last = host.completed > host.settled ? host.completed : host.settled;
    return cell_lane_host_fault(&host).epoch == last + 1;
}

/* How many of the settled tasks' results are wrong. */
static uint32_t stress_settle(uint32_t *done, uint32_t *failed)
{
    uint32_t wrong = 0;
    for (uint64_t seq = cell_lane_host_next(&host); seq != 0; seq = cell_lane_host_next(&host)) {
        const uint32_t index = cell_lane_index(&lane, seq);
        wrong += lane.results[index].status != (uint32_t)seq || lane.results[index].steps_done < 1;
        wrong += lane.outcomes[index * lane.rows_max + 2] != ((uint32_t)seq ^ 2);
        ++*done;
    }
    while (cell_lane_host_next_failed(&host) != 0) {
        ++*failed;
    }
    return wrong;
}

static void check_stress(int form)
{
    struct base_random random = util_random(5);
    bool wants_abort = false;
    uint32_t aborts = 0;
    uint32_t done = 0;
    uint32_t failed = 0;
    uint32_t wrong = 0;
    pthread_t thread;
    ck_assert(lane_rig_init(&lane, STRESS_RING, 64, (enum cell_lane_form)form));
    cell_lane_host_init(&host, &lane, 0);
    memset(&stress, 0, sizeof(stress));
    stress.loop = (struct lane_loop){.lane = &lane, .run = stress_run, .is_idle_over = stress_idle};
    base_event_init(&stress.wake);
    ck_assert_int_eq(pthread_create(&thread, NULL, stress_main, NULL), 0);
    while (done + failed < STRESS_TASKS) {
        if (host.submitted < STRESS_TASKS && cell_lane_host_has_room(&host)) {
            stress_submit(host.submitted + 1, &random);
            wants_abort = wants_abort || host.submitted % STRESS_TASKS_AN_ABORT == 0;
        }
        cell_lane_attend(&lane, base_random_below(&random, 1000) < 20);
        if (wants_abort && host.end == 0 && base_random_below(&random, 8) == 0) {
            cell_lane_abort(&lane, host.launch);
            wants_abort = false;
            aborts++;
        }
        const bool was_running = host.end == 0;
        cell_lane_host_look(&host, base_now_ns());
        if (was_running && host.end == CELL_LANE_END_FAULT) {
            wrong += is_fault_right() ? 0 : 1;
        }
        wrong += stress_settle(&done, &failed);
        if (cell_lane_host_wants_launch(&host)) {
            stress.launch = cell_lane_host_launch(&host, 0);
            base_event_signal(&stress.wake);
        }
        if (cell_lane_host_is_busy(&host)) {
            (void)sched_yield();
        }
    }
    cell_lane_host_exit(&host);
    while (host.end == 0) {
        cell_lane_host_look(&host, base_now_ns());
        (void)sched_yield();
    }
    atomic_store_explicit(&stress.stop, true, memory_order_release);
    base_event_signal(&stress.wake);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_uint_eq(wrong, 0);
    ck_assert_uint_eq(stress.wrong, 0);
    ck_assert_uint_eq(done + failed, STRESS_TASKS);
    ck_assert_uint_le(failed, aborts * STRESS_RING);
    ck_assert_uint_le(aborts, STRESS_TASKS / STRESS_TASKS_AN_ABORT);
    lane_rig_release(&lane);
}

START_TEST(test_two_threads_lose_nothing)
{
    check_stress(_i);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("lane_threads");
    TCase *tcase = tcase_create("lane_threads");
    tcase_add_loop_test(tcase, test_two_threads_lose_nothing, 0, 2);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
