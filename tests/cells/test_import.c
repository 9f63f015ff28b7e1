/* How graphs become stages: shapes that exporters do not happen to show, each compared with the
 * same computation written another way. */
#include "base/mem.h"
#include "cells/model.h"
#include "tests/cells/replay.h"
#include "tests/onnx_builder.h"
#include "tests/util.h"

#include <string.h>

enum { FLOAT = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, INT64 = ONNX__TENSOR_PROTO__DATA_TYPE__INT64 };
enum { IN = 3, HIDDEN = 4, BATCH = 2, TIME = 5 };

/* A model in the making, and what it became. */
struct fixture {
    struct onnx_builder builder;
    struct cell_registry *registry;
    struct cell_model *model;
    struct base_random random;
};

/* x of this shape and LSTM weights w, r, b; nodes are the case's. */
static void begin(struct fixture *f, uint32_t rank, const int64_t *x)
{
    const int64_t w[] = {1, 4 * HIDDEN, IN};
    const int64_t r[] = {1, 4 * HIDDEN, HIDDEN};
    const int64_t b[] = {1, 8 * HIDDEN};
    *f = (struct fixture){.model = NULL};
    onnx_init(&f->builder, 17);
    base_random_init(&f->random, 7); // the same weights in every model
    ck_assert_int_eq(cell_registry_create(&f->registry), BASE_OK);
    onnx_input(&f->builder, "x", FLOAT, rank, x);
    onnx_constant(&f->builder, "w", onnx_random(&f->builder, 3, w, &f->random, 0.5f));
    onnx_constant(&f->builder, "r", onnx_random(&f->builder, 3, r, &f->random, 0.5f));
    onnx_constant(&f->builder, "b", onnx_random(&f->builder, 2, b, &f->random, 0.5f));
}

/* x [time, batch, IN]. */
static void begin_usual(struct fixture *f)
{
    const int64_t x[] = {-1, -1, IN};
    begin(f, 3, x);
}

static void output(struct fixture *f, const char *name)
{
    const size_t n = f->builder.graph.n_output;
    onnx_output(&f->builder, name, FLOAT, 0, NULL);
    f->builder.graph.output[n]->type = NULL;
}

static void ints(struct fixture *f, const char *name, int64_t a, int64_t b, int64_t c, size_t n)
{
    const int64_t values[] = {a, b, c};
    onnx_constant(&f->builder, name, onnx_ints(&f->builder, 1, n, values));
}

static struct cell_model *load(struct fixture *f)
{
    struct base_error error = {.message = ""};
    size_t length = 0;
    const uint8_t *bytes = onnx_pack(&f->builder, &length);
    enum base_status status =
        cell_model_parse(f->registry, (struct cell_model_file){bytes, length, NULL}, "test", NULL,
                         &f->model, &error);
    ck_assert_msg(status == BASE_OK, "%s", error.message);
    return f->model;
}

static void end(struct fixture *f)
{
    cell_model_free(f->registry, f->model);
    cell_registry_free(f->registry);
    onnx_release(&f->builder);
}

/* Number k of input i: any function of the place in [batch, time, feature], so that models that
 * take the same data in another order agree. */
static double sample(int64_t b, int64_t t, int64_t k)
{
    return (double)((b * 31 + t * 17 + k * 7) % 13) / 13.0 - 0.5;
}

static struct replay_tensor make_input(const struct cell_tensor *shape)
{
    struct replay_tensor tensor = {.rank = shape->rank, .count = 1};
    for (uint32_t k = 0; k < shape->rank; k++) {
        int64_t open = (int32_t)k == shape->batch_axis ? BATCH : TIME;
        tensor.dims[k] = shape->dims[k] == CELL_DIM_ANY ? open : shape->dims[k];
        tensor.count *= (size_t)tensor.dims[k];
    }
    tensor.data = base_alloc_array(tensor.count, sizeof(double));
    ck_assert_ptr_nonnull(tensor.data);
    for (size_t i = 0; i < tensor.count; i++) {
        int64_t place[3] = {0, 0, 0}; // batch, time, rest
        size_t rest = i;
        size_t scale = 1;
        for (uint32_t k = shape->rank; k-- > 0;) {
            int64_t at = (int64_t)(rest % (size_t)tensor.dims[k]);
            rest /= (size_t)tensor.dims[k];
            if ((int32_t)k == shape->batch_axis || (int32_t)k == shape->time_axis) {
                place[(int32_t)k == shape->batch_axis ? 0 : 1] = at;
            } else {
                place[2] += at * (int64_t)scale;
                scale *= (size_t)tensor.dims[k];
            }
        }
        tensor.data[i] = shape->id_bound > 0 ? (double)((place[0] + place[1]) % shape->id_bound)
                                             : sample(place[0], place[1], place[2]);
    }
    return tensor;
}

