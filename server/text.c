/* See text.h; what is answered is in text_write.c. Each text is walked twice: its words are counted
 * first, so that memory is taken for what came. Words that are cut into pieces are cut once, and
 * the ids kept between the two. */
#include "server/text.h"

#include "base/assert.h"
#include "base/mem.h"
#include "server/about.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PATH_BYTES 4096

/* Ids of all texts of an input. */
#define PIECES_BYTES_MAX ((size_t)256 << 20)

/* ---- Loading -------------------------------------------------------------------------------- */

int32_t srv_texts_tensor(const struct cell_tensor *tensors, uint32_t n, const char *name)
{
    for (uint32_t i = 0; i < n; i++) {
        if (strcmp(tensors[i].name, name) == 0) {
            return (int32_t)i;
        }
    }
    return -1;
}

static bool is_integer(const struct cell_tensor *tensor)
{
    return tensor->dtype == CELL_I64 || tensor->dtype == CELL_I32;
}

static uint32_t axes_of_rows(const struct cell_tensor *tensor)
{
    return (tensor->batch_axis >= 0 ? 1u : 0u) + (tensor->time_axis >= 0 ? 1u : 0u);
}

static enum base_status check_tree(const struct srv_texts *texts,
                                   const struct srv_vocabulary *vocabulary,
                                   const struct cell_model *model, const char *name,
                                   struct base_error *error)
{
    if (srv_vocabulary_kind(vocabulary) != CFG_VOCABULARY_WORDS) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "vocabularies: '%s' is of trees, whose texts are made of words", name);
    }
    if (texts->has_start || texts->has_end) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "vocabularies: '%s' is of trees, which have no text-start or text-end",
                         name);
    }
    if (model->tree.n_leaf_inputs != 1 || model->tree.n_node_inputs != 0) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "vocabularies: '%s': trees as text have words and brackets alone, but "
                         "this model has %u inputs of leaves and %u of inner nodes",
                         name, model->tree.n_leaf_inputs, model->tree.n_node_inputs);
    }
    return BASE_OK;
}

static enum base_status check_id(const char *key, int64_t id, const struct cell_tensor *tensor,
                                 struct base_error *error)
{
    return tensor->id_bound == 0 || id < tensor->id_bound
               ? BASE_OK
               : base_fail(error, BASE_INVALID_ARGUMENT,
                           "%s: %" PRId64 ", but input '%s' has ids 0..%" PRId64, key, id,
                           tensor->name, tensor->id_bound - 1);
}

static enum base_status check_input(const struct srv_texts *texts,
                                    const struct srv_vocabulary *vocabulary,
                                    const struct cell_model *model, uint32_t i,
                                    struct base_error *error)
{
    const struct cell_tensor *tensor = &model->inputs[i];
    if (model->unfold == CELL_UNFOLD_TREE) {
        BASE_TRY(check_tree(texts, vocabulary, model, tensor->name, error));
    }
    if (!is_integer(tensor) || tensor->rank == 0 || tensor->rank != axes_of_rows(tensor) ||
        tensor->is_lengths) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "vocabularies: input '%s' does not hold ids, one a step", tensor->name);
    }
    const bool is_file = srv_vocabulary_kind(vocabulary) != CFG_VOCABULARY_BYTES;
    const int64_t count = srv_vocabulary_count(vocabulary);
    if (is_file && tensor->id_bound > 0 && count > tensor->id_bound) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "vocabularies: %" PRId64 " texts for input '%s', which has ids "
                         "0..%" PRId64,
                         count, tensor->name, tensor->id_bound - 1);
    }
    BASE_TRY(check_id("unknown", texts->unknown, tensor, error));
    if (tensor->time_axis < 0) {
        return BASE_OK; // one word a text
    }
    BASE_TRY(check_id("text-start", texts->has_start ? texts->start : 0, tensor, error));
    return check_id("text-end", texts->has_end ? texts->end : 0, tensor, error);
}

