/* Data: `sequence` gives each request its length, and in text mode its place in the ids;
 * `by_length` finds the envelope of a length. Everything is built at create, on one thread, and
 * only read after that. Cost of a send: two copies an input. */
#include "loadgen/payload.h"

#include "base/arena.h"
#include "base/assert.h"
#include "base/buf.h"
#include "base/checked.h"
#include "base/mem.h"
#include "loadgen/envelope.h"
#include "loadgen/file.h"
#include "loadgen/values.h"

#include <string.h>

/* Room behind the longest tensor, so that windows of the block differ from request to request. */
#define SLACK_BYTES 65536u

/* Windows begin at multiples of this, which every element size divides. */
#define WINDOW_STEP 64u

struct lg_payload {
    struct lg_lengths lengths;       /* in text mode: bytes of each line */
    uint64_t *text_offsets;          /* [lengths.count] in bytes of the block; NULL = random */
    struct lg_envelope **by_length;  /* [lengths.max + 1]; NULL where no request has it */
    uint8_t *blocks[LG_TENSORS_MAX]; /* values of each input */
    uint32_t input_count;
    bool is_bytes;           /* text goes as it is, not as ids */
    struct base_arena arena; /* envelopes */
};

static enum base_status no_memory(struct base_error *error)
{
    return base_fail(error, BASE_RESOURCE_EXHAUSTED, "no memory for the messages");
}

static enum base_status make_envelopes(struct lg_payload *payload, const struct lg_model *model,
                                       uint32_t batch, struct base_error *error)
{
    payload->input_count = model->input_count;
    payload->by_length =
        base_alloc_array((size_t)payload->lengths.max + 1, sizeof(struct lg_envelope *));
    if (payload->by_length == NULL) {
        return no_memory(error);
    }
    for (uint32_t i = 0; i < payload->lengths.count; i++) {
        uint32_t length = payload->lengths.values[i];
        if (payload->by_length[length] != NULL) {
            continue;
        }
        BASE_TRY(lg_envelope_make(model, batch, length, &payload->arena,
                                  &payload->by_length[length], error));
        if (payload->by_length[length]->message_bytes > LG_MESSAGE_MAX) {
            return base_fail(error, BASE_INVALID_ARGUMENT,
                             "a request of length %u and batch %u has more than %u bytes", length,
                             batch, LG_MESSAGE_MAX);
        }
    }
    return BASE_OK;
}

#define VOCAB 255

static uint32_t shortest_of(const struct lg_lengths *lengths)
{
    uint32_t shortest = lengths->max;
    for (uint32_t i = 0; i < lengths->count; i++) {
        shortest = lengths->values[i] < shortest ? lengths->values[i] : shortest;
    }
    return shortest;
}

/* What an input's integers are drawn from. Requests of all lengths take theirs from one block, so
 * numbers of steps are those that the shortest has. */
static struct lg_range range_of(const struct lg_payload *payload,
                                const struct lg_payload_spec *spec, const struct lg_tensor *input)
{
    struct lg_range range = {.most = VOCAB};
    if (spec->vocab != LG_VOCAB_OF_MODEL) {
        range.most = spec->vocab < INT64_MAX ? (int64_t)spec->vocab : INT64_MAX;
    } else if (input->has_range) {
        range.least = input->least;
        range.most =
            input->most + (input->is_of_steps ? (int64_t)shortest_of(&payload->lengths) : 0);
    }
    range.most = range.most < range.least ? range.least : range.most;
    return range;
}

static enum base_status make_blocks(struct lg_payload *payload, const struct lg_payload_spec *spec,
                                    struct base_error *error)
{
    struct base_random random;
    base_random_init(&random, spec->seed);
    const struct lg_envelope *longest = payload->by_length[payload->lengths.max];
    for (uint32_t i = 0; i < payload->input_count; i++) {
        // A tensor's bytes only grow with the length, so the longest request has the largest.
        size_t bytes = (size_t)longest->parts[i].data_bytes + SLACK_BYTES;
        payload->blocks[i] = base_alloc(bytes);
        if (payload->blocks[i] == NULL) {
            return no_memory(error);
        }
        const struct lg_tensor *input = &spec->model->inputs[i];
        const struct lg_range range = range_of(payload, spec, input);
        const bool is_ranged = input->datatype->fill == LG_FILL_INTEGER || input->has_range;
        lg_values_fill(input->datatype, is_ranged ? &range : NULL, &random, payload->blocks[i],
                       bytes);
    }
    return BASE_OK;
}

/* ---- Text ------------------------------------------------------------------------------------ */

static bool takes_bytes(const struct lg_model *model)
{
    return model->inputs[0].datatype->fill == LG_FILL_TEXT;
}

