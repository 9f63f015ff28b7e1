/* The command line: what is taken, what is refused and in which words. */
#include "loadgen/options.h"

#include "loadgen/number.h"
#include "loadgen/payload.h"
#include "tests/util.h"

#include <check.h>
#include <string.h>

#define ARGS_MAX 12

static struct lg_options options;
static struct base_error error;

/* Parses words separated by blanks. */
static enum base_status parse(const char *words)
{
    static char text[512];
    char *argv[ARGS_MAX] = {text};
    int argc = 1;
    ck_assert_uint_lt(strlen(words), sizeof(text));
    memcpy(text, words, strlen(words) + 1);
    char *rest = text;
    for (char *word = strsep(&rest, " "); word != NULL; word = strsep(&rest, " ")) {
        ck_assert_int_lt(argc, ARGS_MAX);
        argv[argc++] = word;
    }
    return lg_options_parse(argc, argv, &options, &error);
}

static void assert_refused(const char *words, const char *part)
{
    ck_assert_msg(parse(words) == BASE_INVALID_ARGUMENT, "%s was not refused", words);
    ck_assert_msg(strstr(error.message, part) != NULL, "%s: %s does not say %s", words,
                  error.message, part);
}

START_TEST(test_options_defaults_are_the_documented_ones)
{
    ck_assert_int_eq(parse("--rate 100"), BASE_OK);
    ck_assert_str_eq(options.target, "127.0.0.1:8001");
    ck_assert_str_eq(options.model, "langid");
    ck_assert_str_eq(options.lengths, "fixed:32");
    ck_assert_int_eq(options.mode, LG_MODE_OPEN);
    ck_assert_uint_eq(options.rate_count, 1);
    ck_assert_uint_eq(options.vocab, LG_VOCAB_OF_MODEL);
    ck_assert_uint_eq(options.seed, 1);
    util_assert_close(options.duration_s, 10, 0, 0);
}
END_TEST

START_TEST(test_options_value_follows_or_is_joined)
{
    ck_assert_int_eq(parse("--concurrency 64 --target=host:1 --seed=7"), BASE_OK);
    ck_assert_int_eq(options.mode, LG_MODE_CLOSED);
    ck_assert_uint_eq(options.concurrency, 64);
    ck_assert_str_eq(options.target, "host:1");
    ck_assert_uint_eq(options.seed, 7);
}
END_TEST

START_TEST(test_options_rates_and_sweep_make_points)
{
    ck_assert_int_eq(parse("--rates 1,20.5,3e2"), BASE_OK);
    ck_assert_uint_eq(options.rate_count, 3);
    util_assert_close(options.rates[1], 20.5, 0, 0);
    util_assert_close(options.rates[2], 300, 0, 0);
    ck_assert_int_eq(parse("--sweep 100:500:5"), BASE_OK);
    ck_assert_uint_eq(options.rate_count, 5);
    for (uint32_t i = 0; i < 5; i++) {
        util_assert_close(options.rates[i], 100.0 * (i + 1), 1e-9, 0);
    }
}
END_TEST

START_TEST(test_options_ask_may_repeat)
{
    ck_assert_int_eq(parse("--ask a --ask b"), BASE_OK);
    ck_assert_int_eq(options.mode, LG_MODE_ASK);
    ck_assert_uint_eq(options.ask_count, 2);
    ck_assert_str_eq(options.asks[1], "b");
}
END_TEST

START_TEST(test_options_help_and_wait_need_no_load)
{
    ck_assert_int_eq(parse("--help"), BASE_OK);
    ck_assert(options.help);
    ck_assert_int_eq(parse("--version"), BASE_OK);
    ck_assert_int_eq(parse("--wait-ready 2"), BASE_OK);
    ck_assert_int_eq(options.mode, LG_MODE_NONE);
}
END_TEST

START_TEST(test_options_wrong_ones_are_named)
{
    assert_refused("--rate", "--rate");
    assert_refused("--rate x", "'x'");
    assert_refused("--rate -1", "--rate");
    assert_refused("--rate 0", "--rate");
    assert_refused("--rate 1,2", "--rates");
    assert_refused("--rates 1,,2", "--rates");
    assert_refused("--sweep 5:1:3", "--sweep");
    assert_refused("--sweep 1:5", "--sweep");
    assert_refused("--sweep 1:5:1", "--sweep");
    assert_refused("--sweep 1:5:3:4", "--sweep");
    assert_refused("--concurrency 0", "--concurrency");
    assert_refused("--concurrency 4.5", "--concurrency");
    assert_refused("--connections 257", "--connections");
    assert_refused("--rate 1 --seed -3", "--seed");
    assert_refused("--rate 1 --cancel-fraction 1.5", "--cancel-fraction");
    assert_refused("--rate 1 --duration nan", "--duration");
    assert_refused("--rate 1 --duration 0x10", "--duration");
    assert_refused("--rate 1 --nonsense 2", "--nonsense");
    assert_refused("--rate 1 extra", "'extra'");
    assert_refused("--json=1 --rate 1", "--json");
    assert_refused("--rate 1 --rate 2", "twice");
    assert_refused("--rate 1 --concurrency 2", "one of");
    assert_refused("--rate 1 --duration 1 --requests 5", "one of");
    assert_refused("--rate 1 --text f --lengths fixed:3", "one of");
    assert_refused("--rate 1 --text f --batch 2", "--batch");
    assert_refused("--seed 3", "nothing to do");
    assert_refused("--rate 3 --sequence-length 5", "--sequence-length needs --concurrency");
    assert_refused("--concurrency 3 --sequence-length 5 --stream", "cannot both be");
    assert_refused("--rate 3 --tls-cert-file c", "need each other");
    assert_refused("--rate 3 --tls-ca-file c --tls-key-file k", "need each other");
}
END_TEST

START_TEST(test_number_takes_the_whole_word_only)
{
    uint64_t whole = 0;
    double real = 0;
    ck_assert(lg_number_u64("0", 1, 5, &whole));
    ck_assert(lg_number_u64("18446744073709551615", 20, UINT64_MAX, &whole));
    ck_assert_uint_eq(whole, UINT64_MAX);
    ck_assert(!lg_number_u64("18446744073709551616", 20, UINT64_MAX, &whole));
    ck_assert(!lg_number_u64("6", 1, 5, &whole));
    ck_assert(!lg_number_u64("", 0, 5, &whole));
    ck_assert(!lg_number_u64(" 1", 2, 5, &whole));
    ck_assert(lg_number_f64("1e3", 0, 1e4, &real));
    util_assert_close(real, 1000, 0, 0);
    ck_assert(!lg_number_f64("", 0, 1, &real));
    ck_assert(!lg_number_f64("1 ", 0, 1, &real));
    ck_assert(!lg_number_f64("1e999", 0, 1e308, &real));
    ck_assert(!lg_number_f64("inf", 0, 1, &real));
    ck_assert(!lg_number_f64("-", -1, 1, &real));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("options");
    TCase *tcase = tcase_create("flags");
    tcase_add_test(tcase, test_options_defaults_are_the_documented_ones);
    tcase_add_test(tcase, test_options_value_follows_or_is_joined);
    tcase_add_test(tcase, test_options_rates_and_sweep_make_points);
    tcase_add_test(tcase, test_options_ask_may_repeat);
    tcase_add_test(tcase, test_options_help_and_wait_need_no_load);
    tcase_add_test(tcase, test_options_wrong_ones_are_named);
    tcase_add_test(tcase, test_number_takes_the_whole_word_only);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
