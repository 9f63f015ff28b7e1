/* What lanes of the CUDA device take and give away, over a host's driver: value rows between a lane
 * and the stream, what is given away behind a chain's first step, and answers in bf16. That fp32
 * has the CPU's bits is test_device_bits' matter. */
#include "base/clock.h"
#include "base/mem.h"
#include "cells/bf16.h"
#include "tests/cells/oracle.h"
#include "tests/cuda/driver_host.h"
#include "tests/cuda/lane_bed.h"
#include "tests/cuda/lane_host.h"
#include "tests/util.h"

#include <math.h>
#include <string.h>

enum { H, C }; /* an LSTM's states, and a rig's chain's first emits */

static struct cell_ref value(uint32_t row)
{
    return (struct cell_ref){.kind = CELL_REF_VALUE, .row = row};
}

static struct cell_ref host(uint8_t *at, int64_t stride_bytes)
{
    return (struct cell_ref){.kind = CELL_REF_HOST, .host = at, .stride_bytes = stride_bytes};
}

static void emit(struct rig_chain *chain, enum cell_emit_when when, uint32_t state,
                 struct cell_ref to)
{
    ck_assert_uint_lt(chain->wiring.n_emits, CELL_OUTPUTS_MAX + CELL_STATES_MAX);
    chain->emits[chain->wiring.n_emits++] =
        (struct cell_emit){.what = CELL_EMIT_STATE, .when = when, .index = state, .to = to};
}

/* ---- Value rows ----------------------------------------------------------------------------- */

enum { LINKS = 3, LINK_STEPS = 12, WIDE = 8, WIDE_BYTES = WIDE * sizeof(float) };

/* x and the states to begin with are what the chain before gave away. */
static void read_rows(struct rig_chain *chain, uint32_t row)
{
    chain->wiring.inputs[0] = value(row);
    chain->wiring.init[H] = value(row);
    chain->wiring.init[C] = value(row + 1);
}

static void read_memory(struct rig_chain *chain, const struct rig_chain *before)
{
    chain->wiring.inputs[0] = host(before->final[H], 0);
    chain->wiring.init[H] = host(before->final[H], 0);
    chain->wiring.init[C] = host(before->final[C], 0);
}

/* Chains, one behind the other, all on the queue at once: bit l of _i says that link l is none for
 * a lane. The library's products have bits of their own, so that one that ran elsewhere shows. */
START_TEST(test_value_rows_between_lane_and_stream)
{
    static const struct lane_bed_options options = {
        .is_library = true, .inputs = WIDE, .units = WIDE};
    static struct lane_bed bed;
    static uint8_t c[LINK_STEPS * WIDE_BYTES];
    struct rig_chain chains[LINKS];
    struct cell_batch_row rows[LINKS];
    struct cell_batch batches[LINKS];
    uint8_t *wanted[LINKS];
    struct base_random random = util_random(7);
    lane_bed_init(&bed, &options);
    for (uint32_t l = 0; l < LINKS; l++) {
        rig_chain_init(&chains[l], bed.type, l, LINK_STEPS, &random);
        if (l > 0) {
            read_memory(&chains[l], &chains[l - 1]);
        }
        if ((_i >> l & 1) != 0) {
            lane_bed_make_odd(&bed, &chains[l], c);
        }
        lane_bed_run_chain(&bed, &chains[l], LINK_STEPS);
        wanted[l] = rig_copy(chains[l].outputs[0], LINK_STEPS * WIDE_BYTES);
    }
    cuda_host_pause(20 * BASE_NS_PER_US);
    for (uint32_t l = 0; l < LINKS; l++) {
        rig_chain_reset(&chains[l], bed.type);
        chains[l].emits[C].to = value(2 * l + 1); // a lane has one place for c
        emit(&chains[l], CELL_EMIT_LAST, H, value(2 * l));
        if (l > 0) {
            read_rows(&chains[l], 2 * l - 2);
        }
        rows[l] = rig_chain_row(&chains[l], LINK_STEPS);
        batches[l] = (struct cell_batch){.n_rows = 1, .steps = LINK_STEPS, .rows = &rows[l]};
        lane_bed_submit(&bed, 0, &batches[l]);
    }
    lane_bed_wait_all(&bed);
    for (uint32_t l = 0; l < LINKS; l++) {
        ck_assert_int_eq(batches[l].status, BASE_OK);
        ck_assert_msg(memcmp(chains[l].outputs[0], wanted[l], LINK_STEPS * WIDE_BYTES) == 0,
                      "link %u", l);
        ck_assert_mem_eq(chains[l].final[H], wanted[l] + (LINK_STEPS - 1) * WIDE_BYTES, WIDE_BYTES);
        base_free(wanted[l]);
        rig_chain_release(&chains[l]);
    }
    lane_bed_release(&bed);
}
END_TEST

