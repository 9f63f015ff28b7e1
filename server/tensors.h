/* The tensors of a request against those of its model: names, types, shapes, byte counts and ids of
 * what came, and room for what is answered. Shared by validate.c and validate_tree.c. Pure but for
 * the request's arena; loop thread. */
#ifndef SERVER_TENSORS_H
#define SERVER_TENSORS_H

#include "scheduler/unfold.h"
#include "server/request.h"

/* What the axes that a request chooses have turned out to be. */
struct srv_extents {
    int64_t batch, steps[CELL_SEQUENCES_MAX]; /* -1: not known yet */
    int64_t beam; /* hypotheses of a beam search, the second axis of all that it answers; 0: none */
    const char *batch_of, *steps_of[CELL_SEQUENCES_MAX]; /* the inputs that set them */
    const int64_t *dims; /* NULL, or of an output: all that it has */
};

/* Nothing is known yet. */
struct srv_extents srv_extents_none(void);

/* Whether every tensor that came is one of the model's. */
enum base_status srv_tensors_known(const struct srv_request *request,
                                   const struct cell_model *model, struct base_error *error);

/* Finds the input, checks it, and says where its rows lie; data NULL when it is optional and left
 * out. INVALID_ARGUMENT names the tensor, what came and what was expected. */
enum base_status srv_tensor_take(struct srv_request *request, const struct cell_tensor *want,
                                 struct srv_extents *extents, struct sched_tensor *out,
                                 struct base_error *error);

/* Element i of an input of integers. */
int64_t srv_tensor_integer(const struct cell_tensor *tensor, const uint8_t *data, size_t i);

/* Of ids that are bounded, for messages: what stands before the largest. */
const char *srv_ids_from(const struct cell_tensor *tensor);

/* Makes request->outputs, zeros, as cells see them, of these extents; or each output of its own,
 * extents[n_outputs]. outputs: by the model's number; data NULL where one is not asked for. */
enum base_status srv_tensors_place(struct srv_request *request, const struct cell_model *model,
                                   const struct srv_extents *extents, struct sched_tensor *outputs,
                                   struct base_error *error);
enum base_status srv_tensors_place_each(struct srv_request *request, const struct cell_model *model,
                                        const struct srv_extents *extents,
                                        struct sched_tensor *outputs, struct base_error *error);

/* The model's number of an output that is answered. */
uint32_t srv_tensor_output(const struct cell_model *model, const struct srv_tensor *answer);

/* Of what is answered: what is turned, from the rows that cells have written. */
void srv_tensors_turn_back(struct srv_request *request, const struct cell_model *model,
                           const struct sched_tensor *outputs);

/* Of what is answered: what goes out in another form than cells have (struct cell_tensor, form). */
void srv_tensors_narrow(struct srv_request *request, const struct cell_model *model);

#endif
