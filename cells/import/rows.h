/* Row expressions: what a graph does to one row, with batch and time taken away.
 *
 * An expression has *times*: the sequences at whose every step it has a row. FIRST and LAST turn
 * one of a single sequence into the row of one step. One of two sequences has a row for each pair
 * of steps; no stage computes that, only an attention is made of it (op_attend.c). One that reads
 * nothing with a batch axis is not *batched*: all rows of a request share it. Numbers are
 * topological: an expression's operands come before it.
 *
 * A Scan's body is expressions like any other, over the states as they come in (ROW_IN); the timed
 * ones belong to its chain. Outside only STEP and STATE are seen of them. */
#ifndef CELLS_IMPORT_ROWS_H
#define CELLS_IMPORT_ROWS_H

#include "cells/import/graph.h"

#define CELL__ROWS_MAX 65536u

enum cell__row_kind {
    CELL__ROW_INPUT,  /* piece `part` of model input `index` */
    CELL__ROW_NUMBER, /* the number of the step of sequence `index`, an int64 */
    CELL__ROW_INDEX,  /* an integer of each row of the batch, of which nobody computes (op_index.c):
                         that of input `index`, NONE: the row's number, plus `offset`, over
                         `divisor` where that is more than 1, rounded down, not below 0 and then
                         `least` more  where is_cut, at most what `limits` say; plus, or, of  NONE,
                         times the steps of atom `part` - 1 or  `stride` steps, one of which is  not
                         0  then */
    CELL__ROW_DISTANCE, /* of sequence `index` of distances, an int64: the second step's number less
                           the first's; only what is computed of pairs of steps has it (relative.h)
                           */
    CELL__ROW_CONST,    /* op.weights[0], the same for every request */
    CELL__ROW_OP,       /* op, whose operands are row numbers */
    CELL__ROW_STEP,     /* output `part` (h, or a Scan's) of recurrent node `index` at each step */
    CELL__ROW_STATE,    /* its state `part` (h, c) after the last step */
    CELL__ROW_IN,       /* its state `part` before each step, inside its body */
    CELL__ROW_FIRST,    /* row `index` at the first step */
    CELL__ROW_LAST,     /* and at the last one */
    CELL__ROW_WINDOW, /* row `index` at `part` steps behind each other, at step t from t * stride +
                         offset on; or `part` of its parts likewise, where it has parts */
    CELL__ROW_JOIN, /* steps of `joined` behind each other; a COPY and windows read it (joined.c) */
};

/* INDEX: at most `most`, where has_most, and at most the steps of atom `below` - 1 and `add`, where
 * that is not 0. */
struct cell__limits {
    bool has_most;
    int32_t most, add;
    uint32_t below;
};

/* Rows of one width a step: at the steps of a sequence, from the last one on where it is turned
 * round; or without steps, some of which lie behind each other in it. */
struct cell__joined_part {
    uint32_t row;
    bool is_turned;
};

struct cell__joined {
    uint32_t n;
    struct cell__joined_part parts[CELL_JOIN_PARTS_MAX];
};

struct cell__row {
    enum cell__row_kind kind;
    uint32_t times; /* bit s: has a row at every step of sequence s */
    bool is_batched;
    struct cell_value value;
    uint32_t index, part;
    int32_t offset;          /* WINDOW, and so are the next two */
    uint32_t stride, behind; /* most steps that it reads behind the last */
    uint32_t parts;          /* WINDOW: those of each row, 0: rows are whole */
    bool is_cut;             /* WINDOW, see struct cell__steps; INDEX */
    struct cell_told told;   /* INDEX, where it tells of a division, and so are the next two;
                                WINDOW: of `by` */
    uint32_t least;
    struct cell__limits limits; /* of what it says */
    uint32_t by;                /* WINDOW, see struct cell__steps, and so is the next */
    bool is_clipped, is_ended;
    bool is_from_end; /* WINDOW; INDEX: one below 0 would count from the end, if a request had it */
    bool is_bounded;  /* OP: ids cut to a table's, though one beyond is refused (op_ids.c) */
    bool is_counted;  /* OP: integers computed of numbers of steps, exact as floats */
    uint32_t counts_below; /* OP: such integers, from 0 on and below this; 0: nobody knows */
    bool is_rounded; /* OP: integers of what a request holds and of numbers of steps, exact as far
                        as a sequence is long (lengths.c) */
    bool is_numbers; /* made of numbers of steps and of constants alone (relative.h) */
    uint32_t pairs;  /* OP: a GATHER by pairs of that many steps, no function of how far apart they
                        are: row i * pairs + j is that of steps i and j, of a sequence and its
                        mirror;  0: it is none. Only scores take it. */
    const struct cell__joined *joined; /* JOIN */
    struct cell_op op;
    uint32_t chain; /* OP: the Scan that computes it, NONE elsewhere */
    /* OP: of what it is the softmax over the steps of sequence `over`, with which one that has two
     * sequences is not computed; NONE: it is none. */
    uint32_t softmax_of, over;
    bool nan_is_zero;              /* of that softmax */
    bool none_is_zero;             /* weights of it of a query that masks leave no key */
    const struct cell__span *span; /* of what these are the bounds (attend_bounds.h), or NULL */
    // Set by stages.c.
    bool is_needed;
    uint32_t rank;     /* stage order, see there */
    bool is_handed_on; /* to other stages, as far as is known before these are made */
    uint32_t cut;      /* among the stages that its own would be, if it had not too many ops */
    uint32_t stage;    /* NONE: no stage of its own */
    uint32_t number;   /* value number in its stage's definition, when it is an OP */
    uint32_t output;   /* output number of its stage, NONE while nobody outside reads it */
};

