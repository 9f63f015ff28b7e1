/* Cell graphs for the tests of scheduler/ and worker/: types made by hand, graphs over them, and
 * what they must compute.
 *
 * A *recipe* describes a graph in its own words: nodes, where each reads, what each emits. It is
 * given to the builder, and it is evaluated directly, node after node, by a `graphs_cell`. When the
 * scheduler wires, orders or stores anything wrongly, what the cells emitted differs from that. */
#ifndef TESTS_SCHEDULER_GRAPHS_H
#define TESTS_SCHEDULER_GRAPHS_H

#include "base/random.h"
#include "scheduler/graph.h"

#define GRAPHS_TYPES_MAX   8u
#define GRAPHS_LAYOUTS_MAX 32u

/* Cell types as the registry would make them, without it. */
struct graphs_types {
    uint32_t n, n_layouts;
    struct cell_type types[GRAPHS_TYPES_MAX];
    struct cell_layout layouts[GRAPHS_LAYOUTS_MAX];
    int64_t id_bound; /* > 0: integers in host rows are drawn below it */
};

/* A type of this definition; weights are not copied. It lives as long as types. */
const struct cell_type *graphs_type_add(struct graphs_types *types, const struct cell_def *def);

/* Adds a type whose values are all rows of `width` 64-bit tokens, for graphs_cell_token(). */
const struct cell_type *graphs_type_token(struct graphs_types *types, uint32_t n_inputs,
                                          uint32_t n_states, uint32_t n_outputs, uint32_t width);

/* Copies of all types and layouts of a registry, into an empty one. */
void graphs_types_copy(struct graphs_types *types, const struct cell_registry *registry);

size_t graphs_row_bytes(const struct cell_value *value);

/* One cell of one row: outputs, and in place the states, from inputs and states. */
typedef void (*graphs_cell)(const struct cell_type *type, const void *const *inputs,
                            void *const *states, void *const *outputs);

/* Every output and state becomes a token of the type, its place and all inputs and states. */
void graphs_cell_token(const struct cell_type *type, const void *const *inputs, void *const *states,
                       void *const *outputs);

/* Operations of a type's step: 1, 2, .. of these, so that the scheduler's count of work sees them.
 */
#define GRAPHS_FLOPS 4096u

/* ---- Recipes ---- */

enum recipe_kind {
    RECIPE_ZERO,
    RECIPE_HOST,  /* rows of its own, one a step */
    RECIPE_VALUE, /* an output or state of an earlier node after its last step */
    RECIPE_SPILL, /* an output of an earlier node at every step, through its host rows */
};

struct recipe_read {
    enum recipe_kind kind;
    uint32_t node, index;     /* VALUE, SPILL */
    enum cell_emit_what what; /* VALUE */
    bool backwards;           /* HOST, SPILL: the last step reads the first row */
    uint8_t *host;            /* HOST: [steps] rows */
};

/* What becomes of an output or state of a node. */
struct recipe_result {
    bool is_emitted; /* to got */
    enum cell_emit_when when;
    uint8_t *got;         /* EACH: [steps] rows, LAST: one; filled with RECIPE_BLANK before */
    uint8_t *want;        /* [steps] rows */
    sched_value_id value; /* SCHED_NONE: not read by value */
    size_t row_bytes;
};

#define RECIPE_BLANK 0xA5

struct recipe_node {
    const struct cell_type *type;
    uint32_t steps;
    uint32_t taken; /* of them; fewer by recipe_end(), from recipe_evaluate() on */
    uint32_t ends_after;
    struct cell_end end; /* where ends_after > 0; its id is known from recipe_evaluate() on */
    struct recipe_read inputs[CELL_INPUTS_MAX], init[CELL_STATES_MAX];
    struct recipe_result outputs[CELL_OUTPUTS_MAX], states[CELL_STATES_MAX];
};

struct recipe {
    struct base_arena arena; /* all memory of the recipe and its graph */
    const struct graphs_types *types;
    uint32_t n_nodes, nodes_max;
    struct recipe_node *nodes;
    bool is_shown;             /* all of its nodes are; before the build */
    struct sched_graph *graph; /* by recipe_build() */
};

/* By hand: init, nodes in order, reads, emits; then build. Asserts that memory suffices. */
void recipe_init(struct recipe *recipe, const struct graphs_types *types, uint32_t nodes_max);
uint32_t recipe_node(struct recipe *recipe, const struct cell_type *type, uint32_t steps);
void recipe_input(struct recipe *recipe, uint32_t node, uint32_t input, uint32_t from,
                  enum cell_emit_what what, uint32_t index);
void recipe_state(struct recipe *recipe, uint32_t node, uint32_t state, uint32_t from,
                  enum cell_emit_what what, uint32_t index);
/* The input reads an output of an earlier node, of at least as many steps, at every step. */
void recipe_steps(struct recipe *recipe, uint32_t node, uint32_t input, uint32_t from,
                  uint32_t index, bool backwards);
/* The node ends after the step by which `state`, an integer, has what it has after this many. What
 * the node emits it emits at each step or the first, and nobody reads it. Before the build. */
void recipe_end(struct recipe *recipe, uint32_t node, uint32_t state, uint32_t steps);
/* Host rows of random numbers for every input and state that is still ZERO. */
void recipe_fill(struct recipe *recipe, struct base_random *random);

struct recipe_shape {
    uint32_t nodes_max, steps_max;
    uint32_t layers; /* of 100 nodes: over the node before them, step by step, where they suit */
};
/* A random graph of 1..nodes_max nodes, all of it but the build. */
void recipe_random(struct recipe *recipe, const struct graphs_types *types,
                   const struct recipe_shape *shape, struct base_random *random);

/* Gives the recipe to the builder; every output and state that nobody asked for is emitted too.
 * Asserts success. */
void recipe_build(struct recipe *recipe);

/* Fills want. */
void recipe_evaluate(struct recipe *recipe, graphs_cell cell);

/* Emitted rows that are not as wanted. Floats: to within tolerance (absolute and relative), 0 = to
 * the bit. is_partial: the graph was stopped, so rows may also be blank. */
uint32_t recipe_wrong(const struct recipe *recipe, double tolerance, bool is_partial);

/* Whether `node` reads, or waits for, anything of `from` directly. */
bool recipe_is_child(const struct recipe *recipe, uint32_t node, uint32_t from);

/* Whether each step of the node reads the same step of another through this input. */
bool recipe_reads_steps(const struct recipe *recipe, uint32_t node, uint32_t input);

void recipe_release(struct recipe *recipe);

#endif
