/* A cell type made ready for a CPU device: its ops in order, where each value stands, which ops
 * are shared out by panels and which by rows, and where a barrier must stand between them.
 *
 * Values are reached through arrays of row pointers, one a value: into request memory, row stores
 * and weight tables where they stand (nothing is gathered or copied), or into scratch. A value
 * that becomes a state is written straight into the state slot. Built once at load; read-only
 * afterwards, but for the spaces, which belong to one team member each while a batch runs. */
#ifndef CELLS_CPU_PROGRAM_H
#define CELLS_CPU_PROGRAM_H

#include "base/arena.h"
#include "base/mem.h"
#include "cells/batch.h"
#include "cells/cpu/shares.h"
#include "cells/kernels.h"
#include "cells/type.h"

#include <stdatomic.h>

/* Values of the definition, then those the program adds: of an op at most 5, a GRU's z, its r * h,
 * a copy of its h and two looked up in gate tables; and a copy for each state. Ops likewise: both
 * halves of a GRU, the copy, two lookups. */
#define CELL_PROGRAM_VALUES_MAX (CELL_VALUES_MAX + 5u * CELL_OPS_MAX + CELL_STATES_MAX)
#define CELL_PROGRAM_OPS_MAX    (5u * CELL_OPS_MAX + CELL_STATES_MAX)

/* Gated cells of one definition whose sums over x may be computed ahead. */
#define CELL_WINDOWED_MAX 8u

/* Values of one definition that may be computed ahead and kept for the steps. */
#define CELL_KEPT_MAX 16u

/* Who computes an op. */
enum cell_share {
    CELL_SHARE_EACH,   /* every member for itself: pointers only (GATHER, SLICE, PICK) */
    CELL_SHARE_ROWS,   /* each member a range of the rows */
    CELL_SHARE_PANELS, /* each member a range of the panels, all rows (LINEAR, gated cells) */
};

/* Where an op's panels lie among those of its wave (waves.c), in multiply-adds for a row. */
struct cell_wave {
    uint64_t before; /* of the ops before it */
    uint64_t panel;  /* of one of its own; > 0; the last may have less */
    uint64_t total;  /* of the wave */
};

/* An operand that is shorter and read again: struct cell_pointwise_value; 0: it is not. */
struct cell_repeats {
    uint32_t times, part;
};

struct cell_program_op {
    const struct cell_op *op; /* NULL: a copy that the program added */
    enum cell_op_kind kind;
    enum cell_share share;
    bool barrier_before;      /* an operand was written by other members since the last barrier */
    struct cell_wave wave[2]; /* [1]: where sums over x stand in windows */
    uint32_t n_in;
    uint32_t in[CELL_OPERANDS_MAX]; /* of a gated cell: enum cell_gated_in; of a tree: tree.c */
    uint32_t out;
    uint32_t second;    /* CELL_VALUES_MAX: none */
    bool fills_windows; /* depends on no state; kept in windows, or needed for what is */
    bool is_only_ahead; /* and nothing else does: a step that has windows leaves it out */
    bool is_gated;
    /* Its results are needed only of rows whose state or input, value `guard`, is above 0, or is
     * not. */
    bool is_guarded, guard_is_above;
    uint32_t guard;
    /* Its x depends on no state: the sums over it may be computed ahead, into window number
     * `window`, at float window_at of each step's. */
    bool has_window;
    uint32_t window, window_at;
    struct cell_gated gated;
    /* Its x is a row of this embedding, and instead of it, in[CELL_GATED_X] is a row of `table`,
     * the sums over x; or NULL. */
    const struct cell_weight *embedding;
    float *table;              /* [embedding->rows, gated.panels * gated.columns], owned; or see
                                  cell_program.leaves */
    struct cell_weight lookup; /* GATHER: what it looks up */
    struct cell_linear linear;
    const struct cell_convolution *convolution; /* a LINEAR over places (convolve.h), or NULL */
    struct cell_bounds bounds;                  /* a LINEAR or FILTER: `out` is held within them */
    // A chain of element-wise ops (kind is CELL_OP_COUNT then): the program's number of each of its
    // values; in, out and second are not used.
    const struct cell_pointwise *chain;
    uint32_t *chain_values;
    struct cell_repeats repeats[3]; /* of an element-wise op's operands, until it is in a chain */
};

