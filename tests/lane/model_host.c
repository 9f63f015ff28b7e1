/* The host of the model: the accesses of cells/lane/host.c, one a step, and a client that submits
 * all tasks, may abort and call for attention when it likes, and says EXIT at the end. */
#include "tests/lane/model_state.h"

enum host_pc {
    HOST_CHOOSES,
    HOST_OUTSIDE,
    HOST_SLOT,
    HOST_NUMBER,
    HOST_OUTSIDE_LATE, /* mutant */
    HOST_SLOT_LATE,    /* mutant */
    HOST_ENDED,
    HOST_COMPLETED,
    HOST_ENDED_LATE, /* mutant */
    HOST_HEARTBEAT,
    HOST_FAULT,
    HOST_SETTLES,
    HOST_LAUNCHES,
};

enum { CHOICE_LOOK, CHOICE_SUBMIT, CHOICE_ABORT, CHOICE_ATTEND };

static bool is(const struct model_step *step, enum model_mutant mutant)
{
    return step->options->mutant == mutant;
}

static uint8_t slot_of(const struct model_step *step, uint8_t seq)
{
    return (uint8_t)(seq & (step->options->n_slots - 1));
}

/* ---- Choosing ---- */

static bool may_submit(const struct model_step *step)
{
    const struct model_options *options = step->options;
    const struct model_state *state = step->state;
    const uint8_t slots = (uint8_t)(options->n_slots + (is(step, MODEL_REUSES_EARLY) ? 1 : 0));
    if (state->submitted - state->settled >= slots) {
        return false;
    }
    if (state->submitted < options->n_tasks) {
        return true;
    }
    return state->settled == options->n_tasks && state->submitted == options->n_tasks &&
           state->end == 0;
}

/* The watchdog may be wrong aborts_max times; it is never wrong not to abort a launch that waits
 * for ever. */
static bool may_abort(const struct model_step *step)
{
    const struct model_state *state = step->state;
    const struct model_memory *memory = &state->memory;
    const uint8_t last = memory->value[MODEL_ABORT][memory->n[MODEL_ABORT] - 1];
    const bool is_stuck =
        step->options->is_ahead ? model_ahead_is_stuck(state) : model_lane_is_stuck(state);
    return state->end == 0 && state->submitted != state->settled && last != state->launch &&
           (state->aborts < step->options->aborts_max || is_stuck);
}

static bool choose(struct model_step *step)
{
    struct model_state *state = step->state;
    switch (step->choice) {
    case CHOICE_LOOK:
        state->host_pc = state->end == 0 ? HOST_ENDED : HOST_COMPLETED;
        if (is(step, MODEL_LOOKS_ONCE) || is(step, MODEL_COUNTER_BEFORE_ENDED)) {
            state->host_pc = HOST_COMPLETED;
        }
        return true;
    case CHOICE_SUBMIT:
        state->host_pc = is(step, MODEL_INPUT_LAST) ? HOST_SLOT : HOST_OUTSIDE;
        if (model_op_of(step->options, (uint8_t)(state->submitted + 1)) != CELL_LANE_RUN) {
            state->host_pc = HOST_SLOT;
        }
        if (state->host_pc == HOST_SLOT && is(step, MODEL_PUBLISHES_FIRST)) {
            state->host_pc = HOST_NUMBER;
        }
        return may_submit(step);
    case CHOICE_ABORT:
        if (!may_abort(step)) {
            return false;
        }
        state->aborts++;
        model_store(step, MODEL_HOST, CELL_LANE_SITE_HOST_ABORTS, MODEL_ABORT, state->launch);
        return true;
    case CHOICE_ATTEND:
        if (state->attentions >= step->options->attentions_max) {
            return false;
        }
        state->attentions++;
        model_store(step, MODEL_HOST, CELL_LANE_SITE_HOST_RAISES_ATTENTION, MODEL_ATTENTION, 1);
        return true;
    default:
        return false;
    }
}

/* ---- Submitting ---- */

static void published(struct model_step *step)
{
    struct model_state *state = step->state;
    state->submitted++;
    state->host_pc = is(step, MODEL_LOOKS_ONCE) && state->end == 0 ? HOST_ENDED : HOST_CHOOSES;
}

static void write_slot(struct model_step *step, uint8_t seq)
{
    const bool is_tagged = step->options->form == CELL_LANE_FORM_TAGGED;
    model_store(step, MODEL_HOST,
                is_tagged ? CELL_LANE_SITE_HOST_WRITES_TAGGED : CELL_LANE_SITE_HOST_WRITES_SLOT,
                (uint8_t)(MODEL_SLOT + slot_of(step, seq)), seq);
}

static void write_number(struct model_step *step, uint8_t seq)
{
    const bool is_tagged = step->options->form == CELL_LANE_FORM_TAGGED;
    model_store(step, MODEL_HOST,
                is_tagged ? CELL_LANE_SITE_HOST_PUBLISHES_TAGGED
                          : CELL_LANE_SITE_HOST_PUBLISHES_SLOT,
                (uint8_t)(MODEL_NUMBER + slot_of(step, seq)), seq);
}

