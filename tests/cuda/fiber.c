/* The emulator of a thread block; see fiber.h. Order of accesses: fiber_order.c.
 *
 * A fiber gives way to the scheduler, which draws the next one among those that can go on. Warp
 * functions are meetings of 32 fibers: the last that comes does the work for all. */
#include "tests/cuda/switch.h"

#define CELL_LANE_TRACE
#define CELL_WORD_TRACE
#include "tests/cuda/fiber.h"

#include "base/mem.h"
#include "cells/bf16.h"
#include "cells/cuda/fragment.h"
#include "cells/lane/contract.h"
#include "tests/cuda/fiber_order.h"
#include "tests/util.h"

#include <stdio.h>
#include <string.h>

#define BARRIERS     16u
#define WARPS_MAX    (FIBER_THREADS_MAX / CELL_WARP)
#define LOOK_NS      10u /* that pass when a thread looks at the clock */
#define HOST_ONE_IN  64u /* turns */
#define STARVED_PART 8u  /* of the picks that fall on who is starved, one counts */

enum state { RUNNABLE, AT_BARRIER, AT_WARP, HUNG, ENDED };

enum meeting { NOBODY, SYNC, SHFL, ALL, MMA };

struct fiber {
    struct switch_fiber at;
    enum state state;
    uint32_t barrier; /* that it waits at */
    uint32_t place;   /* among those that can go on */
    /* What it brings to a meeting of its warp, and takes home. */
    uint32_t value, from, result;
    float sums[4];
    uint32_t a[4], b[2];
};

struct barrier {
    uint32_t wanted, come; /* 0 wanted: nobody has come */
    struct fiber_clock clock;
    bool has_come[FIBER_THREADS_MAX];
};

struct warp {
    enum meeting meeting;
    uint32_t come;
    uint32_t site;
};

static struct {
    struct fiber_options options;
    struct base_random random;
    struct fiber *fibers; /* [FIBER_THREADS_MAX] */
    struct barrier barriers[BARRIERS];
    struct warp warps[WARPS_MAX];
    uint32_t runnable[FIBER_THREADS_MAX];
    uint32_t n_runnable, n_ended;
    uint32_t current; /* FIBER_HOST: none of them */
    uint32_t hung_count;
    uint32_t starved; /* this warp is slow, by seed */
    uint64_t now_ns;
    void (*main)(void *argument);
    void *argument;
    struct switch_home home; /* the scheduler */
    int lane_site;           /* of the contract's access that comes next */
    bool has_violation;
    char violation[FIBER_TEXT];
} block;

/* ---- Life ---- */

void fiber_options_init(struct fiber_options *options, uint32_t n_threads)
{
    *options = (struct fiber_options){.seed = 1,
                                      .n_threads = n_threads,
                                      .gone_site = FIBER_NONE,
                                      .relaxed_site = -1,
                                      .hung_thread = FIBER_NONE,
                                      .turns_max = 20000000};
}

void fiber_init(const struct fiber_options *options)
{
    ck_assert_uint_le(options->n_threads, FIBER_THREADS_MAX);
    ck_assert_uint_eq(options->n_threads % CELL_WARP, 0);
    struct fiber *fibers = block.fibers;
    memset(&block, 0, sizeof(block));
    block.fibers = fibers;
    block.options = *options;
    block.current = FIBER_HOST;
    block.lane_site = -1;
    base_random_init(&block.random, options->seed);
    if (block.fibers == NULL) {
        block.fibers = base_alloc_array(FIBER_THREADS_MAX, sizeof(*block.fibers));
        ck_assert_ptr_nonnull(block.fibers);
    }
    fiber_order_init();
}

void fiber_release(void)
{
    for (uint32_t i = 0; block.fibers != NULL && i < FIBER_THREADS_MAX; i++) {
        switch_release(&block.fibers[i].at);
        base_free(block.fibers[i].at.stack);
    }
    base_free(block.fibers);
    block.fibers = NULL;
    fiber_order_release();
}

