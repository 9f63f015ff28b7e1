/* The forms share data: each writes the same y. */
#include "bench/ablate.h"

#include "base/clock.h"
#include "bench/bench.h"
#include "bench/sequence.h"

#include <stdio.h>

#define ROUNDS_MAX 4096u
#define ROUNDS_MIN 5u
#define ROUND_NS   BASE_NS_PER_MS /* a round of a form takes at least this */

/* A row of the table in ablate.h. */
struct form {
    const char *name;
    enum bench_sequence_ops ops;
    bool has_windows;
    bool has_region; /* all steps in one parallel region */
};

static const struct form forms[] = {
    {.name = "plain", .ops = BENCH_OPS_SMALL},
    {.name = "fused", .ops = BENCH_OPS_FUSED},
    {.name = "partitioned", .ops = BENCH_OPS_FUSED, .has_windows = true},
    {.name = "weight-centric", .ops = BENCH_OPS_FUSED, .has_windows = true, .has_region = true},
};
enum { FORMS = sizeof(forms) / sizeof(forms[0]) };

/* A team whose members are numbered anew in each run: what one member had another has next. */
struct turning_team {
    struct cell_team face;
    struct cell_team *team;
    uint32_t turn;
    void (*work)(void *argument, struct cell_team *team, uint32_t member);
    void *argument;
};

struct job {
    const struct bench_ablate_options *options;
    const struct bench_cell *cell;
    struct bench_shape shape;
    struct bench_data data;
    struct turning_team turning;
    struct bench_sequence *sequences[FORMS];
    uint32_t repeats[FORMS]; /* in a round */
    uint32_t rounds;
    double ms[FORMS][ROUNDS_MAX];
};

/* ---- Turning teams -------------------------------------------------------------------------- */

static void turned_work(void *argument, struct cell_team *team, uint32_t member)
{
    struct turning_team *turning = argument;
    turning->work(turning->argument, &turning->face, (member + turning->turn) % team->members);
}

static void turning_start(struct cell_team *face,
                          void (*work)(void *argument, struct cell_team *team, uint32_t member),
                          void *argument)
{
    struct turning_team *turning = face->context;
    turning->work = work;
    turning->argument = argument;
    turning->turn = (turning->turn + 1) % face->members;
    turning->team->start(turning->team, turned_work, turning);
}

static void turning_finish(struct cell_team *face)
{
    const struct turning_team *turning = face->context;
    turning->team->finish(turning->team);
}

static void turning_barrier(struct cell_team *face, uint32_t member)
{
    const struct turning_team *turning = face->context;
    uint32_t members = face->members;
    turning->team->barrier(turning->team, (member + members - turning->turn) % members);
}

static void turning_wait(struct cell_team *face, uint32_t member, bool (*is_over)(void *argument),
                         void *argument)
{
    const struct turning_team *turning = face->context;
    const uint32_t members = face->members;
    turning->team->wait(turning->team, (member + members - turning->turn) % members, is_over,
                        argument);
}

static void turning_init(struct turning_team *turning, struct cell_team *team)
{
    *turning = (struct turning_team){.face = {.context = turning,
                                              .members = team->members,
                                              .start = turning_start,
                                              .finish = turning_finish,
                                              .barrier = turning_barrier,
                                              .wait = turning_wait},
                                     .team = team};
}

/* ---- Measuring ------------------------------------------------------------------------------ */

static enum base_status open_job(struct job *job, struct base_error *error)
{
    const struct bench_ablate_options *options = job->options;
    BASE_TRY(bench_data_random(&job->data, job->cell, &job->shape, options->seed, error));
    turning_init(&job->turning, options->team);
    for (uint32_t f = 0; f < FORMS; f++) {
        struct bench_sequence_options form = {.backend = cell_backend_find("cpu"),
                                              .isa = options->isa,
                                              .team = forms[f].has_region ? options->team
                                                                          : &job->turning.face,
                                              .cell = job->cell,
                                              .shape = job->shape,
                                              .ops = forms[f].ops,
                                              .without_windows = !forms[f].has_windows,
                                              .by_steps = !forms[f].has_region};
        BASE_TRY(bench_sequence_open(&form, &job->data, &job->sequences[f], error));
    }
    return BASE_OK;
}

