/* Trees as text: (MAX 3 (MIN 4 5)) is a node with the leaves MAX and 3 and a node of three leaves
 * below it. Blanks stand between words; nothing else has a meaning.
 *
 * Leaves are numbered in the order in which they stand, all texts together, and so are inner nodes,
 * by their opening brackets. How many leaves there are, and so what the first inner node is called,
 * is known from the first walk, which counts. The brackets open at a place are a stack in the
 * request's arena: nothing recurses. Cost: O(bytes). */
#include "server/text.h"

#include "server/about.h"

#include <string.h>

#define NO_CHILD (-1)

struct growing {
    const struct srv_texts *texts;
    const struct cell_model *model;
    const struct srv_tensor *strings;
    struct base_error *error;
    uint32_t n_trees, n_leaves, n_nodes; /* counted first */
    uint8_t *leaves;                     /* [n_leaves] of ids */
    int64_t *children;                   /* [n_nodes][arity] */
    uint32_t *roots;                     /* [n_trees] */
    /* The brackets that are open: nodes, and how many children each has so far. */
    struct open_node {
        uint32_t node, n_children;
    } * open;
    uint32_t n_open;
    uint32_t tree, leaf, node; /* the next ones */
};

/* A piece of a text: a bracket or a word. */
static bool next_piece(struct srv_word *rest, struct srv_word *out)
{
    while (rest->length > 0 && srv_vocabulary_is_blank(rest->text[0])) {
        rest->text++;
        rest->length--;
    }
    if (rest->length == 0) {
        return false;
    }
    size_t length = 1;
    while (rest->text[0] != '(' && rest->text[0] != ')' && length < rest->length &&
           !srv_vocabulary_is_blank(rest->text[length]) && rest->text[length] != '(' &&
           rest->text[length] != ')') {
        length++;
    }
    *out = (struct srv_word){.text = rest->text, .length = length};
    rest->text += length;
    rest->length -= length;
    return true;
}

static enum base_status count(struct growing *g)
{
    struct srv_strings strings = {.tensor = g->strings};
    struct srv_word text;
    struct srv_word piece;
    size_t leaves = 0;
    size_t nodes = 0;
    for (bool more = true; more;) {
        BASE_TRY(srv_strings_next(&strings, &text, &more, g->error));
        while (more && next_piece(&text, &piece)) {
            nodes += piece.text[0] == '(' ? 1 : 0;
            leaves += piece.text[0] != '(' && piece.text[0] != ')' ? 1 : 0;
        }
    }
    const char *name = g->strings->name;
    if (g->strings->rank != 1 || g->strings->shape[0] == 0 ||
        g->strings->shape[0] != (int64_t)strings.index) {
        return base_fail(g->error, BASE_INVALID_ARGUMENT,
                         "input '%s': trees come as BYTES of shape [trees], here with %u texts",
                         name, strings.index);
    }
    if (leaves + nodes > INT32_MAX) {
        return base_fail(g->error, BASE_INVALID_ARGUMENT, "input '%s': %zu leaves and brackets",
                         name, leaves + nodes);
    }
    g->n_trees = strings.index;
    g->n_leaves = (uint32_t)leaves;
    g->n_nodes = (uint32_t)nodes;
    return BASE_OK;
}

/* byte: where in the text. */
static enum base_status fail(const struct growing *g, size_t byte, const char *what)
{
    return base_fail(g->error, BASE_INVALID_ARGUMENT, "input '%s': text %u, byte %zu: %s",
                     g->strings->name, g->tree, byte, what);
}

/* A leaf or node, by its number, becomes a child of the innermost open bracket, or the root. */
static enum base_status attach(struct growing *g, uint32_t number, size_t byte, bool *has_root)
{
    const uint32_t arity = g->model->tree.n_children;
    if (g->n_open == 0) {
        if (*has_root) {
            return fail(g, byte, "a second tree begins; each text is one");
        }
        *has_root = true;
        g->roots[g->tree] = number;
        return BASE_OK;
    }
    struct open_node *parent = &g->open[g->n_open - 1];
    if (parent->n_children == arity) {
        return base_fail(g->error, BASE_INVALID_ARGUMENT,
                         "input '%s': text %u, byte %zu: more than the %u children that a node of "
                         "this model has",
                         g->strings->name, g->tree, byte, arity);
    }
    g->children[(size_t)parent->node * arity + parent->n_children++] = number;
    return BASE_OK;
}

