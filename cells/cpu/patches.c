/* See patches.h. Kernels write whole vectors, to rows that begin on a cache line: where a patch's
 * own row would not, its sums, h and c go to rows of scratch first, and are copied: at most some
 * tenths of what the products take, of patches of some units. */
#include "cells/cpu/patches.h"

#include "base/mem.h"
#include "cells/cpu/convolve.h"
#include "cells/cpu/panels.h"
#include "cells/cpu/picture.h"

#include <string.h>

/* Multiply-adds of a row's patches from which its members share them out: some rows of them then
 * last much longer than a barrier. */
#define TERMS_MIN 60000u

/* A row of patches is often work enough for one member, and what is made of it stays with it; but a
 * long one would wait for the slower member, and each would read all of its weights. Patches in
 * turn are a member's own. */
enum cell_share cell_patches_share(const struct cell_op *op)
{
    uint64_t terms = 0;
    if (op->kind == CELL_OP_GATHER) {
        return CELL_SHARE_ROWS;
    }
    for (uint32_t w = 0; w < 2 && w < op->n_weights; w++) {
        const bool is_bias = op->kind == CELL_OP_LINEAR && w == 1;
        terms += is_bias ? 0 : (uint64_t)op->patches * op->weights[w].rows * op->weights[w].cols;
    }
    const bool may_share = cell_op_has_picture(op)      ? true
                           : op->kind == CELL_OP_LINEAR ? op->weights[0].cols % CELL_ROW_LINE == 0
                                                        : op->order == CELL_PATCHES_APART;
    return may_share && terms >= TERMS_MIN ? CELL_SHARE_PANELS : CELL_SHARE_ROWS;
}

/* Of a patch; a GATHER writes none to scratch. */
static uint32_t outputs_of(const struct cell_program_op *op)
{
    return op->is_gated ? op->gated.hidden : op->linear.outputs;
}

/* Regions of scratch that a gated op has: what it reads of old h or c, and z, and what it writes;
 * or of patches in turn h and c, of each twice. */
#define GATED_REGIONS 4u

/* Floats of the places of a picture that are gathered at once, so that they stay in L2; of large
 * ones as many rows as a tile has. */
#define GATHERED_FLOATS 65536u
#define GATHERED_LEAST  12u

/* Places that go through the kernel at once. */
static uint32_t places_at_once(const struct cell_op *op)
{
    const size_t fit = GATHERED_FLOATS / CELL_ROW_FLOATS((size_t)op->weights[0].rows);
    return fit > CELL_PATCHES_AT_ONCE ? CELL_PATCHES_AT_ONCE
           : fit < GATHERED_LEAST     ? GATHERED_LEAST
                                      : (uint32_t)fit;
}

static size_t sums_floats(const struct cell_program_op *op)
{
    const size_t regions = op->is_gated ? GATED_REGIONS : 1;
    return regions * CELL_PATCHES_AT_ONCE * CELL_ROW_FLOATS((size_t)outputs_of(op));
}

size_t cell_patches_floats(const struct cell_program_op *op)
{
    if (op->convolution != NULL) {
        return cell_convolve_floats(op->convolution);
    }
    const size_t gathered =
        cell_op_has_picture(op->op)
            ? places_at_once(op->op) * CELL_ROW_FLOATS((size_t)op->op->weights[0].rows)
            : 0;
    return sums_floats(op) + gathered;
}

static float *scratch_row(const struct cell_view *view, const struct cell_program_op *op,
                          uint32_t region, uint32_t row)
{
    return view->space->scratch + view->program->patches_at +
           ((size_t)region * CELL_PATCHES_AT_ONCE + row) * CELL_ROW_FLOATS((size_t)outputs_of(op));
}

static float *row_of(const struct cell_view *view, uint32_t value, uint32_t row)
{
    return (float *)(void *)view->space->rows[value][row];
}

/* Where a patch's rows of sums, h and c begin on a cache line. */
static bool is_direct(const struct cell_program_op *op)
{
    return outputs_of(op) % CELL_ROW_LINE == 0;
}

/* ---- GATHER --------------------------------------------------------------------------------- */

