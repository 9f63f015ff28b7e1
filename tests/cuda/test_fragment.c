/* Index maps, bf16 and packing, exhaustively, against plain definitions that share no code. */
#include "cells/bf16.h"
#include "cells/cuda/fragment.h"
#include "cells/cuda/lane_pack.h"
#include "tests/util.h"

#include "base/mem.h"

#include <math.h>
#include <string.h>

/* ---- mma.m16n8k16 ---- */

/* Where PTX's tables put an element: thread, register, half. For A: groups of 4 threads go down the
 * rows, and again 8 rows further; threads of a group go along k by twos, and again 8 further. */
struct place {
    uint32_t thread, reg, half;
};

static struct place place_a(uint32_t row, uint32_t k)
{
    static const uint32_t regs[2][2] = {{0, 2}, {1, 3}}; // [row >= 8][k >= 8]
    return (struct place){row % 8 * 4 + k % 8 / 2, regs[row >= 8][k >= 8], k % 2};
}

static struct place place_b(uint32_t k, uint32_t column)
{
    return (struct place){column * 4 + k % 8 / 2, k >= 8, k % 2};
}

static struct place place_c(uint32_t row, uint32_t column)
{
    return (struct place){row % 8 * 4 + column / 2, (row >= 8 ? 2 : 0) + column % 2, 0};
}

START_TEST(test_fragments_are_those_of_the_instruction)
{
    uint32_t seen = 0;
    for (uint32_t row = 0; row < 16; row++) {
        for (uint32_t k = 0; k < 16; k++) {
            const struct place at = place_a(row, k);
            ck_assert_uint_eq(cell_mma_a_row(at.thread, at.reg), row);
            ck_assert_uint_eq(cell_mma_a_k(at.thread, at.reg) + at.half, k);
            seen++;
        }
    }
    ck_assert_uint_eq(seen, 32 * 4 * 2); // as many places: the map is one to one
    for (uint32_t k = 0; k < 16; k++) {
        for (uint32_t column = 0; column < 8; column++) {
            const struct place at = place_b(k, column);
            ck_assert_uint_eq(cell_mma_b_k(at.thread, at.reg) + at.half, k);
            ck_assert_uint_eq(cell_mma_b_column(at.thread), column);
        }
    }
    for (uint32_t row = 0; row < 16; row++) {
        for (uint32_t column = 0; column < 8; column++) {
            const struct place at = place_c(row, column);
            ck_assert_uint_eq(cell_mma_c_row(at.thread, at.reg), row);
            ck_assert_uint_eq(cell_mma_c_column(at.thread, at.reg), column);
        }
    }
}
END_TEST

/* ---- Who owns what ---- */

/* Of 128 units, 8 rows and 4 columns: how many registers have the sum. */
static uint8_t owners[128][8][4];

/* The sum in register i of a thread's tile is of row g or g + 8 of it: of the thread's own unit. */
static void count_owner(uint32_t thread, uint32_t unit)
{
    for (uint32_t i = 0; i < 8; i++) {
        const uint32_t row = cell_mma_c_row(thread, i % 4);
        ck_assert_uint_eq(row % 8, unit % 8);
        owners[unit][cell_mma_c_column(thread, i % 4)][cell_mma_gate(i / 4, row)]++;
    }
}

/* Each column of each unit and row is in one register of one thread, all columns of a unit and row
 * in the same thread. */
START_TEST(test_a_thread_of_mma_owns_all_columns_of_its_units)
{
    static const uint32_t sizes[][3] = {
        {16, 2, 1}, {64, 8, 1}, {128, 8, 2}}; // units, warps, groups
    const uint32_t groups = sizes[_i][2];
    memset(owners, 0, sizeof(owners));
    for (uint32_t i = 0; i < sizes[_i][1] * 32 * groups; i++) {
        const uint32_t thread = i / groups;
        const uint32_t unit = cell_mma_unit(thread / 32, groups, i % groups, thread % 32);
        ck_assert_uint_lt(unit, sizes[_i][0]);
        count_owner(thread % 32, unit);
    }
    for (uint32_t i = 0; i < sizes[_i][0] * 8 * 4; i++) {
        ck_assert_uint_eq(((const uint8_t *)owners)[i], 1);
    }
}
END_TEST

START_TEST(test_a_thread_of_fma_owns_one_column)
{
    uint8_t threads[64][4] = {{0}};
    for (uint32_t thread = 0; thread < 256; thread++) {
        threads[cell_fma_unit(thread)][cell_fma_column(thread)]++;
    }
    for (uint32_t unit = 0; unit < 64; unit++) {
        for (uint32_t column = 0; column < 4; column++) {
            ck_assert_uint_eq(threads[unit][column], 1);
        }
    }
}
END_TEST