/* The operands of a gated cell, as struct cell_gated_step names them. */
enum cell_gated_in { CELL_GATED_X, CELL_GATED_H, CELL_GATED_OLD, CELL_GATED_Z };

enum cell_place {
    CELL_PLACE_NONE,    /* not read by anything, or many rows that attend.c goes to itself */
    CELL_PLACE_INPUT,   /* input number `index` */
    CELL_PLACE_STATE,   /* state `index` as it comes in */
    CELL_PLACE_NEXT,    /* state `index` as it goes out */
    CELL_PLACE_TABLE,   /* a row of a GATHER's table, or of a PICK's memory */
    CELL_PLACE_VIEW,    /* a part of another value's row: SLICE */
    CELL_PLACE_CONST,   /* a CONST's weight */
    CELL_PLACE_SCRATCH, /* written by an op, read by others of the same step */
    CELL_PLACE_KEPT,    /* likewise, but where steps are computed ahead it stands in a window */
    CELL_PLACE_OUT,     /* likewise, but where a row is emitted it may be written there:
                           output `index` of a type without states */
};

struct cell_program_value {
    struct cell_value shape;
    enum cell_place place;
    uint32_t index;
    /* OUT: nobody in the cell reads it, and nothing behind its last element is written: it may
     * stand in request memory, too. */
    bool is_exact;
};

/* Operands and results of a product at most: x, h, old, z, out, second. */
#define CELL_CHOSEN_MAX 6u

/* What one member of one queue's team works with. */
struct cell_space {
    uint8_t **rows[CELL_PROGRAM_VALUES_MAX]; /* [value] -> [block_rows] row pointers */
    uint8_t **kept[CELL_KEPT_MAX];    /* [kept] -> [block_rows] rows of those without a window */
    uint8_t **outs[CELL_OUTPUTS_MAX]; /* [output] -> [block_rows] rows of those emitted elsewhere */
    uint32_t *active;                 /* [CELL_BATCH_ROWS_MAX] rows still running */
    uint32_t *steps;                  /* [CELL_BATCH_ROWS_MAX] of each row in this batch */
    uint32_t *offsets;                /* [CELL_BATCH_ROWS_MAX] of active cells: steps into a span */
    float *scratch;                   /* the kernels' */
    _Atomic uint64_t *share;          /* on a cache line of its own; panels.c */
    uint32_t round;                   /* of ops whose panels were taken; panels.c */
    uint32_t turn; /* of member 0: steps run so far; odd ones take the panels backwards */
    float **ahead[CELL_WINDOWED_MAX]; /* [op's window] -> [CELL_WINDOWS] */
    /* [block_rows], for a fill: rows of the batch, steps ahead, places; where sums go */
    uint32_t *fill_rows, *fill_offsets, *fill_places;
    float **ahead_out;
    struct cell_pairs *pairs; /* of tree.c; NULL in a program that takes no pairs */
    uint32_t *chosen; /* [block_rows]: of the view those that a guarded op needs; and rows */
    uint8_t **chosen_rows[CELL_CHOSEN_MAX]; /* of its operands and results. NULL: has_guards */
};

/* A value with place KEPT, at float window_at of each step in a window. */
struct cell_kept {
    uint32_t value, window_at;
};

struct cell_windows;
struct cell_places;
struct cell_pairs;

