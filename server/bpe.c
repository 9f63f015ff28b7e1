/* See bpe.h. Data: the file as it was read, each line made one text without its blank; `merges`
 * point into it, by rank; `slots`, a table of ranks by hash with open addressing, at most half
 * full.
 *
 * The symbols of a word always lie behind each other in it, so that a symbol is where it ends, and
 * a pair of them one piece of the text. The end of the word, which the file writes </w>, is no
 * text: it is a mark of the last symbol, or in version 0.1 a last symbol that is empty. */
#include "server/bpe.h"

#include "base/assert.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <string.h>

#define NONE UINT32_MAX

/* Of a word, and behind them the empty one. */
#define SYMBOLS_MAX (SRV_BPE_CHARACTERS_MAX + 1)

static const char end_mark[] = "</w>";
#define END_BYTES (sizeof(end_mark) - 1)

struct merge {
    const char *text; /* both pieces */
    uint32_t length, left;
    bool ends; /* the second one is at the end of its word */
};

struct srv_bpe {
    char *text;
    struct merge *merges; /* [count] */
    uint32_t count, mask;
    uint32_t *slots;    /* [mask + 1]: ranks, or NONE */
    bool is_end_symbol; /* version 0.1 */
};

/* ---- The table ------------------------------------------------------------------------------ */

static uint32_t slot_of(const struct srv_bpe *bpe, const struct merge *pair)
{
    uint64_t hash = base_hash_bytes(pair->text, pair->length).low;
    hash += pair->left * UINT64_C(0x9e3779b97f4a7c15) + (pair->ends ? 1 : 0);
    uint32_t slot = (uint32_t)(hash ^ hash >> 32) & bpe->mask;
    for (; bpe->slots[slot] != NONE; slot = (slot + 1) & bpe->mask) {
        const struct merge *there = &bpe->merges[bpe->slots[slot]];
        if (there->left == pair->left && there->ends == pair->ends &&
            there->length == pair->length && memcmp(there->text, pair->text, pair->length) == 0) {
            break;
        }
    }
    return slot;
}

/* "a b" in *pair. false: it is no such line. */
static bool read_pair(const struct srv_bpe *bpe, struct srv_word line, struct merge *pair)
{
    const char *blank = memchr(line.text, ' ', line.length);
    if (blank == NULL) {
        return false;
    }
    const size_t left = (size_t)(blank - line.text);
    size_t right = line.length - left - 1;
    if (left == 0 || right == 0 || memchr(blank + 1, ' ', right) != NULL) {
        return false;
    }
    const bool ends =
        right >= END_BYTES && memcmp(blank + 1 + right - END_BYTES, end_mark, END_BYTES) == 0;
    right -= ends ? END_BYTES : 0;
    memmove(bpe->text + (blank - bpe->text), blank + 1, right);
    *pair = (struct merge){line.text, (uint32_t)(left + right), (uint32_t)left, ends};
    return true;
}

/* The version's line, if there is one. */
static enum base_status read_version(struct srv_bpe *bpe, const struct srv_lines *lines,
                                     const char *name, size_t *at, struct base_error *error)
{
    static const char mark[] = "#version:";
    struct srv_word line;
    size_t next = 0;
    bpe->is_end_symbol = true;
    if (!srv_lines_next(lines, &next, &line) || line.length < sizeof mark - 1 ||
        memcmp(line.text, mark, sizeof mark - 1) != 0) {
        return BASE_OK;
    }
    *at = next;
    line.text += sizeof mark - 1;
    line.length -= sizeof mark - 1;
    while (line.length > 0 && line.text[0] == ' ') {
        line.text++;
        line.length--;
    }
    bpe->is_end_symbol = line.length == 3 && memcmp(line.text, "0.1", 3) == 0;
    return bpe->is_end_symbol || (line.length == 3 && memcmp(line.text, "0.2", 3) == 0)
               ? BASE_OK
               : base_fail(error, BASE_INVALID_ARGUMENT, "%s:1: a version that is not 0.1 or 0.2",
                           name);
}

/* The first of two equal pairs counts. */
static enum base_status take_merges(struct srv_bpe *bpe, const struct srv_lines *lines,
                                    const char *name, struct base_error *error)
{
    const uint32_t n_slots = srv_lines_slots(lines->count);
    struct srv_word line;
    size_t at = 0;
    BASE_TRY(read_version(bpe, lines, name, &at, error));
    bpe->merges = base_alloc_array(lines->count, sizeof *bpe->merges);
    bpe->slots = base_alloc_array(n_slots, sizeof *bpe->slots);
    bpe->mask = n_slots - 1;
    if (bpe->merges == NULL || bpe->slots == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "%s: out of memory", name);
    }
    memset(bpe->slots, 0xff, n_slots * sizeof *bpe->slots);
    for (uint32_t number = at > 0 ? 2 : 1; srv_lines_next(lines, &at, &line); number++) {
        struct merge *merge = &bpe->merges[bpe->count];
        if (!read_pair(bpe, line, merge)) {
            return base_fail(error, BASE_INVALID_ARGUMENT,
                             "%s:%u: not two pieces with a blank between them", name, number);
        }
        const uint32_t slot = slot_of(bpe, merge);
        if (bpe->slots[slot] == NONE) {
            bpe->slots[slot] = bpe->count++;
        }
    }
    return BASE_OK;
}

