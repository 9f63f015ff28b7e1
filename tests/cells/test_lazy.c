/* Products that only some rows need (cells/cpu/lazy.h): the bits are those of the same cell whose
 * ops are each computed for all rows, on every instruction set and number of threads, whoever
 * needs them in a step: nobody, some, all. And which products those are. */
#include "base/buf.h"
#include "base/mem.h"
#include "tests/cells/isa.h"
#include "tests/cells/oracle_chain.h"
#include "tests/cells/rig.h"
#include "tests/util.h"

#include <string.h>

#define ROWS   37
#define STEPS  9
#define HIDDEN 40
#define WIDTH  21

/* The cells: what decides, and what is left out. */
enum { OF_LSTM, OF_GRU, OF_GRU_BEFORE, OF_RNN, OF_INPUT, CELLS };

static const uint32_t n_lazy[CELLS] = {3, 3, 4, 3, 2};

/* A state that says of each row whether the next step needs its product: it follows an input. */
static void build_flag(struct build *build, uint32_t input, uint32_t state)
{
    const uint32_t half = build_const(build, 1);
    build_next(build, state, build_op(build, CELL_OP_LESS, input, half, 1));
}

/* Where the flag is not above 0 a recurrent cell takes a step, and a product behind it; where it
 * is, another product is wanted. */
static void build_recurrent(struct build *build, uint32_t cell)
{
    const uint32_t input = build_input(build, CELL_F32, 1);
    const uint32_t flag = build_state(build, CELL_F32, 1);
    const uint32_t h = build_state(build, CELL_F32, HIDDEN);
    const uint32_t c = build_state(build, CELL_F32, HIDDEN);
    const uint32_t made = build_state(build, CELL_F32, WIDTH);
    const uint32_t h_next =
        cell == OF_LSTM ? build_lstm(build, made, h, c, true)
        : cell == OF_RNN
            ? build_gated(build, CELL_OP_RNN, CELL_RNN_TANH, made, h, true)
            : build_gated(build, CELL_OP_GRU,
                          cell == OF_GRU ? CELL_GRU_RESET_AFTER : CELL_GRU_RESET_BEFORE, made, h,
                          true);
    const uint32_t c_next = cell == OF_LSTM ? h_next + 1 : c;
    const uint32_t behind = build_linear(build, h_next, WIDTH, true);
    const uint32_t relu = build_op(build, CELL_OP_RELU, behind, UINT32_MAX, WIDTH);
    const uint32_t other = build_linear(build, made, WIDTH, false);
    build_next(build, 1, build_select(build, flag, h, h_next, HIDDEN));
    build_next(build, 2, build_select(build, flag, c, c_next, HIDDEN));
    build_next(build, 3, build_select(build, flag, made, relu, WIDTH));
    build_output(build, build_select(build, flag, other, made, WIDTH));
    build_flag(build, input, 0);
}

/* An input decides; one product is read on both sides, one by an output too. */
static void build_of_input(struct build *build)
{
    const uint32_t flag = build_input(build, CELL_F32, 1);
    const uint32_t x = build_input(build, CELL_F32, WIDTH);
    const uint32_t state = build_state(build, CELL_F32, WIDTH);
    const uint32_t sum = build_op(build, CELL_OP_ADD, x, state, WIDTH);
    const uint32_t above = build_linear(build, sum, WIDTH, true);
    const uint32_t below = build_linear(build, sum, WIDTH, true);
    const uint32_t both = build_linear(build, sum, WIDTH, true);
    const uint32_t shown = build_linear(build, sum, WIDTH, true);
    const uint32_t a = build_op(build, CELL_OP_ADD, above, both, WIDTH);
    const uint32_t b = build_op(build, CELL_OP_MUL, below, both, WIDTH);
    const uint32_t next = build_select(build, flag, a, b, WIDTH);
    build_next(build, 0, build_op(build, CELL_OP_TANH, next, UINT32_MAX, WIDTH));
    build_output(build, build_select(build, flag, shown, x, WIDTH));
    build_output(build, shown);
}

