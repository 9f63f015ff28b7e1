/* See vocabulary.h. Data: the file as it was read; `words` point into it, by id; `slots`, a table
 * of ids by hash with open addressing, at most half full. A look-up hashes the word and compares
 * with what it finds: O(its bytes). */
#include "server/vocabulary.h"

#include "base/assert.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define BYTE_COUNT 256u
#define EMPTY      UINT32_MAX

struct srv_vocabulary {
    enum cfg_vocabulary_kind kind;
    uint32_t count;
    struct srv_word *words; /* [count] */
    uint32_t *slots;        /* [mask + 1]: ids, or EMPTY; NULL of BYTES */
    uint32_t mask;
    char *text; /* what words point into */
};

/* ---- Reading -------------------------------------------------------------------------------- */

static enum base_status fail_errno(const char *name, int number, struct base_error *error)
{
    char reason[128];
    return base_fail(error, number == ENOENT ? BASE_NOT_FOUND : BASE_INVALID_ARGUMENT, "%s: %s",
                     name, strerror_r(number, reason, sizeof(reason)));
}

static enum base_status no_memory(const char *name, struct base_error *error)
{
    return base_fail(error, BASE_RESOURCE_EXHAUSTED, "%s: out of memory", name);
}

static enum base_status read_open(FILE *file, const char *name, char **out, size_t *length,
                                  struct base_error *error)
{
    size_t room = 0;
    do {
        room = room == 0 ? (size_t)64 << 10 : room * 2;
        char *longer = base_realloc(*out, room);
        if (longer == NULL) {
            return no_memory(name, error);
        }
        *out = longer;
        errno = 0;
        *length += fread(longer + *length, 1, room - *length, file);
    } while (*length == room && room < 2 * SRV_VOCABULARY_BYTES_MAX);
    if (ferror(file)) {
        return fail_errno(name, errno, error);
    }
    if (*length > SRV_VOCABULARY_BYTES_MAX) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "%s: longer than %zu MiB", name,
                         SRV_VOCABULARY_BYTES_MAX >> 20);
    }
    return BASE_OK;
}

static enum base_status read_file(const char *path, const char *name, char **out, size_t *length,
                                  struct base_error *error)
{
    FILE *file = fopen(path, "rbe");
    if (file == NULL) {
        return fail_errno(name, errno, error);
    }
    const enum base_status status = read_open(file, name, out, length, error);
    (void)fclose(file);
    return status;
}

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

/* Lines of the text; what stands behind the last line feed is one too, unless it is empty. */
static uint32_t count_lines(const char *text, size_t length)
{
    size_t lines = length > 0 && text[length - 1] != '\n' ? 1 : 0;
    for (size_t i = 0; i < length; i++) {
        lines += text[i] == '\n' ? 1 : 0;
    }
    return lines < UINT32_MAX ? (uint32_t)lines : UINT32_MAX;
}

static enum base_status take_lines(struct srv_vocabulary *vocabulary, const char *name,
                                   size_t length, struct base_error *error)
{
    const uint32_t lines = count_lines(vocabulary->text, length);
    if (lines == 0 || lines > SRV_VOCABULARY_LINES_MAX) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "%s: %u lines, expected 1 to %u", name,
                         lines, SRV_VOCABULARY_LINES_MAX);
    }
    uint32_t slots = 2;
    while (slots < 2 * lines) {
        slots *= 2;
    }
    vocabulary->words = base_alloc_array(lines, sizeof(*vocabulary->words));
    vocabulary->slots = base_alloc_array(slots, sizeof(*vocabulary->slots));
    vocabulary->mask = slots - 1;
    if (vocabulary->words == NULL || vocabulary->slots == NULL) {
        return no_memory(name, error);
    }
    memset(vocabulary->slots, 0xff, slots * sizeof(*vocabulary->slots));
    const char *at = vocabulary->text;
    const char *end = at + length;
    while (at < end) {
        const char *feed = memchr(at, '\n', (size_t)(end - at));
        const char *stop = feed == NULL ? end : feed;
        const char *next = feed == NULL ? end : feed + 1;
        stop -= stop > at && feed != NULL && stop[-1] == '\r' ? 1 : 0;
        const struct srv_word word = {at, (size_t)(stop - at)};
        BASE_TRY(add_word(vocabulary, name, word, error));
        at = next;
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
        vocabulary->words[i] = (struct srv_word){&vocabulary->text[i], 1};
    }
    vocabulary->count = BYTE_COUNT;
    return BASE_OK;
}

enum base_status srv_vocabulary_load(enum cfg_vocabulary_kind kind, const char *path,
                                     const char *name, struct srv_vocabulary **out,
                                     struct base_error *error)
{
    struct srv_vocabulary *vocabulary = base_alloc(sizeof(*vocabulary));
    if (vocabulary == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "out of memory");
    }
    vocabulary->kind = kind;
    enum base_status status = BASE_OK;
    if (kind == CFG_VOCABULARY_BYTES) {
        status = fill_bytes(vocabulary, error);
    } else {
        size_t length = 0;
        status = read_file(path, name, &vocabulary->text, &length, error);
        status = status == BASE_OK ? take_lines(vocabulary, name, length, error) : status;
    }
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
    return vocabulary->count;
}

int64_t srv_vocabulary_find(const struct srv_vocabulary *vocabulary, struct srv_word word)
{
    if (vocabulary->kind == CFG_VOCABULARY_BYTES) {
        return word.length == 1 ? (uint8_t)word.text[0] : SRV_VOCABULARY_NONE;
    }
    const uint32_t id = vocabulary->slots[slot_of(vocabulary, word)];
    return id == EMPTY ? SRV_VOCABULARY_NONE : (int64_t)id;
}

struct srv_word srv_vocabulary_word(const struct srv_vocabulary *vocabulary, uint32_t id)
{
    base_assert(id < vocabulary->count);
    return vocabulary->words[id];
}

bool srv_vocabulary_is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Bytes of the first word of rest, which begins with no blank. */
static size_t word_bytes(const struct srv_vocabulary *vocabulary, const struct srv_word *rest)
{
    size_t length = 1;
    if (vocabulary->kind == CFG_VOCABULARY_CHARACTERS) {
        length = base_utf8_length(rest->text, rest->length);
        length = length == 0 ? 1 : length;
    }
    while (vocabulary->kind == CFG_VOCABULARY_WORDS && length < rest->length &&
           !srv_vocabulary_is_blank(rest->text[length])) {
        length++;
    }
    return length;
}

bool srv_vocabulary_next(const struct srv_vocabulary *vocabulary, struct srv_word *rest,
                         struct srv_word *out)
{
    while (vocabulary->kind == CFG_VOCABULARY_WORDS && rest->length > 0 &&
           srv_vocabulary_is_blank(rest->text[0])) {
        rest->text++;
        rest->length--;
    }
    if (rest->length == 0) {
        return false;
    }
    *out = (struct srv_word){rest->text, word_bytes(vocabulary, rest)};
    rest->text += out->length;
    rest->length -= out->length;
    return true;
}

bool srv_vocabulary_has_blanks(const struct srv_vocabulary *vocabulary)
{
    return vocabulary->kind == CFG_VOCABULARY_WORDS;
}
