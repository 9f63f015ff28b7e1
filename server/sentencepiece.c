/* See sentencepiece.h. The file is unpacked into an arena whose budget ends it early when a file of
 * many tiny parts asks for too much; what is kept points into that. */
#include "server/sentencepiece.h"

#include "base/assert.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "cells/file.h"
#include "server/sentencepiece_state.h"

#include <errno.h>
#include <fcntl.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NONE SRV_SENTENCEPIECE_NONE

#define PIECES_MAX      (1u << 24)
#define SPELLED_MAX     ((size_t)1 << 20) /* bytes of a text, as it is cut */
#define UNKNOWN_TEXT    " \xe2\x81\x87 "
#define REPLACEMENT     "\xef\xbf\xbd"
#define MARK_BYTES      (sizeof SRV_SENTENCEPIECE_MARK - 1)
#define BYTE_NAME_BYTES 6u /* <0x0A> */

#define TYPE(name) SENTENCEPIECE__MODEL_PROTO__SENTENCE_PIECE__TYPE__##name
#define KIND(name) SENTENCEPIECE__TRAINER_SPEC__MODEL_TYPE__##name

/* A file that is loaded. */
struct loading {
    struct srv_sentencepiece *model;
    const Sentencepiece__ModelProto *file;
    const char *name;
    struct base_error *error;
    bool is_spent; /* its memory, which protobuf-c cannot tell from a file that is none */
};

static enum base_status no_memory(const struct loading *l)
{
    return base_fail(l->error, BASE_RESOURCE_EXHAUSTED, "%s: out of memory", l->name);
}

static enum base_status refuse(const struct loading *l, const char *what)
{
    return base_fail(l->error, BASE_INVALID_ARGUMENT, "%s: %s", l->name, what);
}

/* ---- Pieces ---------------------------------------------------------------------------------- */

/* The byte that <0x0A> names; -1: it names none. */
static int32_t byte_named(const ProtobufCBinaryData *text)
{
    static const char digits[] = "0123456789ABCDEF";
    if (text->len != BYTE_NAME_BYTES || memcmp(text->data, "<0x", 3) != 0 || text->data[5] != '>') {
        return -1;
    }
    const char *high = memchr(digits, text->data[3], sizeof digits - 1);
    const char *low = memchr(digits, text->data[4], sizeof digits - 1);
    return high == NULL || low == NULL ? -1 : (int32_t)(16 * (high - digits) + (low - digits));
}

static bool is_of_texts(const struct srv_sentencepiece__piece *piece)
{
    return piece->type == TYPE(NORMAL) || piece->type == TYPE(USER_DEFINED) ||
           piece->type == TYPE(UNUSED);
}

static enum base_status take_special(struct loading *l, uint32_t id)
{
    struct srv_sentencepiece *model = l->model;
    struct srv_sentencepiece__piece *piece = &model->pieces[id];
    if (piece->type == TYPE(UNKNOWN)) {
        if (model->unknown != NONE) {
            return refuse(l, "two unknown pieces");
        }
        model->unknown = id;
    }
    if (piece->type == TYPE(BYTE)) {
        piece->byte = byte_named(&l->file->pieces[id]->piece);
        if (!model->has_bytes || piece->byte < 0 || model->byte_ids[piece->byte] >= 0) {
            return base_fail(l->error, BASE_INVALID_ARGUMENT, "%s: piece %u is of a byte, but %s",
                             l->name, id,
                             !model->has_bytes ? "byte_fallback is not set"
                             : piece->byte < 0 ? "names none"
                                               : "another is of the same");
        }
        model->byte_ids[piece->byte] = (int32_t)id;
    }
    if (piece->type == TYPE(UNUSED) && model->kind != KIND(UNIGRAM)) {
        return base_fail(l->error, BASE_UNIMPLEMENTED,
                         "%s: piece %u is not used, which is not taken of byte pairs", l->name, id);
    }
    if (piece->type == TYPE(NORMAL)) {
        model->lowest = piece->score < model->lowest ? piece->score : model->lowest;
        model->highest = piece->score > model->highest ? piece->score : model->highest;
    }
    return BASE_OK;
}

