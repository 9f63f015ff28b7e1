/* Loading a model file: read it whole, hand it to the importer, keep the result. Loop thread. The
 * file may be anything; what it may make us do is bounded by its size (docs/model-files.md). */
#include "cells/model.h"

#include "base/assert.h"
#include "base/mem.h"
#include "cells/file.h"
#include "cells/import/import.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FOLDER_BYTES 4096

/* An empty model; options may be NULL. */
static enum base_status create_model(const struct cell_model_options *options,
                                     struct cell_model **out, struct base_error *error)
{
    *out = base_alloc(sizeof(**out));
    if (*out == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "no memory for a model");
    }
    if (options != NULL) {
        (*out)->options = *options;
    }
    return BASE_OK;
}

/* Fills the model, or frees it and leaves NULL. */
static enum base_status import(struct cell_registry *registry, struct cell_model_file file,
                               const char *label, struct cell_model **model,
                               struct base_error *error)
{
    base_assert(*model != NULL);
    const struct cell_layers *layers = (*model)->options.layers;
    const struct cell_known_inputs *known = (*model)->options.known;
    (*model)->options.layers = NULL; // the caller's, as ctc is
    (*model)->options.known = NULL;
    base_assert(layers == NULL || !(*model)->options.is_part);
    const enum base_status status =
        layers == NULL ? cell__import_onnx(registry, file, known, label, *model, error)
                       : cell__import_layers(registry, file, layers, label, *model, error);
    if (status != BASE_OK) {
        base_free(*model);
        *model = NULL;
        return status;
    }
    (*model)->options.ctc = NULL;
    (*model)->file_bytes += file.length;
    return BASE_OK;
}

/* Of the file at `path`. */
static enum base_status folder_of(const char *path, char out[FOLDER_BYTES],
                                  struct base_error *error)
{
    const char *slash = strrchr(path, '/');
    const size_t length = slash == NULL ? 0 : slash == path ? 1 : (size_t)(slash - path);
    if (length >= FOLDER_BYTES) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "the model file's path is too long");
    }
    memcpy(out, length == 0 ? "." : path, length == 0 ? 1 : length);
    out[length == 0 ? 1 : length] = '\0';
    return BASE_OK;
}

enum base_status cell_model_load(struct cell_registry *registry, const char *path,
                                 const char *label, const struct cell_model_options *options,
                                 struct cell_model **out, struct base_error *error)
{
    unsigned char *bytes = NULL;
    size_t length = 0;
    char folder[FOLDER_BYTES];
    *out = NULL;
    BASE_TRY(folder_of(path, folder, error));
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        char reason[128];
        int number = errno;
        return base_fail(error, number == ENOENT ? BASE_NOT_FOUND : BASE_UNAVAILABLE,
                         "the model file cannot be opened: %s",
                         strerror_r(number, reason, sizeof(reason)));
    }
    enum base_status status =
        cell_file_read(fd, "the model file", CELL_MODEL_BYTES_MAX, &bytes, &length, error);
    (void)close(fd);
    if (status == BASE_OK) {
        status = create_model(options, out, error);
    }
    if (status == BASE_OK) {
        const struct cell_model_file file = {bytes, length, folder};
        status = import(registry, file, label, out, error);
    }
    base_free(bytes);
    return status;
}

enum base_status cell_model_parse(struct cell_registry *registry, struct cell_model_file file,
                                  const char *label, const struct cell_model_options *options,
                                  struct cell_model **out, struct base_error *error)
{
    base_assert(registry != NULL && label != NULL && out != NULL);
    *out = NULL;
    if (file.length > CELL_MODEL_BYTES_MAX) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "the model has %zu bytes; at most %zu",
                         file.length, CELL_MODEL_BYTES_MAX);
    }
    BASE_TRY(create_model(options, out, error));
    return import(registry, file, label, out, error);
}

