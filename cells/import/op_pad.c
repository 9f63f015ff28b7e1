/* Pad. Along the steps of a sequence, with zeros: a copy that begins before the first step; what a
 * convolution reads of it, it reads of the sequence itself (cell__row_window()). With what its
 * edges say, or the other end: these steps, the sequence and those behind it, joined. Along another
 * axis: a row with zeros in it, or with what its edges say. Less than no zeros leave elements out:
 * (1, -1) is each step's predecessor. */
#include "cells/import/fold.h"
#include "cells/import/ops.h"
#include "cells/import/rows.h"

#include <string.h>

enum { IN_X, IN_PADS, IN_VALUE, IN_AXES };

/* Opsets in which pads and the value, and in which axes became inputs. */
#define INPUTS_OPSET 11
#define AXES_OPSET   18

struct padding {
    enum cell__edges edges;
    struct {
        int64_t before, behind;
    } axes[CELL_RANK_MAX];
};

/* What it is padded with; a constant must be 0. */
static enum base_status read_edges(struct cell__import *im, const struct cell__node *node,
                                   enum cell__edges *out)
{
    const Onnx__AttributeProto *mode = cell__attr(node, "mode");
    float value = 0.0f;
    *out = CELL__EDGES_ZERO;
    static const struct {
        const char *mode;
        enum cell__edges edges;
    } modes[] = {{"edge", CELL__EDGES_REPEATED},
                 {"reflect", CELL__EDGES_REFLECTED},
                 {"wrap", CELL__EDGES_WRAPPED}};
    if (mode != NULL && !cell__is_text(mode->s, "constant")) {
        for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
            if (cell__is_text(mode->s, modes[i].mode)) {
                *out = modes[i].edges;
                return BASE_OK;
            }
        }
        return cell__refuse(im, "of another mode than constant, edge, reflect and wrap");
    }
    BASE_TRY(cell__attr_float(im, node, "value", 0.0f, &value));
    if (im->opset >= INPUTS_OPSET && cell__has_input(node, IN_VALUE)) {
        const struct cell__value *given = cell__input(im, node, IN_VALUE);
        if (given->kind != CELL__CONST || given->dtype != CELL__F32 || given->tensor.count != 1) {
            return cell__refuse(im, "a value that is no constant of one float");
        }
        memcpy(&value, given->tensor.data, sizeof(value));
    }
    return value == 0.0f ? BASE_OK : cell__refuse(im, "with another value than 0");
}

/* The padding of axis k, number i of those that are listed. */
static enum base_status set_axis(struct cell__import *im, const struct cell__list *pads, uint32_t i,
                                 uint32_t k, struct padding *out)
{
    const int64_t before = pads->at[i];
    const int64_t behind = pads->at[i + pads->n / 2];
    const int64_t most = CELL_WINDOW_MAX;
    const int64_t least = out->edges == CELL__EDGES_ZERO ? -most : 0;
    if (before < least || behind < least || before > most || behind > most) {
        return cell__refuse(im, "padding of %lld and %lld; %lld to %lld each", (long long)before,
                            (long long)behind, (long long)least, (long long)most);
    }
    out->axes[k].before = before;
    out->axes[k].behind = behind;
    return BASE_OK;
}

static enum base_status read_padding(struct cell__import *im, const struct cell__node *node,
                                     struct padding *out)
{
    const uint32_t rank = cell__input(im, node, IN_X)->shape.rank;
    struct cell__list axes = {.n = 0};
    struct cell__list pads;
    *out = (struct padding){.edges = CELL__EDGES_ZERO};
    BASE_TRY(read_edges(im, node, &out->edges));
    BASE_TRY(cell__ints_or_attr(im, node, IN_PADS, INPUTS_OPSET, "pads", &pads));
    if (im->opset >= AXES_OPSET && cell__has_input(node, IN_AXES)) {
        BASE_TRY(cell__tensor_ints(im, cell__input(im, node, IN_AXES), "axes", &axes));
    }
    if (pads.n != 2 * (axes.n > 0 ? axes.n : rank)) {
        return cell__invalid(im, "pads of %u numbers", pads.n);
    }
    for (uint32_t i = 0; i < pads.n / 2; i++) {
        uint32_t k = i;
        if (axes.n > 0) {
            BASE_TRY(cell__axis_index(im, axes.at[i], rank, &k));
        }
        BASE_TRY(set_axis(im, &pads, i, k, out));
    }
    return BASE_OK;
}