static bool submit(struct model_step *step)
{
    struct model_state *state = step->state;
    const uint8_t seq = (uint8_t)(state->submitted + 1);
    const uint8_t outside = (uint8_t)(MODEL_OUTSIDE + slot_of(step, seq));
    switch (state->host_pc) {
    case HOST_OUTSIDE:
        model_store(step, MODEL_HOST, CELL_LANE_SITE_HOST_WRITES_OUTSIDE, outside, seq);
        state->host_pc = is(step, MODEL_PUBLISHES_FIRST) ? HOST_NUMBER : HOST_SLOT;
        return true;
    case HOST_SLOT:
        write_slot(step, seq);
        state->host_pc = HOST_NUMBER;
        return true;
    case HOST_NUMBER:
        write_number(step, seq);
        if (is(step, MODEL_PUBLISHES_FIRST)) {
            state->host_pc = HOST_SLOT_LATE;
        } else if (is(step, MODEL_INPUT_LAST) && model_op_of(step->options, seq) == CELL_LANE_RUN) {
            state->host_pc = HOST_OUTSIDE_LATE;
        } else {
            published(step);
        }
        return true;
    case HOST_SLOT_LATE:
        write_slot(step, seq);
        published(step);
        return true;
    default:
        model_store(step, MODEL_HOST, CELL_LANE_SITE_HOST_WRITES_OUTSIDE, outside, seq);
        published(step);
        return true;
    }
}

/* ---- Looking ---- */

static void note_end(struct model_step *step, uint8_t word)
{
    struct model_state *state = step->state;
    if (word >> 3 == state->launch) {
        state->last_end = word & 7;
    }
}

/* What the look has read is judged when all of it is read. */
static void judge(struct model_state *state)
{
    state->host_pc = state->end == 0 && state->last_end == 0 ? HOST_HEARTBEAT : HOST_SETTLES;
    if (state->last_end != 0) {
        state->end = state->last_end;
        state->last_end = 0;
        const bool died = state->end == CELL_LANE_END_FAULT || state->end == CELL_LANE_END_ABORTED;
        state->failed_to = died ? state->submitted : state->failed_to;
        state->host_pc = state->end == CELL_LANE_END_FAULT ? HOST_FAULT : HOST_SETTLES;
    }
}

static bool look(struct model_step *step)
{
    struct model_state *state = step->state;
    uint8_t value = 0;
    switch (state->host_pc) {
    case HOST_ENDED:
    case HOST_ENDED_LATE:
        if (!model_load(step, MODEL_HOST, CELL_LANE_SITE_HOST_READS_ENDED, MODEL_ENDED, &value)) {
            return false;
        }
        note_end(step, value);
        if (state->host_pc == HOST_ENDED) {
            state->host_pc = HOST_COMPLETED;
        } else {
            judge(state);
        }
        return true;
    case HOST_COMPLETED:
        if (!model_load(step, MODEL_HOST, CELL_LANE_SITE_HOST_READS_COMPLETED, MODEL_COMPLETED,
                        &value)) {
            return false;
        }
        state->completed = value > state->completed ? value : state->completed;
        if (is(step, MODEL_COUNTER_BEFORE_ENDED) && state->end == 0) {
            state->host_pc = HOST_ENDED_LATE;
        } else {
            judge(state);
        }
        return true;
    case HOST_FAULT:
        state->host_pc = HOST_SETTLES;
        return model_load(step, MODEL_HOST, CELL_LANE_SITE_HOST_READS_FAULT, MODEL_FAULT, &value);
    default: // HOST_HEARTBEAT: a word without a meaning here, so it is not kept
        step->site = CELL_LANE_SITE_HOST_READS_HEARTBEAT;
        state->host_pc = HOST_SETTLES;
        return step->choice == 0;
    }
}

static void answer(struct model_step *step, uint8_t seq)
{
    struct model_state *state = step->state;
    state->settled = seq;
    state->answered[seq]++;
}

static bool settle(struct model_step *step)
{
    struct model_state *state = step->state;
    uint8_t value = 0;
    if (step->choice != 0) {
        return false;
    }
    const uint8_t seq = (uint8_t)(state->settled + 1);
    if (state->settled < state->completed) {
        (void)model_load(step, MODEL_HOST, CELL_LANE_SITE_HOST_READS_RESULT,
                         (uint8_t)(MODEL_RESULT + slot_of(step, seq)), &value);
        if (value != seq || state->taken[seq] != 1) {
            step->violation = "the result is not the task's";
        }
        answer(step, seq);
    } else if (state->settled < state->failed_to) {
        answer(step, seq);
    } else {
        state->host_pc = HOST_LAUNCHES;
    }
    return true;
}

static bool launch(struct model_step *step)
{
    struct model_state *state = step->state;
    state->host_pc = HOST_CHOOSES;
    if (state->end != 0 && state->end != CELL_LANE_END_EXITED &&
        state->submitted != state->settled) {
        uint8_t first = (uint8_t)(state->settled + 1);
        if (is(step, MODEL_STARTS_BEHIND) && state->launch > 0) {
            first = (uint8_t)(state->submitted + 1);
        } else if (is(step, MODEL_STARTS_AT_SAME) && state->settled > 0) {
            first = state->settled;
        }
        state->end = 0;
        state->launch++;
        model_lane_start(state, first);
        if (step->options->is_ahead) {
            model_ahead_start(state, first);
        }
    }
    return step->choice == 0;
}

bool model_host_step(struct model_step *step)
{
    switch (step->state->host_pc) {
    case HOST_CHOOSES:
        return choose(step);
    case HOST_OUTSIDE:
    case HOST_SLOT:
    case HOST_NUMBER:
    case HOST_OUTSIDE_LATE:
    case HOST_SLOT_LATE:
        return step->choice == 0 && submit(step);
    case HOST_SETTLES:
        return settle(step);
    case HOST_LAUNCHES:
        return launch(step);
    default:
        return look(step);
    }
}

bool model_host_is_free(const struct model_state *state)
{
    return state->host_pc == HOST_CHOOSES;
}
