/* What validation says of bad input, word by word, and what it makes of good input. */
#include "server/tensors.h"
#include "server/validate.h"

#include "base/mem.h"
#include "server/text.h"
#include "tests/server/ask.h"
#include "tests/server/models.h"
#include "tests/util.h"

#include <math.h>
#include <string.h>

enum { INPUTS = 3, HIDDEN = 4, ROWS = 2, STEPS = 5, STEPS_MAX = 16 };

static struct cell_registry *registry;
static struct cell_model *chain, *tokens, *lone;
static struct base_random numbers;
static struct ask ask;
static struct sched_sequences sequences;
static struct base_error error;

static void setup(void)
{
    ck_assert_int_eq(cell_registry_create(&registry), BASE_OK);
    chain = models_chain(registry, INPUTS, HIDDEN, 1);
    tokens = models_tokens(registry, HIDDEN, 2);
    lone = models_lone(registry, 3);
    numbers = util_random(4);
}

static void teardown(void)
{
    cell_model_free(registry, chain);
    cell_model_free(registry, tokens);
    cell_model_free(registry, lone);
    cell_registry_free(registry);
}

static enum base_status validate(void)
{
    const struct srv_limits limits = {.sequence_length_max = STEPS_MAX};
    memset(&error, 0, sizeof(error));
    const struct srv_text_rows rows = {0};
    return srv_validate(&ask.request, ask.cells, &limits, &rows, &sequences, &error);
}

static void ask_chain(enum ask_extras extras)
{
    ask_init(&ask, chain, ROWS, STEPS, &numbers, extras);
}

/* Validates, expects this error, releases the ask. */
static void expect(const char *message)
{
    ck_assert_int_eq(validate(), BASE_INVALID_ARGUMENT);
    ck_assert_int_eq(error.status, BASE_INVALID_ARGUMENT);
    ck_assert_str_eq(error.message, message);
    ck_assert_uint_eq(ask.request.n_outputs, 0);
    ask_release(&ask);
}

static void expect_ok(void)
{
    ck_assert_msg(validate() == BASE_OK, "%s", error.message);
}

/* ---- Good input ---- */

START_TEST(test_a_good_request_is_laid_out)
{
    ask_chain(ASK_OPTIONAL);
    expect_ok();
    ck_assert_ptr_eq(sequences.model, chain);
    ck_assert_uint_eq(sequences.n_rows, ROWS);
    const struct srv_tensor *x = ask_input(&ask, "x");
    ck_assert_ptr_eq(sequences.inputs[0].data, x->data);
    ck_assert_int_eq(sequences.inputs[0].batch_bytes, STEPS * INPUTS * 4);
    ck_assert_int_eq(sequences.inputs[0].step_bytes, INPUTS * 4);
    ck_assert_int_eq(sequences.inputs[1].batch_bytes, HIDDEN * 4);
    ck_assert_int_eq(sequences.inputs[1].step_bytes, 0);
    const struct srv_tensor *lengths = ask_input(&ask, "lengths");
    for (uint32_t b = 0; b < ROWS; b++) {
        int64_t length = 0;
        memcpy(&length, lengths->data + b * sizeof(length), sizeof(length));
        ck_assert_int_eq(sequences.steps[0][b], length);
    }
    ck_assert_uint_eq(ask.request.n_outputs, 3);
    const struct srv_tensor *y = &ask.request.outputs[0];
    ck_assert_str_eq(y->name, "y");
    ck_assert_str_eq(y->datatype, "FP32");
    ck_assert_uint_eq(y->rank, 3);
    ck_assert_int_eq(y->shape[0], ROWS);
    ck_assert_int_eq(y->shape[1], STEPS);
    ck_assert_int_eq(y->shape[2], HIDDEN);
    ck_assert_uint_eq(y->bytes, ROWS * STEPS * HIDDEN * 4);
    ck_assert_ptr_eq(sequences.outputs[0].data, y->data);
    ck_assert_int_eq(sequences.outputs[0].step_bytes, HIDDEN * 4);
    for (size_t i = 0; i < y->bytes; i++) {
        ck_assert_uint_eq(y->data[i], 0);
    }
    ask_release(&ask);
}
END_TEST

START_TEST(test_optional_inputs_may_be_left_out)
{
    ask_chain(ASK_PLAIN);
    expect_ok();
    ck_assert_ptr_null(sequences.inputs[1].data);
    ck_assert_ptr_null(sequences.inputs[3].data);
    for (uint32_t b = 0; b < ROWS; b++) {
        ck_assert_uint_eq(sequences.steps[0][b], STEPS);
    }
    ask_release(&ask);
}
END_TEST

START_TEST(test_outputs_come_in_the_order_asked_for)
{
    const char *wanted[] = {"c", "y"};
    ask_chain(ASK_PLAIN);
    ask.request.wanted = wanted;
    ask.request.n_wanted = 2;
    expect_ok();
    ck_assert_uint_eq(ask.request.n_outputs, 2);
    ck_assert_str_eq(ask.request.outputs[0].name, "c");
    ck_assert_str_eq(ask.request.outputs[1].name, "y");
    ck_assert_ptr_eq(sequences.outputs[2].data, ask.request.outputs[0].data);
    ck_assert_ptr_eq(sequences.outputs[0].data, ask.request.outputs[1].data);
    ck_assert_ptr_null(sequences.outputs[1].data);
    ask_release(&ask);
}
END_TEST

