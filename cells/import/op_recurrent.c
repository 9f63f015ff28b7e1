/* LSTM, GRU and RNN: the nodes that tell batch from time. Shapes are ONNX's: X [time, batch,
 * input], initial_h and (LSTM) initial_c [directions, batch, hidden], Y [time, directions,
 * batch, hidden], Y_h and (LSTM) Y_c [directions, batch, hidden]; with layout 1 the batch stands
 * first everywhere. Each direction is a recurrent node and a chain of its own. Gates and equations
 * are those of cells/op.h, so weights are taken as they lie. Activations, a clip or coupled gates
 * that no kernel has make the cell a body of small operators (op_step.c). */
#include "cells/import/ops.h"
#include "cells/import/rows.h"

#include "base/assert.h"
#include "base/checked.h"

#include <string.h>

enum { IN_X, IN_W, IN_R, IN_B, IN_LENGTHS, IN_H, IN_C, IN_P };

/* How the three differ. Attributes, and the number of inputs and outputs, are in operators.c. */
struct unit {
    const char *name, *word;
    enum cell_op_kind kind;
    uint32_t n_states;
    struct cell__functions functions;
};

static const struct unit *unit_of(const struct cell__node *node)
{
    static const struct unit units[] = {
        {"LSTM", "lstm", CELL_OP_LSTM, 2, {3, {"sigmoid", "tanh", "tanh"}}},
        {"GRU", "gru", CELL_OP_GRU, 1, {2, {"sigmoid", "tanh"}}},
        {"RNN", "rnn", CELL_OP_RNN, 1, {1, {"tanh"}}},
    };
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcmp(units[i].name, node->op->name) == 0) {
            return &units[i];
        }
    }
    base_assert(false);
    return &units[0];
}

/* ---- Attributes --------------------------------------------------------------------------- */

static enum base_status read_direction(struct cell__import *im, const struct cell__node *node,
                                       struct cell__recurrent *first)
{
    const Onnx__AttributeProto *a = cell__attr(node, "direction");
    char text[CELL__TEXT_BYTES] = "";
    first->directions = a != NULL && cell__is_text(a->s, "bidirectional") ? 2 : 1;
    first->is_reverse = a != NULL && cell__is_text(a->s, "reverse");
    if (a == NULL || cell__is_text(a->s, "forward") || first->is_reverse ||
        first->directions == 2) {
        return BASE_OK;
    }
    if (a->s.len > 0) {
        size_t n = a->s.len < sizeof(text) - 1 ? a->s.len : sizeof(text) - 1;
        memcpy(text, a->s.data, n);
    }
    char quoted[CELL__TEXT_BYTES];
    return cell__invalid(im, "direction \"%s\"", cell__quote(quoted, text));
}

/* An attribute that another unit has reads as its default here: operators.c lets none through. */
static enum base_status read_attributes(struct cell__import *im, const struct cell__node *node,
                                        const struct unit *unit, uint32_t direction,
                                        struct cell__recurrent *recurrent)
{
    int64_t input_forget = 0;
    int64_t linear_before_reset = 0;
    BASE_TRY(cell__read_functions(im, node, &unit->functions, direction, recurrent));
    BASE_TRY(cell__attr_int(im, node, "input_forget", 0, &input_forget));
    BASE_TRY(cell__attr_int(im, node, "linear_before_reset", 0, &linear_before_reset));
    recurrent->input_forget = input_forget == 1;
    if (linear_before_reset == 1) {
        recurrent->op.variant = CELL_GRU_RESET_AFTER;
    }
    if (unit->kind == CELL_OP_RNN && recurrent->activations[0].kind == CELL__ACT_RELU) {
        recurrent->op.variant = CELL_RNN_RELU;
        recurrent->is_written_out = recurrent->clip > 0.0f;
    }
    recurrent->is_written_out |= recurrent->input_forget;
    return BASE_OK;
}

/* ---- Weights ------------------------------------------------------------------------------ */

/* An input that must be a constant float [directions, rows, cols], or [directions, cols] when rows
 * is 0. */
struct weight_input {
    uint32_t i;
    const char *name;
    int64_t rows, cols;
};

/* Of which direction weights are read, of how many. */
struct turn {
    uint32_t direction, directions;
};

