/* Whether one-SM lanes answer on a card what they should, and how fast: a program that needs gcc,
 * nvcc and none of the tests' or the server's libraries (scripts/gpu/check.sh, bench.sh).
 *
 *   check   each kernel at 1 to 32 rows, x multiplied in the step and as sums, at edges of its
 * tiles: chains that join and leave, against double precision (card_lane_define.c), and each row
 *           alone against itself in company, bit by bit; and what a lane meets in its life:
 *           attention, abort, a fault, parking, and a launch behind each
 *   quick   a few of them
 *   filled  the same few in max_tasks mode: a launch runs what stands in the ring and ends, for
 *           tools that run kernels and the host one after the other
 *   bench   a step inside a long run, and a task of one step from submit until it is seen complete,
 * beside what was meant to be reached; the ring's own round trip, launches
 *
 * A line of JSON for each case. Exit status: 0, 1 after a failed case, 2 for wrong arguments, 3
 * where there is no card or its driver runs no lanes. */
#include "tests/cuda/card_lane.h"

#include "base/clock.h"
#include "tests/cuda/card.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_USAGE = 2, EXIT_NO_LANES = 3 };

#define LONG_STEPS  0xFFFFu
#define BENCH_STEPS 8192
#define BENCH_RUNS  60u
#define BENCH_WARM  5u
#define ROUNDS      500u
#define LAUNCHES    60u

static struct lane_card card;

struct program {
    const struct cell_cuda_driver *driver;
    bool is_quick, is_filled;
    uint32_t bench_steps;
};

static void begin(const struct program *program, const struct lane_shape *shape)
{
    memset(&card, 0, sizeof(card));
    card.driver = program->driver;
    card.is_filled = program->is_filled;
    (void)lane_card_open(&card, shape);
}

static const char *kind_name(const struct lane_shape *shape)
{
    return shape->kind == CELL_SM_LSTM ? "lstm" : "gru";
}

static void print_shape(const char *part, const char *name, const struct lane_shape *shape)
{
    (void)printf("{\"part\":\"%s\",\"case\":\"%s\",\"type\":\"%s\",\"cell\":\"%s\",\"hidden\":%u,"
                 "\"x\":\"%s\"",
                 part, name, shape->is_bf16 ? "bf16" : "fp32", kind_name(shape), shape->units,
                 shape->is_given ? "sums" : "inputs");
}

/* Ends the lane and the case; whether it was right. */
static bool end_case(void)
{
    lane_card_close(&card);
    card_end_line(card.wrong);
    return card.wrong == NULL;
}

/* ---- Answers ---- */

static float kept[LANE_CARD_STEPS][LANE_CARD_UNITS];

/* A row's answers once more, alone. */
static void check_alone(uint32_t chain)
{
    const struct lane_card_io *io = &card.io[chain];
    const size_t bytes = card.chains[chain].steps * sizeof(kept[0]);
    memcpy(kept, io->out, bytes);
    lane_card_reset(&card, chain);
    lane_card_run(&card, &chain, 1);
    for (uint32_t step = 0; step < card.chains[chain].steps && card.wrong == NULL; step++) {
        if (memcmp(kept[step], io->out[step], card.shape.units * sizeof(float)) != 0) {
            card.wrong = "other bits alone than in company";
        }
    }
}

/* Answers of the first n rows; the largest error. */
static double check_rows(uint32_t n)
{
    uint32_t chains[CELL_SM_ROWS_MAX] = {0};
    double worst = 0;
    for (uint32_t i = 0; i < n; i++) {
        chains[i] = i;
        lane_card_reset(&card, i);
    }
    lane_card_run(&card, chains, n);
    for (uint32_t i = 0; i < n && card.wrong == NULL; i++) {
        lane_card_compare(&card, i, &worst);
    }
    return worst;
}

static bool check_shape(const struct program *program, const struct lane_shape *shape)
{
    static const uint32_t rows[] = {1, 3, 8, 17, CELL_SM_ROWS_MAX};
    bool is_right = true;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        double error = 0;
        if (program->is_quick && rows[i] != 8) {
            continue;
        }
        begin(program, shape);
        if (card.wrong == NULL) {
            error = check_rows(rows[i]);
        }
        if (card.wrong == NULL) {
            check_alone(0);
            check_alone(rows[i] - 1);
        }
        print_shape("lane check", "answers", shape);
        (void)printf(",\"inputs\":%u,\"rows\":%u,\"error\":%.3g", shape->inputs, rows[i],
                     isnan(error) ? -1.0 : error);
        is_right &= end_case();
    }
    return is_right;
}