START_TEST(test_a_lone_sequence_is_one_row)
{
    ask_init(&ask, lone, 1, 7, &numbers, ASK_PLAIN);
    expect_ok();
    ck_assert_uint_eq(sequences.n_rows, 1);
    ck_assert_uint_eq(sequences.steps[0][0], 7);
    ck_assert_int_eq(sequences.inputs[0].batch_bytes, 0);
    ck_assert_int_eq(sequences.inputs[0].step_bytes, 4);
    ck_assert_int_eq(ask.request.outputs[0].shape[0], 4);
    ask_release(&ask);
}
END_TEST

/* Of n steps (n - 3) / 2 + 1 are left, and of these again. */
static void follow(void)
{
    chain->n_sequences = 3;
    chain->sequences[1] = (struct cell_sequence){.stride = 2, .add = -3, .source = 0};
    chain->sequences[2] = (struct cell_sequence){.stride = 2, .add = -3, .source = 1};
    chain->outputs[0].sequence = 2;
}

START_TEST(test_steps_that_follow_from_others)
{
    follow();
    ask_init(&ask, chain, ROWS, 12, &numbers, ASK_PLAIN);
    expect_ok();
    for (uint32_t b = 0; b < ROWS; b++) {
        ck_assert_uint_eq(sequences.steps[0][b], 12);
        ck_assert_uint_eq(sequences.steps[1][b], 5);
        ck_assert_uint_eq(sequences.steps[2][b], 2);
    }
    ck_assert_int_eq(ask.request.outputs[0].shape[1], 2);
    ck_assert_uint_eq(ask.request.outputs[0].bytes, ROWS * 2 * HIDDEN * 4);
    ask_release(&ask);
}
END_TEST

START_TEST(test_too_few_steps_to_follow_from_are_refused)
{
    follow();
    ask_init(&ask, chain, ROWS, 6, &numbers, ASK_PLAIN);
    expect("input 'x': a sequence of 6 steps, of which the model's strides and windows leave none, "
           "expected at least 7");
    ask_init(&ask, chain, ROWS, 2, &numbers, ASK_PLAIN);
    expect("input 'x': a sequence of 2 steps, of which the model's strides and windows leave none, "
           "expected at least 7");
    // A row of its own length, as texts have.
    ask_init(&ask, chain, ROWS, 12, &numbers, ASK_OPTIONAL);
    static const int64_t lengths[ROWS] = {12, 4};
    ask_input(&ask, "lengths")->data = (const uint8_t *)lengths;
    expect("input 'x': a sequence of 4 steps, of which the model's strides and windows leave none, "
           "expected at least 7");
}
END_TEST

/* Of n steps 3 are kept, and the fourth is taken. */
START_TEST(test_steps_that_are_kept_or_taken_must_be_there)
{
    chain->n_sequences = 2;
    chain->sequences[0].steps_min = 4;
    chain->sequences[1] = (struct cell_sequence){.stride = 1, .add = -5, .kept = 3, .source = 0};
    chain->outputs[0].sequence = 1;
    chain->outputs[0].dims[1] = CELL_DIM_ANY;
    ask_init(&ask, chain, ROWS, 12, &numbers, ASK_PLAIN);
    expect_ok();
    ck_assert_uint_eq(sequences.steps[1][0], 3);
    ck_assert_int_eq(ask.request.outputs[0].shape[1], 3);
    ask_release(&ask);
    ask_init(&ask, chain, ROWS, 3, &numbers, ASK_PLAIN);
    expect("input 'x': a sequence of 3 steps, of which the model takes some by their number, "
           "expected at least 5");
    ask_init(&ask, chain, ROWS, 4, &numbers, ASK_PLAIN);
    expect("input 'x': a sequence of 4 steps, of which the model's strides and windows leave none, "
           "expected at least 5");
}
END_TEST

/* Two steps are stacked, and three of those. */
START_TEST(test_steps_that_are_stacked_must_come_out_even)
{
    chain->n_sequences = 2;
    chain->sequences[0].multiple = 2;
    chain->sequences[1] =
        (struct cell_sequence){.stride = 2, .add = -2, .multiple = 3, .source = 0};
    chain->outputs[0].sequence = 1;
    ask_init(&ask, chain, ROWS, 12, &numbers, ASK_PLAIN);
    expect_ok();
    ck_assert_uint_eq(sequences.steps[1][0], 6);
    ask_release(&ask);
    ask_init(&ask, chain, ROWS, 7, &numbers, ASK_PLAIN);
    expect("input 'x': a sequence of 7 steps, which the model does not part evenly, expected a "
           "multiple of 2");
    ask_init(&ask, chain, ROWS, 8, &numbers, ASK_PLAIN);
    expect("input 'x': a sequence of 8 steps, which the model does not part evenly, expected a "
           "multiple of 6");
    uint32_t least[CELL_SEQUENCES_MAX];
    cell_model_steps_min(chain, least);
    ck_assert_uint_eq(least[0], 6);
    ck_assert_uint_eq(least[1], 3);
}
END_TEST

/* Each step makes 40, less 6 in all; of those, three and three are stacked, and each of these makes
 * some again. */
