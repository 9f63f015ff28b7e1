/* The graph while it is imported: values with symbolic shapes, nodes, and the row expressions they
 * become. Private to cells/import.
 *
 * The way of a model:
 *   infer   every node, in file order: constants are folded; of everything else the shape is known
 *           as axes, each a product of *atoms*. An atom is a dimension nothing splits any further;
 *           atoms found to be equal are merged (union-find), so an axis can be followed through
 *           transposes and reshapes in both directions.
 *   roles   the recurrent nodes say which atoms are batch and which are time.
 *   lower   every node an output needs: what it does to one row, as a row expression (rows.h).
 *   stages  row expressions become cell definitions and the model's program (stages.h).
 * All memory is one arena with a budget; nothing is freed before the import ends. */
#ifndef CELLS_IMPORT_GRAPH_H
#define CELLS_IMPORT_GRAPH_H

#include "base/arena.h"
#include "cells/model.h"

#include "proto/onnx.pb-c.h"

#define CELL__NONE UINT32_MAX

/* Versions of the standard operator set whose meaning the op_*.c files follow. */
#define CELL__OPSET_MIN 7
#define CELL__OPSET_MAX 28

#define CELL__NODES_MAX      16384u
#define CELL__VALUES_MAX     65536u
#define CELL__ATOMS_MAX      65536u
#define CELL__AXIS_ATOMS_MAX 4u
#define CELL__ORDERS_MAX     64u
#define CELL__OPERANDS_MAX   256u /* inputs or outputs of one node */

/* ---- Shapes ------------------------------------------------------------------------------- */

enum cell__role { CELL__ROLE_FEATURE, CELL__ROLE_BATCH, CELL__ROLE_TIME };

/* Padding, strides and windows of all convolutions behind each other. */
#define CELL__STEPS_ADD_MAX (1 << 20)

struct cell__atom {
    uint32_t parent; /* union-find; a root is its own parent and holds the rest */
    enum cell__role role;
    uint32_t sequence; /* TIME: its number among those of the model */
    int64_t size;      /* -1: each request chooses */
    /* A number of steps that follows from another: of n steps of atom `source`, or NONE,
     * (n * parts + add) / stride + 1, rounded down. */
    uint32_t source;
    int64_t parts, add, stride;
    bool is_behind;   /* the distances of no step and of those before (op_distance.c), as many */
    bool is_kept;     /* or, where that sum is not below 0, `size` of them, wherever these stand */
    int64_t multiple; /* of an open size: what must divide it; 0: anything may */
    int64_t least;    /* of an open size: the smallest that shapes were computed for */
    int64_t most;     /* and the largest; 0: any */
    bool is_joined;   /* of steps and of parts of each (cell__axis_join) */
    bool has_lengths; /* as many as its source has, in rows of lengths of their own */
    bool is_divided;  /* a shape has been divided so: what leaves as many steps has this atom */
    uint32_t whole;   /* of which it is a part, both of known size, or NONE: if that turns out to be
                         time, its steps follow from it */
};

/* Product of atoms, outermost first. None: an axis of size 1. */
struct cell__axis {
    uint32_t n;
    uint32_t atoms[CELL__AXIS_ATOMS_MAX];
};

/* An integer that may depend on the request's shape: add + factor * product of the axis. A plain
 * number has factor 0 and no atoms. */
struct cell__sym {
    int64_t add, factor;
    struct cell__axis axis;
};

struct cell__shape {
    uint32_t rank;
    struct cell__axis axes[CELL_RANK_MAX];
};

/* ---- Values ------------------------------------------------------------------------------- */

/* U8, I8: of constants and of the model's inputs alone. The last two are of rows that are doubles
 * in the file and floats here: of a request, which may be moved until a Cast makes floats of them;
 * and floats that a Cast makes doubles of, which may be moved and answered. Nothing computes with
 * either. */
enum cell__dtype {
    CELL__F32,
    CELL__I64,
    CELL__I32,
    CELL__BOOL,
    CELL__U8,
    CELL__I8,
    CELL__F64_GIVEN,
    CELL__F64_MADE,
};

