/* Windows along the steps of a sequence, as convolutions and pools read them: each step reads
 * `taps` steps around it, zeros beyond the ends. */
#include "cells/import/ops.h"
#include "cells/import/rows.h"

/* Attribute of one integer for the only axis. */
static enum base_status read_only_int(struct cell__import *im, const struct cell__node *node,
                                      const char *name, int64_t otherwise, int64_t *out)
{
    struct cell__list list;
    BASE_TRY(cell__attr_ints(im, node, name, &list));
    *out = list.n == 0 ? otherwise : list.at[0];
    return list.n <= 1 ? BASE_OK : cell__invalid(im, "%s of %u axes", name, list.n);
}

/* Steps of zeros before and behind. */
static enum base_status read_pads(struct cell__import *im, const struct cell__node *node,
                                  struct cell__window *window)
{
    const Onnx__AttributeProto *how = cell__attr(node, "auto_pad");
    const int64_t reach = window->extent - 1;
    struct cell__list list;
    BASE_TRY(cell__attr_ints(im, node, "pads", &list));
    if (list.n != 0 && list.n != 2) {
        return cell__invalid(im, "pads of %u numbers", list.n);
    }
    window->before = list.n == 2 ? list.at[0] : 0;
    window->behind = list.n == 2 ? list.at[1] : 0;
    if (how != NULL && cell__is_text(how->s, "same_upper")) {
        window->before = reach / 2;
        window->behind = reach - window->before;
    } else if (how != NULL && cell__is_text(how->s, "same_lower")) {
        window->behind = reach / 2;
        window->before = reach - window->behind;
    } else if (how != NULL && !cell__is_text(how->s, "notset") && !cell__is_text(how->s, "valid")) {
        return cell__invalid(im, "auto_pad");
    }
    if (window->before < 0 || window->behind < 0 || window->before + window->behind != reach) {
        return cell__refuse(im,
                            "over a window of %lld steps with %lld and %lld of padding, so that "
                            "there are others behind it than before",
                            (long long)window->extent, (long long)window->before,
                            (long long)window->behind);
    }
    return BASE_OK;
}

enum base_status cell__read_window(struct cell__import *im, const struct cell__node *node,
                                   int64_t taps, struct cell__window *window)
{
    int64_t stride = 1;
    *window = (struct cell__window){.taps = taps};
    BASE_TRY(read_only_int(im, node, "strides", 1, &stride));
    BASE_TRY(read_only_int(im, node, "dilations", 1, &window->dilation));
    BASE_TRY(read_only_int(im, node, "kernel_shape", taps, &window->taps));
    if ((taps > 0 && window->taps != taps) || window->taps < 1 || window->dilation < 1 ||
        window->dilation > CELL_WINDOW_MAX || window->taps > CELL_WINDOW_MAX ||
        (window->taps - 1) * window->dilation >= CELL_WINDOW_MAX) {
        return cell__refuse(im, "a kernel of more than %u steps", CELL_WINDOW_MAX);
    }
    window->extent = (window->taps - 1) * window->dilation + 1;
    if (stride != 1) {
        return cell__refuse(im, "a stride of %lld", (long long)stride);
    }
    return read_pads(im, node, window);
}

enum base_status cell__check_window(struct cell__import *im, const struct cell__node *node)
{
    const struct cell__value *x = cell__input(im, node, 0);
    const uint32_t times = cell__axis_times(im, &x->shape.axes[2]);
    const struct cell__row *row = &im->rows[x->row];
    if (times == 0 || row->times != times || im->scan != CELL__NONE || im->feeds_back ||
        (int64_t)row->value.width != cell__axis_size(im, &x->shape.axes[1])) {
        return cell__refuse(im, "over an axis that is not the time of a recurrent node");
    }
    if (im->sequences[cell__only_sequence(times)].uses_lengths) {
        return cell__refuse(im, "beside sequence_lens, where ONNX would read what stands behind a "
                                "shorter sequence");
    }
    return BASE_OK;
}

int64_t cell__window_at(const struct cell__window *window, uint32_t tap)
{
    return (int64_t)tap * window->dilation - window->before;
}

enum base_status cell__window_row(struct cell__import *im, const struct cell__window *window,
                                  uint32_t row, uint32_t *out)
{
    uint32_t taps[CELL_WINDOW_MAX];
    if (window->dilation == 1) {
        return cell__row_window(im, row, (int32_t)-window->before, (uint32_t)window->taps, out);
    }
    for (uint32_t k = 0; k < window->taps; k++) {
        BASE_TRY(cell__window_tap(im, window, row, k, &taps[k]));
    }
    return cell__row_concat(im, taps, (uint32_t)window->taps, out);
}

/* Taps beside each other are parts of one input of the stage, of which there may be few. */
enum base_status cell__window_tap(struct cell__import *im, const struct cell__window *window,
                                  uint32_t row, uint32_t tap, uint32_t *out)
{
    const uint32_t width = im->rows[row].value.width;
    if (window->dilation != 1) {
        return cell__row_window(im, row, (int32_t)cell__window_at(window, tap), 1, out);
    }
    BASE_TRY(cell__row_window(im, row, (int32_t)-window->before, (uint32_t)window->taps, out));
    return cell__row_slice(im, *out, tap * width, width, out);
}
