/* Calibration without measuring: what follows from given times, files that are whole, damaged or
 * another's, and that no choice changes a bit. */
#include "base/mem.h"
#include "cells/calibration.h"
#include "cells/calibration_file.h"
#include "tests/cells/rig.h"
#include "tests/util.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- The choice ------------------------------------------------------------------------------ */

static uint32_t point_of(uint32_t rows)
{
    uint32_t point = 0;
    while (cell_calibration_rows[point] != rows) {
        point++;
        ck_assert_uint_lt(point, CELL_CALIBRATION_POINTS);
    }
    return point;
}

static uint64_t *time_of(struct cell_calibration *calibration, enum cell_variant variant,
                         uint32_t rows)
{
    return &calibration->step_ns[variant][point_of(rows)];
}

/* A step costs fixed_ns and row_ns a row, with windows as without; its own rule is 6 rows. */
static struct cell_calibration linear(uint64_t fixed_ns, uint64_t row_ns)
{
    struct cell_calibration calibration = {
        .tunable = CELL_TUNABLE_WINDOWS | CELL_TUNABLE_TEAM,
        .own = {.ahead_rows = 6, .solo_rows = 2, .knee_rows = 40},
        .rows_limit = 64};
    for (enum cell_variant v = CELL_VARIANT_PLAIN; v < CELL_VARIANTS; v++) {
        for (uint32_t p = 0; p < CELL_CALIBRATION_POINTS; p++) {
            calibration.step_ns[v][p] = fixed_ns + row_ns * cell_calibration_rows[p];
        }
    }
    return calibration;
}

START_TEST(test_equal_times_change_nothing)
{
    struct cell_calibration calibration = linear(1000, 100);
    struct cell_tuning choice = cell_calibration_choose(&calibration);
    ck_assert_uint_eq(choice.ahead_rows, 6);
    ck_assert_uint_eq(choice.fill_steps, 0);
}
END_TEST

/* 2 % are not enough, 4 % are, in both directions and one number of rows after another. */
START_TEST(test_windows_follow_only_clear_gains)
{
    struct cell_calibration calibration = linear(10000, 1000);
    *time_of(&calibration, CELL_VARIANT_AHEAD, 8) = 18000 * 98 / 100;
    ck_assert_uint_eq(cell_calibration_choose(&calibration).ahead_rows, 6);
    *time_of(&calibration, CELL_VARIANT_AHEAD_8, 8) = 0; // not the chosen length
    *time_of(&calibration, CELL_VARIANT_AHEAD, 8) = 18000 * 96 / 100;
    ck_assert_uint_eq(cell_calibration_choose(&calibration).ahead_rows, 8);
    *time_of(&calibration, CELL_VARIANT_AHEAD, 12) = 1; // 10 rows stand between
    ck_assert_uint_eq(cell_calibration_choose(&calibration).ahead_rows, 8);

    calibration = linear(10000, 1000);
    *time_of(&calibration, CELL_VARIANT_AHEAD, 6) = 16000 * 102 / 100;
    ck_assert_uint_eq(cell_calibration_choose(&calibration).ahead_rows, 6);
    *time_of(&calibration, CELL_VARIANT_AHEAD, 6) = 16000 * 104 / 100;
    ck_assert_uint_eq(cell_calibration_choose(&calibration).ahead_rows, 4);
    for (uint32_t p = 0; p < CELL_CALIBRATION_POINTS; p++) {
        for (enum cell_variant v = CELL_VARIANT_AHEAD; v < CELL_VARIANTS; v++) {
            calibration.step_ns[v][p] *= 2;
        }
    }
    ck_assert_uint_eq(cell_calibration_choose(&calibration).ahead_rows, 0);
}
END_TEST

