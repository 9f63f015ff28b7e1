/* Log-linear histogram: 128 buckets for each power of two, as in HdrHistogram.
 *
 * A value below 128 is its own bucket. Above, with its top bit at position m, the 7 bits below it
 * choose one of 128 buckets of width 2^(m-7); a bucket's upper edge is thus less than 1/128 above
 * every value in it, which is the error bound of the header. One writer, no lock; an add is a few
 * instructions and one cache line, a quantile reads 58 KB. */
#include "base/hist.h"

#include "base/assert.h"

#include <math.h>
#include <string.h>

#define SUB_COUNT (1u << BASE_HIST_SUB_BITS)

static uint32_t bucket_of(uint64_t value)
{
    if (value < SUB_COUNT) {
        return (uint32_t)value;
    }
    uint32_t top_bit = 63u - (uint32_t)__builtin_clzll(value);
    uint32_t shift = top_bit - BASE_HIST_SUB_BITS;
    uint32_t sub = (uint32_t)(value >> shift) - SUB_COUNT;
    return ((shift + 1u) << BASE_HIST_SUB_BITS) + sub;
}

/* Largest value that falls into the bucket. */
static uint64_t bucket_edge(uint32_t bucket)
{
    if (bucket < SUB_COUNT) {
        return bucket;
    }
    uint32_t shift = (bucket >> BASE_HIST_SUB_BITS) - 1u;
    uint64_t sub = bucket & (SUB_COUNT - 1u);
    uint64_t low = (SUB_COUNT + sub) << shift;
    return low + ((1ull << shift) - 1u);
}

void base_hist_init(struct base_hist *hist)
{
    memset(hist, 0, sizeof(*hist));
    hist->min = UINT64_MAX;
}

void base_hist_add(struct base_hist *hist, uint64_t value)
{
    uint32_t bucket = bucket_of(value);
    base_debug_assert(bucket < BASE_HIST_BUCKETS);
    hist->count++;
    hist->sum += value;
    hist->min = value < hist->min ? value : hist->min;
    hist->max = value > hist->max ? value : hist->max;
    hist->buckets[bucket]++;
}

void base_hist_merge(struct base_hist *into, const struct base_hist *from)
{
    into->count += from->count;
    into->sum += from->sum;
    into->min = from->min < into->min ? from->min : into->min;
    into->max = from->max > into->max ? from->max : into->max;
    for (uint32_t i = 0; i < BASE_HIST_BUCKETS; i++) {
        into->buckets[i] += from->buckets[i];
    }
}

uint64_t base_hist_quantile(const struct base_hist *hist, double quantile)
{
    base_assert(quantile >= 0.0 && quantile <= 1.0);
    if (hist->count == 0) {
        return 0;
    }
    // The rank-th smallest value is wanted, counted from 1. Above 2^53 values the product is
    // rounded, hence the second bound.
    double product = ceil(quantile * (double)hist->count);
    uint64_t rank = product < 1.0 ? 1 : (uint64_t)product;
    rank = rank > hist->count ? hist->count : rank;

    uint64_t seen = 0;
    uint32_t bucket = 0;
    for (; bucket < BASE_HIST_BUCKETS - 1u; bucket++) {
        seen += hist->buckets[bucket];
        if (seen >= rank) {
            break;
        }
    }
    uint64_t edge = bucket_edge(bucket);
    return edge < hist->max ? edge : hist->max;
}

uint64_t base_hist_count_le(const struct base_hist *hist, uint64_t limit)
{
    if (hist->count == 0 || limit < hist->min) {
        return 0;
    }
    if (limit >= hist->max) {
        return hist->count;
    }
    uint64_t seen = 0;
    uint32_t last = bucket_of(limit);
    for (uint32_t i = 0; i <= last; i++) {
        seen += hist->buckets[i];
    }
    return seen;
}

double base_hist_mean(const struct base_hist *hist)
{
    return hist->count == 0 ? 0.0 : (double)hist->sum / (double)hist->count;
}
