/* Which stage an op belongs to: parts of the request are cut where they are read, and a step of
 * more ops than a cell may have is several stages. */
#include "base/mem.h"
#include "cells/model.h"
#include "tests/cells/parse.h"
#include "tests/cells/replay.h"
#include "tests/util.h"

#include <math.h>
#include <stdio.h>

enum { FLOAT = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT };
enum { IN = 3, LAYERS = 20, TIME = 3, BATCH = 2, LINKS = 150 };

static struct onnx_builder builder;
static struct built built;

static void output(const char *name)
{
    const size_t n = builder.graph.n_output;
    onnx_output(&builder, name, FLOAT, 0, NULL);
    builder.graph.output[n]->type = NULL;
}

static uint32_t most_outputs(const struct cell_model *model)
{
    uint32_t most = 0;
    for (uint32_t s = 0; s < model->n_stages; s++) {
        const uint32_t n = model->stages[s].type->def.n_outputs;
        most = n > most ? n : most;
    }
    return most;
}

/* x + s(1) + .. + s(LAYERS), where RNN layer i, whose weights are zeros, begins with part i of one
 * state and leaves tanh(bias) behind the first step: so each part is read by another layer. */
static void build_layers(void)
{
    static const float zeros[IN * IN];
    static const float biases[2 * IN] = {0.5f, -0.25f, 1.0f};
    onnx_init(&builder, 17);
    onnx_input(&builder, "x", FLOAT, 3, (const int64_t[]){-1, -1, IN});
    onnx_input(&builder, "h", FLOAT, 3, (const int64_t[]){LAYERS, -1, IN});
    const int64_t square[] = {1, IN, IN};
    const int64_t both[] = {1, 2 * IN};
    onnx_constant(&builder, "w", onnx_tensor(&builder, FLOAT, 3, square, zeros, sizeof(zeros)));
    onnx_constant(&builder, "b", onnx_tensor(&builder, FLOAT, 2, both, biases, sizeof(biases)));
    onnx_constant(&builder, "one", onnx_ints(&builder, 1, 1, (const int64_t[]){1}));
    const int64_t first = 0;
    for (int64_t i = 0; i < LAYERS; i++) {
        char from[32];
        char at[32];
        char text[96];
        char outputs[64];
        (void)snprintf(from, sizeof(from), i == 0 ? "x" : "y%d", (int)i - 1);
        (void)snprintf(at, sizeof(at), "at%d", (int)i);
        onnx_constant(&builder, at, onnx_ints(&builder, 1, 1, &i));
        (void)snprintf(text, sizeof(text), "h at%d", (int)i);
        (void)snprintf(outputs, sizeof(outputs), "h%d", (int)i);
        onnx_set_int(&builder, onnx_node(&builder, "Gather", text, outputs), "axis", first);
        (void)snprintf(text, sizeof(text), "%s w w b - h%d", from, (int)i);
        (void)snprintf(outputs, sizeof(outputs), "r%d", (int)i);
        onnx_set_int(&builder, onnx_node(&builder, "RNN", text, outputs), "hidden_size", IN);
        (void)snprintf(text, sizeof(text), "r%d one", (int)i);
        (void)snprintf(outputs, sizeof(outputs), "s%d", (int)i);
        (void)onnx_node(&builder, "Squeeze", text, outputs);
        (void)snprintf(text, sizeof(text), "s%d h%d", (int)i, (int)i);
        (void)snprintf(outputs, sizeof(outputs), "y%d", (int)i);
        (void)onnx_node(&builder, "Add", text, outputs);
    }
    char last[16];
    (void)snprintf(last, sizeof(last), "y%d", LAYERS - 1);
    output(last);
}

START_TEST(test_states_of_many_layers_are_cut_where_they_are_read)
{
    struct base_random random = util_random(1);
    struct replay_tensor inputs[2] = {
        replay_tensor_random(3, (const int64_t[]){TIME, BATCH, IN}, &random),
        replay_tensor_random(3, (const int64_t[]){LAYERS, BATCH, IN}, &random),
    };
    struct replay_tensor is;
    static const double biases[IN] = {0.5, -0.25, 1.0};
    build_layers();
    load_built(&builder, &built);
    ck_assert_uint_lt(most_outputs(built.model), 4);
    replay_run(built.model, inputs, &is);
    free_built(&builder, &built);
    ck_assert_uint_eq(is.count, (size_t)TIME * BATCH * IN);
    for (size_t i = 0; i < is.count; i++) { // of the last layer alone
        const double h = inputs[1].data[(LAYERS - 1) * BATCH * IN + i % (BATCH * IN)];
        ck_assert_double_lt(fabs(is.data[i] - (tanh(biases[i % IN]) + h)), 1e-7);
    }
    base_free(inputs[0].data);
    base_free(inputs[1].data);
    base_free(is.data);
}
END_TEST

