/* Which steps a stage attends to, told from the ops of its cell: what importing makes of masks, and
 * what a session could not answer in parts. */
#include "cells/model_attend.h"

#include "base/mem.h"
#include "tests/cells/build.h"
#include "tests/util.h"

#include <string.h>

enum { WIDTH = 4 };

/* A cell of x, keys and the step's number, which is the third input, of that kind. */
static struct build build;
static uint32_t x, keys, number;
static struct cell_attended attended;
static uint32_t kind;

static void setup(void)
{
    build_init(&build, 1);
    x = build_input(&build, CELL_F32, WIDTH);
    keys = build_input(&build, CELL_F32, WIDTH);
    number = build_input(&build, CELL_I64, 1);
    kind = CELL_NUMBER_ATTENDED;
}

static void teardown(void)
{
    build_release(&build);
}

static uint32_t constant(float value)
{
    float *data = build_floats(&build, 1, 1, 1.0f);
    data[0] = value;
    const uint32_t made = build_const(&build, 1);
    build_last(&build)->weights[0].data = data;
    return made;
}

static uint32_t number_and(float value)
{
    const uint32_t cast = build_cast(&build, number, CELL_F32);
    return build_op(&build, CELL_OP_ADD, cast, constant(value), 1);
}

static uint32_t pair(uint32_t first, uint32_t end)
{
    const uint32_t operands[] = {first, end};
    return build_concat(&build, 2, operands);
}

/* bounds: UINT32_MAX: none. */
static uint32_t attend(uint32_t bounds)
{
    const uint32_t out = build_op(&build, CELL_OP_ATTEND, x, keys, WIDTH);
    struct cell_op *op = build_last(&build);
    op->operands[op->n_operands++] = keys;
    if (bounds != UINT32_MAX) {
        op->operands[op->n_operands++] = bounds;
    }
    op->n_weights = 1;
    op->weights[0] = (struct cell_weight){CELL_F32, 1, WIDTH, build_floats(&build, 1, WIDTH, 1.0f)};
    build_output(&build, out);
    return out;
}

static const char *find(void)
{
    struct base_error error = {BASE_OK, ""};
    struct cell_type type = {.def = build.def};
    struct cell_model *model = base_alloc_array(1, sizeof(*model));
    ck_assert_ptr_nonnull(model);
    ck_assert_msg(cell_def_check(&build.def, &error) == BASE_OK, "%s", error.message);
    model->n_stages = 1;
    model->stages[0] = (struct cell_stage){.type = &type, .kind = CELL_STAGE_EACH};
    model->stages[0].inputs[0].kind = CELL_SOURCE_EACH;
    model->stages[0].inputs[1].kind = CELL_SOURCE_MEMORY;
    model->stages[0].inputs[2] = (struct cell_source){.kind = CELL_SOURCE_NUMBER, .index = kind};
    const char *why = cell__attend_find(model, 0, &attended);
    base_free(model);
    return why;
}

static void expect_refused(const char *words)
{
    const char *why = find();
    ck_assert_ptr_nonnull(why);
    ck_assert_msg(strstr(why, words) != NULL, "%s", why);
}

static void expect(int64_t from, int64_t to)
{
    const char *why = find();
    ck_assert_msg(why == NULL, "%s", why);
    ck_assert(attended.is_on);
    ck_assert_int_eq(attended.from, from);
    ck_assert_int_eq(attended.to, to);
}

START_TEST(test_a_band)
{
    attend(pair(number_and(-3.0f), number_and(3.0f)));
    expect(-3, 2);
}
END_TEST

START_TEST(test_all_before)
{
    attend(pair(constant(0.0f), number_and(1.0f)));
    expect(CELL_ATTENDED_ALL, 0);
}
END_TEST

/* Where the chunk of n steps begins that the number is in, and so much more. */
static uint32_t chunk_and(float n, float value)
{
    const uint32_t cast = build_cast(&build, number, CELL_F32);
    const uint32_t quotient = build_op(&build, CELL_OP_DIV, cast, constant(n), 1);
    const uint32_t chunk = build_op(&build, CELL_OP_FLOOR, quotient, UINT32_MAX, 1);
    const uint32_t start = build_op(&build, CELL_OP_MUL, chunk, constant(n), 1);
    return build_op(&build, CELL_OP_ADD, start, constant(value), 1);
}

static void expect_chunks(uint32_t from, uint32_t to)
{
    ck_assert_uint_eq(attended.from_chunk, from);
    ck_assert_uint_eq(attended.to_chunk, to);
}

START_TEST(test_chunks)
{
    attend(pair(chunk_and(4.0f, -8.0f), chunk_and(4.0f, 4.0f)));
    expect(-8, 3);
    expect_chunks(4, 4);
    ck_assert_int_eq(cell_attended_first(&attended, 7), -4);
    ck_assert_int_eq(cell_attended_first(&attended, 8), 0);
}
END_TEST

START_TEST(test_all_before_the_end_of_a_chunk)
{
    attend(pair(constant(0.0f), chunk_and(4.0f, 4.0f)));
    expect(CELL_ATTENDED_ALL, 3);
    expect_chunks(4, 4);
}
END_TEST

