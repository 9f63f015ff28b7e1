/* Chains of element-wise ops become one op: the values between them stay in a core's L1 and need no
 * rows (EcoRNN, section 5; DeepCPU, section 4.3). Runs on the thread that loads types, once a type;
 * quadratic in the ops of a cell, of which there are at most some hundred.
 *
 * Ops are put in a new order: all that are no element-wise ones first, as far as their operands
 * allow, so that chains grow long; operands still come before their readers. */
#include "cells/cpu/program.h"

#include "base/assert.h"
#include "base/mem.h"

#include <string.h>

struct fusing {
    struct cell_program *program;
    struct cell_program_op ops[CELL_PROGRAM_OPS_MAX]; /* as they were */
    uint32_t n_ops;
    bool is_done[CELL_PROGRAM_OPS_MAX];
    uint32_t made_by[CELL_PROGRAM_VALUES_MAX]; /* op, or OPS_MAX: there from the start */
};

/* A chain while it grows. */
struct growth {
    struct cell_pointwise *chain;
    struct cell_program_op op;
    uint32_t members[CELL_POINTWISE_VALUES_MAX]; /* ops of the fusing */
    uint32_t number_of[CELL_PROGRAM_VALUES_MAX]; /* in the chain; VALUES_MAX: not in it */
};

static bool is_ready(const struct fusing *fusing, uint32_t o)
{
    for (uint32_t i = 0; i < fusing->ops[o].n_in; i++) {
        uint32_t maker = fusing->made_by[fusing->ops[o].in[i]];
        if (maker != CELL_PROGRAM_OPS_MAX && !fusing->is_done[maker]) {
            return false;
        }
    }
    return !fusing->is_done[o];
}

/* The first op that is ready, element-wise or not; OPS_MAX: none. */
static uint32_t next_ready(const struct fusing *fusing, bool is_pointwise)
{
    for (uint32_t o = 0; o < fusing->n_ops; o++) {
        if (cell_op_is_pointwise(fusing->ops[o].kind) == is_pointwise && is_ready(fusing, o)) {
            return o;
        }
    }
    return CELL_PROGRAM_OPS_MAX;
}

static uint32_t width_of(const struct fusing *fusing, uint32_t value)
{
    return fusing->program->values[value].shape.width;
}

/* Whether the op can be added: same width, same phase, and room for its values. */
static bool may_join(const struct fusing *fusing, const struct growth *growth, uint32_t o)
{
    const struct cell_program_op *op = &fusing->ops[o];
    return cell_op_is_pointwise(op->kind) && is_ready(fusing, o) &&
           width_of(fusing, op->out) == growth->chain->width &&
           op->fills_windows == growth->op.fills_windows &&
           op->is_only_ahead == growth->op.is_only_ahead &&
           growth->chain->n_values + op->n_in + 1 <= CELL_POINTWISE_VALUES_MAX;
}

/* Of an operand that is shorter than the chain and read again. */
static uint32_t number_of_repeated(struct growth *growth, uint32_t value,
                                   const struct cell_repeats *repeats)
{
    struct cell_pointwise *chain = growth->chain;
    for (uint32_t number = 0; number < chain->n_values; number++) {
        const struct cell_pointwise_value *known = &chain->values[number];
        if (growth->op.chain_values[number] == value && known->times == repeats->times &&
            known->part == repeats->part) {
            return number;
        }
    }
    chain->values[chain->n_values] = (struct cell_pointwise_value){
        .tile = CELL_POINTWISE_ROW, .times = repeats->times, .part = repeats->part};
    growth->op.chain_values[chain->n_values] = value;
    return chain->n_values++;
}

static uint32_t number_of(const struct fusing *fusing, struct growth *growth, uint32_t value)
{
    struct cell_pointwise *chain = growth->chain;
    if (growth->number_of[value] == CELL_POINTWISE_VALUES_MAX) {
        uint32_t number = chain->n_values++;
        bool is_single = width_of(fusing, value) == 1 && chain->width > 1;
        chain->values[number] =
            (struct cell_pointwise_value){.tile = CELL_POINTWISE_ROW, .is_single = is_single};
        growth->op.chain_values[number] = value;
        growth->number_of[value] = number;
    }
    return growth->number_of[value];
}

static void join(struct fusing *fusing, struct growth *growth, uint32_t o)
{
    const struct cell_program_op *op = &fusing->ops[o];
    struct cell_pointwise *chain = growth->chain;
    growth->members[chain->n_ops] = o;
    struct cell_pointwise_op *to = &chain->ops[chain->n_ops++];
    *to = (struct cell_pointwise_op){.kind = op->kind, .n_in = op->n_in};
    for (uint32_t i = 0; i < op->n_in; i++) {
        to->in[i] = op->repeats[i].times > 1
                        ? number_of_repeated(growth, op->in[i], &op->repeats[i])
                        : number_of(fusing, growth, op->in[i]);
    }
    to->out = number_of(fusing, growth, op->out);
    fusing->is_done[o] = true;
}

/* Whether anything but the chain reads a value that it makes. */
static bool is_read_outside(const struct fusing *fusing, const struct growth *growth,
                            uint32_t value)
{
    const struct cell_program *program = fusing->program;
    const struct cell_def *def = &program->type->def;
    if (program->values[value].place != CELL_PLACE_SCRATCH) {
        return true; // a state
    }
    for (uint32_t i = 0; i < def->n_outputs; i++) {
        if (def->outputs[i] == value) {
            return true;
        }
    }
    for (uint32_t o = 0; o < fusing->n_ops; o++) {
        bool is_member = false;
        for (uint32_t m = 0; m < growth->chain->n_ops; m++) {
            is_member |= growth->members[m] == o;
        }
        for (uint32_t i = 0; !is_member && i < fusing->ops[o].n_in; i++) {
            if (fusing->ops[o].in[i] == value) {
                return true;
            }
        }
    }
    return false;
}

