/* Kernels: one table per instruction set or library, with one contract.
 *
 * The bits of a result are defined by cells/ref/ and by this order: an accumulator starts from the
 * bias, then takes one fused multiply-add per term, first the terms of x with k = 0..inputs-1,
 * then those of h with k = 0..feedback-1, then a binary tree's of its right child's h with k =
 * 0..right-1; activations are the fixed operation sequences of
 * cells/ref/math.c. With bf16 the same holds of rounded weights, x and h; with int8 the sums
 * over x and over h are whole numbers, and each is one fused multiply-add (docs/kernels.md). Every
 * table with `invariant` set gives exactly those bits, for any number and order of rows and any
 * share of the panels. A NaN that leaves a kernel is always CELL_NAN_BITS.
 *
 * Work is shared out in *panels*: groups of hidden units (gated cells) or of columns (LINEAR) whose
 * weights lie together. Any panel of any rows may be computed by any thread.
 *
 * Tables are constant; *_load allocates, the rest neither allocates nor fails. */
#ifndef CELLS_KERNELS_H
#define CELLS_KERNELS_H

#include "base/status.h"
#include "cells/def.h"
#include "cells/math_constants.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Rows that kernels write, and the c they read, start on a cache line and have room up to the next
 * one, so that whole vectors may be loaded and stored: CELL_ROW_FLOATS(width) floats. What stands
 * past the width is unspecified. Rows of x and h are read within their width only. */
#define CELL_ROW_LINE          16u
#define CELL_ROW_FLOATS(width) (((width) + CELL_ROW_LINE - 1) / CELL_ROW_LINE * CELL_ROW_LINE)

/* The cells whose gates are sums over x and h, each with its gates in the order of its weights. s
 * is sigmoid; a gate's name stands for bias + x W' + h R', and of a TREE_BINARY + h_right R_right'.
 * What is added in a line is added from the left, each product but the first with one fused
 * multiply-add.
 *
 *   LSTM       i, o, f, c   c' = s(f) c + s(i) tanh(c),  out = s(o) tanh(c'),  second = c'
 *   GRU        z, r, n      n' = tanh(n over x + s(r) (n over h)),  out = n' + s(z) (h - n')
 *   GRU_RESET  z, r         out = s(z),  second = s(r) h: the first half of a GRU that resets h
 *                           before the product
 *   GRU_NEW    n            its second half, where r * h stands for h and z comes from the first:
 *                           out = tanh(n) + z (h - tanh(n))
 *   TANH       a            out = tanh(a): RNN
 *   RELU       a            out = relu(a): RNN
 *   TREE       i, o, u      c' = s(i) tanh(u) + forget_1 c_1 + .. + forget_n c_n for n >= 0
 *                           children,  out = s(o) tanh(c'),  second = c': a tree's leaf, or the
 *                           part of a child-sum cell where h stands for the sum of the children's
 *   TREE_BINARY  i, o, u, f_l, f_r
 *                           c' = s(i) tanh(u) + s(f_l) c_1 + s(f_r) c_2,  out and second as above
 *   FORGET     f            out = s(f): a child-sum cell's other part, for each child
 *   SUM        a            out = a: a LINEAR in fewer bits */
enum cell_gated_kind {
    CELL_GATED_LSTM,
    CELL_GATED_GRU,
    CELL_GATED_GRU_RESET,
    CELL_GATED_GRU_NEW,
    CELL_GATED_TANH,
    CELL_GATED_RELU,
    CELL_GATED_TREE,
    CELL_GATED_TREE_BINARY,
    CELL_GATED_FORGET,
    CELL_GATED_SUM,
};

/* 4, 3, 2, 1, 1, 1, 3, 5, 1, 1. */
uint32_t cell_gated_gates(enum cell_gated_kind kind);

struct cell_reduced_kernels; /* cells/cpu/reduced.h */

/* What a sum goes over, in this order: x, h, and a TREE_BINARY's h_right. */
#define CELL_GATED_PARTS 3u

