/* What to do with the times of a calibration; see calibration.h. Pure functions.
 *
 * Times are disturbed by whatever else the machine does, so nothing is changed for a small gain,
 * and what was not measured is left as the device has it. Windows are judged from the device's own
 * number of rows on, upwards while they win and downwards while they lose: one disturbed time far
 * away changes nothing. */
#include "cells/calibration.h"

#include "base/assert.h"

/* Where more than one time in DISTURBED_SHARE is so much longer than it can be, nothing is
 * believed. On a quiet machine none is off by more than some per cent. */
#define DISTURBED_PERCENT 25u
#define DISTURBED_SHARE   4u

const uint32_t cell_calibration_rows[CELL_CALIBRATION_POINTS] = {1,  2,  4,  6,  8,  10, 12,
                                                                 16, 20, 24, 32, 48, 64};

const char *cell_variant_name(enum cell_variant variant)
{
    static const char *const names[CELL_VARIANTS] = {"plain",   "ahead",    "solo",    "apart",
                                                     "ahead-8", "ahead-16", "ahead-32"};
    base_assert(variant < CELL_VARIANTS);
    return names[variant];
}

uint32_t cell_variant_fill_steps(enum cell_variant variant)
{
    static const uint32_t steps[CELL_VARIANTS] = {0, 0, 0, 0, 8, 16, 32};
    base_assert(variant < CELL_VARIANTS);
    return steps[variant];
}

/* Whether a is so much shorter than b that it is worth a change. Both were measured. */
static bool is_gain(uint64_t a_ns, uint64_t b_ns)
{
    return (double)a_ns * 100.0 < (double)b_ns * (100.0 - CELL_CALIBRATION_GAIN_PERCENT);
}

/* With windows whose fills have this length; 0: not measured. */
static uint64_t ahead_ns(const struct cell_calibration *calibration, uint32_t fill_steps,
                         uint32_t point)
{
    for (enum cell_variant v = CELL_VARIANT_AHEAD_8; v < CELL_VARIANTS; v++) {
        if (fill_steps == cell_variant_fill_steps(v) && calibration->step_ns[v][point] > 0) {
            return calibration->step_ns[v][point];
        }
    }
    return calibration->step_ns[CELL_VARIANT_AHEAD][point];
}

/* Time with this length of fills over that with the device's own, mean over the numbers of rows
 * that use windows; 1 when nothing is known. */
static double fill_ratio(const struct cell_calibration *calibration, enum cell_variant variant)
{
    double sum = 0.0;
    uint32_t n = 0;
    for (uint32_t p = 0; p < CELL_CALIBRATION_POINTS; p++) {
        uint64_t own_ns = calibration->step_ns[CELL_VARIANT_AHEAD][p];
        uint64_t ns = calibration->step_ns[variant][p];
        if (cell_calibration_rows[p] <= calibration->own.ahead_rows && own_ns > 0 && ns > 0) {
            sum += (double)ns / (double)own_ns;
            n++;
        }
    }
    return n == 0 ? 1.0 : sum / n;
}

static uint32_t choose_fill(const struct cell_calibration *calibration)
{
    double best = 1.0 - CELL_CALIBRATION_GAIN_PERCENT / 100.0;
    uint32_t steps = calibration->own.fill_steps;
    for (enum cell_variant v = CELL_VARIANT_AHEAD_8; v < CELL_VARIANTS; v++) {
        double ratio = fill_ratio(calibration, v);
        if (ratio < best) {
            best = ratio;
            steps = cell_variant_fill_steps(v);
        }
    }
    return steps;
}

uint64_t cell_calibration_step_ns(const struct cell_calibration *calibration,
                                  const struct cell_tuning *tuning, uint32_t point)
{
    base_assert(point < CELL_CALIBRATION_POINTS);
    bool is_solo = cell_calibration_has(calibration, CELL_TUNABLE_TEAM) &&
                   cell_calibration_rows[point] <= tuning->solo_rows;
    if (is_solo && calibration->step_ns[CELL_VARIANT_SOLO][point] > 0) {
        return calibration->step_ns[CELL_VARIANT_SOLO][point];
    }
    bool is_apart = cell_calibration_has(calibration, CELL_TUNABLE_APART) &&
                    tuning->apart_rows > 0 && cell_calibration_rows[point] >= tuning->apart_rows;
    if (is_apart && calibration->step_ns[CELL_VARIANT_APART][point] > 0) {
        return calibration->step_ns[CELL_VARIANT_APART][point];
    }
    bool is_ahead = cell_calibration_has(calibration, CELL_TUNABLE_WINDOWS) &&
                    cell_calibration_rows[point] <= tuning->ahead_rows;
    uint64_t ahead = is_ahead ? ahead_ns(calibration, tuning->fill_steps, point) : 0;
    return ahead > 0 ? ahead : calibration->step_ns[CELL_VARIANT_PLAIN][point];
}

/* Of a step, for each number of rows; 0: not measured. */
struct way {
    uint64_t ns[CELL_CALIBRATION_POINTS];
};

