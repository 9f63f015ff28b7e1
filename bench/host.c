/* What a measurement must be kept with: the machine and the commit (of the tree it is run in); and
 * small helpers. */
#include "base/clock.h"
#include "base/cpus.h"
#include "bench/bench.h"
#include "worker/team.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void read_commit(char *out, size_t out_bytes)
{
    // NOLINTNEXTLINE(cert-env33-c): a constant command of a tool for developers
    FILE *git = popen("git rev-parse --short HEAD 2>/dev/null", "re");
    if (git == NULL || fgets(out, (int)out_bytes, git) == NULL) {
        (void)snprintf(out, out_bytes, "unknown");
    }
    out[strcspn(out, "\n")] = '\0';
    if (git != NULL) {
        (void)pclose(git);
    }
}

void bench_host_text(struct base_buf *out)
{
    char cpu[BASE_CPUS_MODEL_BYTES];
    char commit[64];
    base_cpus_model(cpu);
    read_commit(commit, sizeof(commit));
    base_buf_printf(out, "# %s, %u cpus allowed, commit %s\n", cpu, base_cpus_allowed(), commit);
}

void bench_host_json(struct base_buf *out)
{
    char cpu[BASE_CPUS_MODEL_BYTES];
    char commit[64];
    base_cpus_model(cpu);
    read_commit(commit, sizeof(commit));
    base_buf_text(out, "\"cpu\":");
    base_buf_json_string(out, cpu, strlen(cpu));
    base_buf_printf(out, ",\"cpus_allowed\":%u,\"commit\":", base_cpus_allowed());
    base_buf_json_string(out, commit, strlen(commit));
}

const char *bench_list_next(const char *text, char *out, size_t out_bytes)
{
    if (text == NULL || *text == '\0') {
        return NULL;
    }
    size_t length = strcspn(text, ",");
    (void)snprintf(out, out_bytes, "%.*s", (int)length, text);
    return text + length + (text[length] == ',');
}

static int compare(const void *a, const void *b)
{
    const double *x = a;
    const double *y = b;
    return (*x > *y) - (*x < *y);
}

bool bench_parse_count(const char *text, uint32_t low, uint32_t high, uint32_t *out)
{
    char *end = NULL;
    unsigned long value = strtoul(text, &end, 10);
    *out = (uint32_t)value;
    return end != text && *end == '\0' && value >= low && value <= high;
}

double bench_quantile(double *numbers, uint32_t n, double quantile)
{
    qsort(numbers, n, sizeof(numbers[0]), compare);
    return numbers[(uint32_t)((double)(n - 1) * quantile)];
}

enum base_status bench_team_start(uint32_t threads, struct cell_team **out,
                                  struct base_error *error)
{
    struct wrk_team_options options = {
        .members = threads, .spin_ns = BASE_NS_PER_MS, .pin = threads > 1, .name = "bench"};
    if (wrk_team_create(&options, out) != BASE_OK) {
        return base_fail(error, BASE_UNAVAILABLE, "cannot start %u threads", threads);
    }
    return BASE_OK;
}

int bench_exit_status(const char *name, enum base_status status, const struct base_error *error)
{
    if (status == BASE_OK) {
        return EXIT_SUCCESS;
    }
    (void)fprintf(stderr, "cellbatch-bench %s: %s\n", name, error->message);
    return 2;
}

uint64_t bench_cost_ns(uint32_t threads)
{
    return threads == 1 ? base_thread_cpu_ns() : base_now_ns();
}
