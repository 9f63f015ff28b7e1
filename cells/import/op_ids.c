/* Ids that are looked up as something else than they are.
 *
 * Those that may count from the end of a table, as Keras 3 writes an embedding: of an id below 0
 * the rows of the table are added. tf2onnx makes small operators of integers of it,
 *
 *     Add(Mul(Cast(Less(Cast(x), 0)), Add(x, n)), Mul(x, Cast(Not(Less(Cast(x), 0)))))
 *
 * and JAX, where any index may,
 *
 *     Where(Less(x, 0), Add(x, n), x)
 *
 * which is x for each id that a request may hold: one below 0 is refused as any outside of the
 * table, and a model where no table says so is. So it is of the number of a step (op_index.c).
 *
 * Those that are cut to a range, as the predictors of icefall's transducers have it, where -1
 * stands for no label: in floats, which are exact as far as tables go. */
#include "cells/import/ops.h"
#include "cells/import/rows.h"

#include <math.h>
#include <string.h>

/* Whether input i is Cast(Less(Cast(x), 0)), or, is_not, Cast(Not(of that)). */
static bool is_below_zero(const struct cell__import *im, const struct cell__node *node, uint32_t i,
                          bool is_not, uint32_t x)
{
    const struct cell__node *at = cell__made_by(im, node, i, "Cast");
    at = is_not ? cell__made_by(im, at, 0, "Not") : at;
    const struct cell__node *less = cell__made_by(im, at, 0, "Less");
    const struct cell__node *cast = cell__made_by(im, less, 0, "Cast");
    if (cast == NULL || cast->inputs[0] != x || less->n_inputs != 2 ||
        less->inputs[1] == CELL__NONE) {
        return false;
    }
    const struct cell__value *zero = &im->values[less->inputs[1]];
    float number = 1.0f;
    if (zero->kind == CELL__CONST && zero->dtype == CELL__F32 && zero->tensor.count == 1) {
        memcpy(&number, zero->tensor.data, sizeof(number));
    }
    return number <= 0.0f && number >= 0.0f;
}

/* Whether a node is Add(x, n). */
static bool is_moved(const struct cell__import *im, const struct cell__node *node, uint32_t x)
{
    if (node == NULL || node->n_inputs != 2 || node->inputs[0] != x ||
        node->inputs[1] == CELL__NONE) {
        return false;
    }
    const struct cell__value *n = &im->values[node->inputs[1]];
    return n->kind == CELL__CONST && n->tensor.count == 1 && n->dtype != CELL__F32;
}

/* Whether these are the two products, of ids x. */
static bool are_halves(const struct cell__import *im, const struct cell__node *moved,
                       const struct cell__node *kept, uint32_t *x)
{
    for (uint32_t i = 0; moved != NULL && kept != NULL && i < 4; i++) {
        const uint32_t own = i / 2;   // of kept: x
        const uint32_t added = i % 2; // of moved: the sum
        *x = kept->inputs[own];
        if (*x != CELL__NONE && is_moved(im, cell__made_by(im, moved, added, "Add"), *x) &&
            is_below_zero(im, moved, 1 - added, false, *x) &&
            is_below_zero(im, kept, 1 - own, true, *x)) {
            return im->values[*x].kind == CELL__ROWS &&
                   (im->values[*x].dtype == CELL__I32 || im->values[*x].dtype == CELL__I64);
        }
    }
    return false;
}

static bool is_zero(const struct cell__import *im, const struct cell__node *node, uint32_t i)
{
    const struct cell__value *value =
        i < node->n_inputs && node->inputs[i] != CELL__NONE ? &im->values[node->inputs[i]] : NULL;
    if (value == NULL || value->kind != CELL__CONST || value->tensor.count != 1 ||
        value->dtype == CELL__F32) {
        return false;
    }
    const struct cell__sym sym = cell__tensor_sym(&value->tensor, 0);
    return cell__sym_is_number(&sym) && sym.add == 0;
}

