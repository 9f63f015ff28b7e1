/* A spelled text cut into pieces: as unigrams, the likeliest way of all (Kudo, ACL 2018); as byte
 * pairs, from characters up, the best pair of neighbours first (Sennrich, Haddow, Birch, ACL 2016).
 * Sums, ties and the order of comparisons are SentencePiece's, since ids depend on them. */
#include "server/sentencepiece_state.h"

#include "base/assert.h"
#include "base/mem.h"

#include <string.h>

#define NONE SRV_SENTENCEPIECE_NONE

/* How much less likely a character that is no piece is than the least likely one. */
#define UNKNOWN_PENALTY 10.0f

static enum base_status no_memory(struct base_error *error)
{
    return base_fail(error, BASE_RESOURCE_EXHAUSTED, "out of memory");
}

/* ---- Pieces by text -------------------------------------------------------------------------- */

uint32_t srv_sentencepiece__child(const struct srv_sentencepiece__trie *trie, uint32_t node,
                                  char byte)
{
    const struct srv_sentencepiece__node *parent = &trie->nodes[node];
    const uint8_t *first = trie->bytes + parent->children;
    const uint8_t *found = memchr(first, (uint8_t)byte, parent->n_children);
    return found == NULL ? 0 : parent->children + (uint32_t)(found - first);
}

uint32_t srv_sentencepiece__longest(const struct srv_sentencepiece__trie *trie,
                                    struct srv_word text, uint32_t *id)
{
    uint32_t longest = 0;
    uint32_t node = 0;
    *id = NONE;
    for (uint32_t i = 0; i < text.length && trie->n > 0; i++) {
        node = srv_sentencepiece__child(trie, node, text.text[i]);
        if (node == 0) {
            break;
        }
        if (trie->nodes[node].id != NONE) {
            *id = trie->nodes[node].id;
            longest = i + 1;
        }
    }
    return longest;
}

uint32_t srv_sentencepiece__character(struct srv_word text)
{
    const uint8_t first = (uint8_t)text.text[0];
    const uint32_t length = first < 0xC0 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    return length < text.length ? length : (uint32_t)text.length;
}

static uint32_t find(const struct srv_sentencepiece *model, struct srv_word text)
{
    uint32_t id;
    return srv_sentencepiece__longest(&model->all, text, &id) == text.length ? id : NONE;
}

/* ---- Unigrams -------------------------------------------------------------------------------- */

/* The best way to a place in the text: its last piece, and where that began. */
struct way {
    uint32_t id, from; /* from: NONE when there is no way yet */
    float score;
};

/* What a user has defined is cheaper than anything that it could be cut into. */
static double score_of(const struct srv_sentencepiece *model, uint32_t id, uint32_t length)
{
    const struct srv_sentencepiece__piece *piece = &model->pieces[id];
    return piece->type == SENTENCEPIECE__MODEL_PROTO__SENTENCE_PIECE__TYPE__USER_DEFINED
               ? (double)((float)length * model->highest) - 0.1
               : (double)piece->score;
}

static void take_way(struct way *way, double score, uint32_t id, uint32_t from)
{
    if (way->from == NONE || score > (double)way->score) {
        *way = (struct way){.id = id, .from = from, .score = (float)score};
    }
}

/* All pieces that begin at a place, or a character that is none. */
static void find_ways(const struct srv_sentencepiece *model, struct srv_word text, uint32_t at,
                      struct way *ways)
{
    const struct srv_sentencepiece__trie *all = &model->all;
    const struct srv_word rest = {.text = text.text + at, .length = text.length - at};
    const uint32_t character = srv_sentencepiece__character(rest);
    const double so_far = (double)ways[at].score;
    bool is_known = false;
    uint32_t node = 0;
    for (uint32_t length = 1; length <= rest.length && all->n > 0; length++) {
        node = srv_sentencepiece__child(all, node, rest.text[length - 1]);
        if (node == 0) {
            break;
        }
        const uint32_t id = all->nodes[node].id;
        if (id != NONE &&
            model->pieces[id].type != SENTENCEPIECE__MODEL_PROTO__SENTENCE_PIECE__TYPE__UNUSED) {
            take_way(&ways[at + length], score_of(model, id, length) + so_far, id, at);
            is_known = is_known || length == character;
        }
    }
    if (!is_known) {
        const float unknown = model->lowest - UNKNOWN_PENALTY;
        take_way(&ways[at + character], (double)(unknown + ways[at].score), model->unknown, at);
    }
}

static enum base_status cut_unigrams(const struct srv_sentencepiece *model, struct srv_word text,
                                     struct base_buf *out, struct base_error *error)
{
    struct way *ways = base_alloc_array(text.length + 1, sizeof *ways);
    if (ways == NULL) {
        return no_memory(error);
    }
    for (size_t i = 1; i <= text.length; i++) {
        ways[i].from = NONE;
    }
    for (uint32_t at = 0; at < text.length;) {
        const struct srv_word rest = {.text = text.text + at, .length = text.length - at};
        find_ways(model, text, at, ways);
        at += srv_sentencepiece__character(rest);
    }
    // Backwards from the end, then turned round.
    uint32_t n = 0;
    for (uint32_t at = (uint32_t)text.length; at > 0; at = ways[at].from) {
        n++;
    }
    struct srv_sentencepiece__cut *cuts = base_buf_grow(out, n * sizeof *cuts);
    for (uint32_t at = (uint32_t)text.length; at > 0 && cuts != NULL; at = ways[at].from) {
        cuts[--n] =
            (struct srv_sentencepiece__cut){.id = ways[at].id, .length = at - ways[at].from};
    }
    base_free(ways);
    return cuts == NULL ? no_memory(error) : BASE_OK;
}

