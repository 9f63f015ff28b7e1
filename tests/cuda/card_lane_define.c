/* What a lane's chain answers, in double precision, over weights, inputs and h rounded to bf16
 * where the kernel is of bf16; the bounds are those of tests/cuda/fiber_lane_define.c, which holds
 * fp32 to the scalar kernel's bits besides. */
#include "tests/cuda/card_lane.h"

#include "cells/bf16.h"

#include <math.h>
#include <stdio.h>

/* Of h before it is rounded, and of c, a step: sums rounded elsewhere, and two activations. */
#define BOUND 4e-6

static double rounded(const struct lane_card *card, float x)
{
    return (double)(card->shape.is_bf16 ? cell_bf16_widen(cell_bf16_round(x)) : x);
}

static double sum_of(const struct lane_card *card, const float *weights, const float *values,
                     uint32_t terms, double sum)
{
    for (uint32_t k = 0; k < terms; k++) {
        sum += rounded(card, weights[k]) * rounded(card, values[k]);
    }
    return sum;
}

static double sigmoid(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

/* h' before it is rounded; c in place. */
static double define(const struct lane_card *card, const float *x, const float *h, uint32_t unit,
                     double *c)
{
    const struct lane_shape *shape = &card->shape;
    const uint32_t gates = shape->kind == CELL_SM_LSTM ? 4 : 3;
    double early[4] = {0};
    double late[4] = {0};
    for (uint32_t gate = 0; gate < gates; gate++) {
        const size_t row = (size_t)gate * shape->units + unit;
        const float *w = card->w + row * shape->inputs;
        early[gate] = (double)card->b_w[row];
        for (uint32_t k = 0; k < shape->inputs && shape->is_given; k++) {
            early[gate] +=
                (double)w[k] * (double)x[k]; // whoever computes them ahead rounds nothing
        }
        if (!shape->is_given) {
            early[gate] = sum_of(card, w, x, shape->inputs, early[gate]);
        }
        late[gate] =
            sum_of(card, card->r + row * shape->units, h, shape->units, (double)card->b_r[row]);
    }
    if (shape->kind == CELL_SM_GRU) {
        const double z = sigmoid(early[0] + late[0]);
        const double n = tanh(early[2] + sigmoid(early[1] + late[1]) * late[2]);
        return n + z * (rounded(card, h[unit]) - n);
    }
    *c = sigmoid(early[2] + late[2]) * *c + sigmoid(early[0] + late[0]) * tanh(early[3] + late[3]);
    return sigmoid(early[1] + late[1]) * tanh(*c);
}

/* false: it is further off than `bound`, or no number. */
static bool is_near(struct lane_card *card, double got, double want, double bound, double *worst)
{
    const double error = fabs(got - want);
    *worst = error <= *worst ? *worst : error;
    if (error <= bound) {
        return true;
    }
    (void)snprintf(card->text, sizeof(card->text), "an answer is %.9g, not %.9g", got, want);
    card->wrong = card->wrong == NULL ? card->text : card->wrong;
    return false;
}

void lane_card_compare(struct lane_card *card, uint32_t chain, double *worst)
{
    const uint32_t units = card->shape.units;
    const struct lane_card_io *io = &card->io[chain];
    const uint32_t steps = card->chains[chain].steps;
    const bool has_init = card->chains[chain].has_init;
    double c[LANE_CARD_UNITS] = {0};
    float zeros[LANE_CARD_UNITS] = {0};
    const float *h = has_init ? io->init : zeros;
    for (uint32_t unit = 0; unit < units && has_init; unit++) {
        c[unit] = (double)io->init[units + unit];
    }
    for (uint32_t step = 0; step < steps; step++) {
        for (uint32_t unit = 0; unit < units; unit++) {
            const double want = define(card, io->x[step], h, unit, &c[unit]);
            const double half_ulp = card->shape.is_bf16 ? fabs(want) / 256.0 : 0;
            const float got = io->out[step][unit];
            if (!is_near(card, (double)got, want, half_ulp + BOUND * (step + 1), worst) ||
                !is_near(card, (double)got, rounded(card, got), 0, worst)) {
                return;
            }
        }
        h = io->out[step];
    }
    for (uint32_t unit = 0; unit < units; unit++) {
        if (!is_near(card, (double)io->last[unit], (double)h[unit], 0, worst) ||
            (card->shape.kind == CELL_SM_LSTM &&
             !is_near(card, (double)io->last[units + unit], c[unit], BOUND * steps, worst))) {
            return;
        }
    }
}
