/* PICK on the CPU device and the CUDA device over a host's driver: rows that go through memories of
 * their own lengths at paces of their own, the same bits on every instruction set, device and
 * number of threads; numbers that name no row; and what is no definition. */
#include "base/mem.h"
#include "tests/cells/isa.h"
#include "tests/cells/oracle_chain.h"
#include "tests/cells/rig.h"
#include "tests/util.h"

#include <math.h>
#include <string.h>

#define STEPS 12
#define WIDTH 5

/* Rows that each memory has: none, one, as many as there are steps, and more. */
static const uint32_t lengths[] = {0, 1, 3, 12, 40};
enum { ROWS = sizeof(lengths) / sizeof(lengths[0]) };

enum { OUT_ROW, OUT_SUM, OUTPUTS };

/* Where a row stands in its memory moves on by its pace: output 0 is the row there, which is the
 * next state of another, output 1 a product of it. */
static void build_walk(struct build *build)
{
    build_init(build, 3);
    const uint32_t memory = build_input(build, CELL_F32, WIDTH);
    const uint32_t at = build_state(build, CELL_F32, 1);
    const uint32_t pace = build_state(build, CELL_F32, 1);
    const uint32_t before = build_state(build, CELL_F32, WIDTH);
    const uint32_t next = build_op(build, CELL_OP_ADD, at, pace, 1);
    const uint32_t row = build_op(build, CELL_OP_PICK, memory, at, WIDTH);
    const uint32_t both = build_op(build, CELL_OP_ADD, row, before, WIDTH);
    const uint32_t sum = build_linear(build, both, 33, true);
    build_next(build, 0, next);
    build_next(build, 2, row); // the pace stays
    build_output(build, row);
    build_output(build, sum);
}

static void set_state(struct rig_chain *chain, uint32_t state, float value)
{
    memcpy(chain->init[state], &value, sizeof(value));
}

static void run(const char *backend, const char *isa, uint32_t members, const struct build *build,
                struct rig_chain *chains)
{
    struct base_random random = util_random(4);
    struct cell_batch_row rows[ROWS];
    struct rig rig;
    rig_init(&rig, backend, isa, members, &build->def);
    for (uint32_t r = 0; r < ROWS; r++) {
        rig_chain_init(&chains[r], rig.type, r, STEPS + lengths[r], &random);
        chains[r].wiring.steps = STEPS;
        chains[r].wiring.inputs[0].rows = lengths[r];
        set_state(&chains[r], 0, r == 4 ? 39.0f : 0.0f);
        set_state(&chains[r], 1, r == 3 ? 0.5f : r == 4 ? -4.0f : 1.0f);
        rows[r] = rig_chain_row(&chains[r], STEPS);
    }
    struct cell_batch batch = {.n_rows = ROWS, .steps = STEPS, .rows = rows};
    rig_run(&rig, &batch);
    rig_release(&rig);
}

static void release(struct rig_chain *chains)
{
    for (uint32_t r = 0; r < ROWS; r++) {
        rig_chain_release(&chains[r]);
    }
}

static const uint8_t *row_of(const uint8_t *rows, uint32_t t)
{
    return rows + (size_t)t * WIDTH * sizeof(float);
}

/* Which row of its memory row r of the batch has to find at step t. */
static uint32_t found(uint32_t r, uint32_t t)
{
    const uint32_t last = lengths[r] > 0 ? lengths[r] - 1 : 0;
    const uint32_t back = t < 10 ? 39 - 4 * t : 0;
    const uint32_t at = r == 3 ? t / 2 : r == 4 ? back : t;
    return at < last ? at : last;
}

/* By what each has to find, whatever the device. */
static void expect_rows(const struct rig_chain *chains)
{
    static const float zeros[WIDTH];
    for (uint32_t i = 0; i < ROWS * STEPS; i++) {
        const uint32_t r = i / STEPS;
        const uint32_t t = i % STEPS;
        const void *wanted =
            lengths[r] == 0 ? (const void *)zeros : row_of(chains[r].inputs[0], found(r, t));
        ck_assert_mem_eq(row_of(chains[r].outputs[OUT_ROW], t), wanted, WIDTH * sizeof(float));
    }
}

static void expect_same(const struct rig_chain *a, const struct rig_chain *b)
{
    for (uint32_t r = 0; r < ROWS; r++) {
        ck_assert_mem_eq(a[r].outputs[OUT_SUM], b[r].outputs[OUT_SUM], STEPS * 33 * sizeof(float));
        ck_assert_mem_eq(a[r].final[2], b[r].final[2], WIDTH * sizeof(float));
    }
}

