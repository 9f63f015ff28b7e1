/* Batches of which a lane can serve some rows and not others: each row has the bits that it has
 * alone, whoever is beside it. The driver's library sums from the last term to the first, so that
 * the stream has other bits than the lane, as on a card. */
#include "base/clock.h"
#include "base/mem.h"
#include "tests/cuda/driver_host.h"
#include "tests/cuda/lane_bed.h"
#include "tests/cuda/lane_host.h"
#include "tests/util.h"

#include <stdatomic.h>
#include <string.h>

/* More rows for the lane than it takes in a task. */
enum { CHAINS = 56, STEPS = 30, INPUTS = 5, UNITS = 6, ROW_BYTES = UNITS * sizeof(float) };

/* Chains, some of which no lane serves, with what each gives alone. */
struct company {
    struct lane_bed bed;
    struct rig_chain chains[CHAINS];
    uint8_t *c[CHAINS]; /* of each step; of odd chains */
    uint8_t *wanted[CHAINS], *wanted_c[CHAINS];
};

static bool is_odd(uint32_t chain)
{
    return chain % 4 == 1;
}

static void reset(struct company *company)
{
    for (uint32_t i = 0; i < CHAINS; i++) {
        rig_chain_reset(&company->chains[i], company->bed.type);
        memset(company->c[i], 0xA5, STEPS * ROW_BYTES);
    }
}

static void company_init(struct company *company, uint64_t watchdog_ns)
{
    const struct lane_bed_options options = {
        .is_library = true, .inputs = INPUTS, .units = UNITS, .watchdog_ns = watchdog_ns};
    struct base_random random = util_random(5);
    lane_bed_init(&company->bed, &options);
    ck_assert(lane_bed_has_lane(&company->bed) == lane_host_can());
    for (uint32_t i = 0; i < CHAINS; i++) {
        rig_chain_init(&company->chains[i], company->bed.type, i, STEPS, &random);
        company->c[i] = base_alloc(STEPS * ROW_BYTES);
        if (is_odd(i)) {
            lane_bed_make_odd(&company->bed, &company->chains[i], company->c[i]);
        }
        lane_bed_run_chain(&company->bed, &company->chains[i], STEPS);
        company->wanted[i] = rig_copy(company->chains[i].outputs[0], STEPS * ROW_BYTES);
        company->wanted_c[i] = rig_copy(company->c[i], STEPS * ROW_BYTES);
    }
    reset(company);
}

static void company_release(struct company *company)
{
    for (uint32_t i = 0; i < CHAINS; i++) {
        base_free(company->c[i]);
        base_free(company->wanted[i]);
        base_free(company->wanted_c[i]);
        rig_chain_release(&company->chains[i]);
    }
    lane_bed_release(&company->bed);
}

/* What the chains have given so far is what they give alone, and nothing is there beyond. */
static void expect_wanted(const struct company *company)
{
    for (uint32_t i = 0; i < CHAINS; i++) {
        const struct rig_chain *chain = &company->chains[i];
        const size_t bytes = (size_t)chain->done * ROW_BYTES;
        ck_assert_msg(memcmp(chain->outputs[0], company->wanted[i], bytes) == 0, "chain %u", i);
        ck_assert(!is_odd(i) || memcmp(company->c[i], company->wanted_c[i], bytes) == 0);
        ck_assert(chain->done == STEPS || chain->outputs[0][bytes] == 0xA5);
    }
}

/* Rows for some of the chains that are not done, drawn, of up to `most` steps each. */
static uint32_t draw(struct company *company, struct base_random *random, uint32_t most,
                     struct cell_batch_row *rows)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < CHAINS; i++) {
        struct rig_chain *chain = &company->chains[i];
        if (chain->done < STEPS && base_random_below(random, 5) > 0) {
            rows[n] = rig_chain_row(chain, 1 + base_random_below(random, most));
            rows[n++].tag = chain;
        }
    }
    return n;
}

/* The tags are the caller's still, and the rows have done what they should. */
static void advance(const struct cell_batch *batch)
{
    uint32_t most = 0;
    for (uint32_t r = 0; r < batch->n_rows; r++) {
        const struct cell_batch_row *row = &batch->rows[r];
        struct rig_chain *chain = row->tag;
        ck_assert_ptr_eq(row->wiring, &chain->wiring);
        ck_assert_uint_ge(row->steps_done, 1);
        ck_assert(row->steps_done == row->steps ||
                  (batch->interruptible && row->steps_done >= batch->steps_min));
        ck_assert(!row->has_ended);
        most = row->steps_done > most ? row->steps_done : most;
        chain->done += row->steps_done;
    }
    ck_assert_uint_eq(batch->steps_done, most);
}

