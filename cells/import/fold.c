/* Layout folding: transposes, slices, gathers and concatenations of constants are one strided copy
 * each, in which symbols travel like data. The arena's budget bounds what a file can make us
 * compute: every result is paid for in memory. */
#include "cells/import/fold.h"

#include "base/assert.h"
#include "base/checked.h"

#include <string.h>

struct cell__view cell__view_of(const struct cell__tensor *tensor)
{
    struct cell__view view = {.rank = tensor->rank};
    int64_t stride = 1;
    for (uint32_t k = tensor->rank; k-- > 0;) {
        view.dims[k] = tensor->dims[k];
        view.strides[k] = stride;
        stride *= tensor->dims[k];
    }
    return view;
}

/* One element of `in` to place `to` of data or syms. */
static void copy_element(const struct cell__tensor *in, size_t from, char *data,
                         struct cell__sym *syms, size_t to)
{
    size_t bytes = cell__dtype_bytes(in->dtype);
    if (syms != NULL) {
        syms[to] = cell__tensor_sym(in, from);
    } else {
        memcpy(data + to * bytes, (const char *)in->data + from * bytes, bytes);
    }
}

/* Moves place to the next element in row-major order and *at with it. */
static void view_step(const struct cell__view *view, int64_t *place, int64_t *at)
{
    for (uint32_t k = view->rank; k-- > 0;) {
        *at += view->strides[k];
        if (++place[k] < view->dims[k]) {
            return;
        }
        *at -= place[k] * view->strides[k];
        place[k] = 0;
    }
}

enum base_status cell__fold_view(struct cell__import *im, const struct cell__tensor *in,
                                 const struct cell__view *view, struct cell__tensor *out)
{
    void *data = NULL;
    struct cell__sym *syms = NULL;
    *out = (struct cell__tensor){.dtype = in->dtype};
    BASE_TRY(cell__tensor_shape(im, out, view->rank, view->dims));
    BASE_TRY(cell__tensor_alloc(im, out, in->syms != NULL, &data, &syms));
    int64_t place[CELL_RANK_MAX] = {0};
    int64_t at = view->start;
    for (size_t i = 0; i < out->count; i++) {
        base_debug_assert(at >= 0 && (size_t)at < in->count);
        copy_element(in, (size_t)at, data, syms, i);
        view_step(view, place, &at);
    }
    return cell__tensor_settle(im, out);
}

enum base_status cell__fold_reshape(struct cell__import *im, const struct cell__tensor *in,
                                    uint32_t rank, const int64_t *dims, struct cell__tensor *out)
{
    *out = *in;
    BASE_TRY(cell__tensor_shape(im, out, rank, dims));
    if (out->count != in->count) {
        return cell__invalid(im, "%zu elements reshaped to %zu", in->count, out->count);
    }
    return BASE_OK;
}

/* Checks that the parts fit, and sets out's dtype and shape. */
static enum base_status concat_shape(struct cell__import *im, const struct cell__tensor *const *in,
                                     uint32_t n, uint32_t axis, struct cell__tensor *out)
{
    int64_t dims[CELL_RANK_MAX];
    memcpy(dims, in[0]->dims, sizeof(dims));
    for (uint32_t i = 1; i < n; i++) {
        bool fits = in[i]->rank == in[0]->rank && in[i]->dtype == in[0]->dtype;
        for (uint32_t k = 0; fits && k < in[0]->rank; k++) {
            fits = k == axis || in[i]->dims[k] == dims[k];
        }
        if (!fits || !base_i64_add(dims[axis], in[i]->dims[axis], &dims[axis])) {
            return cell__invalid(im, "input %u does not fit input 0", i);
        }
    }
    out->dtype = in[0]->dtype;
    return cell__tensor_shape(im, out, in[0]->rank, dims);
}

