/* The operators' infer and lower functions, named in operators.c. Private to cells/import. */
#ifndef CELLS_IMPORT_OPS_H
#define CELLS_IMPORT_OPS_H

#include "cells/import/graph.h"

struct cell__place;

typedef enum base_status cell__op_fn(struct cell__import *im, struct cell__node *node);

/* op_layout.c */
cell__op_fn cell__infer_identity, cell__lower_identity;
cell__op_fn cell__infer_dropout, cell__infer_cast, cell__lower_cast;
cell__op_fn cell__infer_transpose, cell__lower_transpose;
cell__op_fn cell__infer_squeeze, cell__infer_unsqueeze, cell__infer_flatten;
cell__op_fn cell__infer_reshape, cell__lower_reshaped;
/* op_join.c */
cell__op_fn cell__infer_concat, cell__lower_concat;
cell__op_fn cell__infer_split, cell__lower_split;
cell__op_fn cell__infer_expand, cell__lower_expand, cell__infer_tile, cell__lower_tile;
/* op_gather.c, op_slice.c */
cell__op_fn cell__infer_gather, cell__lower_gather;
cell__op_fn cell__infer_slice, cell__lower_slice;
/* op_position.c: a Slice of a constant to the number of steps; a table's row by its index */
struct cell__table {
    enum cell__dtype dtype;
    int64_t rows, width;
    const void *data;
};
/* The axis of something of this rank that a Slice cuts to the number of steps of `steps`, from the
 * first on, or NONE. */
uint32_t cell__positions_axis(const struct cell__import *im, const struct cell__node *node,
                              uint32_t rank, struct cell__axis *steps);
bool cell__is_positions(struct cell__import *im, const struct cell__node *node);
cell__op_fn cell__infer_positions, cell__lower_positions;
/* op_ids.c: Clip of ids, and looking up what it gives: ids from 0 on, none beyond `high`, of which
 * a table without so many rows refuses those that it has not. */
struct cell__clipped_ids {
    uint32_t ids, floats; /* rows: as they came in, and not below `low` */
    float low, high;      /* high: INFINITY, none */
    bool is_bounded;      /* cut to the table's, beyond which a request is refused */
};
bool cell__is_ids_clip(struct cell__import *im, const struct cell__node *node);
cell__op_fn cell__lower_ids_clip;
bool cell__row_clipped_ids(const struct cell__import *im, uint32_t row,
                           struct cell__clipped_ids *out);
enum base_status cell__row_clipped_lookup(struct cell__import *im, const struct cell__table *table,
                                          const struct cell__clipped_ids *clipped, uint32_t index,
                                          uint32_t *out);
/* op_pairs.c: where a Slice is the second one that cuts a constant to a number of steps, it takes
 * the constant, and has a value for each pair of steps */
enum base_status cell__replace_pairs(struct cell__import *im, struct cell__node *node);
/* op_distance.c: a Slice of a constant table to the distances between a number of steps */
bool cell__is_distances(struct cell__import *im, const struct cell__node *node);
cell__op_fn cell__infer_distances, cell__lower_distances;
/* Whether an axis is the distances between the steps of another. */
bool cell__axis_is_distances(const struct cell__import *im, const struct cell__axis *axis,
                             const struct cell__axis *of);
/* Whether it is those from 0 to the farthest behind. Where a Range makes their numbers, the
 * farthest first, it makes them of distances. */
bool cell__axis_is_behind(const struct cell__import *im, const struct cell__axis *axis,
                          const struct cell__axis *of);
/* Whether a row has one for each of such distances, of either kind. */
bool cell__row_is_of_distances(const struct cell__import *im, uint32_t row);
enum base_status cell__replace_down(struct cell__import *im, struct cell__node *node);
/* Where a Slice ends what shifts a value for each step and distance to one for each pair of steps:
 * it takes that value, and no other node of the shift is wanted. */
void cell__replace_shift(struct cell__import *im, struct cell__node *node);
enum base_status cell__row_lookup(struct cell__import *im, const struct cell__table *table,
                                  uint32_t index, uint32_t *out);
/* op_gather.c: the same of what must be ids that the request has, or numbers of steps */
enum base_status cell__row_embedding(struct cell__import *im, const struct cell__table *table,
                                     uint32_t index, uint32_t *out);
