/* Elements between two, of a Resize with mode linear: along one axis after the other, since weights
 * of both sides are those of each. RESOURCE_EXHAUSTED, and UNIMPLEMENTED with the reason. */
#ifndef CELLS_IMPORT_INTERPOLATE_H
#define CELLS_IMPORT_INTERPOLATE_H

#include "cells/import/ops.h"

/* Where an element of the result lies among those of x (coordinate_transformation_mode). */
enum cell__where {
    CELL__HALF_PIXEL,
    CELL__PYTORCH_HALF_PIXEL,
    CELL__HALF_PIXEL_SYMMETRIC,
    CELL__ASYMMETRIC,
    CELL__TF_HALF_PIXEL,
    CELL__ALIGN_CORNERS,
    CELL__WHERES
};

struct cell__resized_axis {
    float scale;
    int64_t by;   /* whole times as many, 1: as many; 0: another number */
    int64_t size; /* of the result; -1: a request chooses */
};

/* What a Resize says. */
struct cell__resized {
    uint32_t rank;
    struct cell__resized_axis axes[CELL_RANK_MAX];
    enum cell__where where;
    bool is_linear;
};

/* Refuses ways that are not known. */
enum base_status cell__check_interpolated(struct cell__import *im,
                                          const struct cell__resized *resized);

/* Along an axis of the shape, within *row. */
enum base_status cell__interpolate_within(struct cell__import *im, const struct cell__shape *shape,
                                          uint32_t axis, const struct cell__resized *resized,
                                          uint32_t *row);

/* Along the steps, axis number `time`: all that is made of a step, behind each other. */
enum base_status cell__interpolate_steps(struct cell__import *im,
                                         const struct cell__resized *resized, uint32_t time,
                                         uint32_t *row);

/* op_resize.c: output 0 of a node that makes this of input 0. left: its shape, with the axes where
 * the input has them. */
enum base_status cell__lower_resized(struct cell__import *im, struct cell__node *node,
                                     const struct cell__resized *resized,
                                     const struct cell__shape *left);

#endif