static enum base_status read_weight(struct cell__import *im, const struct cell__node *node,
                                    struct weight_input wanted, struct turn turn,
                                    struct cell_weight *out)
{
    uint32_t rank = wanted.rows == 0 ? 2 : 3;
    if (!cell__has_input(node, wanted.i)) {
        return cell__invalid(im, "input %s is missing", wanted.name);
    }
    const struct cell__value *value = cell__input(im, node, wanted.i);
    if (value->kind != CELL__CONST) {
        return cell__refuse(im, "the weights %s depend on the request; they must be constants",
                            wanted.name);
    }
    const struct cell__tensor *tensor = &value->tensor;
    if (tensor->dtype != CELL__F32 || tensor->rank != rank || tensor->dims[0] != turn.directions ||
        tensor->dims[rank - 1] != wanted.cols || (rank == 3 && tensor->dims[1] != wanted.rows)) {
        char name[CELL__TEXT_BYTES];
        char is[CELL__TEXT_BYTES];
        char asked[CELL__TEXT_BYTES];
        const struct cell__tensor other = {
            .dtype = CELL__F32,
            .rank = rank,
            .dims = {turn.directions, rank == 3 ? wanted.rows : wanted.cols, wanted.cols}};
        return cell__invalid(im, "%s (\"%s\") is %s; direction, input and hidden size ask for %s",
                             wanted.name, cell__quote(name, value->name),
                             cell__tensor_text(is, tensor), cell__tensor_text(asked, &other));
    }
    uint32_t rows = rank == 3 ? (uint32_t)wanted.rows : 1;
    const float *data = tensor->data;
    data += (size_t)turn.direction * rows * (size_t)wanted.cols;
    *out = (struct cell_weight){CELL_F32, rows, (uint32_t)wanted.cols, data};
    return BASE_OK;
}

/* B and P; a definition has no P without B, so that is made of zeros then. */
static enum base_status read_bias(struct cell__import *im, const struct cell__node *node,
                                  struct turn turn, int64_t hidden, struct cell_op *op)
{
    struct weight_input b = {IN_B, "B", 0, 2 * (int64_t)cell_op_gates(op->kind) * hidden};
    struct weight_input p = {IN_P, "P", 0, 3 * hidden};
    if (cell__has_input(node, b.i)) {
        BASE_TRY(read_weight(im, node, b, turn, &op->weights[2]));
        op->n_weights = 3;
    }
    if (!cell__has_input(node, p.i)) {
        return BASE_OK;
    }
    if (op->n_weights < 3) {
        const float *zeros = base_arena_array(im->arena, (size_t)b.cols, sizeof(*zeros));
        if (zeros == NULL) {
            return cell__no_memory(im);
        }
        op->weights[2] = (struct cell_weight){CELL_F32, 1, (uint32_t)b.cols, zeros};
    }
    BASE_TRY(read_weight(im, node, p, turn, &op->weights[3]));
    op->n_weights = 4;
    return BASE_OK;
}

static enum base_status read_weights(struct cell__import *im, const struct cell__node *node,
                                     const struct unit *unit, uint32_t direction,
                                     struct cell__recurrent *recurrent)
{
    const struct turn turn = {direction, recurrent->directions};
    const int64_t gates = cell_op_gates(unit->kind);
    const struct cell__value *x = cell__input(im, node, IN_X);
    const struct cell__value *r = cell__has_input(node, IN_R) ? cell__input(im, node, IN_R) : NULL;
    int64_t hidden =
        r != NULL && r->kind == CELL__CONST && r->tensor.rank == 3 ? r->tensor.dims[2] : 0;
    int64_t width = cell__axis_size(im, &x->shape.axes[2]);
    BASE_TRY(cell__attr_int(im, node, "hidden_size", hidden, &hidden));
    if (r != NULL && r->kind != CELL__CONST) {
        return cell__refuse(im, "the weights R depend on the request; they must be constants");
    }
    if (width < 1 || width > CELL_WIDTH_MAX || hidden < 1 ||
        hidden > CELL_WIDTH_MAX / (2 * gates)) {
        return cell__refuse(im, "input size %lld, hidden size %lld", (long long)width,
                            (long long)hidden);
    }
    recurrent->width = (uint32_t)width;
    recurrent->hidden = (uint32_t)hidden;
    for (uint32_t s = 0; s < recurrent->n_states; s++) {
        recurrent->states[s] = (struct cell_value){CELL_F32, recurrent->hidden};
    }
    struct weight_input w = {IN_W, "W", gates * hidden, width};
    struct weight_input r_input = {IN_R, "R", gates * hidden, hidden};
    BASE_TRY(read_weight(im, node, w, turn, &recurrent->op.weights[0]));
    BASE_TRY(read_weight(im, node, r_input, turn, &recurrent->op.weights[1]));
    recurrent->op.n_weights = 2;
    return read_bias(im, node, turn, hidden, &recurrent->op);
}