/* What a member works with where it runs rows without the others; apart.c. */
struct cell_alone {
    _Alignas(BASE_CACHE_LINE) _Atomic uint32_t is; /* what it is about */
    /* What it was given: those of these rows that have steps in its space, from this step on. */
    uint32_t row_first, row_end, step;
    bool settles, has_ends;
    struct cell_space *space;
    struct cell_windows *windows; /* NULL: the program has none, or they would be too large */
    uint64_t done_ns;             /* when it had done its rows; 0: it was interrupted */
};

/* What members share that run rows apart. */
struct cell_apart {
    _Alignas(BASE_CACHE_LINE) _Atomic uint32_t n_busy; /* members that have rows */
    /* Rows that have ended and of which nobody has been told: a bit each, and whether there are. */
    _Alignas(BASE_CACHE_LINE) _Atomic uint64_t ended[CELL_BATCH_ROWS_MAX / 64];
    _Alignas(BASE_CACHE_LINE) _Atomic bool have_ended;
    _Alignas(BASE_CACHE_LINE) _Atomic uint32_t n_given; /* rows, ever: for who wants to know, */
    _Atomic uint32_t n_helped;                          /* and pieces of sums made for others */
    uint32_t members;
    bool meets;   /* in this batch members wait for rows or pieces of sums; else they go home */
    bool is_even; /* in this batch each has as many rows */
    bool all_have_windows;
    struct cell_shares shares; /* in others */
    uint64_t n_batches;        /* such ones, ever */
    uint64_t begun_ns;         /* of one that shares are learnt from; else 0 */
    uint64_t *took_ns;         /* [members]: for them to learn */
    struct cell_alone alone[]; /* [members] */
};

/* Members that take a batch's cells one by one; taking.c. */
struct cell_taking {
    _Alignas(BASE_CACHE_LINE) _Atomic uint32_t next;       /* the first that nobody has taken */
    _Alignas(BASE_CACHE_LINE) struct cell_space *spaces[]; /* [members]: each one's own */
};

struct cell_program {
    const struct cell_type *type;
    const struct cell_kernels *kernels;
    uint32_t n_ops, n_values;
    struct cell_program_op ops[CELL_PROGRAM_OPS_MAX];
    struct cell_program_value values[CELL_PROGRAM_VALUES_MAX];
    uint32_t next_value[CELL_STATES_MAX]; /* value with place NEXT of state s */
    bool has_guards;                      /* some ops are guarded */
    bool ends_on_panels; /* values shared by panels are still without a barrier at the end */
    bool settles;        /* what is emitted may be overwritten by the next step: barrier after it */
    uint32_t block_rows; /* rows that run through the ops together */
    uint32_t rows_least; /* of these so many at the least, where there are as many */
    bool takes_cells;    /* whole ones, by single members, where there are several; taking.h */
    size_t patches_at;   /* in scratch: rows of patches.c */
    uint32_t pairs_max;  /* children of a row that tree.c takes together at most; 0: without */
    struct cell_program_op *leaves; /* looked up, and none of ops; in their table h and then c, */
    uint32_t n_leaves;              /* [embedding->rows, hidden] each */
    uint32_t n_windowed, n_kept;
    struct cell_kept kept[CELL_KEPT_MAX];
    uint32_t window_floats;        /* of one step in a window */
    uint64_t window_flops;         /* that it takes to compute them */
    uint32_t ahead_rows;           /* batches of up to so many rows use windows */
    uint32_t fill_steps;           /* that a fill computes for a row, if that was chosen; else 0 */
    uint64_t windows_near_bytes;   /* that the windows of a batch should take at most */
    struct cell_windows **windows; /* [n_queues]; NULL: without */
    uint8_t *zeros;                /* as wide as the widest input or state; only read */
    struct base_arena arena;       /* everything the program points to, but packed weights */
    uint32_t n_queues;
    uint32_t *n_members;         /* [n_queues] */
    uint32_t solo_rows;          /* batches of up to so many rows are member 0's alone */
    uint32_t apart_rows;         /* from so many on each member runs some alone; 0: never */
    uint32_t beside_rows;        /* of up to so many rows half of the team is enough, */
    uint32_t follow_rows;        /* also some steps behind another type, or before it */
    uint32_t knee_rows;          /* more in a batch are hardly faster a row (knee.h) */
    struct cell_space **spaces;  /* [n_queues] -> [n_members] */
    struct cell_apart **apart;   /* [n_queues]; NULL: rows are never run apart */
    struct cell_taking **taking; /* [n_queues]; NULL: cells are never taken */
    /* [n_queues] -> [batches]; NULL: a type with states */
    struct cell_places **places;
};

