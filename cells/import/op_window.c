/* Windows along the steps of a sequence, as convolutions and pools read them: each step reads
 * `taps` steps around it, zeros beyond the ends. With a stride, or other padding than keeps their
 * number, what they leave is a sequence of another length (graph.h, struct cell__atom). Of a
 * picture one of the two axes is time, and the other lies within a row (op_plane.c). */
#include "cells/import/ops.h"
#include "cells/import/rows.h"

#include "base/assert.h"

/* One of the axes behind the channels. */
struct spatial {
    uint32_t axis, n; /* its number among them, and how many there are */
    int64_t size;     /* -1: a request chooses */
};

/* The axis's integer of an attribute that has one for each of them. */
static enum base_status read_int(struct cell__import *im, const struct cell__node *node,
                                 const struct spatial *spatial, const char *name, int64_t *out)
{
    struct cell__list list;
    BASE_TRY(cell__attr_ints(im, node, name, &list));
    if (list.n != 0 && list.n != spatial->n) {
        return cell__invalid(im, "%s of %u axes", name, list.n);
    }
    *out = list.n == 0 ? *out : list.at[spatial->axis];
    return BASE_OK;
}

/* Padding that leaves a stride's part of the steps, rounded up; with a stride of more than 1 it
 * depends on how many there are. */
static enum base_status pad_same(struct cell__import *im, const struct spatial *spatial,
                                 bool is_upper, struct cell__window *window)
{
    int64_t reach = window->extent - 1;
    if (window->stride != 1 && spatial->size < 0) {
        return cell__refuse(im, "auto_pad with a stride of %lld", (long long)window->stride);
    }
    if (window->stride != 1) {
        const int64_t left = (spatial->size + window->stride - 1) / window->stride;
        reach += (left - 1) * window->stride + 1 - spatial->size;
        reach = reach < 0 ? 0 : reach;
    }
    window->before = is_upper ? reach / 2 : reach - reach / 2;
    window->behind = reach - window->before;
    return BASE_OK;
}

/* What the attribute auto_pad says. */
enum how { AS_SAID, NONE, SAME_UPPER, SAME_LOWER };

static enum base_status read_how(struct cell__import *im, const struct cell__node *node,
                                 enum how *out)
{
    static const char *const names[] = {"notset", "valid", "same_upper", "same_lower"};
    const Onnx__AttributeProto *how = cell__attr(node, "auto_pad");
    *out = AS_SAID;
    for (uint32_t i = 0; how != NULL && i < sizeof(names) / sizeof(names[0]); i++) {
        if (cell__is_text(how->s, names[i])) {
            *out = (enum how)i;
            return BASE_OK;
        }
    }
    return how == NULL ? BASE_OK : cell__invalid(im, "auto_pad");
}

/* As the attribute pads says. */
static enum base_status read_said(struct cell__import *im, const struct cell__node *node,
                                  const struct spatial *spatial, struct cell__window *window)
{
    struct cell__list list;
    BASE_TRY(cell__attr_ints(im, node, "pads", &list));
    if (list.n != 0 && list.n != 2 * spatial->n) {
        return cell__invalid(im, "pads of %u numbers", list.n);
    }
    window->before = list.n > 0 ? list.at[spatial->axis] : 0;
    window->behind = list.n > 0 ? list.at[spatial->n + spatial->axis] : 0;
    if (window->before < 0 || window->behind < 0 || window->before > CELL_WINDOW_MAX ||
        window->behind > CELL_WINDOW_MAX) {
        return cell__refuse(im, "padding of %lld and %lld steps; 0 to %u each",
                            (long long)window->before, (long long)window->behind, CELL_WINDOW_MAX);
    }
    return BASE_OK;
}

/* Steps of zeros before and behind. */
static enum base_status read_pads(struct cell__import *im, const struct cell__node *node,
                                  const struct spatial *spatial, struct cell__window *window)
{
    enum how how = AS_SAID;
    BASE_TRY(read_said(im, node, spatial, window));
    BASE_TRY(read_how(im, node, &how));
    if (how == NONE) {
        window->before = window->behind = 0;
    }
    return how < SAME_UPPER ? BASE_OK : pad_same(im, spatial, how == SAME_UPPER, window);
}

