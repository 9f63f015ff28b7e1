/* ATTEND on the CPU device: rows that each read a memory of their own length, against the oracle;
 * the same bits on every instruction set and on two threads; and in importing, every way in which
 * exporters write it, and what is no attention. */
#include "base/mem.h"
#include "tests/cells/isa.h"
#include "tests/cells/oracle.h"
#include "tests/cells/rig.h"
#include "tests/onnx_builder.h"
#include "tests/util.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cells/model.h"

/* ---- The device --------------------------------------------------------------------------- */

enum { ROWS = 9, STEPS = 3, LONGEST = 70 };

static const struct shape {
    uint32_t width, value_width, longest;
} shapes[] = {{1, 1, 1}, {7, 3, 5}, {16, 16, 17}, {33, 20, LONGEST}, {256, 130, LONGEST}};
enum { SHAPES = sizeof(shapes) / sizeof(shapes[0]), VARIANTS = CELL_ATTEND_LARGEST + 1 };

/* Each variant, the first two with bounds, and products with relative positions too. */
enum { BOUNDED = VARIANTS, RELATIVE = VARIANTS + 2, WAYS = RELATIVE + 2 };

/* The last two: a table of a width of its own, and of one number a row. */
static uint32_t table_width(uint32_t way)
{
    return way == RELATIVE ? 21 : 1;
}

enum { TABLE_ROWS = 9 };

/* What a case's chains read. */
struct memory {
    uint32_t n;
    float *keys, *values;
};

static void build_attend(struct build *build, const struct shape *shape, uint32_t way)
{
    const uint32_t variant = way >= RELATIVE ? CELL_ATTEND_PRODUCT : way % VARIANTS;
    build_init(build, 3);
    const bool is_largest = variant == CELL_ATTEND_LARGEST; // V is K, the result one number
    const uint32_t width = is_largest ? 1 : shape->value_width;
    const uint32_t q = build_input(build, CELL_F32, shape->width);
    const uint32_t keys = build_input(build, CELL_F32, shape->width);
    const uint32_t values = build_input(build, CELL_F32, shape->value_width);
    const uint32_t bounds =
        way < BOUNDED ? 0 : build_input(build, CELL_F32, way < RELATIVE ? 2 : 3);
    const uint32_t relative = way < RELATIVE ? 0 : build_input(build, CELL_F32, table_width(way));
    const uint32_t sum = build_state(build, CELL_F32, width);
    const uint32_t out = build_op(build, CELL_OP_ATTEND, q, keys, width);
    struct cell_op *op = build_last(build);
    op->operands[op->n_operands++] = is_largest ? keys : values;
    if (way >= BOUNDED) {
        op->operands[op->n_operands++] = bounds;
    }
    op->variant = variant;
    op->n_weights = 1;
    if (way >= RELATIVE) {
        const uint32_t cols = table_width(way);
        op->operands[op->n_operands++] = relative;
        op->weights[op->n_weights++] = (struct cell_weight){
            CELL_F32, TABLE_ROWS, cols, build_floats(build, TABLE_ROWS, cols, 1.0f)};
    }
    op->weights[0] =
        (struct cell_weight){CELL_F32, 1, shape->width, build_floats(build, 1, shape->width, 1.0f)};
    const uint32_t next = build_op(build, CELL_OP_ADD, sum, out, width);
    build_next(build, 0, next);
    build_output(build, out);
}

static float *random_floats(size_t n, struct base_random *random)
{
    float *floats = base_alloc_array(n, sizeof(*floats));
    ck_assert_ptr_nonnull(floats);
    for (size_t i = 0; i < n; i++) {
        floats[i] = base_random_f32(random, -2.0f, 2.0f);
    }
    return floats;
}

static double at(const float *rows, size_t width, size_t row, size_t i)
{
    return (double)rows[row * width + i];
}

/* Bounds of each step: within n rows and beyond them, in any order, whole, broken and no numbers.
 * The third is where a table begins: before it, within and behind. */
