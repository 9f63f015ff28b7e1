/* The lane's contract: tasks through both forms of slots, wrap-around, full and empty, rows,
 * launches and the watchdog. */
#include "cells/lane/host.h"
#include "cells/lane/rows.h"
#include "tests/lane/loop.h"
#include "tests/lane/rig.h"
#include "tests/util.h"

#include <string.h>

static struct cell_lane lane;
static struct cell_lane_host host;

static void open_lane(uint32_t n_slots, int form)
{
    ck_assert(lane_rig_init(&lane, n_slots, 64, (enum cell_lane_form)form));
    cell_lane_host_init(&host, &lane, 0);
}

/* ---- Slots ---- */

static struct cell_lane_task random_task(struct base_random *random)
{
    struct cell_lane_task task = {.op = (uint16_t)(1 + base_random_below(random, CELL_LANE_OPS)),
                                  .cell = (uint16_t)base_random_u64(random),
                                  .n_rows = (uint16_t)base_random_u64(random),
                                  .k_steps = (uint16_t)base_random_u64(random),
                                  .flags = (uint32_t)base_random_u64(random),
                                  .rows_off = (uint32_t)base_random_u64(random),
                                  .x_ref = base_random_u64(random),
                                  .user_tag = base_random_u64(random)};
    for (uint32_t r = 0; r < CELL_LANE_PLAIN_INLINE; r++) {
        task.rows[r] = (uint32_t)base_random_u64(random);
    }
    return task;
}

static bool is_equal(const struct cell_lane_task *a, const struct cell_lane_task *b)
{
    bool is = a->op == b->op && a->cell == b->cell && a->n_rows == b->n_rows &&
              a->k_steps == b->k_steps && a->flags == b->flags && a->rows_off == b->rows_off &&
              a->x_ref == b->x_ref && a->user_tag == b->user_tag;
    for (uint32_t r = 0; r < cell_lane_inline_max(&lane); r++) {
        is = is && a->rows[r] == b->rows[r];
    }
    return is;
}

START_TEST(test_every_op_comes_back_as_it_was_written)
{
    struct base_random random = util_random(1);
    open_lane(4, _i);
    for (uint64_t seq = 1; seq <= 500; seq++) {
        struct cell_lane_task task = random_task(&random);
        struct cell_lane_task got = {0};
        if (seq <= CELL_LANE_OPS) {
            task.op = (uint16_t)seq;
        }
        ck_assert(!cell_lane_take(&lane, seq, &got));
        cell_lane_publish(&lane, seq, &task);
        ck_assert(cell_lane_take(&lane, seq, &got));
        ck_assert(is_equal(&task, &got));
        ck_assert(!cell_lane_take(&lane, seq + 1, &got));
        ck_assert(!cell_lane_take(&lane, seq + lane.n_slots, &got));
    }
    lane_rig_release(&lane);
}
END_TEST

/* Behind 2^32 tasks a tag is 0, then 1 again; a slot still holds the tag of a lap before. */
START_TEST(test_tags_wrap_around)
{
    struct base_random random = util_random(2);
    const uint64_t around = (uint64_t)1 << 32;
    open_lane(4, _i);
    for (uint64_t seq = around - 9; seq <= around + 9; seq++) {
        struct cell_lane_task task = random_task(&random);
        struct cell_lane_task got = {0};
        ck_assert(!cell_lane_take(&lane, seq, &got) || seq < around - 5);
        cell_lane_publish(&lane, seq, &task);
        ck_assert(cell_lane_take(&lane, seq, &got));
        ck_assert(is_equal(&task, &got));
    }
    lane_rig_release(&lane);
}
END_TEST

/* A word of another task in the middle: the slot is not there. */
START_TEST(test_a_torn_tagged_slot_is_not_taken)
{
    struct cell_lane_task task = {.op = CELL_LANE_FENCE};
    struct cell_lane_task got = {0};
    open_lane(2, CELL_LANE_FORM_TAGGED);
    for (uint32_t i = 0; i < CELL_LANE_TAGGED_WORDS; i++) {
        cell_lane_publish(&lane, 3, &task);
        ck_assert(cell_lane_take(&lane, 3, &got));
        cell_word64 *word = &lane.slots[1].tagged.words[i];
        atomic_store(word, (uint64_t)1 << 32);
        ck_assert(!cell_lane_take(&lane, 3, &got));
    }
    lane_rig_release(&lane);
}
END_TEST

