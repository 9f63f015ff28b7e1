/* The pool's life: messages and wake-ups, starting, stopping with work inside, devices that fail,
 * and every way to run out of memory. */
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "tests/util.h"
#include "tests/worker/pool_rig.h"

#include <string.h>
#include <unistd.h>

#ifdef CELLBATCH_DEBUG
#    define ROUNDS 2000u /* sanitizers are slow */
#else
#    define ROUNDS 20000u
#endif

static struct pool_rig rig;
static struct pool_rig_options options;
static struct base_random random_numbers;

static void setup(void)
{
    pool_rig_options_init(&options);
    options.reference.seed = util_seed();
    random_numbers = util_random(20);
}

/* ---- Messages ---- */

struct note {
    struct base_message message;
    _Atomic uint32_t delivered;
    struct base_event event;
};

static void deliver_note(struct base_message *message)
{
    struct note *note = (struct note *)(void *)message;
    (void)atomic_fetch_add(&note->delivered, 1);
    base_event_signal(&note->event);
}

static void note_init(struct note *note)
{
    memset(note, 0, sizeof(*note));
    note->message.deliver = deliver_note;
    base_event_init(&note->event);
}

static void *ping(void *argument)
{
    struct note *note = argument;
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        wrk_pool_post(rig.pool, &note->message);
        while (atomic_load(&note->delivered) < round) {
            (void)base_event_wait(&note->event, 0, BASE_WAIT_FOREVER);
        }
    }
    return NULL;
}

/* A lost wake-up would hang. */
static void check_pings(void)
{
    pool_rig_init(&rig, &options);
    struct note notes[2];
    pthread_t other;
    note_init(&notes[0]);
    note_init(&notes[1]);
    ck_assert_int_eq(pthread_create(&other, NULL, ping, &notes[1]), 0);
    (void)ping(&notes[0]);
    ck_assert_int_eq(pthread_join(other, NULL), 0);
    pool_rig_release(&rig);
}

START_TEST(test_no_wake_up_is_lost_with_spinning)
{
    check_pings();
}
END_TEST

START_TEST(test_no_wake_up_is_lost_without_spinning)
{
    options.spin_ns = 0;
    check_pings();
}
END_TEST

START_TEST(test_no_completion_is_lost)
{
    options.spin_ns = 0;
    options.teams = 2;
    options.reference.pumped = _i == 1;
    pool_rig_init(&rig, &options);
    for (uint32_t i = 0; i < ROUNDS / 20; i++) {
        struct pool_job job;
        pool_job_chain(&job, &rig, 0, 1 + i % 3, &random_numbers);
        pool_job_post(&job);
        pool_job_wait(&job);
        ck_assert_uint_eq(pool_job_wrong(&job), 0);
        pool_job_release(&job);
    }
    pool_rig_release(&rig);
}
END_TEST

/* Waits up to a second. */
static bool becomes_calm(uint32_t queue)
{
    const _Atomic uint32_t *word = wrk_pool_attention(rig.pool, queue);
    uint64_t until_ns = base_now_ns() + BASE_NS_PER_S;
    while (atomic_load(word) != 0) {
        if (base_now_ns() > until_ns) {
            return false;
        }
    }
    return true;
}

/* Whoever posts raises the words a moment after the message can be seen; were they left up then,
 * every later run would end after each step. */
START_TEST(test_attention_comes_down_after_every_post)
{
    options.teams = 2;
    pool_rig_init(&rig, &options);
    struct note note;
    note_init(&note);
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        wrk_pool_post(rig.pool, &note.message);
        while (atomic_load(&note.delivered) < round) {
            base_cpu_relax();
        }
        ck_assert_msg(becomes_calm(round % 2), "round %u", round);
    }
    pool_rig_release(&rig);
}
END_TEST

/* ---- Stopping ---- */

/* Kinds of devices: with a thread of its own, on the pool thread, on drivers. */
static void choose_kind(int kind)
{
    options.reference.pumped = kind > 0;
    options.teams = kind == 2 ? 2 : 1;
}