/* Runs the model on samples; its first output, to be ended with base_free(). */
static struct replay_tensor run(const struct cell_model *model)
{
    struct replay_tensor inputs[CELL_TENSORS_MAX] = {{.rank = 0}};
    struct replay_tensor outputs[CELL_TENSORS_MAX] = {{.rank = 0}};
    for (uint32_t i = 0; i < model->n_inputs; i++) {
        inputs[i] = make_input(&model->inputs[i]);
    }
    replay_run(model, inputs, outputs);
    for (uint32_t i = 0; i < model->n_inputs; i++) {
        base_free(inputs[i].data);
    }
    for (uint32_t o = 1; o < model->n_outputs; o++) {
        base_free(outputs[o].data);
    }
    return outputs[0];
}

/* The last h of the plain model, [BATCH, HIDDEN]: what several cases must arrive at. */
static struct replay_tensor plain_last(void)
{
    struct fixture f;
    begin_usual(&f);
    onnx_node(&f.builder, "LSTM", "x w r b", "- h");
    ints(&f, "axis", 0, 0, 0, 1);
    onnx_node(&f.builder, "Squeeze", "h axis", "out");
    output(&f, "out");
    struct replay_tensor result = run(load(&f));
    end(&f);
    return result;
}

static void expect_same(const struct replay_tensor *got, const struct replay_tensor *wanted)
{
    ck_assert_uint_eq(got->count, wanted->count);
    for (size_t i = 0; i < got->count; i++) {
        util_assert_close(got->data[i], wanted->data[i], 1e-12, 0);
    }
}

/* Ends the case: the model computes the plain model's last h. */
static void expect_plain_last(struct fixture *f)
{
    struct replay_tensor wanted = plain_last();
    struct replay_tensor got = run(f->model);
    expect_same(&got, &wanted);
    base_free(got.data);
    base_free(wanted.data);
    end(f);
}

/* ---- Axes --------------------------------------------------------------------------------- */

START_TEST(test_layout_1_puts_the_batch_first)
{
    struct fixture f;
    const int64_t x[] = {-1, -1, IN};
    begin(&f, 3, x);
    Onnx__NodeProto *node = onnx_node(&f.builder, "LSTM", "x w r b", "y h");
    onnx_set_int(&f.builder, node, "layout", 1);
    ints(&f, "axis", 1, 0, 0, 1);
    onnx_node(&f.builder, "Squeeze", "h axis", "out");
    output(&f, "out");
    output(&f, "y");
    load(&f);
    ck_assert_int_eq(f.model->inputs[0].batch_axis, 0);
    ck_assert_int_eq(f.model->inputs[0].time_axis, 1);
    ck_assert_uint_eq(f.model->outputs[1].rank, 4);
    ck_assert_int_eq(f.model->outputs[1].batch_axis, 0);
    ck_assert_int_eq(f.model->outputs[1].time_axis, 1);
    expect_plain_last(&f);
}
END_TEST

START_TEST(test_batch_of_size_1_is_a_lone_sequence)
{
    struct fixture f;
    const int64_t x[] = {-1, 1, IN};
    begin(&f, 3, x);
    onnx_node(&f.builder, "LSTM", "x w r b", "y");
    output(&f, "y");
    load(&f);
    ck_assert_int_eq(f.model->inputs[0].batch_axis, -1);
    ck_assert_int_eq(f.model->inputs[0].time_axis, 0);
    ck_assert_int_eq(f.model->inputs[0].dims[1], 1);
    ck_assert_int_eq(f.model->outputs[0].batch_axis, -1);
    ck_assert_int_eq(f.model->outputs[0].dims[0], CELL_DIM_ANY);
    end(&f);
}
END_TEST

START_TEST(test_fixed_sizes_stay_as_the_file_states_them)
{
    struct fixture f;
    const int64_t x[] = {TIME, BATCH, IN};
    begin(&f, 3, x);
    onnx_node(&f.builder, "LSTM", "x w r b", "y");
    ints(&f, "shape", TIME, BATCH, HIDDEN, 3);
    ints(&f, "start", TIME - 1, 0, 0, 1);
    ints(&f, "end", TIME, 0, 0, 1);
    ints(&f, "flat", BATCH, HIDDEN, 0, 2);
    onnx_node(&f.builder, "Reshape", "y shape", "s");
    onnx_node(&f.builder, "Slice", "s start end", "last");
    onnx_node(&f.builder, "Reshape", "last flat", "out");
    output(&f, "out");
    load(&f);
    ck_assert_int_eq(f.model->inputs[0].dims[0], TIME);
    ck_assert_int_eq(f.model->inputs[0].dims[1], BATCH);
    ck_assert_int_eq(f.model->inputs[0].time_axis, 0);
    ck_assert_int_eq(f.model->outputs[0].dims[0], BATCH);
    ck_assert_int_eq(f.model->outputs[0].batch_axis, 0);
    expect_plain_last(&f);
}
END_TEST

