/* Chains that end by themselves, on the CPU device and the CUDA device's host driver: a decoder
 * that feeds its token back. Whatever batches it runs in, with whomever and on how many threads, it
 * takes the steps up to its end and not one more, with the bits of the same chain that runs on. */
#include "base/mem.h"
#include "tests/cells/isa.h"
#include "tests/cells/rig.h"
#include "tests/util.h"

#include <stdatomic.h>
#include <string.h>

#define CHAINS 23u
#define STEPS  24u
#define IDS    37u

enum { TOKEN, H }; /* states */

static _Atomic uint32_t attention;

/* Of 130 units a team shares a step; a token is the largest logit's. */
static void build_decoder(struct build *build, enum cell_dtype dtype)
{
    build_init(build, 71);
    const uint32_t token = build_state(build, dtype, 1);
    const uint32_t h = build_state(build, CELL_F32, 130);
    const uint32_t x = build_gather(build, token, IDS, 60);
    const uint32_t gru = build_gated(build, CELL_OP_GRU, CELL_GRU_RESET_AFTER, x, h, true);
    const uint32_t logits = build_linear(build, gru, IDS, true);
    uint32_t next = build_op(build, CELL_OP_ARGMAX, logits, UINT32_MAX, 1);
    build->def.values[next].dtype = dtype;
    build_next(build, TOKEN, next);
    build_next(build, H, gru);
    build_output(build, next);
    build_output(build, logits);
}

static int64_t token_at(const struct rig *rig, const struct rig_chain *chain, uint32_t step)
{
    const struct cell_def *def = &rig->type->def;
    const enum cell_dtype dtype = def->values[def->outputs[0]].dtype;
    return cell_integer_at(dtype, chain->outputs[0] + step * cell_dtype_bytes(dtype));
}

/* How a batch is formed. */
struct manner {
    uint32_t steps;
    bool interruptible;
    bool lets_go; /* rows that have ended leave it, and it goes on */
};

/* The row's chain is ours again: nothing of it may be written or read from now on. */
static void row_ended(struct cell_batch *batch, uint32_t row, void *context)
{
    uint32_t *n_left = context;
    ck_assert(batch->rows[row].has_ended);
    batch->rows[row].wiring = NULL;
    ++*n_left;
}

static void run_batch(struct rig *rig, struct rig_chain *const *chains, uint32_t n,
                      const struct manner *manner)
{
    struct cell_batch_row rows[CHAINS];
    uint32_t n_left = 0;
    struct cell_batch batch = {.type = rig->type,
                               .n_rows = n,
                               .steps = manner->steps,
                               .interruptible = manner->interruptible,
                               .attention = &attention,
                               .row_ended = manner->lets_go ? row_ended : NULL,
                               .row_ended_context = &n_left,
                               .rows = rows};
    for (uint32_t i = 0; i < n; i++) {
        rows[i] = rig_chain_row(chains[i], manner->steps);
    }
    rig_run(rig, &batch);
    uint32_t n_ended = 0;
    bool is_cut = false;
    for (uint32_t i = 0; i < n; i++) {
        const bool is_whole = rows[i].steps_done == rows[i].steps;
        ck_assert_uint_le(rows[i].steps_done, batch.steps_done);
        is_cut |= !rows[i].has_ended && !is_whole;
        n_ended += rows[i].has_ended ? 1 : 0;
        chains[i]->done += rows[i].steps_done;
        if (rows[i].has_ended) {
            chains[i]->wiring.steps = chains[i]->done;
        }
    }
    // It comes back early only where somebody is to be let go, and cannot be in the meantime.
    const bool lets_go = manner->lets_go && rig->backend->pump != NULL;
    ck_assert_uint_eq(n_left, lets_go ? n_ended : 0);
    ck_assert(!is_cut || (n_ended > 0 && manner->interruptible && !lets_go));
}

/* Batches of random chains that have steps left, until none has. */
static void run_all(struct rig *rig, struct rig_chain *chains, struct base_random *random)
{
    for (;;) {
        struct rig_chain *left[CHAINS];
        uint32_t n = 0;
        const struct manner manner = {.steps = 1 + base_random_below(random, STEPS),
                                      .interruptible = base_random_below(random, 2) == 0,
                                      .lets_go = base_random_below(random, 2) == 0};
        for (uint32_t i = 0; i < CHAINS; i++) {
            if (chains[i].done < chains[i].wiring.steps) {
                left[n++] = &chains[i];
            }
        }
        if (n == 0) {
            return;
        }
        const uint32_t first = base_random_below(random, n);
        run_batch(rig, left + first, 1 + base_random_below(random, n - first), &manner);
    }
}

/* Ends of each chain are drawn from the tokens that it is known to give. */
static void draw_ends(const struct rig *rig, struct rig_chain *chains, struct cell_end *ends,
                      uint32_t *taken, struct base_random *random)
{
    for (uint32_t i = 0; i < CHAINS; i++) {
        taken[i] = STEPS;
        if (base_random_below(random, 4) == 0) {
            continue; // runs to its last step
        }
        ends[i] = (struct cell_end){
            .state = TOKEN, .id = token_at(rig, &chains[i], base_random_below(random, STEPS))};
        chains[i].wiring.end = &ends[i];
        taken[i] = 1;
        while (token_at(rig, &chains[i], taken[i] - 1) != ends[i].id) {
            taken[i]++;
        }
    }
}