START_TEST(test_stop_with_work_inside_ends_soon_and_leaves_it_to_the_source)
{
    choose_kind(_i);
    options.sched.run_steps_max = UINT32_MAX;
    options.reference.step_ns = 50 * BASE_NS_PER_US;
    pool_rig_init(&rig, &options);
    struct pool_job jobs[3];
    for (uint32_t i = 0; i < 3; i++) {
        pool_job_chain(&jobs[i], &rig, 0, 100000, &random_numbers); // five seconds
        pool_job_post(&jobs[i]);
    }
    while (reference_counts(wrk_pool_device(rig.pool)).batches == 0) {
        base_cpu_relax();
    }
    uint64_t start_ns = base_now_ns();
    pool_rig_stop(&rig);
    ck_assert_uint_lt(base_now_ns() - start_ns, 2 * BASE_NS_PER_S);
    ck_assert_uint_eq(sched_graphs_inside(rig.sched), 3);
    pool_rig_release(&rig);
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert(pool_job_is_done(&jobs[i]));
        ck_assert_int_eq(jobs[i].status, BASE_UNAVAILABLE);
        ck_assert_uint_eq(pool_job_wrong(&jobs[i]), 0);
        pool_job_release(&jobs[i]);
    }
}
END_TEST

START_TEST(test_messages_posted_before_the_stop_are_delivered)
{
    choose_kind(_i);
    for (uint32_t round = 0; round < 20; round++) {
        pool_rig_init(&rig, &options);
        struct note notes[16];
        for (uint32_t i = 0; i < 16; i++) {
            note_init(&notes[i]);
            wrk_pool_post(rig.pool, &notes[i].message);
        }
        pool_rig_stop(&rig);
        for (uint32_t i = 0; i < 16; i++) {
            ck_assert_uint_eq(notes[i].delivered, 1);
        }
        pool_rig_release(&rig);
    }
}
END_TEST

enum { LATE = 200 };

static void *post_late(void *argument)
{
    struct note *notes = argument;
    for (uint32_t i = 0; i < LATE; i++) {
        wrk_pool_post(rig.pool, &notes[i].message);
    }
    return NULL;
}

static bool all_delivered(const struct note *notes, uint32_t times)
{
    for (uint32_t i = 0; i < LATE; i++) {
        if (atomic_load(&notes[i].delivered) != times) {
            return false;
        }
    }
    return true;
}

/* What comes too late for the thread that stops is the next one's, once. */
START_TEST(test_messages_posted_during_the_stop_are_delivered_then_or_at_the_next_start)
{
    static struct note notes[LATE];
    choose_kind(_i);
    pool_rig_init(&rig, &options);
    for (uint32_t round = 0; round < 20; round++) {
        pthread_t poster;
        for (uint32_t i = 0; i < LATE; i++) {
            note_init(&notes[i]);
        }
        ck_assert_int_eq(pthread_create(&poster, NULL, post_late, notes), 0);
        while (round % 2 == 0 && atomic_load(&notes[0].delivered) == 0) {
            base_cpu_relax(); // stop in the middle of it; else perhaps before the first
        }
        pool_rig_stop(&rig);
        ck_assert_int_eq(pthread_join(poster, NULL), 0);
        pool_rig_start(&rig);
        uint64_t end_ns = base_now_ns() + 20 * BASE_NS_PER_S;
        while (!all_delivered(notes, 1) && base_now_ns() < end_ns) {
            (void)usleep(100);
        }
        ck_assert(all_delivered(notes, 1));
    }
    struct pool_job job; // and it still works
    pool_job_chain(&job, &rig, 0, 20, &random_numbers);
    pool_job_post(&job);
    pool_job_wait(&job);
    ck_assert_int_eq(job.status, BASE_OK);
    pool_job_release(&job);
    pool_rig_release(&rig);
}
END_TEST

