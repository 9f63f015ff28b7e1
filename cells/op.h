/* An op of a cell: what it takes, what it computes, and what comes of it. Plain data and pure
 * functions. */
#ifndef CELLS_OP_H
#define CELLS_OP_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum cell_dtype { CELL_F32, CELL_I64, CELL_I32 };

/* 4 or 8. */
uint32_t cell_dtype_bytes(enum cell_dtype dtype);

/* An element of CELL_I64 or CELL_I32, wherever it stands. */
int64_t cell_integer_at(enum cell_dtype dtype, const void *element);

/* How a device holds the matrices of a gated op (cell_op_matrices()); it defines the bits of the
 * results (docs/kernels.md). All other weights are held as they are. */
enum cell_precision { CELL_FP32, CELL_BF16, CELL_INT8 };
#define CELL_PRECISION_COUNT 3u

/* "fp32", "bf16", "int8"; and back, INVALID_ARGUMENT for another word. */
const char *cell_precision_name(enum cell_precision precision);
enum base_status cell_precision_find(const char *name, enum cell_precision *out,
                                     struct base_error *error);

/* Of one weight: 4, 2, 1. */
uint32_t cell_precision_bytes(enum cell_precision precision);

/* How exactly a device with units for it multiplies, in every product of a cell (LINEAR and what
 * has gates): both factors of each term are rounded before. Sums and all else are fp32. A
 * permission: a device without such units computes fp32 products, which are more exact. Of an op
 * with BF16 weights both factors are bf16 on every device.
 *
 * TF32      to 11 significant bits, ties to even
 * BF16      to 8 significant bits, ties to even
 * BF16X3    a factor is the sum of two of 8 bits, the second what the first has lost; a term is hi
 *           * hi + hi * lo + lo * hi */
enum cell_products {
    CELL_PRODUCTS_FP32,
    CELL_PRODUCTS_TF32,
    CELL_PRODUCTS_BF16,
    CELL_PRODUCTS_BF16X3
};
#define CELL_PRODUCTS_COUNT 4u

/* "fp32", "tf32", "bf16", "bf16x3"; and back, INVALID_ARGUMENT for another word. */
const char *cell_products_name(enum cell_products products);
enum base_status cell_products_find(const char *name, enum cell_products *out,
                                    struct base_error *error);

/* Terms of a sum of int8 products that cannot leave int32: (2^31 - 1) / (127 * 127). */
#define CELL_INT8_TERMS_MAX 133144u

/* Limits that keep every size below far from overflow; what is beyond them is refused. */
#define CELL_OPERANDS_MAX 17u
#define CELL_CHILDREN_MAX 8u /* of a tree: they and an x are CELL_OPERANDS_MAX */
#define CELL_WIDTH_MAX    (1u << 20)

/* A row-shaped value. */
struct cell_value {
    enum cell_dtype dtype;
    uint32_t width; /* elements, 1..CELL_WIDTH_MAX */
};

/* A constant matrix [rows, cols], row-major, dense. A vector has rows = 1. */
struct cell_weight {
    enum cell_dtype dtype;
    uint32_t rows, cols;
    const void *data; /* rows * cols elements; finite floats */
};

