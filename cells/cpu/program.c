/* From a definition to a program: places, order, barriers, memory; see program.h. Runs on the
 * thread that loads types; nothing here runs while a batch does. */
#include "cells/cpu/program.h"

#include "base/assert.h"
#include "base/checked.h"
#include "base/mem.h"
#include "cells/batch.h"

#include <string.h>

/* Scratch of a block of rows should stay in a core's cache, but weights should not be streamed for
 * too few rows either. */
#define BLOCK_BYTES    (1u << 20)
#define BLOCK_ROWS_MIN 16u

static size_t value_bytes(struct cell_value value)
{
    size_t bytes = (size_t)value.width * cell_dtype_bytes(value.dtype);
    return (bytes + BASE_CACHE_LINE - 1) / BASE_CACHE_LINE * BASE_CACHE_LINE;
}

/* ---- Places --------------------------------------------------------------------------------- */

/* Adds a value of the program's own. */
static uint32_t add_value(struct cell_program *program, struct cell_value shape,
                          enum cell_place place, uint32_t index)
{
    base_assert(program->n_values < CELL_PROGRAM_VALUES_MAX);
    program->values[program->n_values] = (struct cell_program_value){shape, place, index};
    return program->n_values++;
}

/* A result that becomes a state is written there; the first such state, if several. */
static void place_result(struct cell_program *program, uint32_t value)
{
    const struct cell_def *def = &program->type->def;
    program->values[value].place = CELL_PLACE_SCRATCH;
    for (uint32_t s = 0; s < def->n_states; s++) {
        if (def->state_next[s] == value) {
            program->values[value].place = CELL_PLACE_NEXT;
            program->values[value].index = s;
            return;
        }
    }
}

static void mark_read(struct cell_program *program, uint32_t value, bool is_read[])
{
    base_assert(value < program->n_values);
    is_read[value] = true;
}

/* Places inputs, states and results; what nobody reads, and no op must write, gets none. */
static void place_values(struct cell_program *program)
{
    const struct cell_def *def = &program->type->def;
    bool is_read[CELL_VALUES_MAX] = {false};
    program->n_values = def->n_values;
    for (uint32_t v = 0; v < def->n_values; v++) {
        program->values[v].shape = def->values[v];
    }
    for (uint32_t o = 0; o < def->n_ops; o++) {
        const struct cell_op *op = &def->ops[o];
        for (uint32_t i = 0; i < op->n_operands; i++) {
            mark_read(program, op->operands[i], is_read);
        }
        place_result(program, op->result);
        if (op->kind == CELL_OP_LSTM) {
            place_result(program, op->result + 1);
        } else if (op->kind == CELL_OP_GATHER) {
            program->values[op->result].place = CELL_PLACE_TABLE;
        } else if (op->kind == CELL_OP_CONST) {
            program->values[op->result].place = CELL_PLACE_CONST;
        }
    }
    for (uint32_t s = 0; s < def->n_states; s++) {
        mark_read(program, def->state_next[s], is_read);
        program->values[def->n_inputs + s].place = CELL_PLACE_STATE;
        program->values[def->n_inputs + s].index = s;
    }
    for (uint32_t o = 0; o < def->n_outputs; o++) {
        mark_read(program, def->outputs[o], is_read);
    }
    for (uint32_t i = 0; i < def->n_inputs; i++) {
        program->values[i].place = is_read[i] ? CELL_PLACE_INPUT : CELL_PLACE_NONE;
        program->values[i].index = i;
    }
}

/* ---- Ops ------------------------------------------------------------------------------------ */

static struct cell_program_op *add_op(struct cell_program *program, enum cell_op_kind kind,
                                      enum cell_share share)
{
    base_assert(program->n_ops < CELL_PROGRAM_OPS_MAX);
    struct cell_program_op *op = &program->ops[program->n_ops++];
    op->kind = kind;
    op->share = share;
    return op;
}

static void add_copy(struct cell_program *program, uint32_t from, uint32_t to)
{
    struct cell_program_op *copy = add_op(program, CELL_OP_COPY, CELL_SHARE_ROWS);
    copy->in[0] = from;
    copy->out = to;
}