/* The only types a row may have; UNIMPLEMENTED for bool. */
enum base_status cell__row_dtype(struct cell__import *im, enum cell__dtype dtype,
                                 enum cell_dtype *out);

/* The row expression of a ROWS value, or of a constant broadcast to `shape`'s features (it must be
 * the same for all of batch and time). may_be_scalar: one element may stay a row of width 1. */
enum base_status cell__row_of(struct cell__import *im, const struct cell__value *value,
                              const struct cell__shape *shape, bool may_be_scalar, uint32_t *out);

/* The number of a constant row of floats whose elements are all the same; NaN: it is none. */
float cell__row_same(const struct cell__import *im, uint32_t row);

/* The row of a COUNTER that is no step's number: op_count.c. */
enum base_status cell__row_of_count(struct cell__import *im, const struct cell__value *value,
                                    uint32_t *out);

/* What the input's rows have in common. */
struct cell__row_traits {
    struct cell_value value; /* of a piece */
    uint32_t times;
    bool is_batched;
};

/* A piece of the row of a model's input. */
enum base_status cell__row_input(struct cell__import *im, uint32_t input, uint32_t piece,
                                 const struct cell__row_traits *traits, uint32_t *out);
/* A row of kind INDEX like this. */
enum base_status cell__row_index(struct cell__import *im, const struct cell__row *like,
                                 uint32_t *out);
/* The number of each step of a sequence. Each row of a batch counts for itself. */
enum base_status cell__row_number_of_step(struct cell__import *im, uint32_t sequence,
                                          uint32_t *out);
/* The distance at each step of a sequence of distances. */
enum base_status cell__row_distance(struct cell__import *im, uint32_t sequence, uint32_t *out);
/* The number of the only sequence in times. */
uint32_t cell__only_sequence(uint32_t times);
/* Whether times holds several sequences. */
static inline bool cell__is_pair(uint32_t times)
{
    return (times & (times - 1)) != 0;
}
/* kind: STEP, STATE or IN. */
enum base_status cell__row_recurrent(struct cell__import *im, enum cell__row_kind kind,
                                     uint32_t recurrent, uint32_t part, uint32_t *out);
/* data: value.width elements that live as long as the arena. */
enum base_status cell__row_const(struct cell__import *im, struct cell_value value, const void *data,
                                 uint32_t *out);
/* An op over op->operands (row numbers) with a result of this type. */
enum base_status cell__row_op(struct cell__import *im, const struct cell_op *op,
                              struct cell_value value, uint32_t *out);
/* The same, whatever its operands are. */
enum base_status cell__row_op_as_is(struct cell__import *im, const struct cell_op *op,
                                    struct cell_value value, uint32_t *out);
/* What is the same at all steps of a sequence as a row of each. */
enum base_status cell__row_at_steps(struct cell__import *im, uint32_t row, uint32_t sequence,
                                    uint32_t *out);
/* A row [dims[0], dims[1], dims[2], ..] as [dims[0], dims[2], dims[1], ..]. Looks through what does
 * the opposite; of a constant it is one. Element-wise ops are computed before it, not behind it, so
 * that two convolutions find rows in the order that both want (row_order.c). */
enum base_status cell__row_transpose(struct cell__import *im, uint32_t row, const uint32_t dims[3],
                                     uint32_t *out);
/* Where an axis of a row lies: [outer, size, inner]. */
struct cell__place {
    uint32_t outer, size, inner;
};

/* Elements first.. of that axis; and one row of several that are alike but for its size. Where
 * outer is not 1 they do not lie together, and rows are turned before and behind. */
enum base_status cell__row_part(struct cell__import *im, uint32_t row,
                                const struct cell__place *place, uint32_t first, uint32_t count,
                                uint32_t *out);
/* n elements of that axis, whose numbers are at[]: in any order, some more than once. */
enum base_status cell__row_elements(struct cell__import *im, uint32_t row,
                                    const struct cell__place *place, const int64_t *at, uint32_t n,
                                    uint32_t *out);
