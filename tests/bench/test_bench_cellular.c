/* The cellular form beside whole sequences: a chain that is there in both has the same bits in
 * both, rows leave as often as they should, and the command says what it measured. No speed is
 * asserted. */
#include "base/mem.h"
#include "bench/bench.h"
#include "bench/course.h"
#include "tests/bench/command.h"
#include "tests/util.h"
#include "worker/team.h"

#include <stdlib.h>
#include <string.h>

static struct base_error error;

/* A sequence and its cellular form. */
struct forms {
    struct bench_shape shape;
    struct bench_data data;
    struct cell_team *team;
    struct bench_sequence *sequence;
    struct bench_course *course;
    float *y; /* of the whole sequence, [steps, rows, hidden] */
};

static void forms_init(struct forms *forms, const char *cell, struct bench_shape shape,
                       uint32_t threads)
{
    struct wrk_team_options team = {.members = threads, .name = "test"};
    struct bench_sequence_options options = {
        .backend = cell_backend_find("cpu"), .isa = "auto", .shape = shape};
    *forms = (struct forms){.shape = shape};
    ck_assert_int_eq(wrk_team_create(&team, &forms->team), BASE_OK);
    options.team = forms->team;
    ck_assert_int_eq(bench_cell_find(cell, &options.cell, &error), BASE_OK);
    ck_assert_int_eq(bench_data_random(&forms->data, options.cell, &shape, util_seed(), &error),
                     BASE_OK);
    ck_assert_int_eq(bench_sequence_open(&options, &forms->data, &forms->sequence, &error),
                     BASE_OK);
    ck_assert_int_eq(
        bench_course_open(forms->sequence, &shape, 24.0, util_seed(), &forms->course, &error),
        BASE_OK);
}

static void forms_release(struct forms *forms)
{
    bench_course_close(forms->course);
    bench_sequence_close(forms->sequence);
    bench_data_release(&forms->data);
    wrk_team_free(forms->team);
}

static size_t y_floats(const struct forms *forms)
{
    return (size_t)forms->shape.steps * forms->shape.rows * forms->shape.hidden;
}

/* What a run of one form has written over a pattern. */
static void run_into(struct forms *forms, bool is_cellular, float *out)
{
    memset(forms->data.tensors[BENCH_Y], 0xA5, y_floats(forms) * sizeof(float));
    if (is_cellular) {
        bench_course_run(forms->course);
    } else {
        bench_sequence_run(forms->sequence);
    }
    memcpy(out, forms->data.tensors[BENCH_Y], y_floats(forms) * sizeof(float));
}

static void check_first_chains(const struct forms *forms, const float *whole, const float *cellular)
{
    const struct bench_shape *s = &forms->shape;
    for (uint32_t r = 0; r < s->rows; r++) {
        for (uint32_t t = 0; t < bench_course_first_stay(forms->course, r); t++) {
            size_t at = ((size_t)t * s->rows + r) * s->hidden;
            if (memcmp(whole + at, cellular + at, s->hidden * sizeof(float)) != 0) {
                ck_abort_msg("row %u differs at step %u", r, t);
            }
        }
    }
}

/* Everything that is there from the start; and all of it, run twice. */
static void check_forms(const char *cell, struct bench_shape shape, uint32_t threads)
{
    static float whole[3 * 100 * 70 * 20];
    static float first[3 * 100 * 70 * 20];
    static float second[3 * 100 * 70 * 20];
    struct forms forms;
    forms_init(&forms, cell, shape, threads);
    ck_assert_uint_le(y_floats(&forms) * sizeof(float), sizeof(whole));
    run_into(&forms, false, whole);
    for (int draw = 0; draw < 5; draw++) {
        run_into(&forms, true, first);
        check_first_chains(&forms, whole, first);
        run_into(&forms, true, second);
        ck_assert(memcmp(first, second, y_floats(&forms) * sizeof(float)) == 0);
        bench_course_draw(forms.course);
    }
    forms_release(&forms);
}

START_TEST(test_course_has_the_bits_of_the_sequence)
{
    static const uint32_t rows[] = {1, 5, 20}; // with windows, and without
    const char *cell = _i % 2 == 0 ? "lstm" : "gru";
    for (uint32_t i = 0; i < 3; i++) {
        struct bench_shape shape = {.inputs = 33, .hidden = 70, .rows = rows[i], .steps = 100};
        check_forms(cell, shape, 1);
        check_forms(cell, shape, 2);
    }
}
END_TEST

START_TEST(test_course_rows_stay_as_long_as_asked)
{
    struct forms forms;
    uint64_t joins = 0;
    forms_init(&forms, "lstm", (struct bench_shape){2, 2, 20, 240}, 1);
    for (int draw = 0; draw < 50; draw++) {
        bench_course_draw(forms.course);
        joins += bench_course_joins(forms.course);
    }
    // A row leaves after one step in 24; nobody joins behind the last.
    ck_assert_uint_gt(joins, 50 * 20 * 239 / 26);
    ck_assert_uint_lt(joins, 50 * 20 * 239 / 22);
    bench_course_run(forms.course);
    ck_assert_uint_gt(bench_course_batches(forms.course), 1);
    ck_assert_uint_le(bench_course_batches(forms.course), bench_course_joins(forms.course) + 1);
    forms_release(&forms);
}
END_TEST

START_TEST(test_cellular_command_prints_json_lines)
{
    int result = 0;
    char *text =
        command_run(bench_cellular,
                    "cellular --shapes 8x8x2x50,8x8x1x1 --cell lstm,gru --ms 1 --json", &result);
    ck_assert_int_eq(result, EXIT_SUCCESS);
    json_decref(command_json(text, 0)); // the host
    for (uint32_t line = 1; line <= 4; line++) {
        json_t *object = command_json(text, line);
        bool has_one_step = command_number(object, "steps") == 1.0;
        double joins = command_number(object, "joins_per_step");
        ck_assert(has_one_step ? joins == 0 : joins > 0);
        ck_assert_double_gt(command_number(object, "whole_us"), 0.0);
        ck_assert_double_gt(command_number(object, "cellular_us"), 0.0);
        ck_assert(json_is_boolean(json_object_get(object, "within")));
        json_decref(object);
    }
    ck_assert_str_eq(strrchr(text, '}'), "}\n");
    base_free(text);
}
END_TEST

START_TEST(test_cellular_command_refuses_what_it_does_not_know)
{
    static const char *const wrong[] = {"cellular --cells cnn", "cellular --shapes 3x4",
                                        "cellular --isa mmx", "cellular --threads 0"};
    int result = 0;
    base_free(command_run(bench_cellular, wrong[_i], &result));
    ck_assert_int_eq(result, 2);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bench_cellular");
    TCase *tcase = tcase_create("bench_cellular");
    tcase_add_loop_test(tcase, test_course_has_the_bits_of_the_sequence, 0, 2);
    tcase_add_test(tcase, test_course_rows_stay_as_long_as_asked);
    tcase_add_test(tcase, test_cellular_command_prints_json_lines);
    tcase_add_loop_test(tcase, test_cellular_command_refuses_what_it_does_not_know, 0, 4);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
