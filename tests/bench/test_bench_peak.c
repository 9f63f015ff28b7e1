/* `cellbatch-bench peak`: every rate that the processor has is there. None is compared with a
 * number: that is the machine's. */
#include "base/mem.h"
#include "bench/bench.h"
#include "tests/bench/command.h"
#include "tests/util.h"

#include <stdlib.h>
#include <string.h>

static void check_rates(const json_t *object, const char *of, double above)
{
    json_t *rates = json_object_get(object, of);
    ck_assert_msg(json_is_object(rates), "no %s", of);
    const char *name = NULL;
    json_t *rate = NULL;
    json_object_foreach(rates, name, rate)
    {
        ck_assert_msg(json_number_value(rate) >= above, "%s of %s", of, name);
    }
}

START_TEST(test_all_rates_are_there)
{
    int result = 0;
    char *text = command_run(bench_peak, "peak --ms=1 --json", &result);
    ck_assert_int_eq(result, EXIT_SUCCESS);
    json_t *object = command_json(text, 0);
    check_rates(object, "fma_gflops", 0.0);
    check_rates(object, "read_gbytes", 0.0);
    json_t *tiles = json_object_get(object, "tile_gflops");
    const json_t *bare = json_object_get(object, "fma_gflops");
    const char *isa = NULL;
    json_t *tile = NULL;
    ck_assert_uint_eq(json_object_size(tiles), 2);
    json_object_foreach(tiles, isa, tile)
    {
        // A tile where there are bare multiply-adds, and nowhere else.
        const double best = json_number_value(json_array_get(tile, 0));
        const double mean = json_number_value(json_array_get(tile, 1));
        const bool has_isa = json_number_value(json_object_get(bare, isa)) > 0.0;
        ck_assert_msg((best > 0.0) == has_isa && (mean > 0.0) == has_isa, "%s", isa);
    }
    json_decref(object);
    base_free(text);
}
END_TEST

START_TEST(test_it_tells_people_the_same)
{
    int result = 0;
    char *text = command_run(bench_peak, "peak --ms=1", &result);
    ck_assert_int_eq(result, EXIT_SUCCESS);
    ck_assert_ptr_nonnull(
        strstr(text, "\na tile's multiply-adds, operands from L1 (in the mean):"));
    ck_assert_ptr_nonnull(strstr(text, "\nread, GB/s of one core: 16_KiB "));
    base_free(text);
}
END_TEST

START_TEST(test_other_options_are_refused)
{
    int result = 0;
    base_free(command_run(bench_peak, "peak --fast", &result));
    ck_assert_int_eq(result, 2);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bench_peak");
    TCase *tcase = tcase_create("bench_peak");
    tcase_add_test(tcase, test_all_rates_are_there);
    tcase_add_test(tcase, test_it_tells_people_the_same);
    tcase_add_test(tcase, test_other_options_are_refused);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
