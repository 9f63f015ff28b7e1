/* `cellbatch-bench kernels --ablate`: all its forms compute the same, and the command says what it
 * measured. No speed is asserted. */
#include "base/mem.h"
#include "bench/bench.h"
#include "bench/sequence.h"
#include "tests/bench/command.h"
#include "tests/util.h"
#include "worker/team.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { INPUTS = 21, HIDDEN = 35, ROWS = 9, STEPS = 12, FLOATS = STEPS * ROWS * HIDDEN };

/* y of a whole sequence. */
static void run_form(const struct bench_sequence_options *form, struct bench_data *data, float *out)
{
    struct base_error error;
    struct bench_sequence *sequence = NULL;
    ck_assert_msg(bench_sequence_open(form, data, &sequence, &error) == BASE_OK, "%s",
                  error.message);
    size_t bytes = (size_t)form->shape.rows * form->shape.steps * HIDDEN * sizeof(float);
    for (int i = 0; i < 2; i++) { // again from the start
        memset(data->tensors[BENCH_Y], 0xA5, bytes);
        bench_sequence_run(sequence);
    }
    memcpy(out, data->tensors[BENCH_Y], bytes);
    bench_sequence_close(sequence);
}

static void check_forms(const char *cell, uint32_t rows, uint32_t threads)
{
    static float fused[FLOATS];
    static float other[FLOATS];
    struct base_error error;
    struct bench_data data = {0};
    struct wrk_team_options team = {.members = threads, .name = "test"};
    struct bench_sequence_options form = {
        .backend = cell_backend_find("cpu"), .isa = "auto", .shape = {INPUTS, HIDDEN, rows, STEPS}};
    ck_assert_int_eq(wrk_team_create(&team, &form.team), BASE_OK);
    ck_assert_int_eq(bench_cell_find(cell, &form.cell, &error), BASE_OK);
    ck_assert_int_eq(bench_data_random(&data, form.cell, &form.shape, util_seed(), &error),
                     BASE_OK);
    const size_t floats = (size_t)rows * STEPS * HIDDEN;
    run_form(&form, &data, fused);
    for (int i = 1; i < 4; i++) {
        form.by_steps = (i & 1) != 0;
        form.without_windows = (i & 2) != 0;
        run_form(&form, &data, other);
        ck_assert_mem_eq(fused, other, floats * sizeof(float));
    }
    form.ops = BENCH_OPS_SMALL;
    run_form(&form, &data, other);
    for (size_t i = 0; i < floats; i++) {
        ck_assert_double_le(fabs((double)fused[i] - (double)other[i]), 1e-5);
    }
    bench_data_release(&data);
    wrk_team_free(form.team);
}

START_TEST(test_all_forms_compute_the_same)
{
    static const uint32_t rows[] = {1, ROWS};
    check_forms(_i % 2 == 0 ? "lstm" : "gru", rows[_i / 2], 1);
    check_forms(_i % 2 == 0 ? "lstm" : "gru", rows[_i / 2], 2);
}
END_TEST

START_TEST(test_json_has_every_form_of_every_shape)
{
    static const char *const forms[] = {"plain", "fused", "partitioned", "weight-centric"};
    int result = 0;
    char *text = command_run(
        bench_kernels,
        "kernels --ablate --shapes=8x8x2x5,3x40x1x3 --cells=lstm,gru --threads=2 --ms=1 --json",
        &result);
    ck_assert_int_eq(result, EXIT_SUCCESS);
    json_decref(command_json(text, 0)); // the host
    for (uint32_t line = 1; line <= 16; line++) {
        json_t *object = command_json(text, line);
        ck_assert_str_eq(json_string_value(json_object_get(object, "form")), forms[(line - 1) % 4]);
        ck_assert_str_eq(json_string_value(json_object_get(object, "cell")),
                         line <= 8 ? "lstm" : "gru");
        ck_assert_double_eq(command_number(object, "rows"), (line - 1) / 4 % 2 == 0 ? 2.0 : 1.0);
        ck_assert_double_gt(command_number(object, "ms_min"), 0.0);
        ck_assert_double_ge(command_number(object, "ms_p50"), command_number(object, "ms_min"));
        ck_assert_double_gt(command_number(object, "speedup"), 0.0);
        json_decref(object);
    }
    base_free(text);
}
END_TEST

START_TEST(test_table_names_every_form)
{
    int result = 0;
    char *text = command_run(bench_kernels, "kernels --ablate --shapes=8x8x2x5 --ms=1", &result);
    ck_assert_int_eq(result, EXIT_SUCCESS);
    ck_assert_ptr_nonnull(strstr(text, "lstm 8x8x2x5, 1 threads"));
    ck_assert_ptr_nonnull(strstr(text, "  weight-centric "));
    base_free(text);
}
END_TEST

START_TEST(test_what_does_not_go_together_is_refused)
{
    static const char *const words[] = {
        "kernels --ablate --serve",          "kernels --ablate --ahead=2",
        "kernels --ablate --products-only",  "kernels --ablate --backend=cpu",
        "kernels --ablate --precision=int8", "kernels --ablate --cells=treelstm --shapes=8x8x1x1"};
    int result = 0;
    base_free(command_run(bench_kernels, words[_i], &result));
    ck_assert_int_eq(result, 2);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bench_ablate");
    TCase *tcase = tcase_create("bench_ablate");
    tcase_add_loop_test(tcase, test_all_forms_compute_the_same, 0, 4);
    tcase_add_test(tcase, test_json_has_every_form_of_every_shape);
    tcase_add_test(tcase, test_table_names_every_form);
    tcase_add_loop_test(tcase, test_what_does_not_go_together_is_refused, 0, 6);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
