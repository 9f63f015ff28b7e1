/* Element-wise ops, one float at a time: the definition of their bits. cells/cpu/pointwise_body.h
 * does the same operations on vectors. Pure; any thread; a few operations an element. */
#include "cells/ref/pointwise.h"
#include "cells/kernels.h"
#include "cells/ref/math.h"

#include "base/assert.h"

#include <math.h>
#include <stddef.h>

/* A NaN wins. */
static float min_f32(float a, float b)
{
    return isnan(a) || a < b ? a : b;
}

static float max_f32(float a, float b)
{
    return isnan(a) || a > b ? a : b;
}

static float compute(enum cell_op_kind kind, float a, float b, float c)
{
    switch ((unsigned)kind) {
    case CELL_OP_ADD:
        return a + b;
    case CELL_OP_SUB:
        return a - b;
    case CELL_OP_MUL:
        return a * b;
    case CELL_OP_DIV:
        return a / b;
    case CELL_OP_MIN:
        return min_f32(a, b);
    case CELL_OP_MAX:
        return max_f32(a, b);
    case CELL_OP_LESS:
        return a < b ? 1.0f : 0.0f;
    case CELL_OP_LESS_EQUAL:
        return a <= b ? 1.0f : 0.0f;
    case CELL_OP_SELECT:
        return a > 0.0f ? b : c;
    case CELL_OP_SIGMOID:
        return cell_sigmoid_f32__scalar(a);
    case CELL_OP_TANH:
        return cell_tanh_f32__scalar(a);
    case CELL_OP_RELU:
        return cell_relu_f32__scalar(a);
    case CELL_OP_EXP:
        return cell_exp_f32__scalar(a);
    case CELL_OP_LOG:
        return cell_log_f32__scalar(a);
    case CELL_OP_ABS:
        return fabsf(a);
    case CELL_OP_FLOOR:
        return floorf(a);
    case CELL_OP_SQRT:
        return sqrtf(a);
    default:
        base_assert(false);
        return 0.0f;
    }
}

float cell_pointwise_f32__scalar(enum cell_op_kind kind, float a, float b, float c)
{
    return cell_nan_f32__scalar(compute(kind, a, b, c));
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
