/* A step of a batch as kernels: what each of them is told, for host and device code.
 *
 * A step runs over *compact matrices*, one a value, a row for each row of the batch: LOAD gathers
 * what the step reads (inputs, states) into them, products and kernels compute one from another,
 * STORE and EMIT scatter what is kept. A kernel is told places and widths, by value, so that it can
 * be recorded in a CUDA graph; all that changes from batch to batch stands in device memory, in the
 * *inbox* (struct cell_step_task and what follows it) and in the *result*, which also is where a
 * step learns its number.
 *
 * A kernel's body is a function of the common subset of C11 and CUDA C++ (step_rows.h,
 * step_cells.h, step_ops.h, ...): one thread's part of it, a *lane* of an *item* in a *phase*.
 * Lanes of an item share a *room*, and all have ended one phase before any begins the next.
 * step_kernels.cu runs them on a GPU; tests/cuda/driver_host.c in loops on the host. */
#ifndef CELLS_CUDA_STEP_H
#define CELLS_CUDA_STEP_H

#include "cells/beam_state.h"
#include "cells/def.h"
#include "cells/lane/rows.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __CUDACC__
#    define CELL_STEP_FN static inline __device__
#else
#    define CELL_STEP_FN static inline
#endif

/* X(NAME, name, lanes, phases): the kernels; struct cell_step_NAME is what each is told. */
#define CELL_STEP_MAP(X)                                                                           \
    X(BEGIN, begin, 256, 2)                                                                        \
    X(LOAD, load, 1, 1)                                                                            \
    X(STORE, store, 1, 1)                                                                          \
    X(EMIT, emit, 32, 1)                                                                           \
    X(TURN, turn, 256, 3)                                                                          \
    X(LOOKUP, lookup, 1, 1)                                                                        \
    X(MOVE, move, 1, 1)                                                                            \
    X(CAST, cast, 1, 1)                                                                            \
    X(ROUND, round, 1, 1)                                                                          \
    X(PRODUCT, product, 1, 1)                                                                      \
    X(LSTM, lstm, 1, 1)                                                                            \
    X(GRU, gru, 1, 1)                                                                              \
    X(GRU_RESET, gru_reset, 1, 1)                                                                  \
    X(GRU_NEW, gru_new, 1, 1)                                                                      \
    X(RNN, rnn, 1, 1)                                                                              \
    X(TREE, tree, 1, 1)                                                                            \
    X(CHAIN, chain, 1, 1)                                                                          \
    X(SOFTMAX, softmax, 16, 4)                                                                     \
    X(MEAN, mean, 16, 2)                                                                           \
    X(ARGMAX, argmax, 32, 2)                                                                       \
    X(TOP, top, 256, 37)                                                                           \
    X(TAKE, take, 1, 1)                                                                            \
    X(TRANSPOSE, transpose, 1, 1)                                                                  \
    X(SPREAD, spread, 1, 1)                                                                        \
    X(PLACES, places, 1, 1)                                                                        \
    X(FILTER, filter, 1, 1)                                                                        \
    X(ATTEND_SCORE, attend_score, 16, 2)                                                           \
    X(ATTEND_WEIGH, attend_weigh, 256, 2)                                                          \
    X(ATTEND, attend, 1, 1)                                                                        \
    X(REDUCE, reduce, 256, 4)                                                                      \
    X(PICK, pick, 1, 1)                                                                            \
    X(SEARCH, search, 32, 4)                                                                       \
    X(CHOOSE, choose, 1, 1)

enum cell_step_kernel {
#define CELL_STEP_ENUM(NAME, name, lanes, phases) CELL_STEP_##NAME,
    CELL_STEP_MAP(CELL_STEP_ENUM)
#undef CELL_STEP_ENUM
        CELL_STEP_COUNT
};

#define CELL_STEP_LANES_MAX 256u
#define CELL_STEP_ROOM      3u /* floats a lane that the lanes of an item share */

/* Which thread's part a body is asked for. Every kernel goes on until n_items are done. */
struct cell_step_at {
    uint32_t item, n_items;
    uint32_t lane, phase;
    float *room; /* [lanes * CELL_STEP_ROOM], in shared memory */
};

/* An address in memory that the device reaches; only kernels and the driver may follow it. */
typedef uint64_t cell_step_address;

/* On a host an address is the pointer and this, which no processor takes for one: a pointer that is
 * mistaken for an address faults, and so does an address that is mistaken for a pointer. */
#define CELL_STEP_HOST_BIAS (UINT64_C(1) << 52)