/* op_middle.c: a Gather, on its axis, of one step whose number follows from how many there are */
bool cell__is_middle(struct cell__import *im, const struct cell__node *node);
cell__op_fn cell__infer_middle, cell__lower_middle;
/* op_one_hot.c */
cell__op_fn cell__infer_one_hot, cell__lower_one_hot;
/* op_math.c */
cell__op_fn cell__infer_binary, cell__lower_binary;
cell__op_fn cell__infer_unary, cell__lower_unary;
cell__op_fn cell__infer_softmax, cell__lower_softmax, cell__infer_softplus, cell__lower_softplus;
cell__op_fn cell__infer_select, cell__lower_select; /* Where */
/* Where a node is a size less what is left of it beside a multiple, it is that multiple: a, n. */
void cell__replace_rest(struct cell__import *im, struct cell__node *node);
/* turned.c: where a Gather takes all steps, the last one first, it turns them round. */
void cell__replace_reversed(struct cell__import *im, struct cell__node *node);
/* The shape of all inputs together, of which one at least is no constant; their rows, each as wide
 * as output 0, or of width 1. */
enum base_status cell__join_shapes(struct cell__import *im, const struct cell__node *node,
                                   struct cell__shape *out);
enum base_status cell__joined_rows(struct cell__import *im, const struct cell__node *node,
                                   uint32_t rows[], uint32_t *width);
/* op_compare.c */
cell__op_fn cell__infer_same, cell__lower_same; /* Equal */
bool cell__is_of_integers(struct cell__import *im, const struct cell__node *node);
cell__op_fn cell__infer_compared;
enum base_status cell__lower_compared(struct cell__import *im, struct cell__node *node,
                                      enum cell_op_kind kind, bool is_turned);
cell__op_fn cell__infer_pow, cell__lower_pow, cell__infer_clip, cell__lower_clip;
/* op_numbers.c: whether all inputs that are no constants are integers computed of numbers of steps,
 * one a row; what the node makes of them */
bool cell__is_of_numbers(struct cell__import *im, const struct cell__node *node);
enum base_status cell__lower_numbers(struct cell__import *im, struct cell__node *node);
/* floor(number / n), of a row of floats: exact below 2^24 (op_whole.c). */
enum base_status cell__row_chunk(struct cell__import *im, uint32_t number, int64_t n,
                                 uint32_t *out);
/* The same of integers or floats, as integers. UNIMPLEMENTED where it is no number of a step, which
 * are not below 0. */
enum base_status cell__row_whole(struct cell__import *im, uint32_t row, int64_t n, uint32_t *out);
/* Which chunk of n steps one of a sequence is in: what such a row is. */
struct cell__whole {
    uint32_t sequence;
    int64_t n;
};
bool cell__row_is_whole(const struct cell__import *im, uint32_t row, struct cell__whole *out);
/* op_whole.c: where a node ends what divides integers and rounds down, it is that, and no other
 * node of them is wanted */
enum base_status cell__replace_whole(struct cell__import *im, struct cell__node *node);
/* op_index.c: integers that tell a step, and who takes it */
cell__op_fn cell__infer_index, cell__lower_index;
/* Integers as floats, those that would be a step's number too. */
enum base_status cell__row_as_float(struct cell__import *im, uint32_t row, uint32_t *out);
/* Of an integer of a request and the size of an axis, or a number: their sum or difference. *out:
 * NONE where they are not such. */
enum base_status cell__row_with_size(struct cell__import *im,
                                     const struct cell__value *const pair[2], bool is_sum,
                                     uint32_t *out);
/* Whether it is of those, or cast of one: to be compared with steps' numbers, or a float. */
bool cell__row_is_rounded(const struct cell__import *im, uint32_t row);
/* Whether a row is the number of a step, or integers computed of such. */
bool cell__row_is_counted(const struct cell__import *im, uint32_t row);
/* op_told.c: whether a row is what an integer of a model's input tells of steps, however that is
 * computed: the input and some more, over a number, rounded down */
bool cell__row_told(const struct cell__import *im, uint32_t row, struct cell_told *told,
                    uint32_t *input);
bool cell__told_is_same(struct cell_told a, struct cell_told b);
/* Whether a node computes such of such; its row. */
bool cell__is_of_told(struct cell__import *im, const struct cell__node *node);
enum base_status cell__lower_told(struct cell__import *im, const struct cell__node *node,
                                  uint32_t *out);
/* An integer of a request over n, of a row of integers; is_floor: rounded down, else to 0. */
enum base_status cell__row_told_over(struct cell__import *im, uint32_t row, int64_t n,
                                     bool is_floor, uint32_t *out);
/* The row as one whose steps can all be read at once (op_reduce.c). */
enum base_status cell__row_memory(struct cell__import *im, uint32_t row, uint32_t *out);
/* Whether a constant is the number of the last step of an axis; and that, the same for all rows of
 * the batch. UNIMPLEMENTED beside sequence_lens. */
