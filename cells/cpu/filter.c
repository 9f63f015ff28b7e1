/* See filter.h. */
#include "cells/cpu/filter.h"

#include <string.h>

/* The op at work on one row. */
struct filter {
    const struct cell_kernels *kernels;
    const struct cell_op *op;
    struct cell_bounds bounds;
    const float *x;
    size_t channels;
    float *out;
};

/* n places of line y from number x on, and the taps that are inside: of each axis first.. end - 1.
 */
struct run {
    uint32_t y, x, n;
    uint32_t first[2], end[2];
};

/* What tap 0 of a place reads, along one axis. */
static int64_t start_of(const struct cell_picture *picture, uint32_t axis, uint32_t place)
{
    return (int64_t)place * picture->strides[axis] - (int64_t)picture->before[axis];
}

static void find_taps(const struct cell_picture *picture, uint32_t axis, uint32_t place,
                      struct run *run)
{
    const int64_t start = start_of(picture, axis, place);
    const int64_t dilation = picture->dilations[axis];
    const int64_t taps = picture->taps[axis];
    const int64_t room = (int64_t)picture->size[axis] - start;
    const int64_t before = start < 0 ? (-start + dilation - 1) / dilation : 0;
    const int64_t inside = room <= 0 ? 0 : (room + dilation - 1) / dilation;
    const int64_t end = inside < taps ? inside : taps;
    run->end[axis] = (uint32_t)end;
    run->first[axis] = (uint32_t)(before < end ? before : end);
}

/* MAX and MIN of what is no NaN. */
static float held_within(const struct cell_bounds *bounds, float value)
{
    const float above = value > bounds->least ? value : bounds->least;
    return !bounds->are ? value : above < bounds->most ? above : bounds->most;
}

/* Of no taps the bias, or 0. */
static void fill_places(const struct filter *filter, const struct run *run, float *out)
{
    const float *bias = filter->op->n_weights > 1 ? filter->op->weights[1].data : NULL;
    for (uint32_t i = 0; i < run->n; i++, out += filter->channels) {
        for (size_t c = 0; c < filter->channels; c++) {
            out[c] = held_within(&filter->bounds, bias == NULL ? 0.0f : bias[c]);
        }
    }
}

static void run_places(const struct filter *filter, const struct run *run)
{
    const struct cell_op *op = filter->op;
    const struct cell_picture *picture = &op->picture;
    const float *w = op->n_weights > 0 ? op->weights[0].data : NULL;
    const int64_t start[2] = {start_of(picture, 0, run->y), start_of(picture, 1, run->x)};
    float *out = filter->out + ((size_t)run->y * picture->left[1] + run->x) * filter->channels;
    int64_t offsets[CELL_FILTER_TAPS_MAX];
    const float *weights[CELL_FILTER_TAPS_MAX];
    uint32_t n = 0;
    for (uint32_t i = run->first[0]; i < run->end[0]; i++) {
        const int64_t line = (start[0] + (int64_t)i * picture->dilations[0]) * picture->size[1];
        for (uint32_t j = run->first[1]; j < run->end[1]; j++) {
            const int64_t at = line + start[1] + (int64_t)j * picture->dilations[1];
            offsets[n] = at * (int64_t)filter->channels;
            weights[n] = w == NULL ? NULL : w + (i * picture->taps[1] + j) * filter->channels;
            n++;
        }
    }
    if (n == 0) {
        fill_places(filter, run, out);
        return;
    }
    const struct cell_filter_run kernel_run = {.n_places = run->n,
                                               .channels = (uint32_t)filter->channels,
                                               .n_taps = n,
                                               .x = filter->x,
                                               .step = picture->strides[1] * filter->channels,
                                               .offsets = offsets,
                                               .weights = w == NULL ? NULL : weights,
                                               .bias =
                                                   op->n_weights > 1 ? op->weights[1].data : NULL,
                                               .bounds = filter->bounds,
                                               .out = out};
    filter->kernels->filter(&kernel_run);
}

/* Places of a line whose taps are all inside: number first.. end - 1. */
static void find_inner(const struct cell_picture *picture, uint32_t *first, uint32_t *end)
{
    const int64_t stride = picture->strides[1];
    const int64_t reach = (int64_t)(picture->taps[1] - 1) * picture->dilations[1];
    const int64_t last = (int64_t)picture->size[1] - 1 - reach + picture->before[1];
    const int64_t left = picture->left[1];
    const int64_t from = (picture->before[1] + stride - 1) / stride;
    const int64_t to = last < 0 ? 0 : last / stride + 1;
    *first = (uint32_t)(from < left ? from : left);
    *end = (uint32_t)(to < left ? to : left);
    *end = *end < *first ? *first : *end;
}

void cell_filter(const struct cell_program *program, const struct cell_program_op *op,
                 const float *x, float *out) // NOLINT(readability-non-const-parameter): written
{
    const struct cell_picture *picture = &op->op->picture;
    const uint32_t width = program->values[op->in[0]].shape.width;
    const struct filter filter = {.kernels = program->kernels,
                                  .op = op->op,
                                  .bounds = op->bounds,
                                  .x = x,
                                  .channels = width / (picture->size[0] * picture->size[1]),
                                  .out = out};
    uint32_t first = 0;
    uint32_t end = 0;
    find_inner(picture, &first, &end);
    struct run run = {.n = 1};
    for (run.y = 0; run.y < picture->left[0]; run.y++) {
        find_taps(picture, 0, run.y, &run);
        for (run.x = 0; run.x < picture->left[1]; run.x += run.n) {
            const bool is_inner = run.x >= first && run.x < end;
            find_taps(picture, 1, run.x, &run);
            run.n = is_inner ? end - run.x : 1;
            run_places(&filter, &run);
        }
    }
}
