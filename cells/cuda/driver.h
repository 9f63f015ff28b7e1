/* What the CUDA device needs of a GPU, as one narrow table: memory, and a stream of copies, kernels
 * and products. driver_cuda.c is that over the CUDA runtime and cuBLASLt; tests/cuda/driver_host.c
 * runs the same kernels on a thread of the host, so that all else is proved without a card.
 *
 * Threads: one at a time; nothing blocks but what says so. What "allocates" is for start-up, while
 * no work is outstanding. What appends to a stream returns at once, and its effect comes in the
 * order of the stream; UNAVAILABLE from it, or from error(), means that the card or the context is
 * lost for good. Nothing is retried: a CUDA error is sticky. */
#ifndef CELLS_CUDA_DRIVER_H
#define CELLS_CUDA_DRIVER_H

#include "base/status.h"
#include "cells/backend.h"
#include "cells/cuda/lane_args.h"
#include "cells/cuda/step.h"

#include <stddef.h>

struct cell_cuda;        /* a card and our context on it */
struct cell_cuda_stream; /* work in order */
struct cell_cuda_graph;  /* work of a stream, recorded */

/* Memory of the card and pinned memory of the host that the card reaches. */
struct cell_cuda_pinned {
    void *host;
    cell_step_address at;
};

/* A *lane*: one block that stays on its SM (docs/gpu.md), on a stream of its own. */
struct cell_cuda_lane;

/* What a card has for lanes. */
struct cell_cuda_room {
    uint32_t sms;          /* 0: it runs no lanes */
    uint32_t shared_block; /* bytes of shared memory that a block may have */
    uint32_t shared_sm;    /* that an SM has: two blocks of more than half of it have one each */
};

struct cell_cuda_lane_kernel {
    const char *name; /* of cell_sm_choose() */
    uint32_t threads;
    uint32_t shared_bytes;
};

struct cell_cuda_driver {
    const char *name; /* "cuda" */

    /* options->card, with options->cache for what a library's algorithms take. UNAVAILABLE: there
     * is no driver, or no such card; says which. */
    enum base_status (*open)(const struct cell_device_options *options, struct cell_cuda **out,
                             struct base_error *error);
    /* Everything of it has been ended; or the card is lost: then nothing is waited for. */
    void (*close)(struct cell_cuda *cuda, bool is_lost);
    /* Such as "NVIDIA H200"; lives as long as it. */
    const char *(*description)(const struct cell_cuda *cuda);

    /* Memory of the card, on 256 bytes, unspecified. RESOURCE_EXHAUSTED. bytes > 0. */
    enum base_status (*alloc)(struct cell_cuda *cuda, size_t bytes, cell_step_address *out);
    void (*free)(struct cell_cuda *cuda, cell_step_address memory); /* 0 allowed */
    /* Pinned, zeroed. */
    enum base_status (*pin)(struct cell_cuda *cuda, size_t bytes, struct cell_cuda_pinned *out);
    void (*unpin)(struct cell_cuda *cuda, const struct cell_cuda_pinned *pinned);
    /* From and to any memory of the host; blocks until it is done. Nothing outstanding. */
    enum base_status (*write)(struct cell_cuda *cuda, cell_step_address to, const void *from,
                              size_t bytes);
    enum base_status (*read)(struct cell_cuda *cuda, void *to, cell_step_address from,
                             size_t bytes);

    /* Allocates. */
    enum base_status (*stream_open)(struct cell_cuda *cuda, struct cell_cuda_stream **out);
    void (*stream_close)(struct cell_cuda_stream *stream);
    /* Blocks until all that was appended is done. */
    enum base_status (*wait)(struct cell_cuda_stream *stream);

    /* Between both, what is appended is recorded instead; allocates. graph_free: NULL allowed. */
    enum base_status (*record)(struct cell_cuda_stream *stream);
    enum base_status (*recorded)(struct cell_cuda_stream *stream, struct cell_cuda_graph **out);
    void (*graph_free)(struct cell_cuda *cuda, struct cell_cuda_graph *graph);

    /* A library's product: chooses an algorithm for its shape, places' alignment included, and the
     * order of its weights, which are there in both until it returns: product->weights has
     * [inputs][outputs], `turned` has [outputs][inputs], on 256 bytes. Sets product->order, which
     * is how the caller leaves them at product->weights. Allocates. Before it is asked for, of any
     * n_rows; asking twice for a shape is allowed. UNIMPLEMENTED: the library has none that will
     * do. */
    enum base_status (*product_prepare)(struct cell_cuda *cuda, struct cell_step_product *product,
                                        cell_step_address turned, struct base_error *error);

    /* ---- Appended to a stream; none allocates or blocks ---- */

    /* Between memory of the card and pinned memory, which stays as it is until then. */
    enum base_status (*copy_in)(struct cell_cuda_stream *stream, cell_step_address to,
                                const struct cell_cuda_pinned *from, size_t bytes);
    enum base_status (*copy_out)(struct cell_cuda_stream *stream, const struct cell_cuda_pinned *to,
                                 cell_step_address from, size_t bytes);
    enum base_status (*launch)(struct cell_cuda_stream *stream, const struct cell_step *step,
                               uint32_t n_items);
    /* By a library: any order of the sums. n_rows of it are computed. */
    enum base_status (*product)(struct cell_cuda_stream *stream,
                                const struct cell_step_product *product);
    enum base_status (*replay)(struct cell_cuda_stream *stream,
                               const struct cell_cuda_graph *graph);
    /* Stores a word of pinned memory, release, behind everything before. */
    enum base_status (*write64)(struct cell_cuda_stream *stream,
                                const struct cell_cuda_pinned *word, uint64_t value);

    /* ---- Lanes ---- */

    void (*room)(const struct cell_cuda *cuda, struct cell_cuda_room *out);
    /* Allocates, and loads the kernel; no lane runs. */
    enum base_status (*lane_open)(struct cell_cuda *cuda,
                                  const struct cell_cuda_lane_kernel *kernel,
                                  struct cell_cuda_lane **out, struct base_error *error);
    /* Its last launch has left, or it was never launched. */
    void (*lane_close)(struct cell_cuda_lane *lane);
    /* Starts a launch behind the last, which has said that it ends. Returns at once, and allocates
     * nothing. Addresses in args, pointers included, are the card's. */
    enum base_status (*lane_launch)(struct cell_cuda_lane *lane, const struct cell_sm_args *args);
    /* Blocks until the last launch has left the card, for so long at most: UNAVAILABLE. */
    enum base_status (*lane_wait)(struct cell_cuda_lane *lane, uint64_t most_ns);

    /* Whether anything has failed by now. */
    enum base_status (*error)(struct cell_cuda *cuda, struct cell_cuda_stream *stream,
                              struct base_error *error);
};

#endif
