/* See stft.h. */
#include "cells/import/stft.h"

#include "base/checked.h"
#include "cells/import/ops.h"

#include <math.h>
#include <string.h>

enum { IN_SIGNAL, IN_STEP, IN_WINDOW, IN_LENGTH, INPUTS };

/* Of one frame: 2 * bins * length floats are 16 MiB. */
#define LENGTH_MAX 2048

/* What a file's STFTs may take beside what its size allows: their matrices, as they are made, read
 * and packed. */
#define BYTES_MAX    ((size_t)40 << 20)
#define COPIES_BYTES 4u

struct stft {
    int64_t step, length, bins;
    const float *window; /* [length]; NULL: ones */
};

/* A constant of one integer. */
static enum base_status read_number(struct cell__writer *w, size_t i, int64_t *out)
{
    const struct cell__value *value = NULL;
    BASE_TRY(cell__writer_value(w, w->proto->input[i], &value));
    if (value->kind != CELL__CONST || value->tensor.count != 1 || value->dtype == CELL__F32) {
        return cell__unwritten(w, "whose frames' step or length is no constant");
    }
    const struct cell__sym sym = cell__tensor_sym(&value->tensor, 0);
    *out = sym.add;
    return cell__sym_is_number(&sym)
               ? BASE_OK
               : cell__unwritten(w, "whose frames' step or length is no constant");
}

static enum base_status read_window(struct cell__writer *w, struct stft *stft)
{
    const struct cell__value *value = NULL;
    BASE_TRY(cell__writer_value(w, w->proto->input[IN_WINDOW], &value));
    if (value->kind != CELL__CONST || value->dtype != CELL__F32 || value->tensor.rank != 1) {
        return cell__unwritten(w, "whose window is no constant list of floats");
    }
    if (stft->length != 0 && stft->length != value->tensor.dims[0]) {
        return cell__unwritten(w, "whose window is not as long as a frame");
    }
    stft->length = value->tensor.dims[0];
    stft->window = value->tensor.data;
    return BASE_OK;
}

static enum base_status read_stft(struct cell__writer *w, struct stft *stft)
{
    const struct cell__value *signal = NULL;
    int64_t is_onesided = 1;
    BASE_TRY(cell__writer_int(w, "onesided", &is_onesided));
    BASE_TRY(cell__writer_value(w, w->proto->input[IN_SIGNAL], &signal));
    if (signal->kind != CELL__ROWS || signal->dtype != CELL__F32 || signal->shape.rank != 3 ||
        cell__axis_size(w->im, &signal->shape.axes[2]) != 1) {
        return cell__unwritten(w, "of anything but a real signal [batch, samples, 1] of floats");
    }
    BASE_TRY(read_number(w, IN_STEP, &stft->step));
    BASE_TRY(cell__writer_has(w, IN_LENGTH) ? read_number(w, IN_LENGTH, &stft->length) : BASE_OK);
    BASE_TRY(cell__writer_has(w, IN_WINDOW) ? read_window(w, stft) : BASE_OK);
    if (stft->length < 1 || stft->length > LENGTH_MAX || stft->step < 1) {
        return cell__unwritten(w, "with frames of less than 1 or more than 2048 samples");
    }
    stft->bins = is_onesided != 0 ? stft->length / 2 + 1 : stft->length;
    return BASE_OK;
}

/* [bins, 2, length]: real and imaginary parts of exp(-2 pi i k n / length), times the window. */
static enum base_status make_matrix(struct cell__writer *w, const struct stft *stft,
                                    const float **out)
{
    const size_t n = (size_t)stft->length;
    const size_t bytes = (size_t)stft->bins * 2 * n * sizeof(float);
    size_t more = 0;
    if (w->im->transform_bytes > BYTES_MAX - bytes ||
        !base_size_add(w->im->arena->budget_bytes, bytes * COPIES_BYTES, &more)) {
        return cell__unwritten(w, "beside so many others of so many samples");
    }
    w->im->transform_bytes += bytes;
    w->im->arena->budget_bytes = more;
    float *matrix = base_arena_array(w->im->arena, bytes / sizeof(float), sizeof(float));
    if (matrix == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    for (size_t k = 0; k < (size_t)stft->bins; k++) {
        for (size_t i = 0; i < n; i++) {
            const double turn = (double)(k * i % n) / (double)n;
            const double angle = 2.0 * 3.14159265358979323846 * turn;
            const double by = stft->window == NULL ? 1.0 : (double)stft->window[i];
            matrix[2 * k * n + i] = (float)(by * cos(angle));
            matrix[(2 * k + 1) * n + i] = (float)(by * -sin(angle));
        }
    }
    *out = matrix;
    return BASE_OK;
}

enum base_status cell__write_stft(struct cell__writer *w)
{
    static const int64_t perm[] = {0, 2, 1};
    struct stft stft = {.length = 0};
    const float *matrix = NULL;
    const char *kernel = NULL;
    const char *shape = NULL;
    const char *x = w->proto->input[IN_SIGNAL];
    Onnx__NodeProto *conv = NULL;
    BASE_TRY(read_stft(w, &stft));
    BASE_TRY(make_matrix(w, &stft, &matrix));
    const struct cell__constant weights = {
        .data = matrix, .rank = 3, .dims = {2 * stft.bins, 1, stft.length}};
    const int64_t dims[] = {0, 0, stft.bins, 2};
    BASE_TRY(cell__build_floats(w->builder, &weights, &kernel));
    BASE_TRY(cell__write_ints(w, dims, 4, &shape));
    BASE_TRY(cell__write_transpose(w, x, perm, 3, &x));
    BASE_TRY(cell__build_node(w->builder, "Conv", (const char *[]){x, kernel, NULL}, 1, &conv));
    BASE_TRY(cell__build_set_ints(w->builder, conv, "strides", 1, &stft.step));
    BASE_TRY(cell__write_transpose(w, conv->output[0], perm, 3, &x));
    return cell__write(w, "Reshape", (const char *[]){x, shape, NULL}, &w->out);
}