/* Rows are handed over from the border of a chunk on, where either bound is one of chunks. */
START_TEST(test_steps_of_a_chunk)
{
    attend(pair(chunk_and(4.0f, -4.0f), number_and(1.0f)));
    expect(-4, 0);
    expect_chunks(4, 1);
    teardown();
    setup();
    attend(pair(number_and(-3.0f), chunk_and(4.0f, 4.0f)));
    expect(-4, 3);
    expect_chunks(4, 4);
}
END_TEST

START_TEST(test_chunks_of_two_lengths)
{
    attend(pair(chunk_and(4.0f, -4.0f), chunk_and(3.0f, 3.0f)));
    expect_refused("attends to chunks of two lengths");
    teardown();
    setup();
    attend(pair(chunk_and(4.0f, -4.0f), chunk_and(4.0f, 4.0f)));
    attend(pair(number_and(-4.0f), number_and(4.0f)));
    expect_refused("attends to steps and to chunks, or to chunks of two lengths");
}
END_TEST

/* Not rounded down, times another number, of a number that is no whole one, or of another step's.
 */
START_TEST(test_what_is_no_chunk)
{
    const uint32_t cast = build_cast(&build, number, CELL_F32);
    const uint32_t later = build_op(&build, CELL_OP_ADD, cast, constant(1.0f), 1);
    const uint32_t of = _i == 3 ? later : cast;
    const float n = _i == 2 ? 2.5f : 4.0f;
    const uint32_t quotient = build_op(&build, CELL_OP_DIV, of, constant(n), 1);
    const uint32_t chunk =
        _i == 0 ? quotient : build_op(&build, CELL_OP_FLOOR, quotient, UINT32_MAX, 1);
    const uint32_t start = build_op(&build, CELL_OP_MUL, chunk, constant(_i == 1 ? 3.0f : n), 1);
    attend(pair(_i == 4 ? chunk : start, number_and(1.0f)));
    expect_refused("attends to all steps, of which some may be in other requests");
}
END_TEST

/* What any of several needs. */
START_TEST(test_the_widest_of_several)
{
    attend(pair(number_and(-3.0f), number_and(1.0f)));
    attend(pair(number_and(-1.0f), number_and(3.0f)));
    attend(pair(number_and(0.0f), number_and(1.0f)));
    expect(-3, 2);
    attend(pair(constant(0.0f), number_and(1.0f)));
    expect(CELL_ATTENDED_ALL, 2);
}
END_TEST

/* Who attends to nothing may do with the number what it likes. */
START_TEST(test_nothing)
{
    build_output(&build, build_op(&build, CELL_OP_MUL, x, number_and(1.0f), WIDTH));
    const char *why = find();
    ck_assert_msg(why == NULL, "%s", why);
    ck_assert(!attended.is_on);
}
END_TEST

START_TEST(test_all_steps)
{
    attend(UINT32_MAX);
    expect_refused("attends to all steps, of which some may be in other requests");
}
END_TEST

/* Bounds that are not of the step's number, and one that leaves the first steps out. */
START_TEST(test_other_bounds)
{
    const uint32_t some = build_op(&build, CELL_OP_SLICE, x, UINT32_MAX, 2);
    const uint32_t twice = build_op(&build, CELL_OP_ADD, number_and(0.0f), number_and(0.0f), 1);
    const uint32_t end = number_and(1.0f);
    attend(_i == 0   ? some
           : _i == 1 ? pair(twice, end)
           : _i == 2 ? pair(constant(5.0f), end)
                     : pair(build_op(&build, CELL_OP_SLICE, x, UINT32_MAX, 1), end));
    expect_refused("attends to all steps, of which some may be in other requests");
}
END_TEST

START_TEST(test_all_behind)
{
    attend(pair(number_and(0.0f), constant(16777216.0f)));
    expect_refused("attends to all steps behind its own");
}
END_TEST

/* Numbers of another kind, such as of the sequence, are no bounds. */
START_TEST(test_numbers_of_the_sequence)
{
    kind = CELL_NUMBER_OF_SEQUENCE;
    attend(pair(number_and(-3.0f), number_and(1.0f)));
    expect_refused("attends to all steps, of which some may be in other requests");
}
END_TEST

START_TEST(test_sums_of_all_steps)
{
    build_output(&build, build_op(&build, CELL_OP_REDUCE, keys, UINT32_MAX, WIDTH));
    expect_refused("reads all steps, of which some may be in other requests");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("model_attend");
    TCase *tcase = tcase_create("bounds");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_a_band);
    tcase_add_test(tcase, test_all_before);
    tcase_add_test(tcase, test_chunks);
    tcase_add_test(tcase, test_all_before_the_end_of_a_chunk);
    tcase_add_test(tcase, test_steps_of_a_chunk);
    tcase_add_test(tcase, test_chunks_of_two_lengths);
    tcase_add_loop_test(tcase, test_what_is_no_chunk, 0, 5);
    tcase_add_test(tcase, test_the_widest_of_several);
    tcase_add_test(tcase, test_nothing);
    tcase_add_test(tcase, test_all_steps);
    tcase_add_loop_test(tcase, test_other_bounds, 0, 4);
    tcase_add_test(tcase, test_all_behind);
    tcase_add_test(tcase, test_numbers_of_the_sequence);
    tcase_add_test(tcase, test_sums_of_all_steps);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