bool cell__is_last_step(const struct cell__value *value, struct cell__axis *time);
enum base_status cell__row_last_step(struct cell__import *im, const struct cell__axis *time,
                                     uint32_t *out);
/* The number of a step that an input says, plus or minus a number, which would count from the end
 * where it is below 0: as no request may have it. NONE: the row is no such number. */
enum base_status cell__row_from_end(struct cell__import *im, uint32_t row, uint32_t *out);
/* The number of a step, counted from `first` on. */
enum base_status cell__row_count_from(struct cell__import *im, int64_t first, uint32_t *row);
cell__op_fn cell__infer_gather_elements, cell__lower_gather_elements;
cell__op_fn cell__infer_gather_nd, cell__lower_gather_nd;
cell__op_fn cell__infer_lookup_nd, cell__lower_lookup_nd;     /* of a constant, on its first axis */
cell__op_fn cell__infer_gather_step, cell__lower_gather_step; /* Gather, of one axis for both */
/* op_function.c */
cell__op_fn cell__infer_function, cell__lower_function;
cell__op_fn cell__infer_prelu, cell__lower_prelu;
/* op_conv.c */
cell__op_fn cell__infer_conv, cell__lower_conv, cell__infer_batch_norm, cell__lower_batch_norm;
/* op_conv_transpose.c */
cell__op_fn cell__infer_conv_transpose, cell__lower_conv_transpose;
/* write_out.c */
cell__op_fn cell__infer_written;
/* op_resize.c */
cell__op_fn cell__infer_resize, cell__lower_resize;
/* op_upsample.c: where an Add ends what interpolates between steps in small operators, it is that,
 * of the value whose steps these are, and no other node of them is wanted. */
enum base_status cell__replace_upsample(struct cell__import *im, struct cell__node *node);
/* op_pool.c */
cell__op_fn cell__infer_pool, cell__lower_pool;
/* op_pad.c */
cell__op_fn cell__infer_pad, cell__lower_pad;
/* op_product.c */
cell__op_fn cell__infer_rows_product, cell__lower_rows_product;
/* op_quantize.c */
cell__op_fn cell__infer_dequantise, cell__lower_dequantise;
cell__op_fn cell__infer_quantise, cell__lower_quantise;
cell__op_fn cell__infer_dynamic, cell__infer_integer_product, cell__infer_dynamic_lstm;
/* Takes floats in place of constant whole numbers of 8 bits, input i. */
enum base_status cell__take_whole(struct cell__import *im, struct cell__node *node, uint32_t i);
/* op_norm.c */
cell__op_fn cell__infer_layer_norm, cell__lower_layer_norm;
bool cell__is_row_norm(struct cell__import *im, const struct cell__node *node);
cell__op_fn cell__infer_row_norm, cell__lower_row_norm;
cell__op_fn cell__infer_instance_norm, cell__lower_instance_norm; /* GroupNormalization too */
/* op_cumsum.c */
cell__op_fn cell__infer_cumsum, cell__lower_cumsum;
/* op_reduce.c */
cell__op_fn cell__infer_reduce, cell__lower_reduce;
cell__op_fn cell__infer_argmax, cell__lower_argmax;
/* op_top.c */
cell__op_fn cell__infer_top, cell__lower_top;
/* op_linear.c */
cell__op_fn cell__infer_matmul, cell__lower_matmul;
cell__op_fn cell__infer_gemm, cell__lower_gemm;
/* op_shape.c */
cell__op_fn cell__infer_constant, cell__infer_shape, cell__infer_size, cell__infer_range;
cell__op_fn cell__lower_range;
cell__op_fn cell__infer_trilu, cell__lower_trilu;
cell__op_fn cell__infer_product, cell__infer_least, cell__infer_mod, cell__lower_mod,
    cell__infer_equal, cell__infer_where;
cell__op_fn cell__infer_constant_of_shape, cell__lower_constant_of_shape;
/* op_count.c: whether a node computes with counts alone, and it; whether a value is the number of
 * the step, nothing added */
bool cell__is_count(struct cell__import *im, const struct cell__node *node);
cell__op_fn cell__infer_count;
bool cell__is_step(const struct cell__value *value);
/* The last step's number, less that of the step: along an axis of so many. */
bool cell__is_step_from_end(struct cell__import *im, const struct cell__value *value,
                            const struct cell__axis *time);
/* Whether the node computes with floats of which some are sizes of axes. */
bool cell__takes_counts(struct cell__import *im, const struct cell__node *node);
void cell__set_count(struct cell__import *im, const struct cell__node *node, uint32_t i,
                     enum cell__dtype dtype, int32_t steps, const struct cell__sym *sym);