START_TEST(test_stopped_pool_starts_again_and_goes_on_where_it_was)
{
    choose_kind(_i);
    options.sched.run_steps_max = 10;
    options.reference.step_ns = 20 * BASE_NS_PER_US;
    pool_rig_init(&rig, &options);
    struct pool_job job;
    pool_job_chain(&job, &rig, 0, 300, &random_numbers);
    pool_job_post(&job);
    for (uint32_t i = 0; i < 3; i++) {
        pool_rig_stop(&rig);
        pool_rig_start(&rig);
    }
    pool_job_wait(&job);
    ck_assert_int_eq(job.status, BASE_OK);
    ck_assert_uint_eq(pool_job_wrong(&job), 0);
    pool_job_release(&job);
    pool_rig_release(&rig);
}
END_TEST

START_TEST(test_pinned_pool_computes)
{
    choose_kind(_i);
    options.pin = true;
    options.team_threads = 2;
    pool_rig_init(&rig, &options);
    struct pool_job job;
    pool_job_chain(&job, &rig, 0, 30, &random_numbers);
    pool_job_post(&job);
    pool_job_wait(&job);
    ck_assert_uint_eq(pool_job_wrong(&job), 0);
    pool_job_release(&job);
    pool_rig_release(&rig);
}
END_TEST

/* ---- Devices that fail ---- */

START_TEST(test_failed_batch_fails_its_requests_and_no_other)
{
    choose_kind(_i);
    options.sched.rows_max = 2;
    options.sched.run_steps_max = 5;
    pool_rig_init(&rig, &options);
    reference_fail(wrk_pool_device(rig.pool), 7, BASE_INTERNAL);
    struct pool_job jobs[12];
    uint32_t n_failed = 0;
    for (uint32_t i = 0; i < 12; i++) {
        pool_job_chain(&jobs[i], &rig, 0, 20, &random_numbers);
        pool_job_post(&jobs[i]);
    }
    for (uint32_t i = 0; i < 12; i++) {
        pool_job_wait(&jobs[i]);
        ck_assert(jobs[i].status == BASE_OK || jobs[i].status == BASE_INTERNAL);
        ck_assert_uint_eq(pool_job_wrong(&jobs[i]), 0);
        n_failed += jobs[i].status == BASE_OK ? 0 : 1;
        pool_job_release(&jobs[i]);
    }
    ck_assert_uint_ge(n_failed, 1);
    ck_assert_uint_le(n_failed, 2);
    pool_rig_release(&rig);
}
END_TEST

START_TEST(test_dead_device_holds_everything_until_its_reset)
{
    pool_rig_init(&rig, &options);
    reference_die(wrk_pool_device(rig.pool));
    struct pool_job job;
    pool_job_chain(&job, &rig, 0, 20, &random_numbers);
    pool_job_post(&job);
    (void)usleep(20000);
    ck_assert(!pool_job_is_done(&job));
    reference_reset(wrk_pool_device(rig.pool));
    pool_job_wait(&job);
    ck_assert_int_eq(job.status, BASE_UNAVAILABLE);
    pool_job_release(&job);
    pool_job_chain(&job, &rig, 0, 20, &random_numbers);
    pool_job_post(&job);
    pool_job_wait(&job);
    ck_assert_int_eq(job.status, BASE_OK);
    pool_job_release(&job);
    pool_rig_release(&rig);
}
END_TEST

/* Slow machines pause a lane that is well for some milliseconds. */
#define WATCHDOG_NS (300 * BASE_NS_PER_MS)

enum { HANG_JOBS = 12 };