START_TEST(test_a_full_ring_has_no_room_until_tasks_are_settled)
{
    const struct cell_lane_task task = {.op = CELL_LANE_FENCE};
    open_lane(4, _i);
    for (uint32_t i = 0; i < 4; i++) {
        ck_assert(cell_lane_host_has_room(&host));
        ck_assert_uint_eq(cell_lane_host_submit(&host, &task), i + 1);
    }
    ck_assert(!cell_lane_host_has_room(&host));
    cell_lane_complete(&lane, 2);
    cell_lane_host_look(&host, 1);
    ck_assert(!cell_lane_host_has_room(&host));
    ck_assert_uint_eq(cell_lane_host_next(&host), 1);
    ck_assert_uint_eq(cell_lane_host_next(&host), 2);
    ck_assert_uint_eq(cell_lane_host_next(&host), 0);
    ck_assert_uint_eq(cell_lane_host_next_failed(&host), 0);
    ck_assert(cell_lane_host_has_room(&host));
    ck_assert(cell_lane_host_is_busy(&host));
    lane_rig_release(&lane);
}
END_TEST

START_TEST(test_rows_stand_inline_or_by_offset)
{
    uint32_t ids[64];
    open_lane(2, _i);
    for (uint32_t i = 0; i < 64; i++) {
        ids[i] = 1000 + i;
    }
    for (uint32_t n = 0; n <= 64; n++) {
        struct cell_lane_task task = {.op = CELL_LANE_RUN, .flags = CELL_LANE_INTERRUPTIBLE};
        struct cell_lane_task got = {0};
        cell_lane_host_rows(&host, &task, ids, n);
        uint64_t seq = cell_lane_host_submit(&host, &task);
        ck_assert(cell_lane_take(&lane, seq, &got));
        bool is_outside = (got.flags & CELL_LANE_ROWS_BY_OFFSET) != 0;
        ck_assert(is_outside == (n > cell_lane_inline_max(&lane)));
        ck_assert((got.flags & CELL_LANE_INTERRUPTIBLE) != 0);
        ck_assert_uint_eq(got.n_rows, n);
        ck_assert_mem_eq(is_outside ? lane.row_ids + got.rows_off : got.rows, ids,
                         n * sizeof(*ids));
        cell_lane_complete(&lane, seq);
        cell_lane_host_look(&host, 1);
        ck_assert_uint_eq(cell_lane_host_next(&host), seq);
    }
    lane_rig_release(&lane);
}
END_TEST

/* ---- Launches ---- */

static uint32_t run_nothing(struct lane_loop *loop, uint64_t seq, const struct cell_lane_task *task)
{
    (void)task;
    loop->lane->results[cell_lane_index(loop->lane, seq)].status = 0;
    return 0;
}

static bool parks_at_once(struct lane_loop *loop)
{
    (void)loop;
    return true;
}

static struct lane_loop loop_of(void)
{
    return (struct lane_loop){.lane = &lane, .run = run_nothing, .is_idle_over = parks_at_once};
}

/* Launches when the host wants to and runs it to its end, on this thread. */
static void launch_here(struct lane_loop *loop, uint64_t tasks_max)
{
    ck_assert(cell_lane_host_wants_launch(&host));
    struct cell_lane_launch launch = cell_lane_host_launch(&host, tasks_max);
    lane_loop_run(loop, &launch);
    cell_lane_host_look(&host, 1);
}

static uint32_t settle_all(void)
{
    uint32_t n = 0;
    while (cell_lane_host_next(&host) != 0) {
        n++;
    }
    return n;
}