/* x = tanh(x * w) + x, over and over: with its constants three ops a link and one. The value that a
 * link reads twice is all that is handed on. */
START_TEST(test_a_step_of_many_ops_is_several_stages)
{
    struct base_random random = util_random(2);
    static float w[LINKS][IN];
    struct replay_tensor x = replay_tensor_random(3, (const int64_t[]){TIME, BATCH, IN}, &random);
    struct replay_tensor is[2];
    onnx_init(&builder, 17);
    onnx_input(&builder, "x", FLOAT, 3, (const int64_t[]){-1, -1, IN});
    onnx_add_weights(&builder, "GRU", IN, IN, 3);
    const int64_t room[] = {1 << 16}; // memory to unpack so many nodes goes by the file's size
    onnx_constant(&builder, "unread", onnx_random(&builder, 1, room, &random, 1.0f));
    for (int i = 0; i < LINKS; i++) {
        char text[64];
        char name[32];
        for (uint32_t k = 0; k < IN; k++) {
            w[i][k] = base_random_f32(&random, -0.2f, 0.2f);
        }
        (void)snprintf(name, sizeof(name), "w%d", i);
        onnx_constant(&builder, name,
                      onnx_tensor(&builder, FLOAT, 1, (const int64_t[]){IN}, w[i], sizeof(w[i])));
        (void)snprintf(text, sizeof(text), i == 0 ? "x w%d" : "x%d w%d", i == 0 ? i : i - 1, i);
        (void)snprintf(name, sizeof(name), "p%d", i);
        (void)onnx_node(&builder, "Mul", text, name);
        (void)snprintf(text, sizeof(text), "p%d", i);
        (void)snprintf(name, sizeof(name), "t%d", i);
        (void)onnx_node(&builder, "Tanh", text, name);
        (void)snprintf(text, sizeof(text), i == 0 ? "t%d x" : "t%d x%d", i, i - 1);
        (void)snprintf(name, sizeof(name), "x%d", i);
        (void)onnx_node(&builder, "Add", text, name);
    }
    char text[32];
    char last[16];
    (void)snprintf(last, sizeof(last), "x%d", LINKS - 1);
    (void)snprintf(text, sizeof(text), "%s w r b", last);
    onnx_set_int(&builder, onnx_node(&builder, "GRU", text, "y"), "hidden_size", IN);
    output(last);
    output("y");
    load_built(&builder, &built);
    ck_assert_uint_ge(built.model->n_stages, 5); // 600 ops, 128 each at the most, and the GRU
    for (uint32_t s = 0; s < built.model->n_stages; s++) {
        ck_assert_uint_le(built.model->stages[s].type->def.n_outputs, 1);
    }
    replay_run(built.model, &x, is);
    free_built(&builder, &built);
    for (size_t i = 0; i < x.count; i++) {
        double wanted = x.data[i];
        for (uint32_t l = 0; l < LINKS; l++) {
            wanted += tanh(wanted * (double)w[l][i % IN]);
        }
        ck_assert_double_lt(fabs(is[0].data[i] - wanted), 1e-6 * fmax(1.0, fabs(wanted)));
    }
    base_free(x.data);
    base_free(is[0].data);
    base_free(is[1].data);
}
END_TEST

enum { BRANCHES = 3, TAPS_MAX = 11, MULS = 20 };

static const struct {
    int64_t taps, apart;
} branches[BRANCHES] = {{3, 5}, {7, 3}, {TAPS_MAX, 3}};