/* walk.c: output i is nothing; a fault when it is needed */
enum base_status cell__leave_out(struct cell__import *im, const struct cell__node *node, uint32_t i,
                                 const char *why);
/* op_ids.c: takes the ids themselves for the last Add of ids that may count from the end of a table
 */
void cell__replace_ids(struct cell__import *im, struct cell__node *node);
/* turned.c: marks what is computed of a sequence whose steps are turned round, or refuses it; turns
 * output 0 along this axis of `in`; whether that is time, once roles are known; whether a value is
 * turned along this axis */
enum base_status cell__infer_turned(struct cell__import *im, struct cell__node *node);
/* The steps of a sequence that a Scan or Loop takes the other way round, beside others that it does
 * not: a copy, outside of the body. */
enum base_status cell__row_turned_steps(struct cell__import *im, const struct cell__value *whole,
                                        const struct cell__recurrent *loop, uint32_t *row);
/* The row of a value that is turned round, its steps in the order that the value has; and a node's
 * lower() with such rows in the place of inputs that are turned. */
enum base_status cell__row_straight(struct cell__import *im, const struct cell__value *value,
                                    uint32_t *row);
enum base_status cell__lower_straight(struct cell__import *im, struct cell__node *node);
enum base_status cell__turn(struct cell__import *im, const struct cell__node *node,
                            const struct cell__value *in, const struct cell__axis *axis);
enum base_status cell__check_turned(struct cell__import *im, const struct cell__axis *axis);
bool cell__is_turned_along(const struct cell__import *im, const struct cell__value *value,
                           const struct cell__axis *axis);
cell__op_fn cell__infer_reverse, cell__lower_reverse; /* ReverseSequence */
bool cell__shape_has_atom(const struct cell__import *im, const struct cell__shape *shape,
                          uint32_t atom);
/* sorted.c: marks what is computed of rows that are sorted, or refuses it. A TopK that sorts rows
 * by integers, or one of their places, which is the inverse; a Gather along axis k that sorts rows
 * or puts them back (it has no indices any more, then); output 0 as the order that input 0 is. */
enum base_status cell__infer_sorted(struct cell__import *im, struct cell__node *node);
bool cell__sorts_rows(struct cell__import *im, const struct cell__node *node);
cell__op_fn cell__infer_sort, cell__lower_sort, cell__infer_inverse;
cell__op_fn cell__infer_scatter_elements, cell__lower_order;
enum base_status cell__infer_reorder(struct cell__import *im, struct cell__node *node, uint32_t k);
enum base_status cell__lower_reorder(struct cell__import *im, struct cell__node *node, uint32_t k);
void cell__copy_order(struct cell__import *im, const struct cell__node *node,
                      enum cell__dtype dtype);
bool cell__operator_takes_orders(const struct cell__operator *op);
/* op_recurrent.c */
cell__op_fn cell__infer_recurrent, cell__lower_recurrent;
/* stated.c: step k of the row, along an axis of known size; the row itself where it is the same at
 * each. */
enum base_status cell__row_step(struct cell__import *im, const struct cell__axis *axis, int64_t k,
                                uint32_t *row);
/* op_layout.c: at each step of the axis that is this atom, the next `by` steps of *row, whose time
 * is the other, behind each other. */
enum base_status cell__row_stacked(struct cell__import *im, const struct cell__axis *time,
                                   uint32_t atom, int64_t by, uint32_t *row);
/* regroup.c: *row, of the value, under a shape that has its elements in their order but other
 * steps. *is_done: false where the steps are the same. */
enum base_status cell__row_regrouped(struct cell__import *im, const struct cell__value *value,
                                     const struct cell__shape *shape, uint32_t *row, bool *is_done);
/* Step k of the row, along an axis of any number of steps, from its end on below 0: a request that
 * has no such step is refused. -CELL__NUMBERED_MAX <= k < CELL__NUMBERED_MAX. */
#define CELL__NUMBERED_MAX (1 << 20)
enum base_status cell__row_numbered(struct cell__import *im, const struct cell__axis *axis,
                                    int64_t k, uint32_t *row);
/* The same of n steps from that one on, behind each other in one row. */
enum base_status cell__row_some_steps(struct cell__import *im, const struct cell__axis *axis,
                                      int64_t k, uint32_t n, uint32_t *row);
/* As cell__axis_in_row() of a shape whose row is *row; but of an axis along which time runs, beside
 * features or alone, and of which the file states how long it is, the steps become features: *row
 * has all of them behind each other. */
