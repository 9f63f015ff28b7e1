/* Cells that members of a team take one by one (cells/cpu/taking.h): which batches are run so, and
 * that the answers are those of one thread, whoever comes late. test_spans has what such a cell may
 * read and write. */
#include "base/mem.h"
#include "cells/cpu/device.h"
#include "cells/cpu/program.h"
#include "tests/cells/rig.h"
#include "tests/cells/team.h"
#include "tests/util.h"

#include <stdatomic.h>
#include <string.h>

enum { CELLS_MAX = 40, LATE_US = 3000 };

/* What is about pictures, the second with more weights than values; and what of it is not taken. */
enum { PICTURES, HEAVY, TAKEN, WIDE = TAKEN, WITH_STATE, NO_PICTURE, KINDS };

static const struct cell_picture picture = {.size = {6, 5},
                                            .taps = {3, 3},
                                            .dilations = {1, 1},
                                            .strides = {1, 1},
                                            .before = {1, 1},
                                            .left = {6, 5}};

static const struct cell_picture small = {.size = {2, 2},
                                          .taps = {3, 3},
                                          .dilations = {1, 1},
                                          .strides = {1, 1},
                                          .before = {1, 1},
                                          .left = {2, 2}};

static uint32_t build_front(struct build *build, uint32_t kind, uint32_t x)
{
    return kind == NO_PICTURE ? build_op(build, CELL_OP_TANH, x, UINT32_MAX, 60)
           : kind == HEAVY    ? build_picture(build, x, &small, 64)
                              : build_picture(build, x, &picture, 3);
}

static void build_cell(struct build *build, uint32_t kind)
{
    build_init(build, 5);
    const uint32_t x = build_input(build, CELL_F32, 60);
    const uint32_t h = kind == WITH_STATE ? build_state(build, CELL_F32, 30) : 0;
    uint32_t of = build_front(build, kind, x);
    of = build_op(build, CELL_OP_RELU, of, UINT32_MAX, build->def.values[of].width);
    if (kind == WIDE) { // its weights are more than its values
        of = build_linear(build, of, 64, true);
    }
    if (kind == WITH_STATE) {
        of = build_gated(build, CELL_OP_GRU, CELL_GRU_RESET_AFTER, of, h, true);
        build_next(build, 0, of);
    }
    build_output(build, of);
}

static struct rig_chain chains[CELLS_MAX];

/* One step of n chains. */
static void run(struct rig *rig, uint32_t n)
{
    struct cell_batch_row rows[CELLS_MAX];
    for (uint32_t c = 0; c < n; c++) {
        rig_chain_reset(&chains[c], rig->type);
        rows[c] = rig_chain_row(&chains[c], 1);
    }
    struct cell_batch batch = {.rows = rows, .n_rows = n, .steps = 1};
    rig_run(rig, &batch);
    ck_assert_uint_eq(batch.steps_done, 1);
    for (uint32_t c = 0; c < n; c++) {
        ck_assert_uint_eq(rows[c].steps_done, 1);
    }
}

static size_t output_bytes(const struct rig *rig)
{
    const struct cell_def *def = &rig->type->def;
    return def->values[def->outputs[0]].width * sizeof(float);
}

static const struct cell_taking *taking_of(const struct rig *rig)
{
    const struct cell_program *program = cell_cpu__program(rig->device, rig->type);
    return program->taking == NULL ? NULL : program->taking[0];
}

static uint32_t next_of(const struct rig *rig)
{
    return atomic_load_explicit(&taking_of(rig)->next, memory_order_relaxed);
}

static void init_chains(const struct rig *rig)
{
    struct base_random random = util_random(3);
    for (uint32_t c = 0; c < CELLS_MAX; c++) {
        rig_chain_init(&chains[c], rig->type, c, 1, &random);
    }
}

static void release_chains(void)
{
    for (uint32_t c = 0; c < CELLS_MAX; c++) {
        rig_chain_release(&chains[c]);
    }
}

/* _i: 2 or 3 members, and what; each of them late in turn, and nobody. */
START_TEST(test_taken_cells_are_those_of_one_thread)
{
    const uint32_t members = 2 + (uint32_t)_i / TAKEN;
    static uint8_t *wanted[CELLS_MAX];
    struct build build;
    struct rig alone;
    struct rig rig;
    build_cell(&build, (uint32_t)_i % TAKEN);
    rig_init(&alone, "cpu", NULL, 0, &build.def);
    ck_assert_ptr_null(taking_of(&alone));
    init_chains(&alone);
    run(&alone, CELLS_MAX);
    for (uint32_t c = 0; c < CELLS_MAX; c++) {
        wanted[c] = rig_copy(chains[c].outputs[0], output_bytes(&alone));
    }
    rig_init(&rig, "cpu", NULL, members, &build.def);
    for (uint32_t late = 0; late <= members; late++) {
        for (uint32_t n = members; n <= CELLS_MAX; n += n < 8 ? 1 : 16) {
            if (late < members) {
                team_delay(rig.team, late, LATE_US);
            }
            run(&rig, n);
            ck_assert_uint_ge(next_of(&rig), n);
            for (uint32_t c = 0; c < n; c++) {
                ck_assert_mem_eq(chains[c].outputs[0], wanted[c], output_bytes(&rig));
            }
        }
    }
    for (uint32_t c = 0; c < CELLS_MAX; c++) {
        base_free(wanted[c]);
    }
    release_chains();
    rig_release(&rig);
    rig_release(&alone);
    build_release(&build);
}
END_TEST

/* Fewer cells than members: each op is shared out. */
START_TEST(test_few_cells_are_not_taken)
{
    struct build build;
    struct rig rig;
    build_cell(&build, PICTURES);
    rig_init(&rig, "cpu", NULL, 3, &build.def);
    init_chains(&rig);
    for (uint32_t n = 1; n < 3; n++) {
        run(&rig, n);
        ck_assert_uint_eq(next_of(&rig), 0);
    }
    run(&rig, 3);
    ck_assert_uint_ge(next_of(&rig), 3);
    release_chains();
    rig_release(&rig);
    build_release(&build);
}
END_TEST

/* _i: what of pictures. */
START_TEST(test_whose_cells_are_taken)
{
    struct build build;
    struct rig rig;
    build_cell(&build, (uint32_t)_i);
    rig_init(&rig, "cpu", NULL, 2, &build.def);
    ck_assert((taking_of(&rig) != NULL) == (_i < TAKEN));
    ck_assert_uint_eq(cell_cpu__program(rig.device, rig.type)->rows_least, _i == PICTURES ? 1 : 16);
    rig_release(&rig);
    build_release(&build);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("taking");
    TCase *tcase = tcase_create("taking");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, test_taken_cells_are_those_of_one_thread, 0, 2 * TAKEN);
    tcase_add_test(tcase, test_few_cells_are_not_taken);
    tcase_add_loop_test(tcase, test_whose_cells_are_taken, 0, KINDS);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
