/* The cellular form of a sequence: the same steps of the same rows on the same device, but rows
 * join and leave. A row that leaves is at once replaced by a new chain, so that the number of rows
 * never changes; a batch has as many steps as the soonest leaver has left, as a scheduler would
 * submit it.
 *
 * A chain stays for a random number of steps, with the same chance to leave after each (geometric);
 * its x and y are those that the sequence has at these steps. All rows join at step 0, in both
 * forms, and leave at the last. One thread, member 0 of the sequence's team. */
#ifndef BENCH_COURSE_H
#define BENCH_COURSE_H

#include "bench/sequence.h"

struct bench_course;

/* Over an open sequence of this shape, which outlives it. residence: mean steps of a chain, >= 1.
 * RESOURCE_EXHAUSTED. */
enum base_status bench_course_open(struct bench_sequence *sequence, const struct bench_shape *shape,
                                   double residence, uint64_t seed, struct bench_course **out,
                                   struct base_error *error);
void bench_course_close(struct bench_course *course); /* NULL is allowed */

/* Draws who stays how long; open() does it for the first time. */
void bench_course_draw(struct bench_course *course);
void bench_course_run(struct bench_course *course);

/* Of what is drawn: chains that join after step 0, batches of a run, steps of a row's first chain.
 */
uint32_t bench_course_joins(const struct bench_course *course);
uint32_t bench_course_batches(const struct bench_course *course);
uint32_t bench_course_first_stay(const struct bench_course *course, uint32_t row);

#endif
