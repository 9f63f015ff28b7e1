/* The lane of the model: the accesses of tests/lane/loop.c, one a step. A task to run has two
 * steps; before each it may come to wait for ever, or find a wait too long (fault). */
#include "tests/lane/model_state.h"

enum lane_pc {
    LANE_OFF,
    LANE_BEATS,
    LANE_ABORT,
    LANE_POLL,
    LANE_SLOT,
    LANE_OUTSIDE,
    LANE_NOTHING,
    LANE_STEP,
    LANE_ATTENTION,
    LANE_STEP_ABORT,
    LANE_STUCK,
    LANE_RESULT,
    LANE_COMPLETES,
    LANE_FAULT,
    LANE_ENDS,
    LANE_COMPLETES_LATE, /* mutants */
    LANE_RESULT_LATE,
    LANE_FAULT_LATE,
};

#define STEPS 2

enum { CHOICE_GO, CHOICE_STUCK, CHOICE_FAULT };

static bool is(const struct model_step *step, enum model_mutant mutant)
{
    return step->options->mutant == mutant;
}

static uint8_t slot_of(const struct model_step *step, uint8_t seq)
{
    return (uint8_t)(seq & (step->options->n_slots - 1));
}

static uint16_t op_of(const struct model_step *step)
{
    return model_op_of(step->options, step->state->seq);
}

void model_lane_start(struct model_state *state, uint8_t first)
{
    state->lane_pc = LANE_BEATS;
    state->lane_launch = state->launch;
    state->seq = first;
    state->has_beaten = 0;
    model_memory_launch(&state->memory);
}

bool model_lane_is_stuck(const struct model_state *state)
{
    return state->lane_pc == LANE_STUCK;
}

bool model_lane_is_off(const struct model_state *state)
{
    return state->lane_pc == LANE_OFF;
}

bool model_lane_has_nothing(const struct model_state *state)
{
    return state->lane_pc == LANE_NOTHING;
}

static void end_with(struct model_state *state, enum cell_lane_end why)
{
    state->is_next_end = (uint8_t)why;
    state->lane_pc = LANE_ENDS;
}

/* ---- Polling and taking ---- */

static bool read_abort(struct model_step *step)
{
    struct model_state *state = step->state;
    const uint8_t pc = state->lane_pc;
    uint8_t value = 0;
    if (!model_load(step, MODEL_LANE, CELL_LANE_SITE_LANE_READS_ABORT, MODEL_ABORT, &value)) {
        return false;
    }
    if (value == state->lane_launch) {
        end_with(state, CELL_LANE_END_ABORTED);
    } else if (pc != LANE_STUCK) {
        state->lane_pc = pc == LANE_ABORT ? LANE_POLL : LANE_STEP;
    }
    return true;
}

static uint8_t number_place(const struct model_step *step)
{
    return (uint8_t)(MODEL_NUMBER + slot_of(step, step->state->seq));
}

static uint8_t slot_place(const struct model_step *step)
{
    return (uint8_t)(MODEL_SLOT + slot_of(step, step->state->seq));
}

static void take(struct model_step *step)
{
    struct model_state *state = step->state;
    if (state->taken[state->seq]++ != 0) {
        step->violation = "a task is run twice";
    }
    if (state->answered[state->seq] != 0) {
        step->violation = "a task is run that was answered";
    }
    state->step = 0;
    state->steps_done = 0;
}

static bool is_tagged(const struct model_step *step)
{
    return step->options->form == CELL_LANE_FORM_TAGGED;
}

static void taken(struct model_step *step)
{
    take(step);
    step->state->lane_pc = op_of(step) == CELL_LANE_RUN ? LANE_OUTSIDE : LANE_RESULT;
}

