/* A lane of the model that takes tasks ahead, as that of one SM does (cells/cuda/lane_dispatch.h):
 * the front (the dispatcher) polls, takes a task while the one before runs, and ends the launch;
 * the back (math and reporter) runs orders one by one, writes results and releases the counter. Two
 * orders exist at a time. What the two say to each other stands in shared memory with orders of its
 * own, which the emulator checks (tests/cuda/fiber.h); here an order carries what the front knew
 * when it was written, and the front knows what the back does once it has seen it idle. */
#include "tests/lane/model_state.h"

#include <string.h>

enum front_pc {
    FRONT_OFF,
    FRONT_BEATS,
    FRONT_ABORT,
    FRONT_POLL,
    FRONT_SLOT,
    FRONT_OUTSIDE,
    FRONT_NOTHING,
    FRONT_DRAINS, /* nothing more is taken: until the back is idle */
    FRONT_FAULT,
    FRONT_ENDS,
    FRONT_FAULT_LATE, /* mutant */
};

enum back_pc {
    BACK_IDLE,
    BACK_OUTSIDE,
    BACK_STEP,
    BACK_ATTENTION,
    BACK_QUIT,
    BACK_STUCK,
    BACK_FAULT,
    BACK_RESULT,
    BACK_COMPLETES,
    BACK_RESULT_LATE, /* mutant */
};

#define STEPS 2

enum { CHOICE_GO, CHOICE_STUCK, CHOICE_FAULT };

static bool is(const struct model_step *step, enum model_mutant mutant)
{
    return step->options->mutant == mutant;
}

static uint8_t at(const struct model_step *step, enum model_place place, uint8_t seq)
{
    return (uint8_t)(place + (seq & (step->options->n_slots - 1)));
}

static void join(uint8_t *view, const uint8_t *other)
{
    for (uint32_t i = 0; i < MODEL_VIEW; i++) {
        view[i] = other[i] > view[i] ? other[i] : view[i];
    }
}

void model_ahead_start(struct model_state *state, uint8_t first)
{
    state->lane_pc = FRONT_BEATS;
    state->lane_launch = state->launch;
    state->seq = first;
    state->has_beaten = 0;
    state->order = 0;
    state->quit = 0;
    state->back_pc = BACK_IDLE;
    state->back_seq = 0;
    memcpy(state->memory.seen[MODEL_BACK], state->memory.seen[MODEL_LANE], MODEL_VIEW);
}

bool model_ahead_is_stuck(const struct model_state *state)
{
    return state->back_pc == BACK_STUCK;
}

bool model_ahead_is_off(const struct model_state *state)
{
    return state->lane_pc == FRONT_OFF && state->back_pc == BACK_IDLE;
}

/* ---- The front ---- */

static void end_with(struct model_state *state, enum cell_lane_end why, enum front_pc pc)
{
    state->is_next_end = (uint8_t)why;
    state->lane_pc = (uint8_t)pc;
}

/* Nothing that the back has not begun is run any more. */
static void quit(struct model_step *step, enum cell_lane_end why)
{
    step->state->quit = 1;
    end_with(step->state, why, is(step, MODEL_LEAVES_BACK) ? FRONT_ENDS : FRONT_DRAINS);
}

static bool front_reads_abort(struct model_step *step)
{
    struct model_state *state = step->state;
    uint8_t value = 0;
    if (!model_load(step, MODEL_LANE, CELL_LANE_SITE_LANE_READS_ABORT, MODEL_ABORT, &value)) {
        return false;
    }
    if (value == state->lane_launch) {
        quit(step, CELL_LANE_END_ABORTED);
    } else if (state->back_pc == BACK_FAULT) {
        state->quit = 1;
        end_with(state, CELL_LANE_END_FAULT, is(step, MODEL_FAULT_LAST) ? FRONT_ENDS : FRONT_FAULT);
    } else if (state->lane_pc == FRONT_ABORT) {
        state->lane_pc = state->order == 0 ? FRONT_POLL : FRONT_NOTHING;
    }
    return true;
}

/* The order is written; what the front knows goes with it. */
static void hand_over(struct model_step *step)
{
    struct model_state *state = step->state;
    const uint16_t op = model_op_of(step->options, state->seq);
    if (state->taken[state->seq]++ != 0) {
        step->violation = "a task is run twice";
    }
    if (state->answered[state->seq] != 0) {
        step->violation = "a task is run that was answered";
    }
    state->order = state->seq++;
    memcpy(state->order_view, state->memory.seen[MODEL_LANE], MODEL_VIEW);
    state->lane_pc = FRONT_BEATS;
    if (op == CELL_LANE_PARK || op == CELL_LANE_EXIT) {
        end_with(state, op == CELL_LANE_PARK ? CELL_LANE_END_PARKED : CELL_LANE_END_EXITED,
                 is(step, MODEL_ENDS_FIRST) && op == CELL_LANE_PARK ? FRONT_ENDS : FRONT_DRAINS);
    }
}