/* The LSTM kernel reads c by whole vectors: c from a place without that room is copied first. */
static uint32_t padded_c(struct cell_program *program, uint32_t c)
{
    enum cell_place place = program->values[c].place;
    if (place == CELL_PLACE_STATE || place == CELL_PLACE_NEXT || place == CELL_PLACE_SCRATCH) {
        return c;
    }
    uint32_t copy = add_value(program, program->values[c].shape, CELL_PLACE_SCRATCH, 0);
    add_copy(program, c, copy);
    return copy;
}

static enum cell_share share_of(enum cell_op_kind kind)
{
    if (kind == CELL_OP_GATHER) {
        return CELL_SHARE_EACH;
    }
    bool is_product = kind == CELL_OP_LINEAR || kind == CELL_OP_LSTM;
    return is_product ? CELL_SHARE_PANELS : CELL_SHARE_ROWS;
}

static void list_ops(struct cell_program *program)
{
    const struct cell_def *def = &program->type->def;
    for (uint32_t o = 0; o < def->n_ops; o++) {
        const struct cell_op *from = &def->ops[o];
        if (from->kind == CELL_OP_CONST) {
            continue;
        }
        uint32_t c =
            from->kind == CELL_OP_LSTM ? padded_c(program, from->operands[2]) : CELL_VALUES_MAX;
        struct cell_program_op *op = add_op(program, from->kind, share_of(from->kind));
        op->op = from;
        op->out = from->result;
        memcpy(op->in, from->operands, sizeof(op->in));
        if (from->kind == CELL_OP_LSTM) {
            op->in[2] = c;
            op->lstm_c = from->result + 1;
        }
    }
    for (uint32_t s = 0; s < def->n_states; s++) {
        uint32_t value = def->state_next[s];
        bool is_there =
            program->values[value].place == CELL_PLACE_NEXT && program->values[value].index == s;
        program->next_value[s] =
            is_there ? value : add_value(program, program->values[value].shape, CELL_PLACE_NEXT, s);
        if (!is_there) {
            add_copy(program, value, program->next_value[s]);
        }
    }
}

static uint32_t count_operands(const struct cell_program_op *op)
{
    return op->op == NULL ? 1 : op->op->n_operands;
}

/* Barriers: an op needs one before it when an operand was written since the last one by a member
 * other than its reader. Rows are always shared out alike, so what was written by rows may be read
 * by rows. */
static void place_barriers(struct cell_program *program)
{
    enum cell_share written[CELL_PROGRAM_VALUES_MAX] = {CELL_SHARE_EACH};
    for (uint32_t o = 0; o < program->n_ops; o++) {
        struct cell_program_op *op = &program->ops[o];
        for (uint32_t i = 0; i < count_operands(op); i++) {
            enum cell_share by = written[op->in[i]];
            op->barrier_before |=
                by == CELL_SHARE_PANELS || (by == CELL_SHARE_ROWS && op->share != CELL_SHARE_ROWS);
        }
        if (op->barrier_before) {
            memset(written, 0, sizeof(written));
        }
        written[op->out] = op->share;
        if (op->kind == CELL_OP_LSTM) {
            written[op->lstm_c] = op->share;
        }
    }
    for (uint32_t v = 0; v < program->n_values; v++) {
        program->ends_on_panels |= written[v] == CELL_SHARE_PANELS;
    }
}

/* Without a barrier after the emits, the next step may run while a slower member still emits this
 * one. That is safe for what the next step does not write: a next state that is held twice, an
 * input, a weight. (A state that is emitted each step out of one copy is seen by the run.) */
static void decide_settling(struct cell_program *program)
{
    const struct cell_def *def = &program->type->def;
    program->settles = !program->ends_on_panels;
    for (uint32_t o = 0; o < def->n_outputs; o++) {
        const struct cell_program_value *value = &program->values[def->outputs[o]];
        program->settles |=
            value->place == CELL_PLACE_SCRATCH || value->place == CELL_PLACE_STATE ||
            (value->place == CELL_PLACE_NEXT && cell_state_in_place(def, value->index));
    }
}

/* ---- Weights -------------------------------------------------------------------------------- */

