/* Describing models without serving them: they are loaded as the server would and their tensors
 * and stages written out. Any thread; nothing stays. */
#include "server/check_model.h"

#include "base/mem.h"
#include "cells/model.h"
#include "server/about.h"
#include "server/model_files.h"
#include "server/tensors.h"
#include "server/text.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PATH_BYTES  4096
#define DEPTH_MAX   3u /* repository / model / version */
#define FOLDERS_MAX 4096u

static void write_vocabulary(struct base_buf *out, const struct srv_vocabulary *vocabulary)
{
    if (vocabulary != NULL) {
        base_buf_printf(out, ", as text of %u %s", srv_vocabulary_count(vocabulary),
                        cfg_vocabulary_kind_name(srv_vocabulary_kind(vocabulary)));
    }
}

/* Of several elements each has its own. */
static void write_ids(struct base_buf *out, const struct cell_tensor *tensor)
{
    if (tensor->id_bound > 0) {
        base_buf_printf(out, ", ids %s%" PRId64, srv_ids_from(tensor), tensor->id_bound - 1);
    }
    for (uint32_t k = 0; k < tensor->n_id_bounds; k++) {
        if (tensor->id_bounds[k] > 0) {
            base_buf_printf(out, ", ids [%u] 0..%" PRId64, k, tensor->id_bounds[k] - 1);
        }
    }
}

/* rows, steps: what the batch axis and the time axis count. */
static void write_tensor(struct base_buf *out, const char *what, const struct cell_tensor *tensor,
                         const struct srv_vocabulary *vocabulary, const char *rows,
                         const char *steps)
{
    base_buf_printf(out, "  %-7s %s %s [", what, tensor->name, srv_about_datatype_of(tensor)->name);
    for (uint32_t d = 0; d < tensor->rank; d++) {
        base_buf_text(out, d > 0 ? ", " : "");
        if (tensor->dims[d] != CELL_DIM_ANY) {
            base_buf_printf(out, "%" PRId64, tensor->dims[d]);
        } else {
            base_buf_text(out, tensor->batch_axis == (int32_t)d ? rows : steps);
        }
    }
    base_buf_text(out, "]");
    write_ids(out, tensor);
    write_vocabulary(out, vocabulary);
    base_buf_text(out, tensor->optional ? ", optional\n" : "\n");
}

static void write_stage(struct base_buf *out, const struct cell_model *model, uint32_t index)
{
    static const char *const parts[] = {"of each leaf", "of each inner node", "of each root"};
    const struct cell_stage *stage = &model->stages[index];
    const struct cell_type *type = stage->type;
    if (model->graph.n_outputs > 0) { // of a graph; its type may have been named by an equal one
        base_buf_printf(out, "  cell %u %s:", index, model->graph.cells[index].name);
    } else {
        base_buf_printf(out, "  stage %u %s (%s):", index, type->name,
                        model->unfold == CELL_UNFOLD_TREE ? parts[index]
                                                          : cell_stage_kind_name(stage));
    }
    for (uint32_t i = 0; i < type->def.n_ops; i++) {
        base_buf_printf(out, " %s", cell_op_name(type->def.ops[i].kind));
    }
    base_buf_printf(out, "; %" PRIu64 " weight bytes, %" PRIu64 " flops a row and step\n",
                    type->weight_bytes, type->flops);
}

static const char *rows_of_graph(const struct cell_model *model, uint32_t input)
{
    return input == model->graph.cells_input   ? "nodes"
           : input == model->graph.edges_input ? "edges"
                                               : "nodes of the cell";
}

/* What no client sends, and none is told of. */
static void write_states(struct base_buf *out, const struct cell_model *model)
{
    for (uint32_t s = 0; s < model->n_states; s++) {
        base_buf_printf(out, "  state   %s goes on from %s\n",
                        model->inputs[model->states[s].input].name,
                        model->outputs[model->states[s].output].name);
    }
}

