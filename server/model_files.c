/* See model_files.h. */
#include "server/model_files.h"

#include "base/assert.h"
#include "config/triton_config.h"
#include "server/plugin.h"
#include "server/text.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define PATH_BYTES 4096

#define ONNX        "model.onnx"
#define SAFETENSORS "model.safetensors"

static enum base_status join(char out[PATH_BYTES], const char *folder, const char *name,
                             struct base_error *error)
{
    const int length = snprintf(out, PATH_BYTES, "%s/%s", folder, name);
    return length > 0 && length < PATH_BYTES
               ? BASE_OK
               : base_fail(error, BASE_INVALID_ARGUMENT, "%.200s: path too long", folder);
}

/* What config says of how the files are read. */
static enum base_status read_options(const struct cfg_model_config *config,
                                     struct cell_model_options *out, struct base_error *error)
{
    *out = (struct cell_model_options){.decoding = {.has_start = config->start != CFG_ID_NONE,
                                                    .start = config->start,
                                                    .has_end = config->end != CFG_ID_NONE,
                                                    .end = config->end,
                                                    .steps_max = config->max_steps,
                                                    .beam_width = config->beam,
                                                    .length_penalty = (float)config->length_penalty,
                                                    .blank = config->blank,
                                                    .symbols_max = config->max_symbols}};
    BASE_TRY(cell_precision_find(config->weights, &out->precision, error));
    BASE_TRY(cell_precision_find(config->linear_weights, &out->linear_precision, error));
    return cell_products_find(config->products, &out->products, error);
}

static bool holds(const char *folder, const char *name)
{
    char path[PATH_BYTES];
    struct stat info;
    return join(path, folder, name, NULL) == BASE_OK && stat(path, &info) == 0;
}

static bool ends_with(const char *path, const char *end)
{
    const size_t length = strlen(path);
    return length >= strlen(end) && strcmp(path + length - strlen(end), end) == 0;
}

static enum base_status find_settings(const char *folder, const char *name, char out[PATH_BYTES],
                                      struct base_error *error)
{
    struct stat info;
    BASE_TRY(join(out, folder, name, error));
    return stat(out, &info) == 0 && !S_ISREG(info.st_mode)
               ? base_fail(error, BASE_INVALID_ARGUMENT, "%.200s: not a regular file", out)
               : BASE_OK;
}

enum base_status srv_model_files_configure(const char *folder, const char *name,
                                           struct cfg_model_config *out, struct base_error *error)
{
    char file[PATH_BYTES];
    BASE_TRY(find_settings(folder, "config.yaml", file, error));
    BASE_TRY(cfg_model_config_load(file, out, error));
    BASE_TRY(find_settings(folder, "config.pbtxt", file, error));
    return cfg_triton_config_load(file, name, out, error);
}

const char *srv_model_files_name(const char *folder, const struct cfg_model_config *config)
{
    return config->model_file.name[0] != '\0' ? config->model_file.name
           : holds(folder, SAFETENSORS)       ? SAFETENSORS
                                              : ONNX;
}

bool srv_model_files_is_model(const char *path)
{
    return ends_with(path, ".onnx") || ends_with(path, ".safetensors");
}

/* What config says of the model's inputs. */
static void list_known(const struct cfg_model_config *config,
                       struct cell_known_input items[CFG_CONSTANTS_MAX + CFG_SHAPES_MAX],
                       struct cell_known_inputs *out)
{
    *out = (struct cell_known_inputs){.items = items};
    for (uint32_t i = 0; i < config->constants.count; i++) {
        const struct cfg_constant *constant = &config->constants.items[i];
        items[out->n++] = (struct cell_known_input){
            .name = constant->tensor, .is_constant = true, .number = constant->number};
    }
    for (uint32_t i = 0; i < config->shapes.count; i++) {
        const struct cfg_shape *shape = &config->shapes.items[i];
        struct cell_known_input *item = &items[out->n++];
        *item = (struct cell_known_input){.name = shape->tensor, .rank = shape->rank};
        for (uint32_t k = 0; k < shape->rank; k++) {
            item->dims[k] = shape->sizes[k] == CFG_SIZE_ANY ? CELL_DIM_ANY : shape->sizes[k];
        }
    }
}

/* Gives the model the states that its sessions keep, or frees it. */
static enum base_status keep_states(struct cell_registry *registry,
                                    const struct cfg_model_config *config,
                                    struct cell_model **model, struct base_error *error)
{
    struct cell_kept_state items[CFG_STATES_MAX];
    const struct cell_kept_states kept = {.recurrent = config->states.recurrent,
                                          .n = config->states.count,
                                          .items = items,
                                          .steps_max = config->max_sequence_length};
    for (uint32_t i = 0; i < kept.n; i++) {
        items[i] =
            (struct cell_kept_state){config->states.items[i].input, config->states.items[i].output};
    }
    const enum base_status status = cell_model_keep_states(*model, &kept, error);
    if (status != BASE_OK) {
        cell_model_free(registry, *model);
        *model = NULL;
    }
    return status;
}

