/* See transducer.h. One step is one look at a frame:
 *
 *   what the predictor makes of the labels, if the last step has said one; else what it was
 *   the frame's row | the joiner | the largest logit: a label, or the blank
 *   the blank, or as many labels as a frame may have: on to the next frame
 *
 * So a row takes a step for each frame and a step for each label, at its own pace, and ends behind
 * its last frame. What of the joiner depends on the encoder alone is made once a frame, before the
 * first step, what depends on the predictor alone once a label: a step does the rest. */
#include "cells/transducer.h"

#include "base/assert.h"

#include <string.h>

/* What a value of the joiner is made of. */
enum { OF_FRAME = 1, OF_PREDICTOR = 2 };

struct writing {
    const struct cell_transducer *t;
    struct cell_transducer_cells *out;
    struct cell_def *def; /* that is being written */
    struct base_error *error;
    bool is_full;
    unsigned made_of[CELL_VALUES_MAX];   /* of the joiner's values */
    uint32_t frames[CELL_VALUES_MAX];    /* joiner's value -> the frame cell's */
    uint32_t predicted[CELL_VALUES_MAX]; /* predictor's value -> the step's */
    uint32_t joined[CELL_VALUES_MAX];    /* joiner's value -> the step's */
    uint32_t state;                      /* the next to be given away */
};

static const float zero = 0.0f;
static const float one = 1.0f;

static uint32_t add_value(struct writing *w, struct cell_value shape)
{
    if (w->def->n_values == CELL_VALUES_MAX) {
        w->is_full = true;
        return 0;
    }
    w->def->values[w->def->n_values] = shape;
    return w->def->n_values++;
}

/* The op with a result of this shape. */
static uint32_t add_op(struct writing *w, struct cell_op op, struct cell_value shape)
{
    op.result = add_value(w, shape);
    if (w->is_full || w->def->n_ops == CELL_OPS_MAX) {
        w->is_full = true;
        return 0;
    }
    w->def->ops[w->def->n_ops++] = op;
    return op.result;
}

static const struct cell_value number = {CELL_F32, 1};

static uint32_t add_number(struct writing *w, const float *at)
{
    return add_op(
        w,
        (struct cell_op){.kind = CELL_OP_CONST, .n_weights = 1, .weights = {{CELL_F32, 1, 1, at}}},
        number);
}

static uint32_t add_pair(struct writing *w, enum cell_op_kind kind, uint32_t a, uint32_t b)
{
    return add_op(w, (struct cell_op){.kind = kind, .n_operands = 2, .operands = {a, b}}, number);
}

static uint32_t add_cast(struct writing *w, uint32_t of, enum cell_dtype to)
{
    return add_op(w, (struct cell_op){.kind = CELL_OP_CAST, .n_operands = 1, .operands = {of}},
                  (struct cell_value){to, w->def->values[of].width});
}

/* a where the condition is above 0, else b; floats. */
static uint32_t add_select(struct writing *w, uint32_t condition, uint32_t a, uint32_t b)
{
    return add_op(
        w, (struct cell_op){.kind = CELL_OP_SELECT, .n_operands = 3, .operands = {condition, a, b}},
        w->def->values[a]);
}

/* An op of a part's definition; map: the part's values -> the definition's. */
static void copy_op(struct writing *w, const struct cell_def *from, uint32_t o, uint32_t *map)
{
    struct cell_op op = from->ops[o];
    for (uint32_t i = 0; i < op.n_operands; i++) {
        op.operands[i] = map[op.operands[i]];
    }
    const uint32_t result = from->ops[o].result;
    map[result] = add_op(w, op, from->values[result]);
    for (uint32_t i = 1; i < cell_op_results(op.kind); i++) {
        map[result + i] = add_value(w, from->values[result + i]);
    }
}

/* ---- The joiner's two sides --------------------------------------------------------------- */

static void mark_joiner(struct writing *w)
{
    const struct cell_def *def = w->t->joiner;
    for (uint32_t i = 0; i < def->n_inputs; i++) {
        w->made_of[i] = w->t->is_frame[i] ? OF_FRAME : OF_PREDICTOR;
    }
    for (uint32_t o = 0; o < def->n_ops; o++) {
        const struct cell_op *op = &def->ops[o];
        unsigned made_of = 0;
        for (uint32_t i = 0; i < op->n_operands; i++) {
            made_of |= w->made_of[op->operands[i]];
        }
        for (uint32_t i = 0; i < cell_op_results(op->kind); i++) {
            w->made_of[op->result + i] = made_of;
        }
    }
}