/* ---- A lane's life ---- */

/* A run that would take long is ended by attention behind a step. */
static void play_attention(void)
{
    if (card.is_filled) {
        cell_lane_attend(&card.host.lane, 1); // nobody can raise it meanwhile
    }
    lane_card_submit_long(&card, 2, LONG_STEPS, CELL_LANE_INTERRUPTIBLE, false);
    lane_card_turn(&card);
    cell_lane_attend(&card.host.lane, 1);
    lane_card_drain(&card);
    cell_lane_attend(&card.host.lane, 0);
    if (card.wrong == NULL && (card.steps_done == 0 || card.steps_done == LONG_STEPS)) {
        card.wrong = "attention does not end a run";
    }
}

/* A launch that dies: its tasks have failed, and it says why. */
static void want_death(enum cell_lane_end want, uint32_t failed)
{
    lane_card_wait_end(&card);
    if (card.wrong == NULL && (card.host.end != (uint32_t)want || card.failed != failed)) {
        card.wrong = "a launch ends otherwise than it should, or fails other tasks";
    }
    card.failed = 0;
}

static void play_abort(void)
{
    lane_card_submit_long(&card, 2, LONG_STEPS, 0, false);
    lane_card_submit_op(&card, CELL_LANE_FENCE);
    lane_card_turn(&card);
    cell_lane_abort(&card.host.lane, card.host.launch);
    want_death(CELL_LANE_END_ABORTED, 2);
}

/* No wait may take any time: sooner or later a step takes longer than the way to the next look. */
static void play_fault(void)
{
    const uint32_t bound_ns = card.args.bound_ns;
    card.args.bound_ns = 0;
    lane_card_submit_long(&card, CELL_SM_ROWS_MAX, LONG_STEPS, 0, false);
    lane_card_turn(&card);
    want_death(CELL_LANE_END_FAULT, 1);
    card.args.bound_ns = bound_ns;
    const struct cell_lane_fault fault = cell_lane_host_fault(&card.host);
    if (card.wrong == NULL && (fault.lane != card.args.index || fault.block != 0 ||
                               fault.site != CELL_LANE_WAIT_EXCHANGE)) {
        card.wrong = "a fault record says something else";
    }
}

/* By itself, when nobody gives it anything. */
static void play_idle(void)
{
    const uint64_t park_ns = card.args.park_ns;
    card.args.park_ns = 1000000;
    card.args.busy_idle_ns = 1000;
    lane_card_submit_op(&card, CELL_LANE_FENCE);
    lane_card_drain(&card);
    lane_card_wait_end(&card);
    if (card.wrong == NULL && card.host.end != CELL_LANE_END_PARKED) {
        card.wrong = "an idle lane does not park";
    }
    card.args.park_ns = park_ns;
    card.args.busy_idle_ns = park_ns / 2;
}

/* Because it is told to; a task behind it is the next launch's. */
static void play_park(void)
{
    const uint64_t launch = card.host.launch;
    lane_card_submit_op(&card, CELL_LANE_PARK);
    lane_card_submit_op(&card, CELL_LANE_FENCE);
    lane_card_drain(&card);
    if (card.wrong == NULL && card.host.launch < launch + 1) {
        card.wrong = "a task behind PARK is not another launch's";
    }
}

static const struct {
    const char *name;
    void (*play)(void);
    bool needs_host; /* that runs beside the kernel */
} scenes[] = {
    {"attention", play_attention, false}, {"park", play_park, false},  {"idle", play_idle, true},
    {"abort", play_abort, true},          {"fault", play_fault, true},
};

