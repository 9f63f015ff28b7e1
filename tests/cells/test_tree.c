/* TreeLSTM cells on the CPU device: every form, precision, instruction set and team against one row
 * at a time in scalar code, bit by bit; against double precision; and small trees of nodes that
 * read each other's value rows. */
#include "cells/backend.h"

#include "base/mem.h"
#include "tests/cells/isa.h"
#include "tests/cells/oracle.h"
#include "tests/cells/rig.h"
#include "tests/util.h"

#include <math.h>
#include <string.h>

enum { ROWS = 17, INPUTS = 70, HIDDEN = 130, PRECISIONS = 3 }; // enough work for a team of two

/* A cell: children; x as wide as the units are, or not. */
struct form {
    enum cell_op_kind kind;
    uint32_t n_children;
    bool has_x, has_bias;
};

static const struct form forms[] = {
    {CELL_OP_TREE_LEAF, 0, true, true},     {CELL_OP_TREE_LEAF, 0, true, false},
    {CELL_OP_TREE_BINARY, 2, true, true},   {CELL_OP_TREE_BINARY, 2, false, true},
    {CELL_OP_TREE_BINARY, 2, false, false}, {CELL_OP_TREE_SUM, 1, true, true},
    {CELL_OP_TREE_SUM, 1, false, true},     {CELL_OP_TREE_SUM, 2, false, true},
    {CELL_OP_TREE_SUM, 3, true, false},     {CELL_OP_TREE_SUM, CELL_CHILDREN_MAX, true, true},
};
enum { FORMS = sizeof(forms) / sizeof(forms[0]) };

static void build_form(struct build *build, const struct form *form, uint32_t inputs,
                       uint32_t hidden)
{
    struct build_tree tree = {.kind = form->kind,
                              .hidden = hidden,
                              .n_children = form->n_children,
                              .has_bias = form->has_bias};
    build_tree_cell(build, tree, form->has_x ? inputs : 0, 7);
}

/* ---- Bits ----------------------------------------------------------------------------------- */

/* Rows of one cell, each a chain of one step, and their outputs as they were when each ran alone.
 */
struct crowd {
    struct rig_chain chains[ROWS];
    uint8_t *wanted[ROWS][2];
};

/* A child that is not there: its h and c are the last two of the inputs before number `end`. Where
 * that shall be written out, rows of zeros. */
static void leave_out(struct rig_chain *chain, const struct cell_type *type, uint32_t end,
                      bool is_written_out)
{
    for (uint32_t i = end - 2; i < end; i++) {
        memset(chain->inputs[i], 0, type->def.values[i].width * sizeof(float));
        if (!is_written_out) {
            chain->wiring.inputs[i] = (struct cell_ref){.kind = CELL_REF_ZERO};
        }
    }
}

/* The same for every rig. Some rows hold a NaN or an infinity; of some, children are not there. */
static void crowd_init(struct crowd *crowd, const struct cell_type *type, bool is_written_out)
{
    const struct cell_def *def = &type->def;
    const uint32_t first = def->n_inputs % 2; // x

    static const float nasty[] = {NAN, INFINITY, -INFINITY, 1e-42f};
    struct base_random random;
    base_random_init(&random, 11);
    for (uint32_t r = 0; r < ROWS; r++) {
        rig_chain_init(&crowd->chains[r], type, r, 1, &random);
        if (r % 4 == 1) {
            uint32_t input = base_random_below(&random, type->def.n_inputs);
            uint32_t at = base_random_below(&random, type->def.values[input].width);
            memcpy(crowd->chains[r].inputs[input] + at * sizeof(float), &nasty[r / 4],
                   sizeof(float));
        }
        for (uint32_t i = first; i < def->n_inputs; i += 2) {
            // Of row 6 all of them, of rows 3, 7, .. none.
            if (r == 6 || (r % 4 != 3 && base_random_below(&random, 3) < r % 3)) {
                leave_out(&crowd->chains[r], type, i + 2, is_written_out);
            }
        }
    }
}

static void crowd_release(struct crowd *crowd)
{
    for (uint32_t r = 0; r < ROWS; r++) {
        rig_chain_release(&crowd->chains[r]);
    }
}

