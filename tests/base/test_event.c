/* The wake-up flag: coalescing, time-outs, and that no signal is lost between threads. */
#include "base/event.h"

#include "base/clock.h"
#include "tests/util.h"

#include <pthread.h>
#include <sched.h>

START_TEST(test_signal_before_wait_returns_at_once)
{
    struct base_event event;
    base_event_init(&event);
    base_event_signal(&event);
    ck_assert(base_event_wait(&event, 0, BASE_WAIT_FOREVER));
}
END_TEST

START_TEST(test_signals_coalesce)
{
    struct base_event event;
    base_event_init(&event);
    for (int i = 0; i < 5; i++) {
        base_event_signal(&event);
    }
    ck_assert(base_event_wait(&event, 0, 0));
    ck_assert(!base_event_wait(&event, 0, 0));
}
END_TEST

START_TEST(test_wait_without_time_is_a_poll)
{
    struct base_event event;
    base_event_init(&event);
    ck_assert(!base_event_wait(&event, 0, 0));
    ck_assert_uint_eq(atomic_load(&event.state), 0);
    base_event_signal(&event);
    ck_assert(base_event_wait(&event, 0, 0));
}
END_TEST

START_TEST(test_wait_times_out_and_works_again)
{
    struct base_event event;
    base_event_init(&event);
    uint64_t start = base_now_ns();
    ck_assert(!base_event_wait(&event, 0, 20 * BASE_NS_PER_MS));
    ck_assert_uint_ge(base_now_ns() - start, 20 * BASE_NS_PER_MS);

    start = base_now_ns();
    ck_assert(!base_event_wait(&event, 10 * BASE_NS_PER_MS, 10 * BASE_NS_PER_MS));
    ck_assert_uint_ge(base_now_ns() - start, 20 * BASE_NS_PER_MS);

    base_event_signal(&event);
    ck_assert(base_event_wait(&event, 0, 0));
}
END_TEST

START_TEST(test_spin_alone_sees_its_time)
{
    struct base_event event;
    base_event_init(&event);
    uint64_t start = base_now_ns();
    ck_assert(!base_event_wait(&event, 5 * BASE_NS_PER_MS, 0));
    ck_assert_uint_ge(base_now_ns() - start, 5 * BASE_NS_PER_MS);
}
END_TEST

/* Work is a counter; the consumer only ever looks at it after a wait, so a lost signal hangs. */
struct stress {
    struct base_event event;
    _Atomic uint32_t posted;
    uint32_t per_producer;
    bool yields;
};

static void *produce(void *argument)
{
    struct stress *stress = argument;
    for (uint32_t i = 0; i < stress->per_producer; i++) {
        atomic_fetch_add_explicit(&stress->posted, 1, memory_order_relaxed);
        base_event_signal(&stress->event);
        if (stress->yields) {
            (void)sched_yield();
        }
    }
    return NULL;
}

/* Returns the number of waits it took to see all work. */
static uint32_t run_stress(uint32_t producers, uint32_t per_producer, uint64_t spin_ns, bool yields)
{
    struct stress stress = {.per_producer = per_producer, .yields = yields};
    base_event_init(&stress.event);
    pthread_t threads[4];
    ck_assert_uint_le(producers, 4);
    for (uint32_t i = 0; i < producers; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, produce, &stress), 0);
    }
    uint32_t waits = 0;
    uint32_t seen = 0;
    while (seen < producers * per_producer) {
        ck_assert(base_event_wait(&stress.event, spin_ns, BASE_WAIT_FOREVER));
        seen = atomic_load_explicit(&stress.posted, memory_order_relaxed);
        waits++;
    }
    for (uint32_t i = 0; i < producers; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    }
    return waits;
}

START_TEST(test_no_signal_is_lost_to_a_sleeper)
{
    ck_assert_uint_ge(run_stress(1, 100000, 0, false), 1);
    ck_assert_uint_ge(run_stress(1, 20000, 0, true), 1);
    ck_assert_uint_ge(run_stress(4, 20000, 0, false), 1);
}
END_TEST

START_TEST(test_no_signal_is_lost_to_a_spinner)
{
    ck_assert_uint_ge(run_stress(1, 20000, 2000, true), 1);
    ck_assert_uint_ge(run_stress(4, 10000, 2000, true), 1);
}
END_TEST

struct ping_pong {
    struct base_event ping;
    struct base_event pong;
    uint32_t turns; /* written by either side in turn, ordered by the events alone */
    uint32_t rounds;
};

static void *answer(void *argument)
{
    struct ping_pong *game = argument;
    for (uint32_t i = 0; i < game->rounds; i++) {
        ck_assert(base_event_wait(&game->ping, 1000, BASE_WAIT_FOREVER));
        game->turns++;
        base_event_signal(&game->pong);
    }
    return NULL;
}

START_TEST(test_ping_pong_carries_the_data_along)
{
    struct ping_pong game = {.rounds = 10000};
    base_event_init(&game.ping);
    base_event_init(&game.pong);
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, answer, &game), 0);
    for (uint32_t i = 0; i < game.rounds; i++) {
        game.turns++;
        base_event_signal(&game.ping);
        ck_assert(base_event_wait(&game.pong, 0, BASE_WAIT_FOREVER));
        ck_assert_uint_eq(game.turns, 2 * (i + 1));
    }
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
}
END_TEST

static void *signal_often(void *argument)
{
    struct stress *stress = argument;
    for (uint32_t i = 0; i < stress->per_producer; i++) {
        base_event_signal(&stress->event);
        atomic_fetch_add_explicit(&stress->posted, 1, memory_order_release);
        while (atomic_load_explicit(&stress->posted, memory_order_acquire) != 0) {
            (void)sched_yield();
        }
    }
    return NULL;
}

/* A time-out and a signal meet: whatever the wait says, exactly one true comes for each signal. */
START_TEST(test_timeout_races_with_signal)
{
    struct stress stress = {.per_producer = 3000};
    base_event_init(&stress.event);
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, signal_often, &stress), 0);
    for (uint32_t got = 0; got < stress.per_producer;) {
        if (base_event_wait(&stress.event, 0, 1000)) {
            got++;
            while (atomic_load_explicit(&stress.posted, memory_order_acquire) == 0) {
                (void)sched_yield();
            }
            atomic_store_explicit(&stress.posted, 0, memory_order_release);
        }
    }
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert(!base_event_wait(&stress.event, 0, 0));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("event");
    TCase *tcase = tcase_create("event");
    tcase_add_test(tcase, test_signal_before_wait_returns_at_once);
    tcase_add_test(tcase, test_signals_coalesce);
    tcase_add_test(tcase, test_wait_without_time_is_a_poll);
    tcase_add_test(tcase, test_wait_times_out_and_works_again);
    tcase_add_test(tcase, test_spin_alone_sees_its_time);
    tcase_add_test(tcase, test_no_signal_is_lost_to_a_sleeper);
    tcase_add_test(tcase, test_no_signal_is_lost_to_a_spinner);
    tcase_add_test(tcase, test_ping_pong_carries_the_data_along);
    tcase_add_test(tcase, test_timeout_races_with_signal);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
