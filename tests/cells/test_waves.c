/* Waves: ops between two barriers are shared out together, evenly, each panel to one member; and a
 * cell of many small products has the same bits with any number of members. */
#include "base/mem.h"
#include "cells/cpu/panels.h"
#include "cells/type.h"
#include "tests/cells/rig.h"
#include "tests/util.h"

#include <string.h>

enum { OPS_MAX = 12, PANELS_MAX = 40, STEPS = 6 };

/* ---- Sharing -------------------------------------------------------------------------------- */

/* Computes who has which panels of all ops: each has an owner, each member what it costs it. last:
 * what the last panel of an op costs. */
static void check_shares(const struct cell_wave *waves, const uint32_t *n_panels,
                         const uint64_t *last, uint32_t n_ops, uint32_t members)
{
    uint64_t most_panel = 0;
    uint64_t total = 0;
    uint64_t cost[16] = {0};
    for (uint32_t o = 0; o < n_ops; o++) {
        uint32_t next = 0;
        total += (n_panels[o] - 1) * waves[o].panel + last[o];
        most_panel = waves[o].panel > most_panel ? waves[o].panel : most_panel;
        for (uint32_t m = 0; m < members; m++) {
            struct cell_run run = {.members = members};
            struct cell_view view = {.run = &run, .member = m};
            uint32_t first = 0;
            uint32_t end = 0;
            cell_panels_share(&view, &waves[o], n_panels[o], &first, &end);
            ck_assert_uint_eq(first, next);
            ck_assert_uint_le(first, end);
            cost[m] += (end - first) * waves[o].panel;
            cost[m] -= first < end && end == n_panels[o] ? waves[o].panel - last[o] : 0;
            next = end;
        }
        ck_assert_uint_eq(next, n_panels[o]);
    }
    for (uint32_t m = 0; m < members; m++) {
        ck_assert_uint_le(cost[m], total / members + most_panel + 1);
    }
}

START_TEST(test_waves_are_shared_out_evenly)
{
    struct base_random random = util_random((uint64_t)_i);
    struct cell_wave waves[OPS_MAX];
    uint32_t n_panels[OPS_MAX];
    uint64_t last[OPS_MAX];
    for (uint32_t round = 0; round < 500; round++) {
        const uint32_t n_ops = 1 + base_random_below(&random, OPS_MAX);
        uint64_t total = 0;
        for (uint32_t o = 0; o < n_ops; o++) {
            n_panels[o] = 1 + base_random_below(&random, PANELS_MAX);
            waves[o] =
                (struct cell_wave){.before = total, .panel = 1 + base_random_below(&random, 70000)};
            last[o] = waves[o].panel / (1 + base_random_below(&random, 2) * 3);
            total += (n_panels[o] - 1) * waves[o].panel + last[o];
        }
        for (uint32_t o = 0; o < n_ops; o++) {
            waves[o].total = total;
        }
        check_shares(waves, n_panels, last, n_ops, 1 + base_random_below(&random, 16));
    }
}
END_TEST

/* ---- Programs ------------------------------------------------------------------------------- */

/* n products of 20 columns, each a panel, of x and of h in turn; their sum becomes h. */
static void build_small_products(struct build *build, uint32_t n)
{
    build_init(build, n);
    uint32_t x = build_input(build, CELL_F32, 30);
    uint32_t h = build_state(build, CELL_F32, 20);
    uint32_t sum = UINT32_MAX;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t one = build_linear(build, i % 2 == 0 ? x : h, 20, true);
        sum = sum == UINT32_MAX ? one : build_op(build, CELL_OP_ADD, sum, one, 20);
    }
    sum = build_op(build, CELL_OP_TANH, sum, UINT32_MAX, 20);
    build_next(build, 0, sum);
    build_output(build, sum);
}

struct made {
    struct cell_registry *registry;
    struct cell_program *program;
};

static void make(const struct cell_def *def, struct made *out)
{
    struct base_error error;
    const struct cell_type *type = NULL;
    bool is_new = false;
    const uint32_t members = 4;
    const struct cell_program_queues queues = {.n = 1, .n_members = &members, .batches = 1};
    ck_assert_int_eq(cell_registry_create(&out->registry), BASE_OK);
    ck_assert_int_eq(cell_registry_intern(out->registry, def, "test", &type, &is_new, &error),
                     BASE_OK);
    ck_assert_int_eq(
        cell_program_create(type, &cell_kernels__scalar, &queues, &out->program, &error), BASE_OK);
}