static void slot_is_read(struct model_step *step)
{
    if (model_op_of(step->options, step->state->seq) == CELL_LANE_RUN) {
        step->state->lane_pc = FRONT_OUTSIDE;
    } else {
        hand_over(step);
    }
}

/* Plain: the number, then the payload. Tagged: the other words, then word 0. */
static bool front_polls(struct model_step *step)
{
    struct model_state *state = step->state;
    const bool is_tagged = step->options->form == CELL_LANE_FORM_TAGGED;
    const bool is_first = state->lane_pc == FRONT_POLL;
    const bool is_number = is_first != is_tagged;
    const enum cell_lane_site site =
        is_tagged ? is_number ? CELL_LANE_SITE_LANE_POLLS_TAGGED : CELL_LANE_SITE_LANE_READS_TAGGED
        : is_number ? CELL_LANE_SITE_LANE_POLLS_SLOT
                    : CELL_LANE_SITE_LANE_READS_SLOT;
    uint8_t value = 0;
    if (!model_load(step, MODEL_LANE, site,
                    at(step, is_number ? MODEL_NUMBER : MODEL_SLOT, state->seq), &value)) {
        return false;
    }
    if (value != state->seq) {
        if (!is_tagged && !is_first) {
            step->violation = "a slot holds another task than its number says";
        }
        state->lane_pc = FRONT_NOTHING;
    } else if (is_first) {
        state->lane_pc = FRONT_SLOT;
    } else {
        slot_is_read(step);
    }
    return true;
}

static bool front_reads_outside(struct model_step *step)
{
    uint8_t value = 0;
    if (!model_load(step, MODEL_LANE, CELL_LANE_SITE_LANE_READS_OUTSIDE,
                    at(step, MODEL_OUTSIDE, step->state->seq), &value)) {
        return false;
    }
    if (value != step->state->seq) {
        step->violation = "the input is not the task's";
    }
    hand_over(step);
    return true;
}

static bool back_is_idle(const struct model_state *state)
{
    return state->back_pc == BACK_IDLE && (state->order == 0 || state->quit != 0);
}

/* No task, or no room for one: another turn, or the launch has been idle for long enough. */
static bool front_waits(struct model_step *step)
{
    struct model_state *state = step->state;
    if (state->has_beaten == 0) {
        step->violation = "a launch waits and its heart stands still";
    }
    state->has_beaten = 0;
    if (step->choice == 0) {
        state->lane_pc = is(step, MODEL_WAITS_STILL) ? FRONT_ABORT : FRONT_BEATS;
        return true;
    }
    if (state->parks >= step->options->parks_max || !back_is_idle(state)) {
        return false;
    }
    state->parks++;
    end_with(state, CELL_LANE_END_PARKED, FRONT_DRAINS);
    return step->choice == 1;
}

/* Until the back is idle it still looks at abort, and for a fault. */
static bool front_drains(struct model_step *step)
{
    struct model_state *state = step->state;
    if (back_is_idle(state)) {
        join(state->memory.seen[MODEL_LANE], state->memory.seen[MODEL_BACK]);
        state->lane_pc = FRONT_ENDS;
        return step->choice == 0;
    }
    return state->quit == 0 && front_reads_abort(step);
}

static bool front_ends(struct model_step *step)
{
    struct model_state *state = step->state;
    if (state->lane_pc != FRONT_ENDS) {
        model_store(step, MODEL_LANE, CELL_LANE_SITE_LANE_WRITES_FAULT, MODEL_FAULT, state->seq);
        state->lane_pc = state->lane_pc == FRONT_FAULT ? FRONT_DRAINS : FRONT_OFF;
        return true;
    }
    model_store(step, MODEL_LANE, CELL_LANE_SITE_LANE_ENDS, MODEL_ENDED,
                (uint8_t)(state->lane_launch << 3 | state->is_next_end));
    state->lane_pc = is(step, MODEL_FAULT_LAST) && state->is_next_end == CELL_LANE_END_FAULT
                         ? FRONT_FAULT_LATE
                         : FRONT_OFF;
    return true;
}

bool model_front_step(struct model_step *step)
{
    struct model_state *state = step->state;
    switch (state->lane_pc) {
    case FRONT_OFF:
        return false;
    case FRONT_BEATS:
        step->site = CELL_LANE_SITE_LANE_BEATS;
        state->has_beaten = 1;
        state->lane_pc = FRONT_ABORT;
        return step->choice == 0;
    case FRONT_ABORT:
        return front_reads_abort(step);
    case FRONT_POLL:
    case FRONT_SLOT:
        return front_polls(step);
    case FRONT_OUTSIDE:
        return front_reads_outside(step);
    case FRONT_NOTHING:
        return front_waits(step);
    case FRONT_DRAINS:
        return front_drains(step);
    default:
        return step->choice == 0 && front_ends(step);
    }
}

