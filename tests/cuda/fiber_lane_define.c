/* What a chain's answers are: the scalar kernel's bits in fp32; in bf16 the same equations over
 * rounded weights, inputs and h, with sums in double precision. */
#include "tests/cuda/fiber_lane.h"

#include "cells/bf16.h"
#include "cells/ref/math.h"
#include "tests/util.h"

#include <math.h>
#include <string.h>

/* Of h before it is rounded, and of c, a step: 16 sums of a mma rounded where here is one, and two
 * activations. */
#define BOUND_BF16 4e-6

static const char *tell(struct fiber_lane *rig, const struct fiber_lane_chain *chain, uint32_t step,
                        uint32_t unit, double got, double want)
{
    (void)snprintf(rig->text, sizeof(rig->text),
                   "row %u of %u units, step %u, unit %u: %.9g, not %.9g", chain->id,
                   rig->options.units, step, unit, got, want);
    return rig->text;
}

/* ---- fp32 ---- */

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static const char *compare_f32(struct fiber_lane *rig, const struct fiber_lane_chain *chain)
{
    const uint32_t units = rig->options.units;
    float h[2][CELL_ROW_FLOATS(FIBER_LANE_UNITS)] = {{0}};
    float c[CELL_ROW_FLOATS(FIBER_LANE_UNITS)] = {0};
    if (chain->has_init) {
        memcpy(h[0], chain->init, units * sizeof(float));
        memcpy(c, chain->init + units, units * sizeof(float));
    }
    for (uint32_t step = 0; step < chain->done; step++) {
        const float *x = chain->x[step];
        const float *old_h = h[step % 2];
        const float *old = rig->options.kind == CELL_SM_LSTM ? c : old_h;
        float *out = h[(step + 1) % 2];
        float *second = c;
        const struct cell_gated_step one = {.gated = &rig->gated,
                                            .n_rows = 1,
                                            .panel_end = units,
                                            .x = &x,
                                            .h = &old_h,
                                            .old = &old,
                                            .out = &out,
                                            .second = &second};
        cell_kernels__scalar.gated_step(&one);
        for (uint32_t unit = 0; unit < units; unit++) {
            if (bits_of(out[unit]) != bits_of(chain->out[step][unit])) {
                return tell(rig, chain, step, unit, (double)chain->out[step][unit],
                            (double)out[unit]);
            }
        }
    }
    if (chain->done == chain->steps) {
        const bool is_lstm = rig->options.kind == CELL_SM_LSTM;
        if (memcmp(chain->last, h[chain->done % 2], units * sizeof(float)) != 0 ||
            (is_lstm && memcmp(chain->last + units, c, units * sizeof(float)) != 0)) {
            return tell(rig, chain, chain->done, 0, (double)chain->last[0],
                        (double)h[chain->done % 2][0]);
        }
    }
    return NULL;
}

/* ---- bf16 ---- */

static double rounded(float x)
{
    return (double)cell_bf16_widen(cell_bf16_round(x));
}

/* A gate's sum over a part, from `sum` on. */
static double add(const struct fiber_lane *rig, const float *weights, uint32_t row,
                  const float *values, uint32_t terms, double sum)
{
    (void)rig;
    for (uint32_t k = 0; k < terms; k++) {
        sum += rounded(weights[(size_t)row * terms + k]) * rounded(values[k]);
    }
    return sum;
}

static double sigmoid(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

/* h' before it is rounded; c in place. */
static double define(const struct fiber_lane *rig, const float *x, const float *h, uint32_t unit,
                     double *c)
{
    const struct fiber_lane_options *options = &rig->options;
    const uint32_t units = options->units;
    const uint32_t gates = options->kind == CELL_SM_LSTM ? 4 : 3;
    double early[4] = {0};
    double late[4] = {0};
    for (uint32_t gate = 0; gate < gates; gate++) {
        const uint32_t row = gate * units + unit;
        early[gate] = (double)rig->b_w[row];
        if (options->is_given) { // in fp32, as whoever computes them ahead does
            for (uint32_t k = 0; k < options->inputs; k++) {
                early[gate] += (double)rig->w[(size_t)row * options->inputs + k] * (double)x[k];
            }
        } else {
            early[gate] = add(rig, rig->w, row, x, options->inputs, early[gate]);
        }
        late[gate] = add(rig, rig->r, row, h, units, (double)rig->b_r[row]);
    }
    if (options->kind == CELL_SM_GRU) {
        const double z = sigmoid(early[0] + late[0]);
        const double n = tanh(early[2] + sigmoid(early[1] + late[1]) * late[2]);
        return n + z * (rounded(h[unit]) - n);
    }
    *c = sigmoid(early[2] + late[2]) * *c + sigmoid(early[0] + late[0]) * tanh(early[3] + late[3]);
    return sigmoid(early[1] + late[1]) * tanh(*c);
}

/* Each step from the lane's own h before it, so that a rounding that went the other way does not
 * make all that follows another chain; c is the definition's own. */
static const char *compare_bf16(struct fiber_lane *rig, const struct fiber_lane_chain *chain)
{
    const uint32_t units = rig->options.units;
    double c[FIBER_LANE_UNITS] = {0};
    float zeros[FIBER_LANE_UNITS] = {0};
    const float *h = chain->has_init ? chain->init : zeros;
    for (uint32_t unit = 0; unit < units && chain->has_init; unit++) {
        c[unit] = (double)chain->init[units + unit];
    }
    for (uint32_t step = 0; step < chain->done; step++) {
        const double bound = BOUND_BF16 * (step + 1);
        for (uint32_t unit = 0; unit < units; unit++) {
            const double want = define(rig, chain->x[step], h, unit, &c[unit]);
            const double got = (double)chain->out[step][unit];
            const double half_ulp = fabs(want) / 256.0;
            if (!(fabs(got - want) <= half_ulp + bound) || rounded((float)got) != got) {
                return tell(rig, chain, step, unit, got, want);
            }
        }
        h = chain->out[step];
    }
    for (uint32_t unit = 0; unit < units && chain->done == chain->steps; unit++) {
        if (chain->last[unit] != h[unit]) {
            return tell(rig, chain, chain->done, unit, (double)chain->last[unit], (double)h[unit]);
        }
        if (rig->options.kind == CELL_SM_LSTM &&
            !(fabs((double)chain->last[units + unit] - c[unit]) <= BOUND_BF16 * chain->done)) {
            return tell(rig, chain, chain->done, unit, (double)chain->last[units + unit], c[unit]);
        }
    }
    return NULL;
}

const char *fiber_lane_compare(struct fiber_lane *rig, const struct fiber_lane_chain *chain)
{
    return rig->options.kernel->menu.is_bf16 ? compare_bf16(rig, chain) : compare_f32(rig, chain);
}
