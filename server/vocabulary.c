/* See vocabulary.h. Data: the file as it was read; `words` point into it, by id; `slots`, a table
 * of ids by hash with open addressing, at most half full. A look-up hashes the word and compares
 * with what it finds: O(its bytes). */
#include "server/vocabulary.h"

#include "base/assert.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <string.h>

#define BYTE_COUNT     256u
#define EMPTY          UINT32_MAX
#define UTF8_BYTES_MAX ((size_t)4)
#define GOES_ON_BYTES  (sizeof(SRV_BPE_GOES_ON) - 1)

struct srv_vocabulary {
    enum cfg_vocabulary_kind kind;
    uint32_t count;
    struct srv_word *words; /* [count] */
    uint32_t *slots;        /* [mask + 1]: ids, or EMPTY; NULL of BYTES */
    uint32_t mask;
    char *text;                              /* what words point into */
    struct srv_bpe *bpe;                     /* of BPE */
    struct srv_sentencepiece *sentencepiece; /* of SENTENCEPIECE, which has nothing of the above */
};

/* ---- Words by text -------------------------------------------------------------------------- */

static bool is_equal(struct srv_word a, struct srv_word b)
{
    return a.length == b.length && memcmp(a.text, b.text, a.length) == 0;
}

/* Where the word stands, or the empty slot in which it would. */
static uint32_t slot_of(const struct srv_vocabulary *vocabulary, struct srv_word word)
{
    uint32_t slot = (uint32_t)base_hash_bytes(word.text, word.length).low & vocabulary->mask;
    while (vocabulary->slots[slot] != EMPTY &&
           !is_equal(vocabulary->words[vocabulary->slots[slot]], word)) {
        slot = (slot + 1) & vocabulary->mask;
    }
    return slot;
}

static enum base_status add_word(struct srv_vocabulary *vocabulary, const char *name,
                                 struct srv_word word, struct base_error *error)
{
    const uint32_t id = vocabulary->count;
    if (word.length == 0) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "%s:%u: an empty line", name, id + 1);
    }
    const uint32_t slot = slot_of(vocabulary, word);
    if (vocabulary->slots[slot] != EMPTY) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "%s:%u: the same as line %u", name, id + 1,
                         vocabulary->slots[slot] + 1);
    }
    vocabulary->slots[slot] = id;
    vocabulary->words[id] = word;
    vocabulary->count++;
    return BASE_OK;
}

static enum base_status take_lines(struct srv_vocabulary *vocabulary, const char *name,
                                   const struct srv_lines *lines, struct base_error *error)
{
    const uint32_t slots = srv_lines_slots(lines->count);
    vocabulary->words = base_alloc_array(lines->count, sizeof(*vocabulary->words));
    vocabulary->slots = base_alloc_array(slots, sizeof(*vocabulary->slots));
    vocabulary->mask = slots - 1;
    if (vocabulary->words == NULL || vocabulary->slots == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "%s: out of memory", name);
    }
    memset(vocabulary->slots, 0xff, slots * sizeof(*vocabulary->slots));
    struct srv_word word;
    for (size_t at = 0; srv_lines_next(lines, &at, &word);) {
        BASE_TRY(add_word(vocabulary, name, word, error));
    }
    return BASE_OK;
}

/* ---- Life cycle ----------------------------------------------------------------------------- */

static enum base_status fill_bytes(struct srv_vocabulary *vocabulary, struct base_error *error)
{
    vocabulary->text = base_alloc(BYTE_COUNT);
    vocabulary->words = base_alloc_array(BYTE_COUNT, sizeof(*vocabulary->words));
    if (vocabulary->text == NULL || vocabulary->words == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "out of memory");
    }
    for (uint32_t i = 0; i < BYTE_COUNT; i++) {
        const uint8_t byte = (uint8_t)i;
        memcpy(&vocabulary->text[i], &byte, 1);
        vocabulary->words[i] = (struct srv_word){.text = &vocabulary->text[i], .length = 1};
    }
    vocabulary->count = BYTE_COUNT;
    return BASE_OK;
}

static enum base_status load_lines(struct srv_vocabulary *vocabulary, const char *path,
                                   const char *name, struct base_error *error)
{
    struct srv_lines lines;
    const enum base_status status = srv_lines_read(path, name, &lines, error);
    vocabulary->text = lines.text;
    return status == BASE_OK ? take_lines(vocabulary, name, &lines, error) : status;
}

static enum base_status fill(struct srv_vocabulary *vocabulary,
                             const struct srv_vocabulary_source *source, struct base_error *error)
{
    if (source->kind == CFG_VOCABULARY_BYTES) {
        return fill_bytes(vocabulary, error);
    }
    if (source->kind == CFG_VOCABULARY_SENTENCEPIECE) {
        return srv_sentencepiece_load(source->path, source->name, &vocabulary->sentencepiece,
                                      error);
    }
    BASE_TRY(load_lines(vocabulary, source->path, source->name, error));
    return source->kind == CFG_VOCABULARY_BPE
               ? srv_bpe_load(source->codes_path, source->codes_name, &vocabulary->bpe, error)
               : BASE_OK;
}

enum base_status srv_vocabulary_load(const struct srv_vocabulary_source *source,
                                     struct srv_vocabulary **out, struct base_error *error)
{
    struct srv_vocabulary *vocabulary = base_alloc(sizeof(*vocabulary));
    if (vocabulary == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "out of memory");
    }
    vocabulary->kind = source->kind;
    const enum base_status status = fill(vocabulary, source, error);
    if (status != BASE_OK) {
        srv_vocabulary_free(vocabulary);
        return status;
    }
    *out = vocabulary;
    return BASE_OK;
}

