/* Texts as ids of pieces and back: as SentencePiece has them, files that are refused, and texts of
 * a request and of an answer. tests/data/sentencepiece is its own output. */
#include "base/arena.h"
#include "base/mem.h"
#include "base/random.h"
#include "loadgen/file.h"
#include "server/about.h"
#include "server/text.h"
#include "tests/util.h"

#include "proto/sentencepiece.pb-c.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define DATA "tests/data/sentencepiece/"

typedef Sentencepiece__ModelProto file_model;
typedef Sentencepiece__ModelProto__SentencePiece file_piece;

#define TYPE(name) SENTENCEPIECE__MODEL_PROTO__SENTENCE_PIECE__TYPE__##name

static const char *const names[] = {"unigram", "bpe",  "bytes",     "suffix",
                                    "spaces",  "bare", "characters"};
#define NAMES (sizeof names / sizeof names[0])

static char folder[UTIL_PATH_BYTES];
static struct base_error error;

static void setup(void)
{
    util_temp_dir(folder);
}

static void teardown(void)
{
    util_remove_tree(folder);
}

static const char *path_of(const char *name)
{
    static char path[2 * UTIL_PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static struct srv_sentencepiece *open_data(const char *name)
{
    char path[UTIL_PATH_BYTES];
    struct srv_sentencepiece *model = NULL;
    snprintf(path, sizeof path, DATA "%s.model", name);
    ck_assert_msg(srv_sentencepiece_load(path, name, &model, &error) == BASE_OK, "%s",
                  error.message);
    return model;
}

/* ---- As SentencePiece has them --------------------------------------------------------------- */

struct test_case {
    char text[1024], back[4096];
    size_t length, back_length;
    int32_t ids[1024];
    uint32_t n;
};

static uint32_t nibble(char c)
{
    return (uint32_t)(c <= '9' ? c - '0' : c - 'a' + 10);
}

static size_t read_hex(const char *from, size_t length, char *to)
{
    for (size_t i = 0; i < length / 2; i++) {
        const uint8_t byte = (uint8_t)(16 * nibble(from[2 * i]) + nibble(from[2 * i + 1]));
        memcpy(&to[i], &byte, 1);
    }
    return length / 2;
}

/* TEXT tab IDS tab TEXT of them. */
static void read_case(struct lg_line line, struct test_case *out)
{
    const char *first = memchr(line.text, '\t', line.length);
    const char *second = memchr(first + 1, '\t', line.length - (size_t)(first + 1 - line.text));
    out->length = read_hex(line.text, (size_t)(first - line.text), out->text);
    out->back_length =
        read_hex(second + 1, line.length - (size_t)(second + 1 - line.text), out->back);
    out->n = 0;
    for (const char *at = first + 1; at < second; out->n++) {
        char *end;
        out->ids[out->n] = (int32_t)strtol(at, &end, 10);
        at = end < second ? end + 1 : second;
    }
}

static void assert_encodes(const struct srv_sentencepiece *model, const struct test_case *c,
                           struct base_buf *ids, uint32_t number)
{
    const struct srv_word text = {.text = c->text, .length = c->length};
    base_buf_clear(ids);
    ck_assert_int_eq(srv_sentencepiece_encode(model, text, ids, &error), BASE_OK);
    ck_assert_msg(ids->length == c->n * sizeof(int32_t), "case %u: %zu ids, wanted %u", number,
                  ids->length / sizeof(int32_t), c->n);
    ck_assert_msg(c->n == 0 || memcmp(ids->data, c->ids, ids->length) == 0, "case %u", number);
}

/* Text of ids; written once for its length, and once whole. */
static size_t decode(const struct srv_sentencepiece *model, const int32_t *ids, uint32_t n,
                     char *out)
{
    size_t length = 0;
    size_t counted = 0;
    struct srv_sentencepiece_text text = {0};
    struct srv_sentencepiece_text counting = {0};
    for (uint32_t i = 0; i < n; i++) {
        counted += srv_sentencepiece_add(model, &counting, (uint32_t)ids[i], NULL);
        length += srv_sentencepiece_add(model, &text, (uint32_t)ids[i], out + length);
        ck_assert_uint_eq(counted, length);
    }
    counted += srv_sentencepiece_end(&counting, NULL);
    length += srv_sentencepiece_end(&text, out + length);
    ck_assert_uint_eq(counted, length);
    return length;
}

START_TEST(test_as_sentencepiece)
{
    struct srv_sentencepiece *model = open_data(names[_i]);
    struct test_case c;
    struct base_buf file;
    struct base_buf ids;
    struct lg_line line = {0};
    char path[UTIL_PATH_BYTES];
    char got[8192];
    uint32_t n = 0;
    snprintf(path, sizeof path, DATA "%s.tsv", names[_i]);
    base_buf_init(&file, LG_FILE_MAX);
    base_buf_init(&ids, 1u << 20);
    ck_assert_int_eq(lg_file_read(path, &file, &error), BASE_OK);
    for (; lg_line_next(&file, &line); n++) {
        read_case(line, &c);
        if (c.length > 0) {
            assert_encodes(model, &c, &ids, n);
        }
        const size_t length = decode(model, c.ids, c.n, got);
        ck_assert_msg(length == c.back_length && memcmp(got, c.back, length) == 0,
                      "case %u: '%.*s', wanted '%.*s'", n, (int)length, got, (int)c.back_length,
                      c.back);
    }
    ck_assert_uint_gt(n, 150);
    base_buf_release(&ids);
    base_buf_release(&file);
    srv_sentencepiece_free(model);
}
END_TEST

/* ---- Files ----------------------------------------------------------------------------------- */

#define DRAFT_PIECES 16u

/* A file that a case changes. */
struct draft {
    file_model model;
    Sentencepiece__TrainerSpec trainer;
    Sentencepiece__NormalizerSpec normalizer, denormalizer;
    file_piece pieces[DRAFT_PIECES];
    file_piece *list[DRAFT_PIECES];
    uint8_t texts[DRAFT_PIECES][16];
};

static void add_piece(struct draft *draft, const char *text, float score,
                      Sentencepiece__ModelProto__SentencePiece__Type type)
{
    const size_t i = draft->model.n_pieces++;
    file_piece *piece = &draft->pieces[i];
    ck_assert(i < DRAFT_PIECES && strlen(text) <= sizeof draft->texts[i]);
    memcpy(draft->texts[i], text, strlen(text));
    sentencepiece__model_proto__sentence_piece__init(piece);
    piece->has_piece = piece->has_score = piece->has_type = 1;
    piece->piece = (ProtobufCBinaryData){strlen(text), draft->texts[i]};
    piece->score = score;
    piece->type = type;
    draft->list[i] = piece;
}

/* <unk>, a mark, a, b, ab. */
static void begin_draft(struct draft *draft)
{
    sentencepiece__model_proto__init(&draft->model);
    sentencepiece__trainer_spec__init(&draft->trainer);
    sentencepiece__normalizer_spec__init(&draft->normalizer);
    sentencepiece__normalizer_spec__init(&draft->denormalizer);
    draft->model.pieces = draft->list;
    add_piece(draft, "<unk>", 0.0f, TYPE(UNKNOWN));
    add_piece(draft, "\xe2\x96\x81", -3.0f, TYPE(NORMAL));
    add_piece(draft, "a", -2.0f, TYPE(NORMAL));
    add_piece(draft, "b", -2.5f, TYPE(NORMAL));
    add_piece(draft, "ab", -1.0f, TYPE(NORMAL));
}

static void write_bytes(const uint8_t *bytes, size_t length)
{
    FILE *file = fopen(path_of("m"), "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, length, file), length);
    ck_assert_int_eq(fclose(file), 0);
}

static struct srv_sentencepiece *load_file(void)
{
    struct srv_sentencepiece *model = NULL;
    const enum base_status status = srv_sentencepiece_load(path_of("m"), "m", &model, &error);
    ck_assert((status == BASE_OK) == (model != NULL));
    return model;
}

static struct srv_sentencepiece *load_draft(const struct draft *draft)
{
    const size_t length = sentencepiece__model_proto__get_packed_size(&draft->model);
    uint8_t *bytes = base_alloc(length + 1);
    ck_assert_uint_eq(sentencepiece__model_proto__pack(&draft->model, bytes), length);
    write_bytes(bytes, length);
    base_free(bytes);
    return load_file();
}

static void change(struct draft *draft, uint32_t mistake)
{
    static uint8_t map[] = {4, 0, 0, 0, 1, 2, 3, 4, 'x', 0};
    const ProtobufCBinaryData maps[] = {{3, map}, {8, map}, {9, map}, {sizeof map, map}};
    draft->model.trainer_spec = &draft->trainer;
    draft->model.normalizer_spec = &draft->normalizer;
    switch (mistake) {
    case 0:
        draft->model.n_pieces = 0;
        break;
    case 1:
        add_piece(draft, "", 0.0f, TYPE(NORMAL));
        break;
    case 2:
        add_piece(draft, "c", NAN, TYPE(NORMAL));
        break;
    case 3:
        add_piece(draft, "c", -INFINITY, TYPE(NORMAL));
        break;
    case 4:
        add_piece(draft, "<none>", 0.0f, TYPE(UNKNOWN));
        break;
    case 5:
        draft->pieces[0].type = TYPE(CONTROL);
        break;
    case 6:
        add_piece(draft, "a", -1.0f, TYPE(USER_DEFINED));
        break;
    case 7:
        add_piece(draft, "<0x0A>", 0.0f, TYPE(BYTE));
        break;
    case 8:
        draft->trainer.has_byte_fallback = draft->trainer.byte_fallback = 1;
        break;
    case 9:
        draft->trainer.has_byte_fallback = draft->trainer.byte_fallback = 1;
        add_piece(draft, "<0x0a>", 0.0f, TYPE(BYTE));
        break;
    case 10:
        draft->trainer.has_model_type = 1;
        draft->trainer.model_type = SENTENCEPIECE__TRAINER_SPEC__MODEL_TYPE__WORD;
        break;
    case 11:
        draft->trainer.has_model_type = 1;
        draft->trainer.model_type = SENTENCEPIECE__TRAINER_SPEC__MODEL_TYPE__BPE;
        add_piece(draft, "ba", -1.0f, TYPE(UNUSED));
        break;
    case 12:
        draft->denormalizer.has_precompiled_charsmap = 1;
        draft->denormalizer.precompiled_charsmap = maps[3];
        draft->model.denormalizer_spec = &draft->denormalizer;
        break;
    default:
        draft->normalizer.has_precompiled_charsmap = 1;
        draft->normalizer.precompiled_charsmap = maps[mistake - 13];
        break;
    }
}

START_TEST(test_files_that_say_what_cannot_be)
{
    static const char *const wanted[] = {
        "m: it has no pieces, or too many",
        "m: piece 5 is empty, or has a score that is no number",
        "m: piece 5 is empty, or has a score that is no number",
        "m: piece 5 is empty, or has a score that is no number",
        "m: two unknown pieces",
        "m: it has no unknown piece",
        "m: pieces 2 and 5 are alike",
        "m: piece 5 is of a byte, but byte_fallback is not set",
        "m: byte_fallback is set, but some bytes have no piece",
        "m: piece 5 is of a byte, but names none",
        "m: a model of type 3; taken are unigram, bpe and char",
        "m: piece 5 is not used, which is not taken of byte pairs",
        "m: it spells answers anew (denormalizer_spec)",
        "m: precompiled_charsmap is cut off, or none",
        "m: precompiled_charsmap is cut off, or none",
        "m: precompiled_charsmap is cut off, or none",
    };
    for (uint32_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        struct draft draft = {0};
        begin_draft(&draft);
        change(&draft, i);
        ck_assert_ptr_null(load_draft(&draft));
        ck_assert_int_eq(error.status,
                         i >= 10 && i <= 12 ? BASE_UNIMPLEMENTED : BASE_INVALID_ARGUMENT);
        // Which of two that are alike comes first is qsort's.
        ck_assert_msg(strcmp(error.message, wanted[i]) == 0 ||
                          (i == 6 && strcmp(error.message, "m: pieces 5 and 2 are alike") == 0),
                      "%u: %s", i, error.message);
    }
}
END_TEST

START_TEST(test_files_that_are_none)
{
    struct srv_sentencepiece *model = NULL;
    write_bytes((const uint8_t *)"\x0a\xff", 2);
    ck_assert_ptr_null(load_file());
    ck_assert_str_eq(error.message, "m: it is no model of SentencePiece's");
    ck_assert_int_eq(error.status, BASE_INVALID_ARGUMENT);
    write_bytes((const uint8_t *)"", 0);
    ck_assert_ptr_null(load_file());
    ck_assert_int_eq(error.status, BASE_INVALID_ARGUMENT);
    ck_assert_int_eq(srv_sentencepiece_load(path_of("none"), "none", &model, &error),
                     BASE_NOT_FOUND);
    ck_assert_str_eq(error.message, "none: No such file or directory");
    ck_assert_int_eq(srv_sentencepiece_load(folder, "folder", &model, &error),
                     BASE_INVALID_ARGUMENT);
    ck_assert_ptr_null(model);
}
END_TEST

static void assert_ids(const struct srv_sentencepiece *model, const char *text, uint32_t n,
                       const int32_t *wanted)
{
    struct base_buf ids;
    const struct srv_word word = {.text = text, .length = strlen(text)};
    base_buf_init(&ids, 1000);
    ck_assert_int_eq(srv_sentencepiece_encode(model, word, &ids, &error), BASE_OK);
    ck_assert_uint_eq(ids.length, n * sizeof(int32_t));
    ck_assert_mem_eq(ids.data, wanted, ids.length);
    base_buf_release(&ids);
}

/* What a file does not say is as SentencePiece has it; a piece that is not used is passed over. */
START_TEST(test_a_file_that_says_little)
{
    struct draft draft = {0};
    begin_draft(&draft);
    add_piece(&draft, "ba", -0.1f, TYPE(UNUSED));
    struct srv_sentencepiece *model = load_draft(&draft);
    ck_assert_ptr_nonnull(model);
    ck_assert_uint_eq(srv_sentencepiece_count(model), 6);
    assert_ids(model, "  ab  aba xy", 7, (const int32_t[]){1, 4, 1, 4, 2, 1, 0});
    srv_sentencepiece_free(model);
}
END_TEST

/* Some bytes of a file, most of them near its end, where the options are; its new length. */
static size_t spoil(struct base_random *random, uint8_t *bytes, size_t length, uint32_t tries)
{
    const uint32_t n = 1 + base_random_below(random, 6);
    for (uint32_t k = 0; k < n; k++) {
        const uint32_t near = base_random_below(random, 2) == 0 ? 400 : (uint32_t)length;
        const uint32_t from_end = base_random_below(random, near < length ? near : 1);
        bytes[length - 1 - from_end] = (uint8_t)base_random_below(random, 256);
    }
    return length - (tries % 8 == 7 ? base_random_below(random, 50) : 0);
}

/* No id that is none, and no text longer than the file. */
static void assert_sound(const struct srv_sentencepiece *model, struct srv_word word,
                         size_t file_length)
{
    struct srv_sentencepiece_text text = {0};
    struct base_buf ids;
    base_buf_init(&ids, 1u << 20);
    if (srv_sentencepiece_encode(model, word, &ids, &error) != BASE_OK) {
        ids.length = 0;
    }
    for (size_t at = 0; at < ids.length; at += sizeof(int32_t)) {
        int32_t id;
        memcpy(&id, ids.data + at, sizeof id);
        ck_assert(id >= 0 && (uint32_t)id < srv_sentencepiece_count(model));
        struct srv_sentencepiece_text counting = text;
        const size_t length = srv_sentencepiece_add(model, &counting, (uint32_t)id, NULL);
        ck_assert_uint_lt(length, file_length);
        char *out = base_alloc(length + 1);
        ck_assert_uint_eq(srv_sentencepiece_add(model, &text, (uint32_t)id, out), length);
        base_free(out);
    }
    base_buf_release(&ids);
}

START_TEST(test_files_with_bytes_changed)
{
    static const char *const strings[] = {"Ein Satz, zwei.", "\xef\xbd\x81 \xff ab  <num>",
                                          "\xe2\x96\x81\xe2\x96\x81x"};
    struct base_random random = util_random(3);
    struct base_buf file;
    char path[UTIL_PATH_BYTES];
    uint32_t loaded = 0;
    base_buf_init(&file, LG_FILE_MAX);
    snprintf(path, sizeof path, DATA "%s.model", names[_i]);
    ck_assert_int_eq(lg_file_read(path, &file, &error), BASE_OK);
    for (uint32_t tries = 0; tries < 200; tries++) {
        uint8_t *bytes = base_alloc(file.length);
        memcpy(bytes, file.data, file.length);
        write_bytes(bytes, spoil(&random, bytes, file.length, tries));
        base_free(bytes);
        struct srv_sentencepiece *model = load_file();
        for (uint32_t t = 0; t < 3 && model != NULL; t++) {
            const struct srv_word word = {.text = strings[t], .length = strlen(strings[t])};
            assert_sound(model, word, file.length);
            loaded++;
        }
        srv_sentencepiece_free(model);
    }
    ck_assert_uint_gt(loaded, 0);
    base_buf_release(&file);
}
END_TEST

/* ---- As a vocabulary ------------------------------------------------------------------------- */

static struct srv_vocabulary *pieces;
static struct srv_texts texts;
static struct cell_model model_of_texts = {
    .n_inputs = 1,
    .n_outputs = 1,
    .n_sequences = 1,
    .inputs = {{.name = "source", .dtype = CELL_I64, .rank = 2, .time_axis = 1, .width = 1}},
    .outputs = {{.name = "token", .dtype = CELL_I64, .rank = 2, .time_axis = 1, .width = 1}},
};

static struct srv_vocabulary *open_vocabulary(const char *path)
{
    struct srv_vocabulary *vocabulary = NULL;
    const struct srv_vocabulary_source source = {CFG_VOCABULARY_SENTENCEPIECE, path, "m", "", ""};
    const enum base_status status = srv_vocabulary_load(&source, &vocabulary, &error);
    ck_assert((status == BASE_OK) == (vocabulary != NULL));
    return vocabulary;
}

static void open_texts(const char *name)
{
    char path[UTIL_PATH_BYTES];
    snprintf(path, sizeof path, DATA "%s.model", name);
    pieces = open_vocabulary(path);
    ck_assert_ptr_nonnull(pieces);
    texts =
        (struct srv_texts){.inputs = {pieces}, .outputs = {pieces}, .unknown = SRV_VOCABULARY_NONE};
}

static enum base_status read_texts(const char *strings, size_t bytes, struct srv_request *request,
                                   struct srv_tensor *input, struct srv_text_rows *rows)
{
    *input = (struct srv_tensor){.name = "source",
                                 .datatype = SRV_BYTES,
                                 .rank = 1,
                                 .shape = {2},
                                 .data = (const uint8_t *)strings,
                                 .bytes = bytes};
    *request = (struct srv_request){.id = "", .inputs = input, .n_inputs = 1};
    base_arena_init(&request->arena, 4096, 16u << 20);
    return srv_texts_read(&texts, &model_of_texts, request, rows, &error);
}

START_TEST(test_texts_become_ids)
{
    static const char strings[] = "\7\0\0\0der ab.\2\0\0\0ab";
    struct srv_request request;
    struct srv_tensor input;
    struct srv_text_rows rows;
    struct base_buf ids;
    open_texts("bytes");
    ck_assert_int_eq(read_texts(strings, sizeof strings - 1, &request, &input, &rows), BASE_OK);
    base_buf_init(&ids, 1000);
    for (uint32_t row = 0; row < 2; row++) {
        const struct srv_word text = {row == 0 ? "der ab." : "ab", row == 0 ? 7 : 2, false};
        const int64_t *got = (const int64_t *)(const void *)input.data + row * input.shape[1];
        base_buf_clear(&ids);
        ck_assert_int_eq(
            srv_sentencepiece_encode(srv_vocabulary_sentencepiece(pieces), text, &ids, &error),
            BASE_OK);
        const int32_t *wanted = (const int32_t *)(const void *)ids.data;
        const uint32_t n = (uint32_t)(ids.length / sizeof *wanted);
        ck_assert_uint_eq(rows.steps[0][row], n);
        for (uint32_t t = 0; t < input.shape[1]; t++) {
            ck_assert_int_eq(got[t], t < n ? wanted[t] : 0);
        }
    }
    base_buf_release(&ids);
    base_arena_release(&request.arena);
    srv_vocabulary_free(pieces);
}
END_TEST

START_TEST(test_texts_that_are_refused)
{
    static const char empty[] = "\2\0\0\0ab\3\0\0\0   ";
    const size_t large_bytes = 4 + (2u << 20);
    struct srv_request request;
    struct srv_tensor input;
    struct srv_text_rows rows;
    open_texts("unigram");
    ck_assert_int_eq(read_texts(empty, sizeof empty - 1, &request, &input, &rows),
                     BASE_INVALID_ARGUMENT);
    ck_assert_str_eq(error.message, "input 'source': text 1 is empty");
    base_arena_release(&request.arena);
    char *large = base_alloc(large_bytes);
    const uint32_t length = 2u << 20;
    memset(large, 'a', large_bytes);
    memcpy(large, &length, sizeof length);
    ck_assert_int_eq(read_texts(large, large_bytes, &request, &input, &rows),
                     BASE_RESOURCE_EXHAUSTED);
    ck_assert_str_eq(error.message, "input 'source': text 0: a text of more than 1048576 bytes, or "
                                    "out of memory");
    base_arena_release(&request.arena);
    base_free(large);
    srv_vocabulary_free(pieces);
}
END_TEST

/* What `steps` ids of a row are written as, from step `from` on. */
static size_t written(const int64_t *ids, uint32_t from, uint32_t to, char out[256])
{
    const uint32_t steps[] = {to - from};
    const uint32_t *by_sequence[CELL_SEQUENCES_MAX] = {steps};
    struct srv_tensor output = {.name = "token",
                                .datatype = "INT64",
                                .rank = 2,
                                .shape = {1, to - from},
                                .data = (const uint8_t *)(ids + from),
                                .bytes = (to - from) * sizeof(int64_t)};
    struct srv_request request = {.id = "", .outputs = &output, .n_outputs = 1};
    uint32_t length = 0;
    base_arena_init(&request.arena, 4096, 1u << 20);
    ck_assert_int_eq(
        srv_texts_write(&texts, &model_of_texts, &request, by_sequence, from > 0, &error), BASE_OK);
    ck_assert_str_eq(output.datatype, SRV_BYTES);
    memcpy(&length, output.data, sizeof length);
    ck_assert_uint_lt(length, 256);
    memcpy(out, output.data + sizeof length, length);
    base_arena_release(&request.arena);
    return length;
}

#define STEPS 24u

/* Parts of an answer, however they come, are together what it is in one piece. */
START_TEST(test_parts_are_the_whole)
{
    struct base_random random = util_random(5);
    open_texts(names[_i]);
    const uint32_t count = srv_vocabulary_count(pieces);
    for (uint32_t tries = 0; tries < 500; tries++) {
        int64_t ids[STEPS];
        char whole[256];
        char parts[512];
        size_t length = 0;
        uint32_t lengths[] = {STEPS};
        bool is_over[] = {false};
        for (uint32_t t = 0; t < STEPS; t++) {
            // <unk>, <s>, </s> and bytes, where there are some, more often than others
            const uint32_t most = t < 3 ? 4 : tries % 3 == 0 && count > 262 ? 262 : count;
            ids[t] = base_random_below(&random, most);
        }
        const struct sched_tensor output = {
            .data = (uint8_t *)ids, .batch_bytes = sizeof ids, .step_bytes = sizeof ids[0]};
        struct srv_texts_part part = {
            .outputs = &output, .n_rows = 1, .lengths = lengths, .is_over = is_over};
        for (uint32_t seen = 1; seen <= STEPS; seen++) {
            is_over[0] = seen == STEPS;
            part.to = seen;
            const uint32_t to = srv_texts_whole(&texts, &model_of_texts, &part);
            ck_assert(to >= part.from && to <= seen);
            if (to > part.from) {
                length += written(ids, part.from, to, parts + length);
                part.from = to;
            }
        }
        ck_assert_uint_eq(part.from, STEPS);
        ck_assert_uint_eq(written(ids, 0, STEPS, whole), length);
        ck_assert_mem_eq(whole, parts, length);
    }
    srv_vocabulary_free(pieces);
}
END_TEST

START_TEST(test_an_id_that_is_none)
{
    const int64_t ids[] = {4, 400};
    const uint32_t steps[] = {2};
    const uint32_t *by_sequence[CELL_SEQUENCES_MAX] = {steps};
    struct srv_tensor output = {.name = "token",
                                .datatype = "INT64",
                                .rank = 2,
                                .shape = {1, 2},
                                .data = (const uint8_t *)ids,
                                .bytes = sizeof ids};
    struct srv_request request = {.id = "", .outputs = &output, .n_outputs = 1};
    open_texts("unigram");
    base_arena_init(&request.arena, 4096, 1u << 20);
    ck_assert_int_eq(srv_texts_write(&texts, &model_of_texts, &request, by_sequence, false, &error),
                     BASE_INTERNAL);
    ck_assert_str_eq(error.message, "output 'token': the model answers id 400, but its vocabulary "
                                    "has 400 texts");
    base_arena_release(&request.arena);
    srv_vocabulary_free(pieces);
}
END_TEST

START_TEST(test_every_failed_allocation)
{
    static const char strings[] = "\7\0\0\0der ab.\2\0\0\0ab";
    static const char *const kinds[] = {"bytes", "bpe"};
    for (uint32_t k = 0; k < 2; k++) {
        char path[UTIL_PATH_BYTES];
        struct srv_vocabulary *vocabulary = NULL;
        snprintf(path, sizeof path, DATA "%s.model", kinds[k]);
        for (uint64_t n = 1; vocabulary == NULL; n++) {
            ck_assert_uint_lt(n, 100);
            base_alloc_fail_at(n);
            vocabulary = open_vocabulary(path);
            base_alloc_fail_at(0);
            ck_assert(vocabulary != NULL || error.status == BASE_RESOURCE_EXHAUSTED);
        }
        srv_vocabulary_free(vocabulary);
        open_texts(kinds[k]);
        enum base_status status = BASE_RESOURCE_EXHAUSTED;
        for (uint64_t n = 1; status != BASE_OK; n++) {
            struct srv_request request;
            struct srv_tensor input;
            struct srv_text_rows rows;
            ck_assert_uint_lt(n, 100);
            base_alloc_fail_at(n);
            status = read_texts(strings, sizeof strings - 1, &request, &input, &rows);
            base_alloc_fail_at(0);
            ck_assert(status == BASE_OK || status == BASE_RESOURCE_EXHAUSTED);
            base_arena_release(&request.arena);
        }
        srv_vocabulary_free(pieces);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sentencepiece");
    TCase *tcase = tcase_create("sentencepiece");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, test_as_sentencepiece, 0, NAMES);
    tcase_add_test(tcase, test_files_that_say_what_cannot_be);
    tcase_add_test(tcase, test_files_that_are_none);
    tcase_add_test(tcase, test_a_file_that_says_little);
    tcase_add_loop_test(tcase, test_files_with_bytes_changed, 0, NAMES);
    tcase_add_test(tcase, test_texts_become_ids);
    tcase_add_test(tcase, test_texts_that_are_refused);
    tcase_add_loop_test(tcase, test_parts_are_the_whole, 0, NAMES);
    tcase_add_test(tcase, test_an_id_that_is_none);
    tcase_add_test(tcase, test_every_failed_allocation);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
