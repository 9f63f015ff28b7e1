/* Shapes. The calls that ask the server are in metadata.c. */
#include "loadgen/model.h"

#include "base/checked.h"
#include "loadgen/number.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct lg_datatype datatypes[] = {
    {"INT64", 8, LG_FILL_INTEGER},  {"INT32", 4, LG_FILL_INTEGER},  {"FP32", 4, LG_FILL_FLOAT},
    {"INT8", 1, LG_FILL_INTEGER},   {"INT16", 2, LG_FILL_INTEGER},  {"FP64", 8, LG_FILL_FLOAT},
    {"UINT8", 1, LG_FILL_INTEGER},  {"UINT16", 2, LG_FILL_INTEGER}, {"FP16", 2, LG_FILL_HALF},
    {"UINT32", 4, LG_FILL_INTEGER}, {"UINT64", 8, LG_FILL_INTEGER}, {"BF16", 2, LG_FILL_BRAIN},
    {"BOOL", 1, LG_FILL_BOOL},      {"BYTES", 0, LG_FILL_TEXT},
};

static const struct lg_datatype *find_datatype(const char *name)
{
    for (size_t i = 0; i < sizeof(datatypes) / sizeof(datatypes[0]); i++) {
        if (strcmp(datatypes[i].name, name) == 0) {
            return &datatypes[i];
        }
    }
    return NULL;
}

static bool copy_name(char *out, const char *name)
{
    size_t length = strlen(name);
    if (length >= LG_NAME_BYTES) {
        return false;
    }
    memcpy(out, name, length + 1);
    return true;
}

static size_t count_open(const struct lg_metadata_input *input)
{
    size_t count = 0;
    for (size_t i = 0; i < input->rank; i++) {
        count += input->shape[i] < 0;
    }
    return count;
}

static size_t first_open(const struct lg_metadata_input *input)
{
    size_t i = 0;
    while (i < input->rank && input->shape[i] >= 0) {
        i++;
    }
    return i;
}

/* Two in one input are batch and length. One each, at different places, can only be the batch: of
 * a step [-1, n] and its state [layers, -1, units]. */
static bool has_open_batch(const struct lg_metadata_input *inputs, size_t count)
{
    size_t place = SIZE_MAX;
    for (size_t i = 0; i < count; i++) {
        size_t open = count_open(&inputs[i]);
        size_t first = first_open(&inputs[i]);
        if (open >= 2 || (open == 1 && place != SIZE_MAX && place != first)) {
            return true;
        }
        place = open == 1 ? first : place;
    }
    return false;
}

static enum base_status take_input(const struct lg_metadata_input *input, bool has_batch,
                                   struct lg_tensor *out, struct base_error *error)
{
    if (!copy_name(out->name, input->name) || input->rank > LG_RANK_MAX) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "input %.64s: name or rank too large",
                         input->name);
    }
    out->datatype = find_datatype(input->datatype);
    if (out->datatype == NULL) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "input %s: cannot make values of type %.32s",
                         out->name, input->datatype);
    }
    out->rank = (uint32_t)input->rank;
    bool batch_open = has_batch;
    for (size_t i = 0; i < input->rank; i++) {
        if (input->shape[i] >= 0) {
            out->dims[i] = input->shape[i];
        } else if (out->datatype->fill == LG_FILL_TEXT) {
            out->dims[i] = LG_DIM_BATCH;
        } else if (batch_open) {
            out->dims[i] = LG_DIM_BATCH;
            batch_open = false;
        } else {
            out->dims[i] = LG_DIM_LENGTH;
        }
    }
    return BASE_OK;
}

static bool parse_dim(const char *word, size_t length, int64_t *out)
{
    uint64_t value = 0;
    if (length == 1 && word[0] == 'B') {
        *out = LG_DIM_BATCH;
    } else if (length == 1 && word[0] == 'L') {
        *out = LG_DIM_LENGTH;
    } else if (lg_number_u64(word, length, INT32_MAX, &value) && value > 0) {
        *out = (int64_t)value;
    } else {
        return false;
    }
    return true;
}

static bool parse_dims(const char *text, struct lg_tensor *out)
{
    out->rank = 0;
    for (const char *word = text;;) {
        const char *comma = strchr(word, ',');
        size_t length = comma == NULL ? strlen(word) : (size_t)(comma - word);
        if (out->rank == LG_RANK_MAX || !parse_dim(word, length, &out->dims[out->rank])) {
            return false;
        }
        out->rank++;
        if (comma == NULL) {
            return true;
        }
        word = comma + 1;
    }
}

