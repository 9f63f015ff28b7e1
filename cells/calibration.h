/* Calibration: how long a step of a type takes on one device, for some numbers of rows and for each
 * way to compute it, and what follows from that. Whoever has a clock measures (worker/calibrate.h);
 * here stand the numbers and the choice, which is a function of them alone.
 *
 * Only ways that give the same bits are among them. Any thread. */
#ifndef CELLS_CALIBRATION_H
#define CELLS_CALIBRATION_H

#include "cells/backend.h"

/* Numbers of rows that are measured, and the largest. */
#define CELL_CALIBRATION_POINTS   13u
#define CELL_CALIBRATION_ROWS_MAX 64u
extern const uint32_t cell_calibration_rows[CELL_CALIBRATION_POINTS]; /* ascending, from 1 */

enum cell_variant {
    CELL_VARIANT_PLAIN, /* without windows; of a type that has none to choose: as it is */
    CELL_VARIANT_AHEAD, /* with windows, filled as far as the device reckons */
    CELL_VARIANT_SOLO,  /* as the device reckons, but by one member of the team */
    CELL_VARIANT_APART, /* likewise, but by each member some of the rows */
    CELL_VARIANT_AHEAD_8,
    CELL_VARIANT_AHEAD_16,
    CELL_VARIANT_AHEAD_32,
    CELL_VARIANTS,
};

/* "plain", "ahead", "solo", "ahead-8", ...; static. */
const char *cell_variant_name(enum cell_variant variant);
/* 8, 16 or 32; 0: as the device reckons, or no windows. */
uint32_t cell_variant_fill_steps(enum cell_variant variant);

struct cell_calibration {
    uint32_t tunable;       /* set of enum cell_tunable: what there is to choose about */
    struct cell_tuning own; /* the device's own rule */
    uint32_t rows_limit;    /* more rows than these were not to be measured */
    /* Of a step of all rows; 0: not measured, which what is large may not be in time. */
    uint64_t step_ns[CELL_VARIANTS][CELL_CALIBRATION_POINTS];
};

/* One member alone is tried with so many rows: with more a team always gains. */
#define CELL_CALIBRATION_SOLO_ROWS_MAX 16u
/* The device's own rule is left only where the measured gain is more than this. */
#define CELL_CALIBRATION_GAIN_PERCENT 3u
/* A batch has no more rows than give this share of the best throughput, */
#define CELL_CALIBRATION_KNEE_PERCENT 97u
/* and than make its step last so many times as long as that of one row. */
#define CELL_CALIBRATION_LATENCY_RATIO 16u

/* What a step costs in a server beside its kernel, where runs are of some steps: the scheduler's
 * part, and where members have to be waited for. */
#define CELL_CALIBRATION_BESIDE_NS      250u
#define CELL_CALIBRATION_TEAM_BESIDE_NS 2000u

/* Nor has it fewer than these, unless the device itself would take fewer. What is measured has its
 * weights, rows and inputs in caches; beside all that a server touches, LSTMs of 512 units, whose
 * 12 rows were measured as fast as any, were at 0.91 to 0.95 with 8 to 12. (That many rows never
 * take longer than the ratio: they could run one by one.) */
#define CELL_CALIBRATION_ROWS_LEAST 16u

/* Whether there is something to choose about this. */
static inline bool cell_calibration_has(const struct cell_calibration *calibration,
                                        enum cell_tunable what)
{
    return (calibration->tunable & what) != 0;
}

/* Times contradict each other, as they do where other work has kept the threads from their CPUs:
 * better measured again another time. */
bool cell_calibration_is_disturbed(const struct cell_calibration *calibration);

/* The device's own rule where it is disturbed, and of what was not measured. */
struct cell_tuning cell_calibration_choose(const struct cell_calibration *calibration);

/* Of a step of cell_calibration_rows[point] rows as chosen; 0: not measured. */
uint64_t cell_calibration_step_ns(const struct cell_calibration *calibration,
                                  const struct cell_tuning *tuning, uint32_t point);

#endif