/* x [batch, IN, time] through three convolutions, MULS products behind each, and their sum. */
static void build_branches(float w[BRANCHES][IN * TAPS_MAX], float by)
{
    static const int64_t perm[] = {2, 0, 1};
    onnx_init(&builder, 17);
    onnx_input(&builder, "x", FLOAT, 3, (const int64_t[]){-1, IN, -1});
    onnx_add_weights(&builder, "GRU", IN, IN, 3);
    onnx_constant(&builder, "by", onnx_tensor(&builder, FLOAT, 0, NULL, &by, sizeof(by)));
    onnx_set_ints(&builder, onnx_node(&builder, "Transpose", "x", "xt"), "perm", 3, perm);
    onnx_set_int(&builder, onnx_node(&builder, "GRU", "xt w r b", "y"), "hidden_size", IN);
    for (int i = 0; i < BRANCHES; i++) {
        char text[64];
        char name[32];
        const int64_t dims[] = {1, IN, branches[i].taps};
        const int64_t pad = branches[i].taps / 2 * branches[i].apart;
        (void)snprintf(name, sizeof(name), "k%d", i);
        onnx_constant(&builder, name,
                      onnx_tensor(&builder, FLOAT, 3, dims, w[i],
                                  (size_t)(IN * branches[i].taps) * sizeof(float)));
        (void)snprintf(text, sizeof(text), "x k%d", i);
        (void)snprintf(name, sizeof(name), "c%d_0", i);
        Onnx__NodeProto *conv = onnx_node(&builder, "Conv", text, name);
        onnx_set_ints(&builder, conv, "pads", 2, (const int64_t[]){pad, pad});
        onnx_set_ints(&builder, conv, "dilations", 1, &branches[i].apart);
        for (int k = 0; k < MULS; k++) {
            (void)snprintf(text, sizeof(text), "c%d_%d by", i, k);
            (void)snprintf(name, sizeof(name), "c%d_%d", i, k + 1);
            (void)onnx_node(&builder, "Mul", text, name);
        }
    }
    char text[64];
    (void)snprintf(text, sizeof(text), "c0_%d c1_%d", MULS, MULS);
    (void)onnx_node(&builder, "Add", text, "two");
    (void)snprintf(text, sizeof(text), "two c2_%d", MULS);
    (void)onnx_node(&builder, "Add", text, "all");
    output("all");
    output("y");
}

/* What a window reads is joined before any row of the piece that reads it, also where those have
 * lower numbers: pieces stand in their order. */
START_TEST(test_pieces_of_a_stage_stand_in_their_order)
{
    enum { STEPS = 9 };
    struct base_random random = util_random(4);
    static float w[BRANCHES][IN * TAPS_MAX];
    const float by = 1.03125f;
    struct replay_tensor x = replay_tensor_random(3, (const int64_t[]){BATCH, IN, STEPS}, &random);
    struct replay_tensor is[2];
    for (size_t i = 0; i < BRANCHES * IN * TAPS_MAX; i++) {
        w[i / (IN * TAPS_MAX)][i % (IN * TAPS_MAX)] = base_random_f32(&random, -1.0f, 1.0f);
    }
    build_branches(w, by);
    load_built(&builder, &built);
    ck_assert_uint_ge(built.model->n_stages, 4);
    replay_run(built.model, &x, is);
    free_built(&builder, &built);
    ck_assert_uint_eq(is[0].count, (size_t)BATCH * STEPS);
    for (int64_t at = 0; at < (int64_t)BATCH * STEPS; at++) {
        double wanted = 0.0;
        for (int64_t i = 0; i < (int64_t)BRANCHES * IN * TAPS_MAX; i++) {
            const int64_t branch = i / (IN * TAPS_MAX);
            const int64_t taps = branches[branch].taps;
            const int64_t channel = i % (IN * TAPS_MAX) / taps;
            const int64_t t =
                at % STEPS + (i % (IN * TAPS_MAX) % taps - taps / 2) * branches[branch].apart;
            if (channel < IN && t >= 0 && t < STEPS) {
                wanted += (double)w[branch][i % (IN * TAPS_MAX)] *
                          x.data[(at / STEPS * IN + channel) * STEPS + t];
            }
        }
        wanted *= pow((double)by, MULS);
        ck_assert_double_lt(fabs(is[0].data[at] - wanted), 1e-5);
    }
    base_free(x.data);
    base_free(is[0].data);
    base_free(is[1].data);
}
END_TEST

/* ---- Values of many readers ----------------------------------------------------------------- */

enum { HEADS = 24 };

/* Of an RNN's rows HEADS multiples, each of which is answered; every third one is read by a sum
 * beside it as well. */
static void build_heads(void)
{
    static float factors[HEADS];
    char text[64];
    char name[16];
    onnx_init(&builder, 17);
    onnx_input(&builder, "x", FLOAT, 3, (const int64_t[]){-1, -1, IN});
    onnx_add_weights(&builder, "RNN", IN, IN, 3);
    onnx_set_int(&builder, onnx_node(&builder, "RNN", "x w r b", "all"), "hidden_size", IN);
    onnx_constant(&builder, "one", onnx_ints(&builder, 1, 1, (const int64_t[]){1}));
    (void)onnx_node(&builder, "Squeeze", "all one", "y");
    for (int i = 0; i < HEADS; i++) {
        factors[i] = (float)(i + 2);
        (void)snprintf(name, sizeof(name), "f%d", i);
        onnx_constant(&builder, name,
                      onnx_tensor(&builder, FLOAT, 0, NULL, &factors[i], sizeof(factors[i])));
        (void)snprintf(text, sizeof(text), "%s f%d", i % 3 == 1 ? "h0" : "y", i);
        (void)snprintf(name, sizeof(name), "h%d", i);
        (void)onnx_node(&builder, "Mul", text, name);
        output(name);
    }
}