START_TEST(test_a_single_step_model_hands_on_its_state)
{
    struct fixture f;
    const int64_t x[] = {1, -1, IN};
    const int64_t state[] = {1, -1, HIDDEN};
    begin(&f, 3, x);
    onnx_input(&f.builder, "h0", FLOAT, 3, state);
    onnx_input(&f.builder, "c0", FLOAT, 3, state);
    onnx_node(&f.builder, "LSTM", "x w r b - h0 c0", "y hn cn");
    ints(&f, "axes", 0, 1, 0, 2);
    onnx_node(&f.builder, "Squeeze", "y axes", "out");
    output(&f, "out");
    output(&f, "hn");
    output(&f, "cn");
    load(&f);
    ck_assert_uint_eq(f.model->n_stages, 1);
    ck_assert_int_eq(f.model->inputs[0].time_axis, 0);
    ck_assert_int_eq(f.model->inputs[0].dims[0], 1);
    ck_assert_int_eq(f.model->outputs[0].time_axis, -1);
    ck_assert_int_eq(f.model->output_sources[0][0].kind, CELL_SOURCE_LAST);
    ck_assert_int_eq(f.model->output_sources[2][0].kind, CELL_SOURCE_LAST_STATE);
    end(&f);
}
END_TEST

START_TEST(test_lengths_are_an_input)
{
    struct fixture f;
    const int64_t lengths[] = {-1};
    begin_usual(&f);
    onnx_input(&f.builder, "lengths", INT64, 1, lengths);
    onnx_set_int(&f.builder, onnx_node(&f.builder, "Cast", "lengths", "l32"), "to",
                 ONNX__TENSOR_PROTO__DATA_TYPE__INT32);
    onnx_node(&f.builder, "LSTM", "x w r b l32", "y");
    output(&f, "y");
    load(&f);
    ck_assert(f.model->inputs[1].is_lengths);
    ck_assert_int_eq(f.model->inputs[1].dtype, CELL_I64);
    ck_assert_int_eq(f.model->inputs[1].batch_axis, 0);
    ck_assert_uint_eq(f.model->n_stages, 1);
    end(&f);
}
END_TEST

/* ---- Stages ------------------------------------------------------------------------------- */

START_TEST(test_a_head_in_front_of_the_last_step_runs_once)
{
    struct fixture f;
    const int64_t head[] = {HIDDEN, 2};
    const int64_t last = -1;
    begin_usual(&f);
    onnx_constant(&f.builder, "head", onnx_random(&f.builder, 2, head, &f.random, 0.5f));
    onnx_constant(&f.builder, "last", onnx_ints(&f.builder, 0, 1, &last));
    onnx_node(&f.builder, "LSTM", "x w r b", "y");
    ints(&f, "axis", 1, 0, 0, 1);
    onnx_node(&f.builder, "Squeeze", "y axis", "s");
    onnx_node(&f.builder, "MatMul", "s head", "scores");
    onnx_node(&f.builder, "Softmax", "scores", "all");
    onnx_node(&f.builder, "Gather", "all last", "out");
    output(&f, "out");
    load(&f);
    ck_assert_uint_eq(f.model->n_stages, 2);
    ck_assert_int_eq(f.model->stages[1].kind, CELL_STAGE_ONCE);
    ck_assert_int_eq(f.model->stages[1].inputs[0].kind, CELL_SOURCE_LAST);
    end(&f);
}
END_TEST