/* Plain: the number, then the payload. */
static bool read_plain(struct model_step *step)
{
    struct model_state *state = step->state;
    uint8_t value = 0;
    if (state->lane_pc == LANE_POLL) {
        if (!model_load(step, MODEL_LANE, CELL_LANE_SITE_LANE_POLLS_SLOT, number_place(step),
                        &value)) {
            return false;
        }
        state->lane_pc = value == state->seq ? LANE_SLOT : LANE_NOTHING;
        return true;
    }
    if (!model_load(step, MODEL_LANE, CELL_LANE_SITE_LANE_READS_SLOT, slot_place(step), &value)) {
        return false;
    }
    if (value != state->seq) {
        step->violation = "a slot holds another task than its number says";
    }
    taken(step);
    return true;
}

/* Tagged: the other words, then word 0, which is the harder order; all have to be this task's. */
static bool read_tagged(struct model_step *step)
{
    struct model_state *state = step->state;
    uint8_t value = 0;
    const bool is_first = state->lane_pc == LANE_POLL;
    if (!model_load(step, MODEL_LANE,
                    is_first ? CELL_LANE_SITE_LANE_READS_TAGGED : CELL_LANE_SITE_LANE_POLLS_TAGGED,
                    is_first ? slot_place(step) : number_place(step), &value)) {
        return false;
    }
    if (value != state->seq) {
        state->lane_pc = LANE_NOTHING;
    } else if (is_first) {
        state->lane_pc = LANE_SLOT;
    } else {
        taken(step);
    }
    return true;
}

static bool read_outside(struct model_step *step)
{
    struct model_state *state = step->state;
    const uint8_t slot = slot_of(step, state->seq);
    uint8_t value = 0;
    if (!model_load(step, MODEL_LANE, CELL_LANE_SITE_LANE_READS_OUTSIDE,
                    (uint8_t)(MODEL_OUTSIDE + slot), &value)) {
        return false;
    }
    if (value != state->seq) {
        step->violation = "the input is not the task's";
    }
    state->lane_pc = LANE_STEP;
    return true;
}

/* No task: another poll, or the launch has been idle for long enough. */
static bool wait(struct model_step *step)
{
    struct model_state *state = step->state;
    if (state->has_beaten == 0) {
        step->violation = "a launch waits and its heart stands still";
    }
    state->has_beaten = 0;
    if (step->choice == 0) {
        state->lane_pc = is(step, MODEL_WAITS_STILL) ? LANE_ABORT : LANE_BEATS;
        return true;
    }
    if (state->parks >= step->options->parks_max) {
        return false;
    }
    state->parks++;
    end_with(state, CELL_LANE_END_PARKED);
    return step->choice == 1;
}

/* ---- Running ---- */

static bool run_step(struct model_step *step)
{
    struct model_state *state = step->state;
    if (step->choice != CHOICE_GO) {
        if (state->faults >= step->options->faults_max) {
            return false;
        }
        state->faults++;
        state->lane_pc = step->choice == CHOICE_STUCK ? LANE_STUCK : LANE_FAULT;
        if (step->choice == CHOICE_FAULT && is(step, MODEL_FAULT_LAST)) {
            end_with(state, CELL_LANE_END_FAULT);
        }
        return step->choice <= CHOICE_FAULT;
    }
    step->site = CELL_LANE_SITE_LANE_BEATS;
    state->steps_done++;
    state->step++;
    state->lane_pc = state->step < STEPS ? LANE_ATTENTION : LANE_RESULT;
    if (state->lane_pc == LANE_RESULT && is(step, MODEL_COUNTS_FIRST)) {
        state->lane_pc = LANE_COMPLETES;
    }
    return true;
}

static bool read_attention(struct model_step *step)
{
    struct model_state *state = step->state;
    uint8_t value = 0;
    if (!model_load(step, MODEL_LANE, CELL_LANE_SITE_LANE_READS_ATTENTION, MODEL_ATTENTION,
                    &value)) {
        return false;
    }
    state->lane_pc = value != 0 ? LANE_RESULT : LANE_STEP_ABORT;
    if (state->lane_pc == LANE_RESULT && is(step, MODEL_COUNTS_FIRST)) {
        state->lane_pc = LANE_COMPLETES;
    }
    return true;
}