enum base_status cell_unfold_find(const char *name, enum cell_unfold *out, struct base_error *error)
{
    static const char *const names[] = {"chain", "tree",   "seq2seq",
                                        "graph", "plugin", "transducer"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(name, names[i]) == 0) {
            *out = (enum cell_unfold)i;
            return BASE_OK;
        }
    }
    return base_fail(error, BASE_INVALID_ARGUMENT,
                     "unfold '%.40s'; there are chain, tree, seq2seq, transducer, graph and plugin",
                     name);
}

const char *cell_stage_kind_name(const struct cell_stage *stage)
{
    static const char *const names[] = {"once", "at each step", "chain", "decoder"};
    return stage->is_reverse ? "chain, backwards" : names[stage->kind];
}

int64_t cell_tensor_ids_below(const struct cell_tensor *tensor)
{
    int64_t least = tensor->id_bound;
    for (uint32_t k = 0; k < tensor->n_id_bounds; k++) {
        const int64_t bound = tensor->id_bounds[k];
        least = bound > 0 && (least == 0 || bound < least) ? bound : least;
    }
    return least;
}

uint32_t cell_tensor_find(const struct cell_tensor *tensors, uint32_t n, const char *name)
{
    uint32_t i = 0;
    while (i < n && strcmp(tensors[i].name, name) != 0) {
        i++;
    }
    return i;
}

const struct cell_history *cell_model_history(const struct cell_model *model,
                                              const struct cell_source *source)
{
    for (uint32_t n = 0; n < model->n_histories; n++) {
        const struct cell_source *of = &model->histories[n].source;
        const bool is_same = of->index == source->index &&
                             (of->kind == CELL_SOURCE_EACH ? of->stage == source->stage
                                                           : of->piece == source->piece);
        if (of->kind == source->kind && is_same) {
            return &model->histories[n];
        }
    }
    return NULL;
}

struct cell_tensor cell_labels_tensor(uint32_t output, int64_t batch)
{
    static const char *const names[] = {CELL_TOKEN, "scores", "steps", "lengths"};
    const bool is_timed = output != CELL_LABELS_LENGTHS;
    const bool has_batch = batch != 0;
    base_assert(output < CELL_LABELS_OUTPUTS);
    struct cell_tensor made = {.dtype = output == CELL_LABELS_SCORES ? CELL_F32 : CELL_I64,
                               .rank = has_batch && is_timed ? 2 : 1,
                               .dims = {CELL_DIM_ANY, CELL_DIM_ANY},
                               .batch_axis = has_batch ? 0 : -1,
                               .time_axis = !is_timed   ? -1
                                            : has_batch ? 1
                                                        : 0,
                               .piece_axis = -1,
                               .pieces = 1,
                               .width = 1};
    if (has_batch || !is_timed) {
        made.dims[0] = has_batch ? batch : 1;
    }
    (void)snprintf(made.name, sizeof(made.name), "%s", names[output]);
    return made;
}

uint32_t cell_sequence_parts(const struct cell_sequence *sequence)
{
    return sequence->parts > 0 ? sequence->parts : 1;
}

uint32_t cell_sequence_steps(const struct cell_sequence *sequence, uint32_t source_steps)
{
    const int64_t parts = cell_sequence_parts(sequence);
    base_assert(sequence->stride > 0);
    const int64_t reach = (int64_t)source_steps * parts + sequence->add;
    const int64_t most = sequence->kept > 0 ? sequence->kept : reach / sequence->stride + 1;
    const int64_t steps = reach < 0 ? 0 : most;
    return steps > UINT32_MAX ? UINT32_MAX : (uint32_t)steps;
}

bool cell_model_recurs(const struct cell_model *model, uint32_t stage)
{
    const struct cell_type *type = model->stages[stage].type;
    const bool is_inner = model->unfold == CELL_UNFOLD_TREE && stage == CELL_TREE_NODE;
    return type->state_layout != CELL_LAYOUT_NONE || is_inner ||
           model->unfold == CELL_UNFOLD_GRAPH || model->unfold == CELL_UNFOLD_PLUGIN;
}

