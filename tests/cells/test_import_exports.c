/* Files that people export: langid, order, and every PyTorch export under tests/data/onnx. Each
 * imports, has the stages one would draw by hand, and computes what PyTorch computed. */
#include "base/mem.h"
#include "cells/model.h"
#include "tests/cells/replay.h"
#include "tests/fuzz/sound.h"
#include "tests/util.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

static struct cell_model *load(struct cell_registry *registry, const char *relative)
{
    char path[UTIL_PATH_BYTES];
    struct cell_model *model = NULL;
    struct base_error error = {.status = BASE_OK};
    util_repo_path(path, relative);
    enum base_status status = cell_model_load(registry, path, "test", NULL, &model, &error);
    ck_assert_msg(status == BASE_OK, "%s: %s", relative, error.message);
    return model;
}

START_TEST(test_langid_is_one_chain_with_its_embedding_and_a_head)
{
    struct cell_registry *registry = NULL;
    ck_assert_int_eq(cell_registry_create(&registry), BASE_OK);
    struct cell_model *model = load(registry, "models/langid/1/model.onnx");

    ck_assert_uint_eq(model->n_inputs, 1);
    const struct cell_tensor *tokens = &model->inputs[0];
    ck_assert_str_eq(tokens->name, "tokens");
    ck_assert_int_eq(tokens->dtype, CELL_I64);
    ck_assert_uint_eq(tokens->rank, 2);
    ck_assert_int_eq(tokens->dims[0], CELL_DIM_ANY);
    ck_assert_int_eq(tokens->dims[1], CELL_DIM_ANY);
    ck_assert_int_eq(tokens->batch_axis, 0);
    ck_assert_int_eq(tokens->time_axis, 1);
    ck_assert_uint_eq(tokens->width, 1);
    ck_assert_int_eq(tokens->id_bound, 256);
    ck_assert_uint_eq(model->n_outputs, 1);
    ck_assert_str_eq(model->outputs[0].name, "probabilities");
    ck_assert_int_eq(model->outputs[0].batch_axis, 0);
    ck_assert_int_eq(model->outputs[0].time_axis, -1);
    ck_assert_int_eq(model->outputs[0].dims[1], 2);
    ck_assert(!model->inputs[0].is_lengths);
    ck_assert_str_eq(model->producer, "pytorch 1.13.0");

    ck_assert_uint_eq(model->n_stages, 2);
    const struct cell_stage *chain = &model->stages[0];
    ck_assert_int_eq(chain->kind, CELL_STAGE_CHAIN);
    ck_assert_uint_eq(chain->type->def.n_ops, 2);
    ck_assert_int_eq(chain->type->def.ops[0].kind, CELL_OP_GATHER);
    ck_assert_int_eq(chain->type->def.ops[1].kind, CELL_OP_LSTM);
    ck_assert_int_eq(chain->inputs[0].kind, CELL_SOURCE_INPUT);
    ck_assert_int_eq(chain->init[0].kind, CELL_SOURCE_ZERO);
    ck_assert_str_eq(chain->type->name, "test/lstm");
    const struct cell_stage *head = &model->stages[1];
    ck_assert_int_eq(head->kind, CELL_STAGE_ONCE);
    ck_assert_int_eq(head->inputs[0].kind, CELL_SOURCE_LAST);
    ck_assert_uint_eq(head->type->def.n_ops, 2);
    ck_assert_int_eq(head->type->def.ops[0].kind, CELL_OP_LINEAR);
    ck_assert_int_eq(head->type->def.ops[1].kind, CELL_OP_SOFTMAX);
    ck_assert_int_eq(model->output_sources[0][0].kind, CELL_SOURCE_LAST);
    ck_assert_uint_eq(model->output_sources[0][0].stage, 1);

    cell_model_free(registry, model);
    cell_registry_free(registry);
}
END_TEST