/* X(NAME, operands, weights, optional): how many of each an op takes, and how many of the weights,
 * from the last one on, may be left out; CONCAT takes 1..CELL_OPERANDS_MAX operands, ATTEND and the
 * trees as many as stands below.
 *
 * GATHER       row[id] of table [n, width]; id is an I64 or I32 row of width 1; an id outside
 *              0..n-1 is refused by the server before it gets here. With `patches` x is so many
 *              ids, and the result the row of each, [patches, width]
 * LINEAR       x W + b, W [in, out], b [1, out]. With `patches`, of each of so many parts of x:
 *              patch p is its in elements from p * step on, and the result is [patches, out]. So a
 *              convolution along an axis within a row is one product (docs/kernels.md). With
 *              `picture` x is [height][width][channels], and patch p what place p reads (struct
 *              cell_picture): a convolution over both axes
 * ADD..SELECT  element by element; an operand of width 1 is broadcast. POW: the first to the power
 * of the second, as C's pow. MIN, MAX: a NaN wins, and of equal operands the second (zeros of both
 * signs are equal). LESS, LESS_EQUAL: 1 or 0. SELECT: the second operand where the first is above
 * 0, else the third SIGMOID..SQRT  likewise, of one operand MEAN         of all elements: a row of
 * width 1; or of each `group` of consecutive ones, which divides width. Element i is added to
 * partial sum i mod 16, then 16 are folded to 8, 4, 2, 1, then divided ARGMAX       the number of
 * the largest element, the first of equal ones: a row of width 1, I64 or I32. The first NaN is
 * larger than all TOP          the numbers of as many elements as the result, I64, is wide: with
 * variant CELL_TOP_LARGEST the largest ones, the largest first, with CELL_TOP_SMALLEST the
 *              smallest, the smallest first; of equal ones the first come first. NaNs are equal,
 *              and larger than all others
 * TAKE         operands x and numbers, I64: the elements of x with these numbers, which are the
 *              result of a TOP of x, or a CONST, each less than x's width
 * SOFTMAX      over groups of `group` consecutive elements (group divides width), max subtracted
 * LOG_SOFTMAX  its logarithm: x minus the maximum, plus the logarithm of the largest softmax
 * ATTEND       operands q [D], K [D], V, as wide as the result; weight v [1, D]. K and V are
 *              inputs, and nothing else's: each has as many rows K_1 .. K_T, V_1 .. V_T as it was
 *              given, the same at every step. With variant CELL_ATTEND_PRODUCT the score of row t
 *              is the sum over k of v_k q_k K_tk, with CELL_ATTEND_TANH of v_k tanh(K_tk + q_k);
 *              the result is the sum over t of softmax(score)_t V_t; without rows it is zeros, and
 *              with nan_is_zero where the softmax is no numbers, as of scores that all are -inf.
 *              (Luong, Pham, Manning, EMNLP 2015; Bahdanau, Cho, Bengio, ICLR 2015) With
 *              CELL_ATTEND_LARGEST, V is K and the result the largest of the scores of
 *              CELL_ATTEND_PRODUCT, a row of width 1; a NaN wins. (Seo et al., ICLR 2017) The first
 *              two variants may have a fourth operand, a float row [2]: as if there were only rows
 *              CELL_ATTEND_BOUND(first, T) up to, and without, CELL_ATTEND_BOUND(end, T), as a
 *              causal mask leaves them. Behind it the first may have a fifth, r [W], and a second
 *              weight, R [N, W]; the fourth is [3] then, first, end and begin. To the score of row
 *              t, from 0 on, the sum over k of r_k R_nk is added, n being CELL_PICK_ROW(begin +
 *              t, N): what follows from how far apart two steps are. (Shaw, Uszkoreit, Vaswani,
 *              NAACL 2018; Dai et al., ACL 2019)
 * REDUCE       operand K [D], an input as of ATTEND: of its rows K_1 .. K_T element by element,
 *              with CELL_REDUCE_SUM the sum, CELL_REDUCE_MEAN that over T, CELL_REDUCE_VARIANCE
 *              the mean of the squares of what they differ from it by, CELL_REDUCE_MAX and
 *              CELL_REDUCE_MIN the largest and smallest, of equal ones the first; a NaN wins.
 *              CELL_REDUCE_COUNT: T, a row of width 1. Sums are in double precision, those of
 *              CELL_REDUCE_PART(T) steps at a time in their order, and then of these in theirs;
 *              what comes of them is rounded once. Without rows a sum, a largest and a smallest
 *              are 0, a mean is NaN
 * PICK         operands K [D], an input as of ATTEND, and number, a float row of width 1: row
 *              CELL_PICK_ROW(number, T) of K; without rows zeros
 * FILTER       x is a picture (struct cell_picture), the result [places][channels]. With
 *              CELL_FILTER_SUM, weights W [taps, channels] and b [1, channels], of each place and
 *              channel b, or 0, plus the sum over its taps in their order of w x, each addition
 *              fused; with CELL_FILTER_LARGEST, without weights, the largest of its taps, as MAX
 *              of one after the other. Taps beyond the edges are left out; of none it is 0
 * CONCAT       rows behind each other
 * SLICE        elements start .. start + width(result) - 1
 * COPY         the same row
 * TRANSPOSE    x is [dims[0], dims[1], dims[2], what is left of its width]; the result is
 *              [dims[0], dims[2], dims[1], ..]
 * SPREAD       x is [dims[0], dims[2]]; the result is [dims[0], dims[1], dims[2]]: each part of
 *              dims[2] elements dims[1] times behind itself
 * SUM          as MEAN, which divides it: of all elements, or of each group
 * CAST         to the result's dtype
 * CONST        the weight [1, width] itself
 * LSTM         operands x, h, c; weights W [4H, in], R [4H, F], B [1, 8H], P [1, 3H]; gate order
 *              i, o, f, c (of P: i, o, f) and equations as ONNX LSTM (opset 14) with default
 *              activations:  i = s(xWi' + hRi' + b + Pi c), f likewise,  g = tanh(xWc' + hRc' + b),
 *              c' = f * c + i * g,  o = s(xWo' + hRo' + b + Po c'),  h' = o * tanh(c').
 *              F, the width of h, differs from H where a LINEAR projects h' before it comes back.
 *              Results: h' then c'.
 * GRU          operands x, h; weights W [3H, in], R [3H, H], B [1, 6H]; gate order z, r, h and
 *              equations as ONNX GRU (opset 14) with default activations: z and r as LSTM's i;
 *              n = tanh(xWh' + Wbh + r * (hRh' + Rbh)) with variant CELL_GRU_RESET_AFTER, or
 *              n = tanh(xWh' + Wbh + (r * h) Rh' + Rbh) with CELL_GRU_RESET_BEFORE;
 *              h' = (1 - z) * n + z * h.
 * RNN          operands x, h; weights W [H, in], R [H, H], B [1, 2H]:  h' = f(xW' + hR' + b), f
 *              tanh with variant CELL_RNN_TANH, relu with CELL_RNN_RELU.
 *
 * In B the biases of W come first, then those of R.
 *
 * LSTM, GRU and RNN with `patches`: x is [patches, in], each patch a cell of its own with the same
 * weights, and the results are [patches, H] each. In the order CELL_PATCHES_APART h is [patches,
 * width of h] and c [patches, H]: each patch has its own. In the others there are one h and one c
 * [H], those before the first patch, or before the last one where the order is backward; each other
 * patch begins with what the one before it has left: a recurrence along an axis within the row.
 * There h is as wide as H, and a GRU resets after the product.
 *
 * The cells of a TreeLSTM (Tai, Socher, Manning, ACL 2015). What a recurrent cell has as its state
 * comes here from other nodes, as operands: the h and c [H] of each child. Results: h' then c'. x
 * [in] may be left out of those with children, and W with it. In this order:
 *
 * TREE_LEAF    operand x; weights W [3H, in], B [1, 3H]; gates i, o, u:  c' = s(i) * tanh(u),
 *              h' = s(o) * tanh(c'), where a gate's name stands for its sum, as below
 * TREE_BINARY  operands [x,] h_l, c_l, h_r, c_r; weights [W [5H, in],] L [5H, H], R [5H, H],
 *              B [1, 5H]; gates i, o, u, f_l, f_r, each over x, h_l and h_r:
 *              c' = s(i) * tanh(u) + s(f_l) * c_l + s(f_r) * c_r
 * TREE_SUM     operands [x,] h_1, c_1, .. h_n, c_n, n up to CELL_CHILDREN_MAX; weights
 *              [W [4H, in],] U [4H, H], B [1, 4H]; gates i, o, u over x and h_1 + .. + h_n, and f
 *              for each child, over x and h_k:
 *              c' = s(i) * tanh(u) + s(f_1) * c_1 + .. + s(f_n) * c_n
 *
 * Sums are added from the left. A gate's sum starts from its bias, then come the terms of x, of h_l
 * (or of the sum, or h_k), of h_r, one fused multiply-add each; in c' the first product is rounded,
 * each other is one fused multiply-add. The paper's binary cell gives both forget gates the same
 * rows in W. */