void fiber_watch(const void *base, size_t bytes, const char *name)
{
    fiber_order_watch(base, bytes, name);
}

const char *fiber_violation(void)
{
    return block.has_violation ? block.violation : NULL;
}

uint64_t fiber_now_ns(void)
{
    return block.now_ns;
}

/* ---- Changing fibers ---- */

static void give_way(void)
{
    switch_leave(&block.home, &block.fibers[block.current].at);
}

/* A fiber whose block went wrong does not come back. */
static void violate(const char *text)
{
    if (!block.has_violation) {
        block.has_violation = true;
        (void)snprintf(block.violation, sizeof(block.violation), "%s", text);
    }
    if (block.current != FIBER_HOST) {
        give_way();
    }
}

static void set_runnable(uint32_t thread)
{
    struct fiber *fiber = &block.fibers[thread];
    fiber->state = RUNNABLE;
    fiber->place = block.n_runnable;
    block.runnable[block.n_runnable++] = thread;
}

static void set_waiting(uint32_t thread, enum state state)
{
    struct fiber *fiber = &block.fibers[thread];
    const uint32_t last = block.runnable[--block.n_runnable];
    block.runnable[fiber->place] = last;
    block.fibers[last].place = fiber->place;
    fiber->state = state;
}

static void wait_as(enum state state)
{
    set_waiting(block.current, state);
    give_way();
}

static void fiber_main(void)
{
    switch_begun(&block.home);
    block.main(block.argument);
    set_waiting(block.current, ENDED);
    block.n_ended++;
    switch_end(&block.home, &block.fibers[block.current].at);
}

static void start(uint32_t thread)
{
    struct fiber *fiber = &block.fibers[thread];
    if (fiber->at.stack == NULL) {
        fiber->at.stack = base_alloc(SWITCH_STACK_BYTES);
        ck_assert_ptr_nonnull(fiber->at.stack);
    }
    ck_assert(switch_prepare(&fiber->at, fiber_main));
    set_runnable(thread);
}

static uint32_t draw(void)
{
    uint32_t thread = block.runnable[base_random_below(&block.random, block.n_runnable)];
    if (thread / CELL_WARP == block.starved &&
        base_random_below(&block.random, STARVED_PART) != 0) {
        thread = block.runnable[base_random_below(&block.random, block.n_runnable)];
    }
    return thread;
}

/* All that was done before is visible to the launch, and what it did to the next one. */
static void order_launch(void)
{
    struct fiber_clock all = *fiber_clock_of(FIBER_HOST);
    for (uint32_t thread = 0; thread < FIBER_THREADS_MAX; thread++) {
        fiber_clock_join(&all, fiber_clock_of(thread));
    }
    fiber_clock_tick(FIBER_HOST);
    for (uint32_t thread = 0; thread < FIBER_THREADS_MAX; thread++) {
        *fiber_clock_of(thread) = all;
        fiber_clock_tick(thread);
    }
}

static void begin_run(void)
{
    memset(block.barriers, 0, sizeof(block.barriers));
    memset(block.warps, 0, sizeof(block.warps));
    block.n_runnable = block.n_ended = 0;
    block.hung_count = 0;
    // Sometimes a warp that there is, sometimes none.
    block.starved = base_random_below(&block.random, 2 * block.options.n_threads / CELL_WARP);
    order_launch();
    for (uint32_t thread = 0; thread < block.options.n_threads; thread++) {
        start(thread);
    }
}

enum fiber_end fiber_run(void (*main)(void *argument), void *argument, bool (*host)(void *context),
                         void *context)
{
    block.main = main;
    block.argument = argument;
    begin_run();
    for (uint64_t turn = 0; block.n_ended < block.options.n_threads; turn++) {
        if (block.has_violation) {
            return FIBER_VIOLATION;
        }
        if (base_random_below(&block.random, HOST_ONE_IN) == 0 && !host(context)) {
            return FIBER_STOPPED;
        }
        if (block.n_runnable == 0) {
            violate("all threads wait for each other");
        } else if (turn == block.options.turns_max) {
            violate("the launch does not end");
        } else {
            block.now_ns++;
            block.current = draw();
            switch_enter(&block.home, &block.fibers[block.current].at);
            block.current = FIBER_HOST;
        }
    }
    return block.has_violation ? FIBER_VIOLATION : FIBER_ENDED;
}