static enum base_status take_pieces(struct loading *l)
{
    struct srv_sentencepiece *model = l->model;
    const size_t n = l->file->n_pieces;
    if (n == 0 || n > PIECES_MAX) {
        return refuse(l, "it has no pieces, or too many");
    }
    model->pieces = base_arena_array(&model->arena, n, sizeof *model->pieces);
    if (model->pieces == NULL) {
        return no_memory(l);
    }
    for (uint32_t id = 0; id < n; id++) {
        const Sentencepiece__ModelProto__SentencePiece *from = l->file->pieces[id];
        if (from->piece.len == 0 || from->piece.len > SPELLED_MAX || !isfinite(from->score)) {
            return base_fail(l->error, BASE_INVALID_ARGUMENT,
                             "%s: piece %u is empty, or has a score that is no number", l->name,
                             id);
        }
        model->pieces[id] =
            (struct srv_sentencepiece__piece){.text = (const char *)from->piece.data,
                                              .length = (uint32_t)from->piece.len,
                                              .score = from->score,
                                              .type = from->type,
                                              .byte = -1};
        model->n_pieces++;
        BASE_TRY(take_special(l, id));
    }
    for (uint32_t byte = 0; byte < 256 && model->has_bytes; byte++) {
        if (model->byte_ids[byte] < 0) {
            return refuse(l, "byte_fallback is set, but some bytes have no piece");
        }
    }
    return model->unknown == NONE ? refuse(l, "it has no unknown piece") : BASE_OK;
}

/* ---- By text --------------------------------------------------------------------------------- */

/* What is sorted: qsort() hands on nothing else. */
struct named {
    const char *text;
    uint32_t length, id;
};

static int compare_named(const void *left, const void *right)
{
    const struct named *a = left;
    const struct named *b = right;
    const uint32_t shorter = a->length < b->length ? a->length : b->length;
    const int order = memcmp(a->text, b->text, shorter);
    return order != 0 ? order : (a->length > b->length) - (a->length < b->length);
}

static bool is_wanted(const struct srv_sentencepiece__piece *piece, bool own)
{
    return own ? piece->type == TYPE(USER_DEFINED) : is_of_texts(piece);
}

/* A node while its children are found: the texts that lead to it or through it, in order. */
struct part {
    uint32_t from, to, depth;
};

struct growing {
    struct srv_sentencepiece__trie *trie;
    const struct named *named;
    struct part *parts; /* by node */
};

static void add_node(struct growing *g, uint8_t byte, struct part part)
{
    struct srv_sentencepiece__trie *trie = g->trie;
    const bool ends = part.from < part.to && g->named[part.from].length == part.depth;
    g->parts[trie->n] = part;
    trie->bytes[trie->n] = byte;
    trie->nodes[trie->n] =
        (struct srv_sentencepiece__node){.id = ends ? g->named[part.from].id : NONE};
    trie->n++;
}

/* A child for each byte that follows. */
static void add_children(struct growing *g, uint32_t parent)
{
    const struct part part = g->parts[parent];
    uint32_t from = part.from + (g->trie->nodes[parent].id != NONE ? 1 : 0);
    g->trie->nodes[parent].children = g->trie->n;
    while (from < part.to) {
        const char byte = g->named[from].text[part.depth];
        uint32_t to = from;
        while (to < part.to && g->named[to].text[part.depth] == byte) {
            to++;
        }
        add_node(g, (uint8_t)byte, (struct part){from, to, part.depth + 1});
        g->trie->nodes[parent].n_children++;
        from = to;
    }
}

/* Of n texts in order, of so many bytes together. */
static enum base_status grow(const struct loading *l, const struct named *named, uint32_t n,
                             size_t n_bytes, struct srv_sentencepiece__trie *trie)
{
    struct base_arena *arena = &l->model->arena;
    struct growing g = {.trie = trie, .named = named};
    g.parts = base_alloc_array(n_bytes + 1, sizeof *g.parts);
    trie->nodes = base_arena_array(arena, n_bytes + 1, sizeof *trie->nodes);
    trie->bytes = base_arena_array(arena, n_bytes + 1, 1);
    if (g.parts == NULL || trie->nodes == NULL || trie->bytes == NULL) {
        base_free(g.parts);
        return no_memory(l);
    }
    add_node(&g, 0, (struct part){.to = n});
    for (uint32_t parent = 0; parent < trie->n; parent++) {
        add_children(&g, parent);
    }
    base_free(g.parts);
    return BASE_OK;
}

static enum base_status check_order(const struct loading *l, const struct named *named, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++) {
        if (compare_named(&named[i - 1], &named[i]) == 0) {
            return base_fail(l->error, BASE_INVALID_ARGUMENT, "%s: pieces %u and %u are alike",
                             l->name, named[i - 1].id, named[i].id);
        }
    }
    return BASE_OK;
}