/* ---- Shapes ------------------------------------------------------------------------------- */

/* Where time, batch and direction stand in X (rank 3), states (rank 3) and Y (rank 4). */
struct places {
    uint32_t x_time, x_batch, state_batch, state_direction, y_time, y_batch, y_direction;
};

static enum base_status read_places(struct cell__import *im, const struct cell__node *node,
                                    struct places *out)
{
    static const struct places time_first = {0, 1, 1, 0, 0, 2, 1};
    static const struct places batch_first = {1, 0, 0, 1, 1, 0, 2};
    int64_t layout = 0;
    BASE_TRY(cell__attr_int(im, node, "layout", 0, &layout));
    if (layout != 0 && layout != 1) {
        return cell__invalid(im, "layout %lld", (long long)layout);
    }
    *out = layout == 0 ? time_first : batch_first;
    return BASE_OK;
}

/* initial_h or initial_c: its batch axis is X's. */
static enum base_status check_state(struct cell__import *im, const struct cell__node *node,
                                    uint32_t i, const struct places *places,
                                    const struct cell__recurrent *recurrent,
                                    const struct cell__axis *batch)
{
    struct cell__value *value = cell__input(im, node, i);
    const char *name = i == IN_H ? "initial_h" : "initial_c";
    struct cell__shape shape;
    BASE_TRY(cell__shape_of(im, value, &shape));
    if (value->dtype != CELL__F32 || shape.rank != 3 ||
        cell__axis_size(im, &shape.axes[places->state_direction]) != recurrent->directions ||
        cell__axis_size(im, &shape.axes[2]) != recurrent->hidden) {
        return cell__invalid(im,
                             "%s is no float tensor of %u direction%s, batch and %u hidden "
                             "units",
                             name, recurrent->directions, recurrent->directions == 1 ? "" : "s",
                             recurrent->hidden);
    }
    const struct cell__axis *own = &shape.axes[places->state_batch];
    if (value->kind == CELL__CONST && value->tensor.count == 0) {
        return cell__invalid(im, "%s has no rows", name);
    }
    if (value->kind == CELL__CONST) {
        // One constant row serves every row of the batch; see cell__recurrent_state() for more.
        return BASE_OK;
    }
    if (own->n > 1 && cell__axis_is_as_long(im, own, batch) &&
        !cell__axis_is_alike(im, own, batch)) {
        return BASE_OK; // the same rows in another order; see cell__recurrent_state()
    }
    return cell__axis_unite(im, own, batch, name);
}

static enum base_status set_outputs(struct cell__import *im, const struct cell__node *node,
                                    const struct places *places,
                                    const struct cell__recurrent *recurrent,
                                    const struct cell__shape *x)
{
    struct cell__axis hidden;
    struct cell__axis directions;
    BASE_TRY(cell__axis_new(im, recurrent->hidden, &hidden));
    BASE_TRY(cell__axis_new(im, recurrent->directions, &directions));
    struct cell__shape y = {.rank = 4};
    struct cell__shape state = {.rank = 3};
    y.axes[places->y_time] = recurrent->time;
    y.axes[places->y_batch] = x->axes[places->x_batch];
    y.axes[places->y_direction] = directions;
    y.axes[3] = hidden;
    state.axes[places->state_batch] = x->axes[places->x_batch];
    state.axes[places->state_direction] = directions;
    state.axes[2] = hidden;
    cell__set_rows(im, node, CELL__OUT_Y, CELL__F32, &y);
    cell__set_rows(im, node, CELL__OUT_H, CELL__F32, &state);
    cell__set_rows(im, node, CELL__OUT_C, CELL__F32, &state);
    return BASE_OK;
}

static enum base_status check_lengths(struct cell__import *im, const struct cell__node *node,
                                      const struct cell__axis *batch)
{
    const struct cell__value *value = cell__input(im, node, IN_LENGTHS);
    if (value->kind == CELL__CONST) {
        return cell__refuse(im, "sequence_lens is a constant; leave it out, or make it an input");
    }
    if (value->shape.rank != 1 || (value->dtype != CELL__I32 && value->dtype != CELL__I64)) {
        return cell__invalid(im, "sequence_lens is no list of integers");
    }
    return cell__axis_unite(im, &value->shape.axes[0], batch, "sequence_lens");
}