/* Each scene, with answers behind it: a launch is as good as the first. */
static bool check_life(const struct program *program, const struct lane_shape *shape)
{
    bool is_right = true;
    for (size_t i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++) {
        if (program->is_filled && scenes[i].needs_host) {
            continue;
        }
        double error = 0;
        begin(program, shape);
        if (card.wrong == NULL) {
            (void)check_rows(3);
        }
        if (card.wrong == NULL) {
            lane_card_submit_op(&card, CELL_LANE_PARK); // a scene begins with a launch of its own
            lane_card_drain(&card);
            lane_card_wait_end(&card);
        }
        if (card.wrong == NULL) {
            scenes[i].play();
        }
        if (card.wrong == NULL) {
            error = check_rows(3);
        }
        print_shape("lane check", scenes[i].name, shape);
        (void)printf(",\"launches\":%llu,\"error\":%.3g", (unsigned long long)card.host.launch,
                     isnan(error) ? -1.0 : error);
        is_right &= end_case();
    }
    return is_right;
}

/* All kernels; of each its whole width and an edge of its tiles. */
static bool check_all(const struct program *program)
{
    static const struct {
        bool is_bf16;
        uint32_t units, edge;
    } sizes[] = {{false, 64, 33}, {true, 64, 49}, {true, 128, 97}};
    bool is_right = true;
    for (uint32_t i = 0; i < 3 * 2 * 2; i++) {
        const bool is_given = i / 6 != 0;
        struct lane_shape shape = {.kind = i / 3 % 2 == 0 ? CELL_SM_LSTM : CELL_SM_GRU,
                                   .is_bf16 = sizes[i % 3].is_bf16,
                                   .units = sizes[i % 3].units,
                                   .inputs = sizes[i % 3].units,
                                   .is_given = is_given};
        is_right &= check_shape(program, &shape);
        is_right &= is_given || check_life(program, &shape);
        shape.units = sizes[i % 3].edge;
        shape.inputs = 17;
        is_right &= program->is_quick || check_shape(program, &shape);
    }
    return is_right;
}

/* ---- Times ---- */

/* Microseconds from submit until the task is seen to be complete. */
static double time_task(uint32_t rows, uint32_t steps, bool is_far)
{
    const uint64_t from_ns = base_now_ns();
    if (rows > 0) {
        lane_card_submit_long(&card, rows, steps, 0, is_far);
    } else {
        lane_card_submit_op(&card, CELL_LANE_FENCE);
    }
    lane_card_drain(&card);
    return (double)(base_now_ns() - from_ns) * 1e-3;
}

static void time_tasks(uint32_t rows, uint32_t steps, bool is_far, double *us, uint32_t n)
{
    for (uint32_t i = 0; i < BENCH_WARM + n && card.wrong == NULL; i++) {
        const double took = time_task(rows, steps, is_far) / steps;
        if (i >= BENCH_WARM) {
            us[i - BENCH_WARM] = took;
        }
    }
}

/* What a perfect kernel should need, microseconds a step of bf16 over R alone (docs/gpu.md); 0:
 * nothing was said. */
static double target_us(const struct lane_shape *shape, uint32_t rows)
{
    static const double targets[2][3] = {{0.18, 0.19, 0.30}, {0.35, 0.35, 0.73}};
    const uint32_t size = shape->units == 64 ? 0 : 1;
    const uint32_t column = rows == 1 ? 0 : rows == 8 ? 1 : 2; // of 1, 8 and 32
    const bool has_one = rows == 1 || rows == 8 || rows == 32;
    return has_one && shape->is_bf16 && shape->is_given && shape->kind == CELL_SM_LSTM
               ? targets[size][column]
               : 0;
}

static bool bench_shape(const struct program *program, const struct lane_shape *shape,
                        uint32_t rows)
{
    static double step_us[BENCH_RUNS];
    static double task_us[ROUNDS];
    const double target = target_us(shape, rows);
    begin(program, shape);
    if (card.wrong == NULL) {
        (void)check_rows(rows);
        time_tasks(rows, program->bench_steps, true, step_us, BENCH_RUNS);
        time_tasks(rows, 1, false, task_us, ROUNDS);
    }
    print_shape("lane", "step", shape);
    (void)printf(",\"rows\":%u,\"steps\":%u", rows, program->bench_steps);
    card_quantiles("step_us", step_us, BENCH_RUNS);
    card_quantiles("one_step_us", task_us, ROUNDS);
    if (target > 0) {
        (void)printf(",\"target_us\":%.2f,\"limit_us\":%.3f,\"within\":%s", target, 1.5 * target,
                     step_us[BENCH_RUNS / 2] <= 1.5 * target ? "true" : "false");
    }
    return end_case();
}

