/* See lane_host.h. A lane's thread waits for a launch, runs the block, and waits again. */
#include "tests/cuda/switch.h"

#include "tests/cuda/lane_host.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "cells/cuda/lane_shared.h"
#include "tests/cuda/live.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAP_NS  (20 * BASE_NS_PER_US)
#define PARK_NS (2 * BASE_NS_PER_MS)

struct cell_cuda_lane {
    struct lane_host_card *card;
    struct cell_cuda_lane *next;
    const struct lane_host_kernel *kernel;
    bool (*has_failed)(void);
    struct live_block *block;
    struct lane_host_launch launch;
    size_t shared_bytes;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_launched; /* under the lock */
    _Atomic bool is_ended;
    bool is_still; /* its thread's */
};

static struct {
    _Atomic uint32_t hang;
    _Atomic uint64_t park_ns, launches;
    _Atomic uint32_t living;
} knobs;

void lane_host_hang(enum lane_host_hang hang)
{
    atomic_store(&knobs.hang, (uint32_t)hang);
}

void lane_host_park_ns(uint64_t ns)
{
    atomic_store(&knobs.park_ns, ns);
}

uint64_t lane_host_launches(void)
{
    return atomic_load(&knobs.launches);
}

bool lane_host_lives_any(void)
{
    return atomic_load(&knobs.living) > 0;
}

bool lane_host_can(void)
{
#if !defined(__x86_64__)
    return false;
#elif SWITCH_HAS_TSAN
    return getenv("CELLBATCH_LONG") != NULL;
#else
    return true;
#endif
}

/* ---- The lane's thread ---- */

static bool is_aborted(const struct cell_cuda_lane *lane)
{
    const struct cell_sm_args *args = &lane->launch.args;
    return atomic_load(&args->lane.control->abort) == args->launch.number;
}

/* Does what it was told to do, and whether the block goes on. */
static bool goes_on(void *context)
{
    struct cell_cuda_lane *lane = context;
    const struct cell_sm_args *args = &lane->launch.args;
    // Behind its last store a launch is not needed any more, whatever hangs.
    if (cell_lane_ended(&args->lane, args->launch.number) != 0) {
        return false;
    }
    uint32_t hang = atomic_load(&knobs.hang);
    if (hang != LANE_HOST_HANG_NONE &&
        atomic_compare_exchange_strong(&knobs.hang, &hang, LANE_HOST_HANG_NONE)) {
        if (hang == LANE_HOST_HANG_FAULT) {
            live_hang(lane->block, CELL_SM_BARRIER_STEP);
        }
        lane->is_still = hang != LANE_HOST_HANG_FAULT;
    }
    while (lane->is_still && !atomic_load(&lane->is_ended)) {
        lane->is_still = hang == LANE_HOST_HANG_DEAF || !is_aborted(lane);
        (void)usleep(100);
    }
    return !atomic_load(&lane->is_ended) && !lane->has_failed();
}

static void *lane_main(void *argument)
{
    struct cell_cuda_lane *lane = argument;
    pthread_mutex_lock(&lane->lock);
    for (;;) {
        while (!lane->is_launched && !atomic_load(&lane->is_ended)) {
            pthread_cond_wait(&lane->changed, &lane->lock);
        }
        if (atomic_load(&lane->is_ended)) {
            pthread_mutex_unlock(&lane->lock);
            return NULL;
        }
        pthread_mutex_unlock(&lane->lock);
        memset(lane->launch.shared, 0xFF, lane->shared_bytes);
        (void)live_run(lane->block, lane->kernel->main, &lane->launch, goes_on, lane);
        pthread_mutex_lock(&lane->lock);
        lane->is_launched = false;
        atomic_fetch_sub(&knobs.living, 1);
    }
}

/* ---- The driver's calls ---- */

static const struct lane_host_kernel *find_kernel(const char *name, enum cell_sm_kind *kind)
{
    const char *size = strstr(name, "__");
    *kind = strncmp(name, "cell_sm_lstm", 12) == 0 ? CELL_SM_LSTM : CELL_SM_GRU;
    base_assert(size != NULL);
    return strcmp(size, "__f32_64") == 0    ? &lane_host__f32_64
           : strcmp(size, "__bf16_64") == 0 ? &lane_host__bf16_64
                                            : &lane_host__bf16_128;
}