/* Whether each element of a constant is the number of steps. */
static bool are_steps(const struct cell__import *im, const struct cell__value *value,
                      const struct cell__axis *time)
{
    const struct cell__sym steps = cell__sym_of_axis(im, time);
    bool are = value->kind == CELL__CONST && value->tensor.count > 0 &&
               (value->dtype == CELL__I32 || value->dtype == CELL__I64);
    for (size_t i = 0; are && i < value->tensor.count; i++) {
        const struct cell__sym own = cell__tensor_sym(&value->tensor, i);
        are = cell__sym_equal(im, &own, &steps) == 1;
    }
    return are;
}

/* Whether sequence_lens says that each row has all steps, as MXNet writes it: their number, as
 * often as there are rows. */
static bool is_for_all(const struct cell__import *im, const struct cell__node *node,
                       const struct cell__axis *batch, const struct cell__axis *time)
{
    const struct cell__value *value = &im->values[node->inputs[IN_LENGTHS]];
    const struct cell__node *cast = cell__made_by(im, node, IN_LENGTHS, "Cast");
    const struct cell__node *last = cast == NULL ? node : cast;
    const uint32_t i = cast == NULL ? IN_LENGTHS : 0;
    const struct cell__node *tile = cell__made_by(im, last, i, "Tile");
    const struct cell__node *made = tile == NULL ? cell__made_by(im, last, i, "Expand") : tile;
    if (value->kind == CELL__CONST) {
        return value->tensor.rank == 1 && value->tensor.dims[0] == cell__axis_size(im, batch) &&
               are_steps(im, value, time);
    }
    return value->kind == CELL__ROWS && made != NULL && made->inputs[0] != CELL__NONE &&
           are_steps(im, &im->values[made->inputs[0]], time);
}

enum base_status cell__recurrent_new(struct cell__import *im, struct cell__node *node,
                                     const struct cell__recurrent *recurrent)
{
    void *array = im->recurrents;
    BASE_TRY(cell__grow(im, &array, &im->recurrents_room, im->n_recurrents, sizeof(*im->recurrents),
                        (struct cell__limit){CELL_STAGES_MAX, "recurrent nodes"}));
    im->recurrents = array;
    node->recurrent = im->n_recurrents;
    im->recurrents[im->n_recurrents++] = *recurrent;
    return BASE_OK;
}

/* The other direction of a bidirectional node: as the first, but for activations and weights. */
static enum base_status add_reverse(struct cell__import *im, struct cell__node *node,
                                    const struct unit *unit, const struct cell__recurrent *forward)
{
    const uint32_t first = node->recurrent;
    struct cell__recurrent reverse = *forward;
    reverse.is_reverse = true;
    reverse.op = (struct cell_op){.kind = unit->kind};
    BASE_TRY(read_attributes(im, node, unit, 1, &reverse));
    BASE_TRY(read_weights(im, node, unit, 1, &reverse));
    BASE_TRY(cell__recurrent_new(im, node, &reverse));
    node->recurrent = first;
    return BASE_OK;
}

/* Where X is turned round, the node runs the other way, and so is Y; one of both directions takes
 * the steps in their order. */
static enum base_status take_turned(struct cell__import *im, struct cell__node *node,
                                    const struct cell__value *x, struct cell__recurrent *recurrent)
{
    if (!x->is_turned) {
        return BASE_OK;
    }
    if (!cell__is_turned_along(im, x, &recurrent->time) || recurrent->time.n != 1 ||
        recurrent->lengths_value != CELL__NONE) {
        return cell__refuse(im, "X is turned round, and the node has sequence_lens, or it is "
                                "another axis");
    }
    node->takes_straight = recurrent->directions != 1;
    if (node->takes_straight) {
        return BASE_OK;
    }
    recurrent->is_reverse = !recurrent->is_reverse;
    if (cell__has_output(node, CELL__OUT_Y)) {
        cell__output(im, node, CELL__OUT_Y)->is_turned = true;
        cell__output(im, node, CELL__OUT_Y)->turned = x->turned;
    }
    return BASE_OK;
}

