/* The labels that the steps of a row come to (struct cell_labels): what cells have written at each
 * step becomes an answer as long as its labels are. Loop thread. */
#ifndef SERVER_LABELS_H
#define SERVER_LABELS_H

#include "scheduler/unfold.h"
#include "server/request.h"

/* Behind srv_tensors_place(): what the answer is made of has room where the client has not asked
 * for it. steps: of the longest row. RESOURCE_EXHAUSTED (the request's arena). */
enum base_status srv_labels_place(struct srv_request *request,
                                  const struct sched_sequences *sequences, uint32_t steps,
                                  struct sched_tensor *outputs, struct base_error *error);

/* The request's outputs of labels, laid out for as many as there are steps, become [rows, longest]:
 * behind a row's own stand blanks in that of tokens and zeros in others. The outputs of how many
 * there are, and of the last step's label, are filled. graph has run to its end; NULL: there was
 * nothing to run. *lengths: labels of each row, in the arena. RESOURCE_EXHAUSTED. */
enum base_status srv_labels_collapse(struct srv_request *request,
                                     const struct sched_sequences *sequences,
                                     const struct sched_graph *graph, const uint32_t **lengths,
                                     struct base_error *error);

#endif
