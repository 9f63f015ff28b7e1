/* The content hash: published values, and that streaming in any pieces gives the same. */
#include "base/hash.h"

#include "base/mem.h"
#include "tests/util.h"

START_TEST(test_hash_of_nothing_is_the_published_one)
{
    struct base_hash hash = base_hash_bytes(NULL, 0);
    ck_assert_uint_eq(hash.high, 0x99aa06d3014798d8u);
    ck_assert_uint_eq(hash.low, 0x6001c324468d497fu);
}
END_TEST

START_TEST(test_stream_in_any_pieces_equals_one_shot)
{
    static unsigned char bytes[5000];
    struct base_random random = util_random(3);
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (unsigned char)base_random_below(&random, 256);
    }
    for (int round = 0; round < 50; round++) {
        size_t length = base_random_below(&random, sizeof(bytes) + 1);
        struct base_hasher *hasher = base_hasher_create();
        ck_assert_ptr_nonnull(hasher);
        for (size_t done = 0; done < length;) {
            size_t piece = base_random_below(&random, (uint32_t)(length - done) + 1);
            base_hasher_add(hasher, bytes + done, piece);
            done += piece;
        }
        struct base_hash whole = base_hash_bytes(bytes, length);
        ck_assert(base_hash_equal(base_hasher_digest(hasher), whole));
        ck_assert(base_hash_equal(base_hasher_digest(hasher), whole)); // may be asked again
        base_hasher_free(hasher);
    }
}
END_TEST

START_TEST(test_digest_does_not_end_the_stream)
{
    struct base_hasher *hasher = base_hasher_create();
    ck_assert_ptr_nonnull(hasher);
    base_hasher_add(hasher, NULL, 0);
    ck_assert(base_hash_equal(base_hasher_digest(hasher), base_hash_bytes("", 0)));
    base_hasher_add(hasher, "ab", 2);
    ck_assert(base_hash_equal(base_hasher_digest(hasher), base_hash_bytes("ab", 2)));
    base_hasher_add(hasher, "c", 1);
    ck_assert(base_hash_equal(base_hasher_digest(hasher), base_hash_bytes("abc", 3)));
    base_hasher_free(hasher);
}
END_TEST

START_TEST(test_equal_compares_both_halves)
{
    struct base_hash a = {1, 2};
    ck_assert(base_hash_equal(a, (struct base_hash){1, 2}));
    ck_assert(!base_hash_equal(a, (struct base_hash){1, 3}));
    ck_assert(!base_hash_equal(a, (struct base_hash){3, 2}));
}
END_TEST

START_TEST(test_create_without_memory_is_null)
{
    base_alloc_fail_at(1);
    ck_assert_ptr_null(base_hasher_create());
    base_hasher_free(NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("hash");
    TCase *tcase = tcase_create("hash");
    tcase_add_test(tcase, test_hash_of_nothing_is_the_published_one);
    tcase_add_test(tcase, test_stream_in_any_pieces_equals_one_shot);
    tcase_add_test(tcase, test_digest_does_not_end_the_stream);
    tcase_add_test(tcase, test_equal_compares_both_halves);
    tcase_add_test(tcase, test_create_without_memory_is_null);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