/* Rows first .. first + n - 1. */
static void crowd_run(struct crowd *crowd, struct rig *rig, uint32_t first, uint32_t n)
{
    struct cell_batch_row rows[ROWS];
    struct cell_batch batch = {.n_rows = n, .steps = 1, .rows = rows};
    for (uint32_t r = 0; r < n; r++) {
        rig_chain_reset(&crowd->chains[first + r], rig->type);
        rows[r] = rig_chain_row(&crowd->chains[first + r], 1);
    }
    rig_run(rig, &batch);
}

/* Every row alone, in scalar code. */
static void crowd_want(struct crowd *crowd, const struct cell_def *def, size_t bytes)
{
    struct rig rig;
    rig_init(&rig, "cpu", "scalar", 0, def);
    crowd_init(crowd, rig.type, true);
    for (uint32_t r = 0; r < ROWS; r++) {
        crowd_run(crowd, &rig, r, 1);
        for (uint32_t o = 0; o < 2; o++) {
            crowd->wanted[r][o] = rig_copy(crowd->chains[r].outputs[o], bytes);
        }
    }
    crowd_release(crowd);
    rig_release(&rig);
}

static void assert_crowd(struct crowd *crowd, const struct cell_def *def, const char *backend,
                         const char *isa, uint32_t members)
{
    const size_t bytes = def->values[def->outputs[0]].width * sizeof(float);
    struct rig rig;
    rig_init(&rig, backend, isa, members, def);
    crowd_init(crowd, rig.type, false);
    for (uint32_t n = 1; n <= ROWS; n++) {
        uint32_t first = n * 5 % (ROWS - n + 1);
        crowd_run(crowd, &rig, first, n);
        for (uint32_t r = first; r < first + n; r++) {
            for (uint32_t o = 0; o < 2; o++) {
                ck_assert_msg(memcmp(crowd->chains[r].outputs[o], crowd->wanted[r][o], bytes) == 0,
                              "%s %s, %u members: row %u of %u, output %u", backend, isa, members,
                              r, n, o);
            }
        }
    }
    crowd_release(crowd);
    rig_release(&rig);
}

START_TEST(test_tree_cells_have_the_bits_of_one_scalar_row)
{
    const struct form *form = &forms[_i / PRECISIONS];
    const uint32_t members_max = 2;
    static struct crowd crowd;
    struct build build;
    build_form(&build, form, INPUTS, HIDDEN);
    build_last(&build)->precision = (enum cell_precision)(_i % PRECISIONS);
    crowd_want(&crowd, &build.def, HIDDEN * sizeof(float));
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        const struct cell_kernels *kernels = NULL;
        bool is_here = cell_kernels_choose(isa_name(isa), &kernels, NULL) == BASE_OK;
        for (uint32_t members = 1; is_here && members <= members_max; members++) {
            assert_crowd(&crowd, &build.def, "cpu", isa_name(isa), members);
        }
    }
    if (_i % PRECISIONS != CELL_INT8) {
        assert_crowd(&crowd, &build.def, "cuda-host", "", 0);
    }
    for (uint32_t r = 0; r < ROWS; r++) {
        base_free(crowd.wanted[r][0]);
        base_free(crowd.wanted[r][1]);
    }
    build_release(&build);
}
END_TEST

/* ---- Leaves that are looked up --------------------------------------------------------------- */

/* Leaves over the rows of an embedding, and what a tangle of them needs: c of one is looked up
 * beside both of another, h of the first goes on to an op, and an LSTM reads c by whole vectors. */
static void build_words(struct build *build, uint32_t words, uint32_t hidden,
                        enum cell_precision precision)
{
    build_init(build, 61);
    const uint32_t id = build_input(build, CELL_I32, 1);
    struct build_tree leaf = {.kind = CELL_OP_TREE_LEAF, .hidden = hidden, .has_bias = true};
    leaf.x = build_gather(build, id, words, INPUTS);
    const uint32_t first = build_tree(build, &leaf);
    build_last(build)->precision = precision;
    const uint32_t second = build_tree(build, &leaf);
    build_last(build)->precision = precision;
    const uint32_t sum = build_op(build, CELL_OP_ADD, first, second + 1, hidden);
    build_output(build, build_lstm(build, leaf.x, sum, second + 1, true));
    build_output(build, second);
}