/* A value's matrix: row r of the batch starts at `at + r * pitch`. */
struct cell_step_place {
    cell_step_address at;
    uint32_t pitch; /* bytes; 0: one row for all */
    uint32_t reserved;
};

/* ---- The inbox and the result: what changes from batch to batch ------------------------------ */

#define CELL_STEP_ROWS_MAX 1024u /* CELL_BATCH_ROWS_MAX */

/* A batch is given to the device in *pieces* of some steps. Offsets are bytes from the task. */
struct cell_step_task {
    uint32_t n_rows;
    uint32_t first; /* steps of the batch that earlier pieces have */
    uint32_t steps; /* of the whole batch */
    uint32_t is_interruptible;
    uint32_t steps_min;
    uint32_t n_emits;
    uint32_t sources_at;         /* struct cell_step_source [inputs, then states][n_rows] */
    uint32_t emits_at;           /* struct cell_step_emit [n_emits] */
    cell_step_address attention; /* a word that the host may raise */
    uint32_t n_searches;
    uint32_t searches_at; /* struct cell_step_search [n_searches] */
    uint32_t beams_at;    /* from the result: struct cell_beam [n_searches] */
    uint32_t reserved;
};

/* Behind the task, [n_rows]. */
struct cell_step_row {
    uint32_t slot;       /* state slot */
    uint32_t search;     /* 1 + the number of the search whose lane it is; 0: of none */
    uint32_t lane;       /* of it: lanes are rows next to each other */
    uint32_t first_step; /* of its chain, at the batch's first */
    uint32_t steps;      /* that it takes in this batch */
    uint32_t of_chain;   /* steps of the whole chain */
    uint32_t has_end;
    uint32_t end_state;
    int64_t end_id;
};

/* A beam search of the batch. Its state, of which this is the start, is on the card from the
 * batch's first piece on, in the outbox, and the host reads it there. */
struct cell_step_search {
    cell_step_address
        choices;           /* tokens and parents, int32_t [2][width], of each step of the piece */
    struct cell_beam beam; /* read with the batch's first piece */
};

/* Where a row reads an input at the piece's first step, and at those behind it; of a state, at its
 * chain's first; of an input with many rows (ATTEND, REDUCE, PICK), row 0 at every step. 0: zeros.
 */
struct cell_step_source {
    cell_step_address at;
    int64_t stride; /* bytes from step to step, or from row to row */
    uint32_t rows;  /* of ATTEND, REDUCE, PICK */
    uint32_t reserved;
    cell_step_address room; /* [rows][CELL_STEP_ATTEND_ROOM or more] floats, of ATTEND's K */
};

/* As enum cell_emit_when. */
enum cell_step_when { CELL_STEP_EACH, CELL_STEP_FIRST, CELL_STEP_LAST };

/* What a row gives away: to `to`, at each step of the piece `stride` further. */
struct cell_step_emit {
    uint32_t row;
    uint32_t value; /* number in what EMIT is told */
    uint32_t when;  /* enum cell_step_when */
    uint32_t reserved;
    cell_step_address to;
    int64_t stride;
};

/* Written by BEGIN and TURN. A row takes the steps of its outcome, unless is_over comes first. */
#define CELL_STEP_ENDED UINT32_C(0x80000000)
struct cell_step_result {
    uint32_t steps_done; /* of the batch */
    uint32_t is_over;
    uint32_t outcomes[CELL_STEP_ROWS_MAX]; /* steps, and CELL_STEP_ENDED: its end came */
};

CELL_LANE_STATIC_ASSERT(sizeof(struct cell_step_task) == 56, "no gap");
CELL_LANE_STATIC_ASSERT(sizeof(struct cell_step_row) == 40, "no gap");
CELL_LANE_STATIC_ASSERT(sizeof(struct cell_step_emit) == 32, "no gap");
CELL_LANE_STATIC_ASSERT(sizeof(struct cell_step_search) == sizeof(struct cell_beam) + 8, "no gap");
CELL_LANE_STATIC_ASSERT(sizeof(struct cell_beam) % 8 == 0, "in words, behind one another");

/* The rows of one layout, in a table in device memory: they are opened after kernels were recorded.
 */
struct cell_step_store {
    cell_step_address memory;
    struct cell_lane_rows rows;
};

/* ---- What kernels are told ------------------------------------------------------------------- */

/* Where all find the batch. */
struct cell_step_batch {
    cell_step_address task;   /* struct cell_step_task */
    cell_step_address result; /* struct cell_step_result */
    cell_step_address store;  /* struct cell_step_store of the states */
};