/* With ceil_mode a last window counts that does not fit, unless it begins behind the steps. */
static enum base_status read_rounding(struct cell__import *im, const struct cell__node *node,
                                      struct cell__window *window)
{
    int64_t ceil_mode = 0;
    BASE_TRY(cell__attr_int(im, node, "ceil_mode", 0, &ceil_mode));
    if (ceil_mode != 0 && window->behind >= window->extent) {
        return cell__refuse(im, "ceil_mode with %lld steps of padding behind windows of %lld",
                            (long long)window->behind, (long long)window->extent);
    }
    window->rounds_up = ceil_mode != 0 && window->stride > 1;
    window->add = window->before + window->behind - window->extent;
    if (window->rounds_up) {
        window->add += window->stride - 1;
        window->add = window->add < window->before ? window->add : window->before - 1;
    }
    return BASE_OK;
}

static enum base_status read_kernel(struct cell__import *im, const struct cell__node *node,
                                    const struct spatial *spatial, int64_t taps,
                                    struct cell__window *window)
{
    *window = (struct cell__window){.taps = taps, .dilation = 1, .stride = 1};
    BASE_TRY(read_int(im, node, spatial, "strides", &window->stride));
    BASE_TRY(read_int(im, node, spatial, "dilations", &window->dilation));
    BASE_TRY(read_int(im, node, spatial, "kernel_shape", &window->taps));
    if ((taps > 0 && window->taps != taps) || window->taps < 1 || window->dilation < 1 ||
        window->dilation > CELL_WINDOW_MAX || window->taps > CELL_WINDOW_MAX ||
        (window->taps - 1) * window->dilation >= CELL_WINDOW_MAX) {
        return cell__refuse(im, "a kernel of more than %u steps", CELL_WINDOW_MAX);
    }
    if (window->stride < 1 || window->stride > CELL_WINDOW_MAX) {
        return cell__refuse(im, "a stride of %lld; 1 to %u", (long long)window->stride,
                            CELL_WINDOW_MAX);
    }
    window->extent = (window->taps - 1) * window->dilation + 1;
    return BASE_OK;
}

static enum base_status read_window(struct cell__import *im, const struct cell__node *node,
                                    const struct spatial *spatial, int64_t taps,
                                    struct cell__window *window)
{
    BASE_TRY(read_kernel(im, node, spatial, taps, window));
    BASE_TRY(read_pads(im, node, spatial, window));
    return read_rounding(im, node, window);
}

/* What is taken away of what a transposed convolution makes: as said, or as much as leaves a
 * stride's times the steps, or so many as output_shape says. */
static enum base_status read_taken(struct cell__import *im, const struct cell__node *node,
                                   const struct spatial *spatial, struct cell__window *window)
{
    enum how how = AS_SAID;
    int64_t wanted = -1;
    BASE_TRY(read_said(im, node, spatial, window));
    BASE_TRY(read_how(im, node, &how));
    BASE_TRY(read_int(im, node, spatial, "output_shape", &wanted));
    if (how == NONE) {
        window->before = window->behind = 0;
    }
    if (how < SAME_UPPER && wanted < 0) {
        return BASE_OK;
    }
    if (wanted >= 0 && spatial->size < 0) {
        return cell__refuse(im, "output_shape, where each request has other steps");
    }
    int64_t taken = window->extent + window->more - window->stride;
    taken += wanted < 0 ? 0 : spatial->size * window->stride - wanted;
    if (taken < 0 || taken > 2 * (int64_t)CELL_WINDOW_MAX) {
        return cell__refuse(im, "padding of %lld steps", (long long)taken);
    }
    window->before = how == SAME_UPPER ? taken / 2 : taken - taken / 2;
    window->behind = taken - window->before;
    return BASE_OK;
}

static enum base_status read_transposed(struct cell__import *im, const struct cell__node *node,
                                        const struct spatial *spatial, int64_t taps,
                                        struct cell__window *window)
{
    BASE_TRY(read_kernel(im, node, spatial, taps, window));
    BASE_TRY(read_int(im, node, spatial, "output_padding", &window->more));
    if (window->more < 0 || window->more > CELL_WINDOW_MAX) {
        return cell__refuse(im, "output_padding of %lld; 0 to %u", (long long)window->more,
                            CELL_WINDOW_MAX);
    }
    BASE_TRY(read_taken(im, node, spatial, window));
    window->add = window->before + window->behind - window->extent - window->more;
    return BASE_OK;
}