/* A lane and the stream differ here, or the suite proves nothing. */
START_TEST(test_parts_have_bits_of_their_own)
{
    static struct company company;
    company_init(&company, 0);
    struct rig_chain *chain = &company.chains[0];
    lane_bed_make_odd(&company.bed, chain, company.c[0]);
    lane_bed_run_chain(&company.bed, chain, STEPS);
    const bool is_same = memcmp(chain->outputs[0], company.wanted[0], STEPS * ROW_BYTES) == 0;
    ck_assert(is_same == !lane_host_can());
    company_release(&company);
}
END_TEST

START_TEST(test_parts_give_each_row_the_bits_that_it_has_alone)
{
    static struct company company;
    struct base_random random = util_random((uint64_t)_i);
    struct cell_batch_row rows[CHAINS];
    company_init(&company, 0);
    const uint64_t allocs = base_alloc_count();
    uint32_t n = 0;
    while ((n = draw(&company, &random, 12, rows)) > 0) {
        struct cell_batch batch = {.n_rows = n, .steps = 12, .rows = rows};
        lane_bed_run(&company.bed, 0, &batch);
        advance(&batch);
    }
    ck_assert_uint_eq(base_alloc_count(), allocs);
    expect_wanted(&company);
    company_release(&company);
}
END_TEST

/* Whenever somebody asks for it both parts end, each where it is. */
START_TEST(test_parts_are_interrupted)
{
    static struct company company;
    struct base_random random = util_random((uint64_t)_i);
    struct cell_batch_row rows[CHAINS];
    company_init(&company, 0);
    cuda_host_pause(10 * BASE_NS_PER_US);
    _Atomic uint32_t *attention = company.bed.backend->attention(company.bed.device, 0);
    uint32_t n = 0;
    uint32_t interrupted = 0;
    while ((n = draw(&company, &random, STEPS, rows)) > 0) {
        struct cell_batch batch = {.n_rows = n,
                                   .steps = STEPS,
                                   .interruptible = true,
                                   .steps_min = base_random_below(&random, 4),
                                   .attention = attention,
                                   .rows = rows};
        lane_bed_submit(&company.bed, 0, &batch);
        const uint64_t until_ns = base_now_ns() + base_random_below(&random, 300000);
        while (base_now_ns() < until_ns) {
            lane_bed_poll(&company.bed);
        }
        atomic_store(attention, 1);
        lane_bed_wait_all(&company.bed);
        atomic_store(attention, 0);
        ck_assert_int_eq(batch.status, BASE_OK);
        advance(&batch);
        for (uint32_t r = 0; r < n; r++) {
            interrupted += rows[r].steps_done < rows[r].steps ? 1 : 0;
        }
    }
    ck_assert_uint_gt(interrupted, 0);
    expect_wanted(&company);
    company_release(&company);
}
END_TEST

/* Batches over the same chains, all on the queue before the first has begun: of both kinds, of
 * lanes' rows alone, of both again, and of odd rows alone. */
START_TEST(test_parts_behind_each_other)
{
    enum { BATCHES = LANE_BED_DEPTH };
    static struct company company;
    struct cell_batch batches[BATCHES];
    struct cell_batch_row rows[BATCHES][CHAINS];
    company_init(&company, 0);
    cuda_host_pause(20 * BASE_NS_PER_US);
    for (uint32_t b = 0; b < BATCHES; b++) {
        uint32_t n = 0;
        for (uint32_t i = 0; i < CHAINS; i++) {
            if (b % 2 == 0 || is_odd(i) == (b == 3)) {
                rows[b][n++] = rig_chain_row(&company.chains[i], 7);
                company.chains[i].done += 7;
            }
        }
        batches[b] = (struct cell_batch){.n_rows = n, .steps = 7, .rows = rows[b]};
        lane_bed_submit(&company.bed, 0, &batches[b]);
    }
    lane_bed_wait_all(&company.bed);
    for (uint32_t b = 0; b < BATCHES; b++) {
        ck_assert_int_eq(batches[b].status, BASE_OK);
        ck_assert_uint_eq(batches[b].steps_done, 7);
    }
    expect_wanted(&company);
    company_release(&company);
}
END_TEST