/* A loaded gated cell. The caller fills the first block, gated_load() the second. */
struct cell_gated {
    enum cell_gated_kind kind;
    enum cell_precision precision; /* of the matrices: how they are held */
    uint32_t inputs, feedback, hidden;
    uint32_t right;       /* width of h_right; 0 of all but TREE_BINARY */
    const float *w;       /* [gates * hidden, inputs]; outlives the load, as the others */
    const float *r;       /* [gates * hidden, feedback] */
    const float *r_right; /* [gates * hidden, right] */
    const float *b_w;     /* [gates * hidden], the bias of w; NULL: zeros */
    const float *b_r;     /* the same of r; NULL: zeros, but of a GRU given when b_w is */
    const float *p;       /* LSTM: peepholes [3 * hidden] of i, o, f, or NULL */

    uint32_t panels, columns; /* columns: of one panel */
    uint32_t narrow;          /* columns of the last panel's weights where they are fewer, or 0 */
    /* What a sum starts from, in the kernel's order: input + recurrent bias, rounded once. But the
     * two sums of a GRU's n have one each, that over h in late_bias. */
    float *bias, *late_bias;
    float *peepholes; /* NULL without */
    /* Weights of each part in the kernel's order; NULL when it reads those given, or has none. */
    void *packed[CELL_GATED_PARTS];
    /* INT8: of each column of a part, in the kernel's order, the scale of its weights; and what
     * its integer sum starts from. */
    float *scales[CELL_GATED_PARTS];
    uint32_t *offsets[CELL_GATED_PARTS];
    const struct cell_reduced_kernels *reduced; /* the kernel's own choice; NULL: none */
    bool l3_is_near;                            /* the kernel's own choice; changes no bit */
};

/* Terms of a part. A cell without x (TREE, TREE_BINARY, FORGET) or without h (TREE, SUM) has 0 of
 * it; some part has terms. */
static inline uint32_t cell_gated_terms(const struct cell_gated *gated, uint32_t part)
{
    return part == 0 ? gated->inputs : part == 1 ? gated->feedback : gated->right;
}

/* [gates * hidden, terms of the part], as given. */
static inline const float *cell_gated_given(const struct cell_gated *gated, uint32_t part)
{
    return part == 0 ? gated->w : part == 1 ? gated->r : gated->r_right;
}

static inline bool cell_gated_is_narrow(const struct cell_gated *gated, uint32_t panel)
{
    return gated->narrow > 0 && panel + 1 == gated->panels;
}

/* One step of n_rows rows, for panels first..end-1. No row of out or second may overlap a row of x
 * or h; second[r] == old[r] is allowed. Unless said otherwise rows are [hidden] with room for
 * CELL_ROW_FLOATS(hidden). What has no terms may be NULL. */
struct cell_gated_step {
    const struct cell_gated *gated;
    uint32_t n_rows;
    uint32_t panel_first, panel_end;
    const float *const *x;       /* [n_rows] -> [inputs], without more room; NULL with ahead */
    const float *const *ahead;   /* [n_rows] -> [panels * columns], written by gated_ahead(); or
                                    NULL, as always where x has no terms or nothing else has */
    const float *const *h;       /* [n_rows] -> [feedback], without more room */
    const float *const *h_right; /* [n_rows] -> [right], likewise */
    const float *const *old;     /* LSTM: c; the GRUs: h */
    const float *const *z;       /* GRU_NEW: out of GRU_RESET */
    uint32_t n_children;         /* TREE: 0..CELL_CHILDREN_MAX, TREE_BINARY: 2 */
    /* The trees: [n_children][n_rows] -> [hidden], without more room: the children's c. */
    const float *const *const *children;
    /* TREE: [n_rows] -> [n_children][CELL_ROW_FLOATS(hidden)], each the out of a FORGET. */
    const float *const *forget;
    float *const *out;
    float *const *second; /* LSTM, GRU_RESET, TREE, TREE_BINARY */
    float *scratch;       /* gated_scratch() of it, this thread's, on a cache line */
    /* Takes the panels from the last to the first. A caller that alternates finds the weights used
     * last still in the core's cache; the bits do not change. */
    bool backwards;
    /* For measurements: leaves out what follows the products; then no row is written. */
    bool products_only;
};