static enum base_status read_windows(struct cell__import *im, const struct cell__node *node,
                                     const int64_t *taps, bool is_transposed,
                                     struct cell__windows *windows)
{
    const struct cell__shape *shape = &cell__input(im, node, 0)->shape;
    base_assert(shape->rank >= 3 && shape->rank <= 5);
    *windows = (struct cell__windows){.n = shape->rank - 2};
    for (uint32_t i = 0; i < windows->n; i++) {
        const struct spatial spatial = {i, windows->n, cell__axis_size(im, &shape->axes[2 + i])};
        const int64_t own = taps == NULL ? 0 : taps[i];
        BASE_TRY(is_transposed ? read_transposed(im, node, &spatial, own, &windows->at[i])
                               : read_window(im, node, &spatial, own, &windows->at[i]));
    }
    return BASE_OK;
}

enum base_status cell__read_windows(struct cell__import *im, const struct cell__node *node,
                                    const int64_t *taps, struct cell__windows *windows)
{
    return read_windows(im, node, taps, false, windows);
}

enum base_status cell__read_transposed(struct cell__import *im, const struct cell__node *node,
                                       const int64_t *taps, struct cell__windows *windows)
{
    return read_windows(im, node, taps, true, windows);
}

enum base_status cell__infer_windows(struct cell__import *im, const struct cell__node *node,
                                     const struct cell__windows *windows, int64_t channels)
{
    struct cell__shape out = cell__input(im, node, 0)->shape;
    if (channels > 0) {
        BASE_TRY(cell__axis_new(im, channels, &out.axes[1]));
    }
    for (uint32_t i = 0; i < windows->n; i++) {
        struct cell__axis steps = out.axes[2 + i];
        const struct cell__window *window = &windows->at[i];
        if (!cell__window_is_step(window) && cell__axis_size(im, &steps) < 0) {
            BASE_TRY(cell__axis_join(im, &steps));
        }
        BASE_TRY(cell__axis_strided(im, &steps, window->add, window->stride, &out.axes[2 + i]));
    }
    cell__set_rows(im, node, 0, CELL__F32, &out);
    return BASE_OK;
}

/* Elements along an axis within a row. */
static enum base_status height_of(struct cell__import *im, const struct cell__axis *axis,
                                  uint32_t *out)
{
    const struct cell__shape only = {.rank = 1, .axes = {*axis}};
    if (cell__shape_has(im, &only, CELL__ROLE_BATCH) ||
        cell__shape_has(im, &only, CELL__ROLE_TIME)) {
        return cell__refuse(im, "over two axes that are both steps, or the batch");
    }
    return cell__shape_width(im, &only, out);
}

/* Products that a window of a stated axis is, one for each tap of each step that is left. */
static int64_t work_along(const struct cell__import *im, const struct cell__axis *left,
                          const struct cell__window *window)
{
    return window->taps * cell__axis_size(im, left);
}

/* The axis of the windows that is time, or where none is, one that the window leaves as it is, or
 * along which it is the least work. */
static uint32_t time_of(const struct cell__import *im, const struct cell__shape *shape,
                        const struct cell__shape *left, const struct cell__windows *windows)
{
    if (windows->n == 1) {
        return 0;
    }
    const bool is_none =
        cell__axis_times(im, &shape->axes[2]) == 0 && cell__axis_times(im, &shape->axes[3]) == 0;
    const bool is_second =
        !is_none ? cell__axis_times(im, &shape->axes[3]) != 0
        : cell__window_is_step(&windows->at[1]) || cell__window_is_step(&windows->at[0])
            ? !cell__window_is_step(&windows->at[0])
            : work_along(im, &left->axes[2], &windows->at[0]) >
                  work_along(im, &left->axes[3], &windows->at[1]);
    return is_second ? 1 : 0;
}