START_TEST(test_langid_answers_as_pytorch_did)
{
    struct cell_registry *registry = NULL;
    ck_assert_int_eq(cell_registry_create(&registry), BASE_OK);
    struct cell_model *model = load(registry, "models/langid/1/model.onnx");
    char path[UTIL_PATH_BYTES];
    util_repo_path(path, "models/langid/sentences.jsonl");
    FILE *file = fopen(path, "r");
    ck_assert_ptr_nonnull(file);
    json_t *line = NULL;
    int lines = 0;
    while ((line = json_loadf(file, JSON_DISABLE_EOF_CHECK, NULL)) != NULL) {
        const char *text = json_string_value(json_object_get(line, "text"));
        struct replay_tensor tokens = {.rank = 2, .dims = {1, (int64_t)strlen(text)}};
        struct replay_tensor answer;
        tokens.count = strlen(text);
        tokens.data = base_alloc_array(tokens.count, sizeof(double));
        for (size_t i = 0; i < tokens.count; i++) {
            tokens.data[i] = (unsigned char)text[i];
        }
        replay_run(model, &tokens, &answer);
        for (size_t i = 0; i < 2; i++) {
            double wanted =
                json_number_value(json_array_get(json_object_get(line, "probabilities"), i));
            util_assert_close(answer.data[i], wanted, 1e-5, 0);
        }
        base_free(answer.data);
        base_free(tokens.data);
        json_decref(line);
        lines++;
    }
    ck_assert_int_ge(lines, 40);
    fclose(file);
    cell_model_free(registry, model);
    cell_registry_free(registry);
}
END_TEST

START_TEST(test_order_is_one_chain_that_hands_its_state_out)
{
    struct cell_registry *registry = NULL;
    ck_assert_int_eq(cell_registry_create(&registry), BASE_OK);
    struct cell_model *model = load(registry, "tests/data/models/order/1/model.onnx");
    ck_assert_uint_eq(model->n_stages, 1);
    ck_assert_int_eq(model->stages[0].kind, CELL_STAGE_CHAIN);
    ck_assert_int_eq(model->stages[0].init[0].kind, CELL_SOURCE_INPUT);
    ck_assert_uint_eq(model->stages[0].init[0].index, 1);
    ck_assert_int_eq(model->stages[0].init[1].kind, CELL_SOURCE_INPUT);
    ck_assert_uint_eq(model->stages[0].init[1].index, 2);
    ck_assert_int_eq(model->inputs[1].batch_axis, 1);
    ck_assert_int_eq(model->inputs[1].time_axis, -1);
    ck_assert_int_eq(model->output_sources[0][0].kind, CELL_SOURCE_EACH);
    for (uint32_t s = 0; s < 2; s++) {
        ck_assert_int_eq(model->output_sources[1 + s][0].kind, CELL_SOURCE_LAST_STATE);
        ck_assert_uint_eq(model->output_sources[1 + s][0].index, s);
    }
    json_t *golden = util_load_json("tests/data/models/order/golden.json");
    const json_t *cases = json_object_get(golden, "cases");
    ck_assert_uint_gt(json_array_size(cases), 0);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        replay_golden(model, json_array_get(cases, i), "order");
    }
    json_decref(golden);
    cell_model_free(registry, model);
    cell_registry_free(registry);
}
END_TEST

/* ---- tests/data/onnx ---------------------------------------------------------------------- */

