/* Element-wise ops, one float at a time: the definition of their bits. cells/cpu/pointwise_body.h
 * does the same operations on vectors. Pure; any thread; a few operations an element. */
#include "cells/ref/pointwise.h"
#include "cells/kernels.h"
#include "cells/ref/pointwise_body.h"

#include "base/assert.h"

#include <stddef.h>

float cell_pointwise_f32__scalar(enum cell_op_kind kind, float a, float b, float c)
{
    base_assert(cell_op_is_pointwise(kind));
    return cell_pointwise_f32((uint32_t)kind, a, b, c);
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
                in[k] = value->tile != CELL_POINTWISE_ROW
                            ? kept[op->in[k]]
                            : values[op->in[k]][value->is_single ? 0 : i];
            }
            float result = cell_pointwise_f32__scalar(op->kind, in[0], in[1], in[2]);
            kept[op->out] = result;
            if (chain->values[op->out].tile == CELL_POINTWISE_ROW) {
                values[op->out][i] = result;
            }
        }
    }
}