/* The first piece of a batch: sets the result, and searches, to their start. One item. */
struct cell_step_begin {
    struct cell_step_batch batch;
};

#define CELL_STEP_VALUES_MAX (CELL_INPUTS_MAX + CELL_STATES_MAX)

struct cell_step_value {
    struct cell_step_place place;
    uint32_t words; /* of 32 bits */
    uint32_t reserved;
};

/* Inputs and states of this step into their matrices. An item is a word of a row. */
struct cell_step_load {
    struct cell_step_batch batch;
    uint32_t n_inputs, n_states;
    uint32_t words; /* of all */
    uint32_t reserved;
    struct cell_step_value values[CELL_STEP_VALUES_MAX]; /* inputs, then states */
};

/* The next states into their slots; of a search's lane, those of the lane that it continues, and
 * the token that was chosen. An item is a word of a row. */
struct cell_step_store_states {
    struct cell_step_batch batch;
    uint32_t n_states;
    uint32_t words;
    struct cell_step_value values[CELL_STATES_MAX]; /* the value that a state becomes */
};

/* What is given away after this step. Items share the task's emits. */
struct cell_step_emit_values {
    struct cell_step_batch batch;
    struct cell_step_value
        values[CELL_OUTPUTS_MAX + CELL_STATES_MAX]; /* outputs, then next states */
};

/* Ends of rows, attention, and the number of the next step. One item. */
struct cell_step_turn {
    struct cell_step_batch batch;
    uint32_t is_long; /* bit s: state s is I64, else I32; of those that may end a chain */
    uint32_t reserved;
    struct cell_step_place states[CELL_STATES_MAX]; /* the values that they become */
};

/* Rows of a table by their ids; an id outside is held inside. An item is a word of a row. */
struct cell_step_lookup {
    struct cell_step_place id, out;
    cell_step_address table;
    uint32_t rows, words; /* of the table; of one of its rows */
    uint32_t is_long;     /* ids are I64, else I32 */
    uint32_t reserved;
};

/* Copies words. An item is a word of a row. */
struct cell_step_move {
    struct cell_step_place in, out;
    uint32_t words, reserved;
};

/* An item is an element. from, to: enum cell_dtype. */
struct cell_step_cast {
    struct cell_step_place in, out;
    uint32_t width, from, to, reserved;
};

/* What a product multiplies, rounded as `products` says, never FP32: TF32 to floats [width], BF16
 * to bf16 [width], BF16X3 to bf16 [3][width]: high, high again, and what it has lost. An item is an
 * element. */
struct cell_step_round {
    struct cell_step_place in, out;
    uint32_t width, products;
};

/* Of weights: a row for each input, or for each output, which only a library reads. */
enum cell_step_order { CELL_STEP_KN, CELL_STEP_NK };
#define CELL_STEP_ORDERS 2u

/* out = start + a W over `inputs` terms, for `outputs` columns. A sum starts from bias, a row
 * [outputs], or from `start`, a matrix of out's kind (which may be out itself), or from 0; then
 * comes one fused multiply-add a term, in their order. An item is a column of
 * CELL_STEP_PRODUCT_ROWS rows. a and W hold floats, with TF32 such as have few bits; with BF16 both
 * are bf16. BF16X3 is a BF16 product of three times the inputs: high and high, high and lost, lost
 * and high. start, bias and out are floats always. */
#define CELL_STEP_PRODUCT_ROWS 8u
struct cell_step_product {
    struct cell_step_place a, start, out;
    cell_step_address weights; /* [inputs][outputs], dense, on 256 bytes; or as `order` says */
    cell_step_address bias;    /* 0: none */
    uint32_t inputs, outputs;
    uint32_t n_rows; /* of the matrices that are computed; set where it is launched */
    uint32_t has_start;
    uint32_t products; /* enum cell_products, but for BF16X3 */
    uint32_t order;    /* enum cell_step_order */
};

/* sums: i, o, f, c, each [hidden]. An item is a unit of a row. */
struct cell_step_lstm {
    struct cell_step_place sums, c, h_out, c_out;
    cell_step_address peepholes; /* [3 * hidden] of i, o, f; 0: none */
    uint32_t hidden, reserved;
};

/* sums: z, r, n over x, n over h. */
struct cell_step_gru {
    struct cell_step_place sums, h, out;
    uint32_t hidden, reserved;
};

/* The first half of a GRU that resets before its product: sums z, r, of which z becomes s(z); reset
 * = s(r) * h. */
