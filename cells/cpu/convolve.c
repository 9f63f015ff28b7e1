/* See convolve.h. */
#include "cells/cpu/convolve.h"

#include "base/mem.h"

#include <string.h>

/* Patches from which members share them out as places; fewer wait less for one another by panels.
 */
#define PATCHES_MIN 64u

/* Places that go through the kernel at once: whole tiles of 4, 6, 8 and 12. */
#define AT_ONCE 576u

/* Floats of the copied lines, so that they stay in L2; where weights do not, a part of these, so
 * that they are read for some places. But of at least so many lines of places, of which neighbours
 * are copied twice. */
#define COPIED_FLOATS     65536u
#define COPIED_FLOATS_MAX 262144u
#define COPIED_PART       16u
#define COPIED_LINES_MIN  4u

/* ---- At load -------------------------------------------------------------------------------- */

static uint32_t reach_of(const struct cell_picture *picture, uint32_t axis)
{
    return (picture->taps[axis] - 1) * picture->dilations[axis] + 1;
}

/* Elements of an axis that its places go over. */
static uint32_t span_of(const struct cell_picture *picture, uint32_t axis)
{
    return (picture->left[axis] - 1) * picture->strides[axis] + reach_of(picture, axis);
}

/* Lines of the picture that so many lines of places go over. */
static size_t lines_of(const struct cell_convolution *convolution,
                       const struct cell_picture *picture, uint32_t lines)
{
    return (size_t)(lines - 1) * picture->strides[0] + convolution->reach;
}

static bool is_in_place(const struct cell_picture *picture)
{
    bool is = true;
    for (uint32_t i = 0; i < 2; i++) {
        is = is && picture->before[i] == 0 && span_of(picture, i) <= picture->size[i];
    }
    return is;
}