START_TEST(test_steps_that_are_made_of_parts)
{
    chain->n_sequences = 4;
    chain->sequences[1] = (struct cell_sequence){.parts = 40, .stride = 1, .add = -7, .source = 0};
    chain->sequences[2] = (struct cell_sequence){.stride = 3, .add = -3, .source = 1};
    chain->sequences[3] = (struct cell_sequence){.parts = 256, .stride = 1, .source = 2};
    chain->outputs[0].sequence = 1;
    ask_init(&ask, chain, ROWS, 12, &numbers, ASK_PLAIN);
    expect_ok();
    for (uint32_t b = 0; b < ROWS; b++) {
        ck_assert_uint_eq(sequences.steps[1][b], 12 * 40 - 6);
        ck_assert_uint_eq(sequences.steps[2][b], 474 / 3);
        ck_assert_uint_eq(sequences.steps[3][b], 158 * 256 + 1);
    }
    ck_assert_int_eq(ask.request.outputs[0].shape[1], 474);
    ask_release(&ask);
    uint32_t least[CELL_SEQUENCES_MAX];
    chain->sequences[2].steps_min = 12; // of 36 and 6
    cell_model_steps_min(chain, least);
    ck_assert_uint_eq(least[0], 2);
    chain->sequences[2].steps_min = 0;
    chain->sequences[1].multiple = 12; // 40 n
    chain->sequences[1].add = -1;
    cell_model_steps_min(chain, least);
    ck_assert_uint_eq(least[0], 3);
    chain->sequences[1].multiple = 6;
    chain->sequences[1].add = -1;
    ask_init(&ask, chain, ROWS, 4, &numbers, ASK_PLAIN);
    expect("input 'x': a sequence of 4 steps, which the model does not part evenly, expected a "
           "multiple of 3");
    chain->sequences[1].multiple = 0;
    chain->sequences[1].parts = 1 << 20;
    chain->sequences[2].stride = 1;
    ask_init(&ask, chain, ROWS, 12, &numbers, ASK_PLAIN);
    expect("input 'x': a sequence of 12 steps, of which the model makes more than 2147483647");
}
END_TEST

START_TEST(test_a_model_with_neither_axis_known_runs_one_row_of_one_step)
{
    chain->inputs[0].optional = true;
    ask_chain(ASK_PLAIN);
    expect_ok();
    ck_assert_uint_eq(sequences.n_rows, 1);
    ck_assert_uint_eq(sequences.steps[0][0], 1);
    ask_release(&ask);
}
END_TEST

/* Cells see floats of them. */
START_TEST(test_elements_of_a_byte)
{
    static const struct {
        enum cell_form form;
        const char *datatype, *wrong;
        float of[3]; /* 0, 1 and 0x80 */
    } cases[] = {
        {CELL_FORM_BOOL, "BOOL", "UINT8", {0, 1, 1}},
        {CELL_FORM_U8, "UINT8", "FP32", {0, 1, 128}},
        {CELL_FORM_I8, "INT8", "UINT8", {0, 1, -128}},
    };
    static const uint8_t values[] = {0, 1, 0x80};
    uint8_t bytes[ROWS * STEPS * INPUTS];
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = values[i % 3];
    }
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char message[128];
        ask_chain(ASK_PLAIN);
        chain->inputs[0].form = cases[i].form;
        struct srv_tensor *x = ask_input(&ask, "x");
        x->datatype = cases[i].datatype;
        x->data = bytes;
        x->bytes = sizeof(bytes);
        expect_ok();
        const struct sched_tensor *rows = &sequences.inputs[0];
        ck_assert_int_eq(rows->step_bytes, INPUTS * 4);
        ck_assert_int_eq(rows->batch_bytes, STEPS * INPUTS * 4);
        for (size_t e = 0; e < sizeof(bytes); e++) {
            float got = 0;
            memcpy(&got, rows->data + 4 * e, sizeof(got));
            ck_assert(got == cases[i].of[e % 3]);
        }
        x->bytes = sizeof(bytes) - 1;
        (void)snprintf(message, sizeof(message),
                       "input 'x': 29 bytes, expected 30 for %s of shape [2,5,3]",
                       cases[i].datatype);
        ask.request.n_outputs = 0;
        expect(message);
        ask_chain(ASK_PLAIN);
        ask_input(&ask, "x")->datatype = cases[i].wrong;
        (void)snprintf(message, sizeof(message), "input 'x': datatype '%s', expected %s",
                       cases[i].wrong, cases[i].datatype);
        expect(message);
    }
    chain->inputs[0].form = CELL_FORM_OWN;
}
END_TEST

/* Doubles become the nearest floats, where there are such, and floats doubles, which are longer. */
START_TEST(test_elements_of_eight_bytes)
{
    double doubles[ROWS * STEPS * INPUTS];
    ask_chain(ASK_PLAIN);
    chain->inputs[0].form = chain->outputs[0].form = CELL_FORM_F64;
    struct srv_tensor *x = ask_input(&ask, "x");
    for (size_t i = 0; i < ROWS * STEPS * INPUTS; i++) {
        doubles[i] = 0.1 * (double)i;
    }
    x->datatype = "FP64";
    x->data = (const uint8_t *)doubles;
    x->bytes = sizeof(doubles);
    expect_ok();
    const struct sched_tensor *rows = &sequences.inputs[0];
    ck_assert_int_eq(rows->step_bytes, INPUTS * 4);
    for (size_t i = 0; i < ROWS * STEPS * INPUTS; i++) {
        const float wanted = (float)doubles[i];
        ck_assert_mem_eq(rows->data + 4 * i, &wanted, sizeof(wanted));
    }
    struct srv_tensor *answer = &ask.request.outputs[0];
    const size_t n = answer->bytes / sizeof(float);
    for (size_t i = 0; i < n; i++) {
        const float value = 0.1f * (float)i;
        memcpy(sequences.outputs[0].data + 4 * i, &value, sizeof(value));
    }
    srv_tensors_narrow(&ask.request, chain);
    ck_assert_str_eq(answer->datatype, "FP64");
    ck_assert_uint_eq(answer->bytes, 8 * n);
    for (size_t i = 0; i < n; i++) {
        const double wanted = (double)(0.1f * (float)i);
        ck_assert_mem_eq(answer->data + 8 * i, &wanted, sizeof(wanted));
    }
    doubles[7] = -1e39;
    ask.request.n_outputs = 0;
    expect("input 'x': the number at position 7 is beyond the largest float");
    ask_chain(ASK_PLAIN);
    doubles[7] = (double)-INFINITY;
    x = ask_input(&ask, "x");
    x->datatype = "FP64";
    x->data = (const uint8_t *)doubles;
    x->bytes = sizeof(doubles);
    expect_ok();
    ask_release(&ask);
    chain->inputs[0].form = chain->outputs[0].form = CELL_FORM_OWN;
}
END_TEST

