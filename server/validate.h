/* From a request's tensors to sequences, trees or graphs: every name, type, shape, byte count and
 * id is checked here, before anything else looks at them, and the output tensors are laid out. Pure
 * but for the request's arena; loop thread. */
#ifndef SERVER_VALIDATE_H
#define SERVER_VALIDATE_H

#include "scheduler/unfold.h"
#include "server/request.h"

struct srv_limits {
    uint32_t sequence_length_max;
};

struct srv_text_rows;

/* For models of CELL_UNFOLD_CHAIN and CELL_UNFOLD_SEQ2SEQ, whose outputs have room for as many
 * steps as there may be. rows: what texts have said (server/text.h). On BASE_OK: request->outputs
 * are laid out (zeros), and *sequences, whose memory is the request's arena, is ready to unfold.
 * INVALID_ARGUMENT names the tensor, what came and what was expected; RESOURCE_EXHAUSTED when the
 * request's memory is spent.
 */
enum base_status srv_validate(struct srv_request *request, const struct cell_model *model,
                              const struct srv_limits *limits, const struct srv_text_rows *rows,
                              struct sched_sequences *sequences, struct base_error *error);

/* The same for models of CELL_UNFOLD_TREE. Every node but the roots has one parent, and none is
 * below itself; leaves and nodes together are at most sequence_length_max. */
enum base_status srv_validate_tree(struct srv_request *request, const struct cell_model *model,
                                   const struct srv_limits *limits,
                                   const struct srv_text_rows *rows, struct sched_forest *forest,
                                   struct base_error *error);

/* The same for models of CELL_UNFOLD_GRAPH: sched_dag_check()'s refusals, nodes are at most
 * sequence_length_max, and an input of a cell that comes has a row for each of its nodes. */
enum base_status srv_validate_graph(struct srv_request *request, const struct cell_model *model,
                                    const struct srv_limits *limits, struct sched_dag *dag,
                                    struct base_error *error);

struct cellbatch_values;
struct srv_plugin_call;

/* Of a model whose requests a plug-in unfolds (server/plugin.h): first its inputs, [n_inputs] where
 * they are and what the plug-in is shown of them. */
enum base_status srv_validate_plugin_inputs(struct srv_request *request,
                                            const struct cell_model *model,
                                            struct sched_tensor *inputs,
                                            struct cellbatch_values *values,
                                            struct base_error *error);

/* Then what it made of them: its call, which is back. INTERNAL: what is no graph. What dag names
 * stays the call's, but for rows: those are the request's. */
enum base_status srv_validate_plugin(struct srv_request *request, const struct cell_model *model,
                                     const struct srv_plugin_call *call,
                                     const struct sched_tensor *inputs, struct sched_dag *dag,
                                     struct base_error *error);

/* For a warm-up, which the plug-in knows nothing of: a node of each cell, without inputs. */
enum base_status srv_validate_plugin_sample(struct srv_request *request,
                                            const struct cell_model *model,
                                            const struct srv_limits *limits, struct sched_dag *dag,
                                            struct base_error *error);

#endif
