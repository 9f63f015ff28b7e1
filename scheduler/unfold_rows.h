/* What a chain model's request is unfolded with (unfold.c), and the rows in the request's memory
 * that its stages read: what stages hand on at each step, what is attended to, what windows read,
 * what is joined, and numbers of steps. All are made on first use, for the row of the batch at work
 * or, of what all rows share, once. Private to scheduler/. Thread: loop thread. */
#ifndef SCHEDULER_UNFOLD_ROWS_H
#define SCHEDULER_UNFOLD_ROWS_H

#include "scheduler/unfold.h"

#include <stdbool.h>

/* What has been built so far of one row of the batch, or of what all rows share. */
struct sched__row_state {
    uint32_t row;
    sched_node_id nodes[CELL_STAGES_MAX]; /* SCHED_NONE: a stage of no steps */
    uint8_t *spills[CELL_STAGES_MAX][CELL_OUTPUTS_MAX];
    uint8_t *memories[CELL_MEMORIES_MAX]; /* of outputs of stages */
    uint8_t *joins[CELL_JOINS_MAX];
    uint8_t *padded[CELL_TENSORS_MAX][CELL_PIECES_MAX];        /* of inputs that windows read */
    sched_value_id firsts[CELL_STAGES_MAX][CELL_OUTPUTS_MAX];  /* SCHED_NONE: none yet */
    sched_value_id outputs[CELL_STAGES_MAX][CELL_OUTPUTS_MAX]; /* likewise, of the last step */
    sched_value_id states[CELL_STAGES_MAX][CELL_STATES_MAX];
};

struct sched__unfolding {
    const struct sched_sequences *sequences;
    struct base_arena *arena;
    struct sched_builder builder;
    uint32_t emits_max[CELL_STAGES_MAX];
    struct sched__row_state *shared, *own;
    int64_t *numbers[CELL_SEQUENCES_MAX]; /* 0, 1, .. of the longest row; made on first use */
    enum base_status status;
};

/* Where what the stage makes is noted: of the row at work, or of all rows. */
static inline struct sched__row_state *sched__state_of(struct sched__unfolding *u, uint32_t stage)
{
    return u->sequences->model->stages[stage].is_shared ? u->shared : u->own;
}

static inline sched_node_id sched__node_of(struct sched__unfolding *u, uint32_t stage)
{
    return sched__state_of(u, stage)->nodes[stage];
}

/* Of the row at work. */
static inline uint32_t sched__length_of(const struct sched__unfolding *u, uint32_t sequence)
{
    return u->sequences->steps[sequence][u->own->row];
}

/* Where a piece of a tensor's row in the batch begins, at the first step. */
static inline uint8_t *sched__piece_of(const struct sched_tensor *tensor, uint32_t row,
                                       uint32_t piece)
{
    return tensor->data + row * tensor->batch_bytes + piece * tensor->piece_bytes;
}

/* Where what a stream says of a stage stands, for the row at work. */
static inline size_t sched__place_of(const struct sched__unfolding *u,
                                     const struct cell_stage *stage)
{
    const size_t number = (size_t)(stage - u->sequences->model->stages);
    return number * u->sequences->n_rows + u->own->row;
}

/* Of the stage, for the row at work; 0: it has none. */
static inline uint32_t sched__steps_of(const struct sched__unfolding *u,
                                       const struct cell_stage *stage)
{
    const struct sched_stream *stream = u->sequences->stream;
    if (stage->kind == CELL_STAGE_DECODER) {
        const struct cell_model *model = u->sequences->model;
        const uint32_t each = model->decoder.steps_each;
        const uint32_t frames =
            each > 0 ? u->sequences->steps[model->labels.frames][u->own->row] : 0;
        return each == 0 ? sched_decoder_steps(u->sequences) : frames > 0 ? frames * each : 1;
    }
    if (stage->kind == CELL_STAGE_ONCE) {
        return 1;
    }
    return stream != NULL ? stream->taken[sched__place_of(u, stage)]
                          : sched__length_of(u, stage->sequence);
}

/* The rows of a sequence as a stage meets them, one step after the other. */
static inline struct cell_ref sched__rows_for(const struct cell_stage *stage, const uint8_t *data,
                                              int64_t step_bytes, uint32_t steps)
{
    return stage->is_reverse ? sched_host_ref(data + (steps - 1) * step_bytes, -step_bytes)
                             : sched_host_ref(data, step_bytes);
}

/* The rows of the row's steps of a stage's output, which the stage emits. This, and what follows:
 * NULL when memory is spent, which is noted. */
uint8_t *sched__spill_of(struct sched__unfolding *u, uint32_t stage, uint32_t output,
                         size_t *stride);
/* Rows of what is attended to, for the row at work. */
uint32_t sched__memory_steps(const struct sched__unfolding *u, const struct cell_memory *memory);
/* Rows of the stages' outputs at each step, side by side. */
uint8_t *sched__memory_of(struct sched__unfolding *u, uint32_t number);
/* The rows of an input's piece as a window needs them, with zeros around them. */
const uint8_t *sched__padded_of(struct sched__unfolding *u, const struct cell_source *source,
                                size_t *stride);
/* Whose steps are read, of a whole sequence. */
uint32_t sched__sequence_of(const struct cell_model *model, const struct cell_source *source);
/* Steps of what is read, for the row at work. */
uint32_t sched__steps_there(const struct sched__unfolding *u, const struct cell_source *source);
/* In a session: steps of it in the requests before; and of what a stage attends to the first that
 * one of the stage's steps in this request needs. */
int64_t sched__steps_before(const struct sched__unfolding *u, const struct cell_source *source);
int64_t sched__first_attended(const struct sched__unfolding *u, const struct cell_stage *stage);
/* What a session has of these rows; NULL: nothing, or the request is of none. */
const struct cell_history *sched__history_of(const struct sched__unfolding *u,
                                             const struct cell_source *source);
/* Makes the rows that a session keeps of the row at work, also of what nobody reads this time. */
void sched__keep_rows(struct sched__unfolding *u);
/* Where the steps of a join lie. Who reads it may have fewer, by lengths of its own. */
uint8_t *sched__join_of(struct sched__unfolding *u, uint32_t number, size_t *stride);
/* The numbers of a sequence's steps, as many as the longest row has, which all rows and stages
 * read.
 */
const int64_t *sched__numbers_of(struct sched__unfolding *u, uint32_t sequence);
/* In a session: those of the stage's steps in this request, of the row at work; of_attended: as
 * CELL_NUMBER_ATTENDED. */
const int64_t *sched__numbers_in(struct sched__unfolding *u, const struct cell_stage *stage,
                                 bool of_attended);

#endif