struct cell_step_gru_reset {
    struct cell_step_place sums, h, reset;
    uint32_t hidden, reserved;
};

/* Its second half: sums s(z), (r), n. */
struct cell_step_gru_new {
    struct cell_step_place sums, h, out;
    uint32_t hidden, reserved;
};

struct cell_step_rnn {
    struct cell_step_place sums, out;
    uint32_t hidden, is_relu;
};

/* sums: i, o, u. forget: the sums of each child's f. */
struct cell_step_tree {
    struct cell_step_place sums, h_out, c_out;
    struct cell_step_place forget[CELL_CHILDREN_MAX], c[CELL_CHILDREN_MAX];
    uint32_t hidden, n_children;
};

/* A chain of element-wise ops over rows of one width: what only the chain reads has no matrix. An
 * item is an element. */
#define CELL_STEP_CHAIN_OPS    24u
#define CELL_STEP_CHAIN_VALUES 40u

struct cell_step_chain_op {
    uint8_t kind; /* enum cell_op_kind */
    uint8_t in[3], out;
    uint8_t is_stored; /* out has a matrix */
    uint8_t reserved[2];
};

struct cell_step_chain {
    uint32_t width, n_ops;
    uint64_t is_read;   /* bit v: value v is read from its matrix */
    uint64_t is_single; /* bit v: it has width 1, for every element */
    struct cell_step_place values[CELL_STEP_CHAIN_VALUES];
    struct cell_step_chain_op ops[CELL_STEP_CHAIN_OPS];
};

/* An item is a group of a row. */
struct cell_step_softmax {
    struct cell_step_place in, out;
    uint32_t group, groups; /* elements of a group, groups of a row */
    uint32_t is_log, reserved;
};

/* An item is a group of a row. */
struct cell_step_mean {
    struct cell_step_place in, out;
    uint32_t group, groups; /* elements of a group, groups of a row */
    uint32_t is_sum, reserved;
};

/* An item is a row. */
struct cell_step_argmax {
    struct cell_step_place in, out;
    uint32_t width, is_long;
};

/* An item is a row. The numbers' high words are its room. */
struct cell_step_top {
    struct cell_step_place in, out;
    uint32_t width, n; /* elements; how many of them */
    uint32_t is_largest, reserved;
};

/* An item is an element. */
struct cell_step_take {
    struct cell_step_place in, numbers, out;
    uint32_t width, n;
};

/* An item is a word of the result, [cols][rows][block] within each [rows][cols][block] of the row.
 */
struct cell_step_transpose {
    struct cell_step_place in, out;
    uint32_t words; /* of a row */
    uint32_t rows, cols, block;
};

/* An item is a word of the result, [parts][times][block] of each [parts][block] of the row. */
struct cell_step_spread {
    struct cell_step_place in, out;
    uint32_t words; /* of a row of the result */
    uint32_t times, block;
};

/* cells/op.h, struct cell_picture; across: places that are left beside each other. */
struct cell_step_picture {
    uint32_t size[2], taps[2], dilations[2], strides[2], before[2];
    uint32_t across, channels;
};

/* What the places of a picture read, [places][taps][taps][channels] of each row: an item is an
 * element. */
struct cell_step_places {
    struct cell_step_place in, out;
    struct cell_step_picture picture;
    uint32_t words, terms; /* of a row of the result, of a place */
};

/* An item is an element of [places][channels]. */
struct cell_step_filter {
    struct cell_step_place in, out;
    struct cell_step_picture picture;
    cell_step_address weights, bias; /* [taps][taps][channels], 0: the largest; or 0 */
    uint32_t words;                  /* of a row of the result */
};

/* All kernels of an ATTEND. The scores of a row's memory into its room: an item is every
 * CELL_STEP_SCORERS-th of them. What its values count, and what the sums so far do from there on;
 * or the largest score, which is the result: an item is a row. The result: an item is an element.
 */
#define CELL_STEP_SCORERS       32u
#define CELL_STEP_ATTEND_ROOM   17u /* a score, and its partial sums */
#define CELL_STEP_RELATIVE_ROOM 33u /* and those of what is added to it */
struct cell_step_attend {
    struct cell_step_batch batch;
    struct cell_step_place q, out, bounds; /* bounds: [2] or [3], where it has_bounds */
    struct cell_step_place relative;       /* [table_width], where that is not 0 */
    cell_step_address v, table;            /* [width]; [table_rows][table_width] */
    uint32_t width, out_width;             /* of q and K; of V and the result */
    uint32_t keys, values;                 /* inputs */
    uint32_t variant, has_bounds;
    uint32_t table_rows, table_width;
    uint32_t nan_is_zero, reserved;
};