/* Up to how many rows the first of two ways is taken: from the device's own number on, upwards
 * while it gains and downwards while it loses. What was not measured ends that, but for more rows
 * than rows_max, of which the first way never is. */
static uint32_t find_border(const struct way *first, const struct way *second, uint32_t own,
                            uint32_t rows_max)
{
    uint32_t rows = own;
    for (uint32_t p = 0; p < CELL_CALIBRATION_POINTS; p++) {
        if (cell_calibration_rows[p] <= own) {
            continue;
        }
        if (first->ns[p] == 0 || second->ns[p] == 0 || !is_gain(first->ns[p], second->ns[p])) {
            break;
        }
        rows = cell_calibration_rows[p];
    }
    for (uint32_t p = CELL_CALIBRATION_POINTS; p-- > 0 && rows <= own;) {
        if (cell_calibration_rows[p] > own || cell_calibration_rows[p] > rows_max) {
            continue;
        }
        if (first->ns[p] == 0 || second->ns[p] == 0 || !is_gain(second->ns[p], first->ns[p])) {
            break;
        }
        rows = p > 0 ? cell_calibration_rows[p - 1] : 0;
    }
    return rows;
}

static uint32_t choose_ahead_rows(const struct cell_calibration *calibration, uint32_t fill_steps)
{
    struct way ahead;
    struct way plain;
    for (uint32_t p = 0; p < CELL_CALIBRATION_POINTS; p++) {
        ahead.ns[p] = ahead_ns(calibration, fill_steps, p);
        plain.ns[p] = calibration->step_ns[CELL_VARIANT_PLAIN][p];
    }
    return find_border(&ahead, &plain, calibration->own.ahead_rows, CELL_CALIBRATION_ROWS_MAX);
}

/* tuning: of windows, as chosen. */
static uint32_t choose_solo_rows(const struct cell_calibration *calibration,
                                 const struct cell_tuning *tuning)
{
    const struct cell_tuning team_tuning = {.ahead_rows = tuning->ahead_rows,
                                            .fill_steps = tuning->fill_steps};
    struct way solo;
    struct way team;
    for (uint32_t p = 0; p < CELL_CALIBRATION_POINTS; p++) {
        solo.ns[p] = calibration->step_ns[CELL_VARIANT_SOLO][p];
        team.ns[p] = cell_calibration_step_ns(calibration, &team_tuning, p);
    }
    return find_border(&solo, &team, calibration->own.solo_rows, CELL_CALIBRATION_SOLO_ROWS_MAX);
}

/* tuning: of windows and of one member, as chosen. From so many rows on they are run apart. */
static uint32_t choose_apart_rows(const struct cell_calibration *calibration,
                                  const struct cell_tuning *tuning)
{
    struct cell_tuning together_tuning = *tuning;
    together_tuning.apart_rows = 0;
    const uint32_t own = calibration->own.apart_rows;
    struct way together;
    struct way apart;
    for (uint32_t p = 0; p < CELL_CALIBRATION_POINTS; p++) {
        together.ns[p] = cell_calibration_step_ns(calibration, &together_tuning, p);
        apart.ns[p] = calibration->step_ns[CELL_VARIANT_APART][p];
    }
    const uint32_t most = CELL_CALIBRATION_ROWS_MAX;
    const uint32_t border = find_border(&together, &apart, own == 0 ? most : own - 1, most);
    return border < most ? border + 1 : own > most ? own : 0;
}

/* tuning: as chosen, of a batch that has the team to itself. Beside another it has half of the
 * team, one member, and both are done when two would be, one after the other. What one member takes
 * for a row alone is not known: where it has the team, others help. Never more than the device's
 * own number, beyond which other things than the time of a step count. */
static uint32_t choose_beside_rows(const struct cell_calibration *calibration,
                                   const struct cell_tuning *tuning)
{
    struct way beside;
    struct way in_turn;
    for (uint32_t p = 0; p < CELL_CALIBRATION_POINTS; p++) {
        beside.ns[p] =
            cell_calibration_rows[p] > 1 ? calibration->step_ns[CELL_VARIANT_SOLO][p] : 0;
        in_turn.ns[p] = 2 * cell_calibration_step_ns(calibration, tuning, p);
    }
    const uint32_t own = calibration->own.beside_rows;
    const uint32_t rows = find_border(&beside, &in_turn, own, CELL_CALIBRATION_SOLO_ROWS_MAX);
    return rows < own ? rows : own;
}

/* Times of one way of serving, from one row on. */
struct times {
    uint32_t n;       /* points known */
    bool is_complete; /* all that were to be measured */
    uint64_t ns[CELL_CALIBRATION_POINTS];
};

static void times_init(struct times *times, const struct cell_calibration *calibration,
                       const struct cell_tuning *tuning)
{
    uint32_t n = 0;
    while (n < CELL_CALIBRATION_POINTS && cell_calibration_rows[n] <= calibration->rows_limit &&
           cell_calibration_step_ns(calibration, tuning, n) > 0) {
        times->ns[n] = cell_calibration_step_ns(calibration, tuning, n);
        n++;
    }
    times->n = n;
    times->is_complete =
        n == CELL_CALIBRATION_POINTS || cell_calibration_rows[n] > calibration->rows_limit;
}