/* ---- Behind the first step ------------------------------------------------------------------ */

enum { FIRSTS = 40, FIRST_STEPS = 9 };

static const uint32_t first_parts[][3] = {{9}, {1, 8}, {1, 1, 7}, {4, 5}};

/* Chains that give away h and c behind their first step, into memory and value rows, beside chains
 * of one step, which is also their last, and chains that have begun before. */
START_TEST(test_what_is_given_away_behind_the_first_step)
{
    static const struct lane_bed_options options = {.inputs = WIDE, .units = WIDE};
    static struct lane_bed bed;
    static struct rig_chain chains[FIRSTS];
    static uint8_t c[FIRSTS][FIRST_STEPS * WIDE_BYTES];
    static uint8_t h_first[FIRSTS][WIDE_BYTES];
    static uint8_t c_first[FIRSTS][WIDE_BYTES];
    static uint8_t read[WIDE_BYTES];
    uint8_t *wanted[FIRSTS];
    struct cell_batch_row rows[FIRSTS];
    struct base_random random = util_random(8);
    lane_bed_init(&bed, &options);
    for (uint32_t i = 0; i < FIRSTS; i++) {
        struct rig_chain *chain = &chains[i];
        rig_chain_init(chain, bed.type, i, i % 5 == 0 ? 1 : FIRST_STEPS, &random);
        lane_bed_make_odd(&bed, chain, c[i]);
        wanted[i] = lane_bed_alone(&bed, chain); // this device is exact: the lane's bits
        chain->wiring.n_emits--;
        memset(h_first[i], 0xA5, WIDE_BYTES);
        memset(c_first[i], 0xA5, WIDE_BYTES);
        chain->emits[C] =
            (struct cell_emit){CELL_EMIT_STATE, CELL_EMIT_FIRST, C, host(c_first[i], 0)};
        emit(chain, CELL_EMIT_FIRST, H, i % 2 == 0 ? host(h_first[i], 0) : value(i));
        if (i % 3 == 0) {
            lane_bed_run_chain(&bed, chain, 1); // it is one step ahead of the others
        }
    }
    for (uint32_t p = 0; p < 3 && first_parts[_i][p] > 0; p++) {
        struct cell_batch batch = {.steps = first_parts[_i][p], .rows = rows};
        for (uint32_t i = 0; i < FIRSTS; i++) {
            if (chains[i].done < chains[i].wiring.steps) {
                rows[batch.n_rows] = rig_chain_row(&chains[i], batch.steps);
                chains[i].done += rows[batch.n_rows++].steps;
            }
        }
        lane_bed_run(&bed, 0, &batch);
    }
    for (uint32_t i = 0; i < FIRSTS; i++) {
        ck_assert_uint_eq(chains[i].done, chains[i].wiring.steps);
        ck_assert_mem_eq(chains[i].outputs[0], wanted[i], chains[i].done * WIDE_BYTES);
        ck_assert_msg(memcmp(c_first[i], c[i], WIDE_BYTES) == 0, "chain %u", i);
        if (i % 2 == 0) {
            ck_assert_mem_eq(h_first[i], wanted[i], WIDE_BYTES);
        } else {
            bed.backend->row_read(bed.device, bed.type->state_layouts[H], i, 0, 0, read);
            ck_assert_mem_eq(read, wanted[i], WIDE_BYTES);
        }
        base_free(wanted[i]);
        rig_chain_release(&chains[i]);
    }
    lane_bed_release(&bed);
}
END_TEST

/* ---- bf16 ----------------------------------------------------------------------------------- */

enum { ROUNDED = 34, ROUNDED_STEPS = 10 };

/* docs/cuda.md: the gate of h where products are bf16. */
static const double gate = 2e-2;

static const struct lane_bed_options rounded[] = {
    {.is_library = true, .products = CELL_PRODUCTS_BF16, .inputs = 20, .units = 24},
    {.is_library = true, .products = CELL_PRODUCTS_BF16, .inputs = 64, .units = 128},
    {.is_library = true, .products = CELL_PRODUCTS_BF16, .inputs = 33, .units = 64, .is_gru = true},
    {.is_library = true, .products = CELL_PRODUCTS_BF16, .inputs = 64, .units = 97, .is_gru = true},
};