/* One file that is a whole model. Layers are of safetensors alone, and safetensors needs them. */
static enum base_status load_file(struct cell_registry *registry, const char *path,
                                  const char *label, const struct cfg_model_config *config,
                                  struct cell_model **out, struct base_error *error)
{
    struct cell_layer items[CFG_LAYERS_MAX];
    const struct cell_layers layers = {config->layers.count, items};
    const bool is_safetensors = ends_with(path, ".safetensors");
    struct cell_model_options options = {0};
    struct cell_known_input inputs[CFG_CONSTANTS_MAX + CFG_SHAPES_MAX];
    struct cell_known_inputs known;
    const struct cell_ctc_of ctc = {config->ctc.name, config->blank};
    BASE_TRY(read_options(config, &options, error));
    options.ctc = config->ctc.name[0] != '\0' ? &ctc : NULL;
    list_known(config, inputs, &known);
    if (is_safetensors && known.n > 0) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "config.yaml has constants or shapes, which are of a " ONNX
                         ", and the model is " SAFETENSORS);
    }
    options.known = &known;
    if (is_safetensors != (layers.n > 0)) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         is_safetensors
                             ? "safetensors tells no layers: name them in config.yaml (layers: "
                               "embedding:embed,lstm:rnn,last,linear:fc)"
                             : "config.yaml names layers, which are of a " SAFETENSORS
                               ", and the model is ONNX");
    }
    for (uint32_t i = 0; i < layers.n; i++) {
        items[i] =
            (struct cell_layer){config->layers.items[i].kind, config->layers.items[i].prefix};
    }
    options.layers = is_safetensors ? &layers : NULL;
    BASE_TRY(cell_model_load(registry, path, label, &options, out, error));
    return keep_states(registry, config, out, error);
}

static void name_parts(const struct cfg_model_config *config, const char *folder,
                       struct cell_parts *out)
{
    *out = (struct cell_parts){.folder = folder, .n = config->cells.count};
    for (uint32_t i = 0; i < out->n; i++) {
        out->names[i] = config->cells.names[i];
    }
}

/* The parts of a model, which are ONNX. */
static enum base_status load_parts(struct cell_registry *registry, const char *folder,
                                   const char *label, const struct cfg_model_config *config,
                                   struct cell_model **out, struct base_error *error)
{
    struct cell_model_options options = {0};
    struct cell_parts parts;
    enum cell_unfold unfold = CELL_UNFOLD_CHAIN;
    BASE_TRY(cell_unfold_find(config->unfold, &unfold, error));
    if (config->layers.count > 0) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "config.yaml names layers, and unfold: %s, whose parts are ONNX",
                         config->unfold);
    }
    if (config->constants.count > 0 || config->shapes.count > 0) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "config.yaml has constants or shapes, which are of a " ONNX
                         ", and unfold: %s",
                         config->unfold);
    }
    const bool has_states = config->states.count > 0 || config->states.recurrent;
    if (has_states && unfold != CELL_UNFOLD_TRANSDUCER) {
        return base_fail(
            error, BASE_INVALID_ARGUMENT,
            "config.yaml has states, which are of unfold: chain or transducer, and unfold: "
            "%s",
            config->unfold);
    }
    if (config->ctc.name[0] != '\0') {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "config.yaml has ctc, which is of unfold: chain, and unfold: %s",
                         config->unfold);
    }
    BASE_TRY(read_options(config, &options, error));
    switch (unfold) {
    case CELL_UNFOLD_TREE:
        return cell_model_load_tree(registry, folder, label, &options, out, error);
    case CELL_UNFOLD_SEQ2SEQ:
        return cell_model_load_decoder(registry, folder, label, &options, out, error);
    case CELL_UNFOLD_TRANSDUCER:
        BASE_TRY(cell_model_load_transducer(registry, folder, label, &options, out, error));
        return keep_states(registry, config, out, error);
    case CELL_UNFOLD_GRAPH:
        name_parts(config, folder, &parts);
        return cell_model_load_graph(registry, &parts, label, &options, out, error);
    case CELL_UNFOLD_PLUGIN:
        name_parts(config, folder, &parts);
        return cell_model_load_cells(registry, &parts, label, &options, out, error);
    case CELL_UNFOLD_CHAIN:
        break;
    }
    base_assert(false); // it has no parts
    return BASE_INTERNAL;
}

static enum base_status load_cells(struct cell_registry *registry, const char *folder,
                                   const char *label, const struct cfg_model_config *config,
                                   struct cell_model **out, struct base_error *error)
{
    char file[PATH_BYTES];
    enum cell_unfold unfold = CELL_UNFOLD_CHAIN;
    BASE_TRY(cell_unfold_find(config->unfold, &unfold, error));
    if (unfold != CELL_UNFOLD_CHAIN) {
        return load_parts(registry, folder, label, config, out, error);
    }
    if (holds(folder, SAFETENSORS) && holds(folder, ONNX)) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "there is a " SAFETENSORS " and a " ONNX "; which of them is the model?");
    }
    const bool is_onnx = config->layers.count == 0 || holds(folder, ONNX);
    BASE_TRY(
        join(file, folder, is_onnx ? srv_model_files_name(folder, config) : SAFETENSORS, error));
    return load_file(registry, file, label, config, out, error);
}

