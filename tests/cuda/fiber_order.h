/* What is ordered before what: vector clocks for threads and words, and a record of the last
 * accesses to each 16 bits of watched memory. (FastTrack, Flanagan and Freund, PLDI 2009.) The
 * emulator's own; thread FIBER_HOST is the host. */
#ifndef TESTS_CUDA_FIBER_ORDER_H
#define TESTS_CUDA_FIBER_ORDER_H

#include "tests/cuda/fiber.h"

#define FIBER_HOST   FIBER_THREADS_MAX
#define FIBER_CLOCKS (FIBER_THREADS_MAX + 1)
#define FIBER_TEXT   256u

struct fiber_clock {
    uint32_t of[FIBER_CLOCKS];
};

void fiber_order_init(void);
void fiber_order_release(void);
void fiber_order_watch(const void *base, size_t bytes, const char *name);

/* to: at least what it was, and what `from` is. */
void fiber_clock_join(struct fiber_clock *to, const struct fiber_clock *from);

/* What thread t knows of all others. */
struct fiber_clock *fiber_clock_of(uint32_t thread);

/* Thread t has told somebody: what it does from here on is later than that. */
void fiber_clock_tick(uint32_t thread);

/* An access of a control word, by its order. */
void fiber_order_word(uint32_t thread, const void *at, enum cell_lane_order how, bool is_store);

/* A control word is accessed, by whatever order: what touches it as data later has to come behind.
 */
void fiber_order_note(uint32_t thread, const void *at, size_t bytes, bool is_write);

/* An access of data; false and why, if another one is not ordered with it. */
bool fiber_order_touch(uint32_t thread, const void *at, size_t bytes, bool is_write,
                       char why[FIBER_TEXT]);

#endif