/* Whether the value is of one side and read by what is of both. */
static bool is_between(const struct writing *w, uint32_t value)
{
    const struct cell_def *def = w->t->joiner;
    bool is_read = false;
    for (uint32_t o = 0; o < def->n_ops; o++) {
        const struct cell_op *op = &def->ops[o];
        const bool is_of_both = w->made_of[op->result] == (OF_FRAME | OF_PREDICTOR);
        for (uint32_t i = 0; i < op->n_operands; i++) {
            is_read |= is_of_both && op->operands[i] == value;
        }
    }
    return is_read;
}

/* Ops of the joiner that are made of this; of nothing: constants, which both sides may read. */
static void copy_joiner(struct writing *w, unsigned made_of, uint32_t *map)
{
    const struct cell_def *def = w->t->joiner;
    for (uint32_t o = 0; o < def->n_ops; o++) {
        if (w->made_of[def->ops[o].result] == made_of) {
            copy_op(w, def, o, map);
        }
    }
}

/* ---- The cell of frames, and what the step reads of each ---------------------------------- */

static enum base_status add_memory(struct writing *w, uint32_t value)
{
    struct cell_transducer_cells *out = w->out;
    const struct cell_def *joiner = w->t->joiner;
    const bool is_made = value >= joiner->n_inputs;
    if (joiner->values[value].dtype != CELL_F32 || out->n_memories == CELL_INPUTS_MAX ||
        (is_made && out->frame.n_outputs == CELL_OUTPUTS_MAX)) {
        return base_fail(w->error, BASE_UNIMPLEMENTED,
                         "joiner.onnx: reads integers, or too much, of each frame");
    }
    if (is_made) {
        out->frame.outputs[out->frame.n_outputs++] = w->frames[value];
    }
    out->memories[out->n_memories++] = (struct cell_transducer_memory){
        .is_made = is_made, .index = is_made ? out->frame.n_outputs - 1 : value};
    return BASE_OK;
}

static enum base_status write_frame(struct writing *w)
{
    const struct cell_def *joiner = w->t->joiner;
    w->def = &w->out->frame;
    w->def->n_inputs = joiner->n_inputs;
    w->def->products = joiner->products;
    for (uint32_t i = 0; i < joiner->n_inputs; i++) {
        w->frames[i] = add_value(w, joiner->values[i]);
    }
    copy_joiner(w, 0, w->frames);
    copy_joiner(w, OF_FRAME, w->frames);
    for (uint32_t v = 0; v < joiner->n_values; v++) {
        if (w->made_of[v] == OF_FRAME && is_between(w, v)) {
            BASE_TRY(add_memory(w, v));
        }
    }
    base_assert(w->out->n_memories > 0); // the logits are made of both sides
    return BASE_OK;
}

/* ---- The step ----------------------------------------------------------------------------- */

static struct cell_value shape_of_memory(const struct writing *w, uint32_t m)
{
    const struct cell_transducer_memory *memory = &w->out->memories[m];
    return memory->is_made ? w->out->frame.values[w->out->frame.outputs[memory->index]]
                           : w->t->joiner->values[memory->index];
}

static enum base_status add_state(struct writing *w, struct cell_value shape, uint32_t *out)
{
    if (w->def->n_states == CELL_STATES_MAX) {
        return base_fail(w->error, BASE_UNIMPLEMENTED,
                         "decoder.onnx: more than %u states, with what joiner.onnx reads of it",
                         CELL_STATES_MAX - CELL_TRANSDUCER_OWN);
    }
    w->def->n_states++;
    *out = add_value(w, shape);
    return BASE_OK;
}

/* Memories and all states, which come before all ops: first the step's own, then what stays of the
 * predictor's side of the joiner, then the predictor's. */
