/* A thread block that lives beside a host: the code of cells/cuda/block.h on one thread, a fiber a
 * thread of the block, with the real time and real atomics for what the host reads and writes.
 *
 * The other emulator (fiber.h) checks the order of every access, and the host is one of its fibers;
 * here the host is another thread, any number of blocks live at once, and nothing is checked. What
 * one proves the other uses. */
#ifndef TESTS_CUDA_LIVE_H
#define TESTS_CUDA_LIVE_H

#include <stdbool.h>
#include <stdint.h>

struct live_block;

/* Allocates all that its runs need; NULL: no memory. */
struct live_block *live_create(uint32_t n_threads);
void live_free(struct live_block *block);

/* Runs main(argument) on every thread of the block, on the calling thread, until all have returned,
 * or goes_on(context) is false, which is asked now and then, or all that are left wait for one that
 * hangs: false. Fibers that have not returned are given up. */
bool live_run(struct live_block *block, void (*main)(void *argument), void *argument,
              bool (*goes_on)(void *context), void *context);

/* From within goes_on(): thread 0 does not come to its next barrier of this number, nor back. */
void live_hang(struct live_block *block, uint32_t barrier);

#endif
