/* Fixed-memory log-linear histogram of uint64_t values (nanoseconds, rows, bytes).
 *
 * Values below 2^BASE_HIST_SUB_BITS are exact; above, a bucket is 2^-BASE_HIST_SUB_BITS of its
 * power of two wide, so a reported quantile is at most 0.8 % above the true one. One writer;
 * another thread may read a copy made by the owner. */
#ifndef BASE_HIST_H
#define BASE_HIST_H

#include <stdint.h>

#define BASE_HIST_SUB_BITS 7u
#define BASE_HIST_BUCKETS  ((64u - BASE_HIST_SUB_BITS + 1u) << BASE_HIST_SUB_BITS)

struct base_hist {
    uint64_t count;
    uint64_t sum; /* wraps only after 584 years of nanoseconds */
    uint64_t min; /* UINT64_MAX when empty */
    uint64_t max;
    uint64_t buckets[BASE_HIST_BUCKETS];
};

void base_hist_init(struct base_hist *hist);
void base_hist_add(struct base_hist *hist, uint64_t value);
void base_hist_merge(struct base_hist *into, const struct base_hist *from);

/* Smallest recorded bucket edge with at least quantile (0..1) of the values at or below it; never
 * above max; 0 when empty. */
uint64_t base_hist_quantile(const struct base_hist *hist, double quantile);

/* Number of values <= limit, to within a bucket: what a Prometheus `le` bucket needs. */
uint64_t base_hist_count_le(const struct base_hist *hist, uint64_t limit);

double base_hist_mean(const struct base_hist *hist); /* 0 when empty */

#endif