/* The last op of the chain that reads a value, or the one that makes it. */
static uint32_t last_use(const struct cell_pointwise *chain, uint32_t number)
{
    uint32_t last = 0;
    for (uint32_t o = 0; o < chain->n_ops; o++) {
        const struct cell_pointwise_op *op = &chain->ops[o];
        for (uint32_t i = 0; i < op->n_in; i++) {
            last = op->in[i] == number ? o : last;
        }
        last = op->out == number ? o : last;
    }
    return last;
}

/* Values that nobody else reads go to tiles, each tile to the next value once it is free; what
 * finds none keeps its row. */
static void give_tiles(struct fusing *fusing, struct growth *growth)
{
    struct cell_pointwise *chain = growth->chain;
    uint32_t free_from[CELL_POINTWISE_TILES_MAX] = {0};
    for (uint32_t o = 0; o < chain->n_ops; o++) {
        uint32_t number = chain->ops[o].out;
        uint32_t value = growth->op.chain_values[number];
        uint32_t tile = 0;
        if (is_read_outside(fusing, growth, value)) {
            continue;
        }
        // A tile whose last reader is this very op will do: elements are read before written.
        while (tile < CELL_POINTWISE_TILES_MAX && free_from[tile] > o) {
            tile++;
        }
        if (tile < CELL_POINTWISE_TILES_MAX) {
            free_from[tile] = last_use(chain, number);
            chain->values[number].tile = tile;
            fusing->program->values[value].place = CELL_PLACE_NONE;
        }
    }
}

static enum base_status begin_chain(struct fusing *fusing, struct growth *growth, uint32_t first)
{
    struct cell_program *program = fusing->program;
    const struct cell_program_op *op = &fusing->ops[first];
    *growth = (struct growth){.op = {.kind = CELL_OP_COUNT,
                                     .share = CELL_SHARE_ROWS,
                                     .out = CELL_VALUES_MAX,
                                     .second = CELL_VALUES_MAX,
                                     .fills_windows = op->fills_windows,
                                     .is_only_ahead = op->is_only_ahead}};
    for (uint32_t v = 0; v < CELL_PROGRAM_VALUES_MAX; v++) {
        growth->number_of[v] = CELL_POINTWISE_VALUES_MAX;
    }
    growth->chain = base_arena_alloc(&program->arena, sizeof(*growth->chain));
    growth->op.chain_values =
        base_arena_array(&program->arena, CELL_POINTWISE_VALUES_MAX, sizeof(uint32_t));
    if (growth->chain == NULL || growth->op.chain_values == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    growth->op.chain = growth->chain;
    growth->chain->width = width_of(fusing, op->out);
    return BASE_OK;
}

static enum base_status add_chain(struct fusing *fusing, uint32_t first)
{
    struct growth growth;
    BASE_TRY(begin_chain(fusing, &growth, first));
    join(fusing, &growth, first);
    bool is_alone = fusing->program->type->def.as_written;
    for (uint32_t o = 0; o < fusing->n_ops && !is_alone; o++) {
        if (may_join(fusing, &growth, o)) {
            join(fusing, &growth, o);
            o = UINT32_MAX; // what came before may have become ready
        }
    }
    give_tiles(fusing, &growth);
    fusing->program->ops[fusing->program->n_ops++] = growth.op;
    return BASE_OK;
}

static void begin(struct fusing *fusing, struct cell_program *program)
{
    fusing->program = program;
    fusing->n_ops = program->n_ops;
    memcpy(fusing->ops, program->ops, sizeof(fusing->ops));
    for (uint32_t v = 0; v < CELL_PROGRAM_VALUES_MAX; v++) {
        fusing->made_by[v] = CELL_PROGRAM_OPS_MAX;
    }
    for (uint32_t o = 0; o < fusing->n_ops; o++) {
        fusing->made_by[fusing->ops[o].out] = o;
        if (fusing->ops[o].second != CELL_VALUES_MAX) {
            fusing->made_by[fusing->ops[o].second] = o;
        }
    }
    program->n_ops = 0;
}

/* The next op, or chain. */
static enum base_status add_next(struct fusing *fusing, bool *is_done)
{
    struct cell_program *program = fusing->program;
    uint32_t next = next_ready(fusing, false);
    if (next != CELL_PROGRAM_OPS_MAX) {
        program->ops[program->n_ops++] = fusing->ops[next];
        fusing->is_done[next] = true;
        return BASE_OK;
    }
    next = next_ready(fusing, true);
    *is_done = next == CELL_PROGRAM_OPS_MAX;
    return *is_done ? BASE_OK : add_chain(fusing, next);
}

enum base_status cell_program_fuse(struct cell_program *program)
{
    struct fusing *fusing = base_alloc(sizeof(*fusing));
    if (fusing == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    begin(fusing, program);
    enum base_status status = BASE_OK;
    bool is_done = false;
    while (status == BASE_OK && !is_done) {
        status = add_next(fusing, &is_done);
    }
    for (uint32_t o = 0; o < fusing->n_ops && status == BASE_OK; o++) {
        base_assert(fusing->is_done[o]); // a definition has no circles
    }
    base_free(fusing);
    return status;
}