/* Whether a node is that Where, of ids x. */
static bool is_chosen_by_sign(const struct cell__import *im, const struct cell__node *node,
                              uint32_t *x)
{
    const struct cell__node *less = cell__made_by(im, node, 0, "Less");
    *x = node->n_inputs == 3 ? node->inputs[2] : CELL__NONE;
    return *x != CELL__NONE && less != NULL && less->n_inputs == 2 && less->inputs[0] == *x &&
           is_zero(im, less, 1) && is_moved(im, cell__made_by(im, node, 1, "Add"), *x) &&
           im->values[*x].kind == CELL__ROWS &&
           (im->values[*x].dtype == CELL__I32 || im->values[*x].dtype == CELL__I64);
}

static enum base_status lower_from_end(struct cell__import *im, struct cell__node *node)
{
    const uint32_t row = cell__input(im, node, 0)->row;
    uint32_t first = CELL__NONE;
    uint32_t step = CELL__NONE;
    uint32_t n = 0;
    BASE_TRY(cell__row_from_end(im, row, &step));
    if (step != CELL__NONE) {
        cell__set_row(im, node, 0, step);
        return BASE_OK;
    }
    const uint32_t given = cell__row_element_ids(im, row, &first);
    if (given == CELL__NONE && !cell__row_is_chosen(im, row, &n)) {
        return cell__refuse(im, "integers that may count from an end, and that are no input");
    }
    im->ids_from_end |= given == CELL__NONE ? 0 : UINT32_C(1) << im->rows[given].index;
    return cell__lower_identity(im, node);
}

/* What such nodes are then: of input 0 alone. */
static const struct cell__operator sum_from_end = {
    "Add", 1, 2, 1, " ", cell__infer_identity, lower_from_end, ""};
static const struct cell__operator choice_from_end = {
    "Where", 1, 3, 1, " ", cell__infer_identity, lower_from_end, ""};

void cell__replace_ids(struct cell__import *im, struct cell__node *node)
{
    const char *name = node->op == NULL ? "" : node->op->name;
    uint32_t x = CELL__NONE;
    bool is_from_end = false;
    if (strcmp(name, "Where") == 0) {
        is_from_end = is_chosen_by_sign(im, node, &x);
    } else if (strcmp(name, "Add") == 0) {
        const struct cell__node *first = cell__made_by(im, node, 0, "Mul");
        const struct cell__node *second = cell__made_by(im, node, 1, "Mul");
        is_from_end = are_halves(im, first, second, &x) || are_halves(im, second, first, &x);
    }
    if (is_from_end) {
        node->op = strcmp(name, "Where") == 0 ? &choice_from_end : &sum_from_end;
        node->inputs[0] = x;
        node->n_inputs = 1;
    }
}

/* ---- Cut to a range ------------------------------------------------------------------------- */

#define EXACT_MAX (1 << 24)

/* A constant of one integer; INFINITY where none is given. false: it is no such. */
static bool read_limit(struct cell__import *im, const struct cell__node *node, uint32_t i,
                       float *out)
{
    *out = INFINITY;
    if (!cell__has_input(node, i)) {
        return true;
    }
    const struct cell__value *value = cell__input(im, node, i);
    if (value->kind != CELL__CONST || value->dtype == CELL__F32 || value->tensor.count != 1) {
        return false;
    }
    const struct cell__sym sym = cell__tensor_sym(&value->tensor, 0);
    const int64_t most = EXACT_MAX; // and what is beyond is no limit
    *out = sym.add > most ? INFINITY : (float)sym.add;
    return cell__sym_is_number(&sym) && sym.add >= 0;
}

/* Integers as a request brings them, of any width. */
static uint32_t ids_of(const struct cell__import *im, uint32_t row)
{
    while (im->rows[row].kind == CELL__ROW_OP && im->rows[row].op.kind == CELL_OP_CAST &&
           im->rows[row].value.dtype != CELL_F32) {
        row = im->rows[row].op.operands[0];
    }
    const struct cell__row *at = &im->rows[row];
    return at->kind == CELL__ROW_INPUT && at->value.dtype != CELL_F32 ? row : CELL__NONE;
}