static void draw_bounds(uint32_t width, uint32_t n, struct base_random *random, uint8_t *to)
{
    for (uint32_t i = 0; i < width * STEPS; i++) {
        const bool begins = i % width == 2;
        const float low = begins ? -12.0f : -2.0f;
        const float high = begins ? TABLE_ROWS + 2.0f : (float)n + 3.0f;
        float bound = floorf(base_random_f32(random, low, high));
        bound += base_random_below(random, 4) == 0 ? 0.5f : 0.0f;
        bound = base_random_below(random, 20) == 0 ? NAN : bound;
        memcpy(to + i * sizeof(bound), &bound, sizeof(bound));
    }
}

/* What a step reads of inputs 3 and 4, NULL without. */
struct extras {
    const float *bounds, *relative;
};

/* One step of one row, in double precision. */
static void expect_row(const struct cell_def *def, const struct shape *shape, const float *q,
                       const struct extras *extras, const struct memory *memory, const float *got)
{
    struct oracle oracle;
    oracle_init(&oracle, def);
    double *keys = base_alloc_array((size_t)memory->n * shape->width + 1, sizeof(double));
    double *values = base_alloc_array((size_t)memory->n * shape->value_width + 1, sizeof(double));
    ck_assert(keys != NULL && values != NULL);
    for (size_t i = 0; i < (size_t)memory->n * shape->width; i++) {
        keys[i] = at(memory->keys, 1, i, 0);
    }
    for (size_t i = 0; i < (size_t)memory->n * shape->value_width; i++) {
        values[i] = at(memory->values, 1, i, 0);
    }
    for (uint32_t i = 0; i < shape->width; i++) {
        oracle.values[0][i] = (double)q[i];
    }
    for (uint32_t i = 0; extras->bounds != NULL && i < def->values[3].width; i++) {
        oracle.values[3][i] = (double)extras->bounds[i];
    }
    for (uint32_t i = 0; extras->relative != NULL && i < def->values[4].width; i++) {
        oracle.values[4][i] = (double)extras->relative[i];
    }
    oracle.rows[1] = keys;
    oracle.rows[2] = values;
    oracle.n_rows[1] = oracle.n_rows[2] = memory->n;
    oracle_step(&oracle);
    for (uint32_t i = 0; i < def->values[def->outputs[0]].width; i++) {
        util_assert_close(got[i], oracle.values[def->outputs[0]][i], 1e-5, 1e-5);
    }
    oracle_release(&oracle);
    base_free(keys);
    base_free(values);
}

/* What step s reads of an input that there may be. */
static const float *step_of(const struct cell_def *def, const struct rig_chain *chain,
                            uint32_t input, uint32_t s)
{
    return def->n_inputs > input ? (const float *)(const void *)chain->inputs[input] +
                                       (size_t)s * def->values[input].width
                                 : NULL;
}

/* On the card without an instruction set. All outputs of ROWS chains, each [STEPS][value_width],
 * ended with base_free(); checked when it is asked for. */