enum base_status cell__row_join(struct cell__import *im, const uint32_t *rows,
                                const struct cell__place *places, uint32_t n, uint32_t *out);
/* The row of shape `own`, aligned behind, as one of shape `out`: repeated along the axes where it
 * has one element and out has more. */
enum base_status cell__row_spread(struct cell__import *im, uint32_t row,
                                  const struct cell__shape *own, const struct cell__shape *out,
                                  uint32_t *spread);
/* cell__row_op() of element-wise ops. *is_done: false where none of its operands is transposed, or
 * others are otherwise. */
enum base_status cell__row_op_before(struct cell__import *im, const struct cell_op *op,
                                     struct cell_value value, uint32_t *out, bool *is_done);
/* A constant row of one element, float32. */
enum base_status cell__row_number(struct cell__import *im, float number, uint32_t *out);
/* An op of two rows, with a result of a's type. */
enum base_status cell__row_pair(struct cell__import *im, enum cell_op_kind kind, uint32_t a,
                                uint32_t b, uint32_t *out);
/* Elements start.. of a row; looks through CONCAT, SLICE and constants. */
enum base_status cell__row_slice(struct cell__import *im, uint32_t row, uint32_t start,
                                 uint32_t width, uint32_t *out);
/* What step t of `sequence` reads of another, or of itself: `count` steps from t * stride + offset
 * on, of which the last may be `behind` steps behind its last one. Or parts of its rows, which all
 * are there: `parts` of each. */
struct cell__steps {
    uint32_t sequence, count, stride, behind;
    int32_t offset;
    uint32_t parts; /* 0: rows are whole */
    bool is_cut; /* steps of the other are left out: who reads beyond the ends reads none of them */
    bool is_once; /* read by what has no steps, as by its step 0; `sequence` means nothing */
    uint32_t by;  /* with is_once: 0, or the step is what model input by - 1 says, plus offset, */
    struct cell_told told; /* or as this tells where it is over more than 1, */
    bool is_clipped;       /* and not below 0, */
    bool is_ended;         /* and not behind the last one */
    bool is_from_end; /* offset counts from behind the last step, below 0: of steps that are kept */
};

/* The rows of these steps as one wide row; zeros beyond the ends of the row's sequence. row has one
 * sequence and is not constant. */
enum base_status cell__row_window(struct cell__import *im, uint32_t row,
                                  const struct cell__steps *steps, uint32_t *out);
/* A copy of steps->count steps of x at each step of the axis that is left of its axis k; *row: of
 * x, and then the copy. steps->sequence is set here. Refused where that is not the time of a
 * recurrent node. */
enum base_status cell__row_copy_steps(struct cell__import *im, const struct cell__axis *axis,
                                      const struct cell__axis *left, struct cell__steps *steps,
                                      uint32_t *row);
/* The steps of all parts behind each other, each of `width` float32, at the steps of the axis
 * `left`. Refused where that is no time. */
enum base_status cell__row_join_steps(struct cell__import *im, const struct cell__joined *joined,
                                      const struct cell__axis *left, uint32_t width, uint32_t *out);
/* One row of all behind each other; of one, itself. More than an op takes are joined in rounds. */
enum base_status cell__row_concat(struct cell__import *im, const uint32_t *rows, uint32_t n,
                                  uint32_t *out);
/* The row of one step, kind: FIRST or LAST. Stateless ops are repeated for it, so that they need
 * not run at every step. The row itself when it is not timed. */
enum base_status cell__row_at(struct cell__import *im, enum cell__row_kind kind, uint32_t row,
                              uint32_t *out);

/* The row of an input that this one is, is one step of, or is cast from; NONE: it is of no input.
 */
uint32_t cell__row_ids(const struct cell__import *im, uint32_t row);
/* The same of some elements of such a row: the number of the first; NONE: of the whole. */
uint32_t cell__row_element_ids(const struct cell__import *im, uint32_t row, uint32_t *first);
/* The row that this one is cast from, or itself. */
uint32_t cell__row_uncast(const struct cell__import *im, uint32_t row);
/* Whether the row is a number that an op has chosen, or counted: below n. */
bool cell__row_is_chosen(const struct cell__import *im, uint32_t row, uint32_t *n);

/* The row as something that a stage can hand on: a constant becomes an op. */
enum base_status cell__row_as_source(struct cell__import *im, uint32_t row, uint32_t *out);

/* true: a constant of zeros only. */
bool cell__row_is_zero(const struct cell__import *im, uint32_t row);

/* Sets the row expression of output i, when it is wanted. */
void cell__set_row(struct cell__import *im, const struct cell__node *node, uint32_t i,
                   uint32_t row);

#endif
