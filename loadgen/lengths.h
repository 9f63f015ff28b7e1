/* The sequence lengths of a run, drawn before it starts.
 *
 * SPEC is one of
 *   fixed:N             every sequence has N steps
 *   uniform:A:B         evenly from A..B, both included, drawn with the seed
 *   trace:FILE[:COLUMN] the numbers of one column of a tab-separated file, in the file's order;
 *                       COLUMN is a number from 1, or source (1, the default) or target (2)
 * In a trace, lines that begin with # and empty lines are skipped; any other line must hold a
 * number in that column. The drawn values repeat from the start when a run needs more. */
#ifndef LOADGEN_LENGTHS_H
#define LOADGEN_LENGTHS_H

#include "base/status.h"

#include <stdint.h>

/* Longest sequence, in steps. */
#define LG_LENGTH_MAX 1000000u

struct lg_lengths {
    uint32_t *values; /* [count], each 1..LG_LENGTH_MAX */
    uint32_t count;   /* > 0 */
    uint32_t max;
};

/* On BASE_OK *out is owned by the caller: end it with lg_lengths_release(). INVALID_ARGUMENT names
 * the spec, or the file and line, that is wrong. */
enum base_status lg_lengths_create(const char *spec, uint64_t seed, struct lg_lengths *out,
                                   struct base_error *error) __attribute__((warn_unused_result));
void lg_lengths_release(struct lg_lengths *lengths);

#endif