/* As far as they can be true: more rows take no less time than fewer, and no more than two batches
 * that have as many together. What breaks either was disturbed, since a disturbance only makes a
 * time longer. */
static void times_clean(struct times *times)
{
    const uint32_t *rows = cell_calibration_rows;
    uint64_t *ns = times->ns;
    for (uint32_t i = 0; i < times->n; i++) {
        for (uint32_t p = 0; p < i; p++) {
            for (uint32_t q = 0; q <= p; q++) {
                bool is_less = rows[p] + rows[q] == rows[i] && ns[p] + ns[q] < ns[i];
                ns[i] = is_less ? ns[p] + ns[q] : ns[i];
            }
        }
    }
    for (uint32_t i = times->n; i-- > 1;) {
        ns[i - 1] = ns[i] < ns[i - 1] ? ns[i] : ns[i - 1];
    }
}

bool cell_calibration_is_disturbed(const struct cell_calibration *calibration)
{
    const struct cell_tuning plain = {0};
    struct times measured;
    struct times clean;
    uint32_t off = 0;
    times_init(&measured, calibration, &plain);
    clean = measured;
    times_clean(&clean);
    for (uint32_t p = 0; p < measured.n; p++) {
        off += measured.ns[p] * 100 > clean.ns[p] * (100 + DISTURBED_PERCENT) ? 1 : 0;
    }
    return off * DISTURBED_SHARE > measured.n;
}

/* Rows a nanosecond in a server, at a point that was measured. */
static double speed_at(const struct times *times, uint32_t point, uint64_t beside_ns)
{
    return (double)cell_calibration_rows[point] / (double)(times->ns[point] + beside_ns);
}

/* The fewest rows that are nearly as fast as the best; 0: unknown. */
static uint32_t find_knee(const struct times *times, uint64_t beside_ns)
{
    double best = 0.0;
    for (uint32_t p = 0; p < times->n && times->is_complete; p++) {
        double here = speed_at(times, p, beside_ns);
        best = here > best ? here : best;
    }
    for (uint32_t p = 0; p < times->n && best > 0.0; p++) {
        double here = speed_at(times, p, beside_ns);
        if (here * 100.0 >= best * CELL_CALIBRATION_KNEE_PERCENT) {
            return cell_calibration_rows[p];
        }
    }
    return 0;
}

/* The most rows before a step takes too many times as long as with one; 0: none is known to. */
static uint32_t find_latency_bound(const struct times *times)
{
    for (uint32_t p = 1; p < times->n; p++) {
        if (times->ns[p] > times->ns[0] * CELL_CALIBRATION_LATENCY_RATIO) {
            return cell_calibration_rows[p - 1];
        }
    }
    return 0;
}

/* b_max. Where the most rows that were measured are the fewest that are fast enough, more may be
 * faster still: no bound then. */
static uint32_t choose_knee_rows(const struct cell_calibration *calibration,
                                 const struct cell_tuning *tuning)
{
    struct times times;
    times_init(&times, calibration, tuning);
    times_clean(&times);
    const bool is_team = cell_calibration_has(calibration, CELL_TUNABLE_TEAM);
    uint32_t knee =
        find_knee(&times, is_team ? CELL_CALIBRATION_TEAM_BESIDE_NS : CELL_CALIBRATION_BESIDE_NS);
    uint32_t bound = find_latency_bound(&times);
    if (knee == 0 && bound == 0) {
        return calibration->own.knee_rows;
    }
    uint32_t rows = knee == 0 || (bound > 0 && bound < knee) ? bound : knee;
    const uint32_t own = calibration->own.knee_rows;
    const bool is_own = own > 0 && own < CELL_CALIBRATION_ROWS_LEAST;
    const uint32_t least = is_own ? own : CELL_CALIBRATION_ROWS_LEAST;
    rows = rows > least ? rows : least;
    const uint32_t most = times.n > 0 ? cell_calibration_rows[times.n - 1] : 0;
    return rows >= most ? 0 : rows;
}

struct cell_tuning cell_calibration_choose(const struct cell_calibration *calibration)
{
    struct cell_tuning tuning = calibration->own;
    if (cell_calibration_is_disturbed(calibration)) {
        return tuning;
    }
    if (cell_calibration_has(calibration, CELL_TUNABLE_WINDOWS)) {
        tuning.fill_steps = choose_fill(calibration);
        tuning.ahead_rows = choose_ahead_rows(calibration, tuning.fill_steps);
    }
    if (cell_calibration_has(calibration, CELL_TUNABLE_TEAM)) {
        tuning.solo_rows = choose_solo_rows(calibration, &tuning);
    }
    if (cell_calibration_has(calibration, CELL_TUNABLE_APART)) {
        tuning.apart_rows = choose_apart_rows(calibration, &tuning);
    }
    if (cell_calibration_has(calibration, CELL_TUNABLE_BESIDE)) {
        tuning.beside_rows = choose_beside_rows(calibration, &tuning);
    }
    tuning.knee_rows = choose_knee_rows(calibration, &tuning);
    return tuning;
}
