/* See scatter.h. */
#include "cells/import/scatter.h"

#include "cells/import/ops.h"

#include <stdbool.h>
#include <string.h>

/* What is assigned to: of the first n axes the elements from first on, of the others all. */
struct box {
    uint32_t n;
    int64_t first[CELL_RANK_MAX];
    int64_t size[CELL_RANK_MAX];
};

/* Index i of the tensor, [n]; false: not known before a request comes, or beyond the axes. */
static bool read_index(const struct cell__tensor *indices, const struct cell__shape *shape,
                       struct cell__import *im, size_t i, int64_t *out)
{
    const size_t n = (size_t)indices->dims[indices->rank - 1];
    bool is_known = true;
    for (size_t k = 0; k < n; k++) {
        const struct cell__sym at = cell__tensor_sym(indices, i * n + k);
        const int64_t size = cell__axis_size(im, &shape->axes[k]);
        out[k] = at.add + (at.add < 0 ? size : 0);
        is_known = is_known && cell__sym_is_number(&at) && size > 0 && out[k] >= 0 && out[k] < size;
    }
    return is_known;
}

/* The box that goes from the first index to the last; the others must be all between, in order. */
static enum base_status read_box(struct cell__writer *w, const struct cell__tensor *indices,
                                 const struct cell__shape *shape, struct box *box)
{
    static const char unknown[] = "indices that are not known, or beyond the tensor";
    int64_t at[CELL_RANK_MAX] = {0};
    int64_t wanted[CELL_RANK_MAX];
    *box = (struct box){.n = indices->rank > 0 ? (uint32_t)indices->dims[indices->rank - 1] : 0};
    if (box->n == 0 || box->n > shape->rank || indices->count == 0 || indices->dtype == CELL__F32) {
        return cell__unwritten(w, unknown);
    }
    const size_t n = indices->count / box->n;
    if (!read_index(indices, shape, w->im, 0, box->first) ||
        !read_index(indices, shape, w->im, n - 1, at)) {
        return cell__unwritten(w, unknown);
    }
    for (uint32_t k = 0; k < box->n; k++) {
        box->size[k] = at[k] - box->first[k] + 1;
    }
    memcpy(wanted, box->first, sizeof(wanted));
    for (size_t i = 0; i < n; i++) {
        if (!read_index(indices, shape, w->im, i, at)) {
            return cell__unwritten(w, unknown);
        }
        if (memcmp(at, wanted, box->n * sizeof(*at)) != 0) {
            return cell__unwritten(w, "indices that are no box in its order");
        }
        for (uint32_t k = box->n; k-- > 0 && ++wanted[k] == box->first[k] + box->size[k];) {
            wanted[k] = box->first[k];
        }
    }
    return memcmp(wanted, box->first, box->n * sizeof(*wanted)) == 0
               ? BASE_OK
               : cell__unwritten(w, "indices that are no box in its order");
}

/* The axis of which only a part is assigned to; where all are whole the first. */
static enum base_status find_axis(struct cell__writer *w, const struct box *box,
                                  const struct cell__shape *shape, uint32_t *out)
{
    uint32_t n = 0;
    *out = 0;
    for (uint32_t k = 0; k < box->n; k++) {
        if (box->size[k] != cell__axis_size(w->im, &shape->axes[k])) {
            *out = k;
            n++;
        }
    }
    return n <= 1 ? BASE_OK : cell__unwritten(w, "a part of more than one axis");
}

/* The updates as the box is, where the indices are listed in fewer or more axes. */
static enum base_status shape_updates(struct cell__writer *w, const struct cell__tensor *indices,
                                      const struct box *box, const struct cell__shape *shape,
                                      const char **out)
{
    int64_t dims[CELL_RANK_MAX];
    bool is_same = indices->rank == box->n + 1;
    const char *sizes = NULL;
    *out = w->proto->input[2];
    for (uint32_t k = 0; k < shape->rank; k++) {
        dims[k] = k < box->n ? box->size[k] : cell__axis_size(w->im, &shape->axes[k]);
        is_same = is_same && (k >= box->n || dims[k] == indices->dims[k]);
    }
    for (uint32_t k = 0; k < shape->rank && !is_same; k++) {
        if (dims[k] < 0) {
            return cell__unwritten(w, "updates of another shape than what they replace");
        }
    }
    if (is_same) {
        return BASE_OK;
    }
    BASE_TRY(cell__write_ints(w, dims, shape->rank, &sizes));
    return cell__write(w, "Reshape", (const char *[]){*out, sizes, NULL}, out);
}