static enum base_status add_inputs(struct writing *w)
{
    const struct cell_def *joiner = w->t->joiner;
    const struct cell_def *predictor = w->t->predictor;
    uint32_t state = 0;
    for (uint32_t m = 0; m < w->out->n_memories; m++) {
        (void)add_value(w, shape_of_memory(w, m));
    }
    w->def->n_inputs = w->out->n_memories;
    for (uint32_t s = 0; s < CELL_TRANSDUCER_OWN; s++) {
        const struct cell_value id = {CELL_I64, 1};
        BASE_TRY(add_state(w,
                           s == CELL_TRANSDUCER_LABELS ? predictor->values[0]
                           : s == CELL_TRANSDUCER_OVER ? id
                                                       : number,
                           &state));
    }
    for (uint32_t v = 0; v < joiner->n_values; v++) {
        if (w->made_of[v] == OF_PREDICTOR && is_between(w, v)) {
            BASE_TRY(add_state(w, joiner->values[v], &state));
        }
    }
    for (uint32_t s = 0; s < predictor->n_states; s++) {
        BASE_TRY(add_state(w, predictor->values[predictor->n_inputs + s], &state));
    }
    return BASE_OK;
}

static uint32_t own(const struct writing *w, uint32_t state)
{
    return w->def->n_inputs + state;
}

/* A state that stays what it was where the last step has said no label. */
static uint32_t keep(struct writing *w, uint32_t made)
{
    const uint32_t state = w->state++;
    const uint32_t kept = add_select(w, own(w, CELL_TRANSDUCER_HELD), own(w, state), made);
    w->def->state_next[state] = kept;
    return kept;
}

/* What the predictor makes of the last labels, and its side of the joiner. */
static void predict(struct writing *w)
{
    const struct cell_def *predictor = w->t->predictor;
    const struct cell_def *joiner = w->t->joiner;
    const uint32_t n_held = w->def->n_states - predictor->n_states; // its states come behind
    base_assert(predictor->n_inputs == 1);
    w->predicted[0] = own(w, CELL_TRANSDUCER_LABELS);
    for (uint32_t s = 0; s < predictor->n_states; s++) {
        w->predicted[predictor->n_inputs + s] = own(w, n_held + s);
    }
    for (uint32_t o = 0; o < predictor->n_ops; o++) {
        copy_op(w, predictor, o, w->predicted);
    }
    for (uint32_t l = 0; l < w->t->n_links; l++) {
        w->joined[w->t->links[l].input] = w->predicted[w->t->links[l].from];
    }
    copy_joiner(w, 0, w->joined);
    copy_joiner(w, OF_PREDICTOR, w->joined);
    w->state = CELL_TRANSDUCER_OWN;
    for (uint32_t v = 0; v < joiner->n_values; v++) {
        if (w->made_of[v] == OF_PREDICTOR && is_between(w, v)) {
            w->joined[v] = keep(w, w->joined[v]);
        }
    }
    for (uint32_t s = 0; s < predictor->n_states; s++) {
        (void)keep(w, w->predicted[predictor->state_next[s]]);
    }
}

/* The logits of the frame that is read. */
static uint32_t join(struct writing *w)
{
    const struct cell_def *joiner = w->t->joiner;
    uint32_t m = 0;
    for (uint32_t v = 0; v < joiner->n_values; v++) {
        if (w->made_of[v] == OF_FRAME && is_between(w, v)) {
            w->joined[v] = add_op(w,
                                  (struct cell_op){.kind = CELL_OP_PICK,
                                                   .n_operands = 2,
                                                   .operands = {m, own(w, CELL_TRANSDUCER_FRAME)}},
                                  joiner->values[v]);
            m++;
        }
    }
    base_assert(m == w->out->n_memories);
    copy_joiner(w, OF_FRAME | OF_PREDICTOR, w->joined);
    return w->joined[w->t->logits];
}

/* The labels that the predictor reads next: those before, with another behind them if one is said.
 */
static void move_labels(struct writing *w, uint32_t label, uint32_t is_blank)
{
    const uint32_t before = own(w, CELL_TRANSDUCER_LABELS);
    const struct cell_value shape = w->def->values[before];
    uint32_t labels = shape.dtype == CELL_I64 ? label : add_cast(w, label, shape.dtype);
    if (shape.width > 1) {
        const struct cell_value rest = {shape.dtype, shape.width - 1};
        const uint32_t later =
            add_op(w,
                   (struct cell_op){
                       .kind = CELL_OP_SLICE, .n_operands = 1, .operands = {before}, .start = 1},
                   rest);
        labels = add_op(
            w,
            (struct cell_op){.kind = CELL_OP_CONCAT, .n_operands = 2, .operands = {later, labels}},
            shape);
    }
    const uint32_t kept =
        add_select(w, is_blank, add_cast(w, before, CELL_F32), add_cast(w, labels, CELL_F32));
    w->def->state_next[CELL_TRANSDUCER_LABELS] = add_cast(w, kept, shape.dtype);
}