static enum base_status check_output(const struct cell_model *model, uint32_t o,
                                     struct base_error *error)
{
    const struct cell_tensor *tensor = &model->outputs[o];
    const bool is_beam =
        model->decoder.beam_width > 0 && !model->labels.is_on && o == CELL_BEAM_TOKENS;
    if (!is_integer(tensor) || tensor->rank == 0 ||
        tensor->rank != axes_of_rows(tensor) + (is_beam ? 1u : 0u)) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "vocabularies: output '%s' does not hold ids, one a step", tensor->name);
    }
    return BASE_OK;
}

static bool join_path(char out[PATH_BYTES], const char *folder, const char *name)
{
    const int length = snprintf(out, PATH_BYTES, "%s/%s", folder, name);
    return length >= 0 && length < PATH_BYTES;
}

static enum base_status load_one(struct srv_texts *texts, const struct cfg_vocabulary *item,
                                 const char *folder, const struct cell_model *model,
                                 struct base_error *error)
{
    char path[PATH_BYTES];
    char codes_path[PATH_BYTES];
    const int32_t input = srv_texts_tensor(model->inputs, model->n_inputs, item->tensor);
    const int32_t output = srv_texts_tensor(model->outputs, model->n_outputs, item->tensor);
    const bool fits =
        join_path(path, folder, item->file) && join_path(codes_path, folder, item->codes);
    if (model->unfold == CELL_UNFOLD_GRAPH || model->unfold == CELL_UNFOLD_PLUGIN) {
        return base_fail(error, BASE_UNIMPLEMENTED, "vocabularies: not of the cells of a graph");
    }
    if (input < 0 && output < 0) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "vocabularies: '%s' is neither an input nor an output", item->tensor);
    }
    if (!fits) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "%s: path too long", item->file);
    }
    const struct srv_vocabulary_source source = {.kind = item->kind,
                                                 .path = path,
                                                 .name = item->file,
                                                 .codes_path = codes_path,
                                                 .codes_name = item->codes};
    struct srv_vocabulary *vocabulary = NULL;
    BASE_TRY(srv_vocabulary_load(&source, &vocabulary, error));
    texts->vocabularies[texts->n_vocabularies++] = vocabulary;
    if (input >= 0) {
        BASE_TRY(check_input(texts, vocabulary, model, (uint32_t)input, error));
        texts->inputs[input] = vocabulary;
    }
    if (output >= 0) {
        BASE_TRY(check_output(model, (uint32_t)output, error));
        texts->outputs[output] = vocabulary;
    }
    return BASE_OK;
}

enum base_status srv_texts_load(const struct cfg_model_config *config, const char *folder,
                                const struct cell_model *model, struct srv_texts **out,
                                struct base_error *error)
{
    *out = NULL;
    if (config->vocabularies.count == 0) {
        return BASE_OK;
    }
    struct srv_texts *texts = base_alloc(sizeof(*texts));
    if (texts == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "out of memory");
    }
    texts->unknown = config->unknown == CFG_ID_NONE ? SRV_VOCABULARY_NONE : config->unknown;
    texts->has_start = config->text_start != CFG_ID_NONE;
    texts->start = config->text_start;
    texts->has_end = config->text_end != CFG_ID_NONE;
    texts->end = config->text_end;
    for (uint32_t i = 0; i < config->vocabularies.count; i++) {
        const struct cfg_vocabulary *item = &config->vocabularies.items[i];
        const enum base_status status = load_one(texts, item, folder, model, error);
        if (status != BASE_OK) {
            srv_texts_free(texts);
            return status;
        }
    }
    *out = texts;
    return BASE_OK;
}

void srv_texts_free(struct srv_texts *texts)
{
    for (uint32_t i = 0; texts != NULL && i < texts->n_vocabularies; i++) {
        srv_vocabulary_free(texts->vocabularies[i]);
    }
    base_free(texts);
}

/* ---- BYTES tensors -------------------------------------------------------------------------- */