void cell_model_steps(const struct cell_model *model, uint32_t given,
                      uint32_t steps[CELL_SEQUENCES_MAX])
{
    for (uint32_t s = 0; s < CELL_SEQUENCES_MAX; s++) {
        const struct cell_sequence *sequence = &model->sequences[s];
        base_assert(sequence->stride == 0 || sequence->source < s);
        steps[s] = sequence->stride > 0   ? cell_sequence_steps(sequence, steps[sequence->source])
                   : sequence->stated > 0 ? sequence->stated
                                          : given;
    }
}

static uint32_t least_of(const struct cell_sequence *sequence)
{
    const uint32_t least = sequence->may_be_empty ? 0 : 1;
    return sequence->steps_min > 0 ? sequence->steps_min : least;
}

bool cell_sequence_is_met(const struct cell_sequence *sequence, uint32_t source_steps,
                          uint32_t steps)
{
    const int64_t reach = (int64_t)source_steps * cell_sequence_parts(sequence) + sequence->add;
    return steps >= least_of(sequence) && (steps > 0 || reach + sequence->stride >= 0);
}

/* The given sequence of the first one that what is given does not make long enough, or not even; or
 * CELL_SEQUENCES_MAX. */
static uint32_t find_unmet(const struct cell_model *model, const uint32_t given[CELL_SEQUENCES_MAX])
{
    uint32_t steps[CELL_SEQUENCES_MAX];
    uint32_t origin[CELL_SEQUENCES_MAX] = {0};
    for (uint32_t s = 0; s < CELL_SEQUENCES_MAX; s++) {
        const struct cell_sequence *sequence = &model->sequences[s];
        const bool is_given = sequence->stride == 0;
        origin[s] = is_given ? s : origin[sequence->source];
        steps[s] = is_given ? given[s] : cell_sequence_steps(sequence, steps[sequence->source]);
        const uint32_t source_steps = is_given ? 0 : steps[sequence->source];
        if (model->sequences[origin[s]].stated == 0 &&
            (!cell_sequence_is_met(sequence, source_steps, steps[s]) ||
             (sequence->multiple > 0 && steps[s] % sequence->multiple != 0))) {
            return origin[s];
        }
    }
    return CELL_SEQUENCES_MAX;
}

/* More than these, and a request says itself what it lacks. */
#define TRIES_MAX 65536u

void cell_model_steps_min(const struct cell_model *model, uint32_t steps[CELL_SEQUENCES_MAX])
{
    for (uint32_t s = 0; s < CELL_SEQUENCES_MAX; s++) {
        const struct cell_sequence *sequence = &model->sequences[s];
        steps[s] = least_of(sequence);
        steps[s] = sequence->stated > 0 ? sequence->stated : steps[s];
    }
    for (uint32_t s = CELL_SEQUENCES_MAX; s-- > 0;) { // a source stands before what follows from it
        const struct cell_sequence *sequence = &model->sequences[s];
        const uint32_t multiple = sequence->multiple;
        if (multiple > 0 && steps[s] % multiple != 0) {
            steps[s] += multiple - steps[s] % multiple;
        }
        if (sequence->stride == 0) {
            continue;
        }
        const int64_t rest = sequence->kept > 0 ? 0 : (int64_t)steps[s] - 1;
        const int64_t parts = cell_sequence_parts(sequence);
        const int64_t needed = rest * sequence->stride - sequence->add;
        const int64_t whole = needed > 0 ? (needed + parts - 1) / parts : needed;
        const int64_t most = whole > UINT32_MAX ? UINT32_MAX : whole;
        if (most > (int64_t)steps[sequence->source]) {
            steps[sequence->source] = (uint32_t)most;
        }
    }
    // What parts make of the fewest need not be a multiple.
    uint32_t unmet = find_unmet(model, steps);
    for (uint32_t i = 0; unmet < CELL_SEQUENCES_MAX && i < TRIES_MAX; i++) {
        steps[unmet]++;
        unmet = find_unmet(model, steps);
    }
}

void cell_model_free(struct cell_registry *registry, struct cell_model *model)
{
    if (model == NULL) {
        return;
    }
    for (uint32_t s = 0; s < model->n_stages; s++) {
        cell_type_unref(registry, model->stages[s].type);
    }
    base_free(model);
}
