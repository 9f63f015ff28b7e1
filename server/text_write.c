/* Ids that are answered become text; see text.h. Each text is walked twice: first for its length.
 */
#include "server/text.h"

#include "base/assert.h"
#include "base/utf8.h"
#include "server/about.h"

#include <inttypes.h>
#include <string.h>

struct writing {
    const struct srv_vocabulary *vocabulary;
    const struct cell_tensor *from;
    struct srv_tensor *tensor;
    const uint32_t *steps;
    bool continues; /* there are words before the first */
    struct base_error *error;
    size_t n;    /* texts */
    size_t time; /* steps of the longest */
};

/* Id t of text i. */
static enum base_status id_at(const struct writing *w, size_t i, size_t t, uint32_t *out)
{
    const bool by_time = w->from->time_axis == 0;
    const size_t at = by_time ? t * w->n + i : i * w->time + t;
    const uint8_t *data = w->tensor->data + at * cell_dtype_bytes(w->from->dtype);
    const int64_t id = cell_integer_at(w->from->dtype, data);
    if (id < 0 || id >= (int64_t)srv_vocabulary_count(w->vocabulary)) {
        return base_fail(w->error, BASE_INTERNAL,
                         "output '%s': the model answers id %" PRId64
                         ", but its vocabulary has %u texts",
                         w->from->name, id, srv_vocabulary_count(w->vocabulary));
    }
    *out = (uint32_t)id;
    return BASE_OK;
}

/* Appends the words of text i at *to, or only moves *to where `out` is NULL. */
static enum base_status put_words(const struct writing *w, size_t i, uint8_t *out, size_t *to)
{
    const size_t steps = w->from->time_axis < 0 ? 1 : w->steps[i];
    const bool has_blanks = srv_vocabulary_has_blanks(w->vocabulary);
    bool is_behind = w->continues; // a whole word: parts of an answer end with one
    for (size_t t = 0; t < steps; t++) {
        uint32_t id = 0;
        BASE_TRY(id_at(w, i, t, &id));
        const struct srv_word word = srv_vocabulary_word(w->vocabulary, id);
        if (is_behind && has_blanks) {
            if (out != NULL) {
                out[*to] = ' ';
            }
            (*to)++;
        }
        if (out != NULL) {
            memcpy(out + *to, word.text, word.length);
        }
        *to += word.length;
        is_behind = !word.goes_on;
    }
    return BASE_OK;
}

/* The same of pieces. What continues an answer has text before it. */
static enum base_status put_pieces(const struct writing *w, size_t i, uint8_t *out, size_t *to)
{
    const struct srv_sentencepiece *model = srv_vocabulary_sentencepiece(w->vocabulary);
    const size_t steps = w->from->time_axis < 0 ? 1 : w->steps[i];
    struct srv_sentencepiece_text text = {.has_text = w->continues};
    for (size_t t = 0; t < steps; t++) {
        uint32_t id = 0;
        BASE_TRY(id_at(w, i, t, &id));
        *to += srv_sentencepiece_add(model, &text, id, out == NULL ? NULL : (char *)out + *to);
    }
    *to += srv_sentencepiece_end(&text, out == NULL ? NULL : (char *)out + *to);
    return BASE_OK;
}

/* Appends text i with its length before it. */
static enum base_status put_text(const struct writing *w, size_t i, uint8_t *out, size_t *to)
{
    const size_t start = *to;
    *to += SRV_TEXT_PREFIX_BYTES;
    BASE_TRY(srv_vocabulary_sentencepiece(w->vocabulary) != NULL ? put_pieces(w, i, out, to)
                                                                 : put_words(w, i, out, to));
    const size_t length = *to - start - SRV_TEXT_PREFIX_BYTES;
    if (length > UINT32_MAX) {
        return base_fail(w->error, BASE_RESOURCE_EXHAUSTED, "output '%s': a text of %zu bytes",
                         w->from->name, length);
    }
    if (out != NULL) {
        const uint32_t prefix = (uint32_t)length;
        memcpy(out + start, &prefix, SRV_TEXT_PREFIX_BYTES); // little-endian
    }
    return BASE_OK;
}