static void write_model(struct base_buf *out, const char *path, const struct srv_model_files *files)
{
    static const struct srv_texts no_texts;
    const struct cell_model *model = files->cells;
    const struct srv_texts *texts = files->texts != NULL ? files->texts : &no_texts;
    const bool is_tree = model->unfold == CELL_UNFOLD_TREE;
    const bool is_graph = model->unfold == CELL_UNFOLD_GRAPH;
    base_buf_printf(out, "%s: ok, %s, %" PRIu64 " bytes\n", path,
                    model->producer[0] != '\0' ? model->producer : "producer not stated",
                    model->file_bytes);
    for (uint32_t i = 0; i < model->n_inputs; i++) {
        const char *rows = is_graph                        ? rows_of_graph(model, i)
                           : !is_tree                      ? "batch"
                           : i < model->tree.n_leaf_inputs ? "leaves"
                                                           : "inner nodes";
        write_tensor(out, "input", &model->inputs[i], texts->inputs[i], rows, "time");
    }
    for (uint32_t i = 0; i < model->n_outputs; i++) {
        write_tensor(out, "output", &model->outputs[i], texts->outputs[i],
                     is_tree    ? "roots"
                     : is_graph ? "nodes of the cell"
                                : "batch",
                     model->unfold == CELL_UNFOLD_SEQ2SEQ ? "steps" : "time");
    }
    if (model->unfold == CELL_UNFOLD_PLUGIN) { // nothing of it is run to look at a model
        base_buf_text(out, "  tensors are those that unfold.so names\n");
    }
    write_states(out, model);
    for (uint32_t i = 0; i < model->n_stages; i++) {
        write_stage(out, model, i);
    }
}

/* A model file, or the folder of a model's parts. */
static enum base_status check_path(const char *path, struct base_buf *out, struct base_error *error)
{
    struct cell_registry *registry = NULL;
    struct srv_model_files files;
    if (cell_registry_create(&registry) != BASE_OK) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "out of memory");
    }
    const enum base_status status = srv_model_files_open(registry, path, &files, error);
    if (status == BASE_OK) {
        write_model(out, path, &files);
        srv_model_files_release(registry, &files);
    }
    cell_registry_free(registry);
    return status;
}

/* Folders still to look at, breadth first. */
struct walk {
    char (*paths)[PATH_BYTES];
    uint32_t depths[FOLDERS_MAX];
    uint32_t next, count, files;
};

/* One entry of a folder: a model file is checked, a folder is looked at later. */
static enum base_status visit(struct walk *walk, const char *path, uint32_t depth,
                              struct base_buf *out, struct base_error *error)
{
    struct stat info;
    if (stat(path, &info) != 0) {
        return base_fail(error, BASE_NOT_FOUND, "%s: no such file or folder", path);
    }
    if (S_ISREG(info.st_mode)) {
        if (depth > 0 && !srv_model_files_is_model(path)) {
            return BASE_OK;
        }
        walk->files++;
        return check_path(path, out, error);
    }
    if (S_ISDIR(info.st_mode) && depth <= DEPTH_MAX && walk->count < FOLDERS_MAX) {
        snprintf(walk->paths[walk->count], PATH_BYTES, "%s", path);
        walk->depths[walk->count++] = depth;
    }
    return BASE_OK;
}

static enum base_status visit_folder(struct walk *walk, const char *path, uint32_t depth,
                                     struct base_buf *out, struct base_error *error)
{
    struct dirent **entries = NULL;
    enum cell_unfold unfold = CELL_UNFOLD_CHAIN;
    if (srv_model_files_are_parts(path, &unfold)) {
        walk->files++;
        return check_path(path, out, error);
    }
    int n = scandir(path, &entries, NULL, alphasort);
    enum base_status status = BASE_OK;
    if (n < 0) {
        return base_fail(error, BASE_NOT_FOUND, "%s: cannot be read", path);
    }
    for (int i = 0; i < n; i++) {
        char full[PATH_BYTES];
        int length = snprintf(full, sizeof(full), "%s/%s", path, entries[i]->d_name);
        if (status == BASE_OK && entries[i]->d_name[0] != '.' && length < PATH_BYTES) {
            status = visit(walk, full, depth + 1, out, error);
        }
        base_free(entries[i]);
    }
    base_free((void *)entries);
    return status;
}

enum base_status srv_check_model(const char *path, struct base_buf *out, struct base_error *error)
{
    struct walk *walk = base_alloc(sizeof(*walk));
    char(*paths)[PATH_BYTES] = base_alloc_array(FOLDERS_MAX, PATH_BYTES);
    enum base_status status = BASE_OK;
    if (walk == NULL || paths == NULL) {
        status = base_fail(error, BASE_RESOURCE_EXHAUSTED, "out of memory");
    } else {
        walk->paths = paths;
        status = visit(walk, path, 0, out, error);
        while (status == BASE_OK && walk->next < walk->count) {
            uint32_t at = walk->next++;
            status = visit_folder(walk, paths[at], walk->depths[at], out, error);
        }
        if (status == BASE_OK && walk->files == 0) {
            status = base_fail(error, BASE_NOT_FOUND, "%s: no model file in it", path);
        }
    }
    base_free(paths);
    base_free(walk);
    return status;
}
