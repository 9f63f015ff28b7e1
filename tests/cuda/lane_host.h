/* Lanes of the driver on a host (driver_host.h): the lane's own block code, compiled for a host, on
 * a thread each that stays while the lane lives (live.h).
 *
 * Not where they would run in an emulator, and under ThreadSanitizer, which takes minutes for a
 * second of them, only with CELLBATCH_LONG: there a card has no SMs for lanes. */
#ifndef TESTS_CUDA_LANE_HOST_H
#define TESTS_CUDA_LANE_HOST_H

#include "cells/cuda/driver.h"

struct lane_host_launch {
    struct cell_sm_args args;
    void *shared;
    enum cell_sm_kind kind;
};

/* A kernel, compiled for a host. */
struct lane_host_kernel {
    uint32_t threads;
    size_t shared_bytes;          /* without weights */
    void (*main)(void *argument); /* a struct lane_host_launch */
};

extern const struct lane_host_kernel lane_host__f32_64;
extern const struct lane_host_kernel lane_host__bf16_64;
extern const struct lane_host_kernel lane_host__bf16_128;

/* A card's lanes; zeroed is none. */
struct lane_host_card {
    struct cell_cuda_lane *lanes;
};

/* Whether this build can run them. */
bool lane_host_can(void);

/* has_failed: of the driver, asked now and then; nothing runs behind a failure. */
enum base_status lane_host_open(struct lane_host_card *card,
                                const struct cell_cuda_lane_kernel *kernel,
                                bool (*has_failed)(void), struct cell_cuda_lane **out);
void lane_host_close(struct cell_cuda_lane *lane);
void lane_host_close_all(struct lane_host_card *card); /* of a card that is lost */
void lane_host_launch(struct cell_cuda_lane *lane, const struct cell_sm_args *args);
enum base_status lane_host_wait(struct cell_cuda_lane *lane, uint64_t most_ns);

/* Whether a launch is on the card. */
bool lane_host_lives(const struct lane_host_card *card);

/* ---- Of all cards; any thread ---- */

enum lane_host_hang {
    LANE_HOST_HANG_NONE,
    LANE_HOST_HANG_FAULT, /* a thread of the block does not come to its next step */
    LANE_HOST_HANG_STILL, /* the block stands still until it is aborted */
    LANE_HOST_HANG_DEAF,  /* and for good */
};

/* What happens to whichever lane looks next. */
void lane_host_hang(enum lane_host_hang hang);

/* Idle for so long a lane parks; the device's own time is for cards. */
void lane_host_park_ns(uint64_t ns);

/* Launches, ever; and whether one is on a card now. */
uint64_t lane_host_launches(void);
bool lane_host_lives_any(void);

#endif