/* ---- The back ---- */

static bool back_begins(struct model_step *step)
{
    struct model_state *state = step->state;
    if (state->order == 0 || state->quit != 0 || step->choice != 0) {
        return false;
    }
    state->back_seq = state->order;
    state->order = 0;
    state->step = 0;
    if (!is(step, MODEL_HANDS_UNSEEN)) {
        join(state->memory.seen[MODEL_BACK], state->order_view);
    }
    memset(state->order_view, 0, sizeof(state->order_view));
    state->back_pc =
        model_op_of(step->options, state->back_seq) == CELL_LANE_RUN ? BACK_OUTSIDE : BACK_RESULT;
    return true;
}

static bool back_reads_outside(struct model_step *step)
{
    uint8_t value = 0;
    if (!model_load(step, MODEL_BACK, CELL_LANE_SITE_LANE_READS_OUTSIDE,
                    at(step, MODEL_OUTSIDE, step->state->back_seq), &value)) {
        return false;
    }
    if (value != step->state->back_seq) {
        step->violation = "the input is not the task's";
    }
    step->state->back_pc = BACK_STEP;
    return true;
}

static enum back_pc behind_last_step(const struct model_step *step)
{
    return is(step, MODEL_COUNTS_FIRST) ? BACK_COMPLETES : BACK_RESULT;
}

static bool back_runs(struct model_step *step)
{
    struct model_state *state = step->state;
    if (step->choice != CHOICE_GO) {
        if (state->faults >= step->options->faults_max || step->choice > CHOICE_FAULT) {
            return false;
        }
        state->faults++;
        state->back_pc = step->choice == CHOICE_STUCK ? BACK_STUCK : BACK_FAULT;
        return true;
    }
    state->step++;
    state->back_pc = state->step < STEPS ? BACK_ATTENTION : (uint8_t)behind_last_step(step);
    return true;
}

static bool back_reads_attention(struct model_step *step)
{
    uint8_t value = 0;
    if (!model_load(step, MODEL_BACK, CELL_LANE_SITE_LANE_READS_ATTENTION, MODEL_ATTENTION,
                    &value)) {
        return false;
    }
    step->state->back_pc = value != 0 ? (uint8_t)behind_last_step(step) : BACK_QUIT;
    return true;
}

/* Gives up what it runs, once it sees that it is to. */
static bool back_quits(struct model_step *step)
{
    struct model_state *state = step->state;
    if (state->quit == 0 || is(step, MODEL_DEAF) || step->choice == 1) {
        // It need not see it at once.
        state->back_pc = state->back_pc == BACK_QUIT ? BACK_STEP : state->back_pc;
        return state->back_pc == BACK_STEP && step->choice == (state->quit != 0 ? 1 : 0);
    }
    state->back_pc = BACK_IDLE;
    state->back_seq = 0;
    return step->choice == 0;
}

static bool back_finishes(struct model_step *step)
{
    struct model_state *state = step->state;
    const uint8_t pc = state->back_pc;
    const bool counts_first = is(step, MODEL_COUNTS_FIRST) &&
                              model_op_of(step->options, state->back_seq) == CELL_LANE_RUN;
    if (pc == BACK_COMPLETES) {
        model_store(step, MODEL_BACK, CELL_LANE_SITE_LANE_COMPLETES, MODEL_COMPLETED,
                    state->back_seq);
    } else {
        model_store(step, MODEL_BACK, CELL_LANE_SITE_LANE_WRITES_RESULT,
                    at(step, MODEL_RESULT, state->back_seq), state->back_seq);
    }
    state->back_pc = pc == BACK_RESULT                      ? BACK_COMPLETES
                     : pc == BACK_COMPLETES && counts_first ? BACK_RESULT_LATE
                                                            : BACK_IDLE;
    if (state->back_pc == BACK_IDLE) {
        state->back_seq = 0;
    }
    return step->choice == 0;
}

bool model_back_step(struct model_step *step)
{
    switch (step->state->back_pc) {
    case BACK_IDLE:
        return back_begins(step);
    case BACK_OUTSIDE:
        return back_reads_outside(step);
    case BACK_STEP:
        return back_runs(step);
    case BACK_ATTENTION:
        return back_reads_attention(step);
    case BACK_QUIT:
    case BACK_STUCK:
    case BACK_FAULT:
        return back_quits(step);
    default:
        return back_finishes(step);
    }
}