START_TEST(test_a_parked_lane_goes_on_where_it_was)
{
    struct lane_loop loop = loop_of();
    open_lane(8, _i);
    ck_assert(!cell_lane_host_wants_launch(&host)); // nothing to do
    for (uint32_t round = 0; round < 5; round++) {
        const struct cell_lane_task fence = {.op = CELL_LANE_FENCE};
        const struct cell_lane_task park = {.op = CELL_LANE_PARK};
        (void)cell_lane_host_submit(&host, &fence);
        (void)cell_lane_host_submit(&host, &park);
        (void)cell_lane_host_submit(&host, &fence);
        launch_here(&loop, 0);
        ck_assert_uint_eq(host.end, CELL_LANE_END_PARKED);
        ck_assert_uint_eq(settle_all(), 2);
        launch_here(&loop, 0); // parks by itself behind the last
        ck_assert_uint_eq(settle_all(), 1);
        ck_assert(!cell_lane_host_wants_launch(&host));
        ck_assert(!cell_lane_host_is_busy(&host));
    }
    ck_assert_uint_eq(host.launch, 10);
    lane_rig_release(&lane);
}
END_TEST

START_TEST(test_a_launch_of_so_many_tasks_ends_behind_them)
{
    struct lane_loop loop = loop_of();
    open_lane(8, _i);
    for (uint32_t i = 0; i < 7; i++) {
        const struct cell_lane_task fence = {.op = CELL_LANE_FENCE};
        (void)cell_lane_host_submit(&host, &fence);
    }
    launch_here(&loop, 3);
    ck_assert_uint_eq(host.end, CELL_LANE_END_LIMIT);
    ck_assert_uint_eq(settle_all(), 3);
    launch_here(&loop, 4);
    ck_assert_uint_eq(settle_all(), 4);
    lane_rig_release(&lane);
}
END_TEST

START_TEST(test_exit_is_for_good)
{
    struct lane_loop loop = loop_of();
    open_lane(2, _i);
    cell_lane_host_exit(&host); // no launch runs: nothing to say
    ck_assert(!cell_lane_host_is_busy(&host));
    const struct cell_lane_task task = {.op = CELL_LANE_EXIT};
    (void)cell_lane_host_submit(&host, &task);
    launch_here(&loop, 0);
    ck_assert_uint_eq(host.end, CELL_LANE_END_EXITED);
    ck_assert_uint_eq(settle_all(), 1);
    (void)cell_lane_host_submit(&host, &task);
    ck_assert(!cell_lane_host_wants_launch(&host));
    lane_rig_release(&lane);
}
END_TEST

static uint32_t dies_at_second(struct lane_loop *loop, uint64_t seq,
                               const struct cell_lane_task *task)
{
    (void)task;
    if (seq - loop->launch.first == 1) {
        loop->lane->control->fault = (struct cell_lane_fault){
            .lane = 7, .block = 3, .site = CELL_LANE_WAIT_EXCHANGE, .epoch = seq};
        return CELL_LANE_END_FAULT;
    }
    return 0;
}

START_TEST(test_tasks_of_a_launch_that_dies_fail_and_the_next_goes_on_behind_them)
{
    struct lane_loop loop = loop_of();
    const struct cell_lane_task fence = {.op = CELL_LANE_FENCE};
    open_lane(4, _i);
    loop.run = dies_at_second;
    for (uint32_t i = 0; i < 4; i++) {
        (void)cell_lane_host_submit(&host, &fence);
    }
    launch_here(&loop, 0);
    ck_assert_uint_eq(host.end, CELL_LANE_END_FAULT);
    ck_assert_uint_eq(cell_lane_host_fault(&host).lane, 7);
    ck_assert_uint_eq(cell_lane_host_fault(&host).epoch, 2);
    ck_assert_str_eq(cell_lane_wait_name(cell_lane_host_fault(&host).site), "exchange");
    ck_assert_uint_eq(settle_all(), 1);
    for (uint64_t seq = 2; seq <= 4; seq++) {
        ck_assert_uint_eq(cell_lane_host_next_failed(&host), seq);
    }
    ck_assert_uint_eq(cell_lane_host_next_failed(&host), 0);
    ck_assert(!cell_lane_host_is_busy(&host));
    (void)cell_lane_host_submit(&host, &fence);
    launch_here(&loop, 0);
    ck_assert_uint_eq(cell_lane_host_next(&host), 5);
    ck_assert_uint_eq(cell_lane_host_next_failed(&host), 0);
    ck_assert_str_eq(cell_lane_wait_name(99), "unknown");
    lane_rig_release(&lane);
}
END_TEST