enum base_status srv_strings_next(struct srv_strings *strings, struct srv_word *out, bool *more,
                                  struct base_error *error)
{
    const struct srv_tensor *tensor = strings->tensor;
    const size_t left = tensor->bytes - strings->at;
    uint32_t length = 0;
    *more = left > 0;
    if (left == 0) {
        return BASE_OK;
    }
    if (left >= SRV_TEXT_PREFIX_BYTES) {
        memcpy(&length, tensor->data + strings->at, SRV_TEXT_PREFIX_BYTES); // little-endian
    }
    if (left < SRV_TEXT_PREFIX_BYTES || length > left - SRV_TEXT_PREFIX_BYTES) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "input '%s': the bytes of text %u are cut off", tensor->name,
                         strings->index);
    }
    *out = (struct srv_word){
        .text = (const char *)tensor->data + strings->at + SRV_TEXT_PREFIX_BYTES, .length = length};
    strings->at += SRV_TEXT_PREFIX_BYTES + length;
    strings->index++;
    return BASE_OK;
}

void srv_texts_put(enum cell_dtype dtype, uint8_t *data, size_t i, int64_t id)
{
    const size_t bytes = cell_dtype_bytes(dtype);
    memcpy(data + i * bytes, &id, bytes); // little-endian
}

/* A word for a message: printable ASCII, cut. */
#define SHOWN_BYTES 24
static void show(char out[SHOWN_BYTES + 4], struct srv_word word)
{
    size_t n = word.length < SHOWN_BYTES ? word.length : SHOWN_BYTES;
    for (size_t i = 0; i < n; i++) {
        const char c = word.text[i];
        out[i] = '?';
        if (c >= ' ' && c <= '~') {
            out[i] = c;
        }
    }
    snprintf(out + n, 4, "%s", word.length > n ? "..." : "");
}

enum base_status srv_texts_id(const struct srv_texts *texts,
                              const struct srv_vocabulary *vocabulary, struct srv_text_place place,
                              struct srv_word word, int64_t *out, struct base_error *error)
{
    char shown[SHOWN_BYTES + 4];
    *out = srv_vocabulary_find(vocabulary, word);
    *out = *out == SRV_VOCABULARY_NONE ? texts->unknown : *out;
    if (*out != SRV_VOCABULARY_NONE) {
        return BASE_OK;
    }
    show(shown, word);
    return base_fail(error, BASE_INVALID_ARGUMENT,
                     "input '%s': \"%s\" in text %u is not in the vocabulary", place.name, shown,
                     place.index);
}

/* ---- Reading -------------------------------------------------------------------------------- */

struct reading {
    const struct srv_texts *texts;
    const struct srv_vocabulary *vocabulary;
    const struct cell_tensor *want;
    struct srv_tensor *tensor;
    struct base_arena *arena;
    struct base_error *error;
    uint32_t *steps; /* [n] */
    uint32_t n, longest;
    struct srv_words words; /* of the text at hand */
    struct base_buf pieces; /* where words are cut: an int32_t each, text after text */
    bool is_cut;
    uint32_t n_before, n_behind; /* ids that no text says: 0 or 1 */
};

static enum base_status no_memory(struct base_error *error)
{
    return base_fail(error, BASE_RESOURCE_EXHAUSTED, "request memory spent");
}

static enum base_status check_count(const struct reading *r, uint32_t index, uint32_t words)
{
    if (words == 0) {
        return base_fail(r->error, BASE_INVALID_ARGUMENT, "input '%s': text %u is empty",
                         r->want->name, index);
    }
    if (r->want->time_axis < 0 && words > 1) {
        return base_fail(r->error, BASE_INVALID_ARGUMENT,
                         "input '%s': text %u has %u words, expected one", r->want->name, index,
                         words);
    }
    return BASE_OK;
}

/* Ids of text `index`, behind those of the texts before it. */
static enum base_status cut_text(struct reading *r, uint32_t index, struct srv_word text,
                                 uint32_t *out)
{
    const struct srv_sentencepiece *model = srv_vocabulary_sentencepiece(r->vocabulary);
    const size_t before = r->pieces.length;
    struct base_error why;
    const enum base_status status = srv_sentencepiece_encode(model, text, &r->pieces, &why);
    if (status != BASE_OK) {
        return base_fail(r->error, status, "input '%s': text %u: %s", r->want->name, index,
                         why.message);
    }
    *out = (uint32_t)((r->pieces.length - before) / sizeof(int32_t));
    return check_count(r, index, *out);
}

