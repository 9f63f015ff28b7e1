/* The open loop: requests leave by the plan, whatever has become of those before. A request that
 * finds no free call waits for one, and is then late. */
#include "loadgen/engine.h"

#include "base/assert.h"

/* Of one turn, so that answers are looked at although the sending has fallen behind. */
#define SENDS_IN_A_ROW 64u

/* Requests that should have left before the sending ended and did not. */
static void count_unsent(struct lg_engine *engine, uint64_t end_ns)
{
    const struct lg_plan *plan = engine->spec->plan;
    for (size_t i = engine->plan_at; i < plan->count; i++) {
        if (engine->start_ns + plan->planned_ns[i] > end_ns) {
            break;
        }
        bool measured = i >= plan->measured_first && i < plan->measured_end;
        lg_sends_add_unsent(&engine->sends, measured ? 1 : 0);
    }
}

static bool watch_end(struct lg_engine *engine, uint64_t now_ns)
{
    uint64_t ending_ns = atomic_load_explicit(&engine->ending_ns, memory_order_relaxed);
    bool over = engine->plan_at == engine->spec->plan->count;
    if (over || ending_ns != 0 || now_ns > engine->send_end_ns) {
        count_unsent(engine, ending_ns != 0 ? ending_ns : now_ns);
        engine->sending_done = true;
    }
    return engine->sending_done;
}

static uint64_t next_ns(const struct lg_engine *engine)
{
    uint64_t planned_ns = lg_plan_time(engine->spec->plan, engine->plan_at);
    return base_deadline_after(engine->start_ns, planned_ns);
}

uint64_t lg_open_tick(struct lg_engine *engine, uint64_t now_ns)
{
    base_assert(lg_is_open_loop(engine));
    for (uint32_t sent = 0; !engine->sending_done && !watch_end(engine, now_ns); sent++) {
        uint64_t planned_ns = next_ns(engine);
        if (planned_ns > now_ns || sent == SENDS_IN_A_ROW) {
            return planned_ns;
        }
        if (engine->free_count == 0) {
            return BASE_NEVER; // an end comes first
        }
        struct lg_call *call = engine->free_calls[--engine->free_count];
        lg_call_start(engine, call, engine->plan_at++, planned_ns, now_ns);
        now_ns = base_now_ns();
    }
    return BASE_NEVER;
}
