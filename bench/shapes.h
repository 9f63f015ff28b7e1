/* Tree shapes from a file: one tree a line, in postorder, `S` a leaf and `R` the node that joins
 * the last two (as the Stanford Sentiment Treebank's parses are kept). */
#ifndef BENCH_SHAPES_H
#define BENCH_SHAPES_H

#include "base/arena.h"
#include "scheduler/unfold.h"

/* Of a tree; inner nodes are numbered children first, so their order is 0, 1, 2, .. */
struct bench_shape_tree {
    uint32_t n_leaves, n_nodes;
    uint32_t root;
    uint32_t *children; /* [n_nodes][2] */
};

struct bench_shapes {
    struct base_arena arena;
    uint32_t count, leaves_max, nodes_max;
    struct bench_shape_tree *trees;
    uint32_t *order; /* [nodes_max] */
};

/* End *out with bench_shapes_release(), also after an error. INVALID_ARGUMENT names file and line;
 * NOT_FOUND, RESOURCE_EXHAUSTED. */
enum base_status bench_shapes_read(const char *path, struct bench_shapes *out,
                                   struct base_error *error);
void bench_shapes_release(struct bench_shapes *shapes);

#endif
