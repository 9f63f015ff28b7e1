/* The arena: alignment, zeroing, the budget, what reset keeps, and what ASan sees of it. */
#include "base/arena.h"

#include "base/mem.h"
#include "tests/util.h"

#include <string.h>

enum { CHUNK = 4096 };

static struct base_arena arena;

static void setup(void)
{
    base_arena_init(&arena, CHUNK, 4 * (size_t)CHUNK);
}

static void teardown(void)
{
    base_arena_release(&arena);
}

static bool is_zero(const char *memory, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        if (memory[i] != 0) {
            return false;
        }
    }
    return true;
}

START_TEST(test_init_takes_no_memory)
{
    uint64_t before = base_alloc_count();
    struct base_arena other;
    base_arena_init(&other, 256, 256);
    ck_assert_uint_eq(other.used_bytes, 0);
    ck_assert_uint_eq(base_alloc_count(), before);
    base_arena_reset(&other);
    base_arena_release(&other);
}
END_TEST

START_TEST(test_alloc_is_aligned_and_zeroed)
{
    for (size_t bytes = 1; bytes < 100; bytes += 7) {
        char *plain = base_arena_alloc(&arena, bytes);
        char *wide = base_arena_alloc_aligned64(&arena, bytes);
        ck_assert_ptr_nonnull(plain);
        ck_assert_ptr_nonnull(wide);
        ck_assert_uint_eq((uintptr_t)plain % 16, 0);
        ck_assert_uint_eq((uintptr_t)wide % 64, 0);
        ck_assert(is_zero(plain, bytes));
        ck_assert(is_zero(wide, bytes));
        memset(plain, 0xAA, bytes);
        memset(wide, 0xBB, bytes);
    }
}
END_TEST

START_TEST(test_alloc_of_nothing_is_unique)
{
    void *a = base_arena_alloc(&arena, 0);
    void *b = base_arena_array(&arena, 0, 8);
    void *c = base_arena_alloc_aligned64(&arena, 0);
    ck_assert_ptr_nonnull(a);
    ck_assert_ptr_nonnull(b);
    ck_assert_ptr_nonnull(c);
    ck_assert_ptr_ne(a, b);
    ck_assert_ptr_ne(b, c);
}
END_TEST

/* Random sizes, each filled with its own byte, none of which another may change. */
START_TEST(test_allocations_do_not_overlap)
{
    enum { COUNT = 60 };
    struct base_random random = util_random(1);
    unsigned char *memory[COUNT];
    uint32_t bytes[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) {
        bytes[i] = base_random_below(&random, 200);
        memory[i] = i % 3 == 0 ? base_arena_alloc_aligned64(&arena, bytes[i])
                               : base_arena_alloc(&arena, bytes[i]);
        ck_assert_ptr_nonnull(memory[i]);
        memset(memory[i], (int)i + 1, bytes[i]);
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        for (uint32_t k = 0; k < bytes[i]; k++) {
            ck_assert_uint_eq(memory[i][k], i + 1);
        }
    }
}
END_TEST

START_TEST(test_budget_bounds_the_sum_of_chunks)
{
    uint32_t got = 0;
    while (base_arena_alloc(&arena, 1000) != NULL) {
        got++;
        ck_assert_uint_le(arena.used_bytes, arena.budget_bytes);
    }
    ck_assert_uint_ge(got, 12); // three a chunk and more
    ck_assert_uint_le(got, 16);
    ck_assert_uint_eq(arena.used_bytes, arena.budget_bytes);
    ck_assert_ptr_null(base_arena_alloc_aligned64(&arena, 1000));
    ck_assert_ptr_nonnull(base_arena_alloc(&arena, 16)); // what is left may still be used
}
END_TEST

START_TEST(test_last_chunk_takes_what_the_budget_leaves)
{
    struct base_arena other;
    base_arena_init(&other, 1024, 1024 + 512);
    ck_assert_ptr_nonnull(base_arena_alloc(&other, 900));
    ck_assert_ptr_nonnull(base_arena_alloc(&other, 400));
    ck_assert_uint_eq(other.used_bytes, 1024 + 512);
    ck_assert_ptr_null(base_arena_alloc(&other, 400));
    base_arena_release(&other);
}
END_TEST

START_TEST(test_large_allocation_leaves_the_current_chunk_in_use)
{
    ck_assert_ptr_nonnull(base_arena_alloc(&arena, 16));
    struct base_arena_chunk *first = arena.first;
    ck_assert_ptr_nonnull(base_arena_alloc(&arena, 2 * (size_t)CHUNK));
    ck_assert_ptr_eq(arena.first, first);
    size_t used = arena.used_bytes;
    ck_assert_ptr_nonnull(base_arena_alloc(&arena, CHUNK / 2));
    ck_assert_uint_eq(arena.used_bytes, used);
}
END_TEST

START_TEST(test_large_allocation_may_come_first)
{
    char *memory = base_arena_alloc_aligned64(&arena, 2 * (size_t)CHUNK);
    ck_assert_ptr_nonnull(memory);
    ck_assert_uint_eq((uintptr_t)memory % 64, 0);
    memset(memory, 1, 2 * (size_t)CHUNK);
    ck_assert_ptr_nonnull(base_arena_alloc(&arena, 16));
}
END_TEST