static void go_on(struct model_step *step)
{
    struct model_state *state = step->state;
    const uint16_t op = op_of(step);
    state->seq++;
    state->lane_pc = LANE_BEATS;
    if (op == CELL_LANE_PARK) {
        end_with(state, CELL_LANE_END_PARKED);
    } else if (op == CELL_LANE_EXIT) {
        end_with(state, CELL_LANE_END_EXITED);
    }
}

static bool finish(struct model_step *step)
{
    struct model_state *state = step->state;
    const uint8_t pc = state->lane_pc;
    if (pc == LANE_RESULT || pc == LANE_RESULT_LATE) {
        model_store(step, MODEL_LANE, CELL_LANE_SITE_LANE_WRITES_RESULT,
                    (uint8_t)(MODEL_RESULT + slot_of(step, state->seq)), state->seq);
        if (pc == LANE_RESULT_LATE) {
            go_on(step);
        } else if (is(step, MODEL_ENDS_FIRST) && op_of(step) == CELL_LANE_PARK) {
            end_with(state, CELL_LANE_END_PARKED);
        } else {
            state->lane_pc = LANE_COMPLETES;
        }
        return true;
    }
    model_store(step, MODEL_LANE, CELL_LANE_SITE_LANE_COMPLETES, MODEL_COMPLETED, state->seq);
    if (pc == LANE_COMPLETES_LATE) {
        state->lane_pc = LANE_OFF;
    } else if (is(step, MODEL_COUNTS_FIRST) && op_of(step) == CELL_LANE_RUN) {
        state->lane_pc = LANE_RESULT_LATE;
    } else {
        go_on(step);
    }
    return true;
}

static bool end(struct model_step *step)
{
    struct model_state *state = step->state;
    if (state->lane_pc != LANE_ENDS) {
        model_store(step, MODEL_LANE, CELL_LANE_SITE_LANE_WRITES_FAULT, MODEL_FAULT, state->seq);
        if (state->lane_pc == LANE_FAULT_LATE) {
            state->lane_pc = LANE_OFF;
        } else {
            end_with(state, CELL_LANE_END_FAULT);
        }
        return true;
    }
    model_store(step, MODEL_LANE, CELL_LANE_SITE_LANE_ENDS, MODEL_ENDED,
                (uint8_t)(state->lane_launch << 3 | state->is_next_end));
    state->lane_pc = LANE_OFF;
    if (is(step, MODEL_ENDS_FIRST) && state->is_next_end == CELL_LANE_END_PARKED &&
        op_of(step) == CELL_LANE_PARK && state->taken[state->seq] > 0) {
        state->lane_pc = LANE_COMPLETES_LATE;
    } else if (is(step, MODEL_FAULT_LAST) && state->is_next_end == CELL_LANE_END_FAULT) {
        state->lane_pc = LANE_FAULT_LATE;
    }
    return true;
}

bool model_lane_step(struct model_step *step)
{
    struct model_state *state = step->state;
    switch (state->lane_pc) {
    case LANE_OFF:
        return false;
    case LANE_BEATS:
        step->site = CELL_LANE_SITE_LANE_BEATS;
        state->has_beaten = 1;
        state->lane_pc = LANE_ABORT;
        return step->choice == 0;
    case LANE_STUCK:
        return !is(step, MODEL_DEAF) && read_abort(step);
    case LANE_ABORT:
    case LANE_STEP_ABORT:
        return read_abort(step);
    case LANE_POLL:
    case LANE_SLOT:
        return is_tagged(step) ? read_tagged(step) : read_plain(step);
    case LANE_OUTSIDE:
        return read_outside(step);
    case LANE_NOTHING:
        return wait(step);
    case LANE_STEP:
        return run_step(step);
    case LANE_ATTENTION:
        return read_attention(step);
    case LANE_RESULT:
    case LANE_RESULT_LATE:
    case LANE_COMPLETES:
    case LANE_COMPLETES_LATE:
        return step->choice == 0 && finish(step);
    default:
        return step->choice == 0 && end(step);
    }
}