/* One member alone likewise, against the team in the way that is chosen for it. */
START_TEST(test_solo_rows_follow_only_clear_gains)
{
    struct cell_calibration calibration = linear(10000, 1000);
    ck_assert_uint_eq(cell_calibration_choose(&calibration).solo_rows, 2);
    *time_of(&calibration, CELL_VARIANT_SOLO, 4) = 14000 * 98 / 100;
    ck_assert_uint_eq(cell_calibration_choose(&calibration).solo_rows, 2);
    *time_of(&calibration, CELL_VARIANT_SOLO, 4) = 14000 * 96 / 100;
    ck_assert_uint_eq(cell_calibration_choose(&calibration).solo_rows, 4);
    *time_of(&calibration, CELL_VARIANT_SOLO, 8) = 1; // 6 rows stand between
    ck_assert_uint_eq(cell_calibration_choose(&calibration).solo_rows, 4);
    *time_of(&calibration, CELL_VARIANT_SOLO, 4) = 0;
    ck_assert_uint_eq(cell_calibration_choose(&calibration).solo_rows, 2);

    calibration = linear(10000, 1000);
    *time_of(&calibration, CELL_VARIANT_SOLO, 2) = 12000 * 104 / 100;
    ck_assert_uint_eq(cell_calibration_choose(&calibration).solo_rows, 1);
    *time_of(&calibration, CELL_VARIANT_PLAIN, 2) = 12000 * 104 / 100; // 2 rows use windows
    ck_assert_uint_eq(cell_calibration_choose(&calibration).solo_rows, 1);
    *time_of(&calibration, CELL_VARIANT_SOLO, 1) = 11000 * 102 / 100;
    ck_assert_uint_eq(cell_calibration_choose(&calibration).solo_rows, 1);
    *time_of(&calibration, CELL_VARIANT_SOLO, 1) = 11000 * 104 / 100;
    ck_assert_uint_eq(cell_calibration_choose(&calibration).solo_rows, 0);
    calibration.tunable = CELL_TUNABLE_WINDOWS;
    ck_assert_uint_eq(cell_calibration_choose(&calibration).solo_rows, 2);
}
END_TEST

/* Rows apart likewise, against one member or the team, whichever is chosen; from its own number on
 * downwards while apart gains, upwards while the others do. */
START_TEST(test_rows_apart_follow_only_clear_gains)
{
    struct cell_calibration calibration = linear(10000, 1000);
    calibration.own.apart_rows = 12;
    ck_assert_uint_eq(cell_calibration_choose(&calibration).apart_rows, 12); // not tunable
    calibration.tunable |= CELL_TUNABLE_APART;
    ck_assert_uint_eq(cell_calibration_choose(&calibration).apart_rows, 12);
    *time_of(&calibration, CELL_VARIANT_APART, 10) = 20000 * 98 / 100;
    ck_assert_uint_eq(cell_calibration_choose(&calibration).apart_rows, 12);
    *time_of(&calibration, CELL_VARIANT_APART, 10) = 20000 * 96 / 100;
    ck_assert_uint_eq(cell_calibration_choose(&calibration).apart_rows, 9);
    *time_of(&calibration, CELL_VARIANT_APART, 8) = 18000 * 96 / 100;
    ck_assert_uint_eq(cell_calibration_choose(&calibration).apart_rows, 7);
    *time_of(&calibration, CELL_VARIANT_APART, 4) = 1; // 6 rows stand between
    ck_assert_uint_eq(cell_calibration_choose(&calibration).apart_rows, 7);

    calibration = linear(10000, 1000);
    calibration.tunable |= CELL_TUNABLE_APART;
    calibration.own.apart_rows = 12;
    *time_of(&calibration, CELL_VARIANT_APART, 12) = 22000 * 104 / 100;
    ck_assert_uint_eq(cell_calibration_choose(&calibration).apart_rows, 13);
    for (uint32_t p = point_of(16); p < CELL_CALIBRATION_POINTS; p++) {
        calibration.step_ns[CELL_VARIANT_APART][p] *= 2;
    }
    ck_assert_uint_eq(cell_calibration_choose(&calibration).apart_rows, 0);
    calibration.own.apart_rows = 80; // beyond what is measured
    ck_assert_uint_eq(cell_calibration_choose(&calibration).apart_rows, 80);
    calibration.own.apart_rows = 0;
    ck_assert_uint_eq(cell_calibration_choose(&calibration).apart_rows, 0);
    *time_of(&calibration, CELL_VARIANT_APART, 64) = 74000 * 90 / 100;
    ck_assert_uint_eq(cell_calibration_choose(&calibration).apart_rows, 49);
}
END_TEST