/* ---- Of a list of integers that shapes make ------------------------------------------------- */

/* n times the integer that stands behind a list's elements: 0 without one. */
static enum base_status fill(struct cell__import *im, const struct cell__node *node, int64_t n,
                             struct cell__tensor *out)
{
    const struct cell__value *list = cell__input(im, node, IN_X);
    const struct cell__value *value =
        cell__has_input(node, IN_VALUE) ? cell__input(im, node, IN_VALUE) : NULL;
    struct cell__sym with = cell__sym_number(0);
    void *data = NULL;
    struct cell__sym *syms = NULL;
    *out = (struct cell__tensor){.dtype = list->dtype};
    if (value != NULL &&
        (value->kind != CELL__CONST || value->dtype != list->dtype || value->tensor.count != 1)) {
        return cell__refuse(im, "a value that is no constant of one integer");
    }
    with = value == NULL ? with : cell__tensor_sym(&value->tensor, 0);
    BASE_TRY(cell__tensor_shape(im, out, 1, &n));
    BASE_TRY(cell__tensor_alloc(im, out, true, &data, &syms));
    for (int64_t i = 0; i < n; i++) {
        syms[i] = with;
    }
    return cell__tensor_settle(im, out);
}

/* Elements before and behind it, as MXNet makes a shape one of eight axes. */
static enum base_status fold_pad(struct cell__import *im, struct cell__node *node)
{
    const struct cell__tensor *list = &cell__input(im, node, IN_X)->tensor;
    const Onnx__AttributeProto *mode = cell__attr(node, "mode");
    struct cell__list pads;
    struct cell__tensor ends[2];
    struct cell__tensor out;
    if (im->opset < INPUTS_OPSET || list->rank != 1 || cell__has_input(node, IN_AXES) ||
        (mode != NULL && !cell__is_text(mode->s, "constant"))) {
        return cell__refuse(im, "of a constant, but for a list of integers with one of them");
    }
    BASE_TRY(cell__ints_or_attr(im, node, IN_PADS, INPUTS_OPSET, "pads", &pads));
    if (pads.n != 2 || pads.at[0] < 0 || pads.at[1] < 0 || pads.at[0] > CELL_WINDOW_MAX ||
        pads.at[1] > CELL_WINDOW_MAX) {
        return cell__refuse(im, "of a list, with other numbers than two of at most %u",
                            CELL_WINDOW_MAX);
    }
    BASE_TRY(fill(im, node, pads.at[0], &ends[0]));
    BASE_TRY(fill(im, node, pads.at[1], &ends[1]));
    BASE_TRY(cell__fold_concat(im, (const struct cell__tensor *const[]){&ends[0], list, &ends[1]},
                               3, 0, &out));
    cell__set_const(im, node, 0, &out);
    return BASE_OK;
}

/* ---- Of rows --------------------------------------------------------------------------------- */

enum base_status cell__infer_pad(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *x = cell__input(im, node, IN_X);
    struct padding padding;
    if (x->kind == CELL__CONST && (x->dtype == CELL__I64 || x->dtype == CELL__I32)) {
        return fold_pad(im, node);
    }
    if (x->kind != CELL__ROWS || x->dtype != CELL__F32) {
        return cell__refuse(im, "of a constant, or of type %s", cell__dtype_name(x->dtype));
    }
    BASE_TRY(read_padding(im, node, &padding));
    struct cell__shape out = x->shape;
    const bool goes_round = padding.edges == CELL__EDGES_WRAPPED;
    for (uint32_t k = 0; k < out.rank; k++) {
        const struct cell__axis steps = out.axes[k];
        const int64_t more = padding.axes[k].before + padding.axes[k].behind;
        const int64_t size = cell__axis_size(im, &steps);
        if (padding.edges == CELL__EDGES_REFLECTED && size >= 0 &&
            (padding.axes[k].before >= size || padding.axes[k].behind >= size)) {
            return cell__invalid(im, "reflects %lld and %lld of %lld elements",
                                 (long long)padding.axes[k].before,
                                 (long long)padding.axes[k].behind, (long long)size);
        }
        if (goes_round && size >= 0 &&
            (padding.axes[k].before > size || padding.axes[k].behind > size)) {
            return cell__invalid(im, "goes round %lld and %lld of %lld elements",
                                 (long long)padding.axes[k].before,
                                 (long long)padding.axes[k].behind, (long long)size);
        }
        BASE_TRY(cell__axis_strided(im, &steps, more - 1, 1, &out.axes[k]));
    }
    cell__set_rows(im, node, 0, CELL__F32, &out);
    return BASE_OK;
}

