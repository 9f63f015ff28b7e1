/* See work.h. */
#include "tests/server/work.h"

#include "base/clock.h"
#include "server/text.h"
#include "tests/util.h"

#include <sched.h>
#include <string.h>

static void work_finished(struct srv_job *job)
{
    struct work *work = (struct work *)job;
    atomic_fetch_add(&work->finished, 1);
}

static void work_cancelled(struct srv_job *job)
{
    struct work *work = (struct work *)job;
    atomic_fetch_add(&work->cancelled, 1);
}

void work_init(struct srv_engine *engine, struct work *work, const struct cell_model *model,
               uint32_t n_rows, uint32_t steps, struct base_random *random)
{
    const struct srv_limits limits = {.sequence_length_max = 1u << 20};
    const struct srv_text_rows rows = {0};
    struct base_error error = {.status = BASE_OK};
    memset(work, 0, sizeof(*work));
    ask_init(&work->ask, model, n_rows, steps, random, ASK_OPTIONAL);
    ck_assert_msg(srv_validate(&work->ask.request, model, &limits, &rows, &work->sequences,
                               &error) == BASE_OK,
                  "%s", error.message);
    ck_assert_int_eq(
        sched_unfold_chain(&work->sequences, &work->ask.request.arena, &work->job.graph, &error),
        BASE_OK);
    ck_assert(srv_engine_reserve(engine, &work->job));
    work->job.finished = work_finished;
    work->job.cancelled = work_cancelled;
}

void work_release(struct srv_engine *engine, struct work *work)
{
    srv_engine_credit(engine, &work->job);
    ask_release(&work->ask);
}

void work_wait(_Atomic uint32_t *count, uint32_t at_least)
{
    const uint64_t end_ns = base_now_ns() + 30 * BASE_NS_PER_S;
    while (atomic_load(count) < at_least) {
        ck_assert_msg(base_now_ns() < end_ns, "nothing came back");
        sched_yield();
    }
}