static enum base_status load_lstm(const struct cell_kernels *kernels, struct cell_program_op *op)
{
    const struct cell_weight *weights = op->op->weights;
    op->lstm.inputs = weights[0].cols;
    op->lstm.hidden = weights[1].cols;
    op->lstm.w = weights[0].data;
    op->lstm.r = weights[1].data;
    op->lstm.b = op->op->n_weights > 2 ? weights[2].data : NULL;
    return kernels->lstm_load(&op->lstm);
}

static enum base_status load_linear(const struct cell_kernels *kernels, struct cell_program_op *op)
{
    const struct cell_weight *weights = op->op->weights;
    op->linear.inputs = weights[0].rows;
    op->linear.outputs = weights[0].cols;
    op->linear.w = weights[0].data;
    op->linear.b = op->op->n_weights > 1 ? weights[1].data : NULL;
    return kernels->linear_load(&op->linear);
}

static enum base_status load_weights(struct cell_program *program)
{
    enum base_status status = BASE_OK;
    for (uint32_t o = 0; o < program->n_ops && status == BASE_OK; o++) {
        struct cell_program_op *op = &program->ops[o];
        if (op->kind == CELL_OP_LSTM) {
            status = load_lstm(program->kernels, op);
        } else if (op->kind == CELL_OP_LINEAR) {
            status = load_linear(program->kernels, op);
        }
    }
    return status;
}

/* ---- Memory --------------------------------------------------------------------------------- */

static size_t scratch_floats(const struct cell_program *program)
{
    size_t most = 0;
    for (uint32_t o = 0; o < program->n_ops; o++) {
        const struct cell_program_op *op = &program->ops[o];
        size_t floats = 0;
        if (op->kind == CELL_OP_LSTM) {
            floats = program->kernels->scratch_floats(op->lstm.inputs + op->lstm.hidden,
                                                      4 * op->lstm.hidden, program->block_rows);
        } else if (op->kind == CELL_OP_LINEAR) {
            floats = program->kernels->scratch_floats(op->linear.inputs, op->linear.outputs,
                                                      program->block_rows);
        }
        most = floats > most ? floats : most;
    }
    return most;
}

static void choose_block(struct cell_program *program)
{
    size_t row_bytes = 0;
    for (uint32_t v = 0; v < program->n_values; v++) {
        if (program->values[v].place == CELL_PLACE_SCRATCH) {
            row_bytes += value_bytes(program->values[v].shape);
        }
    }
    size_t rows = row_bytes == 0 ? CELL_BATCH_ROWS_MAX : BLOCK_BYTES / row_bytes;
    rows = rows < BLOCK_ROWS_MIN ? BLOCK_ROWS_MIN : rows;
    rows = rows > CELL_BATCH_ROWS_MAX ? CELL_BATCH_ROWS_MAX : rows;
    program->block_rows = (uint32_t)rows;
}

/* Where the rows of a CONST or scratch value stand never changes: their pointers are filled here.
 * The others get room for pointers, filled at each step. NULL when out of memory. */
static uint8_t **make_pointers(struct cell_program *program, uint32_t value,
                               const struct cell_op *constant)
{
    uint32_t rows = program->block_rows;
    uint8_t **pointers = base_arena_array(&program->arena, rows, sizeof(*pointers));
    if (pointers == NULL) {
        return NULL;
    }
    size_t stride = value_bytes(program->values[value].shape);
    uint8_t *data = NULL;
    if (constant != NULL) {
        stride = 0;
        data =
            base_arena_alloc_aligned64(&program->arena, value_bytes(program->values[value].shape));
        if (data != NULL) {
            memcpy(data, constant->weights[0].data,
                   (size_t)constant->weights[0].cols *
                       cell_dtype_bytes(constant->weights[0].dtype));
        }
    } else if (program->values[value].place == CELL_PLACE_SCRATCH) {
        data = base_arena_alloc_aligned64(&program->arena, rows * stride);
    } else {
        return pointers;
    }
    for (uint32_t r = 0; r < rows && data != NULL; r++) {
        pointers[r] = data + r * stride;
    }
    return data == NULL ? NULL : pointers;
}

