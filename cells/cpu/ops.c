/* One member's share of each kind of op, over the rows of its view: what is shared out by panels
 * (panels.h), by rows, or done by each member for itself because only pointers are made. Which op
 * stands where, and the barriers between them, program.c has decided. */
#include "base/assert.h"
#include "base/mem.h"
#include "cells/cpu/attend.h"
#include "cells/cpu/memory.h"
#include "cells/cpu/panels.h"
#include "cells/cpu/patches.h"
#include "cells/cpu/reduce.h"
#include "cells/cpu/rowwise.h"
#include "cells/cpu/tree.h"
#include "cells/cpu/view.h"

#include <string.h>

static const float *const *f32_in(const struct cell_view *view, uint32_t value)
{
    return (const float *const *)(void *)view->space->rows[value];
}

static float *const *f32_out(const struct cell_view *view, uint32_t value)
{
    return (float *const *)(void *)view->space->rows[value];
}

static void gather(const struct cell_view *view, const struct cell_program_op *op)
{
    const struct cell_weight *table = &op->lookup;
    const size_t row_bytes = (size_t)table->cols * cell_dtype_bytes(table->dtype);
    uint8_t *data = NULL; // only read through: rows are pointers to what may also be written
    memcpy(&data, &table->data, sizeof(data));
    enum cell_dtype dtype = view->program->values[op->in[0]].shape.dtype;
    for (uint32_t r = 0; r < view->n_rows; r++) {
        const uint8_t *id = view->space->rows[op->in[0]][r];
        view->space->rows[op->out][r] = data + cell_table_row(table, dtype, id) * row_bytes;
    }
}

/* A row of each one's memory, where it stands. */
static void pick(const struct cell_view *view, const struct cell_program_op *op)
{
    const float *const *numbers = f32_in(view, op->in[1]);
    for (uint32_t r = 0; r < view->n_rows; r++) {
        const struct cell_ref *memory =
            &cell_view_row(view, r)->wiring->inputs[op->op->operands[0]];
        const uint32_t n = cell_memory_rows(memory);
        view->space->rows[op->out][r] =
            n == 0 ? view->program->zeros
                   : memory->host + (int64_t)CELL_PICK_ROW(*numbers[r], n) * memory->stride_bytes;
    }
}

/* Of each row of h the other members have just written their units, and each of its lines would be
 * waited for in turn. */
static void ask_for_states(uint32_t n_rows, const float *const *rows, uint32_t width)
{
    const uint32_t line = BASE_CACHE_LINE / sizeof(float);
    for (uint32_t r = 0; r < n_rows; r++) {
        for (uint32_t i = 0; i < width; i += line) {
            __builtin_prefetch(rows[r] + i);
        }
    }
}

/* Rows of the view that a product is about: all of them, or those that need it. */
struct choice {
    const struct cell_view *view;
    bool is_all;
    uint32_t n_rows;
    uint32_t n_taken; /* of the space's room */
};

static struct choice choose(const struct cell_view *view, const struct cell_program_op *op)
{
    struct choice choice = {.view = view, .is_all = !op->is_guarded, .n_rows = view->n_rows};
    if (!op->is_guarded) {
        return choice;
    }
    const float *const *states = f32_in(view, op->guard);
    choice.n_rows = 0;
    for (uint32_t r = 0; r < view->n_rows; r++) {
        view->space->chosen[choice.n_rows] = r;
        choice.n_rows += (*states[r] > 0.0f) == op->guard_is_above ? 1 : 0;
    }
    choice.is_all = choice.n_rows == view->n_rows;
    return choice;
}

/* Pointers to a value's rows of those. */
static uint8_t **chosen(struct choice *choice, uint32_t value)
{
    const struct cell_space *space = choice->view->space;
    if (choice->is_all) {
        return space->rows[value];
    }
    base_assert(choice->n_taken < CELL_CHOSEN_MAX);
    uint8_t **rows = space->chosen_rows[choice->n_taken++];
    for (uint32_t i = 0; i < choice->n_rows; i++) {
        rows[i] = space->rows[value][space->chosen[i]];
    }
    return rows;
}

