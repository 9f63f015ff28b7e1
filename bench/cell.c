/* Kinds, shapes and data of what is measured. To add a kind, add a row to `cells`. */
#include "bench/cell.h"

#include "base/mem.h"
#include "base/random.h"
#include "bench/bench.h"
#include "cells/batch.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define STEPS_MAX 100000u

static const struct bench_cell cells[] = {
    {.name = "lstm",
     .op = CELL_OP_LSTM,
     .gated = CELL_GATED_LSTM,
     .states = 2,
     .sigmoids = 3,
     .tanhs = 2},
    {.name = "gru",
     .op = CELL_OP_GRU,
     .variant = CELL_GRU_RESET_AFTER,
     .gated = CELL_GATED_GRU,
     .states = 1,
     .sigmoids = 2,
     .tanhs = 1},
    {.name = "treelstm",
     .op = CELL_OP_TREE_BINARY,
     .gated = CELL_GATED_TREE_BINARY,
     .states = 2,
     .sigmoids = 4,
     .tanhs = 2},
};
enum { CELLS = sizeof(cells) / sizeof(cells[0]) };

static const struct bench_shape deepcpu[] = {
    {64, 64, 1, 100},    {256, 64, 1, 100},     {1024, 64, 1, 100},    {64, 256, 1, 100},
    {64, 1024, 1, 100},  {1024, 1024, 1, 100},  {256, 256, 1, 1},      {256, 256, 1, 10},
    {256, 256, 1, 100},  {64, 64, 10, 100},     {64, 64, 20, 100},     {256, 256, 10, 100},
    {256, 256, 20, 100}, {1024, 1024, 10, 100}, {1024, 1024, 20, 100},
};
enum { DEEPCPU = sizeof(deepcpu) / sizeof(deepcpu[0]) };

enum base_status bench_cell_find(const char *name, const struct bench_cell **out,
                                 struct base_error *error)
{
    for (int i = 0; i < CELLS; i++) {
        if (strcmp(cells[i].name, name) == 0) {
            *out = &cells[i];
            return BASE_OK;
        }
    }
    return base_fail(error, BASE_NOT_FOUND, "no cell is called \"%.32s\"", name);
}

/* ---- Shapes --------------------------------------------------------------------------------- */

static bool parse_shape(const char *text, struct bench_shape *out)
{
    char rest = 0;
    struct bench_shape s;
    // NOLINTNEXTLINE(cert-err34-c): ranges are checked below
    int n = sscanf(text, "%ux%ux%ux%u%c", &s.inputs, &s.hidden, &s.rows, &s.steps, &rest);
    *out = s;
    return n == 4 && s.inputs > 0 && s.inputs <= CELL_WIDTH_MAX && s.hidden > 0 &&
           s.hidden <= CELL_WIDTH_MAX / 8 && s.rows > 0 && s.rows <= CELL_BATCH_ROWS_MAX &&
           s.steps > 0 && s.steps <= STEPS_MAX;
}

enum base_status bench_shapes_parse(const char *list, struct bench_shape out[BENCH_SHAPES_MAX],
                                    uint32_t *n, struct base_error *error)
{
    char word[64];
    *n = 0;
    for (const char *rest = list; (rest = bench_list_next(rest, word, sizeof(word))) != NULL;) {
        struct bench_shape one;
        bool is_table = strcmp(word, "deepcpu") == 0;
        uint32_t more = is_table ? DEEPCPU : 1;
        if (!is_table && !parse_shape(word, &one)) {
            return base_fail(error, BASE_INVALID_ARGUMENT,
                             "\"%s\" is not INPUTxHIDDENxROWSxSTEPS within the limits", word);
        }
        if (*n + more > BENCH_SHAPES_MAX) {
            return base_fail(error, BASE_INVALID_ARGUMENT, "more than %u shapes", BENCH_SHAPES_MAX);
        }
        memcpy(out + *n, is_table ? deepcpu : &one, more * sizeof(one));
        *n += more;
    }
    return *n > 0 ? BASE_OK : base_fail(error, BASE_INVALID_ARGUMENT, "no shape is given");
}

double bench_flops(const struct bench_cell *cell, const struct bench_shape *shape)
{
    return 2.0 * cell_op_gates(cell->op) * shape->hidden * ((double)shape->inputs + shape->hidden) *
           shape->rows * shape->steps;
}

/* ---- Data ----------------------------------------------------------------------------------- */

