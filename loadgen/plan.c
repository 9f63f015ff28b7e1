#include "loadgen/plan.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/random.h"

#define NS_PER_S 1e9

/* The process while it is drawn: time_ns is the first arrival not yet in the plan. */
struct drawing {
    struct lg_plan *plan;
    size_t capacity;
    struct base_random random;
    double gap_ns;
    double time_ns;
};

/* Puts the arrival at time_ns into the plan and draws the next one. */
static enum base_status take(struct drawing *d, struct base_error *error)
{
    struct lg_plan *plan = d->plan;
    if (plan->count == d->capacity) {
        size_t wanted = d->capacity + d->capacity / 2 + 1024;
        uint64_t *grown = NULL;
        if (plan->count < LG_PLAN_MAX) {
            grown = base_realloc(plan->planned_ns, wanted * sizeof(grown[0]));
        }
        if (grown == NULL) {
            return base_fail(error, BASE_RESOURCE_EXHAUSTED,
                             "a run of more than %zu requests does not fit; make it shorter",
                             plan->count);
        }
        plan->planned_ns = grown;
        d->capacity = wanted;
    }
    plan->planned_ns[plan->count++] = (uint64_t)d->time_ns;
    d->time_ns += base_random_exponential(&d->random, d->gap_ns);
    return BASE_OK;
}

static enum base_status take_until(struct drawing *d, uint64_t end_ns, struct base_error *error)
{
    while (d->time_ns < (double)end_ns) {
        BASE_TRY(take(d, error));
    }
    return BASE_OK;
}

static enum base_status take_count(struct drawing *d, uint64_t count, struct base_error *error)
{
    for (uint64_t i = 0; i < count; i++) {
        BASE_TRY(take(d, error));
    }
    return BASE_OK;
}

static enum base_status draw_all(const struct lg_plan_spec *spec, struct lg_plan *plan,
                                 struct base_error *error)
{
    struct drawing d = {.plan = plan, .gap_ns = NS_PER_S / spec->rate};
    base_random_init(&d.random, spec->seed);
    d.time_ns = base_random_exponential(&d.random, d.gap_ns);
    plan->window_start_ns = spec->warmup_ns;
    BASE_TRY(take_until(&d, plan->window_start_ns, error));
    plan->measured_first = plan->count;
    if (spec->requests > 0) {
        BASE_TRY(take_count(&d, spec->requests, error));
        plan->window_end_ns = (uint64_t)d.time_ns;
    } else {
        plan->window_end_ns = plan->window_start_ns + spec->duration_ns;
        BASE_TRY(take_until(&d, plan->window_end_ns, error));
    }
    plan->measured_end = plan->count;
    plan->end_ns = plan->window_end_ns + spec->cooldown_ns;
    return take_until(&d, plan->end_ns, error);
}

enum base_status lg_plan_create(const struct lg_plan_spec *spec, struct lg_plan *out,
                                struct base_error *error)
{
    base_assert(spec->rate > 0);
    base_assert(spec->duration_ns > 0 || spec->requests > 0);
    *out = (struct lg_plan){0};
    enum base_status status = draw_all(spec, out, error);
    if (status != BASE_OK) {
        lg_plan_release(out);
    }
    return status;
}

void lg_plan_release(struct lg_plan *plan)
{
    base_free(plan->planned_ns);
    *plan = (struct lg_plan){0};
}

uint64_t lg_plan_time(const struct lg_plan *plan, size_t i)
{
    return i < plan->count ? plan->planned_ns[i] : BASE_NEVER;
}

uint64_t lg_missed_limit_ns(double rate)
{
    base_assert(rate > 0);
    double limit_ns = (double)LG_MISSED_GAPS * NS_PER_S / rate;
    return limit_ns > (double)LG_MISSED_FLOOR_NS ? (uint64_t)limit_ns : LG_MISSED_FLOOR_NS;
}