static uint8_t *run_rows(const char *isa, uint32_t members, const struct build *build,
                         const struct shape *shape, bool is_checked)
{
    static struct rig_chain chains[ROWS];
    struct memory memories[ROWS];
    struct cell_batch_row rows[ROWS];
    struct base_random random = util_random(4);
    struct rig rig;
    const uint32_t width = build->def.values[build->def.outputs[0]].width;
    const size_t bytes = (size_t)STEPS * width * sizeof(float);
    uint8_t *all = base_alloc(ROWS * bytes);
    ck_assert_ptr_nonnull(all);
    rig_init(&rig, isa == NULL ? "cuda-host" : "cpu", isa, members, &build->def);
    for (uint32_t r = 0; r < ROWS; r++) {
        struct memory *memory = &memories[r];
        memory->n = r == 0 ? 0 : 1 + base_random_below(&random, shape->longest);
        memory->keys = random_floats((size_t)(memory->n + 1) * shape->width, &random);
        memory->values = random_floats((size_t)(memory->n + 1) * shape->value_width, &random);
        rig_chain_init(&chains[r], rig.type, r, STEPS, &random);
        struct cell_ref *inputs = chains[r].wiring.inputs;
        inputs[1] = (struct cell_ref){.kind = CELL_REF_HOST,
                                      .host = (uint8_t *)memory->keys,
                                      .stride_bytes = (int64_t)shape->width * 4,
                                      .rows = memory->n};
        if (cell_def_input_has_rows(&build->def, 2)) { // else it is read by nobody, step by step
            inputs[2] = (struct cell_ref){.kind = CELL_REF_HOST,
                                          .host = (uint8_t *)memory->values,
                                          .stride_bytes = (int64_t)shape->value_width * 4,
                                          .rows = memory->n};
        }
        if (build->def.n_inputs > 3) {
            draw_bounds(build->def.values[3].width, memory->n, &random, chains[r].inputs[3]);
        }
        rows[r] = rig_chain_row(&chains[r], STEPS);
    }
    struct cell_batch batch = {.n_rows = ROWS, .steps = STEPS, .rows = rows};
    rig_run(&rig, &batch);
    for (uint32_t r = 0; r < ROWS; r++) {
        memcpy(all + r * bytes, chains[r].outputs[0], bytes);
        for (uint32_t s = 0; s < STEPS && is_checked; s++) {
            const float *q = (const float *)(const void *)chains[r].inputs[0] + s * shape->width;
            const float *got = (const float *)(const void *)chains[r].outputs[0] + s * width;
            const struct extras extras = {step_of(&build->def, &chains[r], 3, s),
                                          step_of(&build->def, &chains[r], 4, s)};
            expect_row(&build->def, shape, q, &extras, &memories[r], got);
        }
        base_free(memories[r].keys);
        base_free(memories[r].values);
        rig_chain_release(&chains[r]);
    }
    rig_release(&rig);
    return all;
}

/* _i: of shapes, and ways. */
START_TEST(test_rows_attend_to_their_own)
{
    const struct shape *shape = &shapes[_i / WAYS];
    struct build build;
    build_attend(&build, shape, (uint32_t)_i % WAYS);
    const uint32_t width = build.def.values[build.def.outputs[0]].width;
    uint8_t *wanted = run_rows("scalar", 0, &build, shape, true);
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        for (uint32_t members = 0; members <= 2 && isa_at(isa) != NULL; members += 2) {
            uint8_t *got = run_rows(isa_name(isa), members, &build, shape, false);
            ck_assert_mem_eq(got, wanted, ROWS * STEPS * width * sizeof(float));
            base_free(got);
        }
    }
    uint8_t *got = run_rows(NULL, 0, &build, shape, false);
    ck_assert_mem_eq(got, wanted, ROWS * STEPS * width * sizeof(float));
    base_free(got);
    base_free(wanted);
    build_release(&build);
}
END_TEST

/* One step that attends to rows whose scores are their keys; out: [2]. */
static void run_scores(const char *isa, bool nan_is_zero, const struct memory *memory, float *out)
{
    static const struct shape shape = {1, 2, 4};
    static const float one = 1.0f;
    struct build build;
    struct rig rig;
    struct rig_chain chain;
    struct base_random random = util_random(4);
    build_attend(&build, &shape, CELL_ATTEND_PRODUCT);
    build.def.ops[0].weights[0].data = &one;
    build.def.ops[0].nan_is_zero = nan_is_zero;
    rig_init(&rig, isa == NULL ? "cuda-host" : "cpu", isa, 0, &build.def);
    rig_chain_init(&chain, rig.type, 0, 1, &random);
    memcpy(chain.inputs[0], &one, sizeof(one));
    chain.wiring.inputs[1] = (struct cell_ref){.kind = CELL_REF_HOST,
                                               .host = (uint8_t *)memory->keys,
                                               .stride_bytes = 4,
                                               .rows = memory->n};
    chain.wiring.inputs[2] = (struct cell_ref){.kind = CELL_REF_HOST,
                                               .host = (uint8_t *)memory->values,
                                               .stride_bytes = 8,
                                               .rows = memory->n};
    struct cell_batch_row row = rig_chain_row(&chain, 1);
    struct cell_batch batch = {.n_rows = 1, .steps = 1, .rows = &row};
    rig_run(&rig, &batch);
    memcpy(out, chain.outputs[0], 2 * sizeof(*out));
    rig_chain_release(&chain);
    rig_release(&rig);
    build_release(&build);
}