/* Halves come at any address, and go out in the place of floats, which they are half of. */
START_TEST(test_elements_of_two_bytes)
{
    static const enum cell_form forms[] = {CELL_FORM_F16, CELL_FORM_BF16};
    static const uint16_t ones[] = {0x3C00, 0x3F80};
    uint8_t halves[ROWS * STEPS * INPUTS * 2 + 1];
    for (size_t f = 0; f < 2; f++) {
        ask_chain(ASK_PLAIN);
        chain->inputs[0].form = chain->outputs[0].form = forms[f];
        struct srv_tensor *x = ask_input(&ask, "x");
        for (size_t i = 0; i < ROWS * STEPS * INPUTS; i++) {
            memcpy(halves + 1 + 2 * i, &ones[f], sizeof(ones[f]));
        }
        x->datatype = f == 0 ? "FP16" : "BF16";
        x->data = halves + 1;
        x->bytes = sizeof(halves) - 1;
        expect_ok();
        const struct sched_tensor *rows = &sequences.inputs[0];
        ck_assert_int_eq(rows->step_bytes, INPUTS * 4);
        for (size_t i = 0; i < ROWS * STEPS * INPUTS; i++) {
            float got = 0;
            memcpy(&got, rows->data + 4 * i, sizeof(got));
            ck_assert(got == 1.0f);
        }
        struct srv_tensor *answer = &ask.request.outputs[0];
        ck_assert_str_eq(answer->name, chain->outputs[0].name);
        const size_t n = answer->bytes / sizeof(float);
        for (size_t i = 0; i < n; i++) {
            const float value = 1.0f;
            memcpy(sequences.outputs[0].data + 4 * i, &value, sizeof(value));
        }
        srv_tensors_narrow(&ask.request, chain);
        ck_assert_str_eq(answer->datatype, x->datatype);
        ck_assert_uint_eq(answer->bytes, 2 * n);
        for (size_t i = 0; i < n; i++) {
            ck_assert_mem_eq(answer->data + 2 * i, &ones[f], 2);
        }
        x->bytes--;
        ask.request.n_outputs = 0;
        expect(f == 0 ? "input 'x': 59 bytes, expected 60 for FP16 of shape [2,5,3]"
                      : "input 'x': 59 bytes, expected 60 for BF16 of shape [2,5,3]");
    }
    chain->inputs[0].form = chain->outputs[0].form = CELL_FORM_OWN;
}
END_TEST

START_TEST(test_unaligned_data_is_copied_once)
{
    for (size_t shift = 1; shift < 8; shift++) {
        ask_init(&ask, tokens, ROWS, STEPS, &numbers, ASK_PLAIN);
        struct srv_tensor *input = ask_input(&ask, "tokens");
        uint8_t *moved = base_arena_alloc(&ask.request.arena, input->bytes + shift);
        ck_assert_ptr_nonnull(moved);
        memcpy(moved + shift, input->data, input->bytes);
        const uint8_t *before = input->data;
        input->data = moved + shift;
        expect_ok();
        ck_assert_uint_eq((uintptr_t)sequences.inputs[0].data % 8, 0);
        ck_assert_ptr_ne(sequences.inputs[0].data, input->data);
        ck_assert_mem_eq(sequences.inputs[0].data, before, input->bytes);
        ask_release(&ask);
    }
}
END_TEST

START_TEST(test_four_byte_data_needs_only_four_byte_addresses)
{
    ask_chain(ASK_PLAIN);
    struct srv_tensor *x = ask_input(&ask, "x");
    uint8_t *moved = base_arena_alloc(&ask.request.arena, x->bytes + 4);
    ck_assert_ptr_nonnull(moved);
    x->data = moved + 4;
    expect_ok();
    ck_assert_ptr_eq(sequences.inputs[0].data, moved + 4);
    ask_release(&ask);
}
END_TEST

/* ---- Names ---- */

START_TEST(test_a_missing_input_is_named)
{
    ask_chain(ASK_PLAIN);
    ask.request.n_inputs = 0;
    expect("input 'x' is missing");
}
END_TEST

START_TEST(test_a_duplicate_input_is_named)
{
    ask_chain(ASK_PLAIN);
    ask.request.inputs[ask.request.n_inputs++] = *ask_input(&ask, "x");
    expect("input 'x' came twice");
}
END_TEST

START_TEST(test_an_unknown_input_is_named)
{
    ask_chain(ASK_OPTIONAL);
    ask_input(&ask, "h0")->name = "h1";
    expect("input 'h1' is not one of the model's 4 inputs");
}
END_TEST

START_TEST(test_an_endless_name_is_cut)
{
    char name[2000];
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    const char *wanted[] = {name};
    ask_chain(ASK_PLAIN);
    ask_input(&ask, "x")->name = name;
    ck_assert_int_eq(validate(), BASE_INVALID_ARGUMENT);
    ck_assert_uint_lt(strlen(error.message), 200);
    ask_input(&ask, name)->name = "x";
    ask.request.wanted = wanted;
    ask.request.n_wanted = 1;
    ck_assert_int_eq(validate(), BASE_INVALID_ARGUMENT);
    ck_assert_uint_lt(strlen(error.message), 200);
    ask_release(&ask);
}
END_TEST