enum base_status srv_bpe_load(const char *path, const char *name, struct srv_bpe **out,
                              struct base_error *error)
{
    struct srv_lines lines;
    struct srv_bpe *bpe = base_alloc(sizeof *bpe);
    if (bpe == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "%s: out of memory", name);
    }
    enum base_status status = srv_lines_read(path, name, &lines, error);
    bpe->text = lines.text;
    if (status == BASE_OK) {
        status = take_merges(bpe, &lines, name, error);
    }
    if (status != BASE_OK) {
        srv_bpe_free(bpe);
        return status;
    }
    *out = bpe;
    return BASE_OK;
}

void srv_bpe_free(struct srv_bpe *bpe)
{
    if (bpe != NULL) {
        base_free(bpe->merges);
        base_free(bpe->slots);
        base_free(bpe->text);
        base_free(bpe);
    }
}

/* ---- Cutting -------------------------------------------------------------------------------- */

/* Symbols of a word, and the rank of each with the one behind it. */
struct symbols {
    const char *text;
    uint32_t n;
    uint16_t ends[SYMBOLS_MAX];
    uint32_t ranks[SYMBOLS_MAX]; /* [n - 1] */
};

static uint32_t start_of(const struct symbols *symbols, uint32_t i)
{
    return i == 0 ? 0 : symbols->ends[i - 1];
}

static uint32_t rank_of(const struct srv_bpe *bpe, const struct symbols *symbols, uint32_t i)
{
    const uint32_t start = start_of(symbols, i);
    const struct merge pair = {.text = symbols->text + start,
                               .length = symbols->ends[i + 1] - start,
                               .left = symbols->ends[i] - start,
                               .ends = i + 2 == symbols->n};
    return bpe->slots[slot_of(bpe, &pair)];
}

/* The characters of a word; false: there are too many. */
static bool begin(const struct srv_bpe *bpe, struct srv_word word, struct symbols *symbols)
{
    symbols->text = word.text;
    symbols->n = 0;
    for (size_t at = 0; at < word.length; symbols->n++) {
        const size_t length = base_utf8_length(word.text + at, word.length - at);
        if (symbols->n == SRV_BPE_CHARACTERS_MAX) {
            return false;
        }
        at += length == 0 ? 1 : length;
        symbols->ends[symbols->n] = (uint16_t)at;
    }
    if (bpe->is_end_symbol) {
        symbols->ends[symbols->n++] = (uint16_t)word.length;
    }
    for (uint32_t i = 0; i + 1 < symbols->n; i++) {
        symbols->ranks[i] = rank_of(bpe, symbols, i);
    }
    return true;
}

/* Makes one of each pair of this rank, from the left; those that have come to stand beside a new
 * one are looked up. */
static void merge_all(const struct srv_bpe *bpe, struct symbols *symbols, uint32_t rank)
{
    bool is_new[SYMBOLS_MAX];
    uint32_t to = 0;
    for (uint32_t from = 0; from < symbols->n; to++) {
        is_new[to] = from + 1 < symbols->n && symbols->ranks[from] == rank;
        from += is_new[to] ? 2 : 1;
        symbols->ends[to] = symbols->ends[from - 1];
        // Of its last part and what follows, which holds where neither of the two is new.
        symbols->ranks[to] = from < symbols->n ? symbols->ranks[from - 1] : NONE;
    }
    symbols->n = to;
    for (uint32_t i = 0; i + 1 < to; i++) {
        if (is_new[i] || is_new[i + 1]) {
            symbols->ranks[i] = rank_of(bpe, symbols, i);
        }
    }
}

static uint32_t least_rank(const struct symbols *symbols)
{
    uint32_t least = NONE;
    for (uint32_t i = 0; i + 1 < symbols->n; i++) {
        least = symbols->ranks[i] < least ? symbols->ranks[i] : least;
    }
    return least;
}

uint32_t srv_bpe_split(const struct srv_bpe *bpe, struct srv_word word,
                       uint16_t ends[SRV_BPE_CHARACTERS_MAX])
{
    struct symbols symbols;
    base_assert(word.length > 0);
    if (!begin(bpe, word, &symbols)) {
        return 0;
    }
    for (uint32_t rank; (rank = least_rank(&symbols)) != NONE;) {
        merge_all(bpe, &symbols, rank);
    }
    if (bpe->is_end_symbol && start_of(&symbols, symbols.n - 1) == word.length) {
        symbols.n--; // nothing was merged with the end
    }
    memcpy(ends, symbols.ends, symbols.n * sizeof ends[0]);
    return symbols.n;
}