START_TEST(test_columns_of_gates)
{
    for (uint32_t column = 0; column < 4; column++) {
        ck_assert_uint_eq(cell_column_gate(4, column, false), column);
        ck_assert_uint_eq(cell_column_gate(4, column, true), column);
    }
    static const uint32_t early[] = {0, 1, 2, CELL_COLUMNS};
    static const uint32_t late[] = {0, 1, CELL_COLUMNS, 2};
    for (uint32_t column = 0; column < 4; column++) {
        ck_assert_uint_eq(cell_column_gate(3, column, false), early[column]);
        ck_assert_uint_eq(cell_column_gate(3, column, true), late[column]);
    }
}
END_TEST

/* ---- bf16 ---- */

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

static bool is_nan16(uint32_t bf16)
{
    return (bf16 & 0x7FFFu) > 0x7F80u;
}

/* By comparing distances, in double, where all of this is exact. */
static uint16_t nearest(uint32_t bits)
{
    const uint16_t down = (uint16_t)(bits >> 16); // towards 0
    const uint16_t up = (uint16_t)(down + 1);
    const double x = fabs((double)float_of(bits));
    const double below = fabs((double)cell_bf16_widen(down));
    // Past the largest number stands what would be the next power of two.
    const double above = (up & 0x7FFFu) == 0x7F80u ? 0x1p128 : fabs((double)cell_bf16_widen(up));
    if (x - below == above - x) {
        return down % 2 == 0 ? down : up;
    }
    return x - below < above - x ? down : up;
}

/* All upper halves, with the lower halves around the places where it matters. */
START_TEST(test_bf16_rounds_to_the_nearest_even)
{
    static const uint32_t lows[] = {0, 1, 0x4000, 0x7FFE, 0x7FFF, 0x8000, 0x8001, 0xC000, 0xFFFF};
    uint32_t wrong = 0;
    for (uint32_t high = 0; high < 0x10000u; high++) {
        for (uint32_t i = 0; i < sizeof(lows) / sizeof(lows[0]); i++) {
            const uint32_t bits = high << 16 | lows[i];
            const uint16_t got = cell_bf16_round(float_of(bits));
            if ((bits & 0x7FFFFFFFu) > 0x7F800000u) { // quiet, its sign and upper payload kept
                wrong += !is_nan16(got) || got != (high | 0x40u);
            } else if ((bits & 0x7FFFFFFFu) == 0x7F800000u) {
                wrong += got != high;
            } else {
                wrong += got != nearest(bits);
            }
        }
        wrong += cell_bf16_round(cell_bf16_widen((uint16_t)high)) !=
                 (is_nan16(high) ? (high | 0x40u) : high);
    }
    ck_assert_uint_eq(wrong, 0);
    ck_assert_uint_eq(cell_bf16_pair(0x1234, 0xABCD), 0xABCD1234u);
}
END_TEST

/* ---- Packing ---- */

/* Units of the kernel that runs an LSTM; 0: none does. */
static uint32_t choose(enum cell_precision precision, uint32_t units)
{
    const struct cell_gated gated = {.kind = CELL_GATED_LSTM,
                                     .precision = precision,
                                     .inputs = 1,
                                     .feedback = units,
                                     .hidden = units};
    const struct cell_sm_kernel *kernel = NULL;
    return cell_sm_choose(&gated, false, &kernel, NULL) == BASE_OK ? kernel->units : 0;
}

START_TEST(test_the_smallest_kernel_is_chosen)
{
    ck_assert_uint_eq(choose(CELL_FP32, 64), 64);
    ck_assert_uint_eq(choose(CELL_FP32, 65), 0);
    ck_assert_uint_eq(choose(CELL_BF16, 1), 64);
    ck_assert_uint_eq(choose(CELL_BF16, 65), 128);
    ck_assert_uint_eq(choose(CELL_BF16, 129), 0);
    ck_assert_uint_eq(choose(CELL_INT8, 8), 0);
}
END_TEST

START_TEST(test_what_no_kernel_runs_is_refused)
{
    const struct cell_gated fine = {
        .kind = CELL_GATED_GRU, .inputs = 128, .feedback = 8, .hidden = 8};
    const struct cell_sm_kernel *kernel = NULL;
    const float one = 1.0f;
    struct base_error error;
    ck_assert_int_eq(cell_sm_choose(&fine, false, &kernel, &error), BASE_OK);
    ck_assert_str_eq(kernel->gru, "cell_sm_gru__f32_64");
    struct cell_gated other = fine;
    other.kind = CELL_GATED_TANH;
    ck_assert_int_eq(cell_sm_choose(&other, false, &kernel, &error), BASE_UNIMPLEMENTED);
    other = fine;
    other.p = &one;
    ck_assert_int_eq(cell_sm_choose(&other, false, &kernel, &error), BASE_UNIMPLEMENTED);
    other = fine;
    other.feedback = 4;
    ck_assert_int_eq(cell_sm_choose(&other, false, &kernel, &error), BASE_UNIMPLEMENTED);
    other = fine;
    other.inputs = CELL_SM_INPUTS_MAX + 1;
    ck_assert_int_eq(cell_sm_choose(&other, false, &kernel, &error), BASE_UNIMPLEMENTED);
    ck_assert_int_eq(cell_sm_choose(&other, true, &kernel, &error), BASE_OK);
}
END_TEST

#define UNITS  100u
#define INPUTS 37u