/* A constant. data is dense and row-major; a bool takes a byte. syms: one per element of an I64 or
 * I32 tensor that may depend on the request (then data is not looked at), or NULL. */
struct cell__tensor {
    enum cell__dtype dtype;
    uint32_t rank;
    int64_t dims[CELL_RANK_MAX];
    size_t count; /* product of dims */
    const void *data;
    const struct cell__sym *syms;
};

/* POISON: nothing is known, because its node cannot be imported; a fault only when it is needed.
 * COUNTER: what the number of a Loop's step and sizes of axes make (op_count.c). LIST: a sequence
 * of tensors, one a step: what a tensor is cut to along its axis `list_axis`, or what a Loop
 * collects; or parts of its features, whose ends along that axis stand in `part_ends`. Before what
 * a Loop collects, or will, there may be `heads`, single tensors. ORDER: where
 * rows of a batch stand that are sorted, or where they stood before (sorted.c). */
enum cell__value_kind {
    CELL__UNSET,
    CELL__CONST,
    CELL__ROWS,
    CELL__POISON,
    CELL__COUNTER,
    CELL__LIST,
    CELL__ORDER,
};

struct cell__value {
    const char *name;
    enum cell__value_kind kind;
    enum cell__dtype dtype;
    struct cell__tensor tensor; /* CONST */
    struct cell__shape shape;   /* ROWS; LIST: of the whole, the steps' axis included; COUNTER: of
                                   its one element */
    uint32_t list_axis;         /* LIST */
    uint32_t n_heads;         /* LIST that begins with single tensors; of a collected one behind */
    const uint32_t *heads;    /* [n_heads], values */
    uint32_t behind_heads;    /* 1 + the list that a Loop has collected; 0: none */
    uint32_t n_parts;         /* LIST of parts of features; else 0 */
    const int64_t *part_ends; /* [n_parts], rising */
    int32_t steps; /* COUNTER: 1: the number of the step, and count; 0: count; -1: count, less that
                      number */
    struct cell__sym count; /* COUNTER; of a bool nothing: not the last step */
    bool is_turned;         /* ROWS, LIST: its steps are the other way round (turned.c) */
    uint32_t turned;        /* along which atom */
    bool is_by_slice;       /* a Slice by -1 has said which way round they are */
    uint32_t order; /* ROWS, LIST: its rows are sorted so; 0: they are not. ORDER: which it is */
    bool is_back;   /* ORDER: where rows stood before */
    uint32_t row;   /* ROWS, LIST, once lowered: its row expression */
    uint32_t node;  /* that makes it, or NONE */
    const struct base_error *poison; /* POISON: why; ROWS of a bool: why it is not known before */
    uint32_t number_of; /* ROWS: 1 + the COUNTER that it is, as a row of each step of a body
                           (step_number.c); 0: of none */
    uint32_t as_double; /* 1 + the value of floats that a Cast makes doubles of; 0: none */
    bool is_hidden; /* of a Scan's body that is read, or of our own: its name may be given again */
};

/* A short list of integers from an attribute or a constant. */
struct cell__list {
    bool is_given;
    uint32_t n;
    int64_t at[CELL__OPERANDS_MAX];
};

/* ---- Nodes -------------------------------------------------------------------------------- */

struct cell__operator;

struct cell__node {
    const Onnx__NodeProto *proto;
    const struct cell__operator *op;
    uint32_t n_inputs, n_outputs;
    uint32_t *inputs, *outputs; /* value numbers; NONE where not given */
    uint32_t recurrent;         /* LSTM, GRU, RNN, Scan: its number among them */
    uint32_t scan;              /* the Scan in whose body it stands: its number; NONE outside */
    bool takes_straight; /* inputs that are turned round are put in order for it (turned.c) */
    bool hands_on;       /* output 0 is input 0 as it is */
    bool is_folded;      /* all outputs are constants or poison: nothing to lower */
    bool is_needed;
    bool is_asked; /* it makes a constant that one which is needed has, or what such is made of */
};