enum base_status cell__row_of_steps(struct cell__import *im, const struct cell__shape *shape,
                                    uint32_t axis, const char *verb, uint32_t *row,
                                    struct cell__place *place);
/* joined.c: the elements of that axis of a row, the last one first. */
enum base_status cell__row_turned(struct cell__import *im, const struct cell__place *place,
                                  uint32_t *row);
/* A Concat along time, axis `axis` of its output. */
enum base_status cell__join_steps(struct cell__import *im, struct cell__node *node, uint32_t axis);
/* mirror.c: another axis of as many elements, of one atom: where a value has one for each pair of
 * steps of a sequence, the second of both. Whether it is one, of that; whether one of two is the
 * other's, which is *out then. */
enum base_status cell__axis_mirror(struct cell__import *im, const struct cell__axis *axis,
                                   struct cell__axis *out);
/* Of a mirror what it is of; others are left as they are. */
void cell__axis_unmirror(const struct cell__import *im, struct cell__axis *axis);
bool cell__axis_is_mirror(const struct cell__import *im, const struct cell__axis *axis,
                          const struct cell__axis *of);
/* Where one of two axes that must be as long as each other is a mirror, and the other one that
 * follows from none: it is as long as what the mirror is of. */
enum base_status cell__axes_unite_mirror(struct cell__import *im, const struct cell__axis *a,
                                         const struct cell__axis *b, bool *is_one);
bool cell__axes_mirror(const struct cell__import *im, const struct cell__axis *a,
                       const struct cell__axis *b, struct cell__axis *out);
/* Whether an axis has the steps of another, in rows of lengths of their own: where both meet, as a
 * mirror and what it is of do, rows of the other are those at its steps. */
bool cell__axis_has_lengths_of(const struct cell__import *im, const struct cell__axis *axis,
                               const struct cell__axis *of);
/* Of axes that are the same all but the first become mirrors. */
enum base_status cell__shape_mirror(struct cell__import *im, struct cell__shape *shape);
/* The row of a sequence as one of its mirror's: step t of both is the same. */
enum base_status cell__row_mirror(struct cell__import *im, const struct cell__axis *mirror,
                                  uint32_t *row);
/* Of an input whose steps are the second ones of the result's pairs: as rows of these. */
enum base_status cell__row_in_pairs(struct cell__import *im, const struct cell__value *value,
                                    const struct cell__shape *out, uint32_t *row);
/* Whether the row is one that has been made so. */
bool cell__row_is_mirror(const struct cell__import *im, uint32_t row);
/* Whether one time runs along two of the axes, which no row can say. */
bool cell__shape_has_twice(const struct cell__import *im, const struct cell__shape *shape);
/* That recurrent node `number` takes a sequence step by step, or is_from_end: from the last on. */
void cell__recurrent_takes(struct cell__import *im, uint32_t number,
                           const struct cell__value *sequence, bool is_from_end);
/* op_scan.c: a Scan is two nodes, before and behind those of its body */
cell__op_fn cell__infer_scan, cell__lower_scan;
cell__op_fn cell__infer_scan_end, cell__lower_scan_end;
cell__op_fn cell__infer_loop;
/* In operators.c, whose table has the ends. */
extern const struct cell__operator cell__scan_begin, cell__loop_begin;
/* Whether an input of the model has this axis, or one that its steps follow from: so that a request
 * tells how many there are. */
bool cell__is_given(const struct cell__import *im, const struct cell__axis *time);
/* Whether rows have lengths of their own there, by sequence_lens; once roles are known. */
bool cell__has_lengths(const struct cell__import *im, const struct cell__axis *time);
/* Whether a request tells how many steps there are of what is the same at each of them: they are
 * given, and as many in every row. */
bool cell__is_told(const struct cell__import *im, const struct cell__axis *time);
/* The row of a sequence inside the body of this recurrent node: of its step. Refused when no
 * request would tell how many there are. */
enum base_status cell__row_of_step(struct cell__import *im, const struct cell__value *value,
                                   uint32_t recurrent, uint32_t *out);
/* op_list.c */
cell__op_fn cell__infer_list_split, cell__infer_list_length, cell__infer_list_at;
cell__op_fn cell__infer_list_empty, cell__infer_list_insert, cell__infer_list_join;
cell__op_fn cell__infer_list_erase;
/* Of a tensor, or a list of what it is cut to along the axis, what the node's input 1 states. */
enum base_status cell__infer_pick(struct cell__import *im, struct cell__node *node, uint32_t axis);
enum base_status cell__lower_pick(struct cell__import *im, struct cell__node *node, uint32_t axis);
cell__op_fn cell__infer_list_construct;
cell__op_fn cell__lower_element, cell__lower_list_at, cell__lower_list_insert;
/* Gather of input 0 on this axis by the number of the step. */
enum base_status cell__infer_element(struct cell__import *im, const struct cell__node *node,
                                     int64_t attribute);