/* Half of the team must take less than two batches of all of it. */
START_TEST(test_beside_rows_follow_only_clear_losses)
{
    struct cell_calibration calibration = linear(10000, 1000);
    calibration.own.beside_rows = 9;
    ck_assert_uint_eq(cell_calibration_choose(&calibration).beside_rows, 9); // not tunable
    calibration.tunable |= CELL_TUNABLE_BESIDE;
    for (uint32_t p = 0; p < CELL_CALIBRATION_POINTS; p++) {
        calibration.step_ns[CELL_VARIANT_SOLO][p] = 2 * calibration.step_ns[CELL_VARIANT_PLAIN][p];
    }
    ck_assert_uint_eq(cell_calibration_choose(&calibration).beside_rows, 9);
    *time_of(&calibration, CELL_VARIANT_SOLO, 8) = 2 * 18000 * 104 / 100;
    ck_assert_uint_eq(cell_calibration_choose(&calibration).beside_rows, 6);
    *time_of(&calibration, CELL_VARIANT_SOLO, 6) = 2 * 16000 * 102 / 100;
    ck_assert_uint_eq(cell_calibration_choose(&calibration).beside_rows, 6);
    *time_of(&calibration, CELL_VARIANT_SOLO, 8) = 2 * 18000;
    *time_of(&calibration, CELL_VARIANT_SOLO, 10) = 2 * 20000 * 96 / 100;
    ck_assert_uint_eq(cell_calibration_choose(&calibration).beside_rows, 9); // never more

    calibration.own.beside_rows = 500; // more than is measured
    ck_assert_uint_eq(cell_calibration_choose(&calibration).beside_rows, 500);
    *time_of(&calibration, CELL_VARIANT_SOLO, 16) = 2 * 26000 * 110 / 100;
    ck_assert_uint_eq(cell_calibration_choose(&calibration).beside_rows, 12);
    for (uint32_t p = 0; p < CELL_CALIBRATION_POINTS; p++) {
        calibration.step_ns[CELL_VARIANT_SOLO][p] = 3 * calibration.step_ns[CELL_VARIANT_PLAIN][p];
    }
    ck_assert_uint_eq(cell_calibration_choose(&calibration).beside_rows, 1);
}
END_TEST

/* What a step takes is told as it is computed. */
START_TEST(test_a_step_takes_as_long_as_its_way)
{
    struct cell_calibration calibration = linear(10000, 1000);
    const struct cell_tuning tuning = {.ahead_rows = 4, .solo_rows = 2};
    *time_of(&calibration, CELL_VARIANT_SOLO, 2) = 1;
    *time_of(&calibration, CELL_VARIANT_SOLO, 4) = 2;
    *time_of(&calibration, CELL_VARIANT_AHEAD, 4) = 3;
    *time_of(&calibration, CELL_VARIANT_PLAIN, 6) = 4;
    ck_assert_uint_eq(cell_calibration_step_ns(&calibration, &tuning, point_of(2)), 1);
    ck_assert_uint_eq(cell_calibration_step_ns(&calibration, &tuning, point_of(4)), 3);
    ck_assert_uint_eq(cell_calibration_step_ns(&calibration, &tuning, point_of(6)), 4);
    *time_of(&calibration, CELL_VARIANT_SOLO, 2) = 0; // not measured
    ck_assert_uint_eq(cell_calibration_step_ns(&calibration, &tuning, point_of(2)), 12000);
    calibration.tunable = CELL_TUNABLE_WINDOWS;
    *time_of(&calibration, CELL_VARIANT_SOLO, 2) = 1;
    ck_assert_uint_eq(cell_calibration_step_ns(&calibration, &tuning, point_of(2)), 12000);

    const struct cell_tuning apart = {.ahead_rows = 4, .apart_rows = 6};
    *time_of(&calibration, CELL_VARIANT_APART, 4) = 5;
    *time_of(&calibration, CELL_VARIANT_APART, 6) = 6;
    ck_assert_uint_eq(cell_calibration_step_ns(&calibration, &apart, point_of(6)), 4);
    calibration.tunable = CELL_TUNABLE_WINDOWS | CELL_TUNABLE_APART;
    ck_assert_uint_eq(cell_calibration_step_ns(&calibration, &apart, point_of(4)), 3);
    ck_assert_uint_eq(cell_calibration_step_ns(&calibration, &apart, point_of(6)), 6);
    ck_assert_uint_eq(cell_calibration_step_ns(&calibration, &tuning, point_of(6)), 4);
    *time_of(&calibration, CELL_VARIANT_APART, 6) = 0; // not measured
    ck_assert_uint_eq(cell_calibration_step_ns(&calibration, &apart, point_of(6)), 4);
}
END_TEST

START_TEST(test_windows_stay_where_nothing_was_measured)
{
    struct cell_calibration calibration = linear(10000, 1000);
    for (uint32_t p = point_of(4); p < CELL_CALIBRATION_POINTS; p++) {
        calibration.step_ns[CELL_VARIANT_AHEAD][p] = 0;
    }
    *time_of(&calibration, CELL_VARIANT_AHEAD, 1) = 100000;
    ck_assert_uint_eq(cell_calibration_choose(&calibration).ahead_rows, 6);
    calibration.tunable = CELL_TUNABLE_TEAM;
    ck_assert_uint_eq(cell_calibration_choose(&calibration).ahead_rows, 6);
}
END_TEST

