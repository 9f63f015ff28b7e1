/* The parts of gRPC that need no connection: codes, time-outs, words, the message prefix. */
#include "loadgen/grpc_wire.h"

#include "base/clock.h"
#include "tests/util.h"

#include <check.h>
#include <string.h>

START_TEST(test_code_names_cover_all_slots)
{
    ck_assert_str_eq(lg_code_name(LG_CODE_OK), "OK");
    ck_assert_str_eq(lg_code_name(LG_CODE_UNAUTHENTICATED), "UNAUTHENTICATED");
    ck_assert_str_eq(lg_code_name(lg_code_slot(17)), "OTHER");
    ck_assert_str_eq(lg_code_name(lg_code_slot(UINT32_MAX)), "OTHER");
    ck_assert_str_eq(lg_code_name(UINT32_MAX), "OTHER");
}
END_TEST

START_TEST(test_timeout_has_eight_digits_and_rounds_up)
{
    static const struct {
        uint64_t ns;
        const char *text;
    } cases[] = {
        {1, "1n"},
        {99999999, "99999999n"},
        {100000000, "100000u"},
        {100000001, "100001u"},
        {5 * BASE_NS_PER_S, "5000000u"},
        {100 * BASE_NS_PER_S, "100000m"},
        {1000000 * BASE_NS_PER_S, "1000000S"},
        {UINT64_MAX, "99999999S"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[LG_TIMEOUT_BYTES];
        ck_assert_uint_eq(lg_wire_timeout(cases[i].ns, text), strlen(cases[i].text));
        ck_assert_str_eq(text, cases[i].text);
    }
}
END_TEST

static bool number(const char *text, uint32_t *out)
{
    return lg_wire_number((const uint8_t *)text, strlen(text), out);
}

START_TEST(test_number_is_digits_only)
{
    uint32_t value = 7;
    ck_assert(number("0", &value));
    ck_assert_uint_eq(value, 0);
    ck_assert(number("999999999", &value));
    ck_assert_uint_eq(value, 999999999);
    ck_assert(!number("", &value));
    ck_assert(!number("1234567890", &value));
    ck_assert(!number("+1", &value));
    ck_assert(!number("1 ", &value));
}
END_TEST

static void assert_words(const char *text, bool decode, size_t bytes, const char *want)
{
    char out[32];
    lg_wire_words((const uint8_t *)text, strlen(text), decode, out, bytes);
    ck_assert_str_eq(out, want);
}

START_TEST(test_words_are_decoded_and_fit_for_a_terminal)
{
    assert_words("a%20b", true, 32, "a b");
    assert_words("a%20b", false, 32, "a%20b");
    assert_words("%e2%82%ac", true, 32, "\xe2\x82\xac"); // a euro sign stays
    assert_words("%", true, 32, "%");
    assert_words("%2", true, 32, "%2");
    assert_words("%%41", true, 32, "%A");
    assert_words("%1b[2J\x7f\r\n", true, 32, "?[2J???");
    assert_words("\xc2\x9b", false, 32, "\xc2?"); // a control character of the upper half
    assert_words("abcdef", true, 4, "abc");
    assert_words("abc", true, 1, "");
}
END_TEST

START_TEST(test_reader_takes_pieces_of_any_size)
{
    uint8_t bytes[LG_PREFIX_BYTES + 300];
    lg_wire_prefix(300, bytes);
    memset(bytes + LG_PREFIX_BYTES, 'm', 300);
    struct base_random random = util_random(1);
    for (uint32_t round = 0; round < 200; round++) {
        struct lg_reader reader = {0};
        size_t message_bytes = 0;
        for (size_t at = 0; at < sizeof(bytes);) {
            ck_assert(!lg_reader_is_whole(&reader));
            size_t piece = 1 + base_random_below(&random, (uint32_t)(sizeof(bytes) - at));
            size_t taken = 0;
            enum lg_piece kind = lg_reader_take(&reader, bytes + at, piece, &taken);
            ck_assert_int_eq(kind, at < LG_PREFIX_BYTES ? LG_PIECE_PREFIX : LG_PIECE_MESSAGE);
            ck_assert_uint_gt(taken, 0);
            message_bytes += kind == LG_PIECE_MESSAGE ? taken : 0;
            at += taken;
        }
        ck_assert(lg_reader_is_whole(&reader));
        ck_assert_uint_eq(message_bytes, 300);
        size_t taken = 0;
        ck_assert_int_eq(lg_reader_take(&reader, bytes, 1, &taken), LG_PIECE_TOO_MUCH);
    }
}
END_TEST

START_TEST(test_reader_sees_a_compressed_message_at_its_first_byte)
{
    struct lg_reader reader = {0};
    size_t taken = 0;
    ck_assert_int_eq(lg_reader_take(&reader, (const uint8_t *)"\1", 1, &taken),
                     LG_PIECE_COMPRESSED);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("grpc_wire");
    TCase *tcase = tcase_create("bytes");
    tcase_add_test(tcase, test_code_names_cover_all_slots);
    tcase_add_test(tcase, test_timeout_has_eight_digits_and_rounds_up);
    tcase_add_test(tcase, test_number_is_digits_only);
    tcase_add_test(tcase, test_words_are_decoded_and_fit_for_a_terminal);
    tcase_add_test(tcase, test_reader_takes_pieces_of_any_size);
    tcase_add_test(tcase, test_reader_sees_a_compressed_message_at_its_first_byte);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
