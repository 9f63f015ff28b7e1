/* See ops.h. Rows of a batch that are sorted by their lengths inside the model, and put back behind
 * its layers: what PyTorch exports of pack_padded_sequence(enforce_sorted=False). A TopK of all
 * lengths says where each row stands; a Gather by that sorts rows, one by its inverse, which a
 * ScatterElements makes, puts them back. Here rows run by themselves, in no order, so nothing is
 * moved: a value is marked as sorted, and so is all that is computed of it. Sorted and unsorted
 * rows must not meet, and outputs must not be sorted. */
#include "cells/import/ops.h"
#include "cells/import/rows.h"

enum { IN_DATA, IN_INDICES, IN_UPDATES };

static const char not_of_batch[] = "sorts rows along an axis that is not the batch";

/* ---- The order ---------------------------------------------------------------------------- */

/* Whether k is the size of the axis, in every request. */
static bool takes_all(const struct cell__import *im, const struct cell__value *k,
                      const struct cell__axis *axis)
{
    const struct cell__sym size = cell__sym_of_axis(im, axis);
    if (k == NULL || k->kind != CELL__CONST || k->dtype != CELL__I64 || k->tensor.count != 1) {
        return false;
    }
    const struct cell__sym taken = cell__tensor_sym(&k->tensor, 0);
    return cell__sym_equal(im, &taken, &size) == 1;
}

bool cell__sorts_rows(struct cell__import *im, const struct cell__node *node)
{
    const struct cell__value *in = cell__input(im, node, IN_DATA);
    return in->kind == CELL__ROWS && in->dtype != CELL__F32 && in->shape.rank == 1 &&
           in->shape.axes[0].n == 1 && cell__has_input(node, 1) &&
           takes_all(im, cell__input(im, node, 1), &in->shape.axes[0]);
}

static void set_order(struct cell__import *im, const struct cell__node *node, uint32_t i,
                      const struct cell__value *like, bool is_back)
{
    if (cell__has_output(node, i)) {
        struct cell__value *out = cell__output(im, node, i);
        const enum cell__dtype dtype = like->kind == CELL__ORDER ? like->dtype : CELL__I64;
        cell__set_rows(im, node, i, dtype, &like->shape);
        out->kind = CELL__ORDER;
        out->order = like->order;
        out->is_back = is_back;
    }
}

enum base_status cell__infer_sort(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *in = cell__input(im, node, IN_DATA);
    if (in->order != 0 || im->n_orders == CELL__ORDERS_MAX) {
        return cell__refuse(im, "sorts rows that are sorted, or more than %u times",
                            CELL__ORDERS_MAX);
    }
    im->orders[im->n_orders++] = in->shape.axes[0].atoms[0];
    struct cell__value sorted = *in;
    sorted.order = im->n_orders;
    if (cell__has_output(node, 0)) {
        cell__set_rows(im, node, 0, in->dtype, &in->shape);
        cell__output(im, node, 0)->order = sorted.order;
    }
    set_order(im, node, 1, &sorted, false);
    return BASE_OK;
}

static bool is_of_batch(const struct cell__import *im, const struct cell__axis *axis)
{
    const struct cell__shape alone = {.rank = 1, .axes = {*axis}};
    return cell__shape_has(im, &alone, CELL__ROLE_BATCH) || cell__axis_size(im, axis) == 1;
}

enum base_status cell__lower_sort(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *in = cell__input(im, node, IN_DATA);
    if (!is_of_batch(im, &in->shape.axes[0])) {
        return cell__refuse(im, "%s", not_of_batch);
    }
    return cell__lower_identity(im, node);
}

void cell__copy_order(struct cell__import *im, const struct cell__node *node,
                      enum cell__dtype dtype)
{
    const struct cell__value *in = cell__input(im, node, 0);
    set_order(im, node, 0, in, in->is_back);
    cell__output(im, node, 0)->dtype = dtype;
}

/* ---- Its inverse -------------------------------------------------------------------------- */