START_TEST(test_fills_are_the_best_length_if_it_gains)
{
    struct cell_calibration calibration = linear(10000, 1000);
    for (uint32_t p = 0; p <= point_of(4); p++) {
        calibration.step_ns[CELL_VARIANT_AHEAD_16][p] =
            calibration.step_ns[CELL_VARIANT_AHEAD][p] * 98 / 100;
    }
    ck_assert_uint_eq(cell_calibration_choose(&calibration).fill_steps, 0);
    for (uint32_t p = 0; p <= point_of(6); p++) {
        calibration.step_ns[CELL_VARIANT_AHEAD_16][p] =
            calibration.step_ns[CELL_VARIANT_AHEAD][p] * 95 / 100;
        calibration.step_ns[CELL_VARIANT_AHEAD_32][p] =
            calibration.step_ns[CELL_VARIANT_AHEAD][p] * 90 / 100;
    }
    ck_assert_uint_eq(cell_calibration_choose(&calibration).fill_steps, 32);
}
END_TEST

/* A step of fixed cost f and 1 ms a row: rows / (f + rows) is 97 % of that of 64. */
START_TEST(test_b_max_is_the_knee)
{
    struct cell_calibration calibration = linear(1000000, 1000000);
    // 64 rows: 0.985 of the limit; 24: 0.960, 0.975 of that; 20: 0.952, 0.967 of that.
    ck_assert_uint_eq(cell_calibration_choose(&calibration).knee_rows, 24);
    calibration = linear(2000000, 1000000);
    // 64 rows: 0.970; 32: 0.941, 0.971 of that; 24: 0.923.
    ck_assert_uint_eq(cell_calibration_choose(&calibration).knee_rows, 32);
    calibration = linear(500000, 1000000);
    // 64 rows: 0.992; 16: 0.970, 0.977 of that; 12: 0.960, 0.967 of that.
    ck_assert_uint_eq(cell_calibration_choose(&calibration).knee_rows, 16);
}
END_TEST

/* A third of a row's time is a step's own, and 10 rows are the knee; but of short steps what a
 * server has to do beside them is more. */
START_TEST(test_short_steps_want_larger_batches)
{
    struct cell_calibration calibration = linear(300000, 1000000);
    calibration.own.knee_rows = 8;
    ck_assert_uint_eq(cell_calibration_choose(&calibration).knee_rows, 10);
    calibration = linear(300, 1000);
    calibration.tunable = CELL_TUNABLE_WINDOWS;
    // One thread, 0.25 us: 64 rows 0.991, 16 rows 0.967, 12 rows 0.956.
    ck_assert_uint_eq(cell_calibration_choose(&calibration).knee_rows, 16);
    calibration = linear(300, 1000);
    // A team, 2 us: 48 rows would be the knee, but they take 16 times as long as one.
    ck_assert_uint_eq(cell_calibration_choose(&calibration).knee_rows, 20);
}
END_TEST

START_TEST(test_b_max_is_bounded_by_latency)
{
    // 64 rows take 31.5 times as long as 1, 32 take 16.25 times, 24 take 12.4.
    struct cell_calibration calibration = linear(1000, 1000);
    for (uint32_t p = 0; p < CELL_CALIBRATION_POINTS; p++) {
        for (enum cell_variant v = CELL_VARIANT_PLAIN; v < CELL_VARIANTS; v++) {
            uint64_t rows = cell_calibration_rows[p];
            calibration.step_ns[v][p] = 4000 + 10000 * rows / (rows < 40 ? 1 : 2);
        }
    }
    // 48 and more are much faster a row, but 24 rows take more than 16 times as long as one.
    *time_of(&calibration, CELL_VARIANT_AHEAD, 1) = 14000;
    ck_assert_uint_eq(cell_calibration_choose(&calibration).knee_rows, 20);
}
END_TEST

START_TEST(test_b_max_has_a_floor_and_may_be_unknown)
{
    struct cell_calibration calibration = linear(1, 1000000); // the first row is as fast as any
    ck_assert_uint_eq(cell_calibration_choose(&calibration).knee_rows, CELL_CALIBRATION_ROWS_LEAST);
    calibration.own.knee_rows = 8; // which is fewer still
    ck_assert_uint_eq(cell_calibration_choose(&calibration).knee_rows, 8);
    calibration.own.knee_rows = 0; // nothing is known of it
    ck_assert_uint_eq(cell_calibration_choose(&calibration).knee_rows, CELL_CALIBRATION_ROWS_LEAST);
    calibration = linear(1000000, 1000); // the more the better
    ck_assert_uint_eq(cell_calibration_choose(&calibration).knee_rows, 0);
    calibration = linear(1, 1000000);
    calibration.rows_limit = 16;
    ck_assert_uint_eq(cell_calibration_choose(&calibration).knee_rows, 0);
    calibration = linear(8000, 1000);
    for (enum cell_variant v = CELL_VARIANT_PLAIN; v < CELL_VARIANTS; v++) {
        *time_of(&calibration, v, 64) = 0;
    }
    ck_assert_uint_eq(cell_calibration_choose(&calibration).knee_rows, 40); // not known: its own
    memset(calibration.step_ns, 0, sizeof(calibration.step_ns));
    ck_assert_uint_eq(cell_calibration_choose(&calibration).knee_rows, 40);
    ck_assert_uint_eq(cell_calibration_choose(&calibration).ahead_rows, 6);
}
END_TEST

