/* Cell types: the unit of batching.
 *
 * Two definitions with the same ops, shapes and weights are one type, whichever models they come
 * from: identity is a 128-bit hash, then compared byte by byte. The registry owns its types and
 * copies of their weights; it belongs to one thread at a time, whoever loads models or lets them
 * go. A type is immutable once made, but for its references, so any thread may read it. */
#ifndef CELLS_TYPE_H
#define CELLS_TYPE_H

#include "base/hash.h"
#include "cells/def.h"

#include <stdbool.h>
#include <stdint.h>

/* Small dense number of a type within its registry; indexes tables of the scheduler and backends.
 */
typedef uint32_t cell_type_id;

#define CELL_TYPES_MAX   2048u
#define CELL_LAYOUTS_MAX 2048u
#define CELL_LAYOUT_NONE UINT32_MAX

/* Rows of one layout are interchangeable memory. A state slot holds each state twice where a step
 * reads the old while it writes the new (LSTM's h), a value row holds one row. */
enum cell_layout_kind { CELL_LAYOUT_STATE, CELL_LAYOUT_VALUE };

struct cell_layout {
    enum cell_layout_kind kind;
    uint32_t n_parts; /* VALUE: 1 */
    struct cell_value parts[CELL_STATES_MAX];
    /* STATE: the slot holds the part twice, by parity of the step, and a step reads one while it
     * writes the other; else the part is advanced in place (an LSTM's c). */
    bool twice[CELL_STATES_MAX];
};

struct cell_type {
    cell_type_id id;
    struct base_hash hash;
    struct cell_def def;   /* weights point into the type's own memory */
    uint32_t state_layout; /* index into the registry's layouts; CELL_LAYOUT_NONE when stateless */
    uint32_t input_layouts[CELL_INPUTS_MAX];   /* of a value row that feeds input i */
    uint32_t output_layouts[CELL_OUTPUTS_MAX]; /* of a value row that keeps output o */
    uint32_t state_layouts[CELL_STATES_MAX];   /* of a value row that keeps state s */
    /* Per row and step: 2 per multiply-add of LINEAR, LSTM, GRU and RNN; of element-wise ops 1 per
     * element, of activations 20. */
    uint64_t flops;
    uint64_t weight_bytes;
    uint32_t refs; /* models that use it; of the thread that has the registry */
    char name[64]; /* label for metrics: first model that brought it, such as "langid/lstm" */
};

/* True when the slot holds the state once: an LSTM reads element j of c only to write element j of
 * c', so a state read as c and by nothing else, that becomes this op's c', needs no second copy.
 * def is checked; its state layout's twice[] says the same. */
bool cell_state_in_place(const struct cell_def *def, uint32_t state);

struct cell_registry;

enum base_status cell_registry_create(struct cell_registry **out);
void cell_registry_free(struct cell_registry *registry);

/* Checks def, then finds the equal type or makes one from copies (then *is_new = true and name is
 * kept). The type gains a reference, given back with cell_type_unref(). */
enum base_status cell_registry_intern(struct cell_registry *registry, const struct cell_def *def,
                                      const char *name, const struct cell_type **out, bool *is_new,
                                      struct base_error *error);
/* One more reference to a type that has one. */
void cell_type_ref(struct cell_registry *registry, const struct cell_type *type);
void cell_type_unref(struct cell_registry *registry, const struct cell_type *type);

/* Ids are 0..n-1. The id of a type whose last reference is gone is NULL until it is given anew. */
uint32_t cell_registry_types(const struct cell_registry *registry);
const struct cell_type *cell_registry_type(const struct cell_registry *registry, cell_type_id id);
uint32_t cell_registry_layouts(const struct cell_registry *registry);
const struct cell_layout *cell_registry_layout(const struct cell_registry *registry,
                                               uint32_t layout);

#endif
