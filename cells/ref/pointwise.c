/* Element-wise ops, one float at a time: the definition of their bits. cells/cpu/pointwise_body.h
 * does the same operations on vectors. Pure; any thread; a few operations an element. */
#include "cells/ref/pointwise.h"

#include "cells/kernels.h"
#include "cells/ref/math.h"
#include "cells/ref/pointwise_body.h"

#include "base/assert.h"

#include <stddef.h>

float cell_pointwise_f32__scalar(enum cell_op_kind kind, float a, float b, float c)
{
    base_assert(cell_op_is_pointwise(kind));
    return cell_pointwise_f32((uint32_t)kind, a, b, c);
}

/* Of its row, the element that stands for element i of the chain's. */
static uint32_t element_of(const struct cell_pointwise_value *value, uint32_t i)
{
    return value->is_single   ? 0
           : value->times > 1 ? i / value->part / value->times * value->part + i % value->part
                              : i;
}

void cell_pointwise__scalar(const struct cell_pointwise *chain, float *const values[],
                            float *scratch) // NOLINT(readability-non-const-parameter): a table's
{
    float kept[CELL_POINTWISE_VALUES_MAX] = {0.0f};
    (void)scratch;
    for (uint32_t i = 0; i < chain->width; i++) {
        for (uint32_t o = 0; o < chain->n_ops; o++) {
            const struct cell_pointwise_op *op = &chain->ops[o];
            float in[3] = {0.0f, 0.0f, 0.0f};
            for (uint32_t k = 0; k < op->n_in; k++) {
                const struct cell_pointwise_value *value = &chain->values[op->in[k]];
                in[k] = value->tile != CELL_POINTWISE_ROW ? kept[op->in[k]]
                                                          : values[op->in[k]][element_of(value, i)];
            }
            float result = cell_pointwise_f32__scalar(op->kind, in[0], in[1], in[2]);
            kept[op->out] = result;
            if (chain->values[op->out].tile == CELL_POINTWISE_ROW) {
                values[op->out][i] = result;
            }
        }
    }
}

static float filtered(const struct cell_filter_run *run, const float *x, uint32_t c)
{
    float value = run->bias == NULL ? 0.0f : run->bias[c];
    for (uint32_t t = 0; t < run->n_taps; t++) {
        const float tap = x[run->offsets[t] + c];
        value = run->weights != NULL ? fmaf(tap, run->weights[t][c], value)
                : t == 0             ? tap
                                     : cell_pointwise_f32__scalar(CELL_OP_MAX, value, tap, 0.0f);
    }
    return cell_nan_f32__scalar(value);
}

void cell_filter__scalar(const struct cell_filter_run *run)
{
    for (uint32_t p = 0; p < run->n_places; p++) {
        for (uint32_t c = 0; c < run->channels; c++) {
            run->out[(size_t)p * run->channels + c] = filtered(run, run->x + p * run->step, c);
        }
    }
}
