/* Bounded rings of pointers between threads. A push moves ownership of what is pointed to.
 *
 * base_spsc: one producer thread, one consumer thread. base_mpsc: any number of producers, one
 * consumer. Neither blocks nor allocates after creation; a full ring refuses. Everything written
 * before a push is visible after the pop of that pointer (release / acquire). Head and tail stand
 * on cache lines of their own. The MPSC ring is D. Vyukov's bounded queue with a sequence per cell.
 */
#ifndef BASE_RING_H
#define BASE_RING_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct base_spsc;
struct base_mpsc;

/* capacity: a power of two >= 2, in pointers. *out is ended with base_spsc_free().
 * RESOURCE_EXHAUSTED when out of memory. */
enum base_status base_spsc_create(uint32_t capacity, struct base_spsc **out)
    __attribute__((warn_unused_result));
void base_spsc_free(struct base_spsc *ring); /* NULL allowed; pointers still inside are not freed */

/* Producer only. false when full. item must not be NULL. */
bool base_spsc_push(struct base_spsc *ring, void *item) __attribute__((warn_unused_result));

/* Consumer only. NULL when empty. */
void *base_spsc_pop(struct base_spsc *ring);

/* Either side; a moment's view. */
bool base_spsc_is_empty(const struct base_spsc *ring);

enum base_status base_mpsc_create(uint32_t capacity, struct base_mpsc **out)
    __attribute__((warn_unused_result));
void base_mpsc_free(struct base_mpsc *ring);

/* Any thread. false when full. */
bool base_mpsc_push(struct base_mpsc *ring, void *item) __attribute__((warn_unused_result));

/* Consumer only. NULL when empty, or when the next producer has claimed a cell and not yet filled
 * it (it is about to; a wake-up follows its push). */
void *base_mpsc_pop(struct base_mpsc *ring);
bool base_mpsc_is_empty(const struct base_mpsc *ring);

#endif