/* All chains, so many steps; nothing of it is taken over into the chains. */
static void fill(struct company *company, uint32_t steps, struct cell_batch_row *rows,
                 struct cell_batch *batch)
{
    for (uint32_t i = 0; i < CHAINS; i++) {
        rows[i] = rig_chain_row(&company->chains[i], steps);
        rows[i].steps_done = 77;
    }
    *batch = (struct cell_batch){.n_rows = CHAINS, .steps = steps, .rows = rows};
}

static void advance_all(struct company *company, uint32_t steps)
{
    for (uint32_t i = 0; i < CHAINS; i++) {
        company->chains[i].done += steps;
    }
}

static void expect_failed(const struct cell_batch *batch, enum base_status status)
{
    ck_assert_int_eq(batch->status, status);
    ck_assert_uint_eq(batch->steps_done, 0);
    for (uint32_t r = 0; r < batch->n_rows; r++) {
        ck_assert_uint_eq(batch->rows[r].steps_done, 0);
    }
}

/* A lane that dies fails the batch that had rows on it, and not the one behind it. */
START_TEST(test_parts_fail_together)
{
    static struct company company;
    struct cell_batch batches[2];
    struct cell_batch_row rows[2][CHAINS];
    company_init(&company, BASE_NS_PER_S);
    if (lane_host_can()) {
        lane_bed_park(&company.bed);
        lane_host_hang(LANE_HOST_HANG_STILL);
        fill(&company, STEPS, rows[0], &batches[0]);
        fill(&company, STEPS, rows[1], &batches[1]);
        lane_bed_submit(&company.bed, 0, &batches[0]);
        lane_bed_submit(&company.bed, 0, &batches[1]);
        lane_bed_wait_all(&company.bed);
        expect_failed(&batches[0], BASE_UNAVAILABLE);
        ck_assert_int_eq(batches[1].status, BASE_OK);
        advance_all(&company, STEPS);
        expect_wanted(&company);
    }
    company_release(&company);
}
END_TEST

/* More references than a piece of the stream has room for. */
START_TEST(test_a_part_that_is_refused_fails_its_batch_alone)
{
    enum { EMITS = 100000 };
    static struct company company;
    static struct cell_emit emits[EMITS];
    struct cell_batch batches[3];
    struct cell_batch_row rows[3][CHAINS];
    company_init(&company, 0);
    struct cell_wiring wiring = company.chains[1].wiring;
    for (uint32_t e = 0; e < EMITS; e++) {
        emits[e] = wiring.emits[wiring.n_emits - 1];
    }
    wiring.emits = emits;
    wiring.n_emits = EMITS;
    for (uint32_t b = 0; b < 3; b++) {
        fill(&company, STEPS, rows[b], &batches[b]);
        rows[b][1].wiring = b == 1 ? &wiring : rows[b][1].wiring;
        lane_bed_submit(&company.bed, 0, &batches[b]);
    }
    lane_bed_wait_all(&company.bed);
    expect_failed(&batches[1], BASE_RESOURCE_EXHAUSTED);
    ck_assert(batches[0].status == BASE_OK && batches[2].status == BASE_OK);
    advance_all(&company, STEPS);
    expect_wanted(&company);
    company_release(&company);
}
END_TEST

/* A card that is lost fails what is outstanding of both, and nothing comes from it any more. */
START_TEST(test_parts_of_a_card_that_is_lost)
{
    static struct company company;
    struct cell_batch batches[2];
    struct cell_batch_row rows[2][CHAINS];
    company_init(&company, BASE_NS_PER_S);
    cuda_host_hang(true);
    fill(&company, STEPS, rows[0], &batches[0]);
    fill(&company, STEPS, rows[1], &batches[1]);
    lane_bed_submit(&company.bed, 0, &batches[0]);
    lane_bed_submit(&company.bed, 0, &batches[1]);
    lane_bed_wait_all(&company.bed);
    ck_assert(company.bed.backend->is_lost(company.bed.device));
    expect_failed(&batches[0], BASE_UNAVAILABLE);
    expect_failed(&batches[1], BASE_UNAVAILABLE);
    cuda_host_hang(false);
    company_release(&company);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device_parts");
    TCase *tcase = tcase_create("parts");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, test_parts_have_bits_of_their_own);
    tcase_add_loop_test(tcase, test_parts_give_each_row_the_bits_that_it_has_alone, 0, 4);
    tcase_add_loop_test(tcase, test_parts_are_interrupted, 0, 6);
    tcase_add_test(tcase, test_parts_behind_each_other);
    tcase_add_test(tcase, test_parts_fail_together);
    tcase_add_test(tcase, test_a_part_that_is_refused_fails_its_batch_alone);
    tcase_add_test(tcase, test_parts_of_a_card_that_is_lost);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
