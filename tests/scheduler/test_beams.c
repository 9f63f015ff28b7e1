/* Beams in batches: the rows of one stay together, and how many stand in a batch. What they find:
 * tests/server/test_beam.c. */
#include "scheduler/scheduler.h"
#include "tests/scheduler/graphs.h"
#include "tests/util.h"

#include <string.h>

#define BEAMS 4u
#define WIDTH 5u
#define STEPS 3u

static struct graphs_types types;
static struct sched *sched;
static const struct cell_type *type;
static struct base_arena arena;
static struct cell_beam beams[BEAMS];

/* Beams that are ready at once, and their type's own bound beside that of all. */
static void open_with(uint32_t rows_max, uint32_t own_rows_max)
{
    struct sched_options options;
    sched_options_init(&options);
    options.rows_max = rows_max;
    ck_assert_int_eq(sched_create(&options, &sched), BASE_OK);
    type = graphs_type_token(&types, 1, 2, 1, 1);
    ck_assert_int_eq(sched_type_set(sched, type, 0, own_rows_max), BASE_OK);
    ck_assert_int_eq(sched_layout_open(sched, type->state_layout, BEAMS * WIDTH), BASE_OK);
    for (uint32_t i = 0; i < BEAMS; i++) {
        struct sched_builder builder;
        struct sched_graph *graph = NULL;
        struct base_error error;
        beams[i].width = WIDTH;
        sched_builder_init(&builder, &arena, 1, 0, 0);
        sched_builder_beam(&builder, sched_builder_node(&builder, type, STEPS, 0), &beams[i]);
        ck_assert_int_eq(sched_builder_finish(&builder, &graph, &error), BASE_OK);
        sched_add(sched, graph, 0);
    }
}

static void setup(void)
{
    memset(&types, 0, sizeof(types));
    base_arena_init(&arena, 4096, 1 << 20);
}

/* Forms a batch after another, each run to its end, until all beams are done. Returns the rows of
 * the first, and all of them had as many. */
static uint32_t run(void)
{
    uint32_t first = 0;
    uint32_t rows = 0;
    for (struct cell_batch *batch; (batch = sched_next(sched, 0, 0)) != NULL;) {
        first = first == 0 ? batch->n_rows : first;
        ck_assert_uint_eq(batch->n_rows, first);
        rows += batch->n_rows * batch->steps;
        for (uint32_t r = 0; r < batch->n_rows; r++) {
            batch->rows[r].steps_done = batch->steps;
        }
        batch->steps_done = batch->steps;
        batch->status = BASE_OK;
        sched_retire(sched, batch, 0);
    }
    uint32_t n_done = 0;
    for (struct sched_graph *graph = sched_take_finished(sched); graph != NULL;
         graph = graph->next_finished) {
        ck_assert_int_eq(graph->status, BASE_OK);
        n_done++;
    }
    ck_assert_uint_eq(n_done, BEAMS);
    ck_assert_uint_eq(rows, BEAMS * WIDTH * STEPS);
    return first;
}

static void teardown(void)
{
    sched_free(sched);
    sched = NULL;
    base_arena_release(&arena);
}

START_TEST(test_the_last_beam_may_go_beyond_where_rows_gain)
{
    open_with(64, 8);
    ck_assert_uint_eq(run(), 2 * WIDTH);
}
END_TEST

START_TEST(test_no_beam_goes_beyond_what_a_batch_holds)
{
    open_with(9, 8);
    ck_assert_uint_eq(run(), WIDTH);
}
END_TEST

START_TEST(test_a_beam_alone_always_fits)
{
    open_with(3, 2);
    ck_assert_uint_eq(run(), WIDTH);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("beams");
    TCase *tcase = tcase_create("beams");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_the_last_beam_may_go_beyond_where_rows_gain);
    tcase_add_test(tcase, test_no_beam_goes_beyond_what_a_batch_holds);
    tcase_add_test(tcase, test_a_beam_alone_always_fits);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