#define CELL_OP_MAP(X)                                                                             \
    X(GATHER, 1, 1, 0)                                                                             \
    X(LINEAR, 1, 2, 1)                                                                             \
    X(ADD, 2, 0, 0)                                                                                \
    X(SUB, 2, 0, 0)                                                                                \
    X(MUL, 2, 0, 0)                                                                                \
    X(DIV, 2, 0, 0)                                                                                \
    X(POW, 2, 0, 0)                                                                                \
    X(MIN, 2, 0, 0)                                                                                \
    X(MAX, 2, 0, 0)                                                                                \
    X(LESS, 2, 0, 0)                                                                               \
    X(LESS_EQUAL, 2, 0, 0)                                                                         \
    X(SELECT, 3, 0, 0)                                                                             \
    X(SIGMOID, 1, 0, 0)                                                                            \
    X(TANH, 1, 0, 0)                                                                               \
    X(RELU, 1, 0, 0)                                                                               \
    X(EXP, 1, 0, 0)                                                                                \
    X(LOG, 1, 0, 0)                                                                                \
    X(SIN, 1, 0, 0)                                                                                \
    X(COS, 1, 0, 0)                                                                                \
    X(ATAN, 1, 0, 0)                                                                               \
    X(ABS, 1, 0, 0)                                                                                \
    X(FLOOR, 1, 0, 0)                                                                              \
    X(ROUND, 1, 0, 0)                                                                              \
    X(SQRT, 1, 0, 0)                                                                               \
    X(SUM, 1, 0, 0)                                                                                \
    X(MEAN, 1, 0, 0)                                                                               \
    X(ARGMAX, 1, 0, 0)                                                                             \
    X(TOP, 1, 0, 0)                                                                                \
    X(TAKE, 2, 0, 0)                                                                               \
    X(SOFTMAX, 1, 0, 0)                                                                            \
    X(LOG_SOFTMAX, 1, 0, 0)                                                                        \
    X(ATTEND, 5, 2, 1)                                                                             \
    X(REDUCE, 1, 0, 0)                                                                             \
    X(PICK, 2, 0, 0)                                                                               \
    X(FILTER, 1, 2, 2)                                                                             \
    X(CONCAT, CELL_OPERANDS_MAX, 0, 0)                                                             \
    X(SLICE, 1, 0, 0)                                                                              \
    X(COPY, 1, 0, 0)                                                                               \
    X(TRANSPOSE, 1, 0, 0)                                                                          \
    X(SPREAD, 1, 0, 0)                                                                             \
    X(CAST, 1, 0, 0)                                                                               \
    X(CONST, 0, 1, 0)                                                                              \
    X(LSTM, 3, 4, 2)                                                                               \
    X(GRU, 2, 3, 1)                                                                                \
    X(RNN, 2, 3, 1)                                                                                \
    X(TREE_LEAF, 1, 2, 1)                                                                          \
    X(TREE_BINARY, 5, 4, 2)                                                                        \
    X(TREE_SUM, CELL_OPERANDS_MAX, 3, 2)