static enum base_status make_trie(const struct loading *l, bool own,
                                  struct srv_sentencepiece__trie *trie)
{
    const struct srv_sentencepiece *model = l->model;
    struct named *named = base_alloc_array(model->n_pieces, sizeof *named);
    size_t n_bytes = 0;
    uint32_t n = 0;
    if (named == NULL) {
        return no_memory(l);
    }
    for (uint32_t id = 0; id < model->n_pieces; id++) {
        const struct srv_sentencepiece__piece *piece = &model->pieces[id];
        if (is_wanted(piece, own)) {
            named[n++] = (struct named){piece->text, piece->length, id};
            n_bytes += piece->length;
        }
    }
    qsort(named, n, sizeof *named, compare_named);
    enum base_status status = check_order(l, named, n);
    if (status == BASE_OK && n > 0) {
        status = grow(l, named, n, n_bytes, trie);
    }
    base_free(named);
    return status;
}

/* ---- Spellings ------------------------------------------------------------------------------- */

/* [bytes of the trie, little-endian][trie][texts, each with a zero behind it]. */
static enum base_status take_spellings(struct loading *l, const ProtobufCBinaryData *map)
{
    struct srv_sentencepiece *model = l->model;
    uint32_t trie_bytes = 0;
    if (map->len == 0) {
        return BASE_OK;
    }
    if (map->len > sizeof trie_bytes) {
        memcpy(&trie_bytes, map->data, sizeof trie_bytes); // little-endian
    }
    if (trie_bytes == 0 || trie_bytes % sizeof(uint32_t) != 0 ||
        trie_bytes >= map->len - sizeof trie_bytes || map->data[map->len - 1] != 0) {
        return refuse(l, "precompiled_charsmap is cut off, or none");
    }
    model->units = map->data + sizeof trie_bytes;
    model->n_units = trie_bytes / sizeof(uint32_t);
    model->spellings = (const char *)model->units + trie_bytes;
    model->n_spellings = map->len - sizeof trie_bytes - trie_bytes;
    return BASE_OK;
}

static enum base_status take_specs(struct loading *l)
{
    static const Sentencepiece__TrainerSpec no_trainer = SENTENCEPIECE__TRAINER_SPEC__INIT;
    static const Sentencepiece__NormalizerSpec no_normalizer = SENTENCEPIECE__NORMALIZER_SPEC__INIT;
    const Sentencepiece__ModelProto *file = l->file;
    const Sentencepiece__TrainerSpec *trainer =
        file->trainer_spec == NULL ? &no_trainer : file->trainer_spec;
    const Sentencepiece__NormalizerSpec *normalizer =
        file->normalizer_spec == NULL ? &no_normalizer : file->normalizer_spec;
    struct srv_sentencepiece *model = l->model;
    model->kind = trainer->model_type;
    model->has_bytes = trainer->byte_fallback != 0;
    model->unknown_text = (struct srv_word){UNKNOWN_TEXT, sizeof UNKNOWN_TEXT - 1, false};
    if (trainer->has_unk_surface) {
        model->unknown_text = (struct srv_word){(const char *)trainer->unk_surface.data,
                                                trainer->unk_surface.len, false};
    }
    const bool is_suffix = trainer->treat_whitespace_as_suffix != 0;
    model->blanks =
        (struct srv_sentencepiece__blanks){.begin = normalizer->add_dummy_prefix != 0 && !is_suffix,
                                           .end = normalizer->add_dummy_prefix != 0 && is_suffix,
                                           .trim = normalizer->remove_extra_whitespaces != 0,
                                           .escape = normalizer->escape_whitespaces != 0};
    if (model->kind != KIND(UNIGRAM) && model->kind != KIND(BPE) && model->kind != KIND(CHAR)) {
        return base_fail(l->error, BASE_UNIMPLEMENTED,
                         "%s: a model of type %d; taken are unigram, bpe and char", l->name,
                         (int)model->kind);
    }
    if (file->denormalizer_spec != NULL && file->denormalizer_spec->precompiled_charsmap.len > 0) {
        return base_fail(l->error, BASE_UNIMPLEMENTED,
                         "%s: it spells answers anew (denormalizer_spec)", l->name);
    }
    return take_spellings(l, &normalizer->precompiled_charsmap);
}

