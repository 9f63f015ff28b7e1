/* What Scan and Loop have in common. Private to op_scan.c and op_loop.c. */
#ifndef CELLS_IMPORT_SCAN_H
#define CELLS_IMPORT_SCAN_H

#include "cells/import/graph.h"

/* Where the first carried value (a state, a list, or what a Loop carries beside) stands among what
 * the begin reads and gives, and among what the end reads. */
static inline uint32_t cell__scan_begin_first(const struct cell__recurrent *scan)
{
    return scan->is_loop ? 2 : 0;
}

static inline uint32_t cell__scan_end_first(const struct cell__recurrent *scan)
{
    return scan->is_loop ? 1 : 0;
}

/* first: inputs before what is carried, which may be left out. */
enum base_status cell__scan_check_begin(struct cell__import *im, const struct cell__node *node,
                                        uint32_t first);
/* The next state, which is carried value i. */
enum base_status cell__scan_begin_state(struct cell__import *im, const struct cell__node *node,
                                        uint32_t i, struct cell__recurrent *scan);
/* By the first of what the body reads that has one. */
void cell__scan_choose_batch(struct cell__import *im, const struct cell__node *node,
                             struct cell__recurrent *scan);

/* Whether the condition ends it after its last step, and not before. */
enum base_status cell__loop_check_end(struct cell__import *im, const struct cell__node *node,
                                      const struct cell__recurrent *loop);
/* A carried counter goes up by 1 a step: its last value is the first and the number of steps. */
enum base_status cell__loop_end_counter(struct cell__import *im, const struct cell__node *node,
                                        uint32_t i, const struct cell__recurrent *scan);

#endif