/* What is said, and whether the next step reads the next frame, or none. */
static void say(struct writing *w, uint32_t logits)
{
    const uint32_t nil = add_number(w, &zero);
    const uint32_t unit = add_number(w, &one);
    const uint32_t frame = own(w, CELL_TRANSDUCER_FRAME);
    const uint32_t label = add_op(w,
                                  (struct cell_op){.kind = CELL_OP_TOP,
                                                   .n_operands = 1,
                                                   .operands = {logits},
                                                   .variant = CELL_TOP_LARGEST},
                                  (struct cell_value){CELL_I64, 1});
    const uint32_t score = add_pair(w, CELL_OP_TAKE, logits, label);
    const uint32_t off =
        add_pair(w, CELL_OP_SUB, add_cast(w, label, CELL_F32), add_number(w, &w->t->blank));
    const uint32_t far = add_op(
        w, (struct cell_op){.kind = CELL_OP_ABS, .n_operands = 1, .operands = {off}}, number);
    const uint32_t is_blank = add_pair(w, CELL_OP_LESS_EQUAL, far, nil);
    const uint32_t said = add_pair(w, CELL_OP_ADD, own(w, CELL_TRANSDUCER_SAID), unit);
    const uint32_t most = add_number(w, &w->t->symbols_max);
    const uint32_t is_full = add_pair(w, CELL_OP_LESS_EQUAL, most, said);
    const uint32_t moves = add_pair(w, CELL_OP_MAX, is_blank, is_full);
    const uint32_t next = add_pair(w, CELL_OP_ADD, frame, moves);
    const uint32_t frames = add_op(
        w,
        (struct cell_op){
            .kind = CELL_OP_REDUCE, .n_operands = 1, .operands = {0}, .variant = CELL_REDUCE_COUNT},
        number);
    const uint32_t is_over = add_pair(w, CELL_OP_LESS_EQUAL, frames, next);
    w->def->state_next[CELL_TRANSDUCER_OVER] = add_cast(w, is_over, CELL_I64);
    w->def->state_next[CELL_TRANSDUCER_FRAME] = next;
    w->def->state_next[CELL_TRANSDUCER_SAID] = add_select(w, moves, nil, said);
    w->def->state_next[CELL_TRANSDUCER_HELD] = is_blank;
    move_labels(w, label, is_blank);
    w->def->n_outputs = CELL_TRANSDUCER_OUTPUTS;
    w->def->outputs[CELL_TRANSDUCER_LABEL] = label;
    w->def->outputs[CELL_TRANSDUCER_SCORE] = score;
    w->def->outputs[CELL_TRANSDUCER_AT] = add_cast(w, frame, CELL_I64);
}

/* The logits, for others to choose; then the next frame is read. */
static void hand_out(struct writing *w, uint32_t logits)
{
    const uint32_t unit = add_number(w, &one);
    for (uint32_t s = 0; s < CELL_TRANSDUCER_OWN; s++) {
        w->def->state_next[s] = own(w, s);
    }
    w->def->state_next[CELL_TRANSDUCER_FRAME] =
        add_pair(w, CELL_OP_ADD, own(w, CELL_TRANSDUCER_FRAME), unit);
    w->def->n_outputs = 1;
    w->def->outputs[CELL_TRANSDUCER_LOGITS] = logits;
}

static enum base_status write_step(struct writing *w)
{
    w->def = &w->out->step;
    w->def->products = w->t->joiner->products;
    BASE_TRY(add_inputs(w));
    predict(w);
    const uint32_t logits = join(w);
    if (w->t->is_beam) {
        hand_out(w, logits);
    } else {
        say(w, logits);
    }
    return BASE_OK;
}

enum base_status cell_transducer_write(const struct cell_transducer *t,
                                       struct cell_transducer_cells *out, struct base_error *error)
{
    struct writing w = {.t = t, .out = out, .error = error};
    memset(out, 0, sizeof(*out));
    mark_joiner(&w);
    if (w.made_of[t->logits] != (OF_FRAME | OF_PREDICTOR)) {
        return base_fail(error, BASE_UNIMPLEMENTED,
                         "joiner.onnx: its logits are not made of both sides");
    }
    BASE_TRY(write_frame(&w));
    BASE_TRY(write_step(&w));
    return w.is_full
               ? base_fail(error, BASE_UNIMPLEMENTED,
                           "decoder.onnx and joiner.onnx are more than %u operators", CELL_OPS_MAX)
               : BASE_OK;
}
