#include "loadgen/result.h"

#include "base/assert.h"
#include "base/clock.h"
#include "loadgen/plan.h"

#include <string.h>

void lg_result_init(struct lg_result *result)
{
    memset(result, 0, sizeof(*result)); // too large for a compound literal on the stack
    base_hist_init(&result->latency);
    base_hist_init(&result->service);
    base_hist_init(&result->first);
}

void lg_result_add(struct lg_result *result, const struct lg_outcome *outcome)
{
    base_assert(outcome->planned_ns <= outcome->sent_ns);
    base_assert(outcome->sent_ns <= outcome->done_ns);
    uint32_t slot = lg_code_slot(outcome->code);
    result->sent++;
    result->bytes_sent += outcome->message_bytes;
    if (slot == 0) {
        result->ok++;
        base_hist_add(&result->latency, outcome->done_ns - outcome->planned_ns);
        base_hist_add(&result->service, outcome->done_ns - outcome->sent_ns);
        result->messages += outcome->n_messages;
        if (result->in_parts) {
            base_assert(outcome->sent_ns <= outcome->first_ns);
            base_hist_add(&result->first, outcome->first_ns - outcome->planned_ns);
        }
    } else if (outcome->unfinished) {
        result->unfinished++;
    } else if (outcome->we_cancelled && outcome->code == LG_CODE_CANCELLED) {
        result->cancelled++;
    } else {
        result->errors[slot]++;
    }
}

void lg_sends_add(struct lg_sends *sends, uint64_t lateness_ns)
{
    sends->planned++;
    if (lateness_ns > sends->limit_ns) {
        sends->missed++;
    }
    if (lateness_ns > sends->lateness_max_ns) {
        sends->lateness_max_ns = lateness_ns;
    }
}

void lg_sends_add_unsent(struct lg_sends *sends, uint64_t count)
{
    sends->planned += count;
    sends->missed += count;
}

static double per_second(uint64_t count, uint64_t window_ns)
{
    return window_ns == 0 ? 0 : (double)count * (double)BASE_NS_PER_S / (double)window_ns;
}

double lg_result_offered(const struct lg_result *result)
{
    return per_second(result->sends.planned, result->window_ns);
}

double lg_result_achieved(const struct lg_result *result)
{
    return per_second(result->ok_in_window, result->window_ns);
}

uint64_t lg_result_failed(const struct lg_result *result)
{
    uint64_t failed = result->unfinished;
    for (uint32_t i = 0; i < LG_CODE_COUNT; i++) {
        failed += result->errors[i];
    }
    return failed;
}

double lg_result_missed_share(const struct lg_result *result)
{
    return result->sends.planned == 0
               ? 0
               : (double)result->sends.missed / (double)result->sends.planned;
}

double lg_result_cpu_share(const struct lg_result *result)
{
    return result->window_ns == 0 ? 0 : (double)result->cpu_ns / (double)result->window_ns;
}

double lg_result_cpu_us_each(const struct lg_result *result)
{
    return result->ok_in_window == 0
               ? 0
               : (double)result->cpu_ns / (double)BASE_NS_PER_US / (double)result->ok_in_window;
}

bool lg_result_is_valid(const struct lg_result *result)
{
    return result->sends.planned > 0 && lg_result_missed_share(result) <= LG_MISSED_SHARE_MAX;
}