/* ---- Loading --------------------------------------------------------------------------------- */

static void *arena_alloc(void *data, size_t size)
{
    struct loading *l = data;
    void *block = base_arena_alloc(&l->model->arena, size);
    l->is_spent = l->is_spent || block == NULL;
    return block;
}

static void arena_free(void *data, void *block)
{
    (void)data;
    (void)block;
}

static enum base_status take_file(struct loading *l, const unsigned char *bytes, size_t length)
{
    struct srv_sentencepiece *model = l->model;
    ProtobufCAllocator allocator = {arena_alloc, arena_free, l};
    l->file = sentencepiece__model_proto__unpack(&allocator, length, bytes);
    if (l->file == NULL) {
        return l->is_spent ? no_memory(l) : refuse(l, "it is no model of SentencePiece's");
    }
    BASE_TRY(take_specs(l));
    BASE_TRY(take_pieces(l));
    BASE_TRY(make_trie(l, false, &model->all));
    return make_trie(l, true, &model->own);
}

static enum base_status open_file(const char *path, const struct loading *l, int *fd)
{
    char reason[128];
    *fd = open(path, O_RDONLY | O_CLOEXEC);
    return *fd >= 0 ? BASE_OK
                    : base_fail(l->error, errno == ENOENT ? BASE_NOT_FOUND : BASE_INVALID_ARGUMENT,
                                "%s: %s", l->name, strerror_r(errno, reason, sizeof reason));
}

static enum base_status load(struct loading *l, const char *path)
{
    unsigned char *bytes = NULL;
    size_t length = 0;
    int fd;
    BASE_TRY(open_file(path, l, &fd));
    enum base_status status =
        cell_file_read(fd, l->name, SRV_SENTENCEPIECE_BYTES_MAX, &bytes, &length, l->error);
    (void)close(fd);
    if (status == BASE_OK) {
        // Each piece takes protobuf-c a pointer, a message and a copy.
        base_arena_init(&l->model->arena, 1u << 16, 48 * length + (1u << 20));
        status = take_file(l, bytes, length);
    }
    base_free(bytes);
    return status;
}

enum base_status srv_sentencepiece_load(const char *path, const char *name,
                                        struct srv_sentencepiece **out, struct base_error *error)
{
    struct srv_sentencepiece *model = base_alloc(sizeof *model);
    struct loading loading = {.model = model, .name = name, .error = error};
    if (model == NULL) {
        return no_memory(&loading);
    }
    model->unknown = NONE;
    model->lowest = FLT_MAX;
    model->highest = FLT_MIN; // as SentencePiece has it: scores are logarithms, under zero
    memset(model->byte_ids, 0xff, sizeof model->byte_ids);
    const enum base_status status = load(&loading, path);
    if (status != BASE_OK) {
        srv_sentencepiece_free(model);
        return status;
    }
    *out = model;
    return BASE_OK;
}

void srv_sentencepiece_free(struct srv_sentencepiece *model)
{
    if (model != NULL) {
        base_arena_release(&model->arena);
        base_free(model);
    }
}

uint32_t srv_sentencepiece_count(const struct srv_sentencepiece *model)
{
    return model->n_pieces;
}

int32_t srv_sentencepiece_byte(const struct srv_sentencepiece *model, uint32_t id)
{
    return model->pieces[id].byte;
}

/* ---- Ids of a text --------------------------------------------------------------------------- */

/* What is unknown is a piece for each byte, or with its unknown neighbours one. */
static void add_ids(const struct srv_sentencepiece *model, struct srv_word text,
                    const struct base_buf *cuts, struct base_buf *ids)
{
    const struct srv_sentencepiece__cut *cut = (const void *)cuts->data;
    const size_t n = cuts->length / sizeof *cut;
    bool was_unknown = false;
    for (size_t i = 0; i < n; i++) {
        const bool is_unknown = cut[i].id == model->unknown;
        if (is_unknown && model->has_bytes) {
            for (uint32_t b = 0; b < cut[i].length; b++) {
                const int32_t id = model->byte_ids[(uint8_t)text.text[b]];
                base_buf_add(ids, &id, sizeof id);
            }
        } else if (!is_unknown || !was_unknown) {
            const int32_t id = (int32_t)cut[i].id;
            base_buf_add(ids, &id, sizeof id);
        }
        text.text += cut[i].length;
        was_unknown = is_unknown;
    }
}

