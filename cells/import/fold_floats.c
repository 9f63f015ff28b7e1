/* See fold.h: constants of floats that a model passes through a function, such as the softmax of
 * its layers' weights, a matrix that is normalised, or the product of two. In double precision,
 * rounded once. */
#include "cells/import/fold.h"

#include "base/assert.h"
#include "base/checked.h"

#include <math.h>

static enum base_status check_floats(struct cell__import *im, const struct cell__tensor *in)
{
    return in->dtype == CELL__F32 && in->count > 0
               ? BASE_OK
               : cell__refuse(im, "of a constant of type %s, or without elements",
                              cell__dtype_name(in->dtype));
}

/* A constant of floats of this shape, to be filled in. */
static enum base_status make(struct cell__import *im, uint32_t rank, const int64_t *dims,
                             struct cell__tensor *out, float **data)
{
    void *made = NULL;
    struct cell__sym *none = NULL;
    *out = (struct cell__tensor){.dtype = CELL__F32};
    BASE_TRY(cell__tensor_shape(im, out, rank, dims));
    BASE_TRY(cell__tensor_alloc(im, out, false, &made, &none));
    *data = made;
    return BASE_OK;
}

enum base_status cell__fold_each(struct cell__import *im, const struct cell__tensor *in,
                                 const struct cell__function *function, struct cell__tensor *out)
{
    const float *from = in->data;
    float *to = NULL;
    BASE_TRY(check_floats(im, in));
    BASE_TRY(make(im, in->rank, in->dims, out, &to));
    for (size_t i = 0; i < out->count; i++) {
        to[i] = (float)function->compute((double)from[i], function->with);
    }
    return BASE_OK;
}

/* `size` elements, `stride` apart. */
static void softmax(const float *from, float *to, size_t size, size_t stride, bool is_log)
{
    double most = (double)from[0];
    double sum = 0;
    for (size_t i = 1; i < size; i++) {
        most = fmax(most, (double)from[i * stride]);
    }
    for (size_t i = 0; i < size; i++) {
        sum += exp((double)from[i * stride] - most);
    }
    for (size_t i = 0; i < size; i++) {
        const double power = (double)from[i * stride] - most;
        to[i * stride] = (float)(is_log ? power - log(sum) : exp(power) / sum);
    }
}

enum base_status cell__fold_softmax(struct cell__import *im, const struct cell__tensor *in,
                                    uint32_t axis, bool is_log, struct cell__tensor *out)
{
    size_t inner = 1;
    float *to = NULL;
    BASE_TRY(check_floats(im, in));
    BASE_TRY(make(im, in->rank, in->dims, out, &to));
    for (uint32_t k = axis + 1; k < in->rank; k++) {
        inner *= (size_t)in->dims[k];
    }
    const size_t size = (size_t)in->dims[axis];
    for (size_t first = 0; first < in->count; first += size * inner) {
        for (size_t i = 0; i < inner; i++) {
            softmax((const float *)in->data + first + i, to + first + i, size, inner, is_log);
        }
    }
    return BASE_OK;
}

/* Where element i of a constant is counted in when the axes of the mask are reduced. */
static size_t place_of(const struct cell__tensor *in, uint32_t mask, size_t i)
{
    size_t place = 0;
    size_t stride = 1;
    for (uint32_t k = in->rank; k-- > 0;) {
        const size_t at = i % (size_t)in->dims[k];
        i /= (size_t)in->dims[k];
        if ((mask >> k & 1) == 0) {
            place += at * stride;
            stride *= (size_t)in->dims[k];
        }
    }
    return place;
}

static enum base_status reduced_shape(struct cell__import *im, const struct cell__tensor *in,
                                      uint32_t mask, bool keeps, struct cell__tensor *out,
                                      float **data)
{
    int64_t dims[CELL_RANK_MAX];
    uint32_t rank = 0;
    for (uint32_t k = 0; k < in->rank; k++) {
        const bool is_left = (mask >> k & 1) == 0;
        if (is_left || keeps) {
            dims[rank++] = is_left ? in->dims[k] : 1;
        }
    }
    return make(im, rank, dims, out, data);
}

enum base_status cell__fold_reduce(struct cell__import *im, const struct cell__tensor *in,
                                   uint32_t mask, bool keeps,
                                   const struct cell__reduction *reduction,
                                   struct cell__tensor *out)
{
    float *to = NULL;
    BASE_TRY(check_floats(im, in));
    BASE_TRY(reduced_shape(im, in, mask, keeps, out, &to));
    double *sums = base_arena_array(im->arena, out->count, sizeof(*sums));
    if (sums == NULL) {
        return cell__no_memory(im);
    }
    for (size_t i = 0; i < out->count; i++) {
        sums[i] = reduction->start;
    }
    for (size_t i = 0; i < in->count; i++) {
        double *sum = &sums[place_of(in, mask, i)];
        *sum = reduction->add(*sum, (double)((const float *)in->data)[i]);
    }
    base_assert(out->count > 0);             // what has elements leaves some
    const size_t n = in->count / out->count; // in each place
    for (size_t i = 0; i < out->count; i++) {
        to[i] = (float)reduction->end(sums[i], (double)n);
    }
    return BASE_OK;
}

enum base_status cell__fold_product(struct cell__import *im, const struct cell__tensor *a,
                                    const struct cell__tensor *b, struct cell__tensor *out)
{
    float *to = NULL;
    BASE_TRY(check_floats(im, a));
    BASE_TRY(check_floats(im, b));
    if (a->rank != 2 || b->rank != 2 || a->dims[1] != b->dims[0]) {
        return cell__refuse(im, "of constants that are not two matrices that fit");
    }
    const size_t terms = (size_t)a->dims[1];
    const size_t columns = (size_t)b->dims[1];
    BASE_TRY(make(im, 2, (const int64_t[]){a->dims[0], b->dims[1]}, out, &to));
    for (size_t i = 0; i < out->count; i++) {
        double sum = 0;
        for (size_t t = 0; t < terms; t++) {
            const float x = ((const float *)a->data)[i / columns * terms + t];
            sum += (double)x * (double)((const float *)b->data)[t * columns + i % columns];
        }
        to[i] = (float)sum;
    }
    return BASE_OK;
}