/* They come from several stages, each with no more than it may hand on. */
START_TEST(test_many_values_are_handed_on_by_several_stages)
{
    struct replay_tensor x = {
        .rank = 3, .dims = {TIME, BATCH, IN}, .count = (size_t)TIME * BATCH * IN};
    struct replay_tensor is[HEADS] = {{.rank = 0}};
    struct base_random random = util_random(5);
    build_heads();
    load_built(&builder, &built);
    ck_assert_uint_le(most_outputs(built.model), CELL_OUTPUTS_MAX);
    ck_assert_uint_ge(built.model->n_stages, 3);
    x.data = base_alloc_array(x.count, sizeof(double));
    ck_assert_ptr_nonnull(x.data);
    for (size_t i = 0; i < x.count; i++) {
        x.data[i] = (double)base_random_f32(&random, -1.0f, 1.0f);
    }
    replay_run(built.model, &x, is);
    for (size_t h = 1; h < HEADS; h++) {
        const double factor = (double)(h + 2) / 2 * (h % 3 == 1 ? 2 : 1);
        for (size_t i = 0; i < x.count; i++) {
            ck_assert_double_lt(fabs(is[h].data[i] - is[0].data[i] * factor), 1e-4);
        }
    }
    for (size_t h = 0; h < HEADS; h++) {
        base_free(is[h].data);
    }
    base_free(x.data);
    free_built(&builder, &built);
}
END_TEST

/* ---- Many values before they are read ------------------------------------------------------- */

enum { STEPS = 60 };

/* s(t) = tanh(s(t - 1) + f(t) x), whose file has the products of all steps in front. */
static void build_written_out(void)
{
    static float factors[STEPS];
    char text[64];
    char name[16];
    onnx_init(&builder, 17);
    onnx_input(&builder, "x", FLOAT, 2, (const int64_t[]){-1, IN});
    for (int i = 0; i < STEPS; i++) {
        factors[i] = (float)(i % 7 - 3) / 4;
        (void)snprintf(name, sizeof(name), "f%d", i);
        onnx_constant(&builder, name,
                      onnx_tensor(&builder, FLOAT, 0, NULL, &factors[i], sizeof(factors[i])));
        (void)snprintf(text, sizeof(text), "x f%d", i);
        (void)snprintf(name, sizeof(name), "m%d", i);
        (void)onnx_node(&builder, "Mul", text, name);
    }
    for (int i = 0; i < STEPS; i++) {
        (void)snprintf(text, sizeof(text), i == 0 ? "x m0" : "s%d m%d", i - 1, i);
        (void)snprintf(name, sizeof(name), "a%d", i);
        (void)onnx_node(&builder, "Add", text, name);
        (void)snprintf(text, sizeof(text), "s%d", i);
        (void)onnx_node(&builder, "Tanh", name, text);
    }
    output(text);
}

START_TEST(test_what_is_made_early_waits_for_who_reads_it)
{
    struct replay_tensor x = {.rank = 2, .dims = {BATCH, IN}, .count = (size_t)BATCH * IN};
    struct replay_tensor is = {.rank = 0};
    build_written_out();
    load_built(&builder, &built);
    ck_assert_uint_ge(built.model->n_stages, 2);
    ck_assert_uint_le(most_outputs(built.model), 3);
    x.data = base_alloc_array(x.count, sizeof(double));
    ck_assert_ptr_nonnull(x.data);
    for (size_t i = 0; i < x.count; i++) {
        x.data[i] = (double)i / 4 - 0.5;
    }
    replay_run(built.model, &x, &is);
    for (size_t i = 0; i < x.count; i++) {
        double state = x.data[i];
        for (int t = 0; t < STEPS; t++) {
            state = tanh(state + x.data[i] * (t % 7 - 3) / 4);
        }
        ck_assert_double_lt(fabs(is.data[i] - state), 1e-5);
    }
    base_free(is.data);
    base_free(x.data);
    free_built(&builder, &built);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("import_place");
    TCase *tcase = tcase_create("place");
    tcase_add_test(tcase, test_states_of_many_layers_are_cut_where_they_are_read);
    tcase_add_test(tcase, test_a_step_of_many_ops_is_several_stages);
    tcase_add_test(tcase, test_pieces_of_a_stage_stand_in_their_order);
    tcase_add_test(tcase, test_many_values_are_handed_on_by_several_stages);
    tcase_add_test(tcase, test_what_is_made_early_waits_for_who_reads_it);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
