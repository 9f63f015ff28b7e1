/* Plug-ins that unfold requests into graphs of cells: the whole interface, version 1.
 *
 * A plug-in is a shared object `unfold.so` beside a model's cells (docs/plugins.md). It exports one
 * constant, `cellbatch_unfold`, which names the tensors of the model and has a function that
 * describes, for each request, which cells there are, what each of them reads, and where what they
 * make is answered. It computes nothing itself: cells run in the server, in batches with those of
 * all other requests. Nothing is linked: what the server offers comes as a table of functions.
 *
 * Errors: a function that is given nonsense fails the request, and no other; what is called after
 * that does nothing. A plug-in runs inside the server: one that crashes, or writes where it should
 * not, ends the server. So it must check what it reads from a request before it uses it, and say no
 * by returning a message. */
#ifndef CELLBATCH_UNFOLD_H
#define CELLBATCH_UNFOLD_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A server takes plug-ins of its own version alone. */
#define CELLBATCH_UNFOLD_ABI 1u

#define CELLBATCH_RANK_MAX    8u
#define CELLBATCH_TENSORS_MAX 32u /* inputs, and outputs, of a model */

enum cellbatch_datatype { CELLBATCH_FP32 = 0, CELLBATCH_INT64 = 1, CELLBATCH_INT32 = 2 };

/* A tensor of the model, as clients see it. */
struct cellbatch_tensor {
    const char *name;                 /* 1 to 127 bytes */
    uint32_t datatype;                /* enum cellbatch_datatype */
    uint32_t rank;                    /* 0..CELLBATCH_RANK_MAX */
    int64_t dims[CELLBATCH_RANK_MAX]; /* > 0, or -1: each request chooses */
    uint32_t is_optional;             /* an input that may be left out */
};

/* An input as it came: row-major, dense, aligned to its elements. */
struct cellbatch_values {
    const void *data; /* NULL: left out */
    uint64_t count;   /* elements */
    int64_t dims[CELLBATCH_RANK_MAX];
};

/* Valid during unfold(). */
struct cellbatch_request {
    uint32_t n_inputs;
    const struct cellbatch_values *inputs; /* in the order of cellbatch_unfold.inputs */
};

struct cellbatch_graph;

/* What unfold() may call, on its own thread. Cells are numbered as config.yaml names them, their
 * inputs and outputs as in their ONNX files, from 0; tensors in the order of cellbatch_unfold.
 * Offsets are in elements from the start of a tensor; a row has as many elements, and the datatype,
 * as the cell's input or output. Each returns 0, or -1 when the request has failed. */
struct cellbatch_calls {
    /* A node of this cell; returns its number (0, 1, 2, ..) or -1. */
    int64_t (*add_node)(struct cellbatch_graph *graph, uint32_t cell);
    /* The input of node `to` reads the output of node `from`, which may be added later. What leads
     * back to itself fails the request. */
    int (*connect)(struct cellbatch_graph *graph, int64_t from, uint32_t output, int64_t to,
                   uint32_t input);
    /* The node's input reads a row of the request's tensor, in place. An input that nothing is said
     * of reads zeros. */
    int (*feed)(struct cellbatch_graph *graph, int64_t node, uint32_t input, uint32_t tensor,
                uint64_t offset);
    /* The node's input reads these values, which are copied. */
    int (*feed_values)(struct cellbatch_graph *graph, int64_t node, uint32_t input,
                       const void *values, uint64_t bytes);
    /* The dimensions of an output of the model in this request's answer; needed where a -1 stands
     * among its own. What no row is answered to stays zeros. */
    int (*set_shape)(struct cellbatch_graph *graph, uint32_t tensor, const int64_t *dims);
    /* The node's output is a row of the model's output. Once for an output of a node; rows that
     * overlap are undefined where they do. */
    int (*answer)(struct cellbatch_graph *graph, int64_t node, uint32_t output, uint32_t tensor,
                  uint64_t offset);
    /* As returning the message, from anywhere inside. */
    int (*fail)(struct cellbatch_graph *graph, const char *message);
};

/* A request's graph while it is described. Behind this the server has its own. */
struct cellbatch_graph {
    const struct cellbatch_calls *calls;
};

struct cellbatch_unfold {
    uint32_t abi;                 /* CELLBATCH_UNFOLD_ABI */
    uint32_t n_inputs, n_outputs; /* 1..CELLBATCH_TENSORS_MAX */
    const struct cellbatch_tensor *inputs, *outputs;
    /* NULL, or why the request is no good, which its client is told (INVALID_ARGUMENT); the text is
     * copied at once. One call at a time, always on the same thread, never before a request came.
     * It has the time of `unfold-deadline` (config.yaml): who is late fails the request, and until
     * it returns all others of the model. */
    const char *(*unfold)(const struct cellbatch_request *request, struct cellbatch_graph *graph);
};

/* The plug-in defines it. */
#if defined __GNUC__
__attribute__((visibility("default")))
#endif
extern const struct cellbatch_unfold cellbatch_unfold;

#ifdef __cplusplus
}
#endif

#endif
