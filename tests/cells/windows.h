/* Models that read windows along their steps, for tests: x, whatever a case makes `y` of it, and a
 * GRU over the steps of y. And what a window gives, by plain loops. One builder for all: a case at
 * a time. */
#ifndef TESTS_CELLS_WINDOWS_H
#define TESTS_CELLS_WINDOWS_H

#include "base/random.h"
#include "tests/onnx_builder.h"

#include "base/status.h"

enum { WINDOW_CHANNELS = 2, WINDOW_HIDDEN = 3 };

extern struct onnx_builder window_builder;
extern struct base_random window_numbers;

/* What a node does along the steps; "Slice": a window of one tap with less than no padding. */
struct window {
    const char *op;
    int64_t taps, dilation, stride, before, behind;
    bool rounds_up, counts_pads;
};

/* x [batch, channels, time]; the case adds nodes that make `y` of it, of as many channels. */
void window_begin(int64_t time);
/* A GRU over the steps of y, with these operands; outputs y and its. */
void window_end(const char *operands);
/* The same, of a model that is refused. */
void window_refuse(enum base_status status, const char *why);

/* Of any builder: the mean of y [batch, .., steps, ..] over n axes of features at each step, one
 * number, and a GRU over that, "out". */
void window_mean(struct onnx_builder *builder, uint32_t n, const int64_t *features);
/* Answers these, whose types the file does not state; ends with NULL. */
void window_answers(struct onnx_builder *builder, const char *const *names);

/* A node that makes `to` of `from`; a convolution's weights are "wc". */
Onnx__NodeProto *window_add(const struct window *w, const char *from, const char *to);

/* As PyTorch has it. */
int64_t window_steps_left(const struct window *w, int64_t time);

/* What it gives at step t of a channel, whose steps are at[0], at[step] and so on. */
double window_expected(const struct window *w, const double *at, size_t step, int64_t time,
                       const float *weights, int64_t t);

#endif
