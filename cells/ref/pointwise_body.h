/* The element-wise ops, one element: the definition of their bits, for hosts and GPUs alike; see
 * math_body.h. Pure functions; a few operations an element. */
#ifndef CELLS_REF_POINTWISE_BODY_H
#define CELLS_REF_POINTWISE_BODY_H

#include "cells/def.h"
#include "cells/ref/math_body.h"

/* A NaN wins. */
CELL_MATH_FN float cell_pointwise_min(float a, float b)
{
    return isnan(a) || a < b ? a : b;
}

CELL_MATH_FN float cell_pointwise_max(float a, float b)
{
    return isnan(a) || a > b ? a : b;
}

CELL_MATH_FN float cell_pointwise_compute(uint32_t kind, float a, float b, float c)
{
    switch (kind) {
    case CELL_OP_ADD:
        return a + b;
    case CELL_OP_SUB:
        return a - b;
    case CELL_OP_MUL:
        return a * b;
    case CELL_OP_DIV:
        return a / b;
    case CELL_OP_POW:
        return cell_pow_f32(a, b);
    case CELL_OP_MIN:
        return cell_pointwise_min(a, b);
    case CELL_OP_MAX:
        return cell_pointwise_max(a, b);
    case CELL_OP_LESS:
        return a < b ? 1.0f : 0.0f;
    case CELL_OP_LESS_EQUAL:
        return a <= b ? 1.0f : 0.0f;
    case CELL_OP_SELECT:
        return a > 0.0f ? b : c;
    case CELL_OP_SIGMOID:
        return cell_sigmoid_f32(a);
    case CELL_OP_TANH:
        return cell_tanh_f32(a);
    case CELL_OP_RELU:
        return cell_relu_f32(a);
    case CELL_OP_EXP:
        return cell_exp_f32(a);
    case CELL_OP_LOG:
        return cell_log_f32(a);
    case CELL_OP_SIN:
        return cell_sin_f32(a);
    case CELL_OP_COS:
        return cell_cos_f32(a);
    case CELL_OP_ATAN:
        return cell_atan_f32(a);
    case CELL_OP_ABS:
        return fabsf(a);
    case CELL_OP_FLOOR:
        return floorf(a);
    case CELL_OP_ROUND:
        return rintf(a);
    case CELL_OP_SQRT:
        return sqrtf(a);
    default:
        return cell_math_float(CELL_NAN_BITS); // no such op
    }
}

/* kind: cell_op_is_pointwise(); b and c where the op has them. */
CELL_MATH_FN float cell_pointwise_f32(uint32_t kind, float a, float b, float c)
{
    return cell_nan_f32(cell_pointwise_compute(kind, a, b, c));
}

#endif