/* A single disturbed time, at whichever number of rows, leaves b_max as it was. */
START_TEST(test_one_disturbed_time_moves_nothing_far)
{
    for (uint32_t p = 0; p < CELL_CALIBRATION_POINTS; p++) {
        struct cell_calibration calibration = linear(2000, 1000);
        calibration.step_ns[CELL_VARIANT_PLAIN][p] *= 10;
        ck_assert(!cell_calibration_is_disturbed(&calibration));
        uint32_t rows = cell_calibration_choose(&calibration).knee_rows;
        ck_assert_msg(rows >= 24 && rows <= 32, "%u rows disturbed: b_max %u",
                      cell_calibration_rows[p], rows);
    }
}
END_TEST

START_TEST(test_what_contradicts_itself_is_not_believed)
{
    struct cell_calibration calibration = linear(1000, 1000);
    for (uint32_t p = 1; p < CELL_CALIBRATION_POINTS; p++) { // as when a team waits for its CPUs
        calibration.step_ns[CELL_VARIANT_PLAIN][p] += 90000;
        calibration.step_ns[CELL_VARIANT_AHEAD][p] += 190000;
    }
    ck_assert(cell_calibration_is_disturbed(&calibration));
    struct cell_tuning choice = cell_calibration_choose(&calibration);
    ck_assert_uint_eq(choice.ahead_rows, 6);
    ck_assert_uint_eq(choice.knee_rows, 40);
}
END_TEST

/* ---- Files ----------------------------------------------------------------------------------- */

static char folder[UTIL_PATH_BYTES];
static struct cell_type type = {.hash = {.low = 0x1234, .high = 0xFEDC}};
static struct cell_calibration_key key;
static struct base_error error;

static void setup(void)
{
    util_temp_dir(folder);
    cell_calibration_key_init(&key);
    key.version = "1.2.3";
    key.device = "cpu avx2, 2 threads";
    key.teams = 1;
    key.team_threads = 2;
}

static void teardown(void)
{
    util_remove_tree(folder);
}

static enum base_status write_it(const struct cell_calibration *calibration)
{
    return cell_calibration_write(folder, &key, &type, calibration, &error);
}

/* As a start would, whose device has the same rule. */
static enum base_status read_it(struct cell_calibration *out)
{
    *out = linear(1, 1);
    memset(out->step_ns, 0, sizeof(out->step_ns));
    return cell_calibration_read(folder, &key, &type, out, &error);
}

/* The one file in the folder. */
static char *file_path(void)
{
    static char path[UTIL_PATH_BYTES + 128];
    char command[UTIL_PATH_BYTES + 64];
    snprintf(command, sizeof(command), "ls -d %s/*", folder);
    FILE *list = popen(command, "re"); // NOLINT(cert-env33-c): of a folder that we made
    ck_assert_ptr_nonnull(list);
    ck_assert_ptr_nonnull(fgets(path, sizeof(path), list));
    path[strcspn(path, "\n")] = '\0';
    char more[8];
    ck_assert_ptr_null(fgets(more, sizeof(more), list)); // no temporary file is left
    (void)pclose(list);
    return path;
}

static void expect_refused(const char *why)
{
    struct cell_calibration read;
    ck_assert_int_eq(read_it(&read), BASE_FAILED_PRECONDITION);
    ck_assert_msg(strstr(error.message, ".calibration") != NULL, "no file in '%s'", error.message);
    ck_assert_msg(strstr(error.message, why) != NULL, "'%s' is not in '%s'", why, error.message);
    for (uint32_t p = 0; p < CELL_CALIBRATION_POINTS; p++) {
        ck_assert_uint_eq(read.step_ns[CELL_VARIANT_PLAIN][p], 0); // nothing of it is taken
    }
    // It can be written over, and then counts again.
    struct cell_calibration again = linear(5, 6);
    ck_assert_msg(write_it(&again) == BASE_OK, "%s", error.message);
    ck_assert_int_eq(read_it(&read), BASE_OK);
}