static enum base_status read_lengths(struct cell__import *im, struct cell__node *node,
                                     const struct places *places, struct cell__recurrent *recurrent)
{
    const struct cell__shape *x = &cell__input(im, node, IN_X)->shape;
    const struct cell__axis *batch = &x->axes[places->x_batch];
    const bool is_whole = is_for_all(im, node, batch, &x->axes[places->x_time]);
    if (!is_whole || cell__input(im, node, IN_LENGTHS)->kind != CELL__CONST) {
        BASE_TRY(check_lengths(im, node, batch));
    }
    recurrent->lengths_value = is_whole ? CELL__NONE : node->inputs[IN_LENGTHS];
    node->inputs[IN_LENGTHS] = recurrent->lengths_value; // where it says nothing, none is given
    return BASE_OK;
}

enum base_status cell__infer_recurrent(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *x = cell__input(im, node, IN_X);
    const struct unit *unit = unit_of(node);
    struct cell__recurrent recurrent = {.node = im->current,
                                        .word = unit->word,
                                        .lengths_value = CELL__NONE,
                                        .n_states = unit->n_states,
                                        .init_values = {CELL__NONE, CELL__NONE},
                                        .op = {.kind = unit->kind}};
    struct places places;
    BASE_TRY(read_direction(im, node, &recurrent));
    BASE_TRY(read_attributes(im, node, unit, 0, &recurrent));
    BASE_TRY(read_places(im, node, &places));
    if (x->kind != CELL__ROWS) {
        return cell__refuse(im, "X does not depend on the request");
    }
    if (x->dtype != CELL__F32 || x->shape.rank != 3) {
        return cell__invalid(im, "X is of type %s and rank %u; needed: float of rank 3",
                             cell__dtype_name(x->dtype), x->shape.rank);
    }
    BASE_TRY(read_weights(im, node, unit, 0, &recurrent));
    const struct cell__axis *batch = &x->shape.axes[places.x_batch];
    recurrent.is_step = im->is_part || node->scan != CELL__NONE;
    if (recurrent.is_step && (cell__axis_size(im, &x->shape.axes[places.x_time]) != 1 ||
                              cell__has_input(node, IN_LENGTHS))) {
        return cell__refuse(im, "of more than one step inside a body or a part of a model");
    }
    for (uint32_t s = 0; s < unit->n_states; s++) {
        if (cell__has_input(node, IN_H + s)) {
            BASE_TRY(check_state(im, node, IN_H + s, &places, &recurrent, batch));
            recurrent.init_values[s] = node->inputs[IN_H + s];
        }
    }
    if (cell__has_input(node, IN_LENGTHS)) {
        BASE_TRY(read_lengths(im, node, &places, &recurrent));
    }
    recurrent.x_value = node->inputs[IN_X];
    recurrent.time = x->shape.axes[places.x_time];
    recurrent.batch = *batch;
    if (recurrent.lengths_value != CELL__NONE) {
        im->has_lengths = true;
        BASE_TRY(im->parts_lengths
                     ? cell__axis_with_lengths(im, &x->shape.axes[places.x_time], &recurrent.time)
                     : BASE_OK);
    }
    BASE_TRY(set_outputs(im, node, &places, &recurrent, &x->shape));
    BASE_TRY(take_turned(im, node, x, &recurrent));
    BASE_TRY(cell__recurrent_new(im, node, &recurrent));
    return recurrent.directions == 1 ? BASE_OK : add_reverse(im, node, unit, &recurrent);
}

/* ---- Lowering ----------------------------------------------------------------------------- */

/* A direction's row of a constant state, as it stands for the first row of the batch; NULL where
 * other rows of the batch have another. */
static const float *const_state(const struct cell__tensor *tensor,
                                const struct cell__recurrent *recurrent, uint32_t direction,
                                bool is_batch_first)
{
    const float *data = tensor->data;
    const size_t width = recurrent->hidden;
    const size_t n = tensor->count / width / recurrent->directions;
    const size_t between = is_batch_first ? recurrent->directions * width : width;
    const float *first = data + direction * (is_batch_first ? width : n * width);
    bool is_one = true;
    for (size_t i = 1; i < n; i++) {
        is_one = is_one && memcmp(first, first + i * between, width * sizeof(float)) == 0;
    }
    return is_one ? first : NULL;
}

/* Bands that a row of states has: those of a node along steps. */
static uint32_t bands_of(const struct cell__recurrent *recurrent)
{
    return recurrent->is_inner ? 1 : cell_op_patches(&recurrent->op);
}

/* A row of states or outputs, [directions][bands][hidden], and as the node's shapes have it where
 * the batch stands first: [bands][directions][hidden]. */
