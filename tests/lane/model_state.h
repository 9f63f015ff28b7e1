/* The inside of the model: its memory and its two programs. See model.h. */
#ifndef TESTS_LANE_MODEL_STATE_H
#define TESTS_LANE_MODEL_STATE_H

#include "tests/lane/model.h"

/* Where words and memory stand; of a slot's own the first one, slot i has + i. */
enum model_place {
    MODEL_SLOT = 0,   /* payload; of the tagged form the words behind word 0 */
    MODEL_NUMBER = 2, /* sequence number; of the tagged form word 0 */
    MODEL_OUTSIDE = 4,
    MODEL_RESULT = 6,
    MODEL_COMPLETED = 8,
    MODEL_ENDED,
    MODEL_ABORT,
    MODEL_ATTENTION,
    MODEL_FAULT,
    MODEL_PLACES
};

#define MODEL_STORES 6u                  /* of one place, with the first */
#define MODEL_VIEW   (2u * MODEL_PLACES) /* stores seen; and reads of plain memory seen */

/* A lane that takes tasks ahead is two threads (model_ahead.c). */
enum model_thread { MODEL_HOST, MODEL_LANE, MODEL_BACK, MODEL_THREADS };

struct model_memory {
    uint8_t n[MODEL_PLACES];    /* stores */
    uint8_t read[MODEL_PLACES]; /* plain: the last store that was read */
    uint8_t value[MODEL_PLACES][MODEL_STORES];
    uint8_t has_view[MODEL_PLACES][MODEL_STORES];
    uint8_t view[MODEL_PLACES][MODEL_STORES][MODEL_VIEW];
    uint8_t seen[MODEL_THREADS][MODEL_VIEW];
};

#define MODEL_TASKS_MAX 4u

struct model_state {
    struct model_memory memory;
    /* Host. */
    uint8_t host_pc, submitted, settled, completed, launch, end, failed_to, has_exited;
    uint8_t aborts, attentions, last_end, answered[MODEL_TASKS_MAX + 1];
    /* Lane. */
    uint8_t lane_pc, lane_launch, seq, step, steps_done, has_beaten, parks, faults;
    uint8_t is_next_end; /* what the launch ends with */
    uint8_t taken[MODEL_TASKS_MAX + 1];
    /* Of a lane that takes tasks ahead. */
    uint8_t order, quit; /* the front's: a task that waits for the back, 0: none */
    uint8_t order_view[MODEL_VIEW];
    uint8_t back_pc, back_seq;
};

/* One step on the way: the site that was reached, or none. */
struct model_step {
    const struct model_options *options;
    struct model_state *state;
    uint8_t choice;
    const char *violation;
    uint8_t site; /* CELL_LANE_SITE_COUNT: a step without an access */
};

/* Accesses of `thread`. model_load returns false when there is no choice-th store to read. */
bool model_load(struct model_step *step, enum model_thread thread, enum cell_lane_site site,
                uint8_t place, uint8_t *out);
void model_store(struct model_step *step, enum model_thread thread, enum cell_lane_site site,
                 uint8_t place, uint8_t value);
/* The launch knows what the host knows. */
void model_memory_launch(struct model_memory *memory);
/* What nobody can read any more does not tell states apart. */
void model_memory_forget(struct model_memory *memory, uint32_t n_threads);

/* One step of a thread with this choice; false: there is no such choice. */
bool model_host_step(struct model_step *step);
bool model_lane_step(struct model_step *step);
bool model_front_step(struct model_step *step);
bool model_back_step(struct model_step *step);

void model_state_init(struct model_state *state);
bool model_is_good_end(const struct model_options *options, const struct model_state *state);
void model_ahead_start(struct model_state *state, uint8_t first);
bool model_ahead_is_stuck(const struct model_state *state);
bool model_ahead_is_off(const struct model_state *state);
/* The host's launch starts the lane. */
void model_lane_start(struct model_state *state, uint8_t first);
bool model_lane_is_stuck(const struct model_state *state);
bool model_lane_is_off(const struct model_state *state);
bool model_lane_has_nothing(const struct model_state *state);
bool model_host_is_free(const struct model_state *state);

/* enum cell_lane_op of task seq. */
uint16_t model_op_of(const struct model_options *options, uint8_t seq);

#endif