static void assert_words(uint32_t words, uint32_t hidden, enum cell_precision precision)
{
    static struct crowd crowd;
    struct build build;
    build_words(&build, words, hidden, precision);
    build.def.as_written = true;
    crowd_want(&crowd, &build.def, hidden * sizeof(float));
    build.def.as_written = false;
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        const struct cell_kernels *kernels = NULL;
        bool is_here = cell_kernels_choose(isa_name(isa), &kernels, NULL) == BASE_OK;
        for (uint32_t members = 1; is_here && members <= 2; members++) {
            assert_crowd(&crowd, &build.def, "cpu", isa_name(isa), members);
        }
    }
    for (uint32_t r = 0; r < ROWS; r++) {
        base_free(crowd.wanted[r][0]);
        base_free(crowd.wanted[r][1]);
    }
    build_release(&build);
}

/* As many words as are computed together, one more, and some. */
START_TEST(test_tree_leaves_of_an_embedding_are_looked_up)
{
    static const uint32_t words[] = {10, 64, 65, 150};
    assert_words(words[_i / PRECISIONS], 33 + 50 * ((uint32_t)_i / PRECISIONS),
                 (enum cell_precision)(_i % PRECISIONS));
}
END_TEST

/* More than is made room for: computed as written. */
START_TEST(test_tree_leaves_of_a_large_embedding_are_computed)
{
    assert_words(70000, 64, CELL_FP32);
}
END_TEST

/* What the program says of itself, with and without. */
START_TEST(test_tree_explains_leaves)
{
    const bool is_small = _i == 0;
    struct build build;
    struct rig rig;
    struct base_buf text;
    build_words(&build, is_small ? 10 : 70000, 64, CELL_FP32);
    rig_init(&rig, "cpu", NULL, 0, &build.def);
    base_buf_init(&text, 1u << 20);
    rig.backend->type_explain(rig.device, rig.type, &text);
    base_buf_printf(&text, "%c", '\0');
    ck_assert_ptr_nonnull(strstr(text.data, "GATHER"));
    ck_assert_int_eq(strstr(text.data, "TREE_LEAF") == NULL, is_small);
    base_buf_release(&text);
    rig_release(&rig);
    build_release(&build);
}
END_TEST

START_TEST(test_tree_every_failed_allocation_is_reported)
{
    struct build build;
    struct rig rig;
    enum base_status status = BASE_RESOURCE_EXHAUSTED;
    uint64_t n = 0;
    if (_i == 0) {
        build_words(&build, 65, 17, CELL_INT8);
    } else {
        build_form(&build, &forms[FORMS - 1], 19, 17);
    }
    rig_init(&rig, "cpu", NULL, 0, &build.def);
    rig.backend->type_unload(rig.device, rig.type);
    while (status == BASE_RESOURCE_EXHAUSTED) {
        base_alloc_fail_at(++n);
        status = rig.backend->type_load(rig.device, rig.type, NULL);
    }
    base_alloc_fail_at(0);
    ck_assert_int_eq(status, BASE_OK);
    ck_assert_uint_gt(n, 5);
    rig_release(&rig);
    build_release(&build);
}
END_TEST

/* ---- Double precision ----------------------------------------------------------------------- */

static void read_floats(const uint8_t *from, uint32_t n, double *to)
{
    for (uint32_t i = 0; i < n; i++) {
        float x;
        memcpy(&x, from + i * sizeof(x), sizeof(x));
        to[i] = (double)x;
    }
}

static void assert_near_oracle(const struct cell_def *def, const struct rig_chain *chain,
                               double tolerance)
{
    double got[HIDDEN];
    struct oracle oracle;
    oracle_init(&oracle, def);
    for (uint32_t i = 0; i < def->n_inputs; i++) {
        read_floats(chain->inputs[i], def->values[i].width, oracle.values[i]);
    }
    oracle_step(&oracle);
    for (uint32_t o = 0; o < def->n_outputs; o++) {
        read_floats(chain->outputs[o], def->values[def->outputs[o]].width, got);
        for (uint32_t u = 0; u < def->values[def->outputs[o]].width; u++) {
            util_assert_close(got[u], oracle.values[def->outputs[o]][u], tolerance, tolerance);
        }
    }
    oracle_release(&oracle);
}