/* The step is taken of the ids, whether the file does so in front of the embedding or behind it. */
START_TEST(test_an_embedding_of_one_step)
{
    const int64_t ids[] = {-1, -1};
    const int64_t table[] = {3, IN};
    const int64_t at = _i == 0 ? 0 : -1;
    struct replay_tensor got[2];
    for (uint32_t is_behind = 0; is_behind < 2; is_behind++) {
        struct fixture f;
        begin_usual(&f);
        onnx_input(&f.builder, "ids", INT64, 2, ids);
        onnx_constant(&f.builder, "table", onnx_random(&f.builder, 2, table, &f.random, 0.5f));
        onnx_constant(&f.builder, "at", onnx_ints(&f.builder, 0, 1, &at));
        onnx_node(&f.builder, "Gather", "table ids", "all");
        onnx_node(&f.builder, "Add", "x all", "sum");
        onnx_node(&f.builder, "LSTM", "sum w r b", "- h");
        ints(&f, "axis", 0, 0, 0, 1);
        onnx_node(&f.builder, "Squeeze", "h axis", "last");
        onnx_node(&f.builder, "Gather", is_behind == 1 ? "all at" : "ids at", "one");
        if (is_behind == 0) {
            onnx_node(&f.builder, "Gather", "table one", "looked_up");
        }
        Onnx__NodeProto *both =
            onnx_node(&f.builder, "Concat", is_behind == 1 ? "one last" : "looked_up last", "out");
        onnx_set_int(&f.builder, both, "axis", 1);
        output(&f, "out");
        load(&f);
        ck_assert_int_eq(f.model->inputs[1].id_bound, 3);
        got[is_behind] = run(f.model);
        end(&f);
    }
    expect_same(&got[0], &got[1]);
    base_free(got[0].data);
    base_free(got[1].data);
}
END_TEST

START_TEST(test_a_constant_initial_state_comes_from_a_stage)
{
    struct fixture f;
    const int64_t state[] = {1, 1, HIDDEN};
    begin_usual(&f);
    onnx_constant(&f.builder, "h0", onnx_random(&f.builder, 3, state, &f.random, 0.5f));
    onnx_node(&f.builder, "LSTM", "x w r b - h0", "y h");
    output(&f, "h");
    load(&f);
    ck_assert_uint_eq(f.model->n_stages, 2);
    ck_assert_int_eq(f.model->stages[0].kind, CELL_STAGE_ONCE);
    ck_assert_int_eq(f.model->stages[0].type->def.ops[0].kind, CELL_OP_CONST);
    ck_assert_int_eq(f.model->stages[1].init[0].kind, CELL_SOURCE_LAST);
    ck_assert_int_eq(f.model->stages[1].init[1].kind, CELL_SOURCE_ZERO);
    end(&f);
}
END_TEST

START_TEST(test_zero_initial_states_of_any_form_need_no_stage)
{
    static const float zeros[HIDDEN] = {0};
    struct fixture f;
    const int64_t state[] = {1, 1, HIDDEN};
    begin_usual(&f);
    onnx_constant(&f.builder, "h0", onnx_tensor(&f.builder, FLOAT, 3, state, zeros, sizeof(zeros)));
    onnx_node(&f.builder, "LSTM", "x w r b - h0 h0", "- h");
    ints(&f, "axis", 0, 0, 0, 1);
    onnx_node(&f.builder, "Squeeze", "h axis", "out");
    output(&f, "out");
    load(&f);
    ck_assert_uint_eq(f.model->n_stages, 1);
    expect_plain_last(&f);
}
END_TEST

START_TEST(test_split_and_concat_put_a_row_together_again)
{
    struct fixture f;
    begin_usual(&f);
    ints(&f, "parts", 1, 2, 0, 2);
    onnx_set_int(&f.builder, onnx_node(&f.builder, "Split", "x parts", "a bb"), "axis", 2);
    onnx_set_int(&f.builder, onnx_node(&f.builder, "Concat", "a bb", "again"), "axis", 2);
    onnx_node(&f.builder, "Dropout", "again", "same");
    onnx_node(&f.builder, "LSTM", "same w r b", "- h");
    ints(&f, "axis", 0, 0, 0, 1);
    onnx_node(&f.builder, "Squeeze", "h axis", "out");
    output(&f, "out");
    load(&f);
    ck_assert_uint_eq(f.model->n_stages, 2);
    ck_assert_int_eq(f.model->stages[0].kind, CELL_STAGE_EACH);
    expect_plain_last(&f);
}
END_TEST

START_TEST(test_a_skip_connection_reads_the_input_at_each_step)
{
    struct fixture f;
    const int64_t x[] = {-1, -1, HIDDEN};
    const int64_t w[] = {1, 4 * HIDDEN, HIDDEN};
    const int64_t last = -1;
    begin(&f, 3, x);
    onnx_constant(&f.builder, "wide", onnx_random(&f.builder, 3, w, &f.random, 0.5f));
    onnx_constant(&f.builder, "last", onnx_ints(&f.builder, 0, 1, &last));
    onnx_node(&f.builder, "LSTM", "x wide r b", "y");
    ints(&f, "axis", 1, 0, 0, 1);
    onnx_node(&f.builder, "Squeeze", "y axis", "s");
    onnx_node(&f.builder, "Add", "s x", "sum");
    onnx_node(&f.builder, "Gather", "x last", "x_last");
    output(&f, "sum");
    output(&f, "x_last");
    load(&f);
    ck_assert_uint_eq(f.model->n_stages, 3);
    uint32_t sum = f.model->output_sources[0][0].stage;
    ck_assert_int_eq(f.model->output_sources[0][0].kind, CELL_SOURCE_EACH);
    ck_assert_int_eq(f.model->stages[sum].kind, CELL_STAGE_EACH);
    ck_assert_uint_eq(f.model->stages[sum].type->def.n_inputs, 2);
    ck_assert_int_eq(f.model->output_sources[1][0].kind, CELL_SOURCE_LAST);
    end(&f);
}
END_TEST

