/* See picture.h. Places beside each other read the same lines, so those are found once; most of
 * them read nothing beyond the edges, and then a line of taps is one piece. */
#include "cells/cpu/picture.h"

#include <string.h>

/* The op at work: floats of a place, from line to line of its taps, and from place to place. */
struct gathering {
    const struct cell_picture *picture;
    size_t channels, line, pitch;
};

/* Most often few floats. */
static inline void copy_floats(float *to, const float *from, size_t n)
{
    size_t k = 0;
    for (; k + 8 <= n; k += 8) {
        memcpy(to + k, from + k, 8 * sizeof(float));
    }
    for (; k < n; k++) {
        to[k] = from[k];
    }
}

/* What a place reads of one line, tap by tap, from place `at` of the line on; NULL: the line is
 * beyond the edges. */
static void gather_edge(const struct gathering *g, const float *line, int64_t at, float *to)
{
    const struct cell_picture *picture = g->picture;
    for (size_t k = 0; k < picture->taps[1]; k++, at += picture->dilations[1]) {
        if (line == NULL || at < 0 || at >= picture->size[1]) {
            memset(to, 0, g->channels * sizeof(float));
        } else {
            copy_floats(to, line + (size_t)at * g->channels, g->channels);
        }
        to += g->channels;
    }
}

/* What n places read of that line, the first of them from place `at` on. */
static void gather_line(const struct gathering *g, const float *line, int64_t at, uint32_t n,
                        float *to)
{
    const struct cell_picture *picture = g->picture;
    const int64_t reach = (int64_t)(picture->taps[1] - 1) * picture->dilations[1];
    const bool is_piece = line != NULL && picture->dilations[1] == 1;
    for (uint32_t i = 0; i < n; i++, to += g->pitch, at += picture->strides[1]) {
        if (is_piece && at >= 0 && at + reach < picture->size[1]) {
            copy_floats(to, line + (size_t)at * g->channels, g->line);
        } else {
            gather_edge(g, line, at, to);
        }
    }
}

/* n places of line y, from number x on. */
static void gather_places(const struct gathering *g, const float *row, const uint32_t place[2],
                          uint32_t n, float *to)
{
    const struct cell_picture *picture = g->picture;
    const size_t width = picture->size[1] * g->channels;
    int64_t start[2];
    for (uint32_t i = 0; i < 2; i++) {
        start[i] = (int64_t)place[i] * picture->strides[i] - (int64_t)picture->before[i];
    }
    for (uint32_t k = 0; k < picture->taps[0]; k++, to += g->line) {
        const int64_t down = start[0] + (int64_t)k * picture->dilations[0];
        const bool is_inside = down >= 0 && down < picture->size[0];
        gather_line(g, is_inside ? row + (size_t)down * width : NULL, start[1], n, to);
    }
}

void cell_picture_gather(const struct cell_op *op, const float *x, uint32_t place, uint32_t n,
                         float *to)
{
    const struct cell_picture *picture = &op->picture;
    const size_t terms = op->weights[0].rows;
    const size_t channels = terms / ((size_t)picture->taps[0] * picture->taps[1]);
    const struct gathering gathering = {.picture = picture,
                                        .channels = channels,
                                        .line = picture->taps[1] * channels,
                                        .pitch = CELL_ROW_FLOATS(terms)};
    uint32_t at[2] = {place / picture->left[1], place % picture->left[1]};
    uint32_t of_line = 0;
    for (uint32_t i = 0; i < n; i += of_line) {
        const uint32_t room = picture->left[1] - at[1];
        of_line = room < n - i ? room : n - i;
        gather_places(&gathering, x, at, of_line, to + i * gathering.pitch);
        at[0]++;
        at[1] = 0;
    }
}