/* ScatterElements of one list of constants into another, which exporters fold of a batch of one. */
static enum base_status fold_scatter(struct cell__import *im, const struct cell__node *node)
{
    struct cell__list data, indices, updates;
    struct cell__tensor out = cell__input(im, node, IN_DATA)->tensor;
    BASE_TRY(cell__tensor_ints(im, cell__input(im, node, IN_DATA), "data", &data));
    BASE_TRY(cell__tensor_ints(im, cell__input(im, node, IN_INDICES), "indices", &indices));
    BASE_TRY(cell__tensor_ints(im, cell__input(im, node, IN_UPDATES), "updates", &updates));
    if (out.dtype != CELL__I64 || out.rank != 1 || indices.n != updates.n) {
        return cell__refuse(im, "of constants that are not lists of int64");
    }
    int64_t *to = base_arena_array(im->arena, data.n, sizeof(*to));
    if (to == NULL) {
        return cell__no_memory(im);
    }
    for (uint32_t i = 0; i < data.n; i++) {
        to[i] = data.at[i];
    }
    for (uint32_t i = 0; i < indices.n; i++) {
        const int64_t at = indices.at[i] + (indices.at[i] < 0 ? (int64_t)data.n : 0);
        if (at < 0 || at >= (int64_t)data.n) {
            return cell__invalid(im, "index %lld of %u elements", (long long)indices.at[i], data.n);
        }
        to[at] = updates.at[i];
    }
    out.data = to;
    out.syms = NULL;
    cell__set_const(im, node, 0, &out);
    return BASE_OK;
}

/* A TopK of all places, the smallest first. */
enum base_status cell__infer_inverse(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *in = cell__input(im, node, IN_DATA);
    int64_t largest = 1;
    BASE_TRY(cell__attr_int(im, node, "largest", 1, &largest));
    if (in->is_back || largest != 0 || !cell__has_input(node, 1) ||
        !takes_all(im, cell__input(im, node, 1), &in->shape.axes[0])) {
        return cell__refuse(im, "of the places of a batch's rows, but all of them from the first");
    }
    set_order(im, node, 1, in, true);
    return cell__leave_out(im, node, 0, "the numbers of a batch's rows");
}

/* Whether a Range made it of all numbers of the axis, from 0 on. */
static bool numbers_all(const struct cell__import *im, const struct cell__value *value,
                        const struct cell__axis *axis)
{
    const struct cell__sym all = cell__sym_of_axis(im, axis);
    const struct cell__sym numbered = cell__sym_of_axis(im, &value->shape.axes[0]);
    return value->kind == CELL__ROWS && value->shape.rank == 1 && value->node != CELL__NONE &&
           im->nodes[value->node].op->infer == cell__infer_range &&
           cell__sym_equal(im, &numbered, &all) == 1;
}

enum base_status cell__infer_scatter_elements(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *data = cell__input(im, node, IN_DATA);
    const struct cell__value *indices = cell__input(im, node, IN_INDICES);
    const struct cell__value *updates = cell__input(im, node, IN_UPDATES);
    const Onnx__AttributeProto *reduction = cell__attr(node, "reduction");
    if (reduction != NULL && !cell__is_text(reduction->s, "none")) {
        return cell__refuse(im, "with a reduction");
    }
    if (data->kind == CELL__CONST && indices->kind == CELL__CONST && updates->kind == CELL__CONST) {
        return fold_scatter(im, node);
    }
    // every place is written to, so that what stood there does not matter
    if (indices->kind != CELL__ORDER || indices->is_back ||
        !numbers_all(im, updates, &indices->shape.axes[0])) {
        return cell__refuse(im, "into elements that are not all places of a batch's rows, in the "
                                "order of their lengths");
    }
    set_order(im, node, 0, indices, true);
    for (uint32_t i = 0; i < 3; i++) {
        node->inputs[i] = CELL__NONE; // nothing is computed with them
    }
    return BASE_OK;
}

/* Only what an order is for needs it, and that takes none of its values. */
enum base_status cell__lower_order(struct cell__import *im, struct cell__node *node)
{
    (void)node;
    return cell__refuse(im, "computes with the places of a batch's rows");
}

