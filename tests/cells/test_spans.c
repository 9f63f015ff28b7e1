/* Batches of one step whose rows are spans (cells/batch.h): steps of chains without a state, side
 * by side, wherever they read and write, cut anywhere. They have the bits of as many rows of one
 * step, and write where those do and nowhere else. */
#include "base/mem.h"
#include "tests/cells/isa.h"
#include "tests/cells/rig.h"
#include "tests/cells/team.h"
#include "tests/util.h"

#include <string.h>

enum { CHAINS = 3, STEPS = 90, WIDEST = 24, GAP = 3, ENDS = 2, MANY = 100 };

/* What the cell is: where its rows can become one long row, and where they cannot. */
enum cell { ONES, ROWS, BIAS, PRODUCT, ATTENDS, PICTURE, CELLS };
static const uint32_t widths[CELLS] = {1, WIDEST, 7, 5, 4, 12};

/* Inputs of each cell: of each step, and one element and one row for all of them. */
enum { X, SCALE, SHIFT, INPUTS };

static void build_cell(struct build *build, enum cell cell)
{
    const uint32_t width = widths[cell];
    build_init(build, 7);
    const uint32_t x = build_input(build, CELL_F32, width);
    const uint32_t scale = build_input(build, CELL_F32, 1);
    const uint32_t shift = build_input(build, CELL_F32, cell == ROWS ? 1 : width);
    uint32_t of = build_op(build, CELL_OP_MUL, x, scale, width);
    if (cell == ATTENDS) {
        const uint32_t one = build_op(build, CELL_OP_ATTEND, of, shift, width);
        struct cell_op *op = build_last(build);
        op->operands[op->n_operands++] = shift;
        op->n_weights = 1;
        op->weights[0] = (struct cell_weight){CELL_F32, 1, width, build_floats(build, 1, width, 1)};
        of = one;
    } else {
        of = build_op(build, CELL_OP_SUB, of, shift, width);
    }
    if (cell == PICTURE) { // whole cells are taken by members of a team
        static const struct cell_picture picture = {.size = {2, 3},
                                                    .taps = {2, 3},
                                                    .dilations = {1, 1},
                                                    .strides = {1, 1},
                                                    .before = {1, 1},
                                                    .left = {2, 3}};
        of = build_picture(build, of, &picture, 2);
    }
    if (cell == BIAS) {
        of = build_op(build, CELL_OP_ADD, of, build_const(build, width), width);
    }
    const uint32_t out = build_op(build, CELL_OP_TANH, of, UINT32_MAX, width);
    build_output(build, out);
    build_output(build, cell == PRODUCT ? build_linear(build, out, width, true)
                                        : build_op(build, CELL_OP_MAX, of, scale, width));
}

/* A chain, and what was written to each end, by its emits. */
struct chain {
    struct cell_wiring wiring;
    struct cell_refs refs;
    struct cell_emit emits[MANY];
    float in[STEPS * (WIDEST + GAP)], scale, shift[4 * WIDEST];
    float out[MANY][STEPS * (WIDEST + GAP)];
};

static struct chain chains[CHAINS], wanted[CHAINS];

static void fill(struct base_random *random, float *to, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        to[i] = base_random_f32(random, -2.0f, 2.0f);
    }
}

/* Rows of all steps in `rows`: behind each other, with something between, or backwards. */
static struct cell_ref steps_of(float *rows, uint32_t width, struct base_random *random)
{
    const uint32_t stride = width + (base_random_below(random, 3) == 0 ? GAP : 0);
    const int64_t bytes = stride * (int64_t)sizeof(float);
    if (base_random_below(random, 4) == 0) {
        return (struct cell_ref){.kind = CELL_REF_HOST,
                                 .host = (uint8_t *)(rows + (STEPS - 1) * (size_t)stride),
                                 .stride_bytes = -bytes};
    }
    return (struct cell_ref){.kind = CELL_REF_HOST, .host = (uint8_t *)rows, .stride_bytes = bytes};
}

static uint32_t value_row(uint32_t chain, uint32_t output)
{
    return chain * ENDS + output;
}

/* Whatever a chain of this cell can be wired to; extra: emits behind the usual ones. */
static void draw(struct chain *chain, uint32_t number, enum cell cell, uint32_t extra,
                 struct base_random *random)
{
    const uint32_t width = widths[cell];
    memset(chain, 0, sizeof(*chain));
    cell_wiring_use(&chain->wiring, &chain->refs);
    chain->wiring.steps = 1 + base_random_below(random, STEPS);
    chain->wiring.state = CELL_ROW_NONE;
    chain->wiring.emits = chain->emits;
    fill(random, chain->in, sizeof(chain->in) / sizeof(float));
    fill(random, &chain->scale, 1);
    fill(random, chain->shift, 4 * WIDEST);
    chain->refs.inputs[X] = steps_of(chain->in, width, random);
    chain->refs.inputs[SCALE] =
        (struct cell_ref){.kind = CELL_REF_HOST, .host = (uint8_t *)&chain->scale};
    chain->refs.inputs[SHIFT] =
        base_random_below(random, 4) == 0
            ? (struct cell_ref){.kind = CELL_REF_ZERO}
            : (struct cell_ref){.kind = CELL_REF_HOST, .host = (uint8_t *)chain->shift};
    if (cell == ATTENDS && chain->refs.inputs[SHIFT].kind == CELL_REF_HOST) {
        chain->refs.inputs[SHIFT].rows = 4;
        chain->refs.inputs[SHIFT].stride_bytes = (int64_t)(width * sizeof(float));
    }
    const uint32_t n = 3 + extra;
    memset(chain->out, 0x7f, sizeof(chain->out));
    for (uint32_t e = 0; e < n; e++) {
        chain->emits[chain->wiring.n_emits++] = (struct cell_emit){
            CELL_EMIT_OUTPUT,
            e < 2 || extra > 0 ? CELL_EMIT_EACH : (enum cell_emit_when)base_random_below(random, 3),
            e % 2, steps_of(chain->out[e], width, random)};
    }
    if (base_random_below(random, 2) == 0) {
        const uint32_t o = base_random_below(random, 2);
        chain->emits[chain->wiring.n_emits++] =
            (struct cell_emit){CELL_EMIT_OUTPUT,
                               base_random_below(random, 2) == 0 ? CELL_EMIT_FIRST : CELL_EMIT_LAST,
                               o,
                               {.kind = CELL_REF_VALUE, .row = value_row(number, o)}};
    }
}