static enum base_status check_text_model(const struct lg_model *model, struct base_error *error)
{
    const struct lg_tensor *input = &model->inputs[0];
    const bool is_one = input->dims[0] != LG_DIM_LENGTH && input->dims[0] <= 1;
    const bool is_text = takes_bytes(model) && input->rank == 1 && is_one;
    const bool is_ids = strcmp(input->datatype->name, "INT64") == 0 && input->rank == 2 && is_one &&
                        input->dims[1] == LG_DIM_LENGTH;
    if (model->input_count != 1 || (!is_text && !is_ids)) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "model %s does not take text: it must have one input, BYTES [batch] or "
                         "INT64 [batch, time]",
                         model->name);
    }
    return BASE_OK;
}

/* Room for line_count texts of byte_count bytes together, as ids or as BYTES. */
static enum base_status begin_text(struct lg_payload *payload, size_t line_count, size_t byte_count,
                                   struct base_error *error)
{
    size_t id_bytes = 0;
    if (!base_size_mul(byte_count + line_count, sizeof(int64_t), &id_bytes) ||
        line_count > UINT32_MAX) {
        return no_memory(error);
    }
    payload->lengths.values = base_alloc_array(line_count, sizeof(uint32_t));
    payload->text_offsets = base_alloc_array(line_count, sizeof(uint64_t));
    payload->blocks[0] = base_alloc(id_bytes);
    if (payload->lengths.values == NULL || payload->text_offsets == NULL ||
        payload->blocks[0] == NULL) {
        return no_memory(error);
    }
    return BASE_OK;
}

static void add_text(struct lg_payload *payload, const char *text, size_t length, uint64_t *at)
{
    uint32_t index = payload->lengths.count++;
    const uint32_t prefix = (uint32_t)length;
    const uint32_t total = prefix + (payload->is_bytes ? (uint32_t)sizeof(prefix) : 0);
    payload->lengths.values[index] = total;
    payload->text_offsets[index] = *at;
    payload->lengths.max = total > payload->lengths.max ? total : payload->lengths.max;
    if (payload->is_bytes) {
        memcpy(payload->blocks[0] + *at, &prefix, sizeof(prefix)); // little-endian
        memcpy(payload->blocks[0] + *at + sizeof(prefix), text, length);
        *at += total;
        return;
    }
    for (size_t i = 0; i < length; i++) {
        int64_t id = (uint8_t)text[i];
        memcpy(payload->blocks[0] + *at, &id, sizeof(id));
        *at += sizeof(id);
    }
}

static enum base_status take_lines(struct lg_payload *payload, const struct base_buf *contents,
                                   const char *path, struct base_error *error)
{
    struct lg_line line = {0};
    size_t line_count = 0;
    while (lg_line_next(contents, &line)) {
        line_count++;
    }
    if (line_count == 0) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "%s: has no lines", path);
    }
    BASE_TRY(begin_text(payload, line_count, contents->length, error));
    uint64_t at = 0;
    line = (struct lg_line){0};
    while (lg_line_next(contents, &line)) {
        if (line.length > LG_LENGTH_MAX) {
            return base_fail(error, BASE_INVALID_ARGUMENT, "%s:%zu: more than %u bytes", path,
                             line.number, LG_LENGTH_MAX);
        }
        if (line.length > 0) {
            add_text(payload, line.text, line.length, &at);
        }
    }
    if (payload->lengths.count == 0) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "%s: has only empty lines", path);
    }
    return BASE_OK;
}

static enum base_status take_file(struct lg_payload *payload, const char *path,
                                  struct base_error *error)
{
    struct base_buf contents;
    base_buf_init(&contents, LG_FILE_MAX);
    enum base_status status = lg_file_read(path, &contents, error);
    if (status == BASE_OK) {
        status = take_lines(payload, &contents, path, error);
    }
    base_buf_release(&contents);
    return status;
}

/* ---- Life cycle ------------------------------------------------------------------------------ */

static struct lg_payload *allocate(void)
{
    struct lg_payload *payload = base_alloc(sizeof(*payload));
    if (payload != NULL) {
        base_arena_init(&payload->arena, 64u << 10, LG_MESSAGE_MAX);
    }
    return payload;
}