static const struct {
    const char *prefix;
    enum cell_op_kind kind;
    uint32_t variant;
} cells[] = {
    {"gru_reset_before-", CELL_OP_GRU, CELL_GRU_RESET_BEFORE},
    {"clips", CELL_OP_GRU, CELL_GRU_RESET_AFTER},
    {"regroup_", CELL_OP_GRU, CELL_GRU_RESET_AFTER},
    {"frames", CELL_OP_GRU, CELL_GRU_RESET_AFTER},
    {"group_deconvolved-", CELL_OP_GRU, CELL_GRU_RESET_AFTER},
    {"group_regrouped-", CELL_OP_GRU, CELL_GRU_RESET_AFTER},
    {"group_streamed-", CELL_OP_GRU, CELL_GRU_RESET_AFTER},
    {"gru_", CELL_OP_GRU, CELL_GRU_RESET_AFTER},
    {"reader_embedded-", CELL_OP_LSTM, 0},
    {"reader_", CELL_OP_GRU, CELL_GRU_RESET_AFTER},
    {"bands_both-", CELL_OP_LSTM, 0},
    {"bands_spelled-", CELL_OP_LSTM, 0},
    {"bands_", CELL_OP_GRU, CELL_GRU_RESET_AFTER},
    {"conv_bare-", CELL_OP_GRU, CELL_GRU_RESET_AFTER},
    {"conv_between-", CELL_OP_GRU, CELL_GRU_RESET_AFTER},
    {"conv_viewed-", CELL_OP_GRU, CELL_GRU_RESET_AFTER},
    {"conv_causal-", CELL_OP_GRU, CELL_GRU_RESET_AFTER},
    {"conv_cumulative-", CELL_OP_SELECT, 0}, // sums so far come first
    {"conv_deep-", CELL_OP_GRU, CELL_GRU_RESET_AFTER},
    {"conv_ends-", CELL_OP_GRU, CELL_GRU_RESET_AFTER},
    {"conv_pyramid-", CELL_OP_GRU, CELL_GRU_RESET_AFTER},
    {"conv_middle-", CELL_OP_GRU, CELL_GRU_RESET_AFTER},
    {"conv_taken-", CELL_OP_GRU, CELL_GRU_RESET_AFTER},
    {"conv_group_normed-", CELL_OP_GRU, CELL_GRU_RESET_AFTER},
    {"conv_paired-", CELL_OP_GRU, CELL_GRU_RESET_AFTER},
    {"conv_pool", CELL_OP_GRU, CELL_GRU_RESET_AFTER},
    {"conv_positioned-", CELL_OP_GRU, CELL_GRU_RESET_AFTER},
    {"conv_residual-", CELL_OP_GRU, CELL_GRU_RESET_AFTER},
    {"conv_segments-", CELL_OP_GRU, CELL_GRU_RESET_AFTER},
    {"conv_skipping-", CELL_OP_GRU, CELL_GRU_RESET_AFTER},
    {"conv_unpadded-", CELL_OP_GRU, CELL_GRU_RESET_AFTER},
    {"jax_gru_masked-", CELL_OP_SELECT, 0}, // behind a GRU
    {"jax_gru_", CELL_OP_GRU, CELL_GRU_RESET_AFTER},
    {"jax_rnn_", CELL_OP_RNN, CELL_RNN_TANH},
    {"jax_scan_", CELL_OP_MUL, 0},
    {"keras_activations-", CELL_OP_GRU, CELL_GRU_RESET_AFTER},
    {"keras_autoencoder-", CELL_OP_GRU, CELL_GRU_RESET_AFTER},
    {"keras_bidirectional_gru-", CELL_OP_GRU, CELL_GRU_RESET_AFTER},
    {"keras_bidirectional_rnn-", CELL_OP_RNN, CELL_RNN_TANH},
    {"keras_cells-", CELL_OP_GRU, CELL_GRU_RESET_AFTER}, // behind an LSTM
    {"keras_conv_lstm_2d-", CELL_OP_TRANSPOSE, 0},
    {"keras_conv_lstm-", CELL_OP_MUL, 0}, // four gates of two convolutions each
    {"keras_conv_norm-", CELL_OP_GRU, CELL_GRU_RESET_AFTER},
    {"keras_embedding_masked-", CELL_OP_ADD, 0}, // masks: test_import_keras.c
    {"keras_flat-", CELL_OP_GRU, CELL_GRU_RESET_AFTER},
    {"keras_gru_before-", CELL_OP_GRU, CELL_GRU_RESET_BEFORE},
    {"keras_gru_", CELL_OP_GRU, CELL_GRU_RESET_AFTER},
    {"keras_lstm_hard-", CELL_OP_MUL, 0}, // no kernel has its functions
    {"keras_masking-", CELL_OP_ADD, 0},
    {"keras_rnn_", CELL_OP_RNN, CELL_RNN_TANH},
    {"keras_tagger_masked-", CELL_OP_ADD, 0},
    {"keras_tail-", CELL_OP_GRU, CELL_GRU_RESET_AFTER},
    {"mxnet_gru_", CELL_OP_GRU, CELL_GRU_RESET_AFTER},
    {"mxnet_rnn_", CELL_OP_RNN, CELL_RNN_RELU},
    {"paddle_gru_", CELL_OP_GRU, CELL_GRU_RESET_AFTER},
    {"ids_categories-", CELL_OP_LSTM, 0},
    {"ids_mixed-", CELL_OP_LSTM, 0},
    {"ids_", CELL_OP_GRU, CELL_GRU_RESET_AFTER},
    {"optimised_between-", CELL_OP_GRU, CELL_GRU_RESET_AFTER},
    {"optimised_block-", CELL_OP_RNN, CELL_RNN_TANH},
    {"optimised_dense-", CELL_OP_GRU, CELL_GRU_RESET_AFTER},
    {"optimised_loop-", CELL_OP_RNN, CELL_RNN_TANH},
    {"optimised_products-", CELL_OP_GRU, CELL_GRU_RESET_AFTER},
    {"chunk_", CELL_OP_GRU, CELL_GRU_RESET_AFTER},
    {"own_encoder-", CELL_OP_LSTM, 0},
    {"own_deep-", CELL_OP_LSTM, 0},
    {"own_fusion-", CELL_OP_LSTM, 0},
    {"own_", CELL_OP_GRU, CELL_GRU_RESET_AFTER},
    {"picture_crnn-", CELL_OP_LSTM, 0},
    {"picture_depthwise-", CELL_OP_LSTM, 0},
    {"picture_gated-", CELL_OP_LSTM, 0},
    {"picture_resnet-", CELL_OP_LSTM, 0},
    {"picture_turned-", CELL_OP_LSTM, 0},
    {"picture_", CELL_OP_GRU, CELL_GRU_RESET_AFTER},
    {"transposed_cropped-", CELL_OP_LSTM, 0},
    {"transposed_", CELL_OP_GRU, CELL_GRU_RESET_AFTER},
    {"quantised_conv-", CELL_OP_GRU, CELL_GRU_RESET_AFTER},
    {"quantised_static_signed-", CELL_OP_GRU, CELL_GRU_RESET_AFTER},
    {"half_sensor-", CELL_OP_GRU, CELL_GRU_RESET_AFTER},
    {"half_sines-", CELL_OP_GRU, CELL_GRU_RESET_AFTER},
    {"relative_", CELL_OP_GRU, CELL_GRU_RESET_AFTER},
    {"rnn_tanh_", CELL_OP_RNN, CELL_RNN_TANH},
    {"rnn_relu_", CELL_OP_RNN, CELL_RNN_RELU},
    {"repeated_channels-", CELL_OP_GRU, CELL_GRU_RESET_AFTER},
    {"single_masked-", CELL_OP_GRU, CELL_GRU_RESET_AFTER},
    {"single_mean-", CELL_OP_GRU, CELL_GRU_RESET_AFTER},
    {"sorted_states-", CELL_OP_GRU, CELL_GRU_RESET_AFTER},
    {"stream_coded-", CELL_OP_LSTM, 0},
    {"stream_denoised-", CELL_OP_LSTM, 0},
    {"stream_enhanced-", CELL_OP_LSTM, 0},
    {"stream_placed-", CELL_OP_LSTM, 0},
    {"stream_recalling-", CELL_OP_LSTM, 0},
    {"stream_sloped-", CELL_OP_LSTM, 0},
    {"stream_subsampled-", CELL_OP_LSTM, 0},
    {"stream_", CELL_OP_GRU, CELL_GRU_RESET_AFTER},
    {"", CELL_OP_LSTM, 0},
};