static enum base_status apply_shape(const char *shape, struct lg_model *model,
                                    struct base_error *error)
{
    const char *colon = strrchr(shape, ':');
    if (colon == NULL) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "--shape '%s': want INPUT:D,D,...", shape);
    }
    size_t length = (size_t)(colon - shape);
    for (uint32_t i = 0; i < model->input_count; i++) {
        struct lg_tensor *input = &model->inputs[i];
        if (strlen(input->name) == length && memcmp(input->name, shape, length) == 0) {
            if (!parse_dims(colon + 1, input)) {
                return base_fail(error, BASE_INVALID_ARGUMENT,
                                 "--shape '%s': each D is B, L or a number > 0", shape);
            }
            return BASE_OK;
        }
    }
    return base_fail(error, BASE_INVALID_ARGUMENT, "--shape '%s': model %s has no such input",
                     shape, model->name);
}

/* A number, and what follows it. */
static bool take_number(const char **at, int64_t *out)
{
    char *end = NULL;
    errno = 0;
    *out = strtoll(*at, &end, 10);
    const bool is_one = end != *at && errno == 0;
    *at = end;
    return is_one;
}

bool lg_tensor_take_range(struct lg_tensor *tensor, const char *text)
{
    static const char dots[] = "..";
    static const char steps[] = "steps";
    int64_t least = 0;
    int64_t most = 0;
    if (!take_number(&text, &least) || strncmp(text, dots, sizeof(dots) - 1) != 0) {
        return false;
    }
    text += sizeof(dots) - 1;
    const bool is_of_steps = strncmp(text, steps, sizeof(steps) - 1) == 0;
    text += is_of_steps ? sizeof(steps) - 1 : 0;
    if ((!is_of_steps || *text != '\0') && !take_number(&text, &most)) {
        return false;
    }
    if (*text != '\0' || most > LG_RANGE_MAX || least < -LG_RANGE_MAX || most < -LG_RANGE_MAX ||
        least > LG_RANGE_MAX) {
        return false;
    }
    tensor->has_range = true;
    tensor->is_of_steps = is_of_steps;
    tensor->least = least;
    tensor->most = most;
    return true;
}

static bool is_input(const struct lg_metadata_input *input, const char *name, size_t rank)
{
    return strcmp(input->name, name) == 0 && strcmp(input->datatype, "INT64") == 0 &&
           input->rank == rank && input->shape[0] < 0;
}

/* Cells and edges of a graph: numbers at random would be none. */
static bool is_graph(const struct lg_metadata_input *inputs, size_t input_count)
{
    return input_count >= 2 && is_input(&inputs[0], "cells", 1) &&
           is_input(&inputs[1], "edges", 2) && inputs[1].shape[1] == 4;
}

enum base_status lg_model_init(const struct lg_model_wish *wish,
                               const struct lg_metadata_input *inputs, size_t input_count,
                               struct lg_model *out, struct base_error *error)
{
    *out = (struct lg_model){0};
    if (!copy_name(out->name, wish->name) || !copy_name(out->version, wish->version)) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "model name or version too long");
    }
    if (input_count == 0 || input_count > LG_TENSORS_MAX) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "model %s has %zu inputs: want 1 to %u",
                         wish->name, input_count, LG_TENSORS_MAX);
    }
    if (is_graph(inputs, input_count)) {
        return base_fail(error, BASE_UNIMPLEMENTED,
                         "model %s takes graphs of cells (inputs cells and edges), which "
                         "cellbatch-load does not make",
                         wish->name);
    }
    bool has_batch = has_open_batch(inputs, input_count);
    for (size_t i = 0; i < input_count; i++) {
        BASE_TRY(take_input(&inputs[i], has_batch, &out->inputs[i], error));
        out->input_count++;
    }
    for (uint32_t i = 0; i < wish->shape_count; i++) {
        BASE_TRY(apply_shape(wish->shapes[i], out, error));
    }
    return BASE_OK;
}

uint64_t lg_tensor_dims(const struct lg_tensor *tensor, uint32_t batch, uint32_t length,
                        int64_t *dims)
{
    const bool is_text = tensor->datatype->fill == LG_FILL_TEXT;
    int64_t bytes = is_text ? length : tensor->datatype->element_bytes;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        dims[i] = tensor->dims[i] == LG_DIM_BATCH    ? (int64_t)batch
                  : tensor->dims[i] == LG_DIM_LENGTH ? (int64_t)length
                                                     : tensor->dims[i];
        if (!base_i64_mul(bytes, dims[i], &bytes)) {
            return 0;
        }
    }
    return (uint64_t)bytes;
}