enum cell_op_kind {
#define CELL_OP_ENUM(name, operands, weights, optional) CELL_OP_##name,
    CELL_OP_MAP(CELL_OP_ENUM)
#undef CELL_OP_ENUM
        CELL_OP_COUNT
};

/* "GATHER" and so on; never NULL. */
const char *cell_op_name(enum cell_op_kind kind);

/* Of a GRU, of an RNN, of ATTEND, of REDUCE, and of TOP. */
enum cell_op_variant {
    CELL_GRU_RESET_BEFORE = 0, /* linear_before_reset = 0 */
    CELL_GRU_RESET_AFTER = 1,
    CELL_RNN_TANH = 0,
    CELL_RNN_RELU = 1,
    CELL_ATTEND_PRODUCT = 0,
    CELL_ATTEND_TANH = 1,
    CELL_ATTEND_LARGEST = 2,
    CELL_REDUCE_SUM = 0,
    CELL_REDUCE_MEAN = 1,
    CELL_REDUCE_VARIANCE = 2,
    CELL_REDUCE_MAX = 3,
    CELL_REDUCE_MIN = 4,
    CELL_REDUCE_COUNT = 5,
    CELL_TOP_LARGEST = 0,
    CELL_TOP_SMALLEST = 1,
    CELL_FILTER_SUM = 0,
    CELL_FILTER_LARGEST = 1,
};

/* In which order an LSTM, GRU or RNN takes its patches. */
enum cell_patch_order { CELL_PATCHES_APART, CELL_PATCHES_FORWARD, CELL_PATCHES_BACKWARD };

/* Gates of an op that sums over x and h: LSTM 4, GRU 3, RNN 1, TREE_LEAF 3, TREE_BINARY 5, TREE_SUM
 * 4; 0 of any other. */
uint32_t cell_op_gates(enum cell_op_kind kind);