/* What each chain gives when nothing ends it. */
static void note_wanted(struct rig *rig, struct rig_chain *chains, uint8_t *wanted[][2],
                        const size_t bytes[2], struct base_random *random)
{
    run_all(rig, chains, random);
    for (uint32_t i = 0; i < CHAINS; i++) {
        for (uint32_t o = 0; o < 2; o++) {
            wanted[i][o] = rig_copy(chains[i].outputs[o], STEPS * bytes[o]);
        }
    }
}

/* Puts all chains back to their start, as they were without an end. */
static void start_again(const struct rig *rig, struct rig_chain *chains, struct cell_end *ends,
                        uint32_t *taken, uint8_t *wanted[][2], struct base_random *random)
{
    const struct cell_def *def = &rig->type->def;
    const size_t bytes = STEPS * cell_dtype_bytes(def->values[def->outputs[0]].dtype);
    for (uint32_t i = 0; i < CHAINS; i++) {
        memcpy(chains[i].outputs[0], wanted[i][0], bytes);
        chains[i].wiring.steps = STEPS;
        chains[i].wiring.end = NULL;
    }
    draw_ends(rig, chains, ends, taken, random);
    for (uint32_t i = 0; i < CHAINS; i++) {
        rig_chain_reset(&chains[i], rig->type);
    }
}

static void expect_taken(const struct rig_chain *chain, uint32_t taken, uint8_t *const wanted[2],
                         const size_t bytes[2])
{
    ck_assert_uint_eq(chain->done, taken);
    for (uint32_t o = 0; o < 2; o++) {
        ck_assert_mem_eq(chain->outputs[o], wanted[o], taken * bytes[o]);
        for (size_t at = taken * bytes[o]; at < STEPS * bytes[o]; at++) {
            ck_assert_uint_eq(chain->outputs[o][at], 0xA5); // as rig_chain_reset() left it
        }
    }
}

/* Where a decoder runs. */
struct place {
    const char *backend, *isa;
    uint32_t members;
    uint32_t apart_rows; /* from so many rows on each member runs some alone; 0: never */
};

static void check_ends(const struct place *place, enum cell_dtype dtype)
{
    static struct rig_chain chains[CHAINS];
    static struct cell_end ends[CHAINS];
    const size_t bytes[] = {cell_dtype_bytes(dtype), IDS * sizeof(float)};
    uint8_t *wanted[CHAINS][2];
    uint32_t taken[CHAINS];
    struct base_random random = util_random(1);
    struct build build;
    struct rig rig;
    build_decoder(&build, dtype);
    rig_init(&rig, place->backend, place->isa, place->members, &build.def);
    const struct cell_tuning tuning = {.apart_rows = place->apart_rows};
    if (place->apart_rows > 0) {
        rig.backend->type_tune(rig.device, rig.type, &tuning);
    }
    for (uint32_t i = 0; i < CHAINS; i++) {
        rig_chain_init(&chains[i], rig.type, i, STEPS, &random);
    }
    note_wanted(&rig, chains, wanted, bytes, &random);
    for (uint32_t round = 0; round < 4; round++) {
        start_again(&rig, chains, ends, taken, wanted, &random);
        run_all(&rig, chains, &random);
        for (uint32_t i = 0; i < CHAINS; i++) {
            expect_taken(&chains[i], taken[i], wanted[i], bytes);
        }
    }
    for (uint32_t i = 0; i < CHAINS; i++) {
        rig_chain_release(&chains[i]);
        base_free(wanted[i][0]);
        base_free(wanted[i][1]);
    }
    rig_release(&rig);
    build_release(&build);
}

START_TEST(test_end_takes_no_step_more)
{
    if (isa_at(_i) != NULL) {
        const char *isa = isa_name(_i);
        check_ends(&(struct place){"cpu", isa, 0, 0}, CELL_I64);
        check_ends(&(struct place){"cpu", isa, 2, 0}, CELL_I32);
        check_ends(&(struct place){"cpu", isa, 3, 0}, CELL_I64);
        check_ends(&(struct place){"cpu", isa, 2, 1}, CELL_I64);
        check_ends(&(struct place){"cpu", isa, 3, 2}, CELL_I32);
    }
}
END_TEST

/* The card looks at ends, and the host hears of them with the batch. */
START_TEST(test_end_on_a_card)
{
    check_ends(&(struct place){"cuda-host", NULL, 0, 0}, _i == 0 ? CELL_I64 : CELL_I32);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("end");
    TCase *tcase = tcase_create("device");
    tcase_set_timeout(tcase, 300);
    tcase_add_loop_test(tcase, test_end_takes_no_step_more, 0, ISA_COUNT);
    tcase_add_loop_test(tcase, test_end_on_a_card, 0, 2);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