/* walk.c: what is left of an If once its branch stands in its place */
cell__op_fn cell__infer_branch, cell__lower_branch;

/* ---- Windows along the steps (op_window.c) ------------------------------------------------- */

/* What a convolution or pool reads at each step: of n steps it leaves (n + add) / stride + 1. */
struct cell__window {
    int64_t taps, dilation; /* steps that one reads; from one of them to the next */
    int64_t extent;         /* from the first to the last of them, both included */
    int64_t before, behind; /* padding; of a ConvTranspose what it takes away */
    int64_t more;           /* of a ConvTranspose: zeros that it makes behind */
    int64_t stride, add;
    bool rounds_up;
    uint32_t sequence; /* whose steps these are; set by cell__check_windows() */
};

/* Of steps within a row: how many are left, and their taps, each of which is an op of a cell or
 * some. Of more the row is a picture (op_picture.c). */
#define CELL__WITHIN_LEFT_MAX 2u
#define CELL__WITHIN_MAX      32u

/* Those of a node of rank 3 to 5: [batch, channels, steps], with another axis before the steps or
 * behind them, its height, or with two behind them, of pictures (op_clip.c). */
struct cell__windows {
    uint32_t n; /* 1 to 3 */
    struct cell__window at[3];
    bool takes_within; /* whoever asks goes along the steps where those lie within the row, too */
    bool is_each; /* whoever asks takes each channel for itself: all before the windows' axes */
    // Set by cell__check_windows().
    uint32_t time;  /* which of them is along the steps */
    uint32_t parts; /* of rank 3: rows below each other, all convolved alike, else 1 */
    uint32_t channels, height, height_left;
    uint32_t within, within_left; /* steps that lie within the row, what is left of them; else 0 */
    bool is_picture;              /* so many that they are not taken one by one */
};

/* Of a Conv or ConvTranspose (op_conv.c): floats of rank 3 to rank_most and constant weights of the
 * same, how many channels and groups; and its bias of so many filters, or NULL. */
enum base_status cell__conv_operands(struct cell__import *im, const struct cell__node *node,
                                     uint32_t rank_most, int64_t *channels, int64_t *groups);
enum base_status cell__conv_bias(struct cell__import *im, const struct cell__node *node,
                                 int64_t filters, const float **out);
/* The node as a convolution of these weights, [filters, channels of a group, taps of each axis],
 * and this bias, [filters] or NULL. */
struct cell__conv {
    int64_t channels, filters, groups;
    struct cell__windows windows;
    const float *w, *bias;
    bool is_depthwise; /* set when lowering */
};
/* The weight of filter f and channel c, of all, at these taps of both axes. */
float cell__conv_weight(const struct cell__conv *conv, size_t f, size_t c, size_t first,
                        size_t second);
/* op_picture.c: the convolution of a row [channels][height][width], both axes within it. */
enum base_status cell__row_picture_conv(struct cell__import *im, const struct cell__conv *conv,
                                        uint32_t *row);
/* The largest of each window of it; NONE: the kernel has too many taps. */
enum base_status cell__row_picture_largest(struct cell__import *im,
                                           const struct cell__windows *windows, uint32_t *row);
/* op_clip.c: the convolution of the pictures [channels][height][width] of some steps. */
enum base_status cell__row_clip_conv(struct cell__import *im, const struct cell__node *node,
                                     struct cell__conv *conv, uint32_t *row);
enum base_status cell__lower_as_conv(struct cell__import *im, struct cell__node *node,
                                     const struct cell__conv *as);
/* From the node's attributes; taps: those of its weights, NULL: kernel_shape says. */
enum base_status cell__read_windows(struct cell__import *im, const struct cell__node *node,
                                    const int64_t *taps, struct cell__windows *windows);
/* Of a ConvTranspose: `add` tells nothing but whether each step makes itself alone. */
enum base_status cell__read_transposed(struct cell__import *im, const struct cell__node *node,
                                       const int64_t *taps, struct cell__windows *windows);
/* Sets output 0: floats [batch, channels, what the windows leave of input 0]; 0: channels as
 * before. */
enum base_status cell__infer_windows(struct cell__import *im, const struct cell__node *node,
                                     const struct cell__windows *windows, int64_t channels);
/* When lowering: input 0 is a row [channels, height] at each step of one sequence. *row: that,
 * which may become another. Of rank 3 with parts: these are a height, along which each window is
 * one place; what is made, [filters, parts], is to be turned back by cell__window_parts(). */