/* What is left of the tensor from `from` up to `to` on the axis. */
static enum base_status write_slice(struct cell__writer *w, int64_t axis, int64_t from, int64_t to,
                                    const char **out)
{
    const char *data = w->proto->input[0];
    const char *numbers[3];
    BASE_TRY(cell__write_ints(w, &from, 1, &numbers[0]));
    BASE_TRY(cell__write_ints(w, &to, 1, &numbers[1]));
    BASE_TRY(cell__write_ints(w, &axis, 1, &numbers[2]));
    return cell__write(w, "Slice", (const char *[]){data, numbers[0], numbers[1], numbers[2], NULL},
                       out);
}

#define LIST_MAX 64

/* Elements of a list that are known before a request comes: each by its number, of the list and the
 * updates behind each other, the last update of several. */
static enum base_status write_list(struct cell__writer *w, const struct cell__tensor *list,
                                   const struct cell__tensor *indices)
{
    const char *both[] = {w->proto->input[0], w->proto->input[2], NULL};
    const struct cell__value *updates = NULL;
    int64_t at[LIST_MAX];
    const char *numbers = NULL;
    BASE_TRY(cell__writer_value(w, w->proto->input[2], &updates));
    if (list->count > LIST_MAX || indices->count > LIST_MAX || indices->rank != 2 ||
        indices->dims[1] != 1 || updates->kind != CELL__CONST || updates->tensor.rank != 1 ||
        updates->tensor.count != indices->count || updates->dtype != list->dtype) {
        return cell__unwritten(w, "of a list, by other numbers and updates than one for each");
    }
    for (size_t i = 0; i < list->count; i++) {
        at[i] = (int64_t)i;
    }
    for (size_t i = 0; i < indices->count; i++) {
        const struct cell__sym sym = cell__tensor_sym(indices, i);
        const int64_t place = sym.add + (sym.add < 0 ? (int64_t)list->count : 0);
        if (!cell__sym_is_number(&sym) || place < 0 || place >= (int64_t)list->count) {
            return cell__unwritten(w, "indices that are not known, or beyond the list");
        }
        at[place] = (int64_t)(list->count + i);
    }
    BASE_TRY(cell__write_concat(w, both, 0, &both[0]));
    BASE_TRY(cell__write_ints(w, at, list->count, &numbers));
    return cell__write(w, "Gather", (const char *[]){both[0], numbers, NULL}, &w->out);
}

enum base_status cell__write_scatter(struct cell__writer *w)
{
    const struct cell__value *data = NULL;
    const struct cell__value *indices = NULL;
    const struct cell__node node = {.proto = w->proto};
    const Onnx__AttributeProto *reduction = cell__attr(&node, "reduction");
    struct cell__shape shape;
    struct box box;
    uint32_t axis = 0;
    const char *parts[4] = {NULL};
    uint32_t n = 0;
    Onnx__NodeProto *joined = NULL;
    if (reduction != NULL && (reduction->s.len != 4 || memcmp(reduction->s.data, "none", 4) != 0)) {
        return cell__unwritten(w, "with a reduction");
    }
    BASE_TRY(cell__writer_value(w, w->proto->input[0], &data));
    BASE_TRY(cell__writer_value(w, w->proto->input[1], &indices));
    if (indices->kind != CELL__CONST || cell__shape_of(w->im, data, &shape) != BASE_OK) {
        return cell__unwritten(w, "indices that are no constant, or of no tensor");
    }
    if (data->kind == CELL__CONST && shape.rank == 1 && indices->dtype != CELL__F32) {
        return write_list(w, &data->tensor, &indices->tensor);
    }
    BASE_TRY(read_box(w, &indices->tensor, &shape, &box));
    BASE_TRY(find_axis(w, &box, &shape, &axis));
    const int64_t end = box.first[axis] + box.size[axis];
    if (box.first[axis] > 0) {
        BASE_TRY(write_slice(w, axis, 0, box.first[axis], &parts[n++]));
    }
    BASE_TRY(shape_updates(w, &indices->tensor, &box, &shape, &parts[n++]));
    if (end < cell__axis_size(w->im, &shape.axes[axis])) {
        BASE_TRY(write_slice(w, axis, end, INT64_MAX, &parts[n++]));
    }
    if (n == 1) {
        return cell__write(w, "Identity", parts, &w->out);
    }
    BASE_TRY(cell__build_node(w->builder, "Concat", parts, 1, &joined));
    w->out = joined->output[0];
    return cell__build_set_int(w->builder, joined, "axis", axis);
}