/* ---- list.c; while the program is made, the last four for tree.c and phases.c ---- */

/* The first step: all values with their places, all ops. RESOURCE_EXHAUSTED. */
enum base_status cell_program_list(struct cell_program *program);

/* Adds a value of the program's own; an op, all zero but for what is given and without a second
 * result; a gated op that computes `from`, or a part of it, into its result, without operands. */
uint32_t cell_program_add_value(struct cell_program *program, struct cell_value shape,
                                enum cell_place place, uint32_t index);
struct cell_program_op *cell_program_add_op(struct cell_program *program, enum cell_op_kind kind,
                                            enum cell_share share);
struct cell_program_op *cell_program_add_gated(struct cell_program *program,
                                               const struct cell_op *from,
                                               enum cell_gated_kind kind);

/* State `state` becomes a copy of this value, which stands elsewhere. */
void cell_program_add_next(struct cell_program *program, uint32_t from, uint32_t state);

/* ---- table.c; while the program is made ---- */

/* Before the phases: finds the gated ops that look up sums over x instead of x, and a tree's leaves
 * that are looked up themselves. RESOURCE_EXHAUSTED, as below. */
enum base_status cell_program_plan_tables(struct cell_program *program);

/* The weights are loaded, the spaces are there. */
enum base_status cell_program_fill_tables(struct cell_program *program);

/* ---- repeats.c; while the program is made, before phases.c ---- */

/* What SPREAD copies for element-wise ops alone, they read where it stands, again and again; such
 * copies are left out. */
void cell_program_find_repeats(struct cell_program *program);

/* ---- phases.c; while the program is made ---- */

/* Marks the ops that may run ahead, those whose sums over x may be had from a window, and the
 * values that may. */
void cell_program_find_phases(struct cell_program *program);

/* Lays out a step's sums and values in a window; the weights are loaded. */
void cell_program_size_windows(struct cell_program *program);

/* ---- fuse.c; while the program is made, behind phases.c ---- */

/* Puts element-wise ops together to chains (of one op each where the definition is to be taken as
 * written), and all ops in an order in which chains are long.
 * RESOURCE_EXHAUSTED. */
enum base_status cell_program_fuse(struct cell_program *program);

/* ---- waves.c; while the program is made ---- */

/* The weights are loaded and the barriers placed. */
void cell_program_find_waves(struct cell_program *program);

/* ---- program.c ---- */

/* Spaces of members that compute together, with rows of scratch that they share.
 * RESOURCE_EXHAUSTED; of the arena. */
enum base_status cell_program_make_spaces(struct cell_program *program, uint32_t members,
                                          struct cell_space **out);

/* What a step reads of weights, as they are held. */
uint64_t cell_program_held_bytes(const struct cell_program *program);

/* Threads of the largest team. */
uint32_t cell_program_most_members(const struct cell_program *program);

/* The device's. */
struct cell_program_queues {
    uint32_t n;
    const uint32_t *n_members; /* [n] */
    uint32_t batches;          /* outstanding in each at most */
};

/* Loads the weights into the kernels' order and makes room for every member of every queue.
 * RESOURCE_EXHAUSTED. *out is ended with cell_program_free(). type outlives it. */
enum base_status cell_program_create(const struct cell_type *type,
                                     const struct cell_kernels *kernels,
                                     const struct cell_program_queues *queues,
                                     struct cell_program **out, struct base_error *error);
void cell_program_free(struct cell_program *program); /* NULL allowed */

#endif