enum base_status cell__check_windows(struct cell__import *im, const struct cell__node *node,
                                     struct cell__windows *windows, uint32_t *of);
enum base_status cell__window_parts(struct cell__import *im, const struct cell__windows *windows,
                                    uint32_t filters, uint32_t *row);
/* The same of three axes, the frames and both of their pictures, whose windows are `sides`: frames
 * are the steps, or lie within the row (within > 0). */
enum base_status cell__check_clip(struct cell__import *im, const struct cell__node *node,
                                  struct cell__windows *windows, struct cell__windows *sides);
/* Of both axes within a row (within > 0), in their order: height and width, and what is left. */
void cell__window_sides(const struct cell__windows *windows, uint32_t sizes[2], uint32_t left[2]);
/* Whether each step reads itself and no other. */
bool cell__window_is_step(const struct cell__window *window);
/* Whether a tap never lies beyond the ends. */
bool cell__window_is_inside(const struct cell__window *window, uint32_t tap);
/* The rows of all taps behind each other, and of one. */
enum base_status cell__window_row(struct cell__import *im, const struct cell__window *window,
                                  uint32_t row, uint32_t *out);
enum base_status cell__window_tap(struct cell__import *im, const struct cell__window *window,
                                  uint32_t row, uint32_t tap, uint32_t *out);

/* ---- Windows along an axis within a row (op_plane.c) ---------------------------------------- */

/* A row [height][width]: most often the channels of a picture's column, the channels innermost. */
struct cell__plane {
    uint32_t row, height, width;
};

/* How rows beyond the ends read: as zeros, as the first and the last one, as those that stand as
 * far inside of these, or as those at the other end; of the last two there must be enough. */
enum cell__edges {
    CELL__EDGES_ZERO,
    CELL__EDGES_REPEATED,
    CELL__EDGES_REFLECTED,
    CELL__EDGES_WRAPPED
};

/* joined.c: steps before the first one and behind the last one of the axis, as the edges say (which
 * are not ZERO); those of the axis `left` are made of both and of the row's own. */
struct cell__around {
    uint32_t before, behind;
    enum cell__edges edges;
};
enum base_status cell__pad_steps(struct cell__import *im, const struct cell__axis *axis,
                                 const struct cell__around *around, const struct cell__axis *left,
                                 uint32_t *row);
/* A row of zeros. */
enum base_status cell__row_zeros(struct cell__import *im, uint32_t width, uint32_t *out);
/* The plane of a row [channels][height], and back. */
enum base_status cell__plane_of(struct cell__import *im, uint32_t row, uint32_t channels,
                                struct cell__plane *out);
enum base_status cell__plane_row(struct cell__import *im, const struct cell__plane *plane,
                                 uint32_t *out);
/* Adds rows, or takes some from its end where behind is negative. */
enum base_status cell__plane_pad(struct cell__import *im, int64_t before, int64_t behind,
                                 enum cell__edges edges, struct cell__plane *plane);
/* Of what a window leaves, `left` rows: rows that tap k reads, [left][width]. The plane is padded
 * and split before, once; step by step a window over the split row may be read too. */
struct cell__split {
    uint32_t row, rows, width; /* [stride][rows][width] */
    int64_t stride, dilation;
    uint32_t left;
};
enum base_status cell__plane_split(struct cell__import *im, const struct cell__plane *plane,
                                   const struct cell__window *window, uint32_t left,
                                   struct cell__split *out);
enum base_status cell__split_tap(struct cell__import *im, const struct cell__split *split,
                                 uint32_t row, uint32_t k, uint32_t *out);

/* ---- Functions of recurrent nodes (op_activation.c) ---------------------------------------- */

/* What an operator has where the node says nothing, in lower case. */
struct cell__functions {
    uint32_t n;
    const char *names[3];
};

/* Sets activations, clip and is_written_out, the last one by these two. */
enum base_status cell__read_functions(struct cell__import *im, const struct cell__node *node,
                                      const struct cell__functions *own, uint32_t direction,
                                      struct cell__recurrent *recurrent);

/* ---- Recurrent nodes in small operators (op_step.c) ---------------------------------------- */

/* One step: from the row of x and of h and, of an LSTM, c; out: rows of h' and c'. */
enum base_status cell__lower_step(struct cell__import *im, const struct cell__recurrent *recurrent,
                                  uint32_t x, const uint32_t states[2], uint32_t out[2]);

/* One of ONNX's activations, of each element of a row of floats. */
enum base_status cell__row_function(struct cell__import *im, const struct cell__activation *by,
                                    uint32_t row, uint32_t *out);