static void gather(const struct cell_view *view, const struct cell_program_op *op)
{
    const struct cell_weight *table = &op->lookup;
    const enum cell_dtype dtype = view->program->values[op->in[0]].shape.dtype;
    const size_t bytes = (size_t)table->cols * cell_dtype_bytes(table->dtype);
    const uint8_t *data = table->data;
    uint32_t first;
    uint32_t end;
    cell_view_share(view, view->n_rows, &first, &end);
    for (uint32_t r = first; r < end; r++) {
        const uint8_t *ids = view->space->rows[op->in[0]][r];
        uint8_t *to = view->space->rows[op->out][r];
        for (size_t p = 0; p < op->op->patches; p++) {
            const size_t row = cell_table_row(table, dtype, ids + p * cell_dtype_bytes(dtype));
            memcpy(to + p * bytes, data + row * bytes, bytes);
        }
    }
}

/* ---- LINEAR --------------------------------------------------------------------------------- */

/* Patches of some rows, as rows of a product. */
struct patches {
    const float *x[CELL_PATCHES_AT_ONCE];
    float *out[CELL_PATCHES_AT_ONCE];
    float *to[CELL_PATCHES_AT_ONCE];
};

/* Gathers what n patches from number `first` on read; x[] points there then. */
static void gather_places(const struct cell_view *view, const struct cell_program_op *op,
                          uint32_t first, uint32_t n, struct patches *patches)
{
    const size_t pitch = CELL_ROW_FLOATS((size_t)op->op->weights[0].rows);
    float *to = view->space->scratch + view->program->patches_at + sums_floats(op);
    uint32_t of_row = 0;
    for (uint32_t i = 0; i < n; i += of_row) {
        const float *x = row_of(view, op->in[0], (first + i) / op->op->patches);
        const uint32_t place = (first + i) % op->op->patches;
        const uint32_t room = op->op->patches - place;
        of_row = room < n - i ? room : n - i;
        cell_picture_gather(op->op, x, place, of_row, to + i * pitch);
    }
    for (uint32_t i = 0; i < n; i++) {
        patches->x[i] = to + i * pitch;
    }
}

/* Patches number first..end-1 of the view's rows; step is 0 of a picture. */
static void find_patches(const struct cell_view *view, const struct cell_program_op *op,
                         uint32_t first, uint32_t end, struct patches *patches)
{
    uint32_t row = first / op->op->patches;
    uint32_t patch = first % op->op->patches;
    for (uint32_t i = 0; i < end - first; i++) {
        patches->x[i] = row_of(view, op->in[0], row) + (size_t)patch * op->op->step;
        patches->to[i] = row_of(view, op->out, row) + (size_t)patch * op->linear.outputs;
        patches->out[i] = is_direct(op) ? patches->to[i] : scratch_row(view, op, 0, i);
        patch = patch + 1 < op->op->patches ? patch + 1 : 0;
        row += patch == 0 ? 1 : 0;
    }
}

/* As many at once, as evenly as they go. Members share the panels, or each has rows of its own; of
 * large pictures places of its own, since each gathers what it multiplies. */
static void linear(const struct cell_view *view, const struct cell_program_op *op)
{
    const bool is_picture = cell_op_has_picture(op->op);
    const uint32_t at_once = is_picture ? places_at_once(op->op) : CELL_PATCHES_AT_ONCE;
    uint32_t first = 0;
    uint32_t end = view->n_rows * op->op->patches;
    if (op->share == CELL_SHARE_ROWS) {
        cell_view_share(view, view->n_rows, &first, &end);
        first *= op->op->patches;
        end *= op->op->patches;
    } else if (is_picture) {
        cell_view_share(view, end, &first, &end);
    }
    const uint32_t n = end - first;
    const uint32_t times = (n + at_once - 1) / at_once;
    struct patches patches;
    for (uint32_t t = 0; t < times; t++) {
        const uint32_t from = first + (uint32_t)((uint64_t)n * t / times);
        const uint32_t to = first + (uint32_t)((uint64_t)n * (t + 1) / times);
        find_patches(view, op, from, to, &patches);
        if (is_picture) {
            gather_places(view, op, from, to - from, &patches);
        }
        const struct cell_linear_rows rows = {.linear = &op->linear,
                                              .bounds = op->bounds,
                                              .n_rows = to - from,
                                              .panel_end = op->linear.panels,
                                              .x = patches.x,
                                              .out = patches.out,
                                              .scratch = view->space->scratch};
        if (op->share == CELL_SHARE_PANELS && !is_picture) {
            cell_panels_linear(view, NULL, &rows);
            continue;
        }
        view->program->kernels->linear_rows(&rows);
        for (uint32_t i = 0; i < to - from && patches.out[i] != patches.to[i]; i++) {
            memcpy(patches.to[i], patches.out[i], op->linear.outputs * sizeof(float));
        }
    }
}

