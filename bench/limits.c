/* Measures on every thread of a team at once, as the sequences run: clocks, L3 and memory are then
 * shared as they will be. */
#include "bench/limits.h"

#include "base/assert.h"
#include "base/cpus.h"
#include "base/mem.h"
#include "bench/bench.h"

/* Rates of one member. */
struct rates {
    double gflops[CELL_PRECISION_COUNT];
    double gsigmoids, gtanhs;
    double gbytes[BENCH_LEVELS_MAX];
};

struct survey {
    const struct cell_kernels *kernels;
    uint64_t ns;
    const struct bench_limits *limits;
    size_t read_bytes[BENCH_LEVELS_MAX]; /* what a member reads to measure a level */
    struct rates *members;
};

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* Members begin each rate together. */
static void survey_member(void *argument, struct cell_team *team, uint32_t member)
{
    struct survey *survey = argument;
    struct rates *rates = &survey->members[member];
    for (uint32_t p = 0; p < CELL_PRECISION_COUNT; p++) {
        team->barrier(team, member);
        rates->gflops[p] =
            bench_fma_burst(survey->kernels->name, (enum cell_precision)p, survey->ns).best_gflops;
    }
    team->barrier(team, member);
    rates->gsigmoids = bench_activation_rate(survey->kernels->sigmoid, survey->ns);
    team->barrier(team, member);
    rates->gtanhs = bench_activation_rate(survey->kernels->tanh, survey->ns);
    for (uint32_t l = 0; l < survey->limits->n_levels; l++) {
        team->barrier(team, member);
        rates->gbytes[l] = bench_read_gbytes(survey->read_bytes[l], survey->ns);
    }
}

/* Half of a cache is read; of L3, which others use too, four times what L2 holds, if that much is
 * this thread's. */
static void list_levels(struct survey *survey, struct bench_limits *limits)
{
    static const char *const names[] = {"L1", "L2", "L3"};
    size_t l2 = base_cpus_cache_bytes(2);
    size_t l3 = base_cpus_cache_bytes(3);
    for (uint32_t l = 0; l < 3; l++) {
        size_t bytes = base_cpus_cache_bytes(l + 1) / (l == 2 ? limits->threads : 1);
        size_t read_bytes = bytes / 2;
        if (l == 2 && l2 > 0 && read_bytes > 4 * l2) {
            read_bytes = 4 * l2;
        }
        if (bytes > 0) {
            survey->read_bytes[limits->n_levels] = read_bytes;
            limits->levels[limits->n_levels++] =
                (struct bench_level){.name = names[l], .bytes = (double)bytes};
        }
    }
    size_t all = 4 * l3 > (size_t)256 << 20 ? 4 * l3 : (size_t)256 << 20;
    survey->read_bytes[limits->n_levels] = all / limits->threads;
    limits->levels[limits->n_levels++] = (struct bench_level){.name = "memory", .bytes = 1e18};
}

void bench_limits_measure(struct cell_team *team, const struct cell_kernels *kernels, uint64_t ns,
                          struct bench_limits *out)
{
    struct survey survey = {.kernels = kernels, .ns = ns, .limits = out};
    *out = (struct bench_limits){.threads = team->members};
    list_levels(&survey, out);
    survey.members = base_alloc_array(team->members, sizeof(*survey.members));
    base_assert(survey.members != NULL); // a benchmark without memory has nothing to say
    cell_team_run(team, survey_member, &survey);
    for (uint32_t m = 0; m < team->members; m++) {
        const struct rates *rates = &survey.members[m];
        for (uint32_t p = 0; p < CELL_PRECISION_COUNT; p++) {
            out->gflops[p] += rates->gflops[p];
        }
        out->gsigmoids += rates->gsigmoids;
        out->gtanhs += rates->gtanhs;
        for (uint32_t l = 0; l < out->n_levels; l++) {
            out->levels[l].gbytes += rates->gbytes[l] / team->members;
        }
    }
    base_free(survey.members);
}

void bench_limits_text(struct base_buf *out, const struct bench_limits *limits)
{
    base_buf_printf(out,
                    "# limits, %u threads: %.1f GFLOP/s, bf16 %.1f, int8 %.1f; 10^9/s sigmoid "
                    "%.2f, tanh %.2f; GB/s of a thread:",
                    limits->threads, limits->gflops[CELL_FP32], limits->gflops[CELL_BF16],
                    limits->gflops[CELL_INT8], limits->gsigmoids, limits->gtanhs);
    for (uint32_t l = 0; l < limits->n_levels; l++) {
        base_buf_printf(out, " %s %.1f", limits->levels[l].name, limits->levels[l].gbytes);
    }
    base_buf_text(out, "\n");
}

void bench_limits_json(struct base_buf *out, const struct bench_limits *limits)
{
    base_buf_printf(out,
                    "\"limits\":{\"threads\":%u,\"gflops\":%.1f,\"gflops_bf16\":%.1f,"
                    "\"gops_int8\":%.1f,\"gsigmoids\":%.3f,\"gtanhs\":%.3f,"
                    "\"read_gbytes_per_thread\":{",
                    limits->threads, limits->gflops[CELL_FP32], limits->gflops[CELL_BF16],
                    limits->gflops[CELL_INT8], limits->gsigmoids, limits->gtanhs);
    for (uint32_t l = 0; l < limits->n_levels; l++) {
        base_buf_printf(out, "%s\"%s\":%.1f", l > 0 ? "," : "", limits->levels[l].name,
                        limits->levels[l].gbytes);
    }
    base_buf_text(out, "}}");
}

/* Seconds of reading the weights: whatever is not near a thread must pass the next level, which
 * cannot give it faster than was measured. */
static double reads_s(const struct bench_limits *limits, const struct bench_demand *demand,
                      uint32_t steps)
{
    double once = demand->once_bytes / limits->threads;
    double each = demand->step_bytes / limits->threads;
    double near = 0.0;
    double longest_s = 0.0;
    for (uint32_t l = 0; l < limits->n_levels; l++) {
        double bytes = steps * larger(each - near, 0.0) + larger(once - near, 0.0);
        if (limits->levels[l].gbytes > 0.0) {
            longest_s = larger(longest_s, bytes / (limits->levels[l].gbytes * 1e9));
        }
        near += limits->levels[l].bytes;
    }
    return longest_s;
}

double bench_roofline_ms(const struct bench_limits *limits, const struct bench_demand *demand,
                         uint32_t rows, uint32_t steps)
{
    if (!(limits->gflops[CELL_FP32] > 0.0 && limits->gsigmoids > 0.0 && limits->gtanhs > 0.0)) {
        return 0.0;
    }
    double all = (double)rows * steps;
    double products_s = 0.0;
    for (uint32_t p = 0; p < CELL_PRECISION_COUNT; p++) {
        products_s +=
            demand->flops[p] > 0.0 ? all * demand->flops[p] / (limits->gflops[p] * 1e9) : 0.0;
    }
    double others_s = all * 1e-9 *
                      (demand->sigmoids / limits->gsigmoids + demand->tanhs / limits->gtanhs +
                       demand->elements / (limits->gflops[CELL_FP32] / 2));
    return (larger(products_s, reads_s(limits, demand, steps)) + others_s) * 1e3;
}