/* Scores of -inf, as masks make them, count nothing, the first ones neither; with no other score
 * there is no answer, as in ONNX, or zeros. */
START_TEST(test_masked_rows_count_nothing)
{
    float values[8] = {1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f, 7.0f, 8.0f};
    for (int isa = 0; isa <= ISA_COUNT; isa++) {
        float some[4] = {-INFINITY, -INFINITY, 0.5f, -INFINITY};
        float none[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
        float no_number[4] = {0.5f, NAN, 0.5f, 1.0f};
        const struct memory memories[] = {
            {4, some, values}, {4, none, values}, {4, no_number, values}};
        float out[2];
        if (isa < ISA_COUNT && isa_at(isa) == NULL) {
            continue;
        }
        const char *name = isa < ISA_COUNT ? isa_name(isa) : NULL;
        for (int nan_is_zero = 0; nan_is_zero < 2; nan_is_zero++) {
            run_scores(name, nan_is_zero == 1, &memories[0], out);
            ck_assert_double_eq((double)out[0], 5.0);
            ck_assert_double_eq((double)out[1], 6.0);
        }
        for (size_t i = 1; i < sizeof(memories) / sizeof(memories[0]); i++) {
            run_scores(name, false, &memories[i], out);
            ck_assert(isnan(out[0]) && isnan(out[1]));
            run_scores(name, true, &memories[i], out);
            ck_assert_double_eq((double)out[0], 0.0);
            ck_assert_double_eq((double)out[1], 0.0);
        }
    }
}
END_TEST

START_TEST(test_what_is_no_attention_is_no_definition)
{
    struct build build;
    struct base_error error;
    build_attend(&build, &shapes[2], 0);
    ck_assert_int_eq(cell_def_check(&build.def, &error), BASE_OK);
    build.def.ops[0].variant = CELL_ATTEND_LARGEST; // V is not K
    ck_assert_int_eq(cell_def_check(&build.def, &error), BASE_INVALID_ARGUMENT);
    build.def.ops[0].variant = CELL_ATTEND_LARGEST + 1;
    ck_assert_int_eq(cell_def_check(&build.def, &error), BASE_INVALID_ARGUMENT);
    build.def.ops[0].variant = 0;
    build.def.ops[0].operands[1] = 3; // the state
    ck_assert_int_eq(cell_def_check(&build.def, &error), BASE_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(error.message, "op 0 (ATTEND): K and V are not inputs"));
    build.def.ops[0].operands[1] = 1;
    build.def.outputs[0] = 2;
    ck_assert_int_eq(cell_def_check(&build.def, &error), BASE_INVALID_ARGUMENT);
    ck_assert_str_eq(error.message, "input 2: one op takes it for many rows, another for one");
    build.def.outputs[0] = build.def.state_next[0];
    build.def.ops[1].operands[0] = 1;
    ck_assert_int_eq(cell_def_check(&build.def, &error), BASE_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(error.message, "input 1: one op takes it for many rows"));
    build_release(&build);
    build_attend(&build, &shapes[2], BOUNDED);
    ck_assert_int_eq(cell_def_check(&build.def, &error), BASE_OK);
    build.def.values[3].width = 3;
    ck_assert_int_eq(cell_def_check(&build.def, &error), BASE_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(error.message, "the rows' bounds are not two floats"));
    build_release(&build);
    build_attend(&build, &shapes[0], BOUNDED); // K is as wide as V here
    build.def.ops[0].operands[2] = build.def.ops[0].operands[1];
    build.def.ops[0].variant = CELL_ATTEND_LARGEST;
    ck_assert_int_eq(cell_def_check(&build.def, &error), BASE_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(error.message, "or are those of a largest score"));
    build_release(&build);
}
END_TEST

START_TEST(test_a_largest_score_is_never_zeros_in_place_of_none)
{
    struct build build;
    struct base_error error;
    build_attend(&build, &shapes[2], CELL_ATTEND_LARGEST);
    ck_assert_int_eq(cell_def_check(&build.def, &error), BASE_OK);
    build.def.ops[0].nan_is_zero = true;
    ck_assert_int_eq(cell_def_check(&build.def, &error), BASE_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(error.message, "zeros in place of a largest score"));
    build_release(&build);
}
END_TEST

/* Zeros in place of no answer make another type. */
START_TEST(test_zeros_in_place_of_none_are_another_type)
{
    struct build builds[3];
    const struct cell_type *types[3];
    struct base_error error;
    struct cell_registry *registry = NULL;
    ck_assert_int_eq(cell_registry_create(&registry), BASE_OK);
    for (int i = 0; i < 3; i++) {
        build_attend(&builds[i], &shapes[2], 0);
        builds[i].def.ops[0].nan_is_zero = i == 1;
        bool is_new = false;
        ck_assert_int_eq(cell_registry_intern(registry, &builds[i].def, "model/cell", &types[i],
                                              &is_new, &error),
                         BASE_OK);
        ck_assert(is_new == (i < 2));
    }
    for (int i = 0; i < 3; i++) {
        cell_type_unref(registry, types[i]);
        build_release(&builds[i]);
    }
    cell_registry_free(registry);
}
END_TEST

START_TEST(test_what_are_no_relative_positions_is_no_definition)
{
    struct build build;
    struct base_error error;
    build_attend(&build, &shapes[2], RELATIVE);
    ck_assert_int_eq(cell_def_check(&build.def, &error), BASE_OK);
    build.def.ops[0].n_weights = 1;
    ck_assert_int_eq(cell_def_check(&build.def, &error), BASE_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(error.message, "relative positions without a table"));
    build.def.ops[0].n_weights = 2;
    build.def.ops[0].n_operands = 4;
    build.def.values[3].width = 2;
    ck_assert_int_eq(cell_def_check(&build.def, &error), BASE_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(error.message, "or a table without these"));
    build.def.ops[0].n_operands = 5;
    ck_assert_int_eq(cell_def_check(&build.def, &error), BASE_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(error.message, "three beside relative positions"));
    build.def.values[3].width = 3;
    build.def.values[4].width--;
    ck_assert_int_eq(cell_def_check(&build.def, &error), BASE_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(error.message, "as many floats as their table is wide"));
    build.def.values[4].width++;
    build.def.ops[0].variant = CELL_ATTEND_TANH;
    ck_assert_int_eq(cell_def_check(&build.def, &error), BASE_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(error.message, "of another score than a product"));
    build_release(&build);
}
END_TEST

/* ---- Importing ---------------------------------------------------------------------------- */

enum { WIDTH = 6, FLOAT = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT };

static struct onnx_builder builder;
static struct base_random numbers;

static void axis_of(const char *name, int64_t axis)
{
    onnx_constant(&builder, name, onnx_ints(&builder, 1, 1, &axis));
}

static void matrix(const char *name, int64_t rows, int64_t cols)
{
    const int64_t dims[] = {rows, cols};
    onnx_constant(&builder, name, onnx_random(&builder, 2, dims, &numbers, 0.5f));
}

static void output(const char *name)
{
    onnx_output(&builder, name, FLOAT, 0, NULL);
    builder.graph.output[builder.graph.n_output - 1]->type = NULL;
}

/* h [rows, 6] and memory [rows, any, 6]; the case adds what makes `context` of them. */
static void begin_step(void)
{
    const int64_t row[] = {-1, WIDTH};
    const int64_t rows[] = {-1, -1, WIDTH};
    const float half = 0.5f;
    onnx_init(&builder, 17);
    numbers = util_random(1);
    onnx_input(&builder, "h", FLOAT, 2, row);
    onnx_input(&builder, "memory", FLOAT, 3, rows);
    axis_of("one", 1);
    axis_of("two", 2);
    matrix("w", WIDTH, WIDTH);
    matrix("v", WIDTH, 1);
    onnx_constant(&builder, "half", onnx_tensor(&builder, FLOAT, 0, NULL, &half, sizeof(half)));
}

static void product_scores(void)
{
    onnx_node(&builder, "Unsqueeze", "h two", "column");
    onnx_node(&builder, "MatMul", "memory column", "products");
    onnx_node(&builder, "Squeeze", "products two", "scores");
}

static void scaled_scores(void)
{
    onnx_node(&builder, "MatMul", "h w", "q");
    onnx_node(&builder, "Unsqueeze", "q one", "line");
    onnx_set_ints(&builder, onnx_node(&builder, "Transpose", "memory", "turned"), "perm", 3,
                  (const int64_t[]){0, 2, 1});
    onnx_node(&builder, "MatMul", "line turned", "products");
    onnx_node(&builder, "Squeeze", "products one", "unscaled");
    onnx_node(&builder, "Div", "unscaled half", "larger");
    onnx_node(&builder, "Mul", "half larger", "equal");
    onnx_node(&builder, "Add", "equal half", "scores");
}

static void summed_scores(void)
{
    onnx_node(&builder, "Unsqueeze", "h one", "line");
    onnx_node(&builder, "Mul", "line memory", "products");
    onnx_set_int(&builder, onnx_node(&builder, "ReduceSum", "products two", "scores"), "keepdims",
                 0);
}

static void tanh_scores(void)
{
    onnx_node(&builder, "MatMul", "h w", "q");
    onnx_node(&builder, "Unsqueeze", "q one", "line");
    onnx_node(&builder, "Add", "memory line", "sum");
    onnx_node(&builder, "Tanh", "sum", "energy");
    onnx_node(&builder, "MatMul", "energy v", "products");
    onnx_node(&builder, "Squeeze", "products two", "scores");
}

static void weights(void)
{
    onnx_set_int(&builder, onnx_node(&builder, "Softmax", "scores", "weights"), "axis", 1);
}

static void product_context(void)
{
    onnx_node(&builder, "Unsqueeze", "weights one", "weights3");
    onnx_node(&builder, "MatMul", "weights3 memory", "context3");
    onnx_node(&builder, "Squeeze", "context3 one", "context");
}

static void turned_context(void)
{
    onnx_node(&builder, "Unsqueeze", "weights two", "weights3");
    onnx_set_ints(&builder, onnx_node(&builder, "Transpose", "memory", "columns"), "perm", 3,
                  (const int64_t[]){0, 2, 1});
    onnx_node(&builder, "MatMul", "columns weights3", "context3");
    onnx_node(&builder, "Squeeze", "context3 two", "context");
}

static void summed_context(void)
{
    onnx_node(&builder, "Unsqueeze", "weights two", "weights3");
    onnx_node(&builder, "Mul", "weights3 memory", "weighted");
    onnx_set_int(&builder, onnx_node(&builder, "ReduceSum", "weighted one", "context"), "keepdims",
                 0);
}

static enum base_status load_step(struct cell_registry *registry, struct cell_model **model,
                                  struct base_error *error)
{
    const struct cell_model_options options = {.is_part = true, .feeds_back = true};
    size_t length = 0;
    const uint8_t *bytes = onnx_pack(&builder, &length);
    enum base_status status = cell_model_parse(
        registry, (struct cell_model_file){bytes, length, NULL}, "test", &options, model, error);
    onnx_release(&builder);
    return status;
}

static void end_step(void)
{
    onnx_node(&builder, "Tanh", "context", "h_next");
    onnx_node(&builder, "Identity", "context", "answer");
    output("h_next");
    output("answer");
}

/* _i: ways of the scores, times ways of the sum. */
START_TEST(test_every_way_is_one_op)
{
    static void (*const scores[])(void) = {product_scores, scaled_scores, summed_scores,
                                           tanh_scores};
    static void (*const contexts[])(void) = {product_context, turned_context, summed_context};
    struct cell_registry *registry = NULL;
    struct cell_model *model = NULL;
    struct base_error error = {.message = ""};
    begin_step();
    scores[_i / 3]();
    weights();
    contexts[_i % 3]();
    end_step();
    ck_assert_int_eq(cell_registry_create(&registry), BASE_OK);
    ck_assert_msg(load_step(registry, &model, &error) == BASE_OK, "%s", error.message);
    const struct cell_def *def = &model->stages[0].type->def;
    uint32_t n = 0;
    for (uint32_t o = 0; o < def->n_ops; o++) {
        const struct cell_op *op = &def->ops[o];
        const bool is_tanh = scores[_i / 3] == tanh_scores;
        n += op->kind == CELL_OP_ATTEND ? 1 : 0;
        ck_assert(op->kind != CELL_OP_ATTEND ||
                  op->variant == (is_tanh ? CELL_ATTEND_TANH : CELL_ATTEND_PRODUCT));
        ck_assert(op->kind != CELL_OP_SOFTMAX);
    }
    ck_assert_uint_eq(n, 1);
    ck_assert_int_eq(model->inputs[1].time_axis, 1);
    cell_model_free(registry, model);
    cell_registry_free(registry);
}
END_TEST

static void expect_refused(enum base_status wanted, const char *why)
{
    struct cell_registry *registry = NULL;
    struct cell_model *model = NULL;
    struct base_error error = {.message = ""};
    ck_assert_int_eq(cell_registry_create(&registry), BASE_OK);
    enum base_status status = load_step(registry, &model, &error);
    ck_assert_msg(status == wanted && strstr(error.message, why) != NULL, "%s: %s",
                  base_status_name(status), error.message);
    cell_registry_free(registry);
}

START_TEST(test_what_is_no_attention_is_refused)
{
    begin_step(); // no softmax
    product_scores();
    onnx_node(&builder, "Sigmoid", "scores", "weights");
    product_context();
    end_step();
    expect_refused(BASE_UNIMPLEMENTED, "a sum over the source's steps that is no attention");
    begin_step(); // scores that no query is in
    onnx_node(&builder, "MatMul", "memory v", "products");
    onnx_node(&builder, "Squeeze", "products two", "scores");
    weights();
    product_context();
    end_step();
    expect_refused(BASE_UNIMPLEMENTED, "let the encoder make it");
    begin_step(); // keys that the step makes
    onnx_node(&builder, "MatMul", "memory w", "keys");
    onnx_node(&builder, "Unsqueeze", "h two", "column");
    onnx_node(&builder, "MatMul", "keys column", "products");
    onnx_node(&builder, "Squeeze", "products two", "scores");
    weights();
    product_context();
    end_step();
    expect_refused(BASE_UNIMPLEMENTED, "let the encoder make it");
    begin_step(); // the weights as an answer
    product_scores();
    weights();
    product_context();
    end_step();
    output("weights");
    expect_refused(BASE_UNIMPLEMENTED, "a row for each step of the source");
    begin_step(); // the mean
    product_scores();
    weights();
    onnx_node(&builder, "Unsqueeze", "weights two", "weights3");
    onnx_node(&builder, "Mul", "weights3 memory", "weighted");
    onnx_set_ints(&builder, onnx_node(&builder, "ReduceMean", "weighted", "context3"), "axes", 1,
                  (const int64_t[]){1});
    onnx_node(&builder, "Squeeze", "context3 one", "context");
    end_step();
    expect_refused(BASE_UNIMPLEMENTED, "over the source's steps inside a decoder's step");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("attend");
    TCase *device = tcase_create("device");
    TCase *imported = tcase_create("imported");
    tcase_set_timeout(device, 120);
    tcase_add_loop_test(device, test_rows_attend_to_their_own, 0, WAYS * SHAPES);
    tcase_add_test(device, test_masked_rows_count_nothing);
    tcase_add_test(device, test_what_is_no_attention_is_no_definition);
    tcase_add_test(device, test_a_largest_score_is_never_zeros_in_place_of_none);
    tcase_add_test(device, test_zeros_in_place_of_none_are_another_type);
    tcase_add_test(device, test_what_are_no_relative_positions_is_no_definition);
    suite_add_tcase(suite, device);
    tcase_add_loop_test(imported, test_every_way_is_one_op, 0, 12);
    tcase_add_test(imported, test_what_is_no_attention_is_refused);
    suite_add_tcase(suite, imported);
    return util_run(suite);
}