/* So many rows less at either end. */
static enum base_status cut_plane(struct cell__import *im, int64_t before, int64_t behind,
                                  struct cell__plane *plane)
{
    const int64_t height = (int64_t)plane->height - before - behind;
    if (height < 1) {
        return cell__refuse(im, "leaves nothing of %u elements", plane->height);
    }
    plane->height = (uint32_t)height;
    return cell__row_slice(im, plane->row, (uint32_t)before * plane->width,
                           plane->height * plane->width, &plane->row);
}

static int64_t at_least_none(int64_t number)
{
    return number > 0 ? number : 0;
}

/* Rows of zeros before and behind those of axis k, which is brought out for it. */
static enum base_status pad_features(struct cell__import *im, const struct cell__shape *shape,
                                     uint32_t k, const struct padding *padding, uint32_t *row)
{
    struct cell__place place;
    struct cell__plane plane = {.row = *row};
    BASE_TRY(cell__axis_in_row(im, shape, k, "pads", &place));
    const uint32_t there[3] = {1, place.outer, place.size};
    BASE_TRY(cell__row_transpose(im, *row, there, &plane.row));
    plane.height = place.size;
    plane.width = place.outer * place.inner;
    const int64_t before = padding->axes[k].before;
    const int64_t behind = padding->axes[k].behind;
    BASE_TRY(cut_plane(im, at_least_none(-before), at_least_none(-behind), &plane));
    BASE_TRY(
        cell__plane_pad(im, at_least_none(before), at_least_none(behind), padding->edges, &plane));
    const uint32_t back[3] = {1, plane.height, place.outer};
    return cell__row_transpose(im, plane.row, back, row);
}

static enum base_status pad_steps(struct cell__import *im, const struct cell__axis *axis,
                                  const struct cell__axis *left, int64_t before, int64_t behind,
                                  uint32_t *row)
{
    struct cell__steps steps = {.count = 1,
                                .stride = 1,
                                .behind = (uint32_t)at_least_none(behind),
                                .offset = (int32_t)-before,
                                .is_cut = before < 0 || behind < 0};
    return cell__row_copy_steps(im, axis, left, &steps, row);
}

/* Axis by axis; the shape is that of the row. */
enum base_status cell__lower_pad(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *x = cell__input(im, node, IN_X);
    const struct cell__shape *left = &cell__output(im, node, 0)->shape;
    struct cell__shape shape = x->shape;
    struct padding padding;
    uint32_t row = x->row;
    BASE_TRY(read_padding(im, node, &padding));
    for (uint32_t k = 0; k < shape.rank; k++) {
        const int64_t before = padding.axes[k].before;
        const int64_t behind = padding.axes[k].behind;
        const bool is_known = cell__axis_size(im, &shape.axes[k]) >= 0;
        if (before == 0 && behind == 0) {
            continue;
        }
        if (is_known && !cell__axis_has(im, &shape.axes[k], CELL__ROLE_TIME)) {
            BASE_TRY(pad_features(im, &shape, k, &padding, &row));
        } else if (padding.edges != CELL__EDGES_ZERO) {
            const struct cell__around around = {(uint32_t)before, (uint32_t)behind, padding.edges};
            BASE_TRY(cell__pad_steps(im, &shape.axes[k], &around, &left->axes[k], &row));
        } else {
            BASE_TRY(pad_steps(im, &shape.axes[k], &left->axes[k], before, behind, &row));
        }
        shape.axes[k] = left->axes[k];
    }
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}
