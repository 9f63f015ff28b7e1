/* What a decoder has answered, cut to the steps that it took: how many that are is known only when
 * it has ended. Or what it has answered so far. Loop thread. */
#ifndef SERVER_TRIM_H
#define SERVER_TRIM_H

#include "scheduler/unfold.h"
#include "server/request.h"

/* The request's outputs, laid out for decoder.steps_max steps, become [rows, longest, ..], without
 * the first `from` steps: behind a row's own steps stand end ids in that of tokens and zeros in
 * others. The output of lengths is filled. graph has run to its end. steps: filled too, of each row
 * (of each hypothesis of a beam) those that are left, or NULL. */
void srv_trim(struct srv_request *request, const struct sched_sequences *sequences,
              const struct sched_graph *graph, uint32_t from, uint32_t *steps);

/* Some steps of a decoder that runs: no row that goes on has fewer than `to`. */
struct srv_trim_part {
    uint32_t from, to;
    uint32_t *lengths; /* [rows]: what each has so far; becomes those within the part */
};

/* The request's outputs, copies of those that the device writes, become [rows, to - from, ..], as
 * those of srv_trim() stand there; what has no steps goes. RESOURCE_EXHAUSTED (the request's
 * arena).
 */
enum base_status srv_trim_part(struct srv_request *request, const struct sched_sequences *sequences,
                               const struct srv_trim_part *part, struct base_error *error);

#endif