enum base_status cell__fold_concat(struct cell__import *im, const struct cell__tensor *const *in,
                                   uint32_t n, uint32_t axis, struct cell__tensor *out)
{
    bool with_syms = false;
    size_t inner = 1;
    void *data = NULL;
    struct cell__sym *syms = NULL;
    *out = (struct cell__tensor){.rank = 0};
    BASE_TRY(concat_shape(im, in, n, axis, out));
    for (uint32_t i = 0; i < n; i++) {
        with_syms = with_syms || in[i]->syms != NULL;
    }
    for (uint32_t k = axis + 1; k < out->rank; k++) {
        inner *= (size_t)out->dims[k];
    }
    BASE_TRY(cell__tensor_alloc(im, out, with_syms, &data, &syms));
    size_t out_block = (size_t)out->dims[axis] * inner;
    size_t before = 0;
    for (uint32_t i = 0; i < n; i++) {
        size_t block = (size_t)in[i]->dims[axis] * inner;
        for (size_t e = 0; e < in[i]->count; e++) {
            copy_element(in[i], e, data, syms, e / block * out_block + before + e % block);
        }
        before += block;
    }
    return cell__tensor_settle(im, out);
}

enum base_status cell__fold_gather(struct cell__import *im, const struct cell__tensor *data,
                                   const struct cell__tensor *indices, uint32_t axis,
                                   struct cell__tensor *out)
{
    struct cell__view view = cell__view_of(data);
    uint32_t rank = data->rank - 1 + indices->rank;
    if (rank > CELL_RANK_MAX) {
        return cell__refuse(im, "a result of rank %u; at most %u", rank, CELL_RANK_MAX);
    }
    int64_t dims[CELL_RANK_MAX];
    memcpy(dims, data->dims, axis * sizeof(dims[0]));
    memcpy(&dims[axis], indices->dims, indices->rank * sizeof(dims[0]));
    memcpy(&dims[axis + indices->rank], &data->dims[axis + 1],
           (data->rank - axis - 1) * sizeof(dims[0]));
    *out = (struct cell__tensor){.dtype = data->dtype};
    BASE_TRY(cell__tensor_shape(im, out, rank, dims));
    void *to = NULL;
    struct cell__sym *syms = NULL;
    BASE_TRY(cell__tensor_alloc(im, out, data->syms != NULL, &to, &syms));
    size_t inner = (size_t)view.strides[axis];
    size_t extent = (size_t)data->dims[axis];
    for (size_t i = 0; i < out->count; i++) {
        struct cell__sym index = cell__tensor_sym(indices, i / inner % indices->count);
        index.add += index.add < 0 ? (int64_t)extent : 0;
        if (!cell__sym_is_number(&index) || index.add < 0 || (size_t)index.add >= extent) {
            return cell__invalid(im, "an index outside of the %zu of its axis", extent);
        }
        size_t outer = i / inner / indices->count;
        copy_element(data, (outer * extent + (size_t)index.add) * inner + i % inner, to, syms, i);
    }
    return cell__tensor_settle(im, out);
}

/* ---- Broadcasting ------------------------------------------------------------------------- */

enum base_status cell__broadcast(struct cell__import *im, const struct cell__view *a,
                                 const struct cell__view *b, uint32_t *rank, int64_t *dims)
{
    *rank = a->rank > b->rank ? a->rank : b->rank;
    for (uint32_t behind = 1; behind <= *rank; behind++) {
        int64_t one = behind <= a->rank ? a->dims[a->rank - behind] : 1;
        int64_t two = behind <= b->rank ? b->dims[b->rank - behind] : 1;
        if (one != two && one != 1 && two != 1) {
            return cell__invalid(im, "dimensions %lld and %lld do not fit", (long long)one,
                                 (long long)two);
        }
        dims[*rank - behind] = one == 1 ? two : one;
    }
    return BASE_OK;
}

struct cell__view cell__view_broadcast(const struct cell__view *view, uint32_t rank,
                                       const int64_t *dims)
{
    struct cell__view out = {.rank = rank, .start = view->start};
    base_assert(rank >= view->rank);
    for (uint32_t k = 0; k < rank; k++) {
        out.dims[k] = dims[k];
        bool is_there = k + view->rank >= rank;
        uint32_t from = is_there ? k + view->rank - rank : 0;
        out.strides[k] = is_there && view->dims[from] != 1 ? view->strides[from] : 0;
    }
    return out;
}