static const struct cell_op *constant_of(const struct cell_program *program, uint32_t value)
{
    const struct cell_def *def = &program->type->def;
    for (uint32_t o = 0; o < def->n_ops; o++) {
        if (def->ops[o].kind == CELL_OP_CONST && def->ops[o].result == value) {
            return &def->ops[o];
        }
    }
    return NULL;
}

/* Members share the rows of scratch and constants, and have their own of everything else. */
static enum base_status make_spaces(struct cell_program *program, uint32_t queue)
{
    uint32_t members = program->n_members[queue];
    size_t floats = scratch_floats(program);
    struct cell_space *spaces = base_arena_array(&program->arena, members, sizeof(*spaces));
    if (spaces == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    program->spaces[queue] = spaces;
    for (uint32_t m = 0; m < members; m++) {
        spaces[m].active =
            base_arena_array(&program->arena, CELL_BATCH_ROWS_MAX, sizeof(spaces[m].active[0]));
        spaces[m].scratch = base_arena_alloc_aligned64(&program->arena, floats * sizeof(float));
        if (spaces[m].active == NULL || spaces[m].scratch == NULL) {
            return BASE_RESOURCE_EXHAUSTED;
        }
        for (uint32_t v = 0; v < program->n_values; v++) {
            enum cell_place place = program->values[v].place;
            bool is_shared = place == CELL_PLACE_SCRATCH || place == CELL_PLACE_CONST;
            if (place == CELL_PLACE_NONE) {
                continue;
            }
            spaces[m].rows[v] = is_shared && m > 0
                                    ? spaces[0].rows[v]
                                    : make_pointers(program, v, constant_of(program, v));
            if (spaces[m].rows[v] == NULL) {
                return BASE_RESOURCE_EXHAUSTED;
            }
        }
    }
    return BASE_OK;
}

static enum base_status make_memory(struct cell_program *program, uint32_t n_queues,
                                    const uint32_t *n_members)
{
    const struct cell_def *def = &program->type->def;
    size_t widest = BASE_CACHE_LINE;
    for (uint32_t v = 0; v < def->n_inputs + def->n_states; v++) {
        size_t bytes = value_bytes(def->values[v]);
        widest = bytes > widest ? bytes : widest;
    }
    program->n_queues = n_queues;
    program->zeros = base_arena_alloc_aligned64(&program->arena, widest);
    program->n_members = base_arena_array(&program->arena, n_queues, sizeof(uint32_t));
    program->spaces = base_arena_array(&program->arena, n_queues, sizeof(struct cell_space *));
    if (program->zeros == NULL || program->n_members == NULL || program->spaces == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    memcpy(program->n_members, n_members, n_queues * sizeof(uint32_t));
    for (uint32_t q = 0; q < n_queues; q++) {
        BASE_TRY(make_spaces(program, q));
    }
    return BASE_OK;
}

/* ---- Life cycle ----------------------------------------------------------------------------- */

enum base_status cell_program_create(const struct cell_type *type,
                                     const struct cell_kernels *kernels, uint32_t n_queues,
                                     const uint32_t *n_members, struct cell_program **out,
                                     struct base_error *error)
{
    struct cell_program *program = base_alloc(sizeof(*program));
    if (program == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "cell type %s: out of memory", type->name);
    }
    base_arena_init(&program->arena, 1u << 16, PTRDIFF_MAX);
    program->type = type;
    program->kernels = kernels;
    place_values(program);
    list_ops(program);
    place_barriers(program);
    decide_settling(program);
    choose_block(program);
    enum base_status status = load_weights(program);
    if (status == BASE_OK) {
        status = make_memory(program, n_queues, n_members);
    }
    if (status != BASE_OK) {
        cell_program_free(program);
        return base_fail(error, status, "cell type %s: out of memory", type->name);
    }
    *out = program;
    return BASE_OK;
}

void cell_program_free(struct cell_program *program)
{
    if (program == NULL) {
        return;
    }
    for (uint32_t o = 0; o < program->n_ops; o++) {
        cell_lstm_release(&program->ops[o].lstm);
        cell_linear_release(&program->ops[o].linear);
    }
    base_arena_release(&program->arena);
    base_free(program);
}