static void assert_rows_near_oracle(const struct cell_def *def, const char *backend,
                                    const char *isa, double tolerance)
{
    enum { FEW = 5 };
    struct rig rig;
    struct rig_chain chains[FEW];
    struct cell_batch_row rows[FEW];
    struct cell_batch batch = {.n_rows = FEW, .steps = 1, .rows = rows};
    struct base_random random;
    base_random_init(&random, 3);
    rig_init(&rig, backend, isa, 0, def);
    for (uint32_t r = 0; r < FEW; r++) {
        rig_chain_init(&chains[r], rig.type, r, 1, &random);
        rows[r] = rig_chain_row(&chains[r], 1);
    }
    rig_run(&rig, &batch);
    for (uint32_t r = 0; r < FEW; r++) {
        assert_near_oracle(def, &chains[r], tolerance);
        rig_chain_release(&chains[r]);
    }
    rig_release(&rig);
}

/* Every form; x narrower and wider than the units. */
START_TEST(test_tree_cells_compute_what_the_paper_says)
{
    static const uint32_t widths[] = {1, 15, 16, 17, 33, 64, 65, HIDDEN};
    const uint32_t hidden = widths[_i];
    for (uint32_t f = 0; f < FORMS; f++) {
        struct build build;
        build_form(&build, &forms[f], widths[((uint32_t)_i + 3 * f) % 8], hidden);
        for (int isa = 0; isa < ISA_COUNT; isa++) {
            const struct cell_kernels *kernels = NULL;
            if (cell_kernels_choose(isa_name(isa), &kernels, NULL) == BASE_OK) {
                assert_rows_near_oracle(&build.def, "cpu", isa_name(isa), 3e-6);
            }
        }
        assert_rows_near_oracle(&build.def, "blas", NULL, 3e-6);
        assert_rows_near_oracle(&build.def, "cuda-host-library", NULL, 3e-6);
        build_release(&build);
    }
}
END_TEST

/* Weights in fewer bits: h' and c' of one cell, near what they were with all bits. */
START_TEST(test_tree_cells_in_fewer_bits_stay_near)
{
    static const double bounds[PRECISIONS] = {3e-6, 0.05, 0.1};
    struct build build;
    build_form(&build, &forms[_i / PRECISIONS], INPUTS, HIDDEN);
    build_last(&build)->precision = (enum cell_precision)(_i % PRECISIONS);
    assert_rows_near_oracle(&build.def, "cpu", NULL, bounds[_i % PRECISIONS]);
    build_release(&build);
}
END_TEST

/* Operands from anywhere: h of one child is an input that also serves as x, its c a constant; the
 * other child is the first op's result; results become states. */
START_TEST(test_tree_cells_over_other_values)
{
    struct build build;
    build_init(&build, 1);
    uint32_t x = build_input(&build, CELL_F32, 19);
    uint32_t h = build_state(&build, CELL_F32, 19);
    uint32_t c = build_state(&build, CELL_F32, 19);
    uint32_t constant = build_const(&build, 19);
    struct build_tree sum = {.kind = CELL_OP_TREE_SUM, .hidden = 19, .x = x, .n_children = 2};
    memcpy(sum.children, (uint32_t[]){x, constant, h, c}, 4 * sizeof(uint32_t));
    uint32_t first = build_tree(&build, &sum);
    struct build_tree both = {
        .kind = CELL_OP_TREE_BINARY, .hidden = 19, .x = UINT32_MAX, .n_children = 2};
    memcpy(both.children, (uint32_t[]){first, first + 1, x, constant}, 4 * sizeof(uint32_t));
    uint32_t second = build_tree(&build, &both);
    build_output(&build, first);
    build_output(&build, second);
    build_output(&build, second + 1);
    build_next(&build, 0, second);
    build_next(&build, 1, second + 1);
    struct rig rig;
    struct rig_chain chain;
    struct base_random random = util_random(5);
    rig_init(&rig, "cpu", NULL, 2, &build.def);
    rig_chain_init(&chain, rig.type, 0, 3, &random);
    struct cell_batch_row row = rig_chain_row(&chain, 3);
    struct cell_batch batch = {.n_rows = 1, .steps = 3, .rows = &row};
    rig_run(&rig, &batch);
    struct oracle oracle;
    double got[19];
    oracle_init(&oracle, &build.def);
    read_floats(chain.init[0], 19, oracle.values[h]);
    read_floats(chain.init[1], 19, oracle.values[c]);
    for (uint32_t t = 0; t < 3; t++) {
        read_floats(chain.inputs[0] + t * 19 * sizeof(float), 19, oracle.values[x]);
        oracle_step(&oracle);
        for (uint32_t o = 0; o < 3; o++) {
            read_floats(chain.outputs[o] + t * 19 * sizeof(float), 19, got);
            for (uint32_t u = 0; u < 19; u++) {
                util_assert_close(got[u], oracle.values[build.def.outputs[o]][u], 3e-6, 3e-6);
            }
        }
        oracle_advance(&oracle);
    }
    oracle_release(&oracle);
    rig_chain_release(&chain);
    rig_release(&rig);
    build_release(&build);
}
END_TEST

