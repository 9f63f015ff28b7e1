/* See live.h. Fibers that can go on stand in a queue; one that waits for others leaves it, and who
 * comes last puts all back. Words, clocks and memory need no change of fibers: every loop that
 * waits has a warp function in it. */
#include "tests/cuda/switch.h"

#include "tests/cuda/live.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "cells/bf16.h"
#include "cells/cuda/block.h"
#include "cells/cuda/fragment.h"

#include <string.h>
#include <unistd.h>

#define BARRIERS   16u
#define WARPS_MAX  11u
#define ASK_ONE_IN 64u                   /* turns */
#define NAP_NS     500u                  /* so long a nap is one of somebody idle: */
#define IDLE_US    50u                   /* it sleeps in earnest */
#define JUMP_NS    (50 * BASE_NS_PER_MS) /* of its clock, between two looks */
#define NOBODY     UINT32_MAX

enum meeting { SYNC, SHFL, ALL, MMA };

struct fiber {
    struct switch_fiber at;
    /* What it brings to a meeting of its warp, and takes home. */
    uint32_t value, from, result;
    float sums[4];
    uint32_t a[4], b[2];
};

struct live_block {
    uint32_t n_threads;
    struct fiber *fibers;
    uint32_t *runnable; /* [n_threads], a ring */
    uint32_t first, n_runnable, n_ended;
    uint32_t *waiting[BARRIERS]; /* threads that sync */
    uint32_t n_waiting[BARRIERS], n_come[BARRIERS];
    uint32_t warp_come[WARPS_MAX];
    uint32_t current;
    uint32_t hang_at; /* barrier; NOBODY: none */
    uint64_t looked_ns, now_ns;
    void (*main)(void *argument);
    void *argument;
    struct switch_home home;
};

/* The block that this thread runs. */
static _Thread_local struct live_block *here;

/* ---- Life ---- */

void live_free(struct live_block *block)
{
    for (uint32_t i = 0; block->fibers != NULL && i < block->n_threads; i++) {
        switch_release(&block->fibers[i].at);
        base_free(block->fibers[i].at.stack);
    }
    for (uint32_t b = 0; b < BARRIERS; b++) {
        base_free(block->waiting[b]);
    }
    base_free(block->fibers);
    base_free(block->runnable);
    base_free(block);
}

struct live_block *live_create(uint32_t n_threads)
{
    struct live_block *block = base_alloc(sizeof(*block));
    if (block == NULL) {
        return NULL;
    }
    base_assert(n_threads % CELL_WARP == 0 && n_threads / CELL_WARP <= WARPS_MAX);
    block->n_threads = n_threads;
    block->hang_at = NOBODY;
    block->fibers = base_alloc_array(n_threads, sizeof(*block->fibers));
    block->runnable = base_alloc_array(n_threads, sizeof(*block->runnable));
    bool ok = block->fibers != NULL && block->runnable != NULL;
    for (uint32_t b = 0; b < BARRIERS && ok; b++) {
        block->waiting[b] = base_alloc_array(n_threads, sizeof(*block->waiting[b]));
        ok = block->waiting[b] != NULL;
    }
    for (uint32_t i = 0; i < n_threads && ok; i++) {
        block->fibers[i].at.stack = base_alloc(SWITCH_STACK_BYTES);
        ok = block->fibers[i].at.stack != NULL;
    }
    if (!ok) {
        live_free(block);
        return NULL;
    }
    return block;
}

/* ---- Changing fibers ---- */

static void give_way(void)
{
    switch_leave(&here->home, &here->fibers[here->current].at);
}

static void set_runnable(uint32_t thread)
{
    here->runnable[(here->first + here->n_runnable++) % here->n_threads] = thread;
}

static void fiber_main(void)
{
    switch_begun(&here->home);
    here->main(here->argument);
    here->n_ended++;
    switch_end(&here->home, &here->fibers[here->current].at);
}

static void start(uint32_t thread)
{
    const bool is_there = switch_prepare(&here->fibers[thread].at, fiber_main);
    base_assert(is_there);
    set_runnable(thread);
}

bool live_run(struct live_block *block, void (*main)(void *argument), void *argument,
              bool (*goes_on)(void *context), void *context)
{
    here = block;
    block->main = main;
    block->argument = argument;
    block->first = block->n_runnable = block->n_ended = 0;
    block->hang_at = NOBODY;
    block->looked_ns = block->now_ns = base_now_ns();
    memset(block->n_waiting, 0, sizeof(block->n_waiting));
    memset(block->n_come, 0, sizeof(block->n_come));
    memset(block->warp_come, 0, sizeof(block->warp_come));
    for (uint32_t thread = 0; thread < block->n_threads; thread++) {
        start(thread);
    }
    for (uint32_t turn = 0; block->n_ended < block->n_threads; turn++) {
        if (block->n_runnable == 0 || (turn % ASK_ONE_IN == 0 && !goes_on(context))) {
            return false;
        }
        block->current = block->runnable[block->first];
        block->first = (block->first + 1) % block->n_threads;
        block->n_runnable--;
        switch_enter(&block->home, &block->fibers[block->current].at);
    }
    return true;
}

void live_hang(struct live_block *block, uint32_t barrier)
{
    block->hang_at = barrier;
}

/* ---- Barriers ---- */

uint32_t cell_block_thread(void)
{
    return here->current;
}