static enum base_status turn_bands(struct cell__import *im, const struct cell__node *node,
                                   bool is_given, uint32_t *row)
{
    const struct cell__recurrent *recurrent = &im->recurrents[node->recurrent];
    const uint32_t bands = bands_of(recurrent);
    struct places places;
    BASE_TRY(read_places(im, node, &places));
    if (bands == 1 || recurrent->directions == 1 || places.state_batch != 0) {
        return BASE_OK;
    }
    const uint32_t dims[3] = {1, is_given ? bands : recurrent->directions,
                              is_given ? recurrent->directions : bands};
    return cell__row_transpose(im, *row, dims, row);
}

/* Elements of the features that stand beside each other in an axis, from atom *i on, which goes
 * behind them. */
static int64_t count_features(const struct cell__import *im, const struct cell__axis *axis,
                              uint32_t *i)
{
    int64_t n = 1;
    for (; *i < axis->n; ++*i) {
        const struct cell__atom *atom = &im->atoms[cell__atom_root(im, axis->atoms[*i])];
        if (atom->role != CELL__ROLE_FEATURE || atom->size < 0 ||
            !base_i64_mul(n, atom->size, &n)) {
            break;
        }
    }
    return n;
}

/* Whether rows along both axes stand in one order: the same atoms, but for features, of which
 * there may be ten in the place of five times two. */
static bool is_in_order(const struct cell__import *im, const struct cell__axis *a,
                        const struct cell__axis *b)
{
    uint32_t i = 0;
    uint32_t k = 0;
    while (count_features(im, a, &i) == count_features(im, b, &k)) {
        if (i == a->n || k == b->n) {
            return i == a->n && k == b->n;
        }
        const int64_t size = cell__atom_size(im, a->atoms[i]);
        if (cell__atom_root(im, a->atoms[i]) != cell__atom_root(im, b->atoms[k]) &&
            (size < 0 || size != cell__atom_size(im, b->atoms[k]))) {
            return false;
        }
        i++;
        k++;
    }
    return false;
}

enum base_status cell__recurrent_state(struct cell__import *im, const struct cell__node *node,
                                       uint32_t direction, uint32_t s)
{
    struct cell__recurrent *recurrent = &im->recurrents[node->recurrent + direction];
    const uint32_t width = recurrent->states[s].width;
    struct places places;
    recurrent->init_rows[s] = CELL__NONE;
    if (recurrent->init_values[s] == CELL__NONE) {
        return BASE_OK;
    }
    const struct cell__value *value = &im->values[recurrent->init_values[s]];
    uint32_t row = value->row;
    BASE_TRY(read_places(im, node, &places));
    if (value->kind == CELL__CONST) {
        struct cell_value state = {CELL_F32, recurrent->hidden};
        const float *data =
            const_state(&value->tensor, recurrent, direction, places.state_batch == 0);
        if (data == NULL) {
            return cell__refuse(im, "a constant initial state that differs along the batch");
        }
        BASE_TRY(cell__row_const(im, state, data, &row));
    } else if (im->rows[row].value.width == width * recurrent->directions) {
        BASE_TRY(turn_bands(im, node, true, &row));
        BASE_TRY(cell__row_slice(im, row, direction * width, width, &row));
    }
    if (cell__row_is_zero(im, row)) {
        return BASE_OK;
    }
    if (value->kind == CELL__CONST && bands_of(recurrent) > 1) {
        return cell__refuse(im, "a constant initial state of bands that is not zero");
    }
    const struct cell__axis *own = &value->shape.axes[places.state_batch];
    if (value->kind == CELL__ROWS && im->rows[row].is_batched && own->n > 1 &&
        !is_in_order(im, own, &recurrent->batch)) {
        return cell__refuse(im, "an initial state whose rows are in another order than X's");
    }
    if (im->rows[row].times != 0 || im->rows[row].value.width != width) {
        return cell__refuse(im, "an initial state that differs along the time axis");
    }
    return cell__row_as_source(im, row, &recurrent->init_rows[s]);
}