/* floats, cut to at most `high`, as the integers that ids are. */
static enum base_status as_ids(struct cell__import *im, uint32_t floats, float high,
                               struct cell_value value, uint32_t *out)
{
    struct cell_op cast = {.kind = CELL_OP_CAST, .n_operands = 1, .operands = {floats}};
    if (high < INFINITY) {
        uint32_t number = CELL__NONE;
        BASE_TRY(cell__row_number(im, high, &number));
        BASE_TRY(cell__row_pair(im, CELL_OP_MIN, floats, number, &cast.operands[0]));
    }
    return cell__row_op(im, &cast, value, out);
}

bool cell__is_ids_clip(struct cell__import *im, const struct cell__node *node)
{
    const struct cell__value *in = cell__input(im, node, 0);
    return strcmp(node->op->name, "Clip") == 0 && in->kind == CELL__ROWS &&
           ids_of(im, in->row) != CELL__NONE &&
           (im->is_part || im->rows[in->row].times != 0 || im->rows[in->row].value.width > 1);
}

enum base_status cell__lower_ids_clip(struct cell__import *im, struct cell__node *node)
{
    const uint32_t given = ids_of(im, cell__input(im, node, 0)->row);
    const struct cell_value value = im->rows[given].value;
    struct cell_op cast = {.kind = CELL_OP_CAST, .n_operands = 1, .operands = {given}};
    float limits[2];
    uint32_t number = CELL__NONE;
    uint32_t row = CELL__NONE;
    if (!read_limit(im, node, 1, &limits[0]) || !read_limit(im, node, 2, &limits[1]) ||
        !(limits[0] < limits[1])) {
        return cell__refuse(im, "of integers that depend on the request, to other limits than "
                                "constants from 0 on");
    }
    BASE_TRY(cell__row_number(im, limits[0], &number));
    BASE_TRY(cell__row_op(im, &cast, (struct cell_value){CELL_F32, value.width}, &row));
    BASE_TRY(cell__row_pair(im, CELL_OP_MAX, row, number, &row));
    BASE_TRY(as_ids(im, row, limits[1], value, &row));
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}

/* The op of a row, if it is one of this kind. */
static const struct cell_op *op_of(const struct cell__import *im, uint32_t row,
                                   enum cell_op_kind kind)
{
    const struct cell__row *at = &im->rows[row];
    return at->kind == CELL__ROW_OP && at->op.kind == kind ? &at->op : NULL;
}

bool cell__row_clipped_ids(const struct cell__import *im, uint32_t row,
                           struct cell__clipped_ids *out)
{
    const struct cell_op *cast = op_of(im, row, CELL_OP_CAST);
    if (cast == NULL || im->rows[row].value.dtype == CELL_F32) {
        return false;
    }
    const struct cell_op *min = op_of(im, cast->operands[0], CELL_OP_MIN);
    *out = (struct cell__clipped_ids){.floats = min == NULL ? cast->operands[0] : min->operands[0],
                                      .high = min == NULL ? INFINITY
                                                          : cell__row_same(im, min->operands[1]),
                                      .is_bounded = im->rows[row].is_bounded};
    const struct cell_op *max = op_of(im, out->floats, CELL_OP_MAX);
    const struct cell_op *of = max == NULL ? NULL : op_of(im, max->operands[0], CELL_OP_CAST);
    out->low = max == NULL ? NAN : cell__row_same(im, max->operands[1]);
    out->ids = of == NULL ? CELL__NONE : ids_of(im, of->operands[0]);
    return out->ids != CELL__NONE && out->low >= 0.0f && out->low < out->high;
}

enum base_status cell__row_clipped_lookup(struct cell__import *im, const struct cell__table *table,
                                          const struct cell__clipped_ids *clipped, uint32_t index,
                                          uint32_t *out)
{
    const struct cell_value value = im->rows[index].value;
    if (table->rows < 1 || table->rows > EXACT_MAX || clipped->low >= (float)table->rows) {
        return cell__refuse(im, "looks up ids that are cut to others than a table's of 1 to 2^24 "
                                "rows");
    }
    if (clipped->high >= (float)table->rows) {
        const float high = (float)(table->rows - 1);
        BASE_TRY(as_ids(im, clipped->floats, high, value, &index));
        im->rows[index].is_bounded = true;
    }
    return cell__row_lookup(im, table, index, out);
}