/* ---- The watchdog; time is ours, and the lane only its words ---- */

#define LIMIT_NS 1000u

static void start_watched(int form)
{
    const struct cell_lane_task fence = {.op = CELL_LANE_FENCE};
    open_lane(4, form);
    host.watchdog_ns = LIMIT_NS;
    (void)cell_lane_host_submit(&host, &fence);
    (void)cell_lane_host_launch(&host, 0);
}

/* Looks from..to in steps of a tenth of the limit. */
static void look_for(uint64_t from_ns, uint64_t to_ns)
{
    for (uint64_t now_ns = from_ns; now_ns <= to_ns; now_ns += LIMIT_NS / 10) {
        cell_lane_host_look(&host, now_ns);
    }
}

START_TEST(test_a_beating_lane_is_let_alone)
{
    start_watched(_i);
    for (uint64_t i = 1; i < 100; i++) {
        cell_lane_beat(&lane, i);
        cell_lane_host_look(&host, i * LIMIT_NS / 2);
    }
    ck_assert(!cell_lane_is_aborted(&lane, 1) && !host.is_lost);
    lane_rig_release(&lane);
}
END_TEST

START_TEST(test_a_still_lane_is_aborted_and_when_it_ends_started_anew)
{
    start_watched(_i);
    look_for(1, LIMIT_NS);
    ck_assert(!cell_lane_is_aborted(&lane, 1));
    look_for(LIMIT_NS + 1, LIMIT_NS + 2);
    ck_assert(cell_lane_is_aborted(&lane, 1));
    cell_lane_end(&lane, 1, CELL_LANE_END_ABORTED);
    cell_lane_host_look(&host, 2 * LIMIT_NS);
    ck_assert_uint_eq(cell_lane_host_next(&host), 0);
    ck_assert_uint_eq(cell_lane_host_next_failed(&host), 1);
    ck_assert(!host.is_lost);
    ck_assert_uint_eq(host.faults, 1);
    const struct cell_lane_task fence = {.op = CELL_LANE_FENCE};
    (void)cell_lane_host_submit(&host, &fence);
    ck_assert(cell_lane_host_wants_launch(&host));
    struct cell_lane_launch launch = cell_lane_host_launch(&host, 0);
    ck_assert_uint_eq(launch.first, 2);
    ck_assert(!cell_lane_is_aborted(&lane, launch.number)); // that was for launch 1
    lane_rig_release(&lane);
}
END_TEST

/* That it beats again when it should end does not save it. */
START_TEST(test_a_lane_that_does_not_end_is_lost)
{
    start_watched(_i);
    look_for(1, LIMIT_NS + 1);
    ck_assert(cell_lane_is_aborted(&lane, 1));
    for (uint64_t i = 1; i <= 10; i++) {
        ck_assert(!host.is_lost);
        cell_lane_beat(&lane, i);
        cell_lane_host_look(&host, LIMIT_NS + 1 + i * LIMIT_NS / 10);
    }
    ck_assert(host.is_lost);
    ck_assert_uint_eq(cell_lane_host_next_failed(&host), 1);
    const struct cell_lane_task fence = {.op = CELL_LANE_FENCE};
    (void)cell_lane_host_submit(&host, &fence);
    ck_assert(!cell_lane_host_wants_launch(&host));
    cell_lane_host_look(&host, 9 * LIMIT_NS);
    ck_assert_uint_eq(cell_lane_host_next_failed(&host), 2);
    lane_rig_release(&lane);
}
END_TEST

START_TEST(test_a_pause_of_the_host_is_not_held_against_the_lane)
{
    start_watched(_i);
    cell_lane_host_look(&host, 1);
    cell_lane_host_look(&host, 1 + 1000 * LIMIT_NS);
    ck_assert(!cell_lane_is_aborted(&lane, 1));
    cell_lane_beat(&lane, 1);
    cell_lane_host_look(&host, 1 + 2000 * LIMIT_NS);
    look_for(2000 * LIMIT_NS, 2000 * LIMIT_NS + LIMIT_NS / 2);
    ck_assert(!cell_lane_is_aborted(&lane, 1));
    lane_rig_release(&lane);
}
END_TEST

