/* The inbox: order, wake-up hints, messages posted while delivering, and four posters at once. */
#include "base/inbox.h"

#include "tests/util.h"

#include <pthread.h>
#include <sched.h>
#include <stddef.h>

enum { POSTERS = 4, MESSAGES = 20000, LOG = 16 };

struct note {
    struct base_message message; /* first, so that a message is its note */
    struct base_inbox *repost_to;
    uint32_t poster;
    uint32_t number;
};

static uint32_t delivered[LOG];
static uint32_t delivered_count;

static void record(struct base_message *message)
{
    struct note *note = (struct note *)message;
    delivered[delivered_count++ % LOG] = note->number;
    if (note->repost_to != NULL) {
        struct base_inbox *inbox = note->repost_to;
        note->repost_to = NULL;
        ck_assert(base_inbox_post(inbox, message));
    }
}

START_TEST(test_messages_arrive_in_order)
{
    struct base_inbox inbox;
    base_inbox_init(&inbox);
    ck_assert(base_inbox_is_empty(&inbox));
    ck_assert_uint_eq(base_inbox_deliver(&inbox), 0);
    struct note notes[5] = {0};
    delivered_count = 0;
    for (uint32_t i = 0; i < 5; i++) {
        notes[i] = (struct note){.message.deliver = record, .number = i};
        bool must_wake = base_inbox_post(&inbox, &notes[i].message);
        ck_assert_int_eq(must_wake, i == 0);
    }
    ck_assert(!base_inbox_is_empty(&inbox));
    ck_assert_uint_eq(base_inbox_deliver(&inbox), 5);
    ck_assert(base_inbox_is_empty(&inbox));
    for (uint32_t i = 0; i < 5; i++) {
        ck_assert_uint_eq(delivered[i], i);
    }
    ck_assert(base_inbox_post(&inbox, &notes[2].message)); // may be posted anew
    ck_assert_uint_eq(base_inbox_deliver(&inbox), 1);
}
END_TEST

START_TEST(test_message_posted_while_delivering_waits)
{
    struct base_inbox inbox;
    base_inbox_init(&inbox);
    delivered_count = 0;
    struct note note = {.message.deliver = record, .repost_to = &inbox, .number = 7};
    ck_assert(base_inbox_post(&inbox, &note.message));
    ck_assert_uint_eq(base_inbox_deliver(&inbox), 1);
    ck_assert_uint_eq(delivered_count, 1);
    ck_assert(!base_inbox_is_empty(&inbox));
    ck_assert_uint_eq(base_inbox_deliver(&inbox), 1);
    ck_assert_uint_eq(delivered_count, 2);
}
END_TEST

static void post_without_callback(void *argument)
{
    struct base_inbox inbox;
    base_inbox_init(&inbox);
    (void)base_inbox_post(&inbox, argument);
}

START_TEST(test_message_without_callback_is_a_bug)
{
    struct base_message message = {0};
    ck_assert(util_aborts(post_without_callback, &message));
}
END_TEST

static struct base_inbox shared;
static struct note notes[POSTERS][MESSAGES];
static uint32_t next_number[POSTERS];

static void check_order(struct base_message *message)
{
    const struct note *note = (const struct note *)message;
    ck_assert_uint_eq(note->number, next_number[note->poster]);
    next_number[note->poster]++;
}

static void *post_all(void *argument)
{
    struct note *mine = argument;
    for (uint32_t i = 0; i < MESSAGES; i++) {
        mine[i].message.deliver = check_order;
        mine[i].number = i;
        (void)base_inbox_post(&shared, &mine[i].message);
    }
    return NULL;
}

START_TEST(test_four_posters_keep_each_ones_order)
{
    base_inbox_init(&shared);
    pthread_t threads[POSTERS];
    for (uint32_t p = 0; p < POSTERS; p++) {
        next_number[p] = 0;
        for (uint32_t i = 0; i < MESSAGES; i++) {
            notes[p][i].poster = p;
        }
        ck_assert_int_eq(pthread_create(&threads[p], NULL, post_all, notes[p]), 0);
    }
    for (uint32_t got = 0; got < POSTERS * MESSAGES;) {
        uint32_t now = base_inbox_deliver(&shared);
        got += now;
        if (now == 0) {
            (void)sched_yield();
        }
    }
    for (uint32_t p = 0; p < POSTERS; p++) {
        ck_assert_int_eq(pthread_join(threads[p], NULL), 0);
        ck_assert_uint_eq(next_number[p], MESSAGES);
    }
    ck_assert(base_inbox_is_empty(&shared));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("inbox");
    TCase *tcase = tcase_create("inbox");
    tcase_add_test(tcase, test_messages_arrive_in_order);
    tcase_add_test(tcase, test_message_posted_while_delivering_waits);
    tcase_add_test(tcase, test_message_without_callback_is_a_bug);
    tcase_add_test(tcase, test_four_posters_keep_each_ones_order);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