enum base_status srv_sentencepiece_encode(const struct srv_sentencepiece *model,
                                          struct srv_word text, struct base_buf *ids,
                                          struct base_error *error)
{
    struct base_buf spelled;
    struct base_buf cuts;
    enum base_status status = BASE_OK;
    base_buf_init(&spelled, SPELLED_MAX);
    base_buf_init(&cuts, SPELLED_MAX * sizeof(struct srv_sentencepiece__cut));
    srv_sentencepiece__spell(model, text, &spelled);
    if (spelled.failed) {
        status = base_fail(error, BASE_RESOURCE_EXHAUSTED,
                           "a text of more than %zu bytes, or out of memory", SPELLED_MAX);
    } else if (spelled.length > 0) {
        const struct srv_word all = {.text = spelled.data, .length = spelled.length};
        status = srv_sentencepiece__cut(model, all, &cuts, error);
        if (status == BASE_OK) {
            add_ids(model, all, &cuts, ids);
            status =
                ids->failed ? base_fail(error, BASE_RESOURCE_EXHAUSTED, "out of memory") : BASE_OK;
        }
    }
    base_buf_release(&spelled);
    base_buf_release(&cuts);
    return status;
}

/* ---- Text of ids ----------------------------------------------------------------------------- */

static size_t put(const char *from, size_t length, char *to, size_t at)
{
    if (to != NULL && length > 0) {
        memcpy(to + at, from, length);
    }
    return length;
}

/* Characters among the bytes that came: as many as are complete, at the end all. A byte of none is
 * U+FFFD. */
static size_t put_bytes(struct srv_sentencepiece_text *text, bool is_end, char *to)
{
    size_t written = 0;
    while (text->n_bytes > 0 && (is_end || text->n_bytes >= base_utf8_expected(text->bytes[0]))) {
        const size_t length = base_utf8_length(text->bytes, text->n_bytes);
        const size_t taken = length == 0 ? 1 : length;
        written += length == 0 ? put(REPLACEMENT, sizeof REPLACEMENT - 1, to, written)
                               : put(text->bytes, length, to, written);
        text->n_bytes -= (uint8_t)taken;
        memmove(text->bytes, text->bytes + taken, text->n_bytes);
    }
    text->has_text = text->has_text || written > 0;
    return written;
}

/* A piece, with blanks for its marks. */
static size_t put_piece(struct srv_word piece, char *to, size_t at)
{
    size_t written = 0;
    while (piece.length > 0) {
        const bool is_mark = piece.length >= MARK_BYTES &&
                             memcmp(piece.text, SRV_SENTENCEPIECE_MARK, MARK_BYTES) == 0;
        const size_t taken = is_mark ? MARK_BYTES : 1;
        written += put(is_mark ? " " : piece.text, 1, to, at + written);
        piece.text += taken;
        piece.length -= taken;
    }
    return written;
}

size_t srv_sentencepiece_add(const struct srv_sentencepiece *model,
                             struct srv_sentencepiece_text *text, uint32_t id, char *to)
{
    base_assert(id < model->n_pieces);
    const struct srv_sentencepiece__piece *piece = &model->pieces[id];
    if (piece->byte >= 0) {
        const uint8_t byte = (uint8_t)piece->byte;
        memcpy(&text->bytes[text->n_bytes++], &byte, 1);
        return put_bytes(text, false, to);
    }
    size_t written = put_bytes(text, true, to);
    const bool is_begin = !text->has_text && !text->had_mark;
    struct srv_word rest = {.text = piece->text, .length = piece->length};
    if (piece->type == TYPE(CONTROL)) {
        rest.length = 0;
    } else if (piece->type == TYPE(UNKNOWN)) {
        written += put(model->unknown_text.text, model->unknown_text.length, to, written);
        rest.length = 0;
    } else if (is_begin && (model->blanks.begin || model->blanks.end || model->blanks.trim) &&
               rest.length >= MARK_BYTES &&
               memcmp(rest.text, SRV_SENTENCEPIECE_MARK, MARK_BYTES) == 0) {
        rest.text += MARK_BYTES;
        rest.length -= MARK_BYTES;
        text->had_mark = !model->blanks.trim;
    }
    written += put_piece(rest, to, written);
    text->has_text = text->has_text || written > 0;
    return written;
}

size_t srv_sentencepiece_end(struct srv_sentencepiece_text *text, char *to)
{
    return put_bytes(text, true, to);
}