static enum base_status take_piece(struct growing *g, struct srv_word piece, size_t byte,
                                   bool *has_root)
{
    const struct srv_vocabulary *vocabulary = g->texts->inputs[0];
    if (piece.text[0] == ')') {
        if (g->n_open == 0) {
            return fail(g, byte, "a bracket closes that none has opened");
        }
        if (g->open[--g->n_open].n_children == 0) {
            return fail(g, byte, "nothing stands between these brackets");
        }
        return BASE_OK;
    }
    if (piece.text[0] == '(') {
        BASE_TRY(attach(g, g->n_leaves + g->node, byte, has_root));
        g->open[g->n_open++] = (struct open_node){.node = g->node++};
        return BASE_OK;
    }
    const struct srv_text_place place = {g->strings->name, g->tree};
    int64_t id = 0;
    BASE_TRY(attach(g, g->leaf, byte, has_root));
    BASE_TRY(srv_texts_id(g->texts, vocabulary, place, piece, &id, g->error));
    srv_texts_put(g->model->inputs[0].dtype, g->leaves, g->leaf++, id);
    return BASE_OK;
}

static enum base_status take_tree(struct growing *g, struct srv_word text)
{
    const char *start = text.text;
    struct srv_word piece;
    bool has_root = false;
    while (next_piece(&text, &piece)) {
        BASE_TRY(take_piece(g, piece, (size_t)(piece.text - start), &has_root));
    }
    if (g->n_open > 0) {
        return base_fail(g->error, BASE_INVALID_ARGUMENT,
                         "input '%s': text %u: %u brackets are not closed", g->strings->name,
                         g->tree, g->n_open);
    }
    if (!has_root) {
        return fail(g, 0, "no tree");
    }
    g->tree++;
    return BASE_OK;
}

static enum base_status grow(struct growing *g, struct base_arena *arena)
{
    const size_t arity = g->model->tree.n_children;
    struct srv_strings strings = {.tensor = g->strings};
    struct srv_word text;
    bool more = true;
    g->leaves = base_arena_array(arena, (size_t)g->n_leaves + 1,
                                 cell_dtype_bytes(g->model->inputs[0].dtype));
    g->children = base_arena_array(arena, g->n_nodes * arity + 1, sizeof(*g->children));
    g->roots = base_arena_array(arena, g->n_trees, sizeof(*g->roots));
    g->open = base_arena_array(arena, (size_t)g->n_nodes + 1, sizeof(*g->open));
    if (g->leaves == NULL || g->children == NULL || g->roots == NULL || g->open == NULL) {
        return base_fail(g->error, BASE_RESOURCE_EXHAUSTED, "request memory spent");
    }
    for (size_t i = 0; i < g->n_nodes * arity; i++) {
        g->children[i] = NO_CHILD;
    }
    while (g->tree < g->n_trees) {
        BASE_TRY(srv_strings_next(&strings, &text, &more, g->error));
        BASE_TRY(take_tree(g, text));
    }
    return BASE_OK;
}

enum base_status srv_texts_read_trees(const struct srv_texts *texts, const struct cell_model *model,
                                      const struct srv_tensor *strings, struct srv_request *request,
                                      struct srv_text_rows *rows, struct base_error *error)
{
    struct growing g = {.texts = texts, .model = model, .strings = strings, .error = error};
    if (request->n_inputs != 1) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "input '%s': trees as text say all; send no other input beside them",
                         strings->name);
    }
    BASE_TRY(count(&g));
    BASE_TRY(grow(&g, &request->arena));
    struct srv_tensor *made = base_arena_array(&request->arena, 2, sizeof(*made));
    if (made == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "request memory spent");
    }
    const enum cell_dtype dtype = model->inputs[0].dtype;
    const uint32_t arity = model->tree.n_children;
    made[0] = (struct srv_tensor){.name = model->inputs[0].name,
                                  .datatype = srv_about_datatype(dtype),
                                  .rank = 1,
                                  .shape = {g.n_leaves},
                                  .data = g.leaves,
                                  .bytes = (size_t)g.n_leaves * cell_dtype_bytes(dtype)};
    made[1] = (struct srv_tensor){.name = model->inputs[model->tree.children_input].name,
                                  .datatype = srv_about_datatype(CELL_I64),
                                  .rank = 2,
                                  .shape = {g.n_nodes, arity},
                                  .data = (const uint8_t *)g.children,
                                  .bytes = (size_t)g.n_nodes * arity * sizeof(*g.children)};
    request->inputs = made;
    request->n_inputs = 2;
    rows->roots = g.roots;
    return BASE_OK;
}