/* above: the folder of config.yaml. */
static enum base_status add_texts(struct cell_registry *registry, const char *above,
                                  const struct cfg_model_config *config,
                                  struct srv_model_files *files, struct base_error *error)
{
    const enum base_status status =
        srv_texts_load(config, above, files->cells, &files->texts, error);
    if (status != BASE_OK) {
        srv_model_files_release(registry, files);
    }
    return status;
}

enum base_status srv_model_files_load(struct cell_registry *registry, const char *folder,
                                      const char *label, const struct cfg_model_config *config,
                                      struct srv_model_files *out, struct base_error *error)
{
    char above[PATH_BYTES];
    *out = (struct srv_model_files){0};
    BASE_TRY(join(above, folder, "..", error));
    BASE_TRY(load_cells(registry, folder, label, config, &out->cells, error));
    return add_texts(registry, above, config, out, error);
}

void srv_model_files_release(struct cell_registry *registry, struct srv_model_files *files)
{
    srv_plugin_free(files->plugin);
    if (files->cells != NULL) {
        cell_model_free(registry, files->cells);
    }
    srv_texts_free(files->texts);
    *files = (struct srv_model_files){0};
}

/* What the config.yaml of the folder above says. Of a graph's cells the files alone do not tell. */
static bool are_cells(const char *folder, enum cell_unfold *out)
{
    char path[PATH_BYTES];
    struct stat info;
    struct cfg_model_config config;
    if (join(path, folder, "../config.yaml", NULL) != BASE_OK || stat(path, &info) != 0 ||
        !S_ISREG(info.st_mode) || // reading anything else could wait
        cfg_model_config_load(path, &config, NULL) != BASE_OK ||
        cell_unfold_find(config.unfold, out, NULL) != BASE_OK ||
        (*out != CELL_UNFOLD_GRAPH && *out != CELL_UNFOLD_PLUGIN)) {
        return false;
    }
    bool has_cell = false;
    for (uint32_t i = 0; i < config.cells.count && !has_cell; i++) {
        char file[CFG_PART_NAME_BYTES + 8];
        (void)snprintf(file, sizeof(file), "%s.onnx", config.cells.names[i]);
        has_cell = holds(folder, file);
    }
    return has_cell;
}

bool srv_model_files_are_parts(const char *folder, enum cell_unfold *out)
{
    if (are_cells(folder, out)) {
        return true;
    }
    const bool is_tree = holds(folder, "leaf.onnx") && holds(folder, "node.onnx");
    *out = is_tree                        ? CELL_UNFOLD_TREE
           : holds(folder, "joiner.onnx") ? CELL_UNFOLD_TRANSDUCER
                                          : CELL_UNFOLD_SEQ2SEQ;
    return is_tree || holds(folder, "decoder.onnx");
}

/* The folder above the version's: of a file, or of the folder of parts. */
static enum base_status folder_above(const char *path, bool are_parts, char out[PATH_BYTES],
                                     struct base_error *error)
{
    const char *slash = strrchr(path, '/');
    const int folder = are_parts ? (int)strlen(path) : slash == NULL ? 0 : (int)(slash - path);
    const int length = snprintf(out, PATH_BYTES, "%.*s%s..", folder, path, folder > 0 ? "/" : "");
    return length < PATH_BYTES
               ? BASE_OK
               : base_fail(error, BASE_INVALID_ARGUMENT, "%.200s: path too long", path);
}

static enum base_status open_cells(struct cell_registry *registry, const char *path,
                                   const char *above, struct cfg_model_config *config,
                                   struct srv_model_files *out, struct base_error *error)
{
    enum cell_unfold unfold = CELL_UNFOLD_CHAIN;
    const bool are_parts = srv_model_files_are_parts(path, &unfold);
    BASE_TRY(srv_model_files_configure(above, NULL, config, error));
    if (unfold != CELL_UNFOLD_GRAPH && unfold != CELL_UNFOLD_PLUGIN) {
        config->unfold = unfold == CELL_UNFOLD_TREE         ? "tree"
                         : unfold == CELL_UNFOLD_TRANSDUCER ? "transducer"
                                                            : "seq2seq"; // as the files tell
    }
    struct base_error why = {.status = BASE_OK};
    const enum base_status status =
        are_parts ? load_cells(registry, path, "model", config, &out->cells, &why)
                  : load_file(registry, path, "model", config, &out->cells, &why);
    return status == BASE_OK ? BASE_OK : base_fail(error, status, "%.150s: %s", path, why.message);
}

enum base_status srv_model_files_open(struct cell_registry *registry, const char *path,
                                      struct srv_model_files *out, struct base_error *error)
{
    char above[PATH_BYTES];
    struct cfg_model_config config = {0};
    enum cell_unfold unfold = CELL_UNFOLD_CHAIN;
    *out = (struct srv_model_files){0};
    BASE_TRY(folder_above(path, srv_model_files_are_parts(path, &unfold), above, error));
    BASE_TRY(open_cells(registry, path, above, &config, out, error));
    return add_texts(registry, above, &config, out, error);
}
