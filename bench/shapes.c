/* See shapes.h. A stack of the numbers that nobody has joined yet. */
#include "bench/shapes.h"

#include "base/buf.h"
#include "loadgen/file.h"

#include <string.h>

#define FILE_BYTES_MAX  ((size_t)64 << 20)
#define ARENA_BYTES_MAX ((size_t)1 << 30)

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static uint32_t count_letter(const struct lg_line *line, char letter)
{
    uint32_t n = 0;
    for (size_t i = 0; i < line->length; i++) {
        n += line->text[i] == letter ? 1 : 0;
    }
    return n;
}

static enum base_status read_tree(struct bench_shapes *shapes, const struct lg_line *line,
                                  const char *path, struct base_error *error)
{
    struct bench_shape_tree *tree = &shapes->trees[shapes->count++];
    tree->n_leaves = count_letter(line, 'S');
    tree->n_nodes = count_letter(line, 'R');
    if (tree->n_leaves == 0 || tree->n_leaves != tree->n_nodes + 1 ||
        tree->n_leaves + tree->n_nodes != line->length) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "%s:%zu: no tree of S and R", path,
                         line->number);
    }
    uint32_t *open = base_arena_array(&shapes->arena, tree->n_leaves, sizeof(*open));
    tree->children =
        base_arena_array(&shapes->arena, (size_t)2 * tree->n_nodes + 1, sizeof(*tree->children));
    if (open == NULL || tree->children == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "%s: out of memory", path);
    }
    uint32_t n_open = 0;
    uint32_t leaf = 0;
    uint32_t node = 0;
    for (size_t i = 0; i < line->length; i++) {
        if (line->text[i] == 'S') {
            open[n_open++] = leaf++;
            continue;
        }
        if (n_open < 2) {
            return base_fail(error, BASE_INVALID_ARGUMENT, "%s:%zu: R without two to join", path,
                             line->number);
        }
        tree->children[2 * (size_t)node] = open[n_open - 2];
        tree->children[2 * (size_t)node + 1] = open[n_open - 1];
        n_open -= 1;
        open[n_open - 1] = tree->n_leaves + node++;
    }
    tree->root = open[0];
    shapes->leaves_max = larger(shapes->leaves_max, tree->n_leaves);
    shapes->nodes_max = larger(shapes->nodes_max, tree->n_nodes);
    return BASE_OK;
}

static enum base_status read_lines(const struct base_buf *contents, const char *path,
                                   struct bench_shapes *shapes, struct base_error *error)
{
    struct lg_line line = {0};
    size_t lines = 0;
    while (lg_line_next(contents, &line)) {
        lines++;
    }
    shapes->trees = base_arena_array(&shapes->arena, lines + 1, sizeof(*shapes->trees));
    if (shapes->trees == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "%s: out of memory", path);
    }
    line = (struct lg_line){0};
    while (lg_line_next(contents, &line)) {
        if (line.length > 0 && line.text[0] != '#') {
            BASE_TRY(read_tree(shapes, &line, path, error));
        }
    }
    if (shapes->count == 0) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "%s: no trees", path);
    }
    shapes->order =
        base_arena_array(&shapes->arena, (size_t)shapes->nodes_max + 1, sizeof(*shapes->order));
    if (shapes->order == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "%s: out of memory", path);
    }
    for (uint32_t n = 0; n < shapes->nodes_max; n++) {
        shapes->order[n] = n;
    }
    return BASE_OK;
}

enum base_status bench_shapes_read(const char *path, struct bench_shapes *out,
                                   struct base_error *error)
{
    struct base_buf contents;
    *out = (struct bench_shapes){.count = 0};
    base_arena_init(&out->arena, (size_t)1 << 20, ARENA_BYTES_MAX);
    base_buf_init(&contents, FILE_BYTES_MAX);
    enum base_status status = lg_file_read(path, &contents, error);
    if (status == BASE_OK) {
        status = read_lines(&contents, path, out, error);
    }
    base_buf_release(&contents);
    return status;
}

void bench_shapes_release(struct bench_shapes *shapes)
{
    base_arena_release(&shapes->arena);
}
