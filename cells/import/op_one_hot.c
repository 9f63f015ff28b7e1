/* OneHot: of ids, which are the request's; a table looked up by them, as an embedding. So an id
 * must be one of the table's, as PyTorch asks for, where ONNX would take others. */
#include "cells/import/ops.h"
#include "cells/import/rows.h"

#include "base/assert.h"

enum { IN_IDS, IN_DEPTH, IN_VALUES };

/* Values of any type are floats in a row. */
static enum base_status read_values(struct cell__import *im, const struct cell__node *node,
                                    int64_t *depth, float values[2])
{
    const struct cell__value *of = cell__input(im, node, IN_DEPTH);
    const struct cell__value *pair = cell__input(im, node, IN_VALUES);
    struct cell__list list;
    BASE_TRY(cell__tensor_ints(im, of, "the depth", &list));
    *depth = list.n == 1 ? list.at[0] : 0;
    if (*depth < 1 || *depth > CELL_WIDTH_MAX) {
        return cell__refuse(im, "a depth of %lld", (long long)*depth);
    }
    if (pair->kind != CELL__CONST || pair->tensor.count != 2 || pair->tensor.syms != NULL) {
        return cell__refuse(im, "values that are no two constants");
    }
    for (size_t i = 0; i < 2; i++) {
        values[i] = pair->dtype == CELL__F32 ? ((const float *)pair->tensor.data)[i]
                                             : (float)cell__tensor_sym(&pair->tensor, i).add;
    }
    return BASE_OK;
}

enum base_status cell__infer_one_hot(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *ids = cell__input(im, node, IN_IDS);
    int64_t axis = -1;
    int64_t depth = 0;
    float values[2];
    BASE_TRY(cell__attr_int(im, node, "axis", -1, &axis));
    BASE_TRY(read_values(im, node, &depth, values));
    if (ids->kind != CELL__ROWS || (ids->dtype != CELL__I64 && ids->dtype != CELL__I32)) {
        return cell__refuse(im, "of what are no integers of the request");
    }
    struct cell__shape out = ids->shape;
    if (axis != -1 && axis != (int64_t)out.rank) {
        return cell__refuse(im, "along axis %lld; only the last is supported", (long long)axis);
    }
    if (out.rank == CELL_RANK_MAX) {
        return cell__refuse(im, "a result of rank %u", out.rank + 1);
    }
    BASE_TRY(cell__axis_new(im, depth, &out.axes[out.rank++]));
    cell__set_rows(im, node, 0, CELL__F32, &out);
    return BASE_OK;
}

enum base_status cell__lower_one_hot(struct cell__import *im, struct cell__node *node)
{
    int64_t depth = 0;
    float values[2];
    uint32_t row = CELL__NONE;
    BASE_TRY(read_values(im, node, &depth, values));
    float *table = base_arena_array(im->arena, (size_t)depth * (size_t)depth, sizeof(*table));
    if (table == NULL) {
        return cell__no_memory(im);
    }
    for (size_t i = 0; i < (size_t)depth * (size_t)depth; i++) {
        table[i] = values[i % ((size_t)depth + 1) == 0 ? 1 : 0]; // the diagonal
    }
    const struct cell__table hot = {
        .dtype = CELL__F32, .rows = depth, .width = depth, .data = table};
    BASE_TRY(cell__row_embedding(im, &hot, cell__input(im, node, IN_IDS)->row, &row));
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}