/* An item is an element of a row. */
struct cell_step_reduce {
    struct cell_step_batch batch;
    struct cell_step_place out;
    uint32_t width;
    uint32_t memory; /* input */
    uint32_t variant, reserved;
};

/* An item is an element of a row. */
struct cell_step_pick {
    struct cell_step_batch batch;
    struct cell_step_place number, out;
    uint32_t width;
    uint32_t memory; /* input */
};

/* Of a search's lane the best continuations, of the 2 * width that count at most, best first and
 * with -Inf behind them. An item is a row. */
#define CELL_STEP_SEARCHERS 32u /* lanes of it */
#define CELL_STEP_BEST      (2 * CELL_BEAM_MAX)

struct cell_step_continued {
    float score;
    uint32_t id;
};

struct cell_step_search_lane {
    struct cell_step_batch batch;
    struct cell_step_place outputs[CELL_OUTPUTS_MAX];
    struct cell_step_place room; /* struct cell_step_continued [SEARCHERS][BEST] a row */
    struct cell_step_place best; /* struct cell_step_continued [BEST] a row */
};

/* What goes on in a search, by cells/beam_body.h. An item is a row, and a search's lane 0 does it.
 */
struct cell_step_choose {
    struct cell_step_batch batch;
    struct cell_step_place best;
};

/* One launch. */
struct cell_step {
    enum cell_step_kernel kernel;
    union {
        struct cell_step_begin begin;
        struct cell_step_load load;
        struct cell_step_store_states store;
        struct cell_step_emit_values emit;
        struct cell_step_turn turn;
        struct cell_step_lookup lookup;
        struct cell_step_move move;
        struct cell_step_cast cast;
        struct cell_step_round round;
        struct cell_step_product product;
        struct cell_step_lstm lstm;
        struct cell_step_gru gru;
        struct cell_step_gru_reset gru_reset;
        struct cell_step_gru_new gru_new;
        struct cell_step_rnn rnn;
        struct cell_step_tree tree;
        struct cell_step_chain chain;
        struct cell_step_softmax softmax;
        struct cell_step_mean mean;
        struct cell_step_argmax argmax;
        struct cell_step_top top;
        struct cell_step_take take;
        struct cell_step_transpose transpose;
        struct cell_step_spread spread;
        struct cell_step_places places;
        struct cell_step_filter filter;
        struct cell_step_attend attend_score, attend_weigh, attend;
        struct cell_step_reduce reduce;
        struct cell_step_pick pick;
        struct cell_step_search_lane search;
        struct cell_step_choose choose;
    };
};

/* ---- Following addresses ----------------------------------------------------------------------
 */

CELL_STEP_FN void *cell_step_pointer(cell_step_address at)
{
#ifdef __CUDACC__
    return (void *)at;
#else
    return (void *)(uintptr_t)(at - CELL_STEP_HOST_BIAS); // NOLINT(performance-no-int-to-ptr)
#endif
}

CELL_STEP_FN float *cell_step_f32(struct cell_step_place place, uint32_t row)
{
    return (float *)cell_step_pointer(place.at + (uint64_t)row * place.pitch);
}

CELL_STEP_FN uint32_t *cell_step_words(struct cell_step_place place, uint32_t row)
{
    return (uint32_t *)cell_step_pointer(place.at + (uint64_t)row * place.pitch);
}

CELL_STEP_FN uint16_t *cell_step_bf16(struct cell_step_place place, uint32_t row)
{
    return (uint16_t *)cell_step_pointer(place.at + (uint64_t)row * place.pitch);
}

CELL_STEP_FN const float *cell_step_floats(cell_step_address at)
{
    return (const float *)cell_step_pointer(at);
}

/* An integer as it stands in a row: is_long, of 64 bits. */
CELL_STEP_FN int64_t cell_step_integer(const uint32_t *words, uint32_t is_long)
{
    return is_long != 0 ? (int64_t)((uint64_t)words[1] << 32 | words[0])
                        : (int64_t)(int32_t)words[0];
}

CELL_STEP_FN void cell_step_set_integer(uint32_t *words, uint32_t is_long, int64_t value)
{
    words[0] = (uint32_t)value;
    if (is_long != 0) {
        words[1] = (uint32_t)((uint64_t)value >> 32);
    }
}

#endif