/* What the first chain of a folder's model is, by the folder's name; LSTM where nothing fits. */
static void expect_cell(const struct cell_model *model, const char *folder)
{
    size_t i = 0;
    uint32_t s = 0;
    if (strncmp(folder, "scan_", 5) == 0 || strncmp(folder, "loop_", 5) == 0 ||
        strncmp(folder, "bands_lone-", 11) == 0 || strncmp(folder, "single_unrolled-", 16) == 0 ||
        strncmp(folder, "frames_cell-", 12) == 0 || strncmp(folder, "frames_steps-", 13) == 0 ||
        strncmp(folder, "stream_raised-", 14) == 0 || strncmp(folder, "stream_voiced-", 14) == 0 ||
        strncmp(folder, "stream_convolved-", 17) == 0 ||
        strncmp(folder, "stream_encoded-", 15) == 0 || strncmp(folder, "stream_turned-", 14) == 0) {
        return; // test_import_scan.c, test_import_bands.c; they have none
    }
    while (strncmp(folder, cells[i].prefix, strlen(cells[i].prefix)) != 0) {
        i++;
    }
    while (model->stages[s].kind != CELL_STAGE_CHAIN) {
        s++;
        ck_assert_msg(s < model->n_stages, "%s: no chain", folder);
    }
    const struct cell_def *def = &model->stages[s].type->def;
    const struct cell_op *op = &def->ops[def->n_ops - 1];
    ck_assert_msg(op->kind == cells[i].kind && op->variant == cells[i].variant,
                  "%s: %s, variant %u", folder, cell_op_name(op->kind), op->variant);
}