/* A launch behind one that has parked: the call, and until its first task is seen complete. */
static void time_launches(double *call_us, double *done_us)
{
    for (uint32_t i = 0; i < LAUNCHES && card.wrong == NULL; i++) {
        lane_card_submit_op(&card, CELL_LANE_PARK);
        lane_card_drain(&card);
        lane_card_wait_end(&card);
        if (card.driver->lane_wait(card.lane, LANE_CARD_WAIT_NS) != BASE_OK) {
            card.wrong = "a launch that has parked does not leave the card";
            return;
        }
        const uint64_t from_ns = base_now_ns();
        lane_card_submit_op(&card, CELL_LANE_FENCE);
        lane_card_turn(&card);
        call_us[i] = (double)(base_now_ns() - from_ns) * 1e-3;
        lane_card_drain(&card);
        done_us[i] = (double)(base_now_ns() - from_ns) * 1e-3;
    }
}

static bool bench_ring(const struct program *program, const struct lane_shape *shape)
{
    static double fence_us[ROUNDS];
    static double call_us[LAUNCHES];
    static double done_us[LAUNCHES];
    begin(program, shape);
    if (card.wrong == NULL) {
        (void)check_rows(3);
        time_tasks(0, 1, false, fence_us, ROUNDS);
        time_launches(call_us, done_us);
    }
    print_shape("lane", "ring and launch", shape);
    card_quantiles("fence_us", fence_us, ROUNDS);
    card_quantiles("launch_call_us", call_us, LAUNCHES);
    card_quantiles("relaunch_us", done_us, LAUNCHES);
    return end_case();
}

static bool bench_all(const struct program *program)
{
    static const uint32_t rows[] = {1, 8, 10, 20, CELL_SM_ROWS_MAX}; // GRNN's, too
    bool is_right = true;
    for (uint32_t i = 0; i < 3 * 2 * 2; i++) {
        const struct lane_shape shape = {.kind = i / 3 % 2 == 0 ? CELL_SM_LSTM : CELL_SM_GRU,
                                         .is_bf16 = i % 3 > 0,
                                         .units = i % 3 == 2 ? 128 : 64,
                                         .inputs = i % 3 == 2 ? 128 : 64,
                                         .is_given = i / 6 == 0};
        is_right &= i / 6 != 0 || bench_ring(program, &shape);
        for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
            is_right &= bench_shape(program, &shape, rows[r]);
        }
    }
    return is_right;
}

/* Whether a lane can be had at all. */
static bool has_lanes(const struct program *program)
{
    const struct lane_shape shape = {.units = 8, .inputs = 8};
    begin(program, &shape);
    lane_card_close(&card);
    if (card.wrong != NULL) {
        (void)fprintf(stderr, "card_lane: %s\n", card.wrong);
    }
    return card.wrong == NULL;
}

int main(int argc, char **argv)
{
    const char *job = argc >= 3 ? argv[1] : "";
    const bool is_bench = strcmp(job, "bench") == 0;
    const bool is_filled = strcmp(job, "filled") == 0;
    const bool is_quick = strcmp(job, "quick") == 0;
    const long steps = argc == 4 ? strtol(argv[3], NULL, 10) : BENCH_STEPS;
    const struct program program = {.driver = argc >= 3 ? card_driver(argv[2]) : NULL,
                                    .is_quick = is_quick || is_filled,
                                    .is_filled = is_filled,
                                    .bench_steps = (uint32_t)steps};
    if (program.driver == NULL || argc > (is_bench ? 4 : 3) || steps < 1 ||
        steps > (long)LONG_STEPS ||
        (!is_bench && !is_filled && !is_quick && strcmp(job, "check") != 0)) {
        (void)fprintf(stderr, "usage: card_lane quick|check|filled|bench DRIVER [STEPS]\n");
        return EXIT_USAGE;
    }
    if (!has_lanes(&program)) {
        return EXIT_NO_LANES;
    }
    const bool is_right = is_bench ? bench_all(&program) : check_all(&program);
    return is_right ? EXIT_SUCCESS : EXIT_FAILURE;
}