/* [.., time, ..] becomes [.., ..]. */
static void drop_time(struct srv_tensor *tensor, int32_t axis)
{
    if (axis < 0) {
        return;
    }
    for (uint32_t i = (uint32_t)axis + 1; i < tensor->rank; i++) {
        tensor->shape[i - 1] = tensor->shape[i];
    }
    tensor->rank--;
    tensor->batch_axis -= tensor->batch_axis > axis ? 1 : 0;
}

static enum base_status write_texts(struct writing *w, struct base_arena *arena)
{
    struct srv_tensor *tensor = w->tensor;
    const int32_t axis = w->from->time_axis;
    w->time = axis < 0 ? 1 : (size_t)tensor->shape[axis];
    w->n = 1;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        w->n *= (int32_t)i == axis ? 1 : (size_t)tensor->shape[i];
    }
    size_t bytes = 0;
    for (size_t i = 0; i < w->n; i++) {
        BASE_TRY(put_text(w, i, NULL, &bytes));
    }
    uint8_t *data = base_arena_alloc(arena, bytes);
    if (data == NULL) {
        return base_fail(w->error, BASE_RESOURCE_EXHAUSTED, "request memory spent");
    }
    size_t at = 0;
    for (size_t i = 0; i < w->n; i++) {
        BASE_TRY(put_text(w, i, data, &at));
    }
    base_assert(at == bytes);
    drop_time(tensor, axis);
    tensor->datatype = SRV_BYTES;
    tensor->data = data;
    tensor->bytes = bytes;
    return BASE_OK;
}

/* Of one row, step after step. */
struct ids {
    const struct srv_vocabulary *vocabulary;
    enum cell_dtype dtype;
    const uint8_t *data;
    int64_t step_bytes;
};

/* -1: one that is not known, which is told when it is written. */
static int64_t id_of(const struct ids *ids, uint32_t step)
{
    const int64_t id = cell_integer_at(ids->dtype, ids->data + (int64_t)step * ids->step_bytes);
    return id < (int64_t)srv_vocabulary_count(ids->vocabulary) ? id : -1;
}

/* The byte that a step is; -1: it is none. */
static int32_t byte_at(const struct ids *ids, uint32_t step)
{
    const struct srv_sentencepiece *model = srv_vocabulary_sentencepiece(ids->vocabulary);
    const int64_t id = id_of(ids, step);
    return model == NULL || id < 0 ? (int32_t)id : srv_sentencepiece_byte(model, (uint32_t)id);
}

/* Of a row's ids, which are bytes, from..n - 1: n without those of a character that is cut off. */
static uint32_t whole_characters(const struct ids *ids, uint32_t from, uint32_t n)
{
    for (uint32_t back = 1; back < 4 && back <= n - from; back++) {
        const int32_t byte = byte_at(ids, n - back);
        if (byte < 0) {
            break; // a piece that is more than a byte
        }
        if ((byte & 0xC0) != 0x80) { // it begins one, or is one
            return base_utf8_expected((char)(uint8_t)byte) > back ? n - back : n;
        }
    }
    return n;
}

/* Of a row's ids, which are pieces, as many as have whole characters. What is handed out first has
 * text: what comes then is known not to begin it. */
static uint32_t whole_pieces(const struct ids *ids, uint32_t from, uint32_t n)
{
    const struct srv_sentencepiece *model = srv_vocabulary_sentencepiece(ids->vocabulary);
    struct srv_sentencepiece_text text = {0};
    n = whole_characters(ids, from, n);
    for (uint32_t i = 0; i < n && from == 0 && !text.has_text; i++) {
        const int64_t id = id_of(ids, i);
        if (id < 0) {
            return n;
        }
        (void)srv_sentencepiece_add(model, &text, (uint32_t)id, NULL);
    }
    return from == 0 && !text.has_text ? 0 : n;
}