/* The step over rows first..end-1 alone. children: room for its n_children, read by what is
 * returned. */
struct cell_gated_step cell_gated_step_of_rows(const struct cell_gated_step *whole, uint32_t first,
                                               uint32_t end, const float *const **children);

/* The sums over x of n_rows rows, which may belong to different steps: what a step would begin
 * with. Steps then read less than half of the weights (DeepCPU, section 4: phased execution). */
struct cell_gated_ahead {
    const struct cell_gated *gated;
    uint32_t n_rows;
    uint32_t panel_first, panel_end;
    const float *const *x; /* [n_rows] -> [inputs] */
    float *const *out;     /* [n_rows] -> [panels * columns] */
    float *scratch;
};

/* A loaded LINEAR, likewise. */
struct cell_linear {
    enum cell_precision precision; /* of w: how it is held */
    uint32_t inputs, outputs;
    const float *w; /* [inputs, outputs] */
    const float *b; /* [outputs] or NULL */

    uint32_t panels;
    uint32_t last_columns; /* FP32: of the last panel, which may be fewer; */
    float *bias;           /* and */
    float *packed;
    bool l3_is_near;        /* FP32: the kernel's own choice; changes no bit */
    struct cell_gated sums; /* BF16 and INT8: a SUM of the same weights */
};

/* What a result is held within: MAX of it and least, then MIN of that and most (cells/op.h); a RELU
 * is 0 and infinity. NaN stays. Only where the table's takes_bounds says so. */
struct cell_bounds {
    bool are; /* false: it is not */
    float least, most;
};

struct cell_linear_rows {
    const struct cell_linear *linear;
    struct cell_bounds bounds; /* of FP32 */
    uint32_t n_rows;
    uint32_t panel_first, panel_end;
    const float *const *x; /* [n_rows] -> [inputs] */
    float *const *out;     /* [n_rows] -> [CELL_ROW_FLOATS(outputs)] */
    float *scratch;
};

/* The same of FP32, all panels, where what a row reads stands in pieces: the places of a picture,
 * each with some lines of taps. The bits are those of linear_rows(). */
struct cell_linear_places {
    const struct cell_linear *linear;
    struct cell_bounds bounds;
    uint32_t n_places;
    const float *const *x;    /* [n_places] -> what pieces count from */
    float *const *out;        /* [n_places] -> [outputs]: nothing behind them is written */
    uint32_t n_pieces, piece; /* n_pieces * piece == inputs */
    const size_t *pieces;     /* [n_pieces]: where each begins, in floats */
};

/* A chain of element-wise ops over rows of one width: values that only the chain itself reads never
 * reach a row. */
#define CELL_POINTWISE_VALUES_MAX 64u
#define CELL_POINTWISE_TILES_MAX  16u
#define CELL_POINTWISE_TILE       ((size_t)256) /* elements */
#define CELL_POINTWISE_ROW        UINT32_MAX

struct cell_pointwise_value {
    uint32_t tile;  /* POINTWISE_ROW: it has a row; else which tile of the scratch keeps it */
    bool is_single; /* a row of width 1, for every element */
    /* times > 1: a row of so many times fewer elements, each `part` of which stand for `times`
     * such parts behind each other, as SPREAD says. */
    uint32_t times, part;
};

struct cell_pointwise_op {
    enum cell_op_kind kind; /* cell_op_is_pointwise() */
    uint32_t n_in;
    uint32_t in[3], out; /* numbers of values */
};

struct cell_pointwise {
    uint32_t width, n_ops, n_values;
    struct cell_pointwise_value values[CELL_POINTWISE_VALUES_MAX];
    struct cell_pointwise_op ops[CELL_POINTWISE_VALUES_MAX];
};

/* Floats of scratch that a chain may need: its tiles, and one for each operand that is spread. */
#define CELL_POINTWISE_SCRATCH ((CELL_POINTWISE_TILES_MAX + 3) * CELL_POINTWISE_TILE)