static const float *const *chosen_in(struct choice *choice, uint32_t value)
{
    return (const float *const *)(void *)chosen(choice, value);
}

static float *const *chosen_out(struct choice *choice, uint32_t value)
{
    return (float *const *)(void *)chosen(choice, value);
}

static void gated(const struct cell_view *view, const struct cell_program_op *op)
{
    struct choice choice = choose(view, op);
    if (choice.n_rows == 0) {
        return; // every member finds that
    }
    struct cell_gated_step step = {
        .gated = &op->gated,
        .n_rows = choice.n_rows,
        .x = chosen_in(&choice, op->in[CELL_GATED_X]),
        .h = chosen_in(&choice, op->in[CELL_GATED_H]),
        .old = op->n_in > CELL_GATED_OLD ? chosen_in(&choice, op->in[CELL_GATED_OLD]) : NULL,
        .z = op->n_in > CELL_GATED_Z ? chosen_in(&choice, op->in[CELL_GATED_Z]) : NULL,
        .out = chosen_out(&choice, op->out),
        .second = op->second != CELL_VALUES_MAX ? chosen_out(&choice, op->second) : NULL,
        .scratch = view->space->scratch,
        .backwards = cell_view_is_backwards(view),
    };
    if (op->embedding != NULL) {
        step.ahead = step.x;
        step.x = NULL;
    } else if (view->is_ahead && op->has_window) {
        step.x = NULL;
        step.ahead = (const float *const *)view->space->ahead[op->window];
    }
    if (view->run->members > 1) {
        ask_for_states(step.n_rows, step.h, op->gated.feedback);
    }
    cell_panels_gated(view, cell_view_wave(view, op), &step);
}

static void linear(const struct cell_view *view, const struct cell_program_op *op)
{
    struct choice choice = choose(view, op);
    if (choice.n_rows == 0) {
        return; // every member finds that
    }
    const struct cell_linear_rows rows = {.linear = &op->linear,
                                          .bounds = op->bounds,
                                          .n_rows = choice.n_rows,
                                          .x = chosen_in(&choice, op->in[0]),
                                          .out = chosen_out(&choice, op->out),
                                          .scratch = view->space->scratch};
    cell_panels_linear(view, cell_view_wave(view, op), &rows);
}

/* A part of another row, where it stands. */
static void slice(const struct cell_view *view, const struct cell_program_op *op)
{
    size_t element = cell_dtype_bytes(view->program->values[op->out].shape.dtype);
    for (uint32_t r = 0; r < view->n_rows; r++) {
        view->space->rows[op->out][r] = view->space->rows[op->in[0]][r] + op->op->start * element;
    }
}

/* Rows of element-wise ops that lie behind each other, as those of a span may, are one long row;
 * below so many it is not worth saying so. */
#define JOINED_MIN 4u

/* How many rows from `first` on, at most n, stand each a row's width behind the other, or, where
 * *is_single says so at the end, are one element. */
static uint32_t joined_rows(uint8_t *const *rows, uint32_t n, uint32_t width, bool *is_single)
{
    uint32_t k = 1;
    *is_single = *is_single || (width == 1 && n > 1 && rows[1] == rows[0]);
    const size_t stride = *is_single ? 0 : width * sizeof(float);
    while (k < n && rows[k] == rows[k - 1] + stride) {
        k++;
    }
    return k;
}

/* The rows first .. end - 1, as far as they are one; of them singles[v] says which values are one
 * element. */
static uint32_t joined_within(const struct cell_view *view, const struct cell_program_op *op,
                              uint32_t first, uint32_t end, bool *singles)
{
    const struct cell_pointwise *chain = op->chain;
    uint32_t n = end - first;
    for (uint32_t v = 0; v < chain->n_values && n > 1; v++) {
        singles[v] = chain->values[v].is_single;
        if (chain->values[v].tile == CELL_POINTWISE_ROW) {
            uint8_t *const *rows = view->space->rows[op->chain_values[v]] + first;
            const uint32_t times = chain->values[v].times > 1 ? chain->values[v].times : 1;
            n = joined_rows(rows, n, chain->width / times, &singles[v]);
        }
    }
    return n;
}