const char *bench_tensor_name(enum bench_tensor tensor)
{
    static const char *const names[BENCH_TENSORS] = {"w", "r", "b", "x", "y"};
    return names[tensor];
}

/* The limits of a shape keep every product far below 2^64. */
size_t bench_tensor_floats(const struct bench_cell *cell, const struct bench_shape *shape,
                           enum bench_tensor tensor)
{
    size_t columns = (size_t)cell_op_gates(cell->op) * shape->hidden;
    size_t rows = (size_t)shape->rows * shape->steps;
    const size_t floats[BENCH_TENSORS] = {
        [BENCH_W] = columns * shape->inputs,
        [BENCH_R] = columns * shape->hidden,
        [BENCH_B] = columns * 2,
        [BENCH_X] = rows * shape->inputs,
        [BENCH_Y] = rows * shape->hidden,
    };
    return floats[tensor];
}

enum base_status bench_data_add(struct bench_data *data, const struct bench_cell *cell,
                                const struct bench_shape *shape, enum bench_tensor tensor,
                                struct base_error *error)
{
    size_t bytes = bench_tensor_floats(cell, shape, tensor) * sizeof(float);
    data->tensors[tensor] = base_alloc_aligned(bytes, BASE_CACHE_LINE);
    return data->tensors[tensor] != NULL
               ? BASE_OK
               : base_fail(error, BASE_RESOURCE_EXHAUSTED, "out of memory for %zu bytes of %s",
                           bytes, bench_tensor_name(tensor));
}

enum base_status bench_data_random(struct bench_data *data, const struct bench_cell *cell,
                                   const struct bench_shape *shape, uint64_t seed,
                                   struct base_error *error)
{
    struct base_random random;
    base_random_init(&random, seed);
    for (enum bench_tensor t = BENCH_W; t < BENCH_TENSORS; t++) {
        BASE_TRY(bench_data_add(data, cell, shape, t, error));
        float scale = t == BENCH_X ? 1.0f : 1.0f / sqrtf((float)shape->hidden);
        size_t floats = t == BENCH_Y ? 0 : bench_tensor_floats(cell, shape, t);
        for (size_t i = 0; i < floats; i++) {
            data->tensors[t][i] = base_random_f32(&random, -scale, scale);
        }
    }
    return BASE_OK;
}

void bench_data_release(struct bench_data *data)
{
    for (enum bench_tensor t = BENCH_W; t < BENCH_TENSORS; t++) {
        base_free(data->tensors[t]);
    }
    *data = (struct bench_data){0};
}

bool bench_cell_is_tree(const struct bench_cell *cell)
{
    return cell_op_is_tree(cell->op);
}

/* The left child is x, for its h and its c; the right one is the step before. Trees have one bias.
 */
static void make_tree(struct cell_op *op)
{
    const uint32_t operands[] = {0, 0, 1, 2};
    memcpy(op->operands, operands, sizeof(operands));
    op->n_operands = 4;
    op->weights[2].cols /= 2;
}

/* Values: x, the states, the results, which become the states. */
void bench_cell_def(const struct bench_cell *cell, const struct bench_shape *shape,
                    const struct bench_data *data, struct cell_def *out)
{
    const uint32_t columns = cell_op_gates(cell->op) * shape->hidden;
    const uint32_t result = 1 + cell->states;
    *out = (struct cell_def){.n_inputs = 1,
                             .n_states = cell->states,
                             .n_values = 1 + 2 * cell->states,
                             .n_ops = 1,
                             .n_outputs = 1,
                             .outputs = {result}};
    out->ops[0] =
        (struct cell_op){.kind = cell->op,
                         .variant = cell->variant,
                         .n_operands = result,
                         .n_weights = 3,
                         .weights = {{CELL_F32, columns, shape->inputs, data->tensors[BENCH_W]},
                                     {CELL_F32, columns, shape->hidden, data->tensors[BENCH_R]},
                                     {CELL_F32, 1, 2 * columns, data->tensors[BENCH_B]}},
                         .result = result};
    out->values[0] = (struct cell_value){CELL_F32, shape->inputs};
    for (uint32_t v = 1; v < out->n_values; v++) {
        out->values[v] = (struct cell_value){CELL_F32, shape->hidden};
    }
    for (uint32_t s = 0; s < cell->states; s++) {
        out->ops[0].operands[1 + s] = 1 + s;
        out->state_next[s] = result + s;
    }
    if (bench_cell_is_tree(cell)) {
        make_tree(&out->ops[0]);
    }
}
