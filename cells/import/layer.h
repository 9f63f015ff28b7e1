/* Between the files that make a graph of named layers and a safetensors file's tensors: layers.c,
 * layer_recurrent.c, layer_tensors.c. */
#ifndef CELLS_IMPORT_LAYER_H
#define CELLS_IMPORT_LAYER_H

#include "cells/import/build.h"
#include "cells/import/safetensors.h"

struct cell__layer_kind;

/* The graph so far. */
struct cell__making {
    struct base_arena *arena;
    struct base_error *error; /* never NULL */
    struct cell__store *store;
    struct cell__builder *builder;
    const struct cell_layer *layer; /* the one being added, and its number from 1 on */
    uint32_t number;
    const struct cell__layer_kind *kind; /* of layers.c */
    const char *value;  /* what the layers before make: [batch, time, width], or [batch, width] */
    const char *last;   /* of a recurrent layer its last states [batch, width], else NULL */
    const char *before; /* the same of the layer before the one being added */
    int64_t width;      /* of a row of value; 0: as wide as the first layer that tells */
    int64_t input_width;
    bool has_steps;
    bool has_ids; /* the model's input: [batch, time] of ids, which a table makes rows of */
};

/* A tensor of a layer, as each library calls it behind the layer's own name. */
struct cell__variable {
    const char *torch; /* "weight_ih_l0"; NULL: PyTorch has none */
    const char *keras; /* "kernel"; NULL: Keras has none */
    uint32_t number;   /* of Keras' variable: vars/0 */
    bool is_in_cell;   /* of a Keras layer that holds its weights in a cell: lstm_cell/kernel */
};

/* Which half of a Keras Bidirectional wrapper a tensor is of. */
enum cell__way { CELL__WAY_ONLY, CELL__WAY_FORWARD, CELL__WAY_BACKWARD };

/* Both say of which layer: `layer 2 (lstm:rnn): ..`. status INVALID_ARGUMENT or UNIMPLEMENTED. */
enum base_status cell__layer_fail(const struct cell__making *making, enum base_status status,
                                  const char *format, ...) __attribute__((format(printf, 3, 4)));
enum base_status cell__layer_no_memory(const struct cell__making *making);

/* The layer's tensor by that name of PyTorch's, now used; NULL without. */
struct cell__stored *cell__layer_torch(const struct cell__making *making, const char *name);

/* *out: the layer's tensor of this name, now used; NULL without. INVALID_ARGUMENT: there are two.
 */
enum base_status cell__layer_find(const struct cell__making *making,
                                  const struct cell__variable *variable, enum cell__way way,
                                  struct cell__stored **out);

/* INVALID_ARGUMENT: names what was looked for, and what there is. */
enum base_status cell__layer_missing(const struct cell__making *making,
                                     const struct cell__variable *variable);

/* Whether the tensor has these dimensions, 2 or (second 0) 1, none of them 0 or less. */
enum base_status cell__layer_shape(const struct cell__making *making,
                                   const struct cell__stored *tensor, int64_t first,
                                   int64_t second);

/* Whether it has two dimensions, both above 0. */
enum base_status cell__layer_matrix(const struct cell__making *making,
                                    const struct cell__stored *tensor);

/* Its elements as float32: in the file, or in the arena. UNIMPLEMENTED names the type. */
enum base_status cell__layer_floats(const struct cell__making *making,
                                    const struct cell__stored *tensor, const float **out);

/* Its elements as a constant of its own shape, of at most 2 dimensions; *out is the value's name.
 */
enum base_status cell__layer_constant(const struct cell__making *making,
                                      const struct cell__stored *tensor, const char **out);

/* Whether the rows so far can be `width` wide, as the tensor needs them. */
enum base_status cell__layer_width(struct cell__making *making, const struct cell__stored *tensor,
                                   int64_t width);

/* INVALID_ARGUMENT: names the tensors that no layer uses. */
enum base_status cell__layer_unused(const struct cell__making *making);

/* lstm, gru, rnn and rnn_relu, whichever making->layer->kind says. */
enum base_status cell__layer_recurrent(struct cell__making *making);

#endif