START_TEST(test_rows_walk_through_their_own)
{
    static struct rig_chain wanted[ROWS];
    static struct rig_chain got[ROWS];
    struct build build;
    build_walk(&build);
    run("cpu", "scalar", 0, &build, wanted);
    expect_rows(wanted);
    for (uint32_t r = 0; r < ROWS; r++) {
        oracle_check_chain(&build.def, &wanted[r], 1e-5);
    }
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        for (uint32_t members = 0; members <= 2 && isa_at(isa) != NULL; members += 2) {
            run("cpu", isa_name(isa), members, &build, got);
            expect_rows(got);
            expect_same(got, wanted);
            release(got);
        }
    }
    run("cuda-host", NULL, 0, &build, got);
    expect_rows(got);
    expect_same(got, wanted);
    release(got);
    release(wanted);
    build_release(&build);
}
END_TEST

/* _i: the device. */
START_TEST(test_any_number_is_that_of_a_row)
{
    static const struct {
        float number;
        uint32_t row;
    } cases[] = {{-INFINITY, 0}, {-1.0f, 0}, {-0.0f, 0}, {0.9f, 0},     {1.0f, 1}, {2.99f, 2},
                 {3.0f, 2},      {1e9f, 2},  {1e30f, 2}, {INFINITY, 2}, {NAN, 0},  {1e-30f, 0}};
    enum { CASES = sizeof(cases) / sizeof(cases[0]) };
    struct base_random random = util_random(5);
    struct build build;
    struct rig rig;
    struct rig_chain chain;
    build_init(&build, 4);
    const uint32_t memory = build_input(&build, CELL_F32, WIDTH);
    const uint32_t number = build_input(&build, CELL_F32, 1);
    build_output(&build, build_op(&build, CELL_OP_PICK, memory, number, WIDTH));
    rig_init(&rig, _i == 0 ? "cpu" : "cuda-host", NULL, 0, &build.def);
    rig_chain_init(&chain, rig.type, 0, CASES, &random);
    chain.wiring.inputs[0].rows = 3;
    for (uint32_t c = 0; c < CASES; c++) {
        memcpy(chain.inputs[1] + c * sizeof(float), &cases[c].number, sizeof(float));
    }
    for (uint32_t c = 0; c < CASES; c++) {
        struct cell_batch_row row = {.wiring = &chain.wiring, .first_step = c, .steps = 1};
        struct cell_batch batch = {.n_rows = 1, .steps = 1, .rows = &row};
        rig_run(&rig, &batch);
        ck_assert_mem_eq(row_of(chain.outputs[0], c), row_of(chain.inputs[0], cases[c].row),
                         WIDTH * sizeof(float));
    }
    rig_chain_release(&chain);
    rig_release(&rig);
    build_release(&build);
}
END_TEST

static void expect_refused(const struct build *build, const char *message)
{
    struct base_error error;
    ck_assert_int_eq(cell_def_check(&build->def, &error), BASE_INVALID_ARGUMENT);
    ck_assert_str_eq(error.message, message);
}

START_TEST(test_what_picks_nothing_is_no_definition)
{
    struct build build;
    build_walk(&build);
    ck_assert_int_eq(cell_def_check(&build.def, NULL), BASE_OK);
    ck_assert(cell_def_input_has_rows(&build.def, 0));
    struct cell_op *pick = &build.def.ops[1];
    const char *shapes = "op 1 (PICK): K or the number is not f32, or the result not as wide as K";
    pick->operands[0] = 1;
    expect_refused(&build, "op 1 (PICK): K is not an input");
    pick->operands[0] = 0;
    pick->operands[1] = 3; // WIDTH elements
    expect_refused(&build, shapes);
    pick->operands[1] = 1;
    build.def.values[pick->result].width = WIDTH - 1;
    expect_refused(&build, shapes);
    build.def.values[pick->result].width = WIDTH;
    build.def.outputs[0] = 0;
    expect_refused(&build, "input 0: one op takes it for many rows, another for one");
    build_release(&build);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pick");
    TCase *tcase = tcase_create("pick");
    tcase_add_test(tcase, test_rows_walk_through_their_own);
    tcase_add_loop_test(tcase, test_any_number_is_that_of_a_row, 0, 2);
    tcase_add_test(tcase, test_what_picks_nothing_is_no_definition);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
