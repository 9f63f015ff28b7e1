/* Assertions: a failed one is a bug of ours, never a user's mistake.
 *
 * base_assert() stays on in release builds (control paths); base_debug_assert() is compiled only
 * into debug and sanitizer builds (inner loops). */
#ifndef BASE_ASSERT_H
#define BASE_ASSERT_H

/* Prints the failed condition and its place to stderr and aborts. */
_Noreturn void base_assert_failed(const char *condition, const char *file, int line);

#define base_assert(cond) ((cond) ? (void)0 : base_assert_failed(#cond, __FILE__, __LINE__))

#ifdef CELLBATCH_DEBUG
#    define base_debug_assert(cond) base_assert(cond)
#else
#    define base_debug_assert(cond) ((void)sizeof(cond))
#endif

#endif