START_TEST(test_impossible_sizes_are_refused)
{
    ck_assert_ptr_null(base_arena_alloc(&arena, SIZE_MAX));
    ck_assert_ptr_null(base_arena_alloc(&arena, SIZE_MAX - 40));
    ck_assert_ptr_null(base_arena_alloc_aligned64(&arena, SIZE_MAX - 20));
    ck_assert_ptr_null(base_arena_array(&arena, SIZE_MAX / 2, 3));
    ck_assert_ptr_null(base_arena_text(&arena, "x", SIZE_MAX));
    ck_assert_uint_eq(arena.used_bytes, 0);
    ck_assert_ptr_nonnull(base_arena_alloc(&arena, 1));
}
END_TEST

START_TEST(test_text_is_copied_with_its_end)
{
    const char source[] = {'a', '\0', 'b', 'X'};
    const char *copy = base_arena_text(&arena, source, 3);
    ck_assert_ptr_nonnull(copy);
    ck_assert_mem_eq(copy, "a\0b", 4);
    const char *empty = base_arena_text(&arena, NULL, 0);
    ck_assert_ptr_nonnull(empty);
    ck_assert_str_eq(empty, "");
}
END_TEST

START_TEST(test_reset_reuses_one_chunk_and_zeroes_it)
{
    char *before = base_arena_alloc(&arena, 3000);
    memset(before, 0xFF, 3000);
    ck_assert_ptr_nonnull(base_arena_alloc(&arena, 3000));
    ck_assert_ptr_nonnull(base_arena_alloc(&arena, 6000));
    base_arena_reset(&arena);
    ck_assert_uint_eq(arena.used_bytes, CHUNK);

    uint64_t count = base_alloc_count();
    char *small = base_arena_alloc(&arena, 100);
    ck_assert(is_zero(small, 100));
    memset(small, 0xEE, 100);
    base_arena_reset(&arena); // the high-water mark of dirt must survive a short use
    char *memory = base_arena_alloc(&arena, 3500);
    ck_assert(is_zero(memory, 3500));
    ck_assert_uint_eq(base_alloc_count(), count);
}
END_TEST

START_TEST(test_reset_drops_chunks_of_unusual_size)
{
    ck_assert_ptr_nonnull(base_arena_alloc(&arena, 2 * (size_t)CHUNK));
    base_arena_reset(&arena);
    ck_assert_uint_eq(arena.used_bytes, 0);
    ck_assert_ptr_null(arena.first);
    ck_assert_ptr_nonnull(base_arena_alloc(&arena, 10));
}
END_TEST

START_TEST(test_out_of_memory_is_null_and_recoverable)
{
    base_alloc_fail_at(1);
    ck_assert_ptr_null(base_arena_alloc(&arena, 10));
    ck_assert_uint_eq(arena.used_bytes, 0);
    char *first = base_arena_alloc(&arena, 3000);
    ck_assert_ptr_nonnull(first);
    base_alloc_fail_at(1);
    ck_assert_ptr_null(base_arena_text(&arena, first, 3000));
    ck_assert_ptr_nonnull(base_arena_text(&arena, first, 3000));
}
END_TEST

static void init_with(void *argument)
{
    const size_t *sizes = argument;
    struct base_arena other;
    base_arena_init(&other, sizes[0], sizes[1]);
}

START_TEST(test_init_refuses_useless_sizes)
{
    ck_assert(util_aborts(init_with, (size_t[]){255, 4096}));
    ck_assert(util_aborts(init_with, (size_t[]){4096, 4095}));
    ck_assert(!util_aborts(init_with, (size_t[]){256, 256}));
}
END_TEST

#ifdef __SANITIZE_ADDRESS__
#    include <sanitizer/asan_interface.h>
START_TEST(test_asan_sees_overruns_and_use_after_reset)
{
    char *a = base_arena_alloc(&arena, 32);
    char *b = base_arena_alloc(&arena, 32);
    ck_assert(!__asan_address_is_poisoned(a + 31));
    ck_assert(__asan_address_is_poisoned(a + 32));
    ck_assert(__asan_address_is_poisoned(b + 32));
    base_arena_reset(&arena);
    ck_assert(__asan_address_is_poisoned(a));
}
END_TEST
#endif

int main(void)
{
    Suite *suite = suite_create("arena");
    TCase *tcase = tcase_create("arena");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_init_takes_no_memory);
    tcase_add_test(tcase, test_alloc_is_aligned_and_zeroed);
    tcase_add_test(tcase, test_alloc_of_nothing_is_unique);
    tcase_add_test(tcase, test_allocations_do_not_overlap);
    tcase_add_test(tcase, test_budget_bounds_the_sum_of_chunks);
    tcase_add_test(tcase, test_last_chunk_takes_what_the_budget_leaves);
    tcase_add_test(tcase, test_large_allocation_leaves_the_current_chunk_in_use);
    tcase_add_test(tcase, test_large_allocation_may_come_first);
    tcase_add_test(tcase, test_impossible_sizes_are_refused);
    tcase_add_test(tcase, test_text_is_copied_with_its_end);
    tcase_add_test(tcase, test_reset_reuses_one_chunk_and_zeroes_it);
    tcase_add_test(tcase, test_reset_drops_chunks_of_unusual_size);
    tcase_add_test(tcase, test_out_of_memory_is_null_and_recoverable);
    tcase_add_test(tcase, test_init_refuses_useless_sizes);
#ifdef __SANITIZE_ADDRESS__
    tcase_add_test(tcase, test_asan_sees_overruns_and_use_after_reset);
#endif
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