START_TEST(test_file_comes_back_as_written)
{
    struct cell_calibration written = linear(12345, 678);
    struct cell_calibration read;
    *time_of(&written, CELL_VARIANT_AHEAD, 64) = 0;
    ck_assert_int_eq(read_it(&read), BASE_NOT_FOUND);
    ck_assert_msg(write_it(&written) == BASE_OK, "%s", error.message);
    ck_assert_msg(read_it(&read) == BASE_OK, "%s", error.message);
    ck_assert_mem_eq(read.step_ns, written.step_ns, sizeof(read.step_ns));
    (void)file_path();
    written = linear(1, 2);
    ck_assert_int_eq(write_it(&written), BASE_OK);
    ck_assert_int_eq(read_it(&read), BASE_OK);
    ck_assert_mem_eq(read.step_ns, written.step_ns, sizeof(read.step_ns));
    (void)file_path();
}
END_TEST

/* Every shorter file, and every file with one byte changed, is refused. */
START_TEST(test_damaged_files_are_refused)
{
    struct cell_calibration written = linear(12345, 678);
    struct cell_calibration read;
    size_t length = 0;
    ck_assert_int_eq(write_it(&written), BASE_OK);
    char *path = file_path();
    char *text = util_read_file(path, &length);
    ck_assert_ptr_nonnull(text);
    for (size_t cut = 0; cut < length; cut += _i == 0 ? 1 : 13) {
        char kept = text[cut];
        const char other = kept == 'x' ? 'y' : 'x';
        text[cut] = other;
        if (_i == 0) {
            text[cut] = '\0';
        }
        util_write_file(path, text);
        ck_assert_int_eq(read_it(&read), BASE_FAILED_PRECONDITION);
        text[cut] = kept;
    }
    util_write_file(path, text);
    ck_assert_int_eq(read_it(&read), BASE_OK);
    text[length / 2] = 'x';
    util_write_file(path, text);
    base_free(text);
    expect_refused("damaged");
}
END_TEST

START_TEST(test_files_of_others_are_refused)
{
    struct cell_calibration written = linear(12345, 678);
    struct cell_calibration_key own = key;
    ck_assert_int_eq(write_it(&written), BASE_OK);
    snprintf(key.processor, sizeof(key.processor), "Another Processor");
    expect_refused("here \"processor Another Processor\"");
    key = own;
    ck_assert_int_eq(write_it(&written), BASE_OK);
    key.build[0] = key.build[0] == '0' ? '1' : '0';
    expect_refused("it has \"program 1.2.3, build ");
    key = own;
    ck_assert_int_eq(write_it(&written), BASE_OK);
    key.version = "1.2.4";
    expect_refused("here \"program 1.2.4, build ");
    key = own;
    ck_assert_int_eq(write_it(&written), BASE_OK);
    key.cache_bytes[1] += 1;
    expect_refused("caches");
}
END_TEST

/* Another team is another file, so that two set-ups do not chase each other. */
START_TEST(test_another_team_has_a_file_of_its_own)
{
    struct cell_calibration written = linear(12345, 678);
    struct cell_calibration read;
    ck_assert_int_eq(write_it(&written), BASE_OK);
    key.team_threads = 1;
    ck_assert_int_eq(read_it(&read), BASE_NOT_FOUND);
    type.hash.low++;
    ck_assert_int_eq(read_it(&read), BASE_NOT_FOUND);
    key.team_threads = 2;
    ck_assert_int_eq(read_it(&read), BASE_NOT_FOUND);
    type.hash.low--;
    ck_assert_int_eq(read_it(&read), BASE_OK);
}
END_TEST

START_TEST(test_what_is_no_file_is_refused)
{
    struct cell_calibration written = linear(12345, 678);
    struct cell_calibration read;
    ck_assert_int_eq(write_it(&written), BASE_OK);
    char *path = file_path();
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(mkfifo(path, 0600), 0); // reading it would wait for ever
    expect_refused("not a regular file");
    char *text = base_alloc_array(1, 20000);
    ck_assert_ptr_nonnull(text);
    memset(text, 'x', 19999);
    util_write_file(path, text);
    base_free(text);
    expect_refused("too long");
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    ck_assert_int_eq(read_it(&read), BASE_FAILED_PRECONDITION);
    ck_assert_int_eq(write_it(&written), BASE_UNAVAILABLE); // and nothing is left beside it
    ck_assert_str_eq(file_path(), path);
}
END_TEST