void cell__recurrent_find_lengths(struct cell__import *im, const struct cell__recurrent *recurrent)
{
    struct cell__sequence *sequence = &im->sequences[recurrent->sequence];
    uint32_t v = recurrent->lengths_value;
    for (uint32_t n = im->values[v].node; n != CELL__NONE; n = im->values[v].node) {
        const struct cell__node *node = &im->nodes[n];
        const char *name = node->op == NULL ? "" : node->op->name;
        const bool is_same = strcmp(name, "Cast") == 0 || strcmp(name, "Identity") == 0 ||
                             (strcmp(name, "TopK") == 0 && node->outputs[0] == v); // of all: sorted
        if (!is_same) {
            return;
        }
        v = node->inputs[0];
    }
    for (uint32_t i = 0; i < im->n_inputs && !sequence->has_lengths; i++) {
        if (im->inputs[i] == v) {
            sequence->has_lengths = true;
            sequence->lengths_input = (int32_t)i;
        }
    }
}

enum base_status cell__recurrent_lengths(struct cell__import *im,
                                         const struct cell__recurrent *recurrent)
{
    int32_t input = -1;
    uint32_t of = 0;
    struct cell_told told = {.add = 0};
    if (recurrent->lengths_value != CELL__NONE) {
        if (!cell__row_told(im, im->values[recurrent->lengths_value].row, &told, &of)) {
            return cell__refuse(im, "sequence_lens is not an input of the model, or such a one and "
                                    "some more, over a number");
        }
        input = (int32_t)of;
    }
    for (uint32_t s = 0; input >= 0 && s < im->n_sequences; s++) {
        const struct cell__sequence *other = &im->sequences[s];
        if (s != recurrent->sequence && other->has_lengths && other->lengths_input == input) {
            return cell__refuse(im, "the sequence_lens of another sequence");
        }
    }
    struct cell__sequence *sequence = &im->sequences[recurrent->sequence];
    if (sequence->has_lengths &&
        (sequence->lengths_input != input || !cell__told_is_same(sequence->told, told))) {
        return cell__refuse(im, "another sequence_lens than the recurrent node before it");
    }
    sequence->has_lengths = true;
    sequence->lengths_input = input;
    sequence->told = told;
    return BASE_OK;
}

/* Both directions' rows behind each other become output i. */
static enum base_status set_joined(struct cell__import *im, const struct cell__node *node,
                                   uint32_t i, const uint32_t *rows)
{
    uint32_t row = CELL__NONE;
    BASE_TRY(cell__row_concat(im, rows, im->recurrents[node->recurrent].directions, &row));
    BASE_TRY(turn_bands(im, node, false, &row));
    cell__set_row(im, node, i, row);
    return BASE_OK;
}

/* The row of initial_h or initial_c inside a body; zeros where it is not given. */
static enum base_status step_state(struct cell__import *im, const struct cell__recurrent *recurrent,
                                   uint32_t direction, uint32_t s, uint32_t *out)
{
    struct cell_value value = {CELL_F32, recurrent->hidden};
    uint32_t v = recurrent->init_values[s];
    if (v == CELL__NONE) {
        const float *zeros = base_arena_array(im->arena, value.width, sizeof(*zeros));
        return zeros == NULL ? cell__no_memory(im) : cell__row_const(im, value, zeros, out);
    }
    const struct cell__value *given = &im->values[v];
    const uint32_t width = value.width * recurrent->directions;
    if (given->kind == CELL__CONST && given->tensor.count == width) {
        const float *data = given->tensor.data;
        return cell__row_const(im, value, data + (size_t)direction * value.width, out);
    }
    if (given->kind == CELL__CONST) {
        return cell__refuse(im, "a constant state of several rows");
    }
    if (im->rows[given->row].value.width != width) {
        return cell__refuse(im, "a state of another width");
    }
    return cell__row_slice(im, given->row, direction * value.width, value.width, out);
}

/* Of one step both directions are the same. */
static enum base_status lower_step(struct cell__import *im, const struct cell__node *node)
{
    const uint32_t directions = im->recurrents[node->recurrent].directions;
    const uint32_t n_states = im->recurrents[node->recurrent].n_states;
    uint32_t states[2][2];
    for (uint32_t d = 0; d < directions; d++) {
        const struct cell__recurrent *recurrent = &im->recurrents[node->recurrent + d];
        const uint32_t x = im->values[recurrent->x_value].row;
        uint32_t before[2] = {CELL__NONE, CELL__NONE};
        uint32_t rows[2] = {CELL__NONE, CELL__NONE};
        for (uint32_t s = 0; s < n_states; s++) {
            BASE_TRY(step_state(im, recurrent, d, s, &before[s]));
        }
        BASE_TRY(cell__lower_step(im, recurrent, x, before, rows));
        states[0][d] = rows[0];
        states[1][d] = rows[1];
    }
    BASE_TRY(set_joined(im, node, CELL__OUT_Y, states[0]));
    for (uint32_t s = 0; s < n_states; s++) {
        BASE_TRY(set_joined(im, node, CELL__OUT_H + s, states[s]));
    }
    return BASE_OK;
}