/* ---- Rows sorted, and put back ------------------------------------------------------------ */

enum base_status cell__infer_reorder(struct cell__import *im, struct cell__node *node, uint32_t k)
{
    const struct cell__value *data = cell__input(im, node, IN_DATA);
    const struct cell__value *index = cell__input(im, node, IN_INDICES);
    if (data->kind != CELL__ROWS || index->shape.rank != 1) {
        return cell__refuse(im, "sorts what is no row of a batch");
    }
    const uint32_t expected = index->is_back ? index->order : 0;
    BASE_TRY(cell__axis_unite(im, &data->shape.axes[k], &index->shape.axes[0], "what is sorted"));
    if (data->order != expected) {
        return cell__refuse(im, index->is_back ? "puts rows back that have not been sorted so"
                                               : "sorts rows that are sorted");
    }
    cell__set_rows(im, node, 0, data->dtype, &data->shape);
    cell__output(im, node, 0)->order = index->is_back ? 0 : index->order;
    node->inputs[IN_INDICES] = CELL__NONE;
    return BASE_OK;
}

enum base_status cell__lower_reorder(struct cell__import *im, struct cell__node *node, uint32_t k)
{
    const struct cell__value *data = cell__input(im, node, IN_DATA);
    if (!is_of_batch(im, &data->shape.axes[k])) {
        return cell__refuse(im, "%s", not_of_batch);
    }
    return cell__lower_identity(im, node);
}

/* ---- What is computed of them ------------------------------------------------------------- */

static const struct cell__value *tensor_input(struct cell__import *im,
                                              const struct cell__node *node, uint32_t i)
{
    const struct cell__value *in = cell__has_input(node, i) ? cell__input(im, node, i) : NULL;
    return in != NULL && (in->kind == CELL__ROWS || in->kind == CELL__LIST) ? in : NULL;
}

static uint32_t order_of_inputs(struct cell__import *im, const struct cell__node *node)
{
    uint32_t order = 0;
    for (uint32_t i = 0; i < node->n_inputs && order == 0; i++) {
        const struct cell__value *in = tensor_input(im, node, i);
        order = in == NULL ? 0 : in->order;
    }
    return order;
}

/* It has looked at its inputs itself. */
static bool looks_itself(const struct cell__node *node)
{
    return node->op->infer == cell__infer_gather && !cell__has_input(node, IN_INDICES);
}

/* Whether all its rows are alike, such as zeros that a state begins with: they are in any order. */
static bool is_alike(struct cell__import *im, const struct cell__value *value)
{
    const struct cell__node *made = value->node == CELL__NONE ? NULL : &im->nodes[value->node];
    return made != NULL && (made->op->infer == cell__infer_constant_of_shape ||
                            (made->op->infer == cell__infer_expand &&
                             cell__input(im, made, 0)->kind == CELL__CONST));
}

enum base_status cell__infer_sorted(struct cell__import *im, struct cell__node *node)
{
    const uint32_t order = order_of_inputs(im, node);
    if (order == 0 || looks_itself(node)) {
        return BASE_OK;
    }
    const uint32_t atom = im->orders[order - 1];
    if (node->scan != CELL__NONE || node->op->infer == cell__infer_scan ||
        node->op->infer == cell__infer_loop) {
        return cell__refuse(im, "of rows that are sorted, in a cell's body");
    }
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const struct cell__value *in = tensor_input(im, node, i);
        if (in != NULL && in->order != order && cell__shape_has_atom(im, &in->shape, atom) &&
            !is_alike(im, in)) {
            return cell__refuse(im, "of rows that are sorted beside rows that are not");
        }
    }
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        struct cell__value *out = cell__has_output(node, i) ? cell__output(im, node, i) : NULL;
        if (out != NULL && (out->kind == CELL__ROWS || out->kind == CELL__LIST) &&
            cell__shape_has_atom(im, &out->shape, atom)) {
            out->order = order;
        }
    }
    return BASE_OK;
}