START_TEST(test_folder_is_made_or_its_lack_said)
{
    struct cell_calibration written = linear(1, 2);
    struct cell_calibration read;
    size_t length = strlen(folder);
    memcpy(folder + length, "/new", 5);
    ck_assert_msg(write_it(&written) == BASE_OK, "%s", error.message);
    ck_assert_int_eq(read_it(&read), BASE_OK);
    memcpy(folder + length, "/no/such", 9);
    ck_assert_int_eq(read_it(&read), BASE_NOT_FOUND);
    ck_assert_int_eq(write_it(&written), BASE_UNAVAILABLE);
    ck_assert_msg(strstr(error.message, "/no/such: ") != NULL, "%s", error.message);
    folder[length] = '\0';
    char file[UTIL_PATH_BYTES + 16];
    snprintf(file, sizeof(file), "%s/file", folder);
    util_write_file(file, "");
    memcpy(folder + length, "/file", 6);
    ck_assert_int_eq(write_it(&written), BASE_UNAVAILABLE);
    ck_assert_int_eq(read_it(&read), BASE_FAILED_PRECONDITION);
    folder[length] = '\0';
}
END_TEST

/* ---- Bits ------------------------------------------------------------------------------------ */

#define CHAINS 9u
#define STEPS  41u
#define HIDDEN 24u

/* All outputs of some chains, run together in pieces, to out. */
static void run_chains(struct rig *rig, struct rig_chain *chains, uint32_t n, float *out)
{
    struct cell_batch_row rows[CHAINS];
    for (uint32_t c = 0; c < n; c++) {
        rig_chain_reset(&chains[c], rig->type);
    }
    for (uint32_t done = 0; done < STEPS; done += 7) {
        uint32_t steps = STEPS - done < 7 ? STEPS - done : 7;
        struct cell_batch batch = {.n_rows = n, .steps = steps, .rows = rows};
        for (uint32_t c = 0; c < n; c++) {
            rows[c] = rig_chain_row(&chains[c], steps);
        }
        rig_run(rig, &batch);
        for (uint32_t c = 0; c < n; c++) {
            chains[c].done += rows[c].steps_done;
        }
    }
    for (uint32_t c = 0; c < n; c++) {
        memcpy(out + (size_t)c * STEPS * HIDDEN, chains[c].outputs[0],
               STEPS * HIDDEN * sizeof(float));
    }
}

START_TEST(test_no_tuning_changes_a_bit)
{
    static const struct cell_tuning tunings[] = {
        {0, 0, 0, 0, 0, 0, 0},
        {1, 0, 0, 1, 1, 0, 0},
        {CHAINS, 8, 0, 2, 0, 2, 0},
        {CHAINS, 1, 1, 0, 2, 2, 0},
        {64, 0, 0, CHAINS, 0, 0, 0},
        {64, 32, 0, 0, 0, 0, 0},
        {64, 32, 64, 1, 9, 2, 3},
        {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, 2, UINT32_MAX}};
    static const uint32_t counts[] = {1, 4, CHAINS};
    static float wanted[CHAINS * STEPS * HIDDEN];
    static float got[CHAINS * STEPS * HIDDEN];
    struct rig_chain chains[CHAINS];
    struct build build;
    struct rig rig;
    struct base_random random = util_random(41);
    struct cell_tuning own;
    struct cell_tuning now;
    build_lstm_cell(&build, 17, HIDDEN, 1);
    rig_init(&rig, "cpu", "auto", (uint32_t)_i, &build.def);
    for (uint32_t c = 0; c < CHAINS; c++) {
        rig_chain_init(&chains[c], rig.type, c, STEPS, &random);
    }
    rig.backend->type_tune(rig.device, rig.type, NULL);
    ck_assert(rig.backend->type_tuning(rig.device, rig.type, &own));
    for (uint32_t n = 0; n < 3; n++) {
        rig.backend->type_tune(rig.device, rig.type, NULL);
        run_chains(&rig, chains, counts[n], wanted);
        for (uint32_t t = 0; t < sizeof(tunings) / sizeof(tunings[0]); t++) {
            rig.backend->type_tune(rig.device, rig.type, &tunings[t]);
            run_chains(&rig, chains, counts[n], got);
            size_t bytes = (size_t)counts[n] * STEPS * HIDDEN * sizeof(float);
            ck_assert_msg(memcmp(got, wanted, bytes) == 0, "%u rows, tuning %u", counts[n], t);
        }
    }
    rig.backend->type_tune(rig.device, rig.type, NULL);
    ck_assert(rig.backend->type_tuning(rig.device, rig.type, &now));
    ck_assert_uint_eq(now.ahead_rows, own.ahead_rows);
    ck_assert_uint_eq(now.fill_steps, own.fill_steps);
    ck_assert_uint_eq(now.solo_rows, own.solo_rows);
    for (uint32_t c = 0; c < CHAINS; c++) {
        rig_chain_release(&chains[c]);
    }
    rig_release(&rig);
    build_release(&build);
}
END_TEST