/* ---- Barriers ---- */

uint32_t cell_block_thread(void)
{
    return block.current;
}

static void open_barrier(uint32_t number)
{
    struct barrier *barrier = &block.barriers[number];
    for (uint32_t thread = 0; thread < block.options.n_threads; thread++) {
        struct fiber *fiber = &block.fibers[thread];
        if (fiber->state == AT_BARRIER && fiber->barrier == number) {
            fiber_clock_join(fiber_clock_of(thread), &barrier->clock);
            set_runnable(thread);
        }
    }
    memset(barrier, 0, sizeof(*barrier));
}

/* Whether this thread was the last. */
static bool come_to(uint32_t number, uint32_t threads)
{
    struct barrier *barrier = &block.barriers[number];
    const uint32_t self = block.current;
    if (barrier->wanted != 0 && barrier->wanted != threads) {
        violate("a barrier is waited at for different numbers of threads");
    }
    if (barrier->has_come[self]) {
        violate("a thread comes to a barrier twice before it opens");
    }
    barrier->wanted = threads;
    barrier->has_come[self] = true;
    fiber_clock_join(&barrier->clock, fiber_clock_of(self));
    fiber_clock_tick(self);
    return ++barrier->come == threads;
}

static bool is_hung(uint32_t number)
{
    const struct fiber_options *options = &block.options;
    return block.current == options->hung_thread && number == options->hung_barrier &&
           ++block.hung_count == options->hung_at;
}

void cell_block_sync(uint32_t site, uint32_t number, uint32_t threads)
{
    if (site == block.options.gone_site) {
        give_way();
        return;
    }
    if (is_hung(number)) {
        wait_as(HUNG);
    }
    if (come_to(number, threads)) {
        fiber_clock_join(fiber_clock_of(block.current), &block.barriers[number].clock);
        open_barrier(number);
        give_way();
    } else {
        block.fibers[block.current].barrier = number;
        wait_as(AT_BARRIER);
    }
}

void cell_block_arrive(uint32_t site, uint32_t number, uint32_t threads)
{
    if (site != block.options.gone_site && come_to(number, threads)) {
        open_barrier(number);
    }
    give_way();
}

/* ---- Warps ---- */

static void order_warp(uint32_t first)
{
    struct fiber_clock all = *fiber_clock_of(first);
    for (uint32_t i = 1; i < CELL_WARP; i++) {
        fiber_clock_join(&all, fiber_clock_of(first + i));
    }
    for (uint32_t i = 0; i < CELL_WARP; i++) {
        *fiber_clock_of(first + i) = all;
        fiber_clock_tick(first + i);
    }
}

static float half(uint32_t pair, uint32_t upper)
{
    return cell_bf16_widen((uint16_t)(upper != 0 ? pair >> 16 : pair));
}

/* Products of bf16 are exact in double, and so are sums of 16 of them but for the last bits: one
 * rounding to float, where the unit's own order may have several. */
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

static void hold(struct fiber *warp, uint32_t first, enum meeting meeting)
{
    float sums[CELL_WARP][4];
    bool is_all = true;
    for (uint32_t i = 0; i < CELL_WARP; i++) {
        is_all = is_all && warp[i].value != 0;
    }
    for (uint32_t i = 0; i < CELL_WARP; i++) {
        if (meeting == MMA) {
            multiply(warp, i, sums[i]);
        }
        warp[i].result = meeting == SHFL ? warp[warp[i].from % CELL_WARP].value : is_all;
    }
    for (uint32_t i = 0; i < CELL_WARP && meeting == MMA; i++) {
        memcpy(warp[i].sums, sums[i], sizeof(sums[i]));
    }
    if (meeting == SYNC) {
        order_warp(first);
    }
}