static void unmake(struct made *made)
{
    cell_program_free(made->program);
    cell_registry_free(made->registry);
}

/* All products are one wave, in which those of x, which windows keep, are left out where there are
 * any. */
START_TEST(test_waves_hold_products_that_wait_for_nothing)
{
    struct build build;
    struct made made;
    build_small_products(&build, 8);
    make(&build.def, &made);
    uint64_t before[2] = {0, 0};
    for (uint32_t o = 0; o < made.program->n_ops; o++) {
        const struct cell_program_op *op = &made.program->ops[o];
        if (op->kind != CELL_OP_LINEAR) {
            continue;
        }
        uint64_t cost = op->wave[0].panel * op->linear.panels;
        ck_assert_uint_eq(op->wave[0].before, before[0]);
        ck_assert_uint_eq(op->wave[0].total, UINT64_C(4) * 20 * (30 + 20));
        ck_assert_uint_eq(op->wave[1].before, before[1]);
        ck_assert_uint_eq(op->wave[1].total, UINT64_C(4) * 20 * 20);
        ck_assert_uint_eq(cost, op->linear.inputs * UINT64_C(20));
        before[0] += cost;
        before[1] += op->is_only_ahead ? 0 : cost;
    }
    ck_assert_uint_eq(before[0], UINT64_C(4) * 20 * (30 + 20));
    unmake(&made);
    build_release(&build);
}
END_TEST

/* What must wait for a barrier is another wave. */
START_TEST(test_waves_end_at_barriers)
{
    struct build build;
    struct made made;
    build_init(&build, 3);
    uint32_t h = build_state(&build, CELL_F32, 20);
    uint32_t first = build_linear(&build, h, 40, true);
    uint32_t second = build_linear(&build, first, 20, true);
    build_next(&build, 0, second);
    build_output(&build, second);
    make(&build.def, &made);
    ck_assert_uint_eq(made.program->n_ops, 2);
    for (uint32_t o = 0; o < 2; o++) {
        const struct cell_program_op *op = &made.program->ops[o];
        ck_assert(op->barrier_before == (o == 1));
        ck_assert_uint_eq(op->wave[0].before, 0);
        ck_assert_uint_eq(op->wave[0].total, op->wave[0].panel * op->linear.panels);
    }
    unmake(&made);
    build_release(&build);
}
END_TEST

/* ---- Bits ----------------------------------------------------------------------------------- */

/* What the output of some chains is, one behind another. */
static uint8_t *run_chains(const struct cell_def *def, const char *isa, uint32_t members,
                           size_t *bytes)
{
    enum { CHAINS = 9 };
    struct rig rig;
    struct rig_chain chains[CHAINS];
    struct cell_batch_row rows[CHAINS];
    struct base_random random = util_random(11);
    rig_init(&rig, "cpu", isa, members, def);
    for (uint32_t c = 0; c < CHAINS; c++) {
        rig_chain_init(&chains[c], rig.type, c, STEPS, &random);
        rows[c] = rig_chain_row(&chains[c], STEPS);
    }
    struct cell_batch batch = {.type = rig.type, .n_rows = CHAINS, .steps = STEPS, .rows = rows};
    rig_run(&rig, &batch);
    const size_t one = (size_t)STEPS * 20 * sizeof(float);
    uint8_t *out = base_alloc(CHAINS * one);
    ck_assert_ptr_nonnull(out);
    for (uint32_t c = 0; c < CHAINS; c++) {
        memcpy(out + c * one, chains[c].outputs[0], one);
        rig_chain_release(&chains[c]);
    }
    rig_release(&rig);
    *bytes = CHAINS * one;
    return out;
}

START_TEST(test_waves_have_the_bits_of_one_member)
{
    static const uint32_t members[] = {2, 3, 5};
    struct build build;
    size_t bytes = 0;
    build_small_products(&build, 40); // long enough for more than one member
    uint8_t *alone = run_chains(&build.def, "scalar", 1, &bytes);
    uint8_t *shared = run_chains(&build.def, NULL, members[_i], &bytes);
    ck_assert_mem_eq(alone, shared, bytes);
    base_free(alone);
    base_free(shared);
    build_release(&build);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("waves");
    TCase *tcase = tcase_create("waves");
    tcase_add_loop_test(tcase, test_waves_are_shared_out_evenly, 0, 4);
    tcase_add_test(tcase, test_waves_hold_products_that_wait_for_nothing);
    tcase_add_test(tcase, test_waves_end_at_barriers);
    tcase_add_loop_test(tcase, test_waves_have_the_bits_of_one_member, 0, 3);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
