/* What a decoder has answered, cut to the steps that it took: how many that are is known only when
 * it has ended. Loop thread. */
#ifndef SERVER_TRIM_H
#define SERVER_TRIM_H

#include "scheduler/unfold.h"
#include "server/request.h"

/* The request's outputs, laid out for decoder.steps_max steps, become [rows, longest, ..]: behind a
 * row's own steps stand end ids in that of tokens and zeros in others. The output of lengths is
 * filled. graph has run to its end. steps: filled too, of each row (of each hypothesis of a beam),
 * or NULL. */
void srv_trim(struct srv_request *request, const struct sched_sequences *sequences,
              const struct sched_graph *graph, uint32_t *steps);

#endif