START_TEST(test_an_unknown_output_is_named)
{
    const char *wanted[] = {"h", "logits"};
    ask_chain(ASK_PLAIN);
    ask.request.wanted = wanted;
    ask.request.n_wanted = 2;
    expect("output 'logits' is not one of the model's 3 outputs");
}
END_TEST

START_TEST(test_a_duplicate_output_is_named)
{
    const char *wanted[] = {"h", "c", "h"};
    ask_chain(ASK_PLAIN);
    ask.request.wanted = wanted;
    ask.request.n_wanted = 3;
    expect("output 'h' is asked for twice");
}
END_TEST

START_TEST(test_more_outputs_than_there_are)
{
    const char *wanted[] = {"h", "c", "y", "h"};
    ask_chain(ASK_PLAIN);
    ask.request.wanted = wanted;
    ask.request.n_wanted = 4;
    expect("4 outputs asked for, the model has 3");
}
END_TEST

/* ---- Types and shapes ---- */

START_TEST(test_a_wrong_datatype_is_named)
{
    ask_chain(ASK_PLAIN);
    ask_input(&ask, "x")->datatype = "FP64";
    expect("input 'x': datatype 'FP64', expected FP32");
}
END_TEST

START_TEST(test_an_empty_datatype_is_refused)
{
    ask_init(&ask, tokens, 1, 1, &numbers, ASK_PLAIN);
    ask_input(&ask, "tokens")->datatype = "";
    expect("input 'tokens': datatype '', expected INT64");
}
END_TEST

START_TEST(test_a_wrong_rank_shows_both_shapes)
{
    ask_chain(ASK_PLAIN);
    ask_input(&ask, "x")->rank = 2;
    expect("input 'x': shape [2,5], expected [-1,-1,3]");
}
END_TEST

START_TEST(test_a_scalar_shows_as_empty_brackets)
{
    ask_chain(ASK_PLAIN);
    ask_input(&ask, "x")->rank = 0;
    expect("input 'x': shape [], expected [-1,-1,3]");
}
END_TEST

START_TEST(test_a_wrong_width_shows_both_shapes)
{
    ask_chain(ASK_PLAIN);
    ask_input(&ask, "x")->shape[2] = INPUTS + 1;
    expect("input 'x': shape [2,5,4], expected [-1,-1,3]");
}
END_TEST

START_TEST(test_a_fixed_batch_is_kept)
{
    ask_init(&ask, lone, 1, 3, &numbers, ASK_PLAIN);
    ask_input(&ask, "x")->shape[0] = 2;
    expect("input 'x': shape [2,3], expected [1,-1]");
}
END_TEST

START_TEST(test_a_negative_dimension_is_refused)
{
    ask_chain(ASK_PLAIN);
    ask_input(&ask, "x")->shape[0] = -1;
    expect("input 'x': shape [-1,5,3], expected [-1,-1,3]: a dimension is negative");
}
END_TEST

START_TEST(test_a_shape_beyond_any_memory_is_refused)
{
    ask_chain(ASK_PLAIN);
    struct srv_tensor *x = ask_input(&ask, "x");
    x->shape[0] = x->shape[1] = INT64_MAX;
    expect("input 'x': shape [9223372036854775807,9223372036854775807,3], expected [-1,-1,3]: too "
           "large");
}
END_TEST

START_TEST(test_a_shape_that_wraps_to_the_right_bytes_is_refused)
{
    // 2^62 * 4 * 3 wraps to 0 in 64 bits.
    ask_chain(ASK_PLAIN);
    struct srv_tensor *x = ask_input(&ask, "x");
    x->shape[0] = (int64_t)1 << 61;
    x->shape[1] = 8;
    x->bytes = 0;
    ck_assert_int_eq(validate(), BASE_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(error.message, ": too large"));
    ask_release(&ask);
}
END_TEST

START_TEST(test_too_few_and_too_many_bytes_are_told)
{
    ask_chain(ASK_PLAIN);
    ask_input(&ask, "x")->bytes--;
    expect("input 'x': 119 bytes, expected 120 for FP32 of shape [2,5,3]");
    ask_chain(ASK_PLAIN);
    ask_input(&ask, "x")->bytes++;
    expect("input 'x': 121 bytes, expected 120 for FP32 of shape [2,5,3]");
    ask_chain(ASK_PLAIN);
    ask_input(&ask, "x")->bytes = 0;
    expect("input 'x': 0 bytes, expected 120 for FP32 of shape [2,5,3]");
}
END_TEST

/* ---- Extents ---- */

START_TEST(test_inputs_must_agree_on_the_batch)
{
    ask_chain(ASK_OPTIONAL);
    struct srv_tensor *h0 = ask_input(&ask, "h0");
    h0->shape[0] = 1;
    expect("input 'h0': 1 on its batch axis, but input 'x' has 2");
}
END_TEST

START_TEST(test_inputs_must_agree_on_the_time)
{
    ask_chain(ASK_OPTIONAL);
    // h0 becomes [batch, time].
    chain->inputs[1].dims[1] = CELL_DIM_ANY;
    chain->inputs[1].time_axis = 1;
    expect("input 'h0': 4 on its time axis, but input 'x' has 5");
}
END_TEST

START_TEST(test_a_batch_of_no_rows_is_refused)
{
    ask_chain(ASK_PLAIN);
    struct srv_tensor *x = ask_input(&ask, "x");
    x->shape[0] = 0;
    x->bytes = 0;
    x->data = NULL;
    expect("input 'x': a batch of no rows");
}
END_TEST