/* ---- Byte pairs ------------------------------------------------------------------------------ */

/* A piece of the text and its neighbours, by number; one that has been merged into the one before
 * it is empty. */
struct symbol {
    uint32_t at, length, before, behind; /* before, behind: NONE at the ends */
    bool is_own;                         /* never merged */
};

/* Two neighbours that are a piece together, as long as neither has changed. */
struct pair {
    float score;
    uint32_t left, right, length;
};

struct merging {
    const struct srv_sentencepiece *model;
    const char *text;
    struct symbol *symbols; /* [n] */
    struct pair *heap;      /* [n_pairs], the best first; room for 3 n */
    uint32_t n, n_pairs;
};

static bool is_better(const struct pair *a, const struct pair *b)
{
    return a->score > b->score || (a->score == b->score && a->left < b->left);
}

static void push_pair(struct merging *m, struct pair pair)
{
    uint32_t i = m->n_pairs++;
    while (i > 0 && is_better(&pair, &m->heap[(i - 1) / 2])) {
        m->heap[i] = m->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    m->heap[i] = pair;
}

static struct pair pop_pair(struct merging *m)
{
    const struct pair best = m->heap[0];
    const struct pair last = m->heap[--m->n_pairs];
    uint32_t i = 0;
    for (uint32_t child = 1; child < m->n_pairs; child = 2 * i + 1) {
        if (child + 1 < m->n_pairs && is_better(&m->heap[child + 1], &m->heap[child])) {
            child++;
        }
        if (!is_better(&m->heap[child], &last)) {
            break;
        }
        m->heap[i] = m->heap[child];
        i = child;
    }
    m->heap[i] = last;
    return best;
}

static void look_at_pair(struct merging *m, uint32_t left, uint32_t right)
{
    if (left == NONE || right == NONE || m->symbols[left].is_own || m->symbols[right].is_own) {
        return;
    }
    const struct srv_word text = {.text = m->text + m->symbols[left].at,
                                  .length = m->symbols[left].length + m->symbols[right].length};
    const uint32_t id = find(m->model, text);
    if (id != NONE) {
        push_pair(m, (struct pair){m->model->pieces[id].score, left, right, (uint32_t)text.length});
    }
}

/* Characters, and what a user has defined. */
static void begin(struct merging *m, struct srv_word text)
{
    const bool is_pairs = m->model->kind == SENTENCEPIECE__TRAINER_SPEC__MODEL_TYPE__BPE;
    for (uint32_t at = 0; at < text.length; m->n++) {
        const struct srv_word rest = {.text = text.text + at, .length = text.length - at};
        uint32_t id;
        uint32_t length = srv_sentencepiece__longest(&m->model->own, rest, &id);
        const bool is_own = length > 0;
        length = is_own ? length : srv_sentencepiece__character(rest);
        m->symbols[m->n] = (struct symbol){.at = at,
                                           .length = length,
                                           .before = m->n == 0 ? NONE : m->n - 1,
                                           .behind = m->n + 1,
                                           .is_own = is_own};
        at += length;
    }
    m->symbols[m->n - 1].behind = NONE;
    for (uint32_t i = 1; i < m->n && is_pairs; i++) {
        look_at_pair(m, i - 1, i);
    }
}

static void merge(struct merging *m)
{
    while (m->n_pairs > 0) {
        const struct pair pair = pop_pair(m);
        struct symbol *left = &m->symbols[pair.left];
        struct symbol *right = &m->symbols[pair.right];
        if (left->length == 0 || right->length == 0 ||
            left->length + right->length != pair.length) {
            continue;
        }
        left->length = pair.length;
        left->behind = right->behind;
        right->length = 0;
        if (left->behind != NONE) {
            m->symbols[left->behind].before = pair.left;
        }
        look_at_pair(m, left->before, pair.left);
        look_at_pair(m, pair.left, left->behind);
    }
}

static enum base_status cut_pairs(const struct srv_sentencepiece *model, struct srv_word text,
                                  struct base_buf *out, struct base_error *error)
{
    struct merging m = {.model = model, .text = text.text};
    m.symbols = base_alloc_array(text.length, sizeof *m.symbols);
    m.heap = base_alloc_array(text.length, 3 * sizeof *m.heap);
    if (m.symbols != NULL && m.heap != NULL) {
        begin(&m, text);
        merge(&m);
        for (uint32_t i = 0; i != NONE; i = m.symbols[i].behind) {
            const struct symbol *symbol = &m.symbols[i];
            const uint32_t id = find(
                model, (struct srv_word){.text = text.text + symbol->at, .length = symbol->length});
            const struct srv_sentencepiece__cut cut = {.id = id == NONE ? model->unknown : id,
                                                       .length = symbol->length};
            base_buf_add(out, &cut, sizeof cut);
        }
    }
    const bool is_done = m.symbols != NULL && m.heap != NULL && !out->failed;
    base_free(m.symbols);
    base_free(m.heap);
    return is_done ? BASE_OK : no_memory(error);
}

enum base_status srv_sentencepiece__cut(const struct srv_sentencepiece *model, struct srv_word text,
                                        struct base_buf *out, struct base_error *error)
{
    base_assert(text.length > 0 && text.length < NONE);
    return model->kind == SENTENCEPIECE__TRAINER_SPEC__MODEL_TYPE__UNIGRAM
               ? cut_unigrams(model, text, out, error)
               : cut_pairs(model, text, out, error);
}
