/* Counted allocation and its failure knob. */
#include "base/mem.h"

#include "tests/util.h"

#include <pthread.h>
#include <string.h>

static bool is_zero(const char *memory, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        if (memory[i] != 0) {
            return false;
        }
    }
    return true;
}

START_TEST(test_memory_is_zeroed)
{
    for (int round = 0; round < 3; round++) { // later rounds get memory that was used
        char *plain = base_alloc(1000);
        char *array = base_alloc_array(10, 100);
        char *aligned = base_alloc_aligned(1000, 64);
        ck_assert(is_zero(plain, 1000));
        ck_assert(is_zero(array, 1000));
        ck_assert(is_zero(aligned, 1000));
        memset(plain, 1, 1000);
        memset(array, 1, 1000);
        memset(aligned, 1, 1000);
        base_free(plain);
        base_free(array);
        base_free(aligned);
    }
}
END_TEST

START_TEST(test_alignment_is_kept)
{
    for (size_t alignment = 1; alignment <= 4096; alignment *= 2) {
        void *memory = base_alloc_aligned(3, alignment);
        ck_assert_ptr_nonnull(memory);
        ck_assert_uint_eq((uintptr_t)memory % alignment, 0);
        base_free(memory);
    }
}
END_TEST

START_TEST(test_large_blocks_lie_on_huge_pages)
{
    const size_t page = (size_t)2 << 20;
    const size_t sizes[] = {
        1,    100,      page / 2 - 1, page / 2, page / 2 + 1, page - 1,
        page, page + 1, 3 * page / 2, 2 * page, 5 * page,     5 * page + page / 2 - 1};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        char *memory = base_alloc_large(sizes[i]);
        ck_assert_ptr_nonnull(memory);
        size_t alignment = sizes[i] < page / 2 ? BASE_CACHE_LINE : page;
        ck_assert_uint_eq((uintptr_t)memory % alignment, 0);
        ck_assert(is_zero(memory, sizes[i]));
        memset(memory, 1, sizes[i]);
        base_free(memory);
    }
}
END_TEST

START_TEST(test_large_blocks_that_cannot_be_are_null)
{
    ck_assert_ptr_null(base_alloc_large(SIZE_MAX));
    ck_assert_ptr_null(base_alloc_large(SIZE_MAX / 2));
    base_alloc_fail_at(1);
    ck_assert_ptr_null(base_alloc_large((size_t)4 << 20));
    base_alloc_fail_at(0);
}
END_TEST

START_TEST(test_array_that_overflows_is_null)
{
    uint64_t before = base_alloc_count();
    ck_assert_ptr_null(base_alloc_array(SIZE_MAX / 4 + 1, 4));
    ck_assert_uint_eq(base_alloc_count(), before);
}
END_TEST

START_TEST(test_realloc_keeps_the_bytes)
{
    char *memory = base_realloc(NULL, 4);
    ck_assert_ptr_nonnull(memory);
    memcpy(memory, "abc", 4);
    char *larger = base_realloc(memory, 10000);
    ck_assert_ptr_nonnull(larger);
    ck_assert_str_eq(larger, "abc");
    base_alloc_fail_at(1);
    ck_assert_ptr_null(base_realloc(larger, 20000));
    ck_assert_str_eq(larger, "abc");
    base_free(larger);
}
END_TEST

START_TEST(test_strdup_copies)
{
    char *copy = base_strdup("text");
    ck_assert_ptr_nonnull(copy);
    ck_assert_str_eq(copy, "text");
    base_free(copy);
    copy = base_strdup("");
    ck_assert_ptr_nonnull(copy);
    ck_assert_str_eq(copy, "");
    base_free(copy);
    base_alloc_fail_at(1);
    ck_assert_ptr_null(base_strdup("text"));
}
END_TEST

START_TEST(test_only_successes_are_counted)
{
    uint64_t before = base_alloc_count();
    void *a = base_alloc(1);
    void *b = base_alloc_aligned(1, 64);
    base_alloc_fail_at(1);
    ck_assert_ptr_null(base_alloc(1));
    ck_assert_uint_eq(base_alloc_count(), before + 2);
    base_free(a);
    base_free(b);
    base_free(NULL);
    ck_assert_uint_eq(base_alloc_count(), before + 2);
}
END_TEST

START_TEST(test_only_the_nth_call_fails)
{
    for (uint64_t n = 1; n <= 5; n++) {
        base_alloc_fail_at(n);
        for (uint64_t call = 1; call <= 8; call++) {
            void *memory = call % 2 == 0 ? base_alloc(8) : base_alloc_aligned(8, 16);
            ck_assert_int_eq(memory == NULL, call == n);
            base_free(memory);
        }
    }
    base_alloc_fail_at(3);
    base_alloc_fail_at(0); // off again
    for (int call = 0; call < 5; call++) {
        void *memory = base_alloc(8);
        ck_assert_ptr_nonnull(memory);
        base_free(memory);
    }
}
END_TEST

static void *allocate_many(void *argument)
{
    _Atomic uint32_t *failures = argument;
    for (int i = 0; i < 5000; i++) {
        void *memory = base_alloc(16);
        if (memory == NULL) {
            (*failures)++;
        }
        base_free(memory);
    }
    return NULL;
}

START_TEST(test_threads_share_the_counters)
{
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    _Atomic uint32_t failures = 0;
    uint64_t before = base_alloc_count();
    base_alloc_fail_at(7000);
    for (int i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, allocate_many, &failures), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    }
    ck_assert_uint_eq(failures, 1);
    ck_assert_uint_eq(base_alloc_count() - before, THREADS * 5000 - 1);
}
END_TEST

static void misuse(void *argument)
{
    const size_t *sizes = argument;
    base_free(base_alloc_aligned(sizes[0], sizes[1]));
}

START_TEST(test_misuse_is_a_bug)
{
    ck_assert(util_aborts(misuse, (size_t[]){0, 16}));
    ck_assert(util_aborts(misuse, (size_t[]){16, 0}));
    ck_assert(util_aborts(misuse, (size_t[]){16, 24}));
    ck_assert(!util_aborts(misuse, (size_t[]){16, 32}));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mem");
    TCase *tcase = tcase_create("mem");
    tcase_add_test(tcase, test_memory_is_zeroed);
    tcase_add_test(tcase, test_alignment_is_kept);
    tcase_add_test(tcase, test_large_blocks_lie_on_huge_pages);
    tcase_add_test(tcase, test_large_blocks_that_cannot_be_are_null);
    tcase_add_test(tcase, test_array_that_overflows_is_null);
    tcase_add_test(tcase, test_realloc_keeps_the_bytes);
    tcase_add_test(tcase, test_strdup_copies);
    tcase_add_test(tcase, test_only_successes_are_counted);
    tcase_add_test(tcase, test_only_the_nth_call_fails);
    tcase_add_test(tcase, test_threads_share_the_counters);
    tcase_add_test(tcase, test_misuse_is_a_bug);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
