/* Changing fibers: what both emulators of a thread block (fiber.c, live.c) do it by. Included
 * before any other header.
 *
 * swapcontext() asks the system for the mask of signals each time; so, once a fiber has begun, it
 * is left and entered by jumps. ASan and TSan have to be told, and do not know such jumps. All
 * fibers of a home are one thread's, which is in one of them or at home; they are prepared by it.
 */
#ifndef TESTS_CUDA_SWITCH_H
#define TESTS_CUDA_SWITCH_H

#undef _FORTIFY_SOURCE // it takes a jump to another stack for a mistake

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>

#if defined(__has_feature)
#    define SWITCH_HAS_FEATURE(feature) __has_feature(feature)
#else
#    define SWITCH_HAS_FEATURE(feature) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || SWITCH_HAS_FEATURE(address_sanitizer)
#    define SWITCH_HAS_ASAN 1
#    define SWITCH_HAS_TSAN 0
#    include <sanitizer/common_interface_defs.h>
#elif defined(__SANITIZE_THREAD__) || SWITCH_HAS_FEATURE(thread_sanitizer)
#    define SWITCH_HAS_ASAN 0
#    define SWITCH_HAS_TSAN 1
#    include <sanitizer/tsan_interface.h>
#else
#    define SWITCH_HAS_ASAN 0
#    define SWITCH_HAS_TSAN 0
#endif
#define SWITCH_JUMPS (!SWITCH_HAS_ASAN && !SWITCH_HAS_TSAN)

#define SWITCH_STACK_BYTES ((size_t)1 << 16)

struct switch_fiber {
    ucontext_t context;
    uint8_t *stack; /* SWITCH_STACK_BYTES, the owner's */
#if SWITCH_JUMPS
    jmp_buf jump;
    bool has_begun;
#elif SWITCH_HAS_TSAN
    void *tsan; /* what it knows of the fiber; NULL: never prepared */
#endif
};

/* The scheduler, on the thread's own stack. */
struct switch_home {
#if SWITCH_JUMPS
    jmp_buf jump;
#else
    ucontext_t context;
#endif
#if SWITCH_HAS_ASAN
    const void *bottom; /* of its stack */
    size_t bytes;
#elif SWITCH_HAS_TSAN
    void *tsan;
#endif
};

/* Of a fiber that is not entered any more, or zeroed. */
static inline void switch_release(struct switch_fiber *fiber)
{
#if SWITCH_HAS_TSAN
    if (fiber->tsan != NULL) {
        __tsan_destroy_fiber(fiber->tsan);
    }
    fiber->tsan = NULL;
#else
    (void)fiber;
#endif
}

/* The fiber begins with main() when it is entered; its stack is there. False: the system refuses.
 * Ended with switch_release(). */
static inline bool switch_prepare(struct switch_fiber *fiber, void (*main)(void))
{
    if (getcontext(&fiber->context) != 0) {
        return false;
    }
    fiber->context.uc_stack.ss_sp = fiber->stack;
    fiber->context.uc_stack.ss_size = SWITCH_STACK_BYTES;
    fiber->context.uc_link = NULL;
    makecontext(&fiber->context, main, 0);
#if SWITCH_JUMPS
    fiber->has_begun = false;
#elif SWITCH_HAS_TSAN
    switch_release(fiber);
    fiber->tsan = __tsan_create_fiber(0);
#endif
    return true;
}

/* switch_enter: from home; returns when the fiber leaves. switch_begun: first of all in main().
 * switch_leave: from the fiber; returns when it is entered again. switch_end: for the last time. */
#if SWITCH_HAS_ASAN
static inline void switch_enter(struct switch_home *home, struct switch_fiber *fiber)
{
    void *fake = NULL;
    __sanitizer_start_switch_fiber(&fake, fiber->stack, SWITCH_STACK_BYTES);
    (void)swapcontext(&home->context, &fiber->context);
    __sanitizer_finish_switch_fiber(fake, NULL, NULL);
}

static inline void switch_begun(struct switch_home *home)
{
    __sanitizer_finish_switch_fiber(NULL, &home->bottom, &home->bytes);
}

static inline void switch_leave(struct switch_home *home, struct switch_fiber *fiber)
{
    void *fake = NULL;
    __sanitizer_start_switch_fiber(&fake, home->bottom, home->bytes);
    (void)swapcontext(&fiber->context, &home->context);
    __sanitizer_finish_switch_fiber(fake, NULL, NULL);
}

/* The stack that ASan keeps for what a function may still point to, some hundred KiB a fiber, ends
 * with it: a block has as many fibers as threads each time that it runs. */
static inline void switch_end(struct switch_home *home, struct switch_fiber *fiber)
{
    __sanitizer_start_switch_fiber(NULL, home->bottom, home->bytes);
    (void)swapcontext(&fiber->context, &home->context);
}
#elif SWITCH_HAS_TSAN
static inline void switch_enter(struct switch_home *home, struct switch_fiber *fiber)
{
    home->tsan = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(fiber->tsan, 0);
    (void)swapcontext(&home->context, &fiber->context);
}

static inline void switch_begun(const struct switch_home *home)
{
    (void)home;
}

static inline void switch_leave(struct switch_home *home, struct switch_fiber *fiber)
{
    __tsan_switch_to_fiber(home->tsan, 0);
    (void)swapcontext(&fiber->context, &home->context);
}
#else
static inline void switch_enter(struct switch_home *home, struct switch_fiber *fiber)
{
    if (_setjmp(home->jump) != 0) {
        return;
    }
    if (fiber->has_begun) {
        _longjmp(fiber->jump, 1);
    }
    fiber->has_begun = true;
    (void)setcontext(&fiber->context);
}

static inline void switch_begun(const struct switch_home *home)
{
    (void)home;
}

static inline void switch_leave(struct switch_home *home, struct switch_fiber *fiber)
{
    if (_setjmp(fiber->jump) == 0) {
        _longjmp(home->jump, 1);
    }
}
#endif

#if !SWITCH_HAS_ASAN
static inline void switch_end(struct switch_home *home, struct switch_fiber *fiber)
{
    switch_leave(home, fiber);
}
#endif

#endif