/* Of FILTER: places beside each other, which all read the same taps. */
struct cell_filter_run {
    uint32_t n_places, channels, n_taps; /* n_taps > 0 */
    const float *x;                      /* what offsets of the first place begin at */
    size_t step;                         /* floats from place to place */
    const int64_t *offsets;              /* [n_taps] floats */
    const float *const *weights;         /* [n_taps][channels]; NULL: the largest */
    const float *bias;                   /* [channels], or NULL */
    struct cell_bounds bounds;
    float *out; /* [n_places][channels] */
};

/* n rows of floats, so many bytes behind each other. */
struct cell_some_rows {
    const float *first;
    int64_t stride_bytes;
    uint32_t n;
};

static inline const float *cell_some_row(const struct cell_some_rows *rows, uint32_t t)
{
    const uint8_t *first = (const uint8_t *)(const void *)rows->first;
    return (const float *)(const void *)(first + (int64_t)t * rows->stride_bytes);
}

/* Queries that read the same rows side by side, and rows that are read at a time. */
#define CELL_ATTEND_QUERIES 4u
#define CELL_ATTEND_ROWS    32u

/* out[q][t]: the sum of a_qi b_ti, term i added to partial sum i mod 16 by a fused multiply-add;
 * these are then folded as those of sums. */
struct cell_dots {
    uint32_t width, n_queries;           /* 1..CELL_ATTEND_QUERIES */
    const float *a[CELL_ATTEND_QUERIES]; /* [width] */
    struct cell_some_rows b;             /* n <= CELL_ATTEND_ROWS */
    float (*out)[CELL_ATTEND_ROWS];      /* [n_queries] */
};

/* out[q] [width]: for each row in turn, where bit t of scaled[q] is set times scales[q][t], then
 * plus weights[q][t] times row t, fused. */
struct cell_weighing {
    uint32_t width, n_queries;
    struct cell_some_rows rows;
    const float (*weights)[CELL_ATTEND_ROWS], (*scales)[CELL_ATTEND_ROWS];
    const uint32_t *scaled;
    float *out[CELL_ATTEND_QUERIES];
};

struct cell_kernels {
    const char *name; /* "scalar", "avx2", "avx512", "neon", "blas" */
    bool invariant;
    bool has_reduced;  /* loads BF16 and INT8 too, else FP32 alone */
    bool takes_bounds; /* LINEAR and FILTER can take what bounds them along */

    /* RESOURCE_EXHAUSTED when out of memory. Undone with cell_gated_release(). */
    enum base_status (*gated_load)(struct cell_gated *gated);
    void (*gated_ahead)(const struct cell_gated_ahead *ahead);
    void (*gated_step)(const struct cell_gated_step *step);
    enum base_status (*linear_load)(struct cell_linear *linear);
    void (*linear_rows)(const struct cell_linear_rows *rows);
    void (*linear_places)(const struct cell_linear_places *places); /* or NULL */

    /* Floats of scratch a thread needs for up to rows_max rows of what has been loaded. May be 0.
     */
    size_t (*gated_scratch)(const struct cell_gated *gated, uint32_t rows_max);
    size_t (*linear_scratch)(const struct cell_linear *linear, uint32_t rows_max);

    /* One row. values: [n_values] its rows, read and written within their width; what a tile keeps
     * has none. scratch: CELL_POINTWISE_SCRATCH floats on a cache line. */
    void (*pointwise)(const struct cell_pointwise *chain, float *const values[], float *scratch);

    /* Element by element; in == out is allowed. softmax: over the n elements, one group; its
     * logarithm, where in and out do not overlap. argmax: the number of the first of the largest,
     * or of the first NaN. */
    void (*sigmoid)(uint32_t n, const float *in, float *out);
    void (*tanh)(uint32_t n, const float *in, float *out);
    void (*softmax)(uint32_t n, const float *in, float *out);
    void (*log_softmax)(uint32_t n, const float *in, float *out);
    uint32_t (*argmax)(uint32_t n, const float *in);

    /* out[g]: the sum of elements g * n .. g * n + n - 1, in the order of cells/op.h. */
    void (*sums)(uint32_t groups, uint32_t n, const float *in, float *out);