static void read_floats(const uint8_t *from, uint32_t n, double *to)
{
    for (uint32_t i = 0; i < n; i++) {
        float x;
        memcpy(&x, from + i * sizeof(x), sizeof(x));
        to[i] = (double)x;
    }
}

/* The largest difference of an h from double precision; and whether each is a bf16, which only a
 * lane gives. */
static double worst_of(const struct lane_bed *bed, const struct rig_chain *chain, bool *is_rounded)
{
    const uint32_t units = lane_bed_row_bytes(bed) / (uint32_t)sizeof(float);
    const uint32_t inputs = bed->type->def.values[0].width;
    double got[LANE_BED_UNITS_MAX];
    double worst = 0.0;
    struct oracle oracle;
    oracle_init(&oracle, &bed->type->def);
    for (uint32_t s = 0; s < bed->type->def.n_states; s++) {
        read_floats(chain->init[s], units, oracle.values[1 + s]);
    }
    for (uint32_t step = 0; step < ROUNDED_STEPS; step++) {
        read_floats(chain->inputs[0] + (size_t)step * inputs * sizeof(float), inputs,
                    oracle.values[0]);
        oracle_step(&oracle);
        read_floats(chain->outputs[0] + (size_t)step * units * sizeof(float), units, got);
        for (uint32_t u = 0; u < units; u++) {
            const double off = fabs(got[u] - oracle.values[bed->type->def.outputs[0]][u]);
            worst = off <= worst ? worst : off; // a NaN is the worst
            *is_rounded &= (double)cell_bf16_widen(cell_bf16_round((float)got[u])) == got[u];
        }
        oracle_advance(&oracle);
    }
    oracle_release(&oracle);
    return worst;
}

START_TEST(test_answers_in_bf16)
{
    static struct lane_bed bed;
    static struct rig_chain chains[ROUNDED];
    uint8_t *wanted[ROUNDED];
    struct cell_batch_row rows[ROUNDED];
    struct base_random random = util_random(9);
    bool is_rounded = true;
    lane_bed_init(&bed, &rounded[_i]);
    ck_assert(lane_bed_has_lane(&bed) == lane_host_can());
    for (uint32_t i = 0; i < ROUNDED; i++) {
        rig_chain_init(&chains[i], bed.type, i, ROUNDED_STEPS, &random);
        wanted[i] = lane_bed_alone(&bed, &chains[i]);
    }
    for (uint32_t done = 0; done < ROUNDED_STEPS; done += 5) {
        struct cell_batch batch = {.n_rows = ROUNDED, .steps = 5, .rows = rows};
        for (uint32_t i = 0; i < ROUNDED; i++) {
            rows[i] = rig_chain_row(&chains[(i + done) % ROUNDED], 5);
        }
        lane_bed_run(&bed, 0, &batch);
        for (uint32_t i = 0; i < ROUNDED; i++) {
            chains[i].done += 5;
        }
    }
    for (uint32_t i = 0; i < ROUNDED; i++) {
        ck_assert_mem_eq(chains[i].outputs[0], wanted[i], ROUNDED_STEPS * lane_bed_row_bytes(&bed));
        const double worst = worst_of(&bed, &chains[i], &is_rounded);
        ck_assert_msg(worst <= gate, "h is off by %g", worst);
        base_free(wanted[i]);
        rig_chain_release(&chains[i]);
    }
    ck_assert(is_rounded == lane_host_can());
    lane_bed_release(&bed);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device_lanes");
    TCase *rows = tcase_create("rows");
    TCase *firsts = tcase_create("firsts");
    TCase *bf16 = tcase_create("bf16");
    tcase_set_timeout(rows, 120);
    tcase_set_timeout(firsts, 120);
    tcase_set_timeout(bf16, 120);
    tcase_add_loop_test(rows, test_value_rows_between_lane_and_stream, 0, 1 << LINKS);
    tcase_add_loop_test(firsts, test_what_is_given_away_behind_the_first_step, 0, 4);
    tcase_add_loop_test(bf16, test_answers_in_bf16, 0, 4);
    suite_add_tcase(suite, rows);
    suite_add_tcase(suite, firsts);
    suite_add_tcase(suite, bf16);
    return util_run(suite);
}
