/* The rings: order, refusal when full, and both under threads, where every item carries its
 * producer and number, so that loss, doubling and disorder all show. */
#include "base/ring.h"

#include "base/mem.h"
#include "tests/util.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

enum { PRODUCERS = 4, ITEMS = 50000 };

struct item {
    uint32_t producer;
    uint32_t number;
    uint32_t payload; /* written before the push, read after the pop */
};

START_TEST(test_spsc_pops_in_order_over_many_laps)
{
    struct base_spsc *ring = NULL;
    ck_assert_int_eq(base_spsc_create(4, &ring), BASE_OK);
    char items[10];
    uint32_t pushed = 0;
    uint32_t popped = 0;
    for (int lap = 0; lap < 20; lap++) {
        for (int i = 0; i < 3; i++) {
            ck_assert(base_spsc_push(ring, &items[pushed++ % 10]));
        }
        for (int i = 0; i < 3; i++) {
            ck_assert_ptr_eq(base_spsc_pop(ring), &items[popped++ % 10]);
        }
    }
    ck_assert_ptr_null(base_spsc_pop(ring));
    base_spsc_free(ring);
}
END_TEST

START_TEST(test_spsc_push_when_full_is_refused)
{
    struct base_spsc *ring = NULL;
    ck_assert_int_eq(base_spsc_create(2, &ring), BASE_OK);
    char a;
    char b;
    char c;
    ck_assert(base_spsc_is_empty(ring));
    ck_assert(base_spsc_push(ring, &a));
    ck_assert(base_spsc_push(ring, &b));
    ck_assert(!base_spsc_push(ring, &c));
    ck_assert(!base_spsc_is_empty(ring));
    ck_assert_ptr_eq(base_spsc_pop(ring), &a);
    ck_assert(base_spsc_push(ring, &c));
    ck_assert_ptr_eq(base_spsc_pop(ring), &b);
    ck_assert_ptr_eq(base_spsc_pop(ring), &c);
    ck_assert(base_spsc_is_empty(ring));
    base_spsc_free(ring);
}
END_TEST

START_TEST(test_mpsc_pops_in_order_over_many_laps)
{
    struct base_mpsc *ring = NULL;
    ck_assert_int_eq(base_mpsc_create(4, &ring), BASE_OK);
    char items[10];
    uint32_t pushed = 0;
    uint32_t popped = 0;
    for (int lap = 0; lap < 20; lap++) {
        for (int i = 0; i < 3; i++) {
            ck_assert(base_mpsc_push(ring, &items[pushed++ % 10]));
        }
        for (int i = 0; i < 3; i++) {
            ck_assert_ptr_eq(base_mpsc_pop(ring), &items[popped++ % 10]);
        }
    }
    ck_assert_ptr_null(base_mpsc_pop(ring));
    base_mpsc_free(ring);
}
END_TEST

START_TEST(test_mpsc_push_when_full_is_refused)
{
    struct base_mpsc *ring = NULL;
    ck_assert_int_eq(base_mpsc_create(2, &ring), BASE_OK);
    char a;
    char b;
    char c;
    ck_assert(base_mpsc_is_empty(ring));
    ck_assert(base_mpsc_push(ring, &a));
    ck_assert(base_mpsc_push(ring, &b));
    ck_assert(!base_mpsc_push(ring, &c));
    ck_assert(!base_mpsc_is_empty(ring));
    ck_assert_ptr_eq(base_mpsc_pop(ring), &a);
    ck_assert(base_mpsc_push(ring, &c));
    ck_assert_ptr_eq(base_mpsc_pop(ring), &b);
    ck_assert_ptr_eq(base_mpsc_pop(ring), &c);
    ck_assert(base_mpsc_is_empty(ring));
    base_mpsc_free(ring);
}
END_TEST

START_TEST(test_create_without_memory_is_exhausted)
{
    struct base_spsc *spsc = NULL;
    base_alloc_fail_at(1);
    ck_assert_int_eq(base_spsc_create(2, &spsc), BASE_RESOURCE_EXHAUSTED);
    ck_assert_ptr_null(spsc);
    struct base_mpsc *mpsc = NULL;
    base_alloc_fail_at(1);
    ck_assert_int_eq(base_mpsc_create(2, &mpsc), BASE_RESOURCE_EXHAUSTED);
    ck_assert_ptr_null(mpsc);
    base_spsc_free(NULL);
    base_mpsc_free(NULL);
}
END_TEST