static enum base_status build(const struct lg_payload_spec *spec, struct lg_payload *payload,
                              struct base_error *error)
{
    if (spec->text != NULL) {
        BASE_TRY(check_text_model(spec->model, error));
        payload->is_bytes = takes_bytes(spec->model);
        BASE_TRY(take_file(payload, spec->text, error));
        return make_envelopes(payload, spec->model, 1, error);
    }
    for (uint32_t i = 0; i < spec->model->input_count; i++) {
        if (spec->model->inputs[i].datatype->fill == LG_FILL_TEXT) {
            return base_fail(error, BASE_INVALID_ARGUMENT,
                             "input %s of model %s is text: say which with --text FILE",
                             spec->model->inputs[i].name, spec->model->name);
        }
    }
    BASE_TRY(lg_lengths_create(spec->lengths, spec->seed, &payload->lengths, error));
    BASE_TRY(make_envelopes(payload, spec->model, spec->batch, error));
    return make_blocks(payload, spec, error);
}

enum base_status lg_payload_create(const struct lg_payload_spec *spec, struct lg_payload **out,
                                   struct base_error *error)
{
    struct lg_payload *payload = allocate();
    if (payload == NULL) {
        return no_memory(error);
    }
    enum base_status status = build(spec, payload, error);
    if (status != BASE_OK) {
        lg_payload_free(payload);
        return status;
    }
    *out = payload;
    return BASE_OK;
}

enum base_status lg_payload_create_text(const struct lg_model *model, const char *text,
                                        size_t length, struct lg_payload **out,
                                        struct base_error *error)
{
    if (length == 0 || length > LG_LENGTH_MAX) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "a text has 1 to %u bytes", LG_LENGTH_MAX);
    }
    BASE_TRY(check_text_model(model, error));
    struct lg_payload *payload = allocate();
    if (payload == NULL) {
        return no_memory(error);
    }
    payload->is_bytes = takes_bytes(model);
    enum base_status status = begin_text(payload, 1, length, error);
    if (status == BASE_OK) {
        uint64_t at = 0;
        add_text(payload, text, length, &at);
        status = make_envelopes(payload, model, 1, error);
    }
    if (status != BASE_OK) {
        lg_payload_free(payload);
        return status;
    }
    *out = payload;
    return BASE_OK;
}

void lg_payload_free(struct lg_payload *payload)
{
    if (payload == NULL) {
        return;
    }
    for (uint32_t i = 0; i < LG_TENSORS_MAX; i++) {
        base_free(payload->blocks[i]);
    }
    base_free(payload->by_length);
    base_free(payload->text_offsets);
    lg_lengths_release(&payload->lengths);
    base_arena_release(&payload->arena);
    base_free(payload);
}

/* ---- Use ------------------------------------------------------------------------------------- */

/* Spreads consecutive indices over the windows (golden ratio, Knuth). */
static uint64_t window_offset(uint64_t index, uint32_t input)
{
    uint64_t mixed = (index + input + 1) * UINT64_C(0x9e3779b97f4a7c15);
    return (mixed >> 40) % (SLACK_BYTES / WINDOW_STEP + 1) * WINDOW_STEP;
}

static const struct lg_envelope *envelope_of(const struct lg_payload *payload, uint64_t index)
{
    return payload->by_length[payload->lengths.values[index % payload->lengths.count]];
}

/* A reader's way through the parts of a message. */
struct cursor {
    uint64_t skip; /* bytes of the message before the first wanted one */
    size_t left;   /* wanted bytes */
    uint8_t *out;
};

static void copy_part(struct cursor *cursor, const uint8_t *part, uint64_t part_bytes)
{
    if (cursor->skip >= part_bytes) {
        cursor->skip -= part_bytes;
        return;
    }
    uint64_t there = part_bytes - cursor->skip;
    size_t count = there < cursor->left ? (size_t)there : cursor->left;
    memcpy(cursor->out, part + cursor->skip, count);
    cursor->skip = 0;
    cursor->out += count;
    cursor->left -= count;
}

void lg_payload_read(const struct lg_payload *payload, uint64_t index, uint64_t offset,
                     size_t length, uint8_t *out) // NOLINT(readability-non-const-parameter): filled
{
    const struct lg_envelope *envelope = envelope_of(payload, index);
    base_assert(envelope != NULL && offset + length <= envelope->message_bytes);
    struct cursor cursor = {.skip = offset, .left = length, .out = out};
    for (uint32_t i = 0; cursor.left > 0; i++) {
        const struct lg_envelope_part *part = &envelope->parts[i];
        uint64_t start = payload->text_offsets == NULL
                             ? window_offset(index, i)
                             : payload->text_offsets[index % payload->lengths.count];
        copy_part(&cursor, part->head, part->head_bytes);
        copy_part(&cursor, payload->blocks[i] + start, part->data_bytes);
    }
}

uint32_t lg_payload_length(const struct lg_payload *payload, uint64_t index)
{
    return payload->lengths.values[index % payload->lengths.count];
}

uint64_t lg_payload_bytes(const struct lg_payload *payload, uint64_t index)
{
    return envelope_of(payload, index)->message_bytes;
}
