/* Plug-ins that unfold (include/cellbatch/unfold.h): loading one, its thread, and the calls that go
 * there and come back. A call has copies of all that the plug-in reads, so that a request need not
 * wait for a plug-in that hangs. */
#ifndef SERVER_PLUGIN_H
#define SERVER_PLUGIN_H

#include "include/cellbatch/unfold.h"
#include "scheduler/unfold.h"
#include "server/loop.h"

struct srv_plugin;

/* ---- Life cycle: open, start, stop, free; loop thread, open also before it runs ---- */

/* Loads FOLDER/unfold.so, and gives the model, whose cells are loaded, the tensors that it names.
 * On an error the model is as it was. NOT_FOUND, INVALID_ARGUMENT (what is wrong with it). */
enum base_status srv_plugin_open(const char *folder, struct cell_model *model,
                                 struct srv_plugin **out, struct base_error *error);
/* Starts the thread. RESOURCE_EXHAUSTED. */
enum base_status srv_plugin_start(struct srv_plugin *plugin, struct srv_loop *loop,
                                  struct base_error *error);
/* Ends the thread. One that is inside the plug-in is left alone, and frees what is its own when it
 * comes back; nothing is posted any more. Needed before the loop is released, if it was started. */
void srv_plugin_stop(struct srv_plugin *plugin);
void srv_plugin_free(struct srv_plugin *plugin); /* NULL is allowed */

/* ---- Calls ---- */

/* An input of a node, or an output: which, and where its row is. */
struct srv_plugin_row {
    int64_t node;
    uint32_t port, tensor;
    uint64_t offset;     /* in elements of the tensor */
    const uint8_t *data; /* NULL, or a copy of the row itself; in the call's arena */
    uint64_t bytes;      /* of data */
};

struct srv_plugin_list {
    void *items;
    uint32_t n, capacity;
};

/* What the plug-in says of a request. */
struct srv_plugin_call {
    struct cellbatch_graph face;    /* first: what the plug-in holds */
    struct base_message back;       /* posted to the loop when it has returned */
    const struct cell_model *model; /* the loop's: a late plug-in may outlive it */
    uint32_t nodes_max, n_inputs, n_outputs;
    uint32_t ranks[CELLBATCH_TENSORS_MAX]; /* of outputs */
    struct base_arena arena;               /* all memory of the call */
    struct cellbatch_values inputs[CELLBATCH_TENSORS_MAX];
    struct srv_plugin_list cells;                         /* of int64_t, a node each */
    struct srv_plugin_list edges;                         /* of int64_t[CELL_EDGE_NUMBERS] */
    struct srv_plugin_list feeds, answers;                /* of struct srv_plugin_row */
    int64_t shapes[CELLBATCH_TENSORS_MAX][CELL_RANK_MAX]; /* of outputs */
    struct base_error error;                              /* the first that went wrong */
    void *user, *owner;                                   /* the caller's */
};

/* A call with copies of these tensors, [model->n_inputs]. budget_bytes: memory that
 * it may take. NULL: there is none. Ended with srv_plugin_call_free(). */
struct srv_plugin_call *srv_plugin_call_create(const struct cell_model *model,
                                               const struct cellbatch_values *inputs,
                                               uint32_t nodes_max, size_t budget_bytes);
void srv_plugin_call_free(struct srv_plugin_call *call);

/* Hands the call to the thread, which has none now; its message comes back to the loop, unless the
 * plug-in is stopped before: then the call is freed by whoever has it. */
void srv_plugin_post(struct srv_plugin *plugin, struct srv_plugin_call *call);

#endif