/* ---- Trees ---------------------------------------------------------------------------------- */

enum { LEAVES = 4, WIDE = 33, WORDS = 20 };

/* A complete binary tree of 4 leaves, wired by hand: nodes 0..3 are leaves, 4 and 5 their parents,
 * 6 the root. Node i leaves its h in value row i, its c in value row 10 + i. */
struct grove {
    struct rig rig; /* of the leaves' type */
    const struct cell_type *inner;
    struct build leaf_build, inner_build;
    float words[LEAVES][WORDS];
    float root[2][WIDE];
    struct cell_wiring wirings[7];
    struct cell_refs refs[7];
    struct cell_emit emits[7][2];
};

static struct cell_ref value_row(uint32_t row)
{
    return (struct cell_ref){.kind = CELL_REF_VALUE, .row = row};
}

static struct cell_ref host_row(float *row)
{
    return (struct cell_ref){.kind = CELL_REF_HOST, .host = (uint8_t *)row};
}

static void grove_wire(struct grove *grove)
{
    for (uint32_t i = 0; i < 7; i++) {
        struct cell_wiring *wiring = &grove->wirings[i];
        *wiring = (struct cell_wiring){
            .steps = 1, .state = CELL_ROW_NONE, .n_emits = 2, .emits = grove->emits[i]};
        cell_wiring_use(wiring, &grove->refs[i]);
        for (uint32_t o = 0; o < 2; o++) {
            grove->emits[i][o] =
                (struct cell_emit){.what = CELL_EMIT_OUTPUT,
                                   .when = CELL_EMIT_LAST,
                                   .index = o,
                                   .to = i == 6 ? host_row(grove->root[o]) : value_row(10 * o + i)};
        }
        if (i < LEAVES) {
            wiring->inputs[0] = host_row(grove->words[i]);
        }
        for (uint32_t k = 0; i >= LEAVES && k < 4; k++) {
            wiring->inputs[k] = value_row(k % 2 * 10 + 2 * (i - LEAVES) + k / 2);
        }
    }
}

static void grove_init(struct grove *grove, const char *backend, const char *isa, uint32_t members)
{
    struct base_error error;
    bool is_new = false;
    struct form leaf = {CELL_OP_TREE_LEAF, 0, true, true};
    struct form inner = {CELL_OP_TREE_BINARY, 2, false, true};
    build_form(&grove->leaf_build, &leaf, WORDS, WIDE);
    build_form(&grove->inner_build, &inner, 0, WIDE);
    struct rig *rig = &grove->rig;
    rig_init(rig, backend, isa, members, &grove->leaf_build.def);
    uint32_t opened = cell_registry_layouts(rig->registry);
    ck_assert_int_eq(cell_registry_intern(rig->registry, &grove->inner_build.def, "test/inner",
                                          &grove->inner, &is_new, &error),
                     BASE_OK);
    ck_assert_int_eq(rig->backend->type_load(rig->device, grove->inner, &error), BASE_OK);
    // A node hands on rows as its children did: there is one layout for all.
    ck_assert_uint_eq(cell_registry_layouts(rig->registry), opened);
    struct base_random random;
    base_random_init(&random, 9);
    for (uint32_t i = 0; i < LEAVES * WORDS; i++) {
        grove->words[i / WORDS][i % WORDS] = base_random_f32(&random, -2.0f, 2.0f);
    }
    grove_wire(grove);
}

static void grove_release(struct grove *grove)
{
    grove->rig.backend->type_unload(grove->rig.device, grove->inner);
    rig_release(&grove->rig);
    build_release(&grove->leaf_build);
    build_release(&grove->inner_build);
}