/* Two lanes, all jobs posted, and the next step of one lane hangs. How many jobs fail. */
static uint32_t hang_in_the_middle(enum reference_hang hang)
{
    struct pool_job jobs[HANG_JOBS];
    uint32_t n_failed = 0;
    options.teams = 2;
    options.watchdog_ns = WATCHDOG_NS;
    options.sched.rows_max = 2;
    options.sched.run_steps_max = 5;
    options.reference.pause_ns_max = BASE_NS_PER_MS;
    pool_rig_init(&rig, &options);
    for (uint32_t i = 0; i < HANG_JOBS; i++) {
        pool_job_chain(&jobs[i], &rig, 0, 40, &random_numbers);
        pool_job_post(&jobs[i]);
    }
    while (reference_counts(wrk_pool_device(rig.pool)).batches < 8) {
        (void)usleep(100);
    }
    const uint64_t from_ns = base_now_ns();
    reference_hang(wrk_pool_device(rig.pool), hang);
    for (uint32_t i = 0; i < HANG_JOBS; i++) {
        pool_job_wait(&jobs[i]);
        ck_assert(jobs[i].status == BASE_OK || jobs[i].status == BASE_UNAVAILABLE);
        ck_assert_uint_eq(pool_job_wrong(&jobs[i]), 0);
        n_failed += jobs[i].status == BASE_OK ? 0 : 1;
        pool_job_release(&jobs[i]);
    }
    // Until the abort, and as long again where that did not help; and some for a busy machine.
    ck_assert_uint_lt(base_now_ns() - from_ns, 4 * WATCHDOG_NS + BASE_NS_PER_S);
    return n_failed;
}

static void answers_again(void)
{
    struct pool_job job;
    pool_job_chain(&job, &rig, 0, 20, &random_numbers);
    pool_job_post(&job);
    pool_job_wait(&job);
    ck_assert_int_eq(job.status, BASE_OK);
    ck_assert_uint_eq(pool_job_wrong(&job), 0);
    pool_job_release(&job);
}

START_TEST(test_a_lane_that_hangs_fails_its_requests_and_no_other)
{
    const enum reference_hang hang = _i % 2 == 0 ? REFERENCE_HANG_FAULT : REFERENCE_HANG_STILL;
    options.reference.form = _i / 2 == 0 ? CELL_LANE_FORM_PLAIN : CELL_LANE_FORM_TAGGED;
    base_log_configure(BASE_LOG_ERROR, BASE_LOG_TEXT);
    uint32_t n_failed = hang_in_the_middle(hang);
    ck_assert_uint_ge(n_failed, 1);
    ck_assert_uint_lt(n_failed, HANG_JOBS); // the other lane's are answered
    for (uint32_t i = 0; i < 4; i++) {
        answers_again();
    }
    pool_rig_release(&rig);
}
END_TEST

static _Atomic uint32_t n_lost;

static void note_loss(void *argument)
{
    (void)argument;
    (void)atomic_fetch_add(&n_lost, 1);
}

START_TEST(test_a_lane_that_cannot_be_stopped_loses_the_device)
{
    atomic_store(&n_lost, 0);
    options.lost = note_loss;
    uint32_t n_failed = hang_in_the_middle(REFERENCE_HANG_DEAF);
    ck_assert_uint_ge(n_failed, 1);
    pool_rig_release(&rig);
    ck_assert_uint_eq(atomic_load(&n_lost), 1);
}
END_TEST

START_TEST(test_an_idle_lane_parks_and_is_launched_again)
{
    options.watchdog_ns = WATCHDOG_NS;
    pool_rig_init(&rig, &options);
    for (uint32_t i = 0; i < 5; i++) {
        answers_again();
        (void)usleep(5000);
    }
    ck_assert_uint_ge(reference_counts(wrk_pool_device(rig.pool)).launches, 5);
    pool_rig_release(&rig);
}
END_TEST

/* ---- What cannot be made ---- */

static struct wrk_pool_options pool_options(void)
{
    return (struct wrk_pool_options){
        .backend = reference_backend(), .teams = 2, .team_threads = 2, .batches_queued_max = 3};
}

START_TEST(test_device_that_does_not_open_is_reported)
{
    options.reference.open_status = BASE_UNIMPLEMENTED;
    reference_configure(&options.reference);
    struct wrk_pool_options pool = pool_options();
    struct wrk_pool *made = NULL;
    struct base_error error;
    ck_assert_int_eq(wrk_pool_create(&pool, &made, &error), BASE_UNIMPLEMENTED);
    ck_assert_str_eq(error.message, "reference device: told not to open");
    ck_assert_ptr_null(made);
}
END_TEST