/* Functions of an LSTM's, GRU's or RNN's gates (ONNX: attribute activations). */
enum cell__activation_kind {
    CELL__ACT_SIGMOID,
    CELL__ACT_TANH,
    CELL__ACT_RELU,
    CELL__ACT_LEAKY_RELU,
    CELL__ACT_THRESHOLDED_RELU,
    CELL__ACT_SCALED_TANH,
    CELL__ACT_HARD_SIGMOID,
    CELL__ACT_ELU,
    CELL__ACT_SOFTSIGN,
    CELL__ACT_SOFTPLUS,
    CELL__ACT_AFFINE,
    // Operators alone:
    CELL__ACT_ERF,
    CELL__ACT_GELU,
    CELL__ACT_GELU_TANH,
    CELL__ACT_SELU,
    CELL__ACT_MISH,
};

struct cell__activation {
    enum cell__activation_kind kind;
    float alpha, beta;
};

/* A recurrent node: LSTM, GRU, RNN, Scan or Loop (a Scan that takes its elements itself). Rows are
 * filled in when it is lowered. */
struct cell__recurrent {
    uint32_t node;     /* of a Scan: the one that ends it */
    const char *word;  /* what its chain is called: "lstm", "scan" */
    uint32_t sequence; /* whose steps it takes; set with the roles */
    bool is_shared;    /* by all rows of the batch; set when it is lowered */
    bool is_reverse;
    uint32_t directions; /* 2: the number behind is the other one of the same node */
    struct cell__axis time, batch;
    uint32_t lengths_value;
    uint32_t n_states; /* h; h and c; a Scan's state variables */
    struct cell_value states[CELL_STATES_MAX];
    uint32_t init_values[CELL_STATES_MAX]; /* NONE: zeros */
    uint32_t init_rows[CELL_STATES_MAX];   /* NONE: zeros */
    // LSTM, GRU, RNN: one op.
    uint32_t hidden, width; /* of each state; of x */
    uint32_t x_value, x_row;
    struct cell_op op; /* kind, variant, weights, patches; the rest is set in a definition */
    struct cell__activation activations[3]; /* f, g, h of the ONNX specification */
    float clip;                             /* of the gates' sums; 0: none */
    bool input_forget;                      /* an LSTM's f is 1 - i */
    bool is_written_out; /* what op is not: the cell is a body of small operators (op_step.c) */
    // Scan: the rows of its body.
    bool is_scan;
    bool is_loop;                     /* a Loop */
    bool takes_forward, takes_turned; /* sequences that are not, or are, turned round */
    bool is_step;  /* an LSTM, GRU or RNN of one step inside a body: no chain of its own */
    bool is_inner; /* it goes over bands of each step, patches of `op`; set with the roles */
    uint32_t begin_node;
    uint32_t n_carried;                /* states, and a Loop's lists */
    uint32_t carried[CELL_STATES_MAX]; /* which of them state s is */
    uint32_t next_rows[CELL_STATES_MAX];
    uint32_t n_outputs;
    uint32_t output_rows[CELL_OUTPUTS_MAX];
};

/* A time axis: what is known of the lengths of its rows. */
struct cell__sequence {
    uint32_t atom;         /* NONE: no axis has it */
    bool uses_lengths;     /* a needed recurrent node over it has sequence_lens */
    bool has_lengths;      /* it is known which they are, or one has been lowered: the next holds */
    int32_t lengths_input; /* graph input, -1: none */
    struct cell_told told; /* what that tells */
    uint32_t steps_min;    /* cell_sequence.steps_min */
    uint32_t steps_max;    /* likewise, but what embeddings ask for */
};

/* What a node has computed shapes for: that so many steps are the least and the most there are; of
 * one that is needed they are the model's. most 0: any. */
struct cell__bound {
    uint32_t node, atom;
    int64_t least, most;
};

struct cell__external;

/* A matrix of constants, and the same turned round. */
struct cell__turned {
    struct cell__tensor from, to;
};

/* Room that is used again for each attention, and each reduction beside sequence_lens: such a table
 * has an element for each row, and a model may have many of these. */
enum cell__scratch { CELL__SCRATCH_BANDS, CELL__SCRATCH_BEHIND, CELL__SCRATCH_COUNT };

struct cell__builder; /* build.h */