/* Nodes first .. end - 1 as one batch of a type. */
static void grove_run(struct grove *grove, const struct cell_type *type, uint32_t first,
                      uint32_t end)
{
    struct cell_batch_row rows[7];
    const struct cell_type *own = grove->rig.type;
    for (uint32_t i = first; i < end; i++) {
        rows[i - first] = (struct cell_batch_row){.wiring = &grove->wirings[i], .steps = 1};
    }
    struct cell_batch batch = {.n_rows = end - first, .steps = 1, .rows = rows};
    grove->rig.type = type;
    rig_run(&grove->rig, &batch);
    grove->rig.type = own;
}

/* The root in double precision. */
static void grove_want(const struct grove *grove, double root[2][WIDE])
{
    double values[7][2][WIDE];
    struct oracle leaf;
    struct oracle inner;
    oracle_init(&leaf, &grove->leaf_build.def);
    oracle_init(&inner, &grove->inner_build.def);
    for (uint32_t i = 0; i < 7; i++) {
        struct oracle *oracle = i < LEAVES ? &leaf : &inner;
        for (uint32_t w = 0; i < LEAVES && w < WORDS; w++) {
            leaf.values[0][w] = (double)grove->words[i][w];
        }
        for (uint32_t k = 0; i >= LEAVES && k < 4; k++) {
            memcpy(inner.values[k], values[2 * (i - LEAVES) + k / 2][k % 2], WIDE * sizeof(double));
        }
        oracle_step(oracle);
        for (uint32_t o = 0; o < 2; o++) {
            memcpy(values[i][o], oracle->values[oracle->def->outputs[o]], WIDE * sizeof(double));
        }
    }
    memcpy(root, values[6], sizeof(values[6]));
    oracle_release(&leaf);
    oracle_release(&inner);
}

START_TEST(test_tree_of_nodes_that_read_their_childrens_rows)
{
    static struct grove grove;
    float first[2][WIDE];
    double wanted[2][WIDE];
    const bool is_card = _i == 2 * ISA_COUNT;
    if (!is_card && isa_at(_i / 2) == NULL) {
        return;
    }
    grove_init(&grove, is_card ? "cuda-host" : "cpu", is_card ? NULL : isa_name(_i / 2),
               1 + (uint32_t)_i % 2);
    grove_run(&grove, grove.rig.type, 0, LEAVES);
    grove_run(&grove, grove.inner, 4, 6);
    grove_run(&grove, grove.inner, 6, 7);
    grove_want(&grove, wanted);
    for (uint32_t u = 0; u < 2 * WIDE; u++) {
        util_assert_close((double)grove.root[u / WIDE][u % WIDE], wanted[u / WIDE][u % WIDE], 1e-5,
                          1e-5);
    }
    // Each node alone, the leaves in another order: the same bits.
    memcpy(first, grove.root, sizeof(first));
    memset(grove.root, 0, sizeof(grove.root));
    for (uint32_t i = LEAVES; i-- > 0;) {
        grove_run(&grove, grove.rig.type, i, i + 1);
    }
    for (uint32_t i = LEAVES; i < 7; i++) {
        grove_run(&grove, grove.inner, i, i + 1);
    }
    ck_assert_mem_eq(first, grove.root, sizeof(first));
    grove_release(&grove);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tree");
    TCase *tcase = tcase_create("tree");
    tcase_set_timeout(tcase, 600);
    tcase_add_loop_test(tcase, test_tree_cells_have_the_bits_of_one_scalar_row, 0,
                        FORMS * PRECISIONS);
    tcase_add_loop_test(tcase, test_tree_leaves_of_an_embedding_are_looked_up, 0, 4 * PRECISIONS);
    tcase_add_test(tcase, test_tree_leaves_of_a_large_embedding_are_computed);
    tcase_add_loop_test(tcase, test_tree_explains_leaves, 0, 2);
    tcase_add_loop_test(tcase, test_tree_every_failed_allocation_is_reported, 0, 2);
    tcase_add_loop_test(tcase, test_tree_cells_compute_what_the_paper_says, 0, 8);
    tcase_add_loop_test(tcase, test_tree_cells_in_fewer_bits_stay_near, 0, FORMS * PRECISIONS);
    tcase_add_test(tcase, test_tree_cells_over_other_values);
    tcase_add_loop_test(tcase, test_tree_of_nodes_that_read_their_childrens_rows, 0,
                        2 * ISA_COUNT + 1);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