static void run_rows(struct rig *rig, struct cell_batch_row *rows, uint32_t n)
{
    struct cell_batch batch = {.rows = rows, .n_rows = n, .steps = 1};
    if (n > 0) {
        rig_run(rig, &batch);
        ck_assert_uint_eq(batch.steps_done, 1);
    }
    for (uint32_t r = 0; r < n; r++) {
        ck_assert_uint_eq(rows[r].steps_done, rows[r].steps);
    }
}

/* All steps of the chains, a row each, in batches of some. */
static void run_apart(struct rig *rig)
{
    struct cell_batch_row rows[STEPS];
    for (uint32_t c = 0; c < CHAINS; c++) {
        const uint32_t steps = chains[c].wiring.steps;
        for (uint32_t t = 0; t < steps; t++) {
            rows[t] =
                (struct cell_batch_row){.wiring = &chains[c].wiring, .first_step = t, .steps = 1};
        }
        run_rows(rig, rows, steps);
    }
}

/* The same as spans that are cut anywhere; those of all chains in one batch. */
static void run_spans(struct rig *rig, struct base_random *random)
{
    uint32_t done[CHAINS] = {0};
    for (bool is_over = false; !is_over;) {
        struct cell_batch_row rows[CHAINS];
        uint32_t n = 0;
        for (uint32_t c = 0; c < CHAINS; c++) {
            const uint32_t left = chains[c].wiring.steps - done[c];
            const uint32_t some = left == 0 ? 0 : 1 + base_random_below(random, left);
            const uint32_t steps = chains[c].wiring.n_emits >= MANY - 1 ? left : some;
            if (steps > 0) {
                rows[n++] = (struct cell_batch_row){
                    .wiring = &chains[c].wiring, .first_step = done[c], .steps = steps};
                done[c] += steps;
            }
        }
        run_rows(rig, rows, n);
        is_over = n == 0;
    }
}

static void read_values(struct rig *rig, float values[CHAINS][ENDS][WIDEST])
{
    memset(values, 0, CHAINS * sizeof(values[0]));
    for (uint32_t c = 0; c < CHAINS; c++) {
        for (uint32_t e = 0; e < chains[c].wiring.n_emits; e++) {
            const struct cell_emit *emit = &chains[c].emits[e];
            if (emit->to.kind == CELL_REF_VALUE) {
                rig->backend->row_read(rig->device, rig->type->output_layouts[emit->index],
                                       emit->to.row, 0, 0, values[c][emit->index]);
            }
        }
    }
}

static void compare(struct rig *rig, struct base_random *random)
{
    static float values[2][CHAINS][ENDS][WIDEST];
    run_apart(rig);
    read_values(rig, values[0]);
    for (uint32_t c = 0; c < CHAINS; c++) {
        memcpy(wanted[c].out, chains[c].out, sizeof(chains[c].out));
        memset(chains[c].out, 0x7f, sizeof(chains[c].out));
    }
    run_spans(rig, random);
    read_values(rig, values[1]);
    ck_assert_mem_eq(values[1], values[0], sizeof(values[0]));
    for (uint32_t c = 0; c < CHAINS; c++) {
        for (uint32_t e = 0; e < MANY; e++) {
            const uint8_t *got = (const uint8_t *)chains[c].out[e]; // what is not written, too
            const uint8_t *want = (const uint8_t *)wanted[c].out[e];
            ck_assert_msg(memcmp(got, want, sizeof(wanted[c].out[e])) == 0,
                          "chain %u of %u steps, emit %u", c, chains[c].wiring.steps, e);
        }
    }
}

static void try_cell(const char *isa, uint32_t members, enum cell cell)
{
    struct build build;
    struct rig rig;
    struct cell_device_caps caps;
    struct base_random random = util_random(13);
    build_cell(&build, cell);
    rig_init(&rig, "cpu", isa, members, &build.def);
    rig.backend->caps(rig.device, &caps);
    ck_assert(caps.spans);
    for (uint32_t i = 0; i < 40; i++) {
        const uint32_t extra = i % 10 == 9 ? MANY - 4 : 0; // more copies than there is room for
        for (uint32_t c = 0; c < CHAINS; c++) {
            draw(&chains[c], c, cell, extra, &random);
        }
        compare(&rig, &random);
    }
    rig_release(&rig);
    build_release(&build);
}

/* _i: of cells. */
START_TEST(test_spans_are_rows_side_by_side)
{
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        for (uint32_t members = 0; members <= 2 && isa_at(isa) != NULL; members += 2) {
            try_cell(isa_name(isa), members, (enum cell)_i);
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("spans");
    TCase *tcase = tcase_create("spans");
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, test_spans_are_rows_side_by_side, 0, CELLS);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