enum base_status lane_host_open(struct lane_host_card *card,
                                const struct cell_cuda_lane_kernel *kernel,
                                bool (*has_failed)(void), struct cell_cuda_lane **out)
{
    struct cell_cuda_lane *lane = base_alloc(sizeof(*lane));
    if (lane == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    lane->card = card;
    lane->has_failed = has_failed;
    lane->kernel = find_kernel(kernel->name, &lane->launch.kind);
    lane->shared_bytes = kernel->shared_bytes;
    base_assert(lane->kernel->threads == kernel->threads);
    base_assert(lane->kernel->shared_bytes <= kernel->shared_bytes);
    lane->launch.shared = base_alloc_aligned(kernel->shared_bytes, CELL_LANE_LINE_BYTES);
    lane->block = lane->launch.shared == NULL ? NULL : live_create(kernel->threads);
    if (lane->block == NULL) {
        base_free(lane->launch.shared);
        base_free(lane);
        return BASE_RESOURCE_EXHAUSTED;
    }
    pthread_mutex_init(&lane->lock, NULL);
    pthread_cond_init(&lane->changed, NULL);
    const int failed = pthread_create(&lane->thread, NULL, lane_main, lane);
    base_assert(failed == 0);
    lane->next = card->lanes;
    card->lanes = lane;
    *out = lane;
    return BASE_OK;
}

void lane_host_close(struct cell_cuda_lane *lane)
{
    struct cell_cuda_lane **at = &lane->card->lanes;
    pthread_mutex_lock(&lane->lock);
    atomic_store(&lane->is_ended, true);
    pthread_cond_signal(&lane->changed);
    pthread_mutex_unlock(&lane->lock);
    pthread_join(lane->thread, NULL);
    pthread_cond_destroy(&lane->changed);
    pthread_mutex_destroy(&lane->lock);
    while (*at != lane) {
        at = &(*at)->next;
    }
    *at = lane->next;
    live_free(lane->block);
    base_free(lane->launch.shared);
    base_free(lane);
}

void lane_host_close_all(struct lane_host_card *card)
{
    while (card->lanes != NULL) {
        lane_host_close(card->lanes);
    }
}

/* A pointer of the card's as this process has it. */
static void *pointer_of(const void *at)
{
    return cell_step_pointer((uint64_t)(uintptr_t)at);
}

void lane_host_launch(struct cell_cuda_lane *lane, const struct cell_sm_args *args)
{
    struct cell_sm_args *own = &lane->launch.args;
    const uint64_t park_ns = atomic_load(&knobs.park_ns);
    pthread_mutex_lock(&lane->lock);
    // The last launch has said that it ends; it may have some instructions left.
    while (lane->is_launched) {
        pthread_mutex_unlock(&lane->lock);
        (void)usleep(10);
        pthread_mutex_lock(&lane->lock);
    }
    *own = *args;
    own->lane.control = pointer_of(args->lane.control);
    own->lane.slots = pointer_of(args->lane.slots);
    own->lane.results = pointer_of(args->lane.results);
    own->lane.row_ids = pointer_of(args->lane.row_ids);
    own->lane.outcomes = pointer_of(args->lane.outcomes);
    own->memory = pointer_of(args->memory);
    own->weights = pointer_of(args->weights);
    own->busy_idle_ns = NAP_NS;
    own->park_ns = park_ns == 0 ? PARK_NS : park_ns;
    lane->is_still = false;
    lane->is_launched = true;
    atomic_fetch_add(&knobs.launches, 1);
    atomic_fetch_add(&knobs.living, 1);
    pthread_cond_signal(&lane->changed);
    pthread_mutex_unlock(&lane->lock);
}

static bool lives(struct cell_cuda_lane *lane)
{
    pthread_mutex_lock(&lane->lock);
    const bool is_so = lane->is_launched;
    pthread_mutex_unlock(&lane->lock);
    return is_so;
}

enum base_status lane_host_wait(struct cell_cuda_lane *lane, uint64_t most_ns)
{
    const uint64_t from_ns = base_now_ns();
    while (lives(lane)) {
        if (base_now_ns() - from_ns > most_ns) {
            return BASE_UNAVAILABLE;
        }
        (void)usleep(20);
    }
    return BASE_OK;
}

bool lane_host_lives(const struct lane_host_card *card)
{
    bool is_so = false;
    for (struct cell_cuda_lane *lane = card->lanes; lane != NULL; lane = lane->next) {
        is_so |= lives(lane);
    }
    return is_so;
}
