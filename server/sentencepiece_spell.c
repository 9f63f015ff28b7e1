/* How a text is spelled before it is cut: characters that look alike are made one (NFKC and more,
 * whatever the file says), what a user has defined stays, blanks become marks. */
#include "server/sentencepiece_state.h"

#include "base/utf8.h"

#include <string.h>

#define REPLACEMENT "\xef\xbf\xbd"

/* ---- The trie -------------------------------------------------------------------------------- */

/* A unit of darts-clone: what its parent's byte is, how far its children stand, whether one of them
 * is a value. 0 for one that does not exist, which no byte leads to. */
static uint32_t unit_at(const struct srv_sentencepiece *model, size_t i)
{
    uint32_t unit = 0;
    if (i < model->n_units) {
        memcpy(&unit, model->units + i * sizeof unit, sizeof unit); // little-endian
    }
    return unit;
}

static uint32_t offset_of(uint32_t unit)
{
    return (unit >> 10) << ((unit & 1u << 9) >> 6);
}

/* The spelling of the longest beginning of the text that has one; its length in *length, or 0. */
static const char *find_spelling(const struct srv_sentencepiece *model, struct srv_word text,
                                 size_t *length)
{
    const char *spelling = NULL;
    uint32_t node = offset_of(unit_at(model, 0));
    *length = 0;
    for (size_t i = 0; i < text.length && model->n_units > 0; i++) {
        const uint8_t byte = (uint8_t)text.text[i];
        node ^= byte;
        const uint32_t unit = node < model->n_units ? unit_at(model, node) : 0;
        if (byte == 0 || (unit & (1u << 31 | 0xffu)) != byte) {
            break;
        }
        node ^= offset_of(unit);
        if ((unit & 1u << 8) != 0) {
            const uint32_t at = unit_at(model, node) & ~(1u << 31);
            if (at < model->n_spellings) {
                spelling = model->spellings + at;
                *length = i + 1;
            }
        }
    }
    return spelling;
}

/* ---- Texts ----------------------------------------------------------------------------------- */

/* What the beginning of the text is spelled as, and how many bytes that was. */
static struct srv_word next_spelling(const struct srv_sentencepiece *model, struct srv_word text,
                                     size_t *length)
{
    uint32_t id;
    *length = srv_sentencepiece__longest(&model->own, text, &id);
    if (*length > 0) {
        return (struct srv_word){.text = text.text, .length = *length};
    }
    const char *spelling = find_spelling(model, text, length);
    if (*length > 0) {
        return (struct srv_word){.text = spelling, .length = strlen(spelling)};
    }
    *length = base_utf8_length(text.text, text.length);
    if (*length == 0) {
        *length = 1;
        return (struct srv_word){.text = REPLACEMENT, .length = sizeof REPLACEMENT - 1};
    }
    return (struct srv_word){.text = text.text, .length = *length};
}

static void skip(struct srv_word *text, size_t length)
{
    text->text += length;
    text->length -= length;
}

static struct srv_word blank_of(const struct srv_sentencepiece *model)
{
    return model->blanks.escape ? (struct srv_word){.text = SRV_SENTENCEPIECE_MARK, .length = 3}
                                : (struct srv_word){.text = " ", .length = 1};
}

static void add_spelling(const struct srv_sentencepiece *model, struct srv_word spelling,
                         struct base_buf *out)
{
    const struct srv_word blank = blank_of(model);
    while (spelling.length > 0) {
        const char *next = memchr(spelling.text, ' ', spelling.length);
        const size_t length = next == NULL ? spelling.length : (size_t)(next - spelling.text);
        base_buf_add(out, spelling.text, length);
        if (next != NULL) {
            base_buf_add(out, blank.text, blank.length);
        }
        skip(&spelling, next == NULL ? length : length + 1);
    }
}

/* Without what begins with one blank and is nothing else. */
static struct srv_word skip_blanks(const struct srv_sentencepiece *model, struct srv_word text)
{
    size_t length;
    while (text.length > 0) {
        const struct srv_word spelling = next_spelling(model, text, &length);
        if (spelling.length != 1 || spelling.text[0] != ' ') {
            break;
        }
        skip(&text, length);
    }
    return text;
}

static void drop_last_blanks(const struct srv_sentencepiece *model, size_t start,
                             struct base_buf *out)
{
    const struct srv_word blank = blank_of(model);
    while (out->length - start >= blank.length &&
           memcmp(out->data + out->length - blank.length, blank.text, blank.length) == 0) {
        out->length -= blank.length;
    }
}

void srv_sentencepiece__spell(const struct srv_sentencepiece *model, struct srv_word text,
                              struct base_buf *out)
{
    const struct srv_sentencepiece__blanks blanks = model->blanks;
    const struct srv_word blank = blank_of(model);
    const size_t start = out->length;
    text = blanks.trim ? skip_blanks(model, text) : text;
    if (text.length == 0) {
        return;
    }
    if (blanks.begin) {
        base_buf_add(out, blank.text, blank.length);
    }
    bool is_behind_blank = blanks.trim;
    while (text.length > 0) {
        size_t length;
        struct srv_word spelling = next_spelling(model, text, &length);
        while (is_behind_blank && spelling.length > 0 && spelling.text[0] == ' ') {
            skip(&spelling, 1);
        }
        if (spelling.length > 0) {
            add_spelling(model, spelling, out);
            is_behind_blank = blanks.trim && spelling.text[spelling.length - 1] == ' ';
        }
        skip(&text, length);
    }
    if (blanks.trim && !out->failed) {
        drop_last_blanks(model, start, out);
    }
    if (blanks.end) {
        base_buf_add(out, blank.text, blank.length);
    }
}