static void close_job(struct job *job)
{
    for (uint32_t f = 0; f < FORMS; f++) {
        bench_sequence_close(job->sequences[f]);
    }
    bench_data_release(&job->data);
}

static double round_ms(const struct job *job, uint32_t form)
{
    const uint32_t threads = job->options->team->members;
    uint64_t start = bench_cost_ns(threads);
    for (uint32_t i = 0; i < job->repeats[form]; i++) {
        bench_sequence_run(job->sequences[form]);
    }
    return (double)(bench_cost_ns(threads) - start) / 1e6 / job->repeats[form];
}

/* The first run of each form warms it up, the second says how often a round repeats it. */
static void measure(struct job *job)
{
    for (uint32_t f = 0; f < FORMS; f++) {
        job->repeats[f] = 1;
        (void)round_ms(job, f);
        double once_ns = round_ms(job, f) * 1e6;
        job->repeats[f] = once_ns >= ROUND_NS ? 1 : (uint32_t)(ROUND_NS / (once_ns + 1.0)) + 1;
    }
    const uint64_t start = base_now_ns();
    while (
        job->rounds < ROUNDS_MAX &&
        (job->rounds < ROUNDS_MIN || base_now_ns() - start < job->options->ms * BASE_NS_PER_MS)) {
        for (uint32_t f = 0; f < FORMS; f++) {
            job->ms[f][job->rounds] = round_ms(job, f);
        }
        job->rounds++;
    }
}

static void print_job(struct job *job)
{
    const struct bench_shape *s = &job->shape;
    const double flops = bench_flops(job->cell, s);
    double plain_ms = 0.0;
    if (!job->options->is_json) {
        (void)printf("%s %ux%ux%ux%u, %u threads, %u rounds\n", job->cell->name, s->inputs,
                     s->hidden, s->rows, s->steps, job->options->team->members, job->rounds);
    }
    for (uint32_t f = 0; f < FORMS; f++) {
        double ms = bench_quantile(job->ms[f], job->rounds, 0.5);
        plain_ms = f == 0 ? ms : plain_ms;
        if (job->options->is_json) {
            (void)printf("{\"cell\":\"%s\",\"input\":%u,\"hidden\":%u,\"rows\":%u,\"steps\":%u,"
                         "\"threads\":%u,\"form\":\"%s\",\"rounds\":%u,\"ms_p50\":%.5f,"
                         "\"ms_min\":%.5f,\"gflops\":%.1f,\"speedup\":%.3f}\n",
                         job->cell->name, s->inputs, s->hidden, s->rows, s->steps,
                         job->options->team->members, forms[f].name, job->rounds, ms, job->ms[f][0],
                         flops / (ms * 1e6), plain_ms / ms);
        } else {
            (void)printf("  %-15s %10.4f ms %8.1f GFLOP/s %6.2f times\n", forms[f].name, ms,
                         flops / (ms * 1e6), plain_ms / ms);
        }
    }
    (void)fflush(stdout);
}

static enum base_status ablate_shape(const struct bench_ablate_options *options,
                                     const struct bench_cell *cell, const struct bench_shape *shape,
                                     struct base_error *error)
{
    static struct job job; // large
    job = (struct job){.options = options, .cell = cell, .shape = *shape};
    enum base_status status = open_job(&job, error);
    if (status == BASE_OK) {
        measure(&job);
        print_job(&job);
    }
    close_job(&job);
    return status;
}

enum base_status bench_ablate(const struct bench_ablate_options *options, struct base_error *error)
{
    char name[32];
    const struct bench_cell *cell = NULL;
    for (const char *rest = options->cells;
         (rest = bench_list_next(rest, name, sizeof(name))) != NULL;) {
        BASE_TRY(bench_cell_find(name, &cell, error));
        for (uint32_t i = 0; i < options->n_shapes; i++) {
            BASE_TRY(ablate_shape(options, cell, &options->shapes[i], error));
        }
    }
    return BASE_OK;
}