/* The same; most often two rows tell, before long looks at values of which one ends it. */
static uint32_t joined(const struct cell_view *view, const struct cell_program_op *op,
                       uint32_t first, uint32_t end, bool *singles)
{
    const uint32_t next = first + 2 < end ? first + 2 : end;
    const uint32_t n = joined_within(view, op, first, next, singles);
    return n > 1 ? joined_within(view, op, first, end, singles) : 1;
}

static void run_chain(const struct cell_view *view, const struct cell_program_op *op,
                      const struct cell_pointwise *chain, uint32_t r)
{
    float *values[CELL_POINTWISE_VALUES_MAX];
    for (uint32_t v = 0; v < chain->n_values; v++) {
        bool has_row = chain->values[v].tile == CELL_POINTWISE_ROW;
        values[v] = has_row ? f32_out(view, op->chain_values[v])[r] : NULL;
    }
    view->program->kernels->pointwise(chain, values, view->space->scratch);
}

/* n rows as one. */
static void run_joined(const struct cell_view *view, const struct cell_program_op *op, uint32_t r,
                       uint32_t n, const bool *singles)
{
    struct cell_pointwise chain = *op->chain;
    chain.width *= n;
    for (uint32_t v = 0; v < chain.n_values; v++) {
        chain.values[v].is_single = singles[v];
    }
    run_chain(view, op, &chain, r);
}

static void pointwise(const struct cell_view *view, const struct cell_program_op *op)
{
    bool singles[CELL_POINTWISE_VALUES_MAX] = {false};
    uint32_t first;
    uint32_t end;
    uint32_t n = 1;
    cell_view_share(view, view->n_rows, &first, &end);
    const bool has_spans = view->run->n_cells > view->run->n_rows;
    for (uint32_t r = first; r < end; r += n) {
        n = has_spans ? joined(view, op, r, end, singles) : 1;
        if (n >= JOINED_MIN) {
            run_joined(view, op, r, n, singles);
            continue;
        }
        for (uint32_t k = 0; k < n; k++) {
            run_chain(view, op, op->chain, r + k);
        }
    }
}

static void rowwise(const struct cell_view *view, const struct cell_program_op *op)
{
    uint32_t first;
    uint32_t end;
    cell_view_share(view, view->n_rows, &first, &end);
    for (uint32_t r = first; r < end; r++) {
        const uint8_t *in[CELL_OPERANDS_MAX];
        for (uint32_t i = 0; i < op->n_in; i++) {
            in[i] = view->space->rows[op->in[i]][r];
        }
        cell_rowwise(view->program, op, in, view->space->rows[op->out][r]);
    }
}

void cell_view_run_op(const struct cell_view *view, const struct cell_program_op *op)
{
    if (op->is_gated && cell_op_is_tree(op->kind)) {
        cell_tree_run(view, op);
    } else if (cell_patches_has(op)) {
        cell_patches_run(view, op);
    } else if (op->is_gated) {
        gated(view, op);
    } else if (op->kind == CELL_OP_LINEAR) {
        linear(view, op);
    } else if (op->kind == CELL_OP_GATHER) {
        gather(view, op);
    } else if (op->chain != NULL) {
        pointwise(view, op);
    } else if (op->kind == CELL_OP_ATTEND) {
        cell_attend(view, op);
    } else if (op->kind == CELL_OP_REDUCE) {
        cell_reduce(view, op);
    } else if (op->kind == CELL_OP_PICK) {
        pick(view, op);
    } else if (op->share == CELL_SHARE_EACH) {
        slice(view, op);
    } else {
        rowwise(view, op);
    }
}