/* Steps that lie within the row. */
static enum base_status check_within(struct cell__import *im, const struct cell__axis *axis,
                                     const struct cell__axis *left, struct cell__windows *windows)
{
    const struct cell__window *window = &windows->at[windows->time];
    BASE_TRY(height_of(im, axis, &windows->within));
    BASE_TRY(height_of(im, left, &windows->within_left));
    windows->is_picture = cell__window_is_step(window) ||
                          windows->within_left > CELL__WITHIN_LEFT_MAX ||
                          work_along(im, left, window) > CELL__WITHIN_MAX;
    return BASE_OK;
}

/* The sequence that is left of the steps. */
static enum base_status check_time(struct cell__import *im, const struct cell__axis *axis,
                                   const struct cell__axis *left, struct cell__window *window)
{
    const uint32_t times = cell__axis_times(im, axis);
    const uint32_t times_left = cell__axis_times(im, left);
    if (times == 0 && cell__window_is_step(window)) {
        return BASE_OK; // of what has no steps
    }
    if (times == 0 || times_left == 0) {
        return cell__refuse(im, "over an axis that is not the time of a recurrent node");
    }
    if (im->sequences[cell__only_sequence(times)].uses_lengths) {
        return cell__refuse(im, "beside sequence_lens, where ONNX would read what stands behind a "
                                "shorter sequence");
    }
    window->sequence = cell__only_sequence(times_left);
    return BASE_OK;
}

/* Along an axis within the row alone, of rank 3: as of a picture whose steps are read one by one.
 */
static void stay_within(struct cell__windows *windows)
{
    windows->at[1] = windows->at[0];
    windows->at[0] =
        (struct cell__window){.taps = 1, .dilation = 1, .extent = 1, .stride = 1, .add = -1};
    windows->n = 2;
}

/* What is the same at all steps (a window repeated, to see how often each sample is added) has a
 * row at each of them where windows go along, since beyond the ends there are zeros. */
static enum base_status take_steps(struct cell__import *im, const struct cell__value *x,
                                   uint32_t axis, uint32_t *row)
{
    const uint32_t times = cell__axis_times(im, &x->shape.axes[axis]);
    if (im->rows[*row].times != 0 || times == 0 || cell__is_pair(times) || im->scan != CELL__NONE ||
        im->feeds_back) {
        return BASE_OK;
    }
    BASE_TRY(cell__row_of(im, x, &x->shape, false, row));
    return cell__row_at_steps(im, *row, cell__only_sequence(times), row);
}

/* Shapes of what the windows read and leave. */
struct shapes {
    struct cell__shape x, left;
};

/* The features of the batch's axis as an axis of their own, before the windows'. */
static void part_batch(const struct cell__import *im, struct cell__shape *shape)
{
    const struct cell__axis batch = shape->axes[0];
    base_assert(shape->rank == 3);
    shape->rank = 4;
    shape->axes[3] = shape->axes[2];
    shape->axes[2] = shape->axes[0] = (struct cell__axis){.n = 0};
    for (uint32_t i = 0; i < batch.n; i++) {
        const struct cell__atom *atom = &im->atoms[cell__atom_root(im, batch.atoms[i])];
        struct cell__axis *to = &shape->axes[atom->role == CELL__ROLE_FEATURE ? 2 : 0];
        to->atoms[to->n++] = batch.atoms[i];
    }
}

/* Rows below each other in the batch's axis, such as speakers' (batch * speakers, channels, steps):
 * one row here, of a picture whose height they are. *of: [parts][channels] becomes [channels]
 * [parts]. */
static enum base_status take_parts(struct cell__import *im, struct cell__windows *windows,
                                   struct shapes *shapes, uint32_t *of)
{
    const struct cell__shape batch = {.rank = 1, .axes = {shapes->x.axes[0]}};
    windows->parts = 1;
    if (windows->n > 1 || windows->is_each) {
        return BASE_OK;
    }
    BASE_TRY(cell__shape_width(im, &batch, &windows->parts));
    if (windows->parts == 1) {
        return BASE_OK;
    }
    const int64_t channels = cell__axis_size(im, &shapes->x.axes[1]);
    const uint32_t dims[3] = {1, windows->parts, (uint32_t)channels};
    if (channels < 1 || channels > CELL_WIDTH_MAX / windows->parts ||
        im->rows[*of].value.width % ((uint32_t)channels * windows->parts) != 0) {
        return cell__refuse(im, "of a row that has more features than its channels");
    }
    part_batch(im, &shapes->x);
    part_batch(im, &shapes->left);
    windows->at[1] = windows->at[0];
    windows->at[0] =
        (struct cell__window){.taps = 1, .dilation = 1, .extent = 1, .stride = 1, .add = -1};
    windows->n = 2;
    return cell__row_transpose(im, *of, dims, of);
}