/* ---- Reductions (op_reduce.c) --------------------------------------------------------------- */

/* op_compare.c: 1 where an element is not 0, a NaN too, else 0. */
enum base_status cell__row_truth(struct cell__import *im, uint32_t row, uint32_t *out);
/* The mean of a row's elements. */
enum base_status cell__row_mean(struct cell__import *im, uint32_t row, uint32_t *out);
/* How many steps the sequence has, a float. */
enum base_status cell__row_steps(struct cell__import *im, uint32_t sequence, uint32_t *out);
/* The mean of a row of this shape over axes, bit k for axis k, time among them or not. */
enum base_status cell__row_mean_over(struct cell__import *im, const struct cell__shape *shape,
                                     uint32_t mask, uint32_t *row);
/* The sum of a row's elements. */
enum base_status cell__row_sum(struct cell__import *im, uint32_t row, uint32_t *out);
/* *row [before, summed, behind] to [before, behind]. */
enum base_status cell__row_sum_part(struct cell__import *im, const uint32_t sizes[3],
                                    uint32_t *row);
/* op_attend.c: what the weights, a softmax over the steps of a sequence, make of the values; the
 * same of their product, summed over these steps; and the largest score. */
enum base_status cell__row_attend(struct cell__import *im, uint32_t weights, uint32_t values,
                                  uint32_t *out);
enum base_status cell__row_attend_sum(struct cell__import *im, uint32_t row, uint32_t *out);
enum base_status cell__row_attend_largest(struct cell__import *im, uint32_t row, uint32_t over,
                                          uint32_t *out);
/* Whether the row is such a product. */
bool cell__row_is_attend_sum(const struct cell__import *im, uint32_t row, uint32_t over);
/* The sum of each element of a row of one sequence over its steps. */
enum base_status cell__row_sum_of_steps(struct cell__import *im, uint32_t row, uint32_t *out);
/* The softmax of a row of this shape, or its logarithm, over the axes of the mask: its steps, or
 * these and all of its features. */
enum base_status cell__row_softmax_over(struct cell__import *im, const struct cell__shape *shape,
                                        uint32_t mask, bool is_log, uint32_t *row);
/* Of the row of a Where: Where(IsNaN(w), 0, w) of a softmax w over steps is w still, for who
 * attends by it, as PyTorch writes it where a mask is of truths; and so is Where(c, 0, w) where c
 * masks the scores, as ESPnet's and WeNet's attention has it. op_product.c */
void cell__note_zero_weights(struct cell__import *im, const struct cell__node *node, uint32_t row);

/* ---- Shared by recurrent nodes (op_recurrent.c) -------------------------------------------- */

/* Outputs of an LSTM, GRU or RNN. */
enum { CELL__OUT_Y, CELL__OUT_H, CELL__OUT_C };

/* Sets init_rows[s] of one direction: the row of initial_h or initial_c; NONE for zeros. */
enum base_status cell__recurrent_state(struct cell__import *im, const struct cell__node *node,
                                       uint32_t direction, uint32_t s);
/* op_bands.c: of a node that is_inner. */
enum base_status cell__lower_bands(struct cell__import *im, const struct cell__node *node);

/* Adds it, and sets node->recurrent. */
enum base_status cell__recurrent_new(struct cell__import *im, struct cell__node *node,
                                     const struct cell__recurrent *recurrent);
/* sequence_lens: an input of the model, perhaps cast, and the same of all recurrent nodes. */
/* Notes which input they are where what is between does nothing to them, so that nodes know it that
 * stand before the recurrent one. */
void cell__recurrent_find_lengths(struct cell__import *im, const struct cell__recurrent *recurrent);
enum base_status cell__recurrent_lengths(struct cell__import *im,
                                         const struct cell__recurrent *recurrent);

/* ---- Shared by them (op_layout.c) --------------------------------------------------------- */

/* true: every given input is a constant. */
bool cell__is_all_const(struct cell__import *im, const struct cell__node *node);
/* Shape of a constant or of rows. */
enum base_status cell__shape_of(struct cell__import *im, const struct cell__value *value,
                                struct cell__shape *out);
/* Input i as a row for output 0, which has the same elements under another shape. */
enum base_status cell__row_under(struct cell__import *im, const struct cell__node *node, uint32_t i,
                                 uint32_t *out);
/* Where axis `axis` lies in a row. Refused when batch or time run along it; the words are the
 * operator's. */
enum base_status cell__axis_in_row(struct cell__import *im, const struct cell__shape *shape,
                                   uint32_t axis, const char *verb, struct cell__place *out);

#endif