    /* Of ATTEND: products and weighted sums, fused, in the order of struct cell_dots and
     * cell_weighing. exp: of in - less, in == out is allowed. rises: false only
     * where no element is above `high`, and none a NaN. divide: out / by, any NaN as the one
     * of CELL_NAN_BITS. */
    void (*dots)(const struct cell_dots *dots);
    void (*exp)(uint32_t n, const float *in, float less, float *out);
    bool (*rises)(uint32_t n, const float *in, float high);
    void (*weigh)(const struct cell_weighing *weighing);
    void (*divide)(uint32_t n, float by, float *out);

    /* Any NaN as the one. */
    void (*filter)(const struct cell_filter_run *run);
};

void cell_gated_release(struct cell_gated *gated);
void cell_linear_release(struct cell_linear *linear);

/* Vectors of all strips of a panel but the last, which has what is left. */
#define CELL_STRIP_VECTORS 2u

/* How a kernel wants its panels. */
struct cell_packing {
    uint32_t units;        /* hidden units of a panel; of a LINEAR columns */
    uint32_t lanes;        /* columns of a vector; of BF16 without words two lie interleaved */
    uint32_t word_terms;   /* terms of a column that lie together: of INT8; of BF16 2, or 0: none */
    uint32_t words_behind; /* INT8: so many words of a panel may be read behind the last panel */
    bool has_offset;       /* INT8: x comes with 128 added to each */
    bool may_narrow;       /* FP32, BF16: the last panel may be narrow */
    bool has_strips;       /* FP32, BF16 without words: see below */
};

/* Packing for kernels whose panels hold some hidden units or columns: the last panel is filled up
 * with zeros. Where all of its gates' columns, side by side, take fewer vectors than a panel has,
 * it may be *narrow*: its weights are [k][gate][unit] without room between the gates, filled up to
 * a whole vector; biases, and sums outside the product, are as wide as of any panel.
 *
 * With strips a panel of 4 or more vectors is several matrices one behind the other, each [k][2
 * vectors], of 5 vectors [k][2 vectors] and [k][3]: a tile that has registers for a part of a panel
 * reads it as one stream, where every second or third cache line leaves sets of L1 unused and the
 * hardware's asking ahead astray.
 *
 *   gated   packed[0] [panel][k < inputs][gate][unit], packed[1] likewise over feedback, packed[2]
 *           over right, bias [panel][gate][unit], late_bias [panel][unit],
 *           peepholes [gate i, o, f][panel][unit]
 *     BF16  two vectors of columns lie as [lane][vector]; a last one alone as it is
 *     BF16 in words  packed [panel][k / 2][gate][unit], a word's upper half the first of its terms
 *     INT8  packed [panel][k / word_terms][gate][unit][k % word_terms], filled up with zeros;
 *           scales and offsets as bias
 *   LINEAR  packed [panel][k < inputs][column], bias [panel][column] */
enum base_status cell_gated_pack(struct cell_gated *gated, const struct cell_packing *how);
/* All but the weights. */
enum base_status cell_gated_pack_biases(struct cell_gated *gated, uint32_t units);
/* The last panel has as many vectors of `lanes` columns as it needs. */
enum base_status cell_linear_pack(struct cell_linear *linear, const struct cell_packing *how);

/* A LINEAR in fewer bits as a SUM, loaded by `load`; and its step. */
enum base_status cell_linear_load_sums(struct cell_linear *linear,
                                       enum base_status (*load)(struct cell_gated *gated));
struct cell_gated_step cell_linear_sums_step(const struct cell_linear_rows *rows);

extern const struct cell_kernels cell_kernels__scalar;
#ifdef __x86_64__
extern const struct cell_kernels cell_kernels__avx2;
extern const struct cell_kernels cell_kernels__avx512;
#endif
#ifdef __aarch64__
extern const struct cell_kernels cell_kernels__neon;
#endif

/* isa: "auto" (or NULL) the best this machine has, "scalar", "avx2", "avx512", "neon".
 * INVALID_ARGUMENT for another word, UNAVAILABLE when the machine lacks it. */
enum base_status cell_kernels_choose(const char *isa, const struct cell_kernels **out,
                                     struct base_error *error);

#endif