/* Of a row's ids, which are pieces of words, from..n - 1: n without those of a word that goes on.
 */
static uint32_t whole_words(const struct ids *ids, uint32_t from, uint32_t n)
{
    for (; n > from; n--) {
        const int64_t id = id_of(ids, n - 1);
        if (id < 0 || !srv_vocabulary_word(ids->vocabulary, (uint32_t)id).goes_on) {
            break;
        }
    }
    return n;
}

/* Of all rows of one output in bytes or pieces of words, up to step `to`: the least of that. */
static uint32_t whole_rows(const struct srv_texts_part *part,
                           const struct srv_vocabulary *vocabulary, const struct sched_tensor *rows,
                           enum cell_dtype dtype, uint32_t to)
{
    const enum cfg_vocabulary_kind kind = srv_vocabulary_kind(vocabulary);
    for (uint32_t row = 0; row < part->n_rows; row++) {
        const struct ids ids = {vocabulary, dtype, rows->data + row * rows->batch_bytes,
                                rows->step_bytes};
        if (part->is_over[row] && part->lengths[row] <= to) {
            continue;
        }
        to = kind == CFG_VOCABULARY_BYTES           ? whole_characters(&ids, part->from, to)
             : kind == CFG_VOCABULARY_SENTENCEPIECE ? whole_pieces(&ids, part->from, to)
                                                    : whole_words(&ids, part->from, to);
    }
    return to;
}

/* Whether a word or character may be several ids. */
static bool is_cut(const struct srv_vocabulary *vocabulary)
{
    const enum cfg_vocabulary_kind kind = srv_vocabulary_kind(vocabulary);
    return kind == CFG_VOCABULARY_BYTES || kind == CFG_VOCABULARY_BPE ||
           kind == CFG_VOCABULARY_SENTENCEPIECE;
}

uint32_t srv_texts_whole(const struct srv_texts *texts, const struct cell_model *model,
                         const struct srv_texts_part *part)
{
    uint32_t to = part->to;
    uint32_t before;
    do { // what one row gives back may be within a character or a word of another
        before = to;
        for (uint32_t o = 0; texts != NULL && o < model->n_outputs; o++) {
            const struct srv_vocabulary *vocabulary = texts->outputs[o];
            if (vocabulary != NULL && part->outputs[o].data != NULL && is_cut(vocabulary)) {
                to = whole_rows(part, vocabulary, &part->outputs[o], model->outputs[o].dtype, to);
            }
        }
    } while (to < before);
    return to;
}

bool srv_texts_has_outputs(const struct srv_texts *texts)
{
    bool has = false;
    for (uint32_t o = 0; texts != NULL && o < CELL_TENSORS_MAX; o++) {
        has = has || texts->outputs[o] != NULL;
    }
    return has;
}

enum base_status srv_texts_write(const struct srv_texts *texts, const struct cell_model *model,
                                 struct srv_request *request, const uint32_t *const *steps,
                                 bool continues, struct base_error *error)
{
    for (uint32_t i = 0; texts != NULL && i < request->n_outputs; i++) {
        struct srv_tensor *tensor = &request->outputs[i];
        const int32_t o = srv_texts_tensor(model->outputs, model->n_outputs, tensor->name);
        base_assert(o >= 0); // they are the model's own
        if (texts->outputs[o] == NULL) {
            continue;
        }
        struct writing writing = {.vocabulary = texts->outputs[o],
                                  .from = &model->outputs[o],
                                  .tensor = tensor,
                                  .steps = steps[model->outputs[o].sequence],
                                  .continues = continues,
                                  .error = error};
        BASE_TRY(write_texts(&writing, &request->arena));
    }
    return BASE_OK;
}