/* ---- Gated ops ------------------------------------------------------------------------------ */

/* Rows of one step of the kernel; to, second_to: where they belong. */
struct step {
    const float *x[CELL_PATCHES_AT_ONCE];
    const float *h[CELL_PATCHES_AT_ONCE];
    const float *old[CELL_PATCHES_AT_ONCE];
    const float *z[CELL_PATCHES_AT_ONCE];
    float *out[CELL_PATCHES_AT_ONCE];
    float *second[CELL_PATCHES_AT_ONCE];
    float *to[CELL_PATCHES_AT_ONCE];
    float *second_to[CELL_PATCHES_AT_ONCE];
};

static bool has_old(const struct cell_program_op *op)
{
    return op->n_in > CELL_GATED_OLD;
}

static bool has_z(const struct cell_program_op *op)
{
    return op->n_in > CELL_GATED_Z;
}

static bool has_second(const struct cell_program_op *op)
{
    return op->second != CELL_VALUES_MAX;
}

/* A patch of a row that the kernel reads as it writes: where it stands, or a copy. */
static const float *old_patch(const struct cell_view *view, const struct cell_program_op *op,
                              const float *patch, uint32_t region, uint32_t i)
{
    if (is_direct(op)) {
        return patch;
    }
    float *copy = scratch_row(view, op, region, i);
    memcpy(copy, patch, op->gated.hidden * sizeof(float));
    return copy;
}

/* Computes n rows, and copies what does not stand where it belongs. */
static void run_step(const struct cell_view *view, const struct cell_program_op *op,
                     struct step *step, uint32_t n, bool is_backwards)
{
    const struct cell_gated_step rows = {.gated = &op->gated,
                                         .n_rows = n,
                                         .panel_end = op->gated.panels,
                                         .x = step->x,
                                         .h = step->h,
                                         .old = has_old(op) ? step->old : NULL,
                                         .z = has_z(op) ? step->z : NULL,
                                         .out = step->out,
                                         .second = has_second(op) ? step->second : NULL,
                                         .scratch = view->space->scratch,
                                         .backwards = is_backwards};
    const size_t bytes = op->gated.hidden * sizeof(float);
    view->program->kernels->gated_step(&rows);
    for (uint32_t i = 0; i < n && !is_direct(op); i++) {
        memcpy(step->to[i], step->out[i], bytes);
        if (has_second(op)) {
            memcpy(step->second_to[i], step->second[i], bytes);
        }
    }
}

enum { APART_OLD, APART_Z, APART_OUT, APART_SECOND };

/* Patches number first..first+n-1 of the view's rows, each with an h of its own. */
static void find_apart(const struct cell_view *view, const struct cell_program_op *op,
                       uint32_t first, uint32_t n, struct step *step)
{
    const struct cell_gated *gated = &op->gated;
    const size_t hidden = gated->hidden;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t row = (first + i) / op->op->patches;
        const size_t p = (first + i) % op->op->patches;
        step->x[i] = row_of(view, op->in[CELL_GATED_X], row) + p * gated->inputs;
        step->h[i] = row_of(view, op->in[CELL_GATED_H], row) + p * gated->feedback;
        if (has_old(op)) {
            const float *old = row_of(view, op->in[CELL_GATED_OLD], row) + p * hidden;
            step->old[i] = old_patch(view, op, old, APART_OLD, i);
        }
        if (has_z(op)) {
            const float *z = row_of(view, op->in[CELL_GATED_Z], row) + p * hidden;
            step->z[i] = old_patch(view, op, z, APART_Z, i);
        }
        step->to[i] = row_of(view, op->out, row) + p * hidden;
        step->out[i] = is_direct(op) ? step->to[i] : scratch_row(view, op, APART_OUT, i);
        if (has_second(op)) {
            step->second_to[i] = row_of(view, op->second, row) + p * hidden;
            step->second[i] =
                is_direct(op) ? step->second_to[i] : scratch_row(view, op, APART_SECOND, i);
        }
    }
}