/* Before anything is measured: an LSTM's, on a team of so many. */
static uint32_t own_knee(const char *backend, uint32_t members, uint32_t hidden)
{
    struct build build;
    struct rig rig;
    struct cell_tuning tuning;
    build_lstm_cell(&build, hidden, hidden, 1);
    rig_init(&rig, backend, NULL, members, &build.def);
    rig.backend->type_tune(rig.device, rig.type, NULL);
    (void)rig.backend->type_tuning(rig.device, rig.type, &tuning);
    const uint32_t own = tuning.knee_rows;
    tuning.knee_rows = own + 5;
    rig.backend->type_tune(rig.device, rig.type, &tuning);
    (void)rig.backend->type_tuning(rig.device, rig.type, &tuning);
    ck_assert_uint_eq(tuning.knee_rows, own + 5);
    rig_release(&rig);
    build_release(&build);
    return own;
}

/* The shorter a row's part of a step, the more rows it takes. */
START_TEST(test_large_cells_need_fewer_rows)
{
    ck_assert_uint_eq(own_knee("cpu", 1, 128), 8); // within three L2s of any processor
    ck_assert_uint_eq(own_knee("cpu", 1, 64), 24);
    ck_assert_uint_eq(own_knee("cpu", 1, 16), 56);
    ck_assert_uint_eq(own_knee("cpu", 1, 600), 16); // weights beyond most L2s
    ck_assert_uint_eq(own_knee("cpu", 2, 256), 16);
    ck_assert_uint_eq(own_knee("cpu", 2, 64), 48);
    ck_assert_uint_eq(own_knee("cpu", 3, 256), 24);
    ck_assert_uint_eq(own_knee("blas", 1, 256), 0); // not known
}
END_TEST

/* A library's sums have other bits ahead than in their step. */
START_TEST(test_blas_has_nothing_to_choose)
{
    struct build build;
    struct rig rig;
    struct cell_tuning tuning = {.ahead_rows = 1};
    build_lstm_cell(&build, 17, HIDDEN, 1);
    rig_init(&rig, "blas", NULL, 0, &build.def);
    ck_assert(!rig.backend->type_tuning(rig.device, rig.type, &tuning));
    rig.backend->type_tune(rig.device, rig.type, &tuning);
    rig_release(&rig);
    build_release(&build);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("calibration");
    TCase *choice = tcase_create("choice");
    tcase_add_test(choice, test_equal_times_change_nothing);
    tcase_add_test(choice, test_windows_follow_only_clear_gains);
    tcase_add_test(choice, test_solo_rows_follow_only_clear_gains);
    tcase_add_test(choice, test_rows_apart_follow_only_clear_gains);
    tcase_add_test(choice, test_beside_rows_follow_only_clear_losses);
    tcase_add_test(choice, test_a_step_takes_as_long_as_its_way);
    tcase_add_test(choice, test_windows_stay_where_nothing_was_measured);
    tcase_add_test(choice, test_fills_are_the_best_length_if_it_gains);
    tcase_add_test(choice, test_b_max_is_the_knee);
    tcase_add_test(choice, test_short_steps_want_larger_batches);
    tcase_add_test(choice, test_b_max_is_bounded_by_latency);
    tcase_add_test(choice, test_b_max_has_a_floor_and_may_be_unknown);
    tcase_add_test(choice, test_one_disturbed_time_moves_nothing_far);
    tcase_add_test(choice, test_what_contradicts_itself_is_not_believed);
    suite_add_tcase(suite, choice);
    TCase *files = tcase_create("files");
    tcase_add_checked_fixture(files, setup, teardown);
    tcase_add_test(files, test_file_comes_back_as_written);
    tcase_add_loop_test(files, test_damaged_files_are_refused, 0, 2);
    tcase_add_test(files, test_files_of_others_are_refused);
    tcase_add_test(files, test_another_team_has_a_file_of_its_own);
    tcase_add_test(files, test_what_is_no_file_is_refused);
    tcase_add_test(files, test_folder_is_made_or_its_lack_said);
    suite_add_tcase(suite, files);
    TCase *bits = tcase_create("bits");
    tcase_add_loop_test(bits, test_no_tuning_changes_a_bit, 0, 3);
    tcase_add_test(bits, test_large_cells_need_fewer_rows);
    tcase_add_test(bits, test_blas_has_nothing_to_choose);
    suite_add_tcase(suite, bits);
    return util_run(suite);
}
