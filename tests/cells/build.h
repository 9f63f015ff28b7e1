/* Builds cell definitions with random weights for the tests. Numbers of inputs, states and results
 * follow the order of the calls, so inputs come first, then states, then ops. */
#ifndef TESTS_CELLS_BUILD_H
#define TESTS_CELLS_BUILD_H

#include "base/arena.h"
#include "base/random.h"
#include "cells/def.h"

#include <stdbool.h>

struct build {
    struct cell_def def;
    struct base_arena arena; /* the weights' */
    struct base_random random;
};

void build_init(struct build *build, uint64_t salt);
void build_release(struct build *build);

/* Each returns the number of the new value. */
uint32_t build_input(struct build *build, enum cell_dtype dtype, uint32_t width);
uint32_t build_state(struct build *build, enum cell_dtype dtype, uint32_t width);

/* An op without weights over up to two operands (b may be UINT32_MAX). */
uint32_t build_op(struct build *build, enum cell_op_kind kind, uint32_t a, uint32_t b,
                  uint32_t width);
uint32_t build_select(struct build *build, uint32_t condition, uint32_t a, uint32_t b,
                      uint32_t width);
uint32_t build_cast(struct build *build, uint32_t a, enum cell_dtype dtype);
uint32_t build_concat(struct build *build, uint32_t n, const uint32_t *operands);
uint32_t build_linear(struct build *build, uint32_t x, uint32_t width, bool has_bias);
/* Of the places of a picture, `width` numbers each. */
uint32_t build_picture(struct build *build, uint32_t x, const struct cell_picture *picture,
                       uint32_t width);
/* FILTER, a sum (with a bias or none) or the largest. */
uint32_t build_filter(struct build *build, uint32_t x, const struct cell_picture *picture,
                      uint32_t variant, bool has_bias);
/* Of this many patches, each `step` elements behind the other and as long as fits them all. */
uint32_t build_patches(struct build *build, uint32_t x, uint32_t patches, uint32_t step,
                       uint32_t width);
/* dims[0] * dims[1] * dims[2] must divide its width. */
uint32_t build_spread(struct build *build, uint32_t x, const uint32_t dims[3]);
uint32_t build_transpose(struct build *build, uint32_t x, const uint32_t dims[3]);
/* Of each of the ids that the value holds. */
uint32_t build_gather(struct build *build, uint32_t id, uint32_t rows, uint32_t width);
uint32_t build_const(struct build *build, uint32_t width);
/* Numbers below `below`, at random, I64. */
uint32_t build_numbers(struct build *build, uint32_t width, uint32_t below);
/* Returns the number of h'; c' is the next. */
uint32_t build_lstm(struct build *build, uint32_t x, uint32_t h, uint32_t c, bool has_bias);
/* Gives the last op, an LSTM with bias, peepholes. */
void build_peepholes(struct build *build);
/* GRU or RNN. */
uint32_t build_gated(struct build *build, enum cell_op_kind kind, uint32_t variant, uint32_t x,
                     uint32_t h, bool has_bias);

/* LSTM, GRU or RNN over so many patches of x, in this order; c: of an LSTM alone. Returns the
 * number of h'; an LSTM's c' is the next. */
struct build_turns {
    enum cell_op_kind kind;
    uint32_t variant;
    enum cell_patch_order order;
    uint32_t patches, hidden;
    uint32_t x, h, c;
    bool has_bias;
};
uint32_t build_gated_patches(struct build *build, const struct build_turns *turns);

/* A tree op of this many units over x (UINT32_MAX: none) and the h and c of each child,
 * children[2k] and children[2k + 1]. Returns the number of h'; c' is the next. */
struct build_tree {
    enum cell_op_kind kind;
    uint32_t hidden, x, n_children;
    uint32_t children[2 * CELL_CHILDREN_MAX];
    bool has_bias;
};
uint32_t build_tree(struct build *build, const struct build_tree *tree);
/* The same as a cell, of inputs x [inputs] (0: none) and the children's; outputs h' and c'. */
void build_tree_cell(struct build *build, struct build_tree tree, uint32_t inputs, uint64_t salt);

/* The last op added, for the tests to change. */
struct cell_op *build_last(struct build *build);
void build_next(struct build *build, uint32_t state, uint32_t value);
void build_output(struct build *build, uint32_t value);

/* rows * cols floats in -scale..scale. */
float *build_floats(struct build *build, uint32_t rows, uint32_t cols, float scale);

/* input x [inputs], states h and c [hidden], one LSTM, output 0 = h'. */
void build_lstm_cell(struct build *build, uint32_t inputs, uint32_t hidden, uint64_t salt);

/* A cell of one's own: input x [inputs], states h, c and r [hidden]. Products of x that are
 * centred, cut, added to those of h, summed over by an RNN, and emitted: all of them may be
 * computed ahead. Output 0 holds products of x and h', outputs 1 and 2 are a product of x and c'.
 */
void build_own_cell(struct build *build, uint32_t inputs, uint32_t hidden, uint64_t salt);

#endif
