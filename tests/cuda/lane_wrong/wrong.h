/* Lanes in the CUDA device with one thing wrong, chosen by CELLBATCH_LANE_WRONG: proof that the
 * suites of lanes would notice (tests/cuda/test_lane_wrong.sh). Each file here is one of the
 * product's with calls of it replaced from outside, linked in its place. */
#ifndef TESTS_CUDA_LANE_WRONG_WRONG_H
#define TESTS_CUDA_LANE_WRONG_WRONG_H

#include <stdbool.h>
#include <stdint.h>

enum lane_wrong {
    LANE_WRONG_NOTHING,
    /* A task's rows. */
    LANE_WRONG_STEPS,  /* rows of several steps take one less */
    LANE_WRONG_PARITY, /* of a chain that goes on: the other copy of h */
    LANE_WRONG_LAST,   /* nothing is given away behind the last step */
    LANE_WRONG_APART,  /* c's places are h's */
    LANE_WRONG_INIT,   /* c begins with zeros */
    LANE_WRONG_OUT,    /* each step's h over the one before */
    LANE_WRONG_X,      /* x of the first step at each */
    LANE_WRONG_FIRST,  /* FIRST is behind the last step */
    /* The task. */
    LANE_WRONG_ROWS,   /* the last row of a full task is left out */
    LANE_WRONG_SLOT,   /* ids one further: another row's state */
    LANE_WRONG_LENGTH, /* as many steps as its last row */
    LANE_WRONG_OPEN,   /* one of several is interruptible */
    LANE_WRONG_CLOSED, /* none is */
    /* Words and life. */
    LANE_WRONG_ATTENTION, /* the lane is not told of it */
    LANE_WRONG_EARLY,     /* a task is done when it is sent */
    LANE_WRONG_DIED,      /* a task that died is done */
    LANE_WRONG_PARK,      /* lanes stay while memory is allocated */
    /* Parts. */
    LANE_WRONG_FITS, /* all rows go where the batch's first goes */
    LANE_WRONG_COUNT
};

/* Whether this is what is wrong. */
bool lane_wrong_is(enum lane_wrong wrong);

#endif