/* Whether this thread was the last: then those that wait go on. */
static bool come_to(uint32_t number, uint32_t threads)
{
    if (++here->n_come[number] < threads) {
        return false;
    }
    for (uint32_t i = 0; i < here->n_waiting[number]; i++) {
        set_runnable(here->waiting[number][i]);
    }
    here->n_come[number] = here->n_waiting[number] = 0;
    return true;
}

void cell_block_sync(uint32_t site, uint32_t number, uint32_t threads)
{
    (void)site;
    if (here->current == 0 && number == here->hang_at) {
        give_way(); // into nowhere
    }
    if (!come_to(number, threads)) {
        here->waiting[number][here->n_waiting[number]++] = here->current;
        give_way();
    }
}

void cell_block_arrive(uint32_t site, uint32_t number, uint32_t threads)
{
    (void)site;
    (void)come_to(number, threads);
}

/* ---- Warps: whoever comes last does the work for all ---- */

static float half(uint32_t pair, uint32_t upper)
{
    return cell_bf16_widen((uint16_t)(upper != 0 ? pair >> 16 : pair));
}

static void multiply(const struct fiber *warp, uint32_t thread, float sums[4])
{
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t row = cell_mma_c_row(thread, i);
        const uint32_t column = cell_mma_c_column(thread, i);
        double sum = (double)warp[thread].sums[i];
        for (uint32_t k = 0; k < CELL_MMA_K; k++) {
            // Who has A[row][k] and B[k][column]: the maps of fragment.h, the other way round.
            const struct fiber *of_a = &warp[row % 8 * 4 + k % 8 / 2];
            const struct fiber *of_b = &warp[column * 4 + k % 8 / 2];
            sum += (double)half(of_a->a[row / 8 + k / 8 * 2], k % 2) *
                   (double)half(of_b->b[k / 8], k % 2);
        }
        sums[i] = (float)sum;
    }
}

static void hold(struct fiber *warp, enum meeting meeting)
{
    float sums[CELL_WARP][4];
    bool is_all = true;
    for (uint32_t i = 0; i < CELL_WARP; i++) {
        is_all = is_all && warp[i].value != 0;
    }
    for (uint32_t i = 0; i < CELL_WARP && meeting != SYNC; i++) {
        if (meeting == MMA) {
            multiply(warp, i, sums[i]);
        }
        warp[i].result = meeting == SHFL ? warp[warp[i].from % CELL_WARP].value : is_all;
    }
    for (uint32_t i = 0; i < CELL_WARP && meeting == MMA; i++) {
        memcpy(warp[i].sums, sums[i], sizeof(sums[i]));
    }
}

static void meet(enum meeting meeting)
{
    const uint32_t warp = here->current / CELL_WARP;
    if (++here->warp_come[warp] < CELL_WARP) {
        give_way();
        return;
    }
    here->warp_come[warp] = 0;
    hold(&here->fibers[warp * CELL_WARP], meeting);
    for (uint32_t i = 0; i < CELL_WARP; i++) {
        const uint32_t thread = warp * CELL_WARP + i;
        if (thread != here->current) {
            set_runnable(thread);
        }
    }
}

void cell_warp_sync(uint32_t site)
{
    (void)site;
    meet(SYNC);
}

uint32_t cell_warp_shfl(uint32_t value, uint32_t from)
{
    struct fiber *self = &here->fibers[here->current];
    self->value = value;
    self->from = from;
    meet(SHFL);
    return self->result;
}

float cell_warp_shfl_f32(float value, uint32_t from)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    bits = cell_warp_shfl(bits, from);
    memcpy(&value, &bits, sizeof(value));
    return value;
}

bool cell_warp_all(bool is_so)
{
    struct fiber *self = &here->fibers[here->current];
    self->value = is_so;
    meet(ALL);
    return self->result != 0;
}

void cell_warp_mma(float sums[4], const uint32_t a[4], const uint32_t b[2])
{
    struct fiber *self = &here->fibers[here->current];
    memcpy(self->sums, sums, sizeof(self->sums));
    memcpy(self->a, a, sizeof(self->a));
    memcpy(self->b, b, sizeof(self->b));
    meet(MMA);
    memcpy(sums, self->sums, sizeof(self->sums));
}

/* ---- Memory and time ---- */

void cell_block_prefetch(const void *at)
{
    (void)at;
}

uint64_t cell_block_word_load(uint32_t site, const uint64_t *word, enum cell_lane_order order)
{
    (void)site;
    (void)order;
    return *word;
}

void cell_block_word_store(uint32_t site, uint64_t *word, uint64_t value,
                           enum cell_lane_order order)
{
    (void)site;
    (void)order;
    *word = value;
}

/* A card goes on while its host's process is stopped, and is not late when that goes on. */
uint64_t cell_block_clock_ns(void)
{
    const uint64_t looked_ns = base_now_ns();
    const uint64_t since_ns = looked_ns - here->looked_ns;
    here->now_ns += since_ns < JUMP_NS ? since_ns : JUMP_NS;
    here->looked_ns = looked_ns;
    return here->now_ns;
}

/* By one thread of the warp: the others wait for it at the next meeting. */
void cell_block_sleep(uint32_t ns)
{
    if (ns >= NAP_NS && here->current % CELL_WARP == 0) {
        (void)usleep(IDLE_US);
    }
}
