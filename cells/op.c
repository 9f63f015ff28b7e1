/* What there is to know of a kind of op, an element type or a precision by itself: names, sizes,
 * numbers of gates, results and matrices. Pure functions over constant tables. */
#include "cells/op.h"

#include "base/assert.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

uint32_t cell_dtype_bytes(enum cell_dtype dtype)
{
    return dtype == CELL_I64 ? 8 : 4;
}

int64_t cell_integer_at(enum cell_dtype dtype, const void *element)
{
    base_assert(dtype == CELL_I64 || dtype == CELL_I32);
    if (dtype == CELL_I64) {
        int64_t value = 0;
        memcpy(&value, element, sizeof(value));
        return value;
    }
    int32_t value = 0;
    memcpy(&value, element, sizeof(value));
    return value;
}

const char *cell_op_name(enum cell_op_kind kind)
{
    static const char *const names[] = {
#define CELL_OP_TEXT(name, operands, weights, optional) #name,
        CELL_OP_MAP(CELL_OP_TEXT)
#undef CELL_OP_TEXT
    };
    return (uint32_t)kind < CELL_OP_COUNT ? names[kind] : "unknown";
}

static const char *const precision_names[CELL_PRECISION_COUNT] = {
    [CELL_FP32] = "fp32", [CELL_BF16] = "bf16", [CELL_INT8] = "int8"};

const char *cell_precision_name(enum cell_precision precision)
{
    return precision_names[precision];
}

enum base_status cell_precision_find(const char *name, enum cell_precision *out,
                                     struct base_error *error)
{
    for (uint32_t p = 0; p < CELL_PRECISION_COUNT; p++) {
        if (strcmp(precision_names[p], name) == 0) {
            *out = (enum cell_precision)p;
            return BASE_OK;
        }
    }
    return base_fail(error, BASE_INVALID_ARGUMENT, "precision %.32s: must be fp32, bf16 or int8",
                     name);
}

uint32_t cell_precision_bytes(enum cell_precision precision)
{
    return precision == CELL_INT8 ? 1 : precision == CELL_BF16 ? 2 : 4;
}

static const char *const products_names[CELL_PRODUCTS_COUNT] = {[CELL_PRODUCTS_FP32] = "fp32",
                                                                [CELL_PRODUCTS_TF32] = "tf32",
                                                                [CELL_PRODUCTS_BF16] = "bf16",
                                                                [CELL_PRODUCTS_BF16X3] = "bf16x3"};

const char *cell_products_name(enum cell_products products)
{
    return products_names[products];
}

enum base_status cell_products_find(const char *name, enum cell_products *out,
                                    struct base_error *error)
{
    for (uint32_t p = 0; p < CELL_PRODUCTS_COUNT; p++) {
        if (strcmp(products_names[p], name) == 0) {
            *out = (enum cell_products)p;
            return BASE_OK;
        }
    }
    return base_fail(error, BASE_INVALID_ARGUMENT,
                     "products %.32s: must be fp32, tf32, bf16 or bf16x3", name);
}

uint32_t cell_op_gates(enum cell_op_kind kind)
{
    switch ((unsigned)kind) {
    case CELL_OP_RNN:
        return 1;
    case CELL_OP_GRU:
    case CELL_OP_TREE_LEAF:
        return 3;
    case CELL_OP_LSTM:
    case CELL_OP_TREE_SUM:
        return 4;
    case CELL_OP_TREE_BINARY:
        return 5;
    default:
        return 0;
    }
}

bool cell_op_is_tree(enum cell_op_kind kind)
{
    return kind >= CELL_OP_TREE_LEAF && kind <= CELL_OP_TREE_SUM;
}

bool cell_op_is_pointwise(enum cell_op_kind kind)
{
    return kind >= CELL_OP_ADD && kind <= CELL_OP_SQRT;
}

bool cell_op_has_groups(enum cell_op_kind kind)
{
    return kind == CELL_OP_SOFTMAX || kind == CELL_OP_LOG_SOFTMAX;
}

uint32_t cell_op_results(enum cell_op_kind kind)
{
    return kind == CELL_OP_LSTM || cell_op_is_tree(kind) ? 2 : 1;
}

bool cell_op_takes_rows(const struct cell_op *op, uint32_t i)
{
    return op->kind == CELL_OP_ATTEND ? i == 1 || i == 2
           : op->kind == CELL_OP_PICK ? i == 0
                                      : op->kind == CELL_OP_REDUCE;
}

bool cell_op_may_have_patches(enum cell_op_kind kind)
{
    return kind == CELL_OP_GATHER || kind == CELL_OP_LINEAR || kind == CELL_OP_LSTM ||
           kind == CELL_OP_GRU || kind == CELL_OP_RNN;
}

bool cell_op_has_picture(const struct cell_op *op)
{
    return op->kind == CELL_OP_FILTER ||
           (op->kind == CELL_OP_LINEAR && op->patches > 0 && op->picture.size[0] > 0);
}

uint32_t cell_op_places(const struct cell_op *op)
{
    return op->picture.left[0] * op->picture.left[1];
}

uint32_t cell_op_patches(const struct cell_op *op)
{
    return cell_op_may_have_patches(op->kind) && op->patches > 0 ? op->patches : 1;
}

/* A child is two operands. */
bool cell_op_has_x(const struct cell_op *op)
{
    return op->n_operands % 2 == 1;
}

uint32_t cell_op_children(const struct cell_op *op)
{
    return op->n_operands / 2;
}

uint32_t cell_op_matrices(const struct cell_op *op)
{
    uint32_t of_x = cell_op_has_x(op) ? 1 : 0;
    return op->kind == CELL_OP_TREE_LEAF     ? of_x
           : op->kind == CELL_OP_TREE_SUM    ? of_x + 1
           : op->kind == CELL_OP_TREE_BINARY ? of_x + 2
           : cell_op_gates(op->kind) > 0     ? 2
                                             : 0;
}