START_TEST(test_an_empty_sequence_is_refused)
{
    ask_chain(ASK_PLAIN);
    struct srv_tensor *x = ask_input(&ask, "x");
    x->shape[1] = 0;
    x->bytes = 0;
    expect("input 'x': an empty sequence, expected 1..16 steps");
}
END_TEST

START_TEST(test_the_longest_sequence_passes_and_one_more_does_not)
{
    ask_init(&ask, tokens, 1, STEPS_MAX, &numbers, ASK_PLAIN);
    expect_ok();
    ask_release(&ask);
    ask_init(&ask, tokens, 1, STEPS_MAX + 1, &numbers, ASK_PLAIN);
    expect("input 'tokens': a sequence of 17 steps, expected 1..16");
}
END_TEST

static void set_length(uint32_t row, int64_t length)
{
    struct srv_tensor *lengths = ask_input(&ask, "lengths");
    int64_t *copy = base_arena_array(&ask.request.arena, ROWS, sizeof(*copy));
    ck_assert_ptr_nonnull(copy);
    for (uint32_t i = 0; i < ROWS; i++) {
        copy[i] = i == row ? length : 1;
    }
    lengths->data = (const uint8_t *)copy;
}

/* Of steps that a stride has left: lengths in steps of before. */
START_TEST(test_lengths_that_are_divided)
{
    static const struct {
        int64_t length;
        const char *message;
    } cases[] = {{1, NULL},
                 {10, NULL},
                 {0, "input 'lengths': length 0 of row 1, expected 1..10"},
                 {11, "input 'lengths': length 11 of row 1, expected 1..10"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct cell_tensor *tensor = NULL;
        for (uint32_t k = 0; k < chain->n_inputs; k++) {
            tensor = chain->inputs[k].is_lengths ? &chain->inputs[k] : tensor;
        }
        ck_assert_ptr_nonnull(tensor);
        tensor->told = (struct cell_told){.add = 1, .over = 2, .least = 1};
        ask_chain(ASK_OPTIONAL);
        set_length(1, cases[i].length);
        if (cases[i].message != NULL) {
            expect(cases[i].message);
        } else {
            expect_ok();
            ask_release(&ask);
        }
        tensor->told = (struct cell_told){.add = 0};
    }
}
END_TEST

START_TEST(test_lengths_outside_the_sequence_are_refused)
{
    const struct {
        uint32_t row;
        int64_t length;
        const char *message;
    } cases[] = {
        {1, -1, "input 'lengths': length -1 of row 1, expected 0..5"},
        {1, 6, "input 'lengths': length 6 of row 1, expected 0..5"},
        {1, INT64_MAX, "input 'lengths': length 9223372036854775807 of row 1, expected 0..5"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ask_chain(ASK_OPTIONAL);
        set_length(cases[i].row, cases[i].length);
        expect(cases[i].message);
    }
}
END_TEST

/* ---- Ids ---- */

static void set_token(size_t position, int64_t id)
{
    struct srv_tensor *input = ask_input(&ask, "tokens");
    uint8_t *copy = base_arena_alloc(&ask.request.arena, input->bytes);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, input->data, input->bytes);
    memcpy(copy + position * sizeof(id), &id, sizeof(id));
    input->data = copy;
}

START_TEST(test_ids_outside_the_table_are_refused)
{
    const struct {
        int64_t id;
        const char *message;
    } cases[] = {
        {MODELS_TOKENS, "input 'tokens': id 32 at position 7, expected 0..31"},
        {-1, "input 'tokens': id -1 at position 7, expected 0..31"},
        {INT64_MIN, "input 'tokens': id -9223372036854775808 at position 7, expected 0..31"},
        {(int64_t)1 << 32, "input 'tokens': id 4294967296 at position 7, expected 0..31"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ask_init(&ask, tokens, ROWS, STEPS, &numbers, ASK_PLAIN);
        set_token(7, cases[i].id);
        expect(cases[i].message);
    }
    ask_init(&ask, tokens, ROWS, STEPS, &numbers, ASK_PLAIN);
    set_token(9, MODELS_TOKENS - 1);
    set_token(0, 0);
    expect_ok();
    ask_release(&ask);
}
END_TEST

START_TEST(test_narrow_ids_are_checked_too)
{
    ask_init(&ask, lone, 1, 3, &numbers, ASK_PLAIN);
    const int32_t ids[3] = {0, 31, -5};
    ask_input(&ask, "x")->data = (const uint8_t *)ids;
    expect("input 'x': id -5 at position 2, expected 0..31");
}
END_TEST

/* Keras takes words as floats; what is left when they are cut to integers must be in the table. */
START_TEST(test_ids_that_are_floats_are_checked_too)
{
    const struct {
        float id;
        const char *message;
    } cases[] = {
        {32.0f, "input 'x': id 32 at position 2, expected 0..31"},
        {-0.5f, "input 'x': id -0.5 at position 2, expected 0..31"},
        {1e30f, "input 'x': id 1e+30 at position 2, expected 0..31"},
        {INFINITY, "input 'x': id inf at position 2, expected 0..31"},
        {NAN, "input 'x': id nan at position 2, expected 0..31"},
        {31.75f, NULL},
    };
    chain->inputs[0].id_bound = MODELS_TOKENS;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        float ids[ROWS * STEPS * INPUTS] = {0.0f};
        ids[2] = cases[i].id;
        ask_chain(ASK_PLAIN);
        ask_input(&ask, "x")->data = (const uint8_t *)ids;
        if (cases[i].message != NULL) {
            expect(cases[i].message);
        } else {
            expect_ok();
            ask_release(&ask);
        }
    }
}
END_TEST

/* What the model cuts to a table's: any id below 0, none beyond the table. */
START_TEST(test_ids_below_zero_where_the_model_cuts_them)
{
    static const struct {
        int64_t id;
        const char *message;
    } cases[] = {
        {-1, NULL},
        {INT64_MIN, NULL},
        {MODELS_TOKENS - 1, NULL},
        {MODELS_TOKENS, "input 'tokens': id 32 at position 1, expected at most 31"},
    };
    tokens->inputs[0].ids_below_zero = true;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ask_init(&ask, tokens, ROWS, STEPS, &numbers, ASK_PLAIN);
        set_token(1, cases[i].id);
        if (cases[i].message != NULL) {
            expect(cases[i].message);
        } else {
            expect_ok();
            ask_release(&ask);
        }
    }
}
END_TEST

