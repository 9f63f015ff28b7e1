/* What one team member sees of the batch that it runs; shared by run.c and ahead.c. */
#ifndef CELLS_CPU_VIEW_H
#define CELLS_CPU_VIEW_H

#include "cells/backend.h"
#include "cells/cpu/program.h"
#include "cells/cpu/rows.h"

#include <stdbool.h>
#include <stdint.h>

struct cell_beside;
struct cell_places;

/* Shared by the members. */
struct cell_run {
    struct cell_program *program;
    const struct cell_rows *stores;
    struct cell_batch *batch;
    const struct cell_places *places; /* NULL: members find their own */
    uint32_t n_rows;                  /* the batch's */
    uint32_t n_cells;                 /* of its first step: of spans all steps */
    uint32_t row_first, row_end;      /* those that this run is about */
    struct cell_team *team;           /* NULL: the caller alone */
    struct cell_space *spaces;
    struct cell_windows *windows; /* of the queue; NULL when the program has none */
    struct cell_apart *apart;     /* each member runs some of the rows alone; NULL: all together */
    struct cell_taking *taking;   /* each takes cells one by one; NULL: none does */
    struct cell_beside *beside;   /* at the same time another batch runs; NULL: none */
    uint32_t members;
    uint32_t apart_member; /* where apart: of the team */
    bool is_helped;        /* and this member has a single row, and others none: ahead.c */
    bool by_rows;          /* long ops of many rows are shared out by rows first; panels.h */
    uint32_t turn;         /* of the first step */
    uint32_t stop[2];      /* by parity of the step; member 0 writes, all read behind a barrier */
};

/* One member's view of the block of rows it works on. */
struct cell_view {
    struct cell_run *run;
    struct cell_program *program;
    struct cell_team *team;
    struct cell_space *space;
    uint32_t member;
    uint32_t step;           /* of the batch */
    const uint32_t *rows;    /* [n_rows] indices into the batch */
    const uint32_t *offsets; /* [n_rows] steps that a row is beyond `step`; NULL: none is */
    uint32_t n_rows;
    bool settles;
    bool has_ends; /* some row of the batch may end by itself */
    bool has_beams;
    bool have_ended;      /* rows that ran in the last step and run no more */
    bool goes_on;         /* the step before had the same rows, in one block */
    bool is_ahead;        /* the sums over x of these rows stand in windows */
    uint32_t ahead_until; /* the first step for which they do not */
    bool is_filling;      /* windows: each op is run on its own, between barriers */
    uint32_t available;   /* of a run that follows another: steps whose inputs are there */
};

static inline void cell_view_barrier(const struct cell_view *view)
{
    if (view->run->members > 1) {
        view->team->barrier(view->team, view->member);
    }
}

/* This member's part of 0..n-1. */
static inline void cell_view_share(const struct cell_view *view, uint32_t n, uint32_t *first,
                                   uint32_t *end)
{
    uint32_t members = view->run->members;
    *first = (uint32_t)((uint64_t)n * view->member / members);
    *end = (uint32_t)((uint64_t)n * (view->member + 1) / members);
}

static inline const struct cell_batch_row *cell_view_row(const struct cell_view *view, uint32_t r)
{
    return &view->run->batch->rows[view->rows[r]];
}

/* The step of row r's chain. */
static inline uint32_t cell_view_step(const struct cell_view *view, uint32_t r)
{
    return cell_view_row(view, r)->first_step + view->step +
           (view->offsets == NULL ? 0 : view->offsets[r]);
}

/* Whether this step takes panels from the last to the first: each other one does. */
static inline bool cell_view_is_backwards(const struct cell_view *view)
{
    return ((view->run->turn + view->step) & 1) != 0;
}

/* Where the op's panels lie in what is shared out; NULL: it is shared out alone. */
static inline const struct cell_wave *cell_view_wave(const struct cell_view *view,
                                                     const struct cell_program_op *op)
{
    return view->is_filling ? NULL : &op->wave[view->is_ahead];
}

/* Row pointers of all inputs that the program reads. */
void cell_view_resolve_inputs(const struct cell_view *view);

/* This member's share of one op over the view's rows. */
void cell_view_run_op(const struct cell_view *view, const struct cell_program_op *op);

#endif
