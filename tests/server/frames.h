/* Frames that tests of what labels them send: rows of any lengths, drawn at random, to a model of
 * text_site.h, as one request or in parts of a session. */
#ifndef TESTS_SERVER_FRAMES_H
#define TESTS_SERVER_FRAMES_H

#include "tests/server/text_site.h"

#define FRAMES_ROWS     3
#define FRAMES_STEPS    40
#define FRAMES_FEATURES 3

struct frames {
    uint32_t n_rows, n; /* frames a row */
    float x[FRAMES_ROWS][FRAMES_STEPS][FRAMES_FEATURES];
    int32_t used[FRAMES_ROWS]; /* how many a row has, where a model is told */
};

/* n_rows of n frames, of which each row has 0 to n. */
void frames_draw(struct frames *frames, struct base_random *random, uint32_t n_rows, uint32_t n);

/* A request with x, [rows, frames, features] or, of a model without rows, [frames, features], and
 * with `used` where the model has an input of that name. */
void frames_begin(struct visit *visit, const char *model, const struct frames *frames);

/* Runs frames from..to - 1 as a part of the session "s", which they begin or end with the whole. */
void frames_run_part(struct visit *visit, const char *model, const struct frames *whole,
                     uint32_t from, uint32_t to);

#endif