/* Each element of a row has a table of its own, or none: that of which there is one too many. */
START_TEST(test_ids_beside_each_other_have_bounds_of_their_own)
{
    static const struct {
        size_t at;
        float id;
        int32_t most; /* -1: it is in its table */
    } cases[] = {
        {0, 1e9f, -1}, // no id
        {1, 6.0f, -1},  {1, 7.0f, 6},   {INPUTS + 1, 7.0f, 6}, {INPUTS + 1, -1.0f, 6},
        {2, 23.0f, -1}, {2, 24.0f, 23}, {2, NAN, 23},
    };
    chain->inputs[0].n_id_bounds = INPUTS;
    chain->inputs[0].id_bounds[1] = 7;
    chain->inputs[0].id_bounds[2] = 24;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        float ids[ROWS * STEPS * INPUTS] = {0.0f};
        char message[128];
        ids[cases[i].at] = cases[i].id;
        ask_chain(ASK_PLAIN);
        ask_input(&ask, "x")->data = (const uint8_t *)ids;
        if (cases[i].most >= 0) {
            (void)snprintf(message, sizeof(message),
                           "input 'x': id %g at position %zu, expected 0..%d", (double)cases[i].id,
                           cases[i].at, cases[i].most);
            expect(message);
        } else {
            expect_ok();
            ask_release(&ask);
        }
    }
    ck_assert_int_eq(cell_tensor_ids_below(&chain->inputs[0]), 7);
}
END_TEST

/* Numbers of steps: of tokens, which go on as steps of themselves. */
START_TEST(test_numbers_of_steps_are_of_steps_that_are_there)
{
    static const struct {
        int32_t add;
        uint32_t over;
        bool is_clipped, is_cut;
        int64_t said;
        const char *message;
    } cases[] = {
        {1, 2, false, false, 8, NULL},
        {1, 2, false, false, 9, "input 'tokens': 9 of row 1, expected 0..8"},
        {1, 2, false, false, -1, "input 'tokens': -1 of row 1, expected 0..8"},
        {-1, 0, false, false, STEPS, NULL},
        {-1, 0, false, false, 1, NULL},
        {-1, 0, false, false, 0, "input 'tokens': 0 of row 1, expected 1..5"},
        {-1, 0, false, false, STEPS + 1, "input 'tokens': 6 of row 1, expected 1..5"},
        {-1, 0, true, false, 0, NULL},
        {-1, 0, true, false, -3, NULL},
        {-1, 0, true, false, STEPS + 1, "input 'tokens': 6 of row 1, expected at most 5"},
        {0, 0, false, false, STEPS, "input 'tokens': 5 of row 1, expected 0..4"},
        {2, 0, false, false, -2, NULL},
        {2, 0, false, false, INT64_MAX,
         "input 'tokens': 9223372036854775807 of row 1, expected -2..2"},
        {2, 0, false, false, INT64_MIN,
         "input 'tokens': -9223372036854775808 of row 1, expected -2..2"},
        {-1, 0, false, true, STEPS + 3, NULL},
        {-1, 0, true, true, INT32_MAX, NULL},
        {-1, 0, false, true, 0, "input 'tokens': 0 of row 1, expected 1..2147483647"},
        {-1, 0, true, true, INT64_MAX,
         "input 'tokens': 9223372036854775807 of row 1, expected at most 2147483647"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct cell_tensor *tensor = &tokens->inputs[0];
        tensor->id_bound = 0;
        tensor->is_step = true;
        tensor->told = (struct cell_told){.add = cases[i].add, .over = cases[i].over};
        tensor->step_is_clipped = cases[i].is_clipped;
        tensor->step_is_ended = cases[i].is_cut;
        ask_init(&ask, tokens, ROWS, STEPS, &numbers, ASK_PLAIN);
        set_token(0, 1); // of row 0
        set_token(STEPS, cases[i].said);
        if (cases[i].add == 2) {
            set_token(0, 0);
        }
        if (cases[i].message != NULL) {
            expect(cases[i].message);
        } else {
            expect_ok();
            ask_release(&ask);
        }
    }
}
END_TEST

START_TEST(test_ids_at_odd_addresses_are_checked_too)
{
    ask_init(&ask, tokens, ROWS, STEPS, &numbers, ASK_PLAIN);
    set_token(3, 99);
    struct srv_tensor *input = ask_input(&ask, "tokens");
    uint8_t *moved = base_arena_alloc(&ask.request.arena, input->bytes + 1);
    ck_assert_ptr_nonnull(moved);
    memcpy(moved + 1, input->data, input->bytes);
    input->data = moved + 1;
    expect("input 'tokens': id 99 at position 3, expected 0..31");
}
END_TEST

/* ---- Memory ---- */

START_TEST(test_outputs_beyond_the_requests_memory_are_refused)
{
    ask_chain(ASK_PLAIN);
    ask.request.arena.budget_bytes = ask.request.arena.used_bytes;
    uint8_t *rest = NULL;
    do {
        rest = base_arena_alloc(&ask.request.arena, 256);
    } while (rest != NULL);
    ck_assert_int_eq(validate(), BASE_RESOURCE_EXHAUSTED);
    ck_assert_int_eq(error.status, BASE_RESOURCE_EXHAUSTED);
    ck_assert_str_ne(error.message, "");
    ask_release(&ask);
}
END_TEST

START_TEST(test_every_allocation_may_fail)
{
    enum base_status status = BASE_RESOURCE_EXHAUSTED;
    for (size_t chunk = 1; status != BASE_OK; chunk++) {
        ck_assert_uint_lt(chunk, 100);
        ask_init(&ask, chain, 8, STEPS_MAX, &numbers, ASK_OPTIONAL);
        struct srv_tensor *x = ask_input(&ask, "x");
        uint8_t *moved = base_arena_alloc(&ask.request.arena, x->bytes + 1);
        ck_assert_ptr_nonnull(moved);
        x->data = moved + 1;
        // Everything that is taken now comes from new chunks, as small as they may be.
        ask.request.arena.chunk_bytes = 256;
        base_alloc_fail_at(chunk);
        status = validate();
        base_alloc_fail_at(0);
        ck_assert(status == BASE_OK || status == BASE_RESOURCE_EXHAUSTED);
        ck_assert_int_eq(status, error.status);
        ask_release(&ask);
    }
}
END_TEST

static TCase *good_case(void)
{
    TCase *tcase = tcase_create("good");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_a_good_request_is_laid_out);
    tcase_add_test(tcase, test_optional_inputs_may_be_left_out);
    tcase_add_test(tcase, test_outputs_come_in_the_order_asked_for);
    tcase_add_test(tcase, test_a_lone_sequence_is_one_row);
    tcase_add_test(tcase, test_steps_that_follow_from_others);
    tcase_add_test(tcase, test_too_few_steps_to_follow_from_are_refused);
    tcase_add_test(tcase, test_steps_that_are_kept_or_taken_must_be_there);
    tcase_add_test(tcase, test_steps_that_are_stacked_must_come_out_even);
    tcase_add_test(tcase, test_steps_that_are_made_of_parts);
    tcase_add_test(tcase, test_a_model_with_neither_axis_known_runs_one_row_of_one_step);
    tcase_add_test(tcase, test_elements_of_a_byte);
    tcase_add_test(tcase, test_elements_of_two_bytes);
    tcase_add_test(tcase, test_elements_of_eight_bytes);
    tcase_add_test(tcase, test_unaligned_data_is_copied_once);
    tcase_add_test(tcase, test_four_byte_data_needs_only_four_byte_addresses);
    return tcase;
}

