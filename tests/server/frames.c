/* Frames: see frames.h. */
#include "tests/server/frames.h"

#include <string.h>

void frames_draw(struct frames *frames, struct base_random *random, uint32_t n_rows, uint32_t n)
{
    ck_assert(n_rows <= FRAMES_ROWS && n <= FRAMES_STEPS);
    memset(frames, 0, sizeof(*frames));
    frames->n_rows = n_rows;
    frames->n = n;
    for (uint32_t row = 0; row < n_rows; row++) {
        frames->used[row] = (int32_t)base_random_below(random, n + 1);
        for (uint32_t i = 0; i < n * FRAMES_FEATURES; i++) {
            frames->x[row][i / FRAMES_FEATURES][i % FRAMES_FEATURES] =
                base_random_f32(random, -2.0f, 2.0f);
        }
    }
}

void frames_begin(struct visit *visit, const char *model, const struct frames *frames)
{
    float x[FRAMES_ROWS * FRAMES_STEPS * FRAMES_FEATURES];
    const size_t row = (size_t)frames->n * FRAMES_FEATURES;
    const struct cell_model *cells = site_find(&texts_site, model);
    texts_begin(visit, model);
    for (uint32_t r = 0; r < frames->n_rows; r++) {
        memcpy(x + r * row, frames->x[r], row * sizeof(float));
    }
    texts_add(visit, "x", "FP32", x, frames->n_rows * row * sizeof(float));
    if (cells->inputs[0].batch_axis < 0) {
        texts_shape(visit, 2, frames->n, FRAMES_FEATURES);
    } else {
        texts_shape(visit, 3, frames->n_rows, frames->n)->shape[2] = FRAMES_FEATURES;
    }
    for (uint32_t i = 0; i < cells->n_inputs; i++) {
        if (strcmp(cells->inputs[i].name, "used") == 0) {
            texts_add(visit, "used", "INT32", frames->used, frames->n_rows * sizeof(int32_t));
            texts_shape(visit, 1, frames->n_rows, 0);
        }
    }
}

void frames_run_part(struct visit *visit, const char *model, const struct frames *whole,
                     uint32_t from, uint32_t to)
{
    struct frames part = {.n_rows = whole->n_rows, .n = to - from};
    for (uint32_t row = 0; row < whole->n_rows; row++) {
        const int32_t left = whole->used[row] - (int32_t)from;
        part.used[row] = left < 0 ? 0 : left < (int32_t)part.n ? left : (int32_t)part.n;
        memcpy(part.x[row], whole->x[row][from], part.n * sizeof(part.x[row][0]));
    }
    frames_begin(visit, model, &part);
    visit->ask.request.sequence =
        (struct srv_sequence){.id = "s", .is_start = from == 0, .is_end = to == whole->n};
    texts_run(visit);
}