/* What no kernel has becomes the body of a chain, as a Scan's. */
static enum base_status write_out(struct cell__import *im, uint32_t number)
{
    struct cell__recurrent *recurrent = &im->recurrents[number];
    uint32_t states[2] = {CELL__NONE, CELL__NONE};
    for (uint32_t s = 0; s < recurrent->n_states; s++) {
        BASE_TRY(cell__row_recurrent(im, CELL__ROW_IN, number, s, &states[s]));
    }
    recurrent->is_scan = true;
    im->scan = number;
    enum base_status status =
        cell__lower_step(im, recurrent, recurrent->x_row, states, recurrent->next_rows);
    im->scan = CELL__NONE;
    recurrent->output_rows[recurrent->n_outputs++] = recurrent->next_rows[0];
    return status;
}

/* Rows of this part of both directions become output i, if it is wanted. */
static enum base_status lower_output(struct cell__import *im, const struct cell__node *node,
                                     enum cell__row_kind kind, uint32_t part, uint32_t i)
{
    uint32_t rows[2] = {CELL__NONE, CELL__NONE};
    if (!cell__has_output(node, i)) {
        return BASE_OK;
    }
    for (uint32_t d = 0; d < im->recurrents[node->recurrent].directions; d++) {
        BASE_TRY(cell__row_recurrent(im, kind, node->recurrent + d, part, &rows[d]));
    }
    return set_joined(im, node, i, rows);
}

/* Whether nothing that the chain reads is of one row of the batch. */
static bool is_shared(const struct cell__import *im, uint32_t number)
{
    const struct cell__recurrent *recurrent = &im->recurrents[number];
    bool is_batched = im->rows[recurrent->x_row].is_batched;
    for (uint32_t s = 0; s < recurrent->n_states; s++) {
        const uint32_t row = recurrent->init_rows[s];
        is_batched = is_batched || (row != CELL__NONE && im->rows[row].is_batched);
    }
    return !is_batched;
}

enum base_status cell__lower_recurrent(struct cell__import *im, struct cell__node *node)
{
    const struct cell__recurrent *first = &im->recurrents[node->recurrent];
    uint32_t x_row = im->values[first->x_value].row;
    if (first->is_step) {
        return lower_step(im, node);
    }
    if (first->is_inner) {
        return cell__lower_bands(im, node);
    }
    const bool has_own =
        first->time.n == 1 && im->atoms[cell__atom_root(im, first->time.atoms[0])].has_lengths;
    if (has_own && im->rows[x_row].times != 1u << first->sequence) {
        BASE_TRY(cell__row_mirror(im, &first->time, &x_row)); // step by step
    }
    if ((im->rows[x_row].times & ~(1u << first->sequence)) != 0) {
        return cell__refuse(im, "X has the steps of another sequence than its time axis");
    }
    BASE_TRY(cell__row_as_source(im, x_row, &x_row));
    BASE_TRY(cell__recurrent_lengths(im, first));
    for (uint32_t d = 0; d < first->directions; d++) {
        im->recurrents[node->recurrent + d].x_row = x_row;
        for (uint32_t s = 0; s < first->n_states; s++) {
            BASE_TRY(cell__recurrent_state(im, node, d, s));
        }
        im->recurrents[node->recurrent + d].is_shared = is_shared(im, node->recurrent + d);
        if (im->recurrents[node->recurrent + d].is_written_out) {
            BASE_TRY(write_out(im, node->recurrent + d));
        }
    }
    const bool is_timed = im->rows[x_row].times != 0 || cell__is_told(im, &first->time);
    if (!is_timed && cell__axis_has(im, &first->time, CELL__ROLE_TIME)) {
        return cell__refuse(im, "X is the same at every step, so a request cannot tell how many");
    }
    BASE_TRY(lower_output(im, node, is_timed ? CELL__ROW_STEP : CELL__ROW_STATE, 0, CELL__OUT_Y));
    for (uint32_t s = 0; s < first->n_states; s++) {
        BASE_TRY(lower_output(im, node, CELL__ROW_STATE, s, CELL__OUT_H + s));
    }
    return BASE_OK;
}