START_TEST(test_the_same_file_twice_shares_its_types)
{
    struct fixture f;
    struct cell_model *again = NULL;
    size_t length = 0;
    begin_usual(&f);
    onnx_node(&f.builder, "LSTM", "x w r b", "y h");
    onnx_node(&f.builder, "Tanh", "h", "out");
    output(&f, "out");
    load(&f);
    const uint8_t *bytes = onnx_pack(&f.builder, &length);
    ck_assert_int_eq(cell_model_parse(f.registry, (struct cell_model_file){bytes, length, NULL},
                                      "other", NULL, &again, NULL),
                     BASE_OK);
    ck_assert_uint_eq(again->n_stages, 2);
    for (uint32_t s = 0; s < again->n_stages; s++) {
        ck_assert_ptr_eq(again->stages[s].type, f.model->stages[s].type);
        ck_assert_uint_eq(again->stages[s].type->refs, 2);
    }
    cell_model_free(f.registry, again);
    ck_assert_uint_eq(f.model->stages[0].type->refs, 1);
    end(&f);
}
END_TEST

START_TEST(test_an_if_on_a_constant_is_its_branch)
{
    struct fixture f;
    begin_usual(&f);
    onnx_node(&f.builder, "LSTM", "x w r b", "- h");
    ints(&f, "one", 1, 0, 0, 1);
    ints(&f, "axis", 0, 0, 0, 1);
    onnx_node(&f.builder, "Equal", "one one", "is_one");
    Onnx__GraphProto *then_graph = onnx_graph(&f.builder, "a");
    Onnx__GraphProto *else_graph = onnx_graph(&f.builder, "c");
    onnx_node_in(&f.builder, then_graph, "Squeeze", "h axis", "a");
    onnx_node_in(&f.builder, else_graph, "Erf", "h", "c");
    Onnx__GraphProto *graphs[2] = {then_graph, else_graph};
    for (size_t i = 0; i < 2; i++) { // nobody reads the second one
        Onnx__ValueInfoProto **outputs =
            base_arena_array(&f.builder.arena, 2, sizeof(Onnx__ValueInfoProto *));
        ck_assert_ptr_nonnull(outputs);
        outputs[0] = outputs[1] = graphs[i]->output[0];
        graphs[i]->output = outputs;
        graphs[i]->n_output = 2;
    }
    Onnx__NodeProto *node = onnx_node(&f.builder, "If", "is_one", "out other");
    onnx_set_graph(&f.builder, node, "then_branch", then_graph);
    onnx_set_graph(&f.builder, node, "else_branch", else_graph);
    output(&f, "out");
    load(&f);
    expect_plain_last(&f);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("import");
    TCase *axes = tcase_create("axes");
    TCase *stages = tcase_create("stages");
    tcase_add_test(axes, test_layout_1_puts_the_batch_first);
    tcase_add_test(axes, test_batch_of_size_1_is_a_lone_sequence);
    tcase_add_test(axes, test_fixed_sizes_stay_as_the_file_states_them);
    tcase_add_test(axes, test_a_single_step_model_hands_on_its_state);
    tcase_add_test(axes, test_lengths_are_an_input);
    suite_add_tcase(suite, axes);
    tcase_add_test(stages, test_a_head_in_front_of_the_last_step_runs_once);
    tcase_add_loop_test(stages, test_an_embedding_of_one_step, 0, 2);
    tcase_add_test(stages, test_a_constant_initial_state_comes_from_a_stage);
    tcase_add_test(stages, test_zero_initial_states_of_any_form_need_no_stage);
    tcase_add_test(stages, test_split_and_concat_put_a_row_together_again);
    tcase_add_test(stages, test_a_skip_connection_reads_the_input_at_each_step);
    tcase_add_test(stages, test_the_same_file_twice_shares_its_types);
    tcase_add_test(stages, test_an_if_on_a_constant_is_its_branch);
    suite_add_tcase(suite, stages);
    return util_run(suite);
}