static TCase *bad_case(void)
{
    TCase *tcase = tcase_create("bad");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_a_missing_input_is_named);
    tcase_add_test(tcase, test_a_duplicate_input_is_named);
    tcase_add_test(tcase, test_an_unknown_input_is_named);
    tcase_add_test(tcase, test_an_endless_name_is_cut);
    tcase_add_test(tcase, test_an_unknown_output_is_named);
    tcase_add_test(tcase, test_a_duplicate_output_is_named);
    tcase_add_test(tcase, test_more_outputs_than_there_are);
    tcase_add_test(tcase, test_a_wrong_datatype_is_named);
    tcase_add_test(tcase, test_an_empty_datatype_is_refused);
    tcase_add_test(tcase, test_a_wrong_rank_shows_both_shapes);
    tcase_add_test(tcase, test_a_scalar_shows_as_empty_brackets);
    tcase_add_test(tcase, test_a_wrong_width_shows_both_shapes);
    tcase_add_test(tcase, test_a_fixed_batch_is_kept);
    tcase_add_test(tcase, test_a_negative_dimension_is_refused);
    tcase_add_test(tcase, test_a_shape_beyond_any_memory_is_refused);
    tcase_add_test(tcase, test_a_shape_that_wraps_to_the_right_bytes_is_refused);
    tcase_add_test(tcase, test_too_few_and_too_many_bytes_are_told);
    tcase_add_test(tcase, test_inputs_must_agree_on_the_batch);
    tcase_add_test(tcase, test_inputs_must_agree_on_the_time);
    tcase_add_test(tcase, test_a_batch_of_no_rows_is_refused);
    tcase_add_test(tcase, test_an_empty_sequence_is_refused);
    tcase_add_test(tcase, test_the_longest_sequence_passes_and_one_more_does_not);
    tcase_add_test(tcase, test_lengths_outside_the_sequence_are_refused);
    tcase_add_test(tcase, test_lengths_that_are_divided);
    tcase_add_test(tcase, test_ids_outside_the_table_are_refused);
    tcase_add_test(tcase, test_narrow_ids_are_checked_too);
    tcase_add_test(tcase, test_ids_that_are_floats_are_checked_too);
    tcase_add_test(tcase, test_ids_beside_each_other_have_bounds_of_their_own);
    tcase_add_test(tcase, test_ids_below_zero_where_the_model_cuts_them);
    tcase_add_test(tcase, test_numbers_of_steps_are_of_steps_that_are_there);
    tcase_add_test(tcase, test_ids_at_odd_addresses_are_checked_too);
    tcase_add_test(tcase, test_outputs_beyond_the_requests_memory_are_refused);
    tcase_add_test(tcase, test_every_allocation_may_fail);
    return tcase;
}

int main(void)
{
    Suite *suite = suite_create("validate");
    suite_add_tcase(suite, good_case());
    suite_add_tcase(suite, bad_case());
    return util_run(suite);
}