/* Words of text `index`; their ids too, where they are cut. */
static enum base_status count_of(struct reading *r, uint32_t index, struct srv_word text,
                                 uint32_t *out)
{
    const struct srv_text_place place = {r->want->name, index};
    struct srv_word word;
    int64_t id = 0;
    *out = 0;
    srv_words_begin(&r->words, r->vocabulary, text);
    while (srv_words_next(&r->words, &word)) {
        if (r->is_cut) {
            BASE_TRY(srv_texts_id(r->texts, r->vocabulary, place, word, &id, r->error));
            const int32_t piece = (int32_t)id; // lines and `unknown` are no more
            base_buf_add(&r->pieces, &piece, sizeof piece);
        }
        (*out)++;
    }
    return r->pieces.failed ? no_memory(r->error) : check_count(r, index, *out);
}

/* How many words each text has. */
static enum base_status count_words(struct reading *r)
{
    struct srv_strings strings = {.tensor = r->tensor};
    struct srv_word text = {.text = ""};
    bool more = true;
    for (;;) {
        BASE_TRY(srv_strings_next(&strings, &text, &more, r->error));
        if (!more || strings.index > r->n) {
            break;
        }
        uint32_t words = 0;
        BASE_TRY(srv_vocabulary_sentencepiece(r->vocabulary) != NULL
                     ? cut_text(r, strings.index - 1, text, &words)
                     : count_of(r, strings.index - 1, text, &words));
        words += r->n_before + r->n_behind;
        r->steps[strings.index - 1] = words;
        r->longest = words > r->longest ? words : r->longest;
    }
    if (more || strings.index != r->n) {
        return base_fail(r->error, BASE_INVALID_ARGUMENT, "input '%s': %s%u texts, shape [%u]",
                         r->want->name, more ? "more than " : "", more ? r->n : strings.index,
                         r->n);
    }
    return BASE_OK;
}

static void put_id(const struct reading *r, uint8_t *data, uint32_t row, size_t step, int64_t id)
{
    const size_t at = r->want->time_axis == 0 ? step * r->n + row : (size_t)row * r->longest + step;
    srv_texts_put(r->want->dtype, data, at, id);
}

/* What stands before and behind each text. */
static void fill_ends(const struct reading *r, uint8_t *data)
{
    for (uint32_t row = 0; row < r->n; row++) {
        if (r->n_before > 0) {
            put_id(r, data, row, 0, r->texts->start);
        }
        if (r->n_behind > 0) {
            put_id(r, data, row, r->steps[row] - 1, r->texts->end);
        }
    }
}

/* What count_words() has found. */
static void fill_pieces(const struct reading *r, uint8_t *data)
{
    const char *next = r->pieces.data;
    for (uint32_t row = 0; row < r->n; row++) {
        for (size_t t = r->n_before; t < r->steps[row] - r->n_behind; t++) {
            int32_t id;
            memcpy(&id, next, sizeof id);
            next += sizeof id;
            put_id(r, data, row, t, id);
        }
    }
}

static enum base_status fill_ids(struct reading *r, uint8_t *data)
{
    struct srv_strings strings = {.tensor = r->tensor};
    struct srv_word text = {.text = ""};
    struct srv_word word;
    bool more = true;
    for (uint32_t row = 0; row < r->n; row++) {
        const struct srv_text_place place = {r->want->name, row};
        BASE_TRY(srv_strings_next(&strings, &text, &more, r->error));
        srv_words_begin(&r->words, r->vocabulary, text);
        for (size_t t = r->n_before; srv_words_next(&r->words, &word); t++) {
            int64_t id = 0;
            BASE_TRY(srv_texts_id(r->texts, r->vocabulary, place, word, &id, r->error));
            put_id(r, data, row, t, id);
        }
    }
    return BASE_OK;
}