void srv_vocabulary_free(struct srv_vocabulary *vocabulary)
{
    if (vocabulary == NULL) {
        return;
    }
    srv_bpe_free(vocabulary->bpe);
    srv_sentencepiece_free(vocabulary->sentencepiece);
    base_free(vocabulary->words);
    base_free(vocabulary->slots);
    base_free(vocabulary->text);
    base_free(vocabulary);
}

/* ---- Use ------------------------------------------------------------------------------------ */

enum cfg_vocabulary_kind srv_vocabulary_kind(const struct srv_vocabulary *vocabulary)
{
    return vocabulary->kind;
}

uint32_t srv_vocabulary_count(const struct srv_vocabulary *vocabulary)
{
    return vocabulary->sentencepiece != NULL ? srv_sentencepiece_count(vocabulary->sentencepiece)
                                             : vocabulary->count;
}

const struct srv_sentencepiece *
srv_vocabulary_sentencepiece(const struct srv_vocabulary *vocabulary)
{
    return vocabulary->sentencepiece;
}

static int64_t find_line(const struct srv_vocabulary *vocabulary, struct srv_word word)
{
    const uint32_t id = vocabulary->slots[slot_of(vocabulary, word)];
    return id == EMPTY ? SRV_VOCABULARY_NONE : (int64_t)id;
}

/* A piece as the file has it: with what says that it goes on. */
static int64_t find_piece(const struct srv_vocabulary *vocabulary, struct srv_word word)
{
    char text[SRV_BPE_CHARACTERS_MAX * UTF8_BYTES_MAX + GOES_ON_BYTES];
    base_assert(word.length <= sizeof(text) - GOES_ON_BYTES); // a piece of a word that was cut
    memcpy(text, word.text, word.length);
    memcpy(text + word.length, SRV_BPE_GOES_ON, GOES_ON_BYTES);
    return find_line(vocabulary,
                     (struct srv_word){.text = text, .length = word.length + GOES_ON_BYTES});
}

int64_t srv_vocabulary_find(const struct srv_vocabulary *vocabulary, struct srv_word word)
{
    if (vocabulary->kind == CFG_VOCABULARY_BYTES) {
        return word.length == 1 ? (uint8_t)word.text[0] : SRV_VOCABULARY_NONE;
    }
    return word.goes_on ? find_piece(vocabulary, word) : find_line(vocabulary, word);
}

struct srv_word srv_vocabulary_word(const struct srv_vocabulary *vocabulary, uint32_t id)
{
    base_assert(id < vocabulary->count);
    struct srv_word word = vocabulary->words[id];
    if (vocabulary->kind == CFG_VOCABULARY_BPE && word.length > GOES_ON_BYTES &&
        memcmp(word.text + word.length - GOES_ON_BYTES, SRV_BPE_GOES_ON, GOES_ON_BYTES) == 0) {
        word.length -= GOES_ON_BYTES;
        word.goes_on = true;
    }
    return word;
}

bool srv_vocabulary_is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Bytes of the first word of rest, which begins with no blank where they are between words. */
static size_t word_bytes(const struct srv_vocabulary *vocabulary, const struct srv_word *rest)
{
    size_t length = 1;
    if (vocabulary->kind == CFG_VOCABULARY_CHARACTERS) {
        length = base_utf8_length(rest->text, rest->length);
        length = length == 0 ? 1 : length;
    }
    while (srv_vocabulary_has_blanks(vocabulary) && length < rest->length &&
           !srv_vocabulary_is_blank(rest->text[length])) {
        length++;
    }
    return length;
}

static struct srv_word take(struct srv_word *rest, size_t length)
{
    const struct srv_word taken = {.text = rest->text, .length = length};
    rest->text += length;
    rest->length -= length;
    return taken;
}

void srv_words_begin(struct srv_words *words, const struct srv_vocabulary *vocabulary,
                     struct srv_word text)
{
    words->vocabulary = vocabulary;
    words->rest = text;
    words->n = words->next = 0;
}

/* The next piece of the word at hand. */
static struct srv_word next_piece(struct srv_words *words)
{
    const uint32_t i = words->next++;
    const size_t start = i == 0 ? 0 : words->ends[i - 1];
    struct srv_word piece = take(&words->word, words->ends[i] - start);
    piece.goes_on = words->next < words->n;
    return piece;
}

bool srv_words_next(struct srv_words *words, struct srv_word *out)
{
    const struct srv_vocabulary *vocabulary = words->vocabulary;
    struct srv_word *rest = &words->rest;
    if (words->next < words->n) {
        *out = next_piece(words);
        return true;
    }
    while (srv_vocabulary_has_blanks(vocabulary) && rest->length > 0 &&
           srv_vocabulary_is_blank(rest->text[0])) {
        (void)take(rest, 1);
    }
    if (rest->length == 0) {
        return false;
    }
    *out = take(rest, word_bytes(vocabulary, rest));
    if (vocabulary->kind == CFG_VOCABULARY_BPE) {
        words->word = *out;
        words->next = 0;
        words->n = srv_bpe_split(vocabulary->bpe, *out, words->ends);
        *out = words->n > 0 ? next_piece(words) : *out;
    }
    return true;
}

bool srv_vocabulary_has_blanks(const struct srv_vocabulary *vocabulary)
{
    return vocabulary->kind == CFG_VOCABULARY_WORDS || vocabulary->kind == CFG_VOCABULARY_BPE;
}
