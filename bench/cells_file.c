/* See cells_file.h. Head, the model, and for each stage its definition, followed by its weights in
 * the order of its ops. Stages that share a type have it twice: the registry finds that. */
#include "bench/cells_file.h"

#include "base/buf.h"
#include "base/mem.h"
#include "loadgen/file.h"

#include <stdio.h>
#include <string.h>

#define MAGIC UINT64_C(0x31736c6c65636263) /* "cbcells1" */

struct head {
    uint64_t magic;
    uint32_t model_bytes, def_bytes; /* sizes of the structs */
};

static const struct head our_head = {
    .magic = MAGIC, .model_bytes = sizeof(struct cell_model), .def_bytes = sizeof(struct cell_def)};

static size_t weight_bytes(const struct cell_weight *weight)
{
    return (size_t)weight->rows * weight->cols * cell_dtype_bytes(weight->dtype);
}

/* ---- Writing ---- */

static void write_stage(const struct cell_def *def, FILE *to)
{
    (void)fwrite(def, sizeof(*def), 1, to);
    for (uint32_t o = 0; o < def->n_ops; o++) {
        for (uint32_t w = 0; w < def->ops[o].n_weights; w++) {
            const struct cell_weight *weight = &def->ops[o].weights[w];
            (void)fwrite(weight->data, 1, weight_bytes(weight), to);
        }
    }
}

enum base_status bench_cells_write(const struct cell_model *model, const char *path,
                                   struct base_error *error)
{
    FILE *to = fopen(path, "we");
    if (to == NULL) {
        return base_fail(error, BASE_UNAVAILABLE, "%s: cannot be written", path);
    }
    (void)fwrite(&our_head, sizeof(our_head), 1, to);
    (void)fwrite(model, sizeof(*model), 1, to);
    for (uint32_t s = 0; s < model->n_stages; s++) {
        write_stage(&model->stages[s].type->def, to);
    }
    const bool is_written = ferror(to) == 0;
    const bool is_closed = fclose(to) == 0;
    return is_written && is_closed
               ? BASE_OK
               : base_fail(error, BASE_UNAVAILABLE, "%s: cannot be written", path);
}

/* ---- Reading ---- */

struct reader {
    const struct base_buf *file;
    size_t at;
};

/* The next bytes; NULL: there are not so many. */
static const void *take(struct reader *reader, size_t bytes)
{
    if (bytes > reader->file->length - reader->at) {
        return NULL;
    }
    reader->at += bytes;
    return reader->file->data + reader->at - bytes;
}

/* A copy of each weight, where it is aligned; owned by `weights`, one behind the other. */
static bool take_weights(struct reader *reader, struct cell_def *def, void **copies)
{
    uint32_t n = 0;
    for (uint32_t o = 0; o < def->n_ops; o++) {
        for (uint32_t w = 0; w < def->ops[o].n_weights; w++) {
            struct cell_weight *weight = &def->ops[o].weights[w];
            const size_t bytes = weight_bytes(weight);
            const void *from = take(reader, bytes);
            copies[n] =
                from != NULL && bytes > 0 ? base_alloc_aligned(bytes, BASE_CACHE_LINE) : NULL;
            if (copies[n] == NULL) {
                return false;
            }
            memcpy(copies[n], from, bytes);
            weight->data = copies[n++];
        }
    }
    return true;
}

/* Numbers that must be right before cell_def_check() can look at the rest. */
static bool is_sound(const struct cell_def *def)
{
    bool is_right = def->n_ops <= CELL_OPS_MAX;
    for (uint32_t o = 0; is_right && o < def->n_ops; o++) {
        is_right =
            def->ops[o].n_weights <= sizeof(def->ops[o].weights) / sizeof(struct cell_weight);
        for (uint32_t w = 0; is_right && w < def->ops[o].n_weights; w++) {
            is_right = (unsigned)def->ops[o].weights[w].dtype <= CELL_I32;
        }
    }
    return is_right;
}

static enum base_status read_stage(struct cell_registry *registry, struct reader *reader,
                                   struct cell_stage *stage, struct base_error *error)
{
    void *copies[CELL_OPS_MAX * 4] = {NULL};
    bool is_new = false;
    struct cell_def *def = base_alloc(sizeof(*def));
    const void *from = take(reader, sizeof(*def));
    enum base_status status = BASE_INVALID_ARGUMENT;
    if (def == NULL || from == NULL) {
        base_free(def);
        return base_fail(error, status, "cut short");
    }
    memcpy(def, from, sizeof(*def));
    if (is_sound(def) && take_weights(reader, def, copies)) {
        status = cell_registry_intern(registry, def, "bench/cell", &stage->type, &is_new, error);
    } else {
        base_fail(error, status, "cut short");
    }
    for (size_t i = 0; i < sizeof(copies) / sizeof(copies[0]); i++) {
        base_free(copies[i]);
    }
    base_free(def);
    return status;
}

static enum base_status read_stages(struct cell_registry *registry, struct reader *reader,
                                    struct cell_model *model, struct base_error *error)
{
    const uint32_t n = model->n_stages;
    if (n == 0 || n > CELL_STAGES_MAX) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "no stages");
    }
    // As many as have a type are given back when one fails.
    for (model->n_stages = 0; model->n_stages < n; model->n_stages++) {
        BASE_TRY(read_stage(registry, reader, &model->stages[model->n_stages], error));
    }
    return BASE_OK;
}

static enum base_status parse(struct cell_registry *registry, const struct base_buf *file,
                              struct cell_model **out, struct base_error *error)
{
    struct reader reader = {.file = file};
    const void *head = take(&reader, sizeof(our_head));
    if (head == NULL || memcmp(head, &our_head, sizeof(our_head)) != 0) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "no cells of this program's");
    }
    struct cell_model *model = base_alloc(sizeof(*model));
    const void *from = take(&reader, sizeof(*model));
    if (model == NULL || from == NULL) {
        base_free(model);
        return base_fail(error, BASE_INVALID_ARGUMENT, "cut short");
    }
    memcpy(model, from, sizeof(*model));
    model->options.layers = NULL;
    const enum base_status status = read_stages(registry, &reader, model, error);
    if (status != BASE_OK) {
        cell_model_free(registry, model);
        return status;
    }
    *out = model;
    return BASE_OK;
}

enum base_status bench_cells_read(struct cell_registry *registry, const char *path,
                                  struct cell_model **out, struct base_error *error)
{
    struct base_buf file;
    base_buf_init(&file, LG_FILE_MAX);
    enum base_status status = lg_file_read(path, &file, error);
    if (status == BASE_OK) {
        status = parse(registry, &file, out, error);
    }
    base_buf_release(&file);
    return status;
}
