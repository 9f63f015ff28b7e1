/* The driver of the CUDA device (cells/cuda/driver.h) on a host: the same kernels, a thread for
 * each stream that runs them in loops.
 *
 * What a card would not forgive is not forgiven here: work comes later than the call; memory of the
 * card holds NaN until it is written, and its addresses are no pointers (CELL_STEP_HOST_BIAS);
 * items and lanes come in either order; copies are checked against what was allocated, pinned
 * memory included; and allocating while work is outstanding, or while nothing but running is
 * allowed, is counted. Products "of a library" sum from the last term to the first, over weights in
 * either order (choice_host.h). */
#ifndef TESTS_CUDA_DRIVER_HOST_H
#define TESTS_CUDA_DRIVER_HOST_H

#include "cells/backend.h"
#include "cells/cuda/device.h"

extern const struct cell_cuda_driver cuda_host_driver;

/* "cuda-host": cards 0 and 1 of it, with the device's own products. Not in cell_backend_at(). */
const struct cell_backend *cuda_host_backend(void);

/* The same with the library's products: "cuda-host-library". */
const struct cell_backend *cuda_host_library_backend(void);

/* ---- Of all cards; any thread ---- */

/* The n-th call from now that may fail does (1 = the next), and so does all after it; 0: none. */
void cuda_host_fail_at(uint64_t n);

/* The next kernel faults: error() says so, what came before is done, and nothing behind it. */
void cuda_host_fault(void);

/* Streams stand still until told otherwise; closing goes on. */
void cuda_host_hang(bool is_hung);

/* Whether cards refuse to write words in the order of a stream. */
void cuda_host_refuse_words(bool is_refused);

/* Pauses before each command, at random, 0..ns. */
void cuda_host_pause(uint64_t ns);

struct cuda_host_counts {
    uint64_t calls; /* that may fail */
    uint64_t launches, replays, allocs;
    uint64_t unsound;    /* allocations while work was outstanding, copies outside what is there */
    uint64_t card_bytes; /* of the cards' memory, allocated now */
};
struct cuda_host_counts cuda_host_counts(void);

#endif