/* ---- Row layouts ---- */

static bool overlap(uint64_t a, uint64_t b, uint32_t bytes)
{
    return a < b + bytes && b < a + bytes;
}

START_TEST(test_rows_of_a_state_slot_stand_apart_and_twice_by_parity)
{
    static const uint32_t bytes[] = {1, 128, 129, 400};
    struct cell_lane_rows rows;
    uint64_t at[4 * 3 * 2];
    uint32_t part_of[4 * 3 * 2];
    uint32_t n = 0;
    cell_lane_rows_init(&rows, 3);
    for (uint32_t p = 0; p < 4; p++) {
        cell_lane_rows_add(&rows, bytes[p], p % 2 == 0);
    }
    for (uint32_t p = 0; p < 4; p++) {
        for (uint32_t row = 0; row < 3; row++) {
            for (uint32_t step = 0; step < (p % 2 == 0 ? 2 : 1); step++) {
                at[n] = cell_lane_rows_at(&rows, row, p, step);
                part_of[n++] = p;
                ck_assert_uint_eq(at[n - 1] % CELL_LANE_ROW_ALIGN, 0);
                ck_assert_uint_le(at[n - 1] + bytes[p], rows.bytes);
                ck_assert_uint_eq(at[n - 1], cell_lane_rows_at(&rows, row, p, step + 2));
            }
            ck_assert((cell_lane_rows_at(&rows, row, p, 0) ==
                       cell_lane_rows_at(&rows, row, p, 1)) == (p % 2 == 1));
        }
    }
    for (uint32_t a = 0; a < n; a++) {
        for (uint32_t b = 0; b < a; b++) {
            ck_assert(!overlap(at[a], at[b], bytes[part_of[b]]));
        }
    }
    ck_assert(lane_rig_init(&lane, 2, 1, CELL_LANE_FORM_PLAIN));
    lane_rig_release(&lane);
}
END_TEST

START_TEST(test_a_value_row_stands_once)
{
    struct cell_lane_rows rows;
    cell_lane_rows_init(&rows, 5);
    cell_lane_rows_add(&rows, 64, false);
    ck_assert_uint_eq(rows.bytes, 5 * CELL_LANE_ROW_ALIGN);
    ck_assert_uint_eq(cell_lane_rows_at(&rows, 4, 0, 1), 4 * CELL_LANE_ROW_ALIGN);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("lane");
    TCase *tcase = tcase_create("lane");
    const int forms = 2;
    tcase_add_loop_test(tcase, test_every_op_comes_back_as_it_was_written, 0, forms);
    tcase_add_loop_test(tcase, test_tags_wrap_around, 0, forms);
    tcase_add_test(tcase, test_a_torn_tagged_slot_is_not_taken);
    tcase_add_loop_test(tcase, test_a_full_ring_has_no_room_until_tasks_are_settled, 0, forms);
    tcase_add_loop_test(tcase, test_rows_stand_inline_or_by_offset, 0, forms);
    tcase_add_loop_test(tcase, test_a_parked_lane_goes_on_where_it_was, 0, forms);
    tcase_add_loop_test(tcase, test_a_launch_of_so_many_tasks_ends_behind_them, 0, forms);
    tcase_add_loop_test(tcase, test_exit_is_for_good, 0, forms);
    tcase_add_loop_test(
        tcase, test_tasks_of_a_launch_that_dies_fail_and_the_next_goes_on_behind_them, 0, forms);
    tcase_add_loop_test(tcase, test_a_beating_lane_is_let_alone, 0, forms);
    tcase_add_loop_test(tcase, test_a_still_lane_is_aborted_and_when_it_ends_started_anew, 0,
                        forms);
    tcase_add_loop_test(tcase, test_a_lane_that_does_not_end_is_lost, 0, forms);
    tcase_add_loop_test(tcase, test_a_pause_of_the_host_is_not_held_against_the_lane, 0, forms);
    tcase_add_test(tcase, test_rows_of_a_state_slot_stand_apart_and_twice_by_parity);
    tcase_add_test(tcase, test_a_value_row_stands_once);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