START_TEST(test_out_of_memory_while_creating_is_a_status)
{
    options.reference.pumped = _i == 1;
    reference_configure(&options.reference);
    struct wrk_pool_options pool = pool_options();
    struct wrk_pool *made = NULL;
    uint64_t n = 0;
    enum base_status status = BASE_RESOURCE_EXHAUSTED;
    while (status != BASE_OK) {
        struct base_error error = {.message = ""};
        base_alloc_fail_at(++n);
        status = wrk_pool_create(&pool, &made, &error);
        base_alloc_fail_at(0);
        ck_assert(status == BASE_OK || status == BASE_RESOURCE_EXHAUSTED);
        ck_assert(status == BASE_OK || (made == NULL && error.message[0] != '\0'));
    }
    ck_assert_uint_gt(n, 8);
    wrk_pool_free(made);
    wrk_pool_free(NULL);
}
END_TEST

static struct cell_batch *next_none(void *context, uint32_t queue, uint64_t now_ns)
{
    (void)context;
    (void)queue;
    (void)now_ns;
    return NULL;
}

START_TEST(test_start_that_fails_can_be_tried_again)
{
    options.reference.pumped = true;
    reference_configure(&options.reference);
    struct wrk_pool_options pool = pool_options();
    struct wrk_pool *made = NULL;
    ck_assert_int_eq(wrk_pool_create(&pool, &made, NULL), BASE_OK);
    struct cell_batch_source source = {.next = next_none};
    base_alloc_fail_at(1);
    ck_assert_int_eq(wrk_pool_start(made, source, NULL), BASE_RESOURCE_EXHAUSTED);
    base_alloc_fail_at(0);
    ck_assert_int_eq(wrk_pool_start(made, source, NULL), BASE_OK);
    wrk_pool_stop(made);
    wrk_pool_free(made);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pool_life");
    TCase *tcase = tcase_create("pool_life");
    tcase_add_checked_fixture(tcase, setup, NULL);
    tcase_add_test(tcase, test_no_wake_up_is_lost_with_spinning);
    tcase_add_test(tcase, test_no_wake_up_is_lost_without_spinning);
    tcase_add_loop_test(tcase, test_no_completion_is_lost, 0, 2);
    tcase_add_test(tcase, test_attention_comes_down_after_every_post);
    tcase_add_loop_test(tcase, test_stop_with_work_inside_ends_soon_and_leaves_it_to_the_source, 0,
                        3);
    tcase_add_loop_test(tcase, test_messages_posted_before_the_stop_are_delivered, 0, 3);
    tcase_add_loop_test(
        tcase, test_messages_posted_during_the_stop_are_delivered_then_or_at_the_next_start, 0, 3);
    tcase_add_loop_test(tcase, test_stopped_pool_starts_again_and_goes_on_where_it_was, 0, 3);
    tcase_add_loop_test(tcase, test_pinned_pool_computes, 0, 3);
    tcase_add_loop_test(tcase, test_failed_batch_fails_its_requests_and_no_other, 0, 3);
    tcase_add_test(tcase, test_dead_device_holds_everything_until_its_reset);
    tcase_add_loop_test(tcase, test_a_lane_that_hangs_fails_its_requests_and_no_other, 0, 4);
    tcase_add_test(tcase, test_a_lane_that_cannot_be_stopped_loses_the_device);
    tcase_add_test(tcase, test_an_idle_lane_parks_and_is_launched_again);
    tcase_add_test(tcase, test_device_that_does_not_open_is_reported);
    tcase_add_loop_test(tcase, test_out_of_memory_while_creating_is_a_status, 0, 2);
    tcase_add_test(tcase, test_start_that_fails_can_be_tried_again);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