static float weights[2][4 * UNITS * 128], biases[2][4 * UNITS];

/* Counts, in all of the packed bytes, how often each weight stands there; weights are whole numbers
 * that bf16 has, so each is its own name. */
static void count_weights(const uint16_t *packed, size_t n, uint32_t counts[0x10000])
{
    memset(counts, 0, 0x10000 * sizeof(counts[0]));
    for (size_t i = 0; i < n; i++) {
        counts[packed[i]]++;
    }
}

static uint32_t counts[0x10000];

/* Each bit pattern of bf16 stands as often in R, W as in what was packed of them, zeros aside. */
START_TEST(test_packing_keeps_every_weight)
{
    struct base_random random = util_random(3);
    const bool is_gru = _i == 1;
    struct cell_gated gated = {.kind = is_gru ? CELL_GATED_GRU : CELL_GATED_LSTM,
                               .precision = CELL_BF16,
                               .inputs = INPUTS,
                               .feedback = UNITS,
                               .hidden = UNITS,
                               .w = weights[0],
                               .r = weights[1],
                               .b_w = biases[0],
                               .b_r = biases[1]};
    const uint32_t gates = is_gru ? 3 : 4;
    const struct cell_sm_kernel *kernel = NULL;
    ck_assert_int_eq(cell_sm_choose(&gated, false, &kernel, NULL), BASE_OK);
    for (uint32_t part = 0; part < 2; part++) {
        for (uint32_t i = 0; i < gates * UNITS * (part == 0 ? INPUTS : UNITS); i++) {
            weights[part][i] = base_random_f32(&random, 1.0f, 2.0f);
        }
    }
    const struct cell_sm_layout layout = cell_sm_layout_of(&gated, kernel, false);
    uint8_t *packed = base_alloc_aligned(layout.bytes, 16);
    ck_assert_ptr_nonnull(packed);
    cell_sm_pack(&gated, kernel, false, packed);
    // R is in front of the biases and behind them, up to W.
    count_weights((const uint16_t *)(const void *)packed, layout.biases / 2, counts);
    for (size_t i = layout.rest / 2; i < layout.early / 2; i++) {
        counts[((const uint16_t *)(const void *)packed)[i]]++;
    }
    for (uint32_t i = 0; i < gates * UNITS * UNITS; i++) {
        counts[cell_bf16_round(weights[1][i])]--;
    }
    for (uint32_t i = 1; i < 0x10000; i++) {
        ck_assert_uint_eq(counts[i], 0);
    }
    ck_assert_uint_eq(counts[0], 4 * 128 * 128 - gates * UNITS * UNITS);
    count_weights((const uint16_t *)(const void *)(packed + layout.early),
                  (layout.bytes - layout.early) / 2, counts);
    for (uint32_t i = 0; i < gates * UNITS * INPUTS; i++) {
        counts[cell_bf16_round(weights[0][i])]--;
    }
    for (uint32_t i = 1; i < 0x10000; i++) {
        ck_assert_uint_eq(counts[i], 0);
    }
    base_free(packed);
}
END_TEST

/* Of an LSTM with as many inputs as a lane takes, or with sums given: what a card has. */
START_TEST(test_shared_memory_fits_a_card)
{
    static const uint32_t units[] = {64, 64, 128};
    static const enum cell_precision precisions[] = {CELL_FP32, CELL_BF16, CELL_BF16};
    struct cell_gated gated = {.kind = CELL_GATED_LSTM,
                               .precision = precisions[_i],
                               .inputs = CELL_SM_INPUTS_MAX,
                               .feedback = units[_i],
                               .hidden = units[_i]};
    const struct cell_sm_kernel *kernel = NULL;
    ck_assert_int_eq(cell_sm_choose(&gated, false, &kernel, NULL), BASE_OK);
    struct cell_sm_layout layout = cell_sm_layout_of(&gated, kernel, false);
    ck_assert_uint_eq(cell_sm_threads(&layout), 320);
    ck_assert_uint_le(cell_sm_shared_bytes(kernel, &layout), 227u << 10); // sm_90
    layout = cell_sm_layout_of(&gated, kernel, true);
    ck_assert_uint_le(cell_sm_shared_bytes(kernel, &layout), 163u << 10); // sm_80
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fragment");
    TCase *tcase = tcase_create("fragment");
    tcase_add_test(tcase, test_fragments_are_those_of_the_instruction);
    tcase_add_loop_test(tcase, test_a_thread_of_mma_owns_all_columns_of_its_units, 0, 3);
    tcase_add_test(tcase, test_a_thread_of_fma_owns_one_column);
    tcase_add_test(tcase, test_columns_of_gates);
    tcase_add_test(tcase, test_bf16_rounds_to_the_nearest_even);
    tcase_add_test(tcase, test_the_smallest_kernel_is_chosen);
    tcase_add_test(tcase, test_what_no_kernel_runs_is_refused);
    tcase_add_loop_test(tcase, test_packing_keeps_every_weight, 0, 2);
    tcase_add_loop_test(tcase, test_shared_memory_fits_a_card, 0, 3);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