/* TREE_LEAF, TREE_BINARY, TREE_SUM. */
bool cell_op_is_tree(enum cell_op_kind kind);

/* ADD..SQRT: element by element, over floats. */
bool cell_op_is_pointwise(enum cell_op_kind kind);

/* SOFTMAX, LOG_SOFTMAX: over groups. */
bool cell_op_has_groups(enum cell_op_kind kind);

/* Results of an op: LSTM and the trees have two, the others one. */
uint32_t cell_op_results(enum cell_op_kind kind);

/* Of a row that is a picture [size[0]][size[1]][channels], the places that a convolution leaves,
 * [left[0]][left[1]]: each reads taps[0] by taps[1] places, `dilations` apart, from its own number
 * times `strides` minus `before` on, [taps[0]][taps[1]][channels]; zeros beyond the edges. All
 * numbers are below 2^20, and above 0 but for `before`. */
struct cell_picture {
    uint32_t size[2]; /* height and width; 0: none */
    uint32_t taps[2], dilations[2], strides[2], before[2];
    uint32_t left[2];
};
#define CELL_PICTURE_MAX     (1u << 20)
#define CELL_FILTER_TAPS_MAX 1024u

struct cell_op {
    enum cell_op_kind kind;
    uint32_t n_operands;
    uint32_t operands[CELL_OPERANDS_MAX]; /* value numbers, each smaller than result */
    uint32_t n_weights;
    struct cell_weight weights[4];
    uint32_t result;               /* number of the (first) result value */
    uint32_t start;                /* SLICE */
    uint32_t patches;              /* GATHER, LINEAR, LSTM, GRU, RNN; 0: x as a whole */
    uint32_t step;                 /* LINEAR with patches; 0 of a picture's */
    struct cell_picture picture;   /* FILTER; LINEAR, whose patches are its places */
    enum cell_patch_order order;   /* LSTM, GRU, RNN with patches */
    uint32_t dims[3];              /* TRANSPOSE, SPREAD */
    uint32_t group;                /* SOFTMAX, LOG_SOFTMAX; SUM, MEAN, 0: all */
    uint32_t variant;              /* GRU, RNN, ATTEND, REDUCE, TOP, FILTER */
    bool nan_is_zero;              /* ATTEND, but of CELL_ATTEND_LARGEST */
    enum cell_precision precision; /* of what has gates, and of LINEAR */
};

/* Whether the op takes all rows of its operand i at once: K and V of ATTEND, K of REDUCE and PICK.
 */
bool cell_op_takes_rows(const struct cell_op *op, uint32_t i);

/* Of T rows, at least one, that with this number, from 0 on, cut to an integer; below 0 and of a
 * NaN the first, beyond the end the last. */
#define CELL_PICK_ROW(number, rows)                                                                \
    ((number) > 0.0f ? (number) < (float)(rows) ? (uint32_t)(number) : (rows)-1 : 0)

/* A bound of ATTEND's rows, cut to an integer: from 0, also for a NaN, to T. */
#define CELL_ATTEND_BOUND(number, rows)                                                            \
    ((number) > 0.0f ? (number) < (float)(rows) ? (uint32_t)(number) : (rows) : 0)

/* Steps of T that a REDUCE sums at a time: of any number there are at most CELL_REDUCE_PARTS such
 * parts, for as many threads of a GPU. >= 1. */
#define CELL_REDUCE_PARTS 256u
#define CELL_REDUCE_PART(steps)                                                                    \
    ((steps) <= CELL_REDUCE_PARTS ? 1 : ((steps)-1) / CELL_REDUCE_PARTS + 1)

/* Whether an op of this kind may have patches. */
bool cell_op_may_have_patches(enum cell_op_kind kind);

/* Whether its operand is a picture; the places that are left of it. */
bool cell_op_has_picture(const struct cell_op *op);
uint32_t cell_op_places(const struct cell_op *op);

/* Products of one row with an op's matrix: its patches where it has some, else 1. */
uint32_t cell_op_patches(const struct cell_op *op);

/* Of a checked tree op: whether it has x, and its children. */
bool cell_op_has_x(const struct cell_op *op);
uint32_t cell_op_children(const struct cell_op *op);

/* How many of an op's weights, from the first on, are matrices [gates * H, width of a row] that its
 * gates are sums over; 0 without gates. */
uint32_t cell_op_matrices(const struct cell_op *op);

#endif
