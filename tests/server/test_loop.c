/* The loop thread: messages from other threads arrive once, in order, on the loop thread; the
 * clock is fresh where it says so; stop closes down with nothing lost. */
#include "server/loop.h"

#include "base/clock.h"
#include "tests/util.h"

#include <check.h>
#include <pthread.h>

enum { POSTERS = 4, POSTS = 5000 };

struct poster {
    struct srv_loop *loop;
    struct note {
        struct base_message message; /* first: deliver() casts back */
        struct poster *poster;
        uint32_t number;
    } notes[POSTS];
    uint32_t delivered;
    uint32_t *open; /* posters not yet fully delivered; loop thread */
};

static void note_deliver(struct base_message *message)
{
    struct note *note = (struct note *)message;
    struct poster *poster = note->poster;
    ck_assert(srv_loop_is_owner(poster->loop));
    ck_assert_uint_eq(note->number, poster->delivered);
    poster->delivered++;
    if (poster->delivered == POSTS && --*poster->open == 0) {
        srv_loop_stop(poster->loop);
    }
}

static void *poster_main(void *context)
{
    struct poster *poster = context;
    ck_assert(!srv_loop_is_owner(poster->loop));
    for (uint32_t i = 0; i < POSTS; i++) {
        poster->notes[i].message.deliver = note_deliver;
        poster->notes[i].poster = poster;
        poster->notes[i].number = i;
        srv_loop_post(poster->loop, &poster->notes[i].message);
    }
    return NULL;
}

START_TEST(test_loop_delivers_every_message_in_the_posters_order)
{
    static struct poster posters[POSTERS];
    struct srv_loop loop;
    ck_assert_int_eq(srv_loop_init(&loop), BASE_OK);
    uint32_t open = POSTERS;
    pthread_t threads[POSTERS];
    for (uint32_t i = 0; i < POSTERS; i++) {
        posters[i].loop = &loop;
        posters[i].delivered = 0;
        posters[i].open = &open;
        ck_assert_int_eq(pthread_create(&threads[i], NULL, poster_main, &posters[i]), 0);
    }
    srv_loop_run(&loop);
    for (uint32_t i = 0; i < POSTERS; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
        ck_assert_uint_eq(posters[i].delivered, POSTS);
    }
    srv_loop_release(&loop);
}
END_TEST

struct step {
    struct base_message message;
    struct srv_loop *loop;
    uint32_t left;
};

static void last_deliver(struct base_message *message)
{
    struct step *step = (struct step *)message;
    step->left = 0;
}

static void stop_deliver(struct base_message *message)
{
    struct step *step = (struct step *)message;
    srv_loop_stop(step->loop);
    step->message.deliver = last_deliver;
    srv_loop_post(step->loop, message);
}

START_TEST(test_loop_message_posted_after_stop_is_delivered)
{
    struct srv_loop loop;
    ck_assert_int_eq(srv_loop_init(&loop), BASE_OK);
    struct step step = {.message = {.deliver = stop_deliver}, .loop = &loop, .left = 1};
    srv_loop_post(&loop, &step.message);
    srv_loop_run(&loop);
    ck_assert_uint_eq(step.left, 0);
    srv_loop_release(&loop);
}
END_TEST

static void timer_cb(uv_timer_t *timer)
{
    struct srv_loop *loop = timer->data;
    uint64_t now_ns = base_now_ns();
    ck_assert_uint_le(loop->now_ns, now_ns);
    // Read after the poll that slept, so never older than the sleep.
    ck_assert_uint_lt(now_ns - loop->now_ns, 10 * BASE_NS_PER_MS);
    ck_assert_uint_ge(srv_loop_update(loop), now_ns);
    uv_close(srv_uv_handle(timer), NULL);
    srv_loop_stop(loop);
}

START_TEST(test_loop_clock_is_fresh_in_a_timer)
{
    struct srv_loop loop;
    ck_assert_int_eq(srv_loop_init(&loop), BASE_OK);
    uv_timer_t timer;
    ck_assert_int_eq(uv_timer_init(&loop.uv, &timer), 0);
    timer.data = &loop;
    ck_assert_int_eq(uv_timer_start(&timer, timer_cb, 50, 0), 0);
    srv_loop_run(&loop);
    srv_loop_release(&loop);
}
END_TEST

START_TEST(test_loop_released_without_a_run)
{
    struct srv_loop loop;
    ck_assert_int_eq(srv_loop_init(&loop), BASE_OK);
    ck_assert(srv_loop_is_owner(&loop));
    srv_loop_release(&loop);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("loop");
    TCase *tcase = tcase_create("loop");
    tcase_add_test(tcase, test_loop_delivers_every_message_in_the_posters_order);
    tcase_add_test(tcase, test_loop_message_posted_after_stop_is_delivered);
    tcase_add_test(tcase, test_loop_clock_is_fresh_in_a_timer);
    tcase_add_test(tcase, test_loop_released_without_a_run);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