enum base_status cell__window_parts(struct cell__import *im, const struct cell__windows *windows,
                                    uint32_t filters, uint32_t *row)
{
    const uint32_t dims[3] = {1, filters, windows->parts};
    return windows->parts == 1 ? BASE_OK : cell__row_transpose(im, *row, dims, row);
}

/* That the row is [channels][..] of the windows' axes alone. */
static enum base_status check_channels(struct cell__import *im, const struct cell__shape *x,
                                       const struct cell__windows *windows)
{
    const bool is_one_axis = !cell__axis_has(im, &x->axes[1], CELL__ROLE_BATCH) &&
                             cell__axis_times(im, &x->axes[1]) == 0;
    return windows->is_each ||
                   (is_one_axis && windows->channels == cell__axis_size(im, &x->axes[1]))
               ? BASE_OK
               : cell__refuse(im, "of a row that has more features than its channels");
}

enum base_status cell__check_windows(struct cell__import *im, const struct cell__node *node,
                                     struct cell__windows *windows, uint32_t *of)
{
    const struct cell__value *value = cell__input(im, node, 0);
    struct shapes shapes = {value->shape, cell__output(im, node, 0)->shape};
    const struct cell__shape *x = &shapes.x;
    const struct cell__shape *left = &shapes.left;
    uint32_t width = 0;
    BASE_TRY(take_steps(im, value, 2 + time_of(im, x, left, windows), of));
    BASE_TRY(cell__shape_width(im, x, &width));
    BASE_TRY(take_parts(im, windows, &shapes, of));
    windows->time = time_of(im, x, left, windows);
    const uint32_t axis = 2 + windows->time;
    const struct cell__row *row = &im->rows[*of];
    const bool has_time = cell__axis_times(im, &x->axes[axis]) != 0;
    const bool is_step = windows->n == 1 || cell__window_is_step(&windows->at[windows->time]);
    const bool is_of_steps_within = !has_time && windows->takes_within && windows->n == 2 &&
                                    (!is_step || cell__axis_size(im, &x->axes[axis]) > 1);
    const bool is_within = !has_time && !is_of_steps_within && is_step;
    const bool is_along = row->times == cell__axis_times(im, &x->axes[axis]) &&
                          im->scan == CELL__NONE && !im->feeds_back;
    if ((!is_within && !is_along && !is_of_steps_within) || row->value.width != width) {
        return cell__refuse(im, "over an axis that is not the time of a recurrent node");
    }
    uint32_t height = 5 - axis;
    base_assert(windows->n <= 2);
    if (is_within && windows->n == 1) {
        height = axis;
        stay_within(windows);
    } else if (is_of_steps_within) {
        BASE_TRY(check_within(im, &x->axes[axis], &left->axes[axis], windows));
    } else {
        BASE_TRY(check_time(im, &x->axes[axis], &left->axes[axis], &windows->at[windows->time]));
    }
    windows->height = windows->height_left = 1;
    if (windows->n == 2) {
        BASE_TRY(height_of(im, &x->axes[height], &windows->height));
        BASE_TRY(height_of(im, &left->axes[height], &windows->height_left));
    }
    windows->channels = width / windows->height / (windows->within > 0 ? windows->within : 1);
    return check_channels(im, x, windows);
}