static void compute_golden(const struct cell_model *model, const char *folder)
{
    char relative[UTIL_PATH_BYTES];
    snprintf(relative, sizeof(relative), "tests/data/onnx/%s/golden.json", folder);
    json_t *golden = util_load_json(relative);
    const json_t *cases = json_object_get(golden, "cases");
    ck_assert_uint_gt(json_array_size(cases), 0);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        replay_golden(model, json_array_get(cases, i), folder);
    }
    json_decref(golden);
}

static void try_export(struct cell_registry *registry, const char *folder)
{
    char relative[UTIL_PATH_BYTES];
    char path[UTIL_PATH_BYTES];
    struct cell_model *model = NULL;
    struct base_error error = {.message = ""};
    snprintf(relative, sizeof(relative), "tests/data/onnx/%s/model.onnx", folder);
    util_repo_path(path, relative);
    enum base_status status = cell_model_load(registry, path, "test", NULL, &model, &error);
    ck_assert_msg(status == BASE_OK, "%s: %s", folder, error.message);
    sound_model(model);
    expect_cell(model, folder);
    compute_golden(model, folder);
    cell_model_free(registry, model);
}

START_TEST(test_every_export_computes_what_pytorch_did)
{
    struct cell_registry *registry = NULL;
    char path[UTIL_PATH_BYTES];
    int tried = 0;
    ck_assert_int_eq(cell_registry_create(&registry), BASE_OK);
    util_repo_path(path, "tests/data/onnx");
    DIR *dir = opendir(path);
    ck_assert_ptr_nonnull(dir);
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        if (strchr(entry->d_name, '.') == entry->d_name || strchr(entry->d_name, '-') == NULL) {
            continue;
        }
        try_export(registry, entry->d_name);
        tried++;
    }
    closedir(dir);
    ck_assert_int_ge(tried, 598);
    cell_registry_free(registry);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("import_exports");
    TCase *tests = tcase_create("exports");
    tcase_add_test(tests, test_langid_is_one_chain_with_its_embedding_and_a_head);
    tcase_add_test(tests, test_langid_answers_as_pytorch_did);
    tcase_add_test(tests, test_order_is_one_chain_that_hands_its_state_out);
    tcase_add_test(tests, test_every_export_computes_what_pytorch_did);
    suite_add_tcase(suite, tests);
    return util_run(suite);
}