/* Members share rows, or all patches of all rows. */
static void run_apart(const struct cell_view *view, const struct cell_program_op *op)
{
    const uint32_t patches = op->op->patches;
    uint32_t first = 0;
    uint32_t end = 0;
    if (op->share == CELL_SHARE_ROWS) {
        cell_view_share(view, view->n_rows, &first, &end);
        first *= patches;
        end *= patches;
    } else {
        cell_view_share(view, view->n_rows * patches, &first, &end);
    }
    const uint32_t n = end - first;
    const uint32_t times = (n + CELL_PATCHES_AT_ONCE - 1) / CELL_PATCHES_AT_ONCE;
    struct step step;
    for (uint32_t t = 0; t < times; t++) {
        const uint32_t from = (uint32_t)((uint64_t)n * t / times);
        const uint32_t to = (uint32_t)((uint64_t)n * (t + 1) / times);
        find_apart(view, op, first + from, to - from, &step);
        run_step(view, op, &step, to - from, t % 2 == 1);
    }
}

enum { TURN_OUT, TURN_SECOND = 2 };

/* Patch p of n rows from `first` on, as step number `i`: it begins with what the patch before has
 * left, which stands in step->out and step->second. */
static void find_turn(const struct cell_view *view, const struct cell_program_op *op,
                      const struct step *rows, uint32_t i, uint32_t n, struct step *step)
{
    const size_t hidden = op->gated.hidden;
    const size_t p = op->op->order == CELL_PATCHES_FORWARD ? i : op->op->patches - 1 - i;
    const bool is_lstm = has_second(op);
    for (uint32_t r = 0; r < n; r++) {
        step->x[r] = rows->x[r] + p * op->gated.inputs;
        step->h[r] = i == 0 ? rows->h[r] : step->out[r];
        step->old[r] = i == 0 ? rows->old[r] : is_lstm ? step->second[r] : step->out[r];
        step->to[r] = rows->to[r] + p * hidden;
        step->out[r] = is_direct(op) ? step->to[r] : scratch_row(view, op, TURN_OUT + i % 2, r);
        if (is_lstm) {
            step->second_to[r] = rows->second_to[r] + p * hidden;
            step->second[r] =
                is_direct(op) ? step->second_to[r] : scratch_row(view, op, TURN_SECOND + i % 2, r);
        }
    }
}

/* Rows first..first+n-1, all patches one after the other. */
static void run_rows_in_turn(const struct cell_view *view, const struct cell_program_op *op,
                             uint32_t first, uint32_t n)
{
    struct step rows;
    struct step step;
    for (uint32_t r = 0; r < n; r++) {
        rows.x[r] = row_of(view, op->in[CELL_GATED_X], first + r);
        rows.h[r] = row_of(view, op->in[CELL_GATED_H], first + r);
        rows.old[r] = has_old(op) ? row_of(view, op->in[CELL_GATED_OLD], first + r) : NULL;
        rows.to[r] = row_of(view, op->out, first + r);
        rows.second_to[r] = has_second(op) ? row_of(view, op->second, first + r) : NULL;
    }
    for (uint32_t i = 0; i < op->op->patches; i++) {
        find_turn(view, op, &rows, i, n, &step);
        run_step(view, op, &step, n, i % 2 == 1);
    }
}

static void run_in_turn(const struct cell_view *view, const struct cell_program_op *op)
{
    uint32_t first;
    uint32_t end;
    cell_view_share(view, view->n_rows, &first, &end);
    const uint32_t n = end - first;
    const uint32_t times = (n + CELL_PATCHES_AT_ONCE - 1) / CELL_PATCHES_AT_ONCE;
    for (uint32_t t = 0; t < times; t++) {
        const uint32_t from = (uint32_t)((uint64_t)n * t / times);
        const uint32_t to = (uint32_t)((uint64_t)n * (t + 1) / times);
        run_rows_in_turn(view, op, first + from, to - from);
    }
}

void cell_patches_run(const struct cell_view *view, const struct cell_program_op *op)
{
    if (op->kind == CELL_OP_GATHER) {
        gather(view, op);
    } else if (op->convolution != NULL) {
        cell_convolve(view, op);
    } else if (!op->is_gated) {
        linear(view, op);
    } else if (op->op->order == CELL_PATCHES_APART) {
        run_apart(view, op);
    } else {
        run_in_turn(view, op);
    }
}