struct cell__import {
    struct base_arena *arena;
    struct cell__external *external; /* files beside the model file */
    struct base_error *error;
    const char *label;
    const Onnx__ModelProto *model;
    int64_t opset;
    size_t weights_bytes;                        /* of the file, without those in files beside it */
    size_t transform_bytes;                      /* of matrices of STFTs, likewise */
    size_t relative_bytes;                       /* of tables of relative positions, */
    uint64_t relative_terms;                     /* and operations that have made them */
    const struct cell__relative_kept *relatives; /* which are there (relative.c) */
    uint32_t ids_from_end; /* model inputs, a bit each, that a table must bound (op_ids.c) */
    size_t n_quantised;    /* elements of 8 bits, for whose floats the arena has been given room */

    struct cell__value *values;
    uint32_t n_values, values_room;
    uint32_t *names; /* hash table: value number or NONE */
    uint32_t names_room;
    struct cell__node *nodes;
    uint32_t n_nodes, nodes_room;
    struct cell__atom *atoms;
    uint32_t n_atoms, atoms_room;
    struct cell__recurrent *recurrents;
    uint32_t n_recurrents, recurrents_room;
    struct cell__row *rows;
    uint32_t n_rows, rows_room;
    struct cell__bound *bounds;
    uint32_t n_bounds, bounds_room;

    uint32_t n_inputs; /* graph inputs that are no initialisers */
    uint32_t inputs[CELL_TENSORS_MAX];
    const struct cell_known_inputs *known; /* cell_model_options.known */
    bool is_part;                          /* cell_model_options.is_part */
    bool feeds_back;                       /* cell_model_options.feeds_back */
    bool has_batch;                        /* an axis has the role */
    uint32_t n_turned;
    struct cell__turned *turned; /* weights that products have turned: a loop that is written out
                                    has them at each step */
    uint32_t n_orders;
    uint32_t orders[CELL__ORDERS_MAX]; /* in which rows are sorted, from 1 on: by their batch's atom
                                        */
    uint32_t n_sequences;
    struct cell__sequence sequences[CELL_SEQUENCES_MAX];
    bool
        turns_rows; /* a Slice by -1 along an axis of a stated size turns features of a row round */
    bool has_turns; /* there is such a Slice */
    bool parts_lengths;    /* what has lengths has steps of its own, as many as it reads */
    bool has_lengths;      /* there is such a node */
    const char *unwritten; /* why the node at hand is not written out (write_out.h); NULL: it is */
    uint32_t n_written;    /* names of values that were made for that */
    struct cell__builder *spare; /* of what was not written out after all, or NULL */
    uint32_t scan;               /* whose body is being read or lowered: its number; NONE outside */
    uint32_t current;            /* node at work, for errors; NONE outside */
    void *scratch[CELL__SCRATCH_COUNT];
    size_t scratch_bytes[CELL__SCRATCH_COUNT];
};

/* ---- Errors ------------------------------------------------------------------------------- */

#define CELL__TEXT_BYTES 64

/* A name from the file, fit for an error: printable ASCII, cut to fit. Returns out. */
const char *cell__quote(char out[CELL__TEXT_BYTES], const char *name);