enum base_status cell__check_clip(struct cell__import *im, const struct cell__node *node,
                                  struct cell__windows *windows, struct cell__windows *sides)
{
    const struct cell__value *x = cell__input(im, node, 0);
    const struct cell__shape *left = &cell__output(im, node, 0)->shape;
    const struct cell__row *row = &im->rows[x->row];
    const uint32_t times = cell__axis_times(im, &x->shape.axes[2]);
    const bool is_along = row->times == times && im->scan == CELL__NONE && !im->feeds_back;
    uint32_t width = 0;
    base_assert(windows->n == 3);
    BASE_TRY(cell__shape_width(im, &x->shape, &width));
    if ((times != 0 && !is_along) || row->value.width != width) {
        return cell__refuse(im, "over an axis that is not the time of a recurrent node");
    }
    windows->time = 0;
    if (times == 0) {
        BASE_TRY(height_of(im, &x->shape.axes[2], &windows->within));
        BASE_TRY(height_of(im, &left->axes[2], &windows->within_left));
    } else {
        BASE_TRY(check_time(im, &x->shape.axes[2], &left->axes[2], &windows->at[0]));
    }
    *sides =
        (struct cell__windows){.n = 2, .at = {windows->at[1], windows->at[2]}, .is_picture = true};
    BASE_TRY(height_of(im, &x->shape.axes[3], &sides->within));
    BASE_TRY(height_of(im, &left->axes[3], &sides->within_left));
    BASE_TRY(height_of(im, &x->shape.axes[4], &sides->height));
    BASE_TRY(height_of(im, &left->axes[4], &sides->height_left));
    const uint32_t frames = times == 0 ? windows->within : 1;
    sides->channels = windows->channels = width / sides->within / sides->height / frames;
    return check_channels(im, &x->shape, windows);
}

/* One of both is called the time, the other the height. */
void cell__window_sides(const struct cell__windows *windows, uint32_t sizes[2], uint32_t left[2])
{
    const uint32_t time = windows->time;
    sizes[time] = windows->within;
    sizes[1 - time] = windows->height;
    left[time] = windows->within_left;
    left[1 - time] = windows->height_left;
}

/* A row is its own window: one step each. */
bool cell__window_is_step(const struct cell__window *window)
{
    return window->taps == 1 && window->stride == 1 && window->add == -1 && window->before == 0;
}

/* Steps from where a step's window would begin without padding to the one that tap reads. */
static int64_t place_of(const struct cell__window *window, uint32_t tap)
{
    return (int64_t)tap * window->dilation - window->before;
}

/* Steps behind the last that `count` steps from this place on may be, of the last window. */
static int64_t behind_of(const struct cell__window *window, int64_t place, int64_t count)
{
    const int64_t behind = window->add + place + count;
    return behind < 0 ? 0 : behind;
}

bool cell__window_is_inside(const struct cell__window *window, uint32_t tap)
{
    const int64_t place = place_of(window, tap);
    return place >= 0 && behind_of(window, place, 1) == 0;
}

static enum base_status take(struct cell__import *im, const struct cell__window *window,
                             uint32_t row, uint32_t tap, uint32_t *out)
{
    const int64_t place = place_of(window, tap);
    const int64_t count = window->dilation == 1 ? window->taps - tap : 1;
    const struct cell__steps steps = {.sequence = window->sequence,
                                      .count = (uint32_t)count,
                                      .stride = (uint32_t)window->stride,
                                      .behind = (uint32_t)behind_of(window, place, count),
                                      .offset = (int32_t)place};
    return cell__row_window(im, row, &steps, out);
}

enum base_status cell__window_row(struct cell__import *im, const struct cell__window *window,
                                  uint32_t row, uint32_t *out)
{
    uint32_t taps[CELL_WINDOW_MAX];
    if (window->dilation == 1) {
        return take(im, window, row, 0, out);
    }
    base_assert(window->taps <= CELL_WINDOW_MAX);
    for (uint32_t k = 0; k < window->taps; k++) {
        BASE_TRY(take(im, window, row, k, &taps[k]));
    }
    return cell__row_concat(im, taps, (uint32_t)window->taps, out);
}

/* Taps beside each other are parts of one input of the stage, of which there may be few. */
enum base_status cell__window_tap(struct cell__import *im, const struct cell__window *window,
                                  uint32_t row, uint32_t tap, uint32_t *out)
{
    const uint32_t width = im->rows[row].value.width;
    if (window->dilation != 1) {
        return take(im, window, row, tap, out);
    }
    BASE_TRY(take(im, window, row, 0, out));
    return cell__row_slice(im, *out, tap * width, width, out);
}