/* RESOURCE_EXHAUSTED. */
static enum base_status plan_pieces(struct base_arena *arena, const struct cell_picture *picture,
                                    uint32_t channels, struct cell_convolution *convolution)
{
    const bool is_line = picture->dilations[1] == 1;
    const uint32_t of_line = is_line ? 1 : picture->taps[1];
    convolution->n_pieces = picture->taps[0] * of_line;
    convolution->piece = is_line ? picture->taps[1] * channels : channels;
    convolution->pieces = base_arena_array(arena, convolution->n_pieces, sizeof(size_t));
    if (convolution->pieces == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    for (uint32_t i = 0; i < convolution->n_pieces; i++) {
        convolution->pieces[i] = (size_t)(i / of_line) * picture->dilations[0] * convolution->line +
                                 (size_t)(i % of_line) * picture->dilations[1] * channels;
    }
    return BASE_OK;
}

static size_t copied_floats(size_t weights, size_t least)
{
    const size_t part = weights / COPIED_PART;
    const size_t floats = part < COPIED_FLOATS       ? COPIED_FLOATS
                          : part < COPIED_FLOATS_MAX ? part
                                                     : COPIED_FLOATS_MAX;
    return least > floats ? least : floats;
}

static enum base_status plan_picture(struct base_arena *arena, const struct cell_program_op *op,
                                     struct cell_convolution *convolution)
{
    const struct cell_picture *picture = &op->op->picture;
    const uint32_t channels = op->linear.inputs / (picture->taps[0] * picture->taps[1]);
    convolution->is_in_place = is_in_place(picture);
    const size_t wide = convolution->is_in_place ? picture->size[1] : span_of(picture, 1);
    convolution->line = wide * channels;
    convolution->reach = reach_of(picture, 0);
    convolution->of_line = picture->left[1];
    convolution->step = (size_t)picture->strides[1] * channels;
    convolution->down = picture->strides[0] * convolution->line;
    if (!convolution->is_in_place) {
        const uint32_t most =
            picture->left[0] < COPIED_LINES_MIN ? picture->left[0] : COPIED_LINES_MIN;
        const size_t least = lines_of(convolution, picture, most) * convolution->line;
        convolution->room = copied_floats((size_t)op->linear.inputs * op->linear.outputs, least);
    }
    return plan_pieces(arena, picture, channels, convolution);
}

/* Patches some floats apart. */
static enum base_status plan_patches(struct base_arena *arena, const struct cell_program_op *op,
                                     struct cell_convolution *convolution)
{
    *convolution = (struct cell_convolution){.of_line = op->op->patches,
                                             .step = op->op->step,
                                             .is_in_place = true,
                                             .n_pieces = 1,
                                             .piece = op->linear.inputs};
    convolution->pieces = base_arena_array(arena, 1, sizeof(size_t));
    return convolution->pieces == NULL ? BASE_RESOURCE_EXHAUSTED : BASE_OK;
}

enum base_status cell_convolve_plan(struct cell_program *program, struct cell_program_op *op)
{
    const bool has_picture = cell_op_has_picture(op->op);
    if (program->kernels->linear_places == NULL || op->linear.precision != CELL_FP32 ||
        (!has_picture && op->op->patches < PATCHES_MIN)) {
        return BASE_OK;
    }
    struct cell_convolution *convolution = base_arena_alloc(&program->arena, sizeof(*convolution));
    if (convolution == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    *convolution = (struct cell_convolution){.n_pieces = 0};
    op->convolution = convolution;
    return has_picture ? plan_picture(&program->arena, op, convolution)
                       : plan_patches(&program->arena, op, convolution);
}

size_t cell_convolve_floats(const struct cell_convolution *convolution)
{
    return convolution->room;
}

/* ---- A batch -------------------------------------------------------------------------------- */

/* Places on their way to the kernel. */
struct block {
    uint32_t n;
    size_t copied; /* floats of the room */
    const float *x[AT_ONCE];
    float *out[AT_ONCE];
};

/* Those of rows, one behind the other, of which a member computes some. */
struct places {
    const struct cell_view *view;
    const struct cell_program_op *op;
    uint32_t first, end;
};

/* Lines of places from number `line` on, with the zeros around them. */
static void copy_lines(const struct cell_program_op *op, const float *x, uint32_t line,
                       size_t n_lines, float *to)
{
    const struct cell_picture *picture = &op->op->picture;
    const struct cell_convolution *convolution = op->convolution;
    const size_t channels = convolution->step / picture->strides[1];
    const size_t row = picture->size[1] * channels;
    const size_t before = picture->before[1] * channels;
    const size_t room = convolution->line > before ? convolution->line - before : 0;
    const size_t n = row < room ? row : room;
    int64_t at = (int64_t)line * picture->strides[0] - (int64_t)picture->before[0];
    for (size_t i = 0; i < n_lines; i++, at++, to += convolution->line) {
        if (at < 0 || at >= picture->size[0] || n == 0) {
            memset(to, 0, convolution->line * sizeof(float));
            continue;
        }
        memset(to, 0, before * sizeof(float));
        memcpy(to + before, x + (size_t)at * row, n * sizeof(float));
        memset(to + before + n, 0, (convolution->line - before - n) * sizeof(float));
    }
}

/* How many of n places, from number `at` of a line on, can be copied to what room is left. */
static uint32_t places_that_fit(const struct cell_program_op *op, const struct block *block,
                                uint32_t at, uint32_t n)
{
    const struct cell_convolution *convolution = op->convolution;
    if (convolution->is_in_place) {
        return n;
    }
    const size_t lines = (convolution->room - block->copied) / convolution->line;
    const uint32_t wanted = (at + n - 1) / convolution->of_line + 1;
    if (lines_of(convolution, &op->op->picture, wanted) <= lines) {
        return n;
    }
    if (lines < convolution->reach) {
        return 0;
    }
    const size_t whole = (lines - convolution->reach) / op->op->picture.strides[0] + 1;
    return (uint32_t)(whole * convolution->of_line - at);
}

/* Adds n places of a row, from number `place` on; how many there was room for. */
static uint32_t add_places(const struct places *places, uint32_t row, uint32_t place, uint32_t n,
                           struct block *block)
{
    const struct cell_program_op *op = places->op;
    const struct cell_space *space = places->view->space;
    const struct cell_convolution *convolution = op->convolution;
    const float *x = (const float *)(void *)space->rows[op->in[0]][row];
    float *out = (float *)(void *)space->rows[op->out][row];
    uint32_t line = place / convolution->of_line;
    uint32_t at = place % convolution->of_line;
    n = n < AT_ONCE - block->n ? n : AT_ONCE - block->n;
    n = n == 0 ? 0 : places_that_fit(op, block, at, n);
    if (n == 0) {
        return 0;
    }
    if (convolution->is_in_place) {
        x += line * convolution->down;
    } else {
        const uint32_t lines = (at + n - 1) / convolution->of_line + 1;
        const size_t n_lines = lines_of(convolution, &op->op->picture, lines);
        float *to =
            places->view->space->scratch + places->view->program->patches_at + block->copied;
        copy_lines(op, x, line, n_lines, to);
        block->copied += n_lines * convolution->line;
        x = to;
    }
    out += (size_t)place * op->linear.outputs;
    for (uint32_t i = 0; i < n; i++, out += op->linear.outputs) {
        block->x[block->n] = x + at * convolution->step;
        block->out[block->n++] = out;
        at = at + 1 < convolution->of_line ? at + 1 : 0;
        x += at == 0 ? convolution->down : 0;
    }
    return n;
}

static void run_block(const struct places *places, struct block *block)
{
    const struct cell_program_op *op = places->op;
    const struct cell_linear_places run = {.linear = &op->linear,
                                           .bounds = op->bounds,
                                           .n_places = block->n,
                                           .x = block->x,
                                           .out = block->out,
                                           .n_pieces = op->convolution->n_pieces,
                                           .piece = op->convolution->piece,
                                           .pieces = op->convolution->pieces};
    places->view->program->kernels->linear_places(&run);
    block->n = 0;
    block->copied = 0;
}

void cell_convolve(const struct cell_view *view, const struct cell_program_op *op)
{
    const uint32_t patches = op->op->patches;
    struct places places = {.view = view, .op = op, .end = view->n_rows * patches};
    if (op->share == CELL_SHARE_ROWS) {
        cell_view_share(view, view->n_rows, &places.first, &places.end);
        places.first *= patches;
        places.end *= patches;
    } else {
        cell_view_share(view, places.end, &places.first, &places.end);
    }
    struct block block;
    block.n = 0;
    block.copied = 0;
    for (uint32_t i = places.first; i < places.end;) {
        const uint32_t place = i % patches;
        const uint32_t of_row = patches - place;
        const uint32_t left = places.end - i;
        const uint32_t added =
            add_places(&places, i / patches, place, left < of_row ? left : of_row, &block);
        i += added;
        if (added == 0 || i == places.end) {
            run_block(&places, &block);
        }
    }
}