/* Waits for the other threads of the warp; they must come to the same function. */
static void meet(enum meeting meeting, uint32_t site)
{
    const uint32_t first = block.current / CELL_WARP * CELL_WARP;
    struct warp *warp = &block.warps[block.current / CELL_WARP];
    if (warp->come > 0 && (warp->meeting != meeting || warp->site != site)) {
        violate("threads of a warp are at different functions");
    }
    warp->meeting = meeting;
    warp->site = site;
    if (++warp->come < CELL_WARP) {
        wait_as(AT_WARP);
        return;
    }
    warp->come = 0;
    hold(&block.fibers[first], first, meeting);
    for (uint32_t thread = first; thread < first + CELL_WARP; thread++) {
        if (thread != block.current) {
            set_runnable(thread);
        }
    }
    give_way();
}

void cell_warp_sync(uint32_t site)
{
    if (site != block.options.gone_site) {
        meet(SYNC, site);
    }
}

uint32_t cell_warp_shfl(uint32_t value, uint32_t from)
{
    struct fiber *self = &block.fibers[block.current];
    self->value = value;
    self->from = from;
    meet(SHFL, 0);
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
    struct fiber *self = &block.fibers[block.current];
    self->value = is_so;
    meet(ALL, 0);
    return self->result != 0;
}

void cell_warp_mma(float sums[4], const uint32_t a[4], const uint32_t b[2])
{
    struct fiber *self = &block.fibers[block.current];
    memcpy(self->sums, sums, sizeof(self->sums));
    memcpy(self->a, a, sizeof(self->a));
    memcpy(self->b, b, sizeof(self->b));
    meet(MMA, 0);
    memcpy(sums, self->sums, sizeof(self->sums));
}

/* ---- Memory and time ---- */

static void touch(uint32_t thread, const void *at, size_t bytes, bool is_write)
{
    char why[FIBER_TEXT];
    if (!fiber_order_touch(thread, at, bytes, is_write, why)) {
        violate(why);
    }
}

void cell_block_touch(const void *at, uint32_t bytes, bool is_write)
{
    touch(block.current, at, bytes, is_write);
}

void fiber_host_touch(const void *at, size_t bytes, bool is_write)
{
    touch(FIBER_HOST, at, bytes, is_write);
}

void cell_block_prefetch(const void *at)
{
    (void)at;
}

/* Words are not data, but whoever wrote them as data before has to be ordered. */
uint64_t cell_block_word_load(uint32_t site, const uint64_t *word, enum cell_lane_order order)
{
    give_way();
    touch(block.current, word, sizeof(*word), false);
    fiber_order_word(block.current, word,
                     site == block.options.gone_site ? CELL_LANE_RELAXED : order, false);
    return *word;
}

void cell_block_word_store(uint32_t site, uint64_t *word, uint64_t value,
                           enum cell_lane_order order)
{
    give_way();
    touch(block.current, word, sizeof(*word), false);
    fiber_order_word(block.current, word,
                     site == block.options.gone_site ? CELL_LANE_RELAXED : order, true);
    *word = value;
}

/* The contract's accesses: first its site, then the word and the order that stands there. */
void cell_lane_trace(enum cell_lane_site site)
{
    block.lane_site = (int)site;
}

void cell_word_trace(const void *word, enum cell_lane_order order, bool is_store)
{
    const bool is_relaxed = block.lane_site == block.options.relaxed_site;
    if (block.current != FIBER_HOST) {
        give_way();
        fiber_order_note(block.current, word, sizeof(uint32_t), is_store);
    }
    fiber_order_word(block.current, word, is_relaxed ? CELL_LANE_RELAXED : order, is_store);
}

uint64_t cell_block_clock_ns(void)
{
    give_way();
    block.now_ns += LOOK_NS;
    return block.now_ns;
}

void cell_block_sleep(uint32_t ns)
{
    block.now_ns += ns;
    give_way();
}