/* The current node's fault: `LSTM (node "/lstm", opset 17): ...`. */
void cell__fail(struct cell__import *im, enum base_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* `return cell__refuse(im, "...")`: UNIMPLEMENTED; cell__invalid: INVALID_ARGUMENT, for what ONNX
 * itself forbids. Macros, so that compilers and analysers see that neither is ever BASE_OK. */
#define cell__refuse(im, ...)                                                                      \
    ((void)cell__fail(im, BASE_UNIMPLEMENTED, __VA_ARGS__), BASE_UNIMPLEMENTED)
#define cell__invalid(im, ...)                                                                     \
    ((void)cell__fail(im, BASE_INVALID_ARGUMENT, __VA_ARGS__), BASE_INVALID_ARGUMENT)

/* So many elements of this size, until it is asked for the next time; what they hold is not said.
 * NULL: the arena's budget is spent. */
void *cell__scratch(struct cell__import *im, enum cell__scratch which, size_t n, size_t size);

/* RESOURCE_EXHAUSTED: the arena's budget is spent. */
static inline enum base_status cell__no_memory(struct cell__import *im)
{
    (void)base_fail(im->error, BASE_RESOURCE_EXHAUSTED,
                    "importing the model takes more memory than its size allows");
    return BASE_RESOURCE_EXHAUSTED;
}

/* ---- Memory and tables (graph.c) ---------------------------------------------------------- */

/* How many of what, at most. */
struct cell__limit {
    uint32_t max;
    const char *what;
};

/* Makes room behind the `used` items of `size` bytes of an array of the import. */
enum base_status cell__grow(struct cell__import *im, void **array, uint32_t *room, uint32_t used,
                            size_t size, struct cell__limit limit);

/* The value of this name, made when it is new. */
enum base_status cell__value_named(struct cell__import *im, const char *name, uint32_t *out);
/* A constant that no node of the file gives; the name is for errors, and names it for nobody else.
 */
enum base_status cell__value_constant(struct cell__import *im, const char *name,
                                      const struct cell__tensor *tensor, uint32_t *out);

/* CONST or ROWS value number i of the current node; i must be given. */
struct cell__value *cell__input(struct cell__import *im, const struct cell__node *node, uint32_t i);
bool cell__has_input(const struct cell__node *node, uint32_t i);
/* Input i of a node, NULL where there is none, or no node. */
const struct cell__value *cell__input_of(const struct cell__import *im,
                                         const struct cell__node *node, uint32_t i);
struct cell__value *cell__output(struct cell__import *im, const struct cell__node *node,
                                 uint32_t i);
bool cell__has_output(const struct cell__node *node, uint32_t i);

/* The node that makes input i of a node, when it is this operator; else, and of NULL, NULL. */
const struct cell__node *cell__made_by(const struct cell__import *im, const struct cell__node *node,
                                       uint32_t i, const char *name);

/* Sets output i (when it is wanted). */
void cell__set_const(struct cell__import *im, const struct cell__node *node, uint32_t i,
                     const struct cell__tensor *tensor);
void cell__set_rows(struct cell__import *im, const struct cell__node *node, uint32_t i,
                    enum cell__dtype dtype, const struct cell__shape *shape);
void cell__set_list(struct cell__import *im, const struct cell__node *node, uint32_t i,
                    enum cell__dtype dtype, const struct cell__shape *shape, uint32_t axis);

/* ---- Atoms and axes (shape.c) ------------------------------------------------------------- */

enum base_status cell__atom_new(struct cell__import *im, int64_t size, uint32_t *out);
uint32_t cell__atom_root(const struct cell__import *im, uint32_t atom);
int64_t cell__atom_size(const struct cell__import *im, uint32_t atom);
/* That `by` divides the atom's size in every request, beside what did before; 0: nothing. */
enum base_status cell__atom_divide(struct cell__import *im, struct cell__atom *atom, int64_t by);

/* An axis of one fresh atom; of none when size is 1. */
enum base_status cell__axis_new(struct cell__import *im, int64_t size, struct cell__axis *out);
/* The axis of a convolution's or pool's steps, by that of what it reads: (n + add) / stride + 1
 * where there are n. The same axis where these are as many. */
enum base_status cell__axis_strided(struct cell__import *im, const struct cell__axis *axis,
                                    int64_t add, int64_t stride, struct cell__axis *out);
/* That of a transposed convolution's steps: n * parts + add where there are n; parts >= 2. And of
 * such an axis the one whose steps have parts; false: it is none. */
enum base_status cell__axis_parted(struct cell__import *im, const struct cell__axis *axis,
                                   int64_t parts, int64_t add, struct cell__axis *out);
bool cell__axis_whole(const struct cell__import *im, const struct cell__axis *axis,
                      struct cell__axis *out);
/* An axis that something goes along, made of steps and of parts of each, of which the file states
 * how many: from now on, and wherever it stands, that of steps as cell__axis_parted() has them.
 * Others are left as they are. */
enum base_status cell__axis_join(struct cell__import *im, struct cell__axis *axis);
/* An axis of which such has been made, that is as long as another since: the latter. */
void cell__axis_see_joined(const struct cell__import *im, struct cell__axis *axis);
/* Whether strides have left the atom of these steps, every *by-th of them, whatever was added. */
bool cell__axis_has_left(const struct cell__import *im, const struct cell__axis *steps,
                         uint32_t left, int64_t *by);
/* The number of steps of an axis divided by a number of 2 at least, rounded down, as exporters
 * compute what strides leave: an axis. false: not of this axis. */
bool cell__axis_divide(struct cell__import *im, const struct cell__sym *steps, int64_t by,
                       struct cell__sym *out);
/* The larger of a size less a number and of a number, which exporters ask for behind a slice that
 * begins so far from the end: the former, and shorter requests will be refused. false: not of
 * these.
 */
bool cell__axis_larger(struct cell__import *im, const struct cell__sym *a,
                       const struct cell__sym *b, struct cell__sym *out);
/* A number modulo a size, as ONNX's Mod has it, of one that is not farther than the size from 0:
 * the size and the number where that is below 0, else the number; shorter requests will be refused.
 * false: not of these. */
bool cell__axis_wrapped(struct cell__import *im, const struct cell__sym *number,
                        const struct cell__sym *size, struct cell__sym *out);
/* The smaller of a size and of a number, as exporters ask for behind a constant that is cut to so
 * many steps: the size, and longer requests will be refused. false: not of these. */
bool cell__axis_bounded(struct cell__import *im, const struct cell__sym *a,
                        const struct cell__sym *b, struct cell__sym *out);
/* The smaller of a number of steps and of as many of these as go by some whole, as exporters ask
 * for where the others are cut off: the latter. false: not of these. */
bool cell__axis_smaller(const struct cell__import *im, const struct cell__sym *a,
                        const struct cell__sym *b, struct cell__sym *out);
/* Such a number of steps and some more, or less, as an axis; others are left as they are. */
void cell__axis_settle(struct cell__import *im, struct cell__sym *steps);
/* `size` of the steps of an axis whose number a request chooses, at least `needed`: 2 <= size <=
 * needed. UNIMPLEMENTED for an axis of several. */
enum base_status cell__axis_kept(struct cell__import *im, const struct cell__axis *axis,
                                 int64_t size, int64_t needed, struct cell__axis *out);
/* The axis of `size` elements of another, of known size. */
enum base_status cell__axis_part(struct cell__import *im, const struct cell__axis *axis,
                                 int64_t size, struct cell__axis *out);
/* The same, as many steps, of rows that have lengths of their own; where the axis has such, it. */
enum base_status cell__axis_with_lengths(struct cell__import *im, const struct cell__axis *axis,
                                         struct cell__axis *out);
/* The atoms whose size a request chooses; *stated: the product of the others, -1: too large. */
struct cell__axis cell__axis_open(const struct cell__import *im, const struct cell__axis *axis,
                                  int64_t *stated);
/* Elements, or -1 when the request chooses. */
int64_t cell__axis_size(const struct cell__import *im, const struct cell__axis *axis);
bool cell__axis_is_same(const struct cell__import *im, const struct cell__axis *a,
                        const struct cell__axis *b);
/* Whether inputs of the model have dimensions of one name, which are these two axes (roles.c). */
bool cell__axis_is_namesake(const struct cell__import *im, const struct cell__axis *a,
                            const struct cell__axis *b);
/* Whether they have the same atoms, in whatever order; and whether they are as long whatever the
 * request, since their open atoms are the same and the stated ones come to as much. */
bool cell__axis_has_same_atoms(const struct cell__import *im, const struct cell__axis *a,
                               const struct cell__axis *b);
bool cell__axis_is_as_long(const struct cell__import *im, const struct cell__axis *a,
                           const struct cell__axis *b);
/* Whether each atom is the other's, or both are of one size that the file states. */
bool cell__axis_is_alike(const struct cell__import *im, const struct cell__axis *a,
                         const struct cell__axis *b);
/* Makes two axes equal: sizes must agree, unknown ones take the other's. */
enum base_status cell__axis_unite(struct cell__import *im, const struct cell__axis *a,
                                  const struct cell__axis *b, const char *what);
bool cell__axis_has(const struct cell__import *im, const struct cell__axis *axis,
                    enum cell__role role);
bool cell__shape_has(const struct cell__import *im, const struct cell__shape *shape,
                     enum cell__role role);
/* The sequences whose time runs along it: bit s of sequence s. */
uint32_t cell__axis_times(const struct cell__import *im, const struct cell__axis *axis);
uint32_t cell__shape_times(const struct cell__import *im, const struct cell__shape *shape);
/* Elements of the feature atoms: a row's width. Refused beyond CELL_WIDTH_MAX. */
enum base_status cell__shape_width(struct cell__import *im, const struct cell__shape *shape,
                                   uint32_t *out);
/* Shape of a constant, with fresh atoms. */
enum base_status cell__shape_of_tensor(struct cell__import *im, const struct cell__tensor *tensor,
                                       struct cell__shape *out);
/* axis in -rank..rank-1 -> 0..rank-1. */
enum base_status cell__axis_index(struct cell__import *im, int64_t axis, uint32_t rank,
                                  uint32_t *out);

/* What Reshape makes of an axis sequence; targets as ONNX Reshape says (0 and -1 included). */
enum base_status cell__reshape(struct cell__import *im, const struct cell__shape *in,
                               const struct cell__sym *targets, uint32_t n, bool allow_zero,
                               struct cell__shape *out);

/* ---- Numbers of steps that follow from others (lineage.c) ---------------------------------- */

/* Of roots. Whether its steps follow from those of that root, over any number of others. */
bool cell__atom_follows(const struct cell__import *im, const struct cell__atom *atom,
                        uint32_t root);
/* Whether both, which follow from others, do so from the same and in the same way. */
bool cell__atoms_follow_alike(const struct cell__import *im, const struct cell__atom *one,
                              const struct cell__atom *two);
/* Whether both are equal wherever *by divides the steps of atom *source, such as the even steps and
 * the odd ones, or what strides leave, made again by as many parts. */
bool cell__atoms_are_even(const struct cell__import *im, const struct cell__atom *one,
                          const struct cell__atom *two, uint32_t *source, int64_t *by);
/* How many steps more one number has than the other, whatever the request: exporters simplify what
 * they compute of shapes, so that one number is written in several ways. false: it varies, or
 * nobody knows. */
bool cell__steps_more(const struct cell__import *im, const struct cell__sym *one,
                      const struct cell__sym *other, int64_t *more);
/* Whether the part never has more steps than the whole, as what strides leave, made again, has no
 * more than there were. false: or nobody knows. */
bool cell__axis_is_within(const struct cell__import *im, const struct cell__sym *part,
                          const struct cell__axis *whole);

/* Whether a number, which depends on the request, is that of a step of the axis, from 0 on, in
 * every request that has one. *root: the atom that both follow from, or the axis's own. */
bool cell__is_step_of(const struct cell__import *im, const struct cell__sym *number,
                      const struct cell__axis *axis, uint32_t *root);
/* Whether a number that grows with the steps of the axis is not below 0 in any request that has
 * one. */
bool cell__is_never_below(const struct cell__import *im, const struct cell__sym *number,
                          const struct cell__axis *axis);

/* ---- Symbolic integers (sym.c) ------------------------------------------------------------ */

struct cell__sym cell__sym_number(int64_t value);
struct cell__sym cell__sym_of_axis(const struct cell__import *im, const struct cell__axis *axis);
bool cell__sym_is_number(const struct cell__sym *sym);
bool cell__sym_is(const struct cell__sym *sym, int64_t number);
/* The one integer of a constant, which may depend on the request; and where it does not, and is no
 * further from 0 than `most`; and the whole number that a constant float is, nearer than 2^24.
 * false: it is none, or value is NULL. */
bool cell__value_size(const struct cell__value *value, struct cell__sym *out);
bool cell__value_integer(const struct cell__value *value, int64_t most, int64_t *out);
bool cell__value_whole(const struct cell__value *value, int64_t *out);
/* Element i of an integer constant. */
struct cell__sym cell__tensor_sym(const struct cell__tensor *tensor, size_t i);
/* false: not representable, or an overflow. op: one of + - * /. */
bool cell__sym_compute(const struct cell__import *im, char op, const struct cell__sym *a,
                       const struct cell__sym *b, struct cell__sym *out);
/* 1 equal, 0 different whatever the request (a dimension is at least 1), -1 it depends. */
int cell__sym_equal(const struct cell__import *im, const struct cell__sym *a,
                    const struct cell__sym *b);
/* The axis whose size it is; refused when it is no positive size. */
enum base_status cell__sym_axis(struct cell__import *im, const struct cell__sym *sym,
                                struct cell__axis *out);

/* ---- Constants (tensor.c) ----------------------------------------------------------------- */

uint32_t cell__dtype_bytes(enum cell__dtype dtype);
/* Its type and shape, such as "float32 [1, 20, 3]". Returns out. */
const char *cell__tensor_text(char out[CELL__TEXT_BYTES], const struct cell__tensor *tensor);
const char *cell__dtype_name(enum cell__dtype dtype);
/* Whether ONNX's number is of floats or of halves of either kind, all of which are floats here. */
bool cell__is_float(int64_t onnx);
/* Either dtype of rows of doubles. */
bool cell__is_double(enum cell__dtype dtype);
/* Ours for ONNX's number; UNIMPLEMENTED names what. */
enum base_status cell__dtype_of(struct cell__import *im, int64_t onnx, const char *what,
                                enum cell__dtype *out);
enum base_status cell__tensor_read(struct cell__import *im, const Onnx__TensorProto *proto,
                                   struct cell__tensor *out);
/* Sets dims and count; RESOURCE_EXHAUSTED when the product overflows. */
enum base_status cell__tensor_shape(struct cell__import *im, struct cell__tensor *tensor,
                                    uint32_t rank, const int64_t *dims);
/* Room for count elements (and syms when asked for); *data is where to write. */
enum base_status cell__tensor_alloc(struct cell__import *im, struct cell__tensor *tensor,
                                    bool with_syms, void **data, struct cell__sym **syms);
/* Replaces syms that are all plain numbers by data. */
enum base_status cell__tensor_settle(struct cell__import *im, struct cell__tensor *tensor);
/* Integers of rank 0 or 1 without symbols, as axes and the like must be; what is for errors. */
enum base_status cell__tensor_ints(struct cell__import *im, const struct cell__value *value,
                                   const char *what, struct cell__list *out);

/* ---- Attributes (attr.c) ------------------------------------------------------------------ */

const Onnx__AttributeProto *cell__attr(const struct cell__node *node, const char *name);
/* Whatever the case; wanted is lower-case. */
bool cell__is_text(ProtobufCBinaryData text, const char *wanted);
/* The default when absent; INVALID_ARGUMENT when it has another type. */
enum base_status cell__attr_int(struct cell__import *im, const struct cell__node *node,
                                const char *name, int64_t otherwise, int64_t *out);
enum base_status cell__attr_float(struct cell__import *im, const struct cell__node *node,
                                  const char *name, float otherwise, float *out);
enum base_status cell__attr_ints(struct cell__import *im, const struct cell__node *node,
                                 const char *name, struct cell__list *out);
/* Input i (opset >= since) or attribute `name` (before): axes of Squeeze and the like. */
enum base_status cell__ints_or_attr(struct cell__import *im, const struct cell__node *node,
                                    uint32_t i, int64_t since, const char *name,
                                    struct cell__list *out);

/* ---- Operators (operators.c) -------------------------------------------------------------- */

struct cell__operator {
    const char *name;
    uint32_t inputs_min, inputs_max, outputs_max;
    const char *attributes; /* known ones, with a blank before and behind each */
    /* Folds, or sets the shapes of the outputs. */
    enum base_status (*infer)(struct cell__import *im, struct cell__node *node);
    /* Sets the outputs' row expressions; NULL where nothing is left after folding. */
    enum base_status (*lower)(struct cell__import *im, struct cell__node *node);
    const char *notes; /* limits, for the documentation */
};

const struct cell__operator *cell__operator_find(const char *name);
/* Others' inputs are tensors: no lists, no counters. */
bool cell__operator_takes_lists(const struct cell__operator *op);
/* By number, NULL behind the last. */
const struct cell__operator *cell__operator_at(uint32_t index);

#endif