START_TEST(test_push_and_pop_allocate_nothing)
{
    struct base_spsc *spsc = NULL;
    struct base_mpsc *mpsc = NULL;
    ck_assert_int_eq(base_spsc_create(2, &spsc), BASE_OK);
    ck_assert_int_eq(base_mpsc_create(2, &mpsc), BASE_OK);
    uint64_t before = base_alloc_count();
    char item;
    ck_assert(base_spsc_push(spsc, &item));
    ck_assert(base_mpsc_push(mpsc, &item));
    ck_assert_ptr_eq(base_spsc_pop(spsc), &item);
    ck_assert_ptr_eq(base_mpsc_pop(mpsc), &item);
    ck_assert_uint_eq(base_alloc_count(), before);
    base_spsc_free(spsc);
    base_mpsc_free(mpsc);
}
END_TEST

struct spsc_job {
    struct base_spsc *ring;
    struct item *items;
};

static void *spsc_produce(void *argument)
{
    struct spsc_job *job = argument;
    for (uint32_t i = 0; i < ITEMS; i++) {
        job->items[i] = (struct item){.number = i, .payload = ~i};
        while (!base_spsc_push(job->ring, &job->items[i])) {
            (void)sched_yield();
        }
    }
    return NULL;
}

START_TEST(test_spsc_between_threads_keeps_order_and_contents)
{
    struct spsc_job job = {.items = base_alloc_array(ITEMS, sizeof(struct item))};
    ck_assert_ptr_nonnull(job.items);
    ck_assert_int_eq(base_spsc_create(64, &job.ring), BASE_OK);
    pthread_t producer;
    ck_assert_int_eq(pthread_create(&producer, NULL, spsc_produce, &job), 0);
    for (uint32_t i = 0; i < ITEMS; i++) {
        struct item *item = base_spsc_pop(job.ring);
        while (item == NULL) {
            (void)sched_yield();
            item = base_spsc_pop(job.ring);
        }
        ck_assert_uint_eq(item->number, i);
        ck_assert_uint_eq(item->payload, ~i);
    }
    ck_assert_int_eq(pthread_join(producer, NULL), 0);
    ck_assert(base_spsc_is_empty(job.ring));
    base_spsc_free(job.ring);
    base_free(job.items);
}
END_TEST

struct mpsc_job {
    struct base_mpsc *ring;
    struct item *items;
    uint32_t producer;
};

static void *mpsc_produce(void *argument)
{
    struct mpsc_job *job = argument;
    for (uint32_t i = 0; i < ITEMS; i++) {
        job->items[i] = (struct item){.producer = job->producer, .number = i, .payload = ~i};
        while (!base_mpsc_push(job->ring, &job->items[i])) {
            (void)sched_yield();
        }
    }
    return NULL;
}

START_TEST(test_mpsc_from_four_threads_keeps_each_ones_order)
{
    struct base_mpsc *ring = NULL;
    struct mpsc_job jobs[PRODUCERS];
    pthread_t threads[PRODUCERS];
    ck_assert_int_eq(base_mpsc_create(64, &ring), BASE_OK);
    for (uint32_t p = 0; p < PRODUCERS; p++) {
        jobs[p] = (struct mpsc_job){ring, base_alloc_array(ITEMS, sizeof(struct item)), p};
        ck_assert_ptr_nonnull(jobs[p].items);
        ck_assert_int_eq(pthread_create(&threads[p], NULL, mpsc_produce, &jobs[p]), 0);
    }
    uint32_t next[PRODUCERS] = {0};
    for (uint32_t taken = 0; taken < PRODUCERS * ITEMS;) {
        struct item *item = base_mpsc_pop(ring);
        if (item == NULL) {
            (void)sched_yield();
            continue;
        }
        ck_assert_uint_lt(item->producer, PRODUCERS);
        ck_assert_uint_eq(item->number, next[item->producer]);
        ck_assert_uint_eq(item->payload, ~item->number);
        next[item->producer]++;
        taken++;
    }
    for (uint32_t p = 0; p < PRODUCERS; p++) {
        ck_assert_int_eq(pthread_join(threads[p], NULL), 0);
        base_free(jobs[p].items);
    }
    ck_assert(base_mpsc_is_empty(ring));
    base_mpsc_free(ring);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ring");
    TCase *tcase = tcase_create("ring");
    tcase_add_test(tcase, test_spsc_pops_in_order_over_many_laps);
    tcase_add_test(tcase, test_spsc_push_when_full_is_refused);
    tcase_add_test(tcase, test_mpsc_pops_in_order_over_many_laps);
    tcase_add_test(tcase, test_mpsc_push_when_full_is_refused);
    tcase_add_test(tcase, test_create_without_memory_is_exhausted);
    tcase_add_test(tcase, test_push_and_pop_allocate_nothing);
    tcase_add_test(tcase, test_spsc_between_threads_keeps_order_and_contents);
    tcase_add_test(tcase, test_mpsc_from_four_threads_keeps_each_ones_order);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
