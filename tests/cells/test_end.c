/* Chains that end by themselves on the CPU device: a decoder that feeds its token back. Whatever
 * batches it runs in, with whomever and on how many threads, it takes the steps up to its end and
 * not one more, with the bits of the same chain that runs on. */
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

static void run_batch(struct rig *rig, struct rig_chain *const *chains, uint32_t n, uint32_t steps,
                      bool interruptible)
{
    struct cell_batch_row rows[CHAINS];
    struct cell_batch batch = {.type = rig->type,
                               .n_rows = n,
                               .steps = steps,
                               .interruptible = interruptible,
                               .attention = &attention,
                               .rows = rows};
    for (uint32_t i = 0; i < n; i++) {
        rows[i] = rig_chain_row(chains[i], steps);
    }
    rig_run(rig, &batch);
    bool any_ended = false;
    uint32_t longest = 0;
    for (uint32_t i = 0; i < n; i++) {
        ck_assert_uint_le(rows[i].steps_done, batch.steps_done);
        ck_assert(rows[i].has_ended || rows[i].steps_done == batch.steps_done ||
                  rows[i].steps_done == rows[i].steps);
        any_ended |= rows[i].has_ended;
        longest = rows[i].steps > longest ? rows[i].steps : longest;
        chains[i]->done += rows[i].steps_done;
        if (rows[i].has_ended) {
            chains[i]->wiring.steps = chains[i]->done;
        }
    }
    // It comes back early only where somebody is to be let go.
    ck_assert(any_ended || batch.steps_done == longest);
}

/* Batches of random chains that have steps left, until none has. */
static void run_all(struct rig *rig, struct rig_chain *chains, struct base_random *random)
{
    for (;;) {
        struct rig_chain *left[CHAINS];
        uint32_t n = 0;
        uint32_t steps = 1 + base_random_below(random, STEPS);
        for (uint32_t i = 0; i < CHAINS; i++) {
            if (chains[i].done < chains[i].wiring.steps) {
                left[n++] = &chains[i];
            }
        }
        if (n == 0) {
            return;
        }
        const uint32_t first = base_random_below(random, n);
        run_batch(rig, left + first, 1 + base_random_below(random, n - first), steps,
                  base_random_below(random, 2) == 0);
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

static void check_ends(const char *isa, uint32_t members, enum cell_dtype dtype)
{
    static struct rig_chain chains[CHAINS];
    static struct cell_end ends[CHAINS];
    uint8_t *wanted[CHAINS][2];
    uint32_t taken[CHAINS];
    struct base_random random;
    struct build build;
    struct rig rig;
    base_random_init(&random, util_seed());
    build_decoder(&build, dtype);
    rig_init(&rig, "cpu", isa, members, &build.def);
    for (uint32_t i = 0; i < CHAINS; i++) {
        rig_chain_init(&chains[i], rig.type, i, STEPS, &random);
    }
    run_all(&rig, chains, &random);
    const size_t bytes[] = {cell_dtype_bytes(dtype), IDS * sizeof(float)};
    for (uint32_t i = 0; i < CHAINS; i++) {
        for (uint32_t o = 0; o < 2; o++) {
            wanted[i][o] = rig_copy(chains[i].outputs[o], STEPS * bytes[o]);
        }
    }
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < CHAINS; i++) {
            memcpy(chains[i].outputs[0], wanted[i][0], STEPS * bytes[0]);
            chains[i].wiring.steps = STEPS;
            chains[i].wiring.end = NULL;
        }
        draw_ends(&rig, chains, ends, taken, &random);
        for (uint32_t i = 0; i < CHAINS; i++) {
            rig_chain_reset(&chains[i], rig.type);
        }
        run_all(&rig, chains, &random);
        for (uint32_t i = 0; i < CHAINS; i++) {
            ck_assert_uint_eq(chains[i].done, taken[i]);
            for (uint32_t o = 0; o < 2; o++) {
                ck_assert_mem_eq(chains[i].outputs[o], wanted[i][o], taken[i] * bytes[o]);
                for (size_t at = taken[i] * bytes[o]; at < STEPS * bytes[o]; at++) {
                    ck_assert_uint_eq(chains[i].outputs[o][at],
                                      0xA5); // as rig_chain_reset() left it
                }
            }
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
        check_ends(isa_name(_i), 0, CELL_I64);
        check_ends(isa_name(_i), 2, CELL_I32);
        check_ends(isa_name(_i), 3, CELL_I64);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("end");
    TCase *tcase = tcase_create("device");
    tcase_set_timeout(tcase, 300);
    tcase_add_loop_test(tcase, test_end_takes_no_step_more, 0, ISA_COUNT);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