/* Rows of several inputs of one sequence have the same lengths. */
static enum base_status agree(const struct reading *r, struct srv_text_rows *rows)
{
    const uint32_t *others = rows->steps[r->want->sequence];
    if (r->want->time_axis < 0) {
        return BASE_OK;
    }
    for (uint32_t row = 0; others != NULL && row < r->n; row++) {
        if (others[row] != r->steps[row]) {
            return base_fail(r->error, BASE_INVALID_ARGUMENT,
                             "input '%s': %u words in text %u, but another input has %u",
                             r->want->name, r->steps[row], row, others[row]);
        }
    }
    rows->steps[r->want->sequence] = r->steps;
    rows->n[r->want->sequence] = r->n;
    return BASE_OK;
}

static enum base_status read_rows(struct reading *r, struct srv_text_rows *rows)
{
    struct srv_tensor *tensor = r->tensor;
    const struct cell_tensor *want = r->want;
    const bool fits = tensor->rank == 1 && tensor->shape[0] > 0 && tensor->shape[0] < INT32_MAX &&
                      (want->batch_axis >= 0 || tensor->shape[0] == 1);
    const uint32_t others = want->time_axis >= 0 ? rows->n[want->sequence] : 0;
    if (!fits || (others > 0 && (uint32_t)tensor->shape[0] != others)) {
        return base_fail(r->error, BASE_INVALID_ARGUMENT,
                         "input '%s': texts come as BYTES of shape [%s]", want->name,
                         want->batch_axis >= 0 ? "batch" : "1");
    }
    r->n = (uint32_t)tensor->shape[0];
    r->steps = base_arena_array(r->arena, r->n, sizeof(*r->steps));
    if (r->steps == NULL) {
        return no_memory(r->error);
    }
    BASE_TRY(count_words(r));
    BASE_TRY(agree(r, rows));
    const size_t bytes = cell_dtype_bytes(want->dtype);
    uint8_t *ids = base_arena_array(r->arena, r->n * (size_t)r->longest, bytes);
    if (ids == NULL) {
        return no_memory(r->error);
    }
    fill_ends(r, ids);
    if (r->is_cut) {
        fill_pieces(r, ids);
    } else {
        BASE_TRY(fill_ids(r, ids));
    }
    tensor->datatype = srv_about_datatype(want->dtype);
    tensor->rank = want->rank;
    for (uint32_t axis = 0; axis < want->rank; axis++) {
        tensor->shape[axis] = want->time_axis == (int32_t)axis ? r->longest : r->n;
    }
    tensor->data = ids;
    tensor->bytes = r->n * (size_t)r->longest * bytes;
    return BASE_OK;
}

enum base_status srv_texts_read(const struct srv_texts *texts, const struct cell_model *model,
                                struct srv_request *request, struct srv_text_rows *rows,
                                struct base_error *error)
{
    *rows = (struct srv_text_rows){0};
    for (uint32_t i = 0; texts != NULL && i < request->n_inputs; i++) {
        struct srv_tensor *tensor = &request->inputs[i];
        const int32_t k = srv_texts_tensor(model->inputs, model->n_inputs, tensor->name);
        if (strcmp(tensor->datatype, SRV_BYTES) != 0 || k < 0 || texts->inputs[k] == NULL) {
            continue; // what is wrong with it is told when the tensors are checked
        }
        if (model->unfold == CELL_UNFOLD_TREE) {
            return srv_texts_read_trees(texts, model, tensor, request, rows, error);
        }
        const enum cfg_vocabulary_kind kind = srv_vocabulary_kind(texts->inputs[k]);
        const bool has_steps = model->inputs[k].time_axis >= 0;
        struct reading reading = {.texts = texts,
                                  .vocabulary = texts->inputs[k],
                                  .want = &model->inputs[k],
                                  .tensor = tensor,
                                  .arena = &request->arena,
                                  .error = error,
                                  .is_cut = kind == CFG_VOCABULARY_BPE ||
                                            kind == CFG_VOCABULARY_SENTENCEPIECE,
                                  .n_before = texts->has_start && has_steps ? 1 : 0,
                                  .n_behind = texts->has_end && has_steps ? 1 : 0};
        base_buf_init(&reading.pieces, PIECES_BYTES_MAX);
        const enum base_status status = read_rows(&reading, rows);
        base_buf_release(&reading.pieces);
        BASE_TRY(status);
    }
    return BASE_OK;
}
