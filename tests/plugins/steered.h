/* What tests/plugins/steered.c can be told by its input `mode`. */
#ifndef TESTS_PLUGINS_STEERED_H
#define TESTS_PLUGINS_STEERED_H

#include <stdatomic.h>

enum steered_mode {
    STEERED_GOOD,
    STEERED_MESSAGE, /* returns one */
    STEERED_FAIL,    /* calls fail() and goes on */
    STEERED_EMPTY,   /* no nodes */
    STEERED_HOLD,    /* waits, then good */
    STEERED_CYCLE,
    STEERED_NODE, /* one that is not there, and so on */
    STEERED_CELL,
    STEERED_FIT,
    STEERED_TOO_MANY,
    STEERED_WIDTH,
    STEERED_ID,
    STEERED_BEYOND,
    STEERED_DATATYPE,
    STEERED_INPUT,
    STEERED_FED_TWICE,
    STEERED_ANSWER_BEYOND,
    STEERED_ANSWER_TWICE,
    STEERED_ANSWER_DATATYPE,
    STEERED_SHAPE,
    STEERED_NO_OUTPUT,
};

/* Input `hold`, an INT64, is the address of one. */
struct steered_hold {
    _Atomic int is_inside, is_released;
};

#endif