static void build_cell(struct build *build, uint32_t cell)
{
    build_init(build, 20 + cell);
    if (cell == OF_INPUT) {
        build_of_input(build);
    } else {
        build_recurrent(build, cell);
    }
}

/* Rows of which all, none, or by their input some need it. */
static void run(const char *isa, uint32_t members, const struct cell_def *def,
                struct rig_chain *chains)
{
    struct base_random random = util_random(4);
    struct cell_batch_row rows[ROWS];
    struct rig rig;
    rig_init(&rig, "cpu", isa, members, def);
    for (uint32_t r = 0; r < ROWS; r++) {
        rig_chain_init(&chains[r], rig.type, r, STEPS, &random);
        for (uint32_t t = 0; t < STEPS; t++) {
            const float sign = t % 3 == 0   ? -9.0f
                               : t % 3 == 1 ? 9.0f
                                            : base_random_f32(&random, -9.0f, 9.0f);
            memcpy(chains[r].inputs[0] + t * sizeof(sign), &sign, sizeof(sign));
        }
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

static size_t bytes_of(const struct cell_def *def, uint32_t value)
{
    return def->values[value].width * sizeof(float);
}

static void expect_row(const struct cell_def *def, const struct rig_chain *a,
                       const struct rig_chain *b)
{
    for (uint32_t o = 0; o < def->n_outputs; o++) {
        ck_assert_mem_eq(a->outputs[o], b->outputs[o], STEPS * bytes_of(def, def->outputs[o]));
    }
    for (uint32_t s = 0; s < def->n_states; s++) {
        ck_assert_mem_eq(a->final[s], b->final[s], bytes_of(def, def->n_inputs + s));
    }
}

static void expect_same(const struct cell_def *def, const struct rig_chain *a,
                        const struct rig_chain *b)
{
    for (uint32_t r = 0; r < ROWS; r++) {
        expect_row(def, &a[r], &b[r]);
    }
}

/* _i: the cell. */
START_TEST(test_rows_that_need_nothing_change_nothing)
{
    static struct rig_chain wanted[ROWS];
    static struct rig_chain got[ROWS];
    struct build build;
    build_cell(&build, (uint32_t)_i);
    build.def.as_written = true;
    run("scalar", 0, &build.def, wanted);
    for (uint32_t r = 0; r < ROWS; r++) {
        oracle_check_chain(&build.def, &wanted[r], 1e-4);
    }
    build.def.as_written = false;
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        for (uint32_t members = 0; members <= 2 && isa_at(isa) != NULL; members += 2) {
            run(isa_name(isa), members, &build.def, got);
            expect_same(&build.def, got, wanted);
            release(got);
        }
    }
    release(wanted);
    build_release(&build);
}
END_TEST

static uint32_t count_lazy(const struct cell_def *def)
{
    struct base_buf text;
    struct rig rig;
    uint32_t n = 0;
    base_buf_init(&text, 1 << 16);
    rig_init(&rig, "cpu", NULL, 0, def);
    rig.backend->type_explain(rig.device, rig.type, &text);
    for (const char *at = text.data; (at = strstr(at, "of rows that need it")) != NULL; at++) {
        n++;
    }
    rig_release(&rig);
    base_buf_release(&text);
    return n;
}

/* _i: the cell. Of one that is to be computed as written, none. */
START_TEST(test_products_that_some_rows_need)
{
    struct build build;
    build_cell(&build, (uint32_t)_i);
    ck_assert_uint_eq(count_lazy(&build.def), n_lazy[_i]);
    build.def.as_written = true;
    ck_assert_uint_eq(count_lazy(&build.def), 0);
    build_release(&build);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("lazy");
    TCase *tcase = tcase_create("lazy");
    tcase_add_loop_test(tcase, test_rows_that_need_nothing_change_nothing, 0, CELLS);
    tcase_add_loop_test(tcase, test_products_that_some_rows_need, 0, CELLS);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
