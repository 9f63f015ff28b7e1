/* Texts of a request: one byte of choices, one for the number of texts, then a BYTES tensor. Read
 * as rows of words, of their pieces (two kinds), of characters or of bytes, or as bracketed trees,
 * and checked as what they became.
 *
 * Beside not crashing: rows have as many ids as they have words, and a tree, written again with
 * brackets, is read as the same leaves and children. */
#include "base/assert.h"
#include "base/buf.h"
#include "server/text.h"
#include "server/validate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHILDREN  3u
#define STEPS_MAX 4096u

enum {
    CHOICE_KIND = 3,
    CHOICE_UNKNOWN = 4,
    CHOICE_TREE = 8,
    CHOICE_TIME_FIRST = 16,
    CHOICE_SENTENCEPIECE = 32, /* whatever the kind */
    CHOICES = 2
};

static struct srv_vocabulary *vocabularies[CFG_VOCABULARY_KINDS];

static void write_lines(char *path, const char *lines)
{
    const int file = mkstemp(path);
    base_assert(file >= 0 && write(file, lines, strlen(lines)) == (ssize_t)strlen(lines));
    base_assert(close(file) == 0);
}

static void open_vocabularies(void)
{
    struct base_error error;
    char path[] = "/tmp/cellbatch-fuzz-XXXXXX";
    char codes_path[] = "/tmp/cellbatch-fuzz-XXXXXX";
    write_lines(path, "a\nb\n1\n(\n \n\xc3\xa4\na@@\nab@@\nb1\n");
    write_lines(codes_path, "#version: 0.2\na b\na a\naa aa\nb 1</w>\n\xc3\xa4 a\n");
    for (uint32_t kind = 0; kind < CFG_VOCABULARY_KINDS; kind++) {
        const bool is_model = kind == CFG_VOCABULARY_SENTENCEPIECE;
        const struct srv_vocabulary_source source = {
            (enum cfg_vocabulary_kind)kind,
            is_model ? "tests/data/sentencepiece/bytes.model" : path, "lines", codes_path, "codes"};
        base_assert(srv_vocabulary_load(&source, &vocabularies[kind], &error) == BASE_OK);
    }
    base_assert(unlink(path) == 0 && unlink(codes_path) == 0);
}

static struct cell_tensor tensor_of(const char *name, uint32_t rank, uint32_t width)
{
    struct cell_tensor made = {.dtype = CELL_I64,
                               .rank = rank,
                               .dims = {CELL_DIM_ANY, CELL_DIM_ANY},
                               .batch_axis = 0,
                               .time_axis = -1,
                               .piece_axis = -1,
                               .pieces = 1,
                               .width = width};
    snprintf(made.name, sizeof(made.name), "%s", name);
    return made;
}

/* ---- Rows ----------------------------------------------------------------------------------- */

static void check_rows(const struct srv_texts *texts, struct srv_request *request,
                       bool is_time_first)
{
    static struct cell_model model = {.n_inputs = 1, .n_sequences = 1};
    const struct srv_limits limits = {.sequence_length_max = STEPS_MAX};
    struct srv_text_rows rows;
    struct sched_sequences sequences;
    struct base_error error;
    model.inputs[0] = tensor_of("x", 2, 1);
    model.inputs[0].batch_axis = is_time_first ? 1 : 0;
    model.inputs[0].time_axis = is_time_first ? 0 : 1;
    if (srv_texts_read(texts, &model, request, &rows, &error) != BASE_OK) {
        return;
    }
    const struct srv_tensor *ids = &request->inputs[0];
    base_assert(strcmp(ids->datatype, "INT64") == 0 && ids->rank == 2);
    base_assert(ids->bytes == (size_t)ids->shape[0] * (size_t)ids->shape[1] * sizeof(int64_t));
    if (srv_validate(request, &model, &limits, &rows, &sequences, &error) != BASE_OK) {
        return;
    }
    for (uint32_t row = 0; row < sequences.n_rows; row++) {
        base_assert(sequences.steps[0][row] >= 1);
        base_assert(sequences.steps[0][row] <= ids->shape[is_time_first ? 0 : 1]);
    }
}

/* ---- Trees ---------------------------------------------------------------------------------- */

static int64_t child_of(const struct srv_request *request, int64_t node, uint32_t k)
{
    int64_t child = 0;
    const size_t at = ((size_t)node * CHILDREN + k) * sizeof(child);
    memcpy(&child, request->inputs[1].data + at, sizeof(child));
    return child;
}

/* A tree with brackets; the way down to a node stands in `path`, as node and next child. */
static void print_tree(const struct srv_texts *texts, const struct srv_request *request,
                       uint32_t root, struct base_buf *out)
{
    static struct {
        int64_t number;
        uint32_t next;
    } path[STEPS_MAX + 1];
    const int64_t n_leaves = request->inputs[0].shape[0];
    uint32_t depth = 0;
    path[depth++].number = root;
    path[0].next = 0;
    while (depth > 0) {
        const int64_t number = path[depth - 1].number;
        const uint32_t k = path[depth - 1].next++;
        if (number < n_leaves) {
            int64_t id = 0;
            memcpy(&id, request->inputs[0].data + (size_t)number * sizeof(id), sizeof(id));
            const struct srv_word word = srv_vocabulary_word(texts->inputs[0], (uint32_t)id);
            base_buf_add(out, word.text, word.length);
            base_buf_text(out, " ");
            depth--;
            continue;
        }
        base_buf_text(out, k == 0 ? "(" : "");
        const int64_t child =
            k < CHILDREN ? child_of(request, number - n_leaves, k) : SRV_VOCABULARY_NONE;
        if (child < 0) {
            base_buf_text(out, ")");
            depth--;
        } else {
            path[depth].number = child;
            path[depth++].next = 0;
        }
    }
}

static void check_again(const struct srv_texts *texts, const struct cell_model *model,
                        const struct srv_request *request, const struct sched_forest *forest)
{
    struct srv_request again = {.id = ""};
    struct srv_tensor input = {.name = "x", .datatype = SRV_BYTES, .rank = 1};
    struct srv_text_rows rows;
    struct base_error error;
    struct base_buf out;
    base_buf_init(&out, 1u << 20);
    base_arena_init(&again.arena, 4096, 1u << 22);
    for (uint32_t tree = 0; tree < forest->n_roots; tree++) {
        const size_t start = out.length;
        base_buf_add(&out, "----", sizeof(uint32_t));
        print_tree(texts, request, forest->roots[tree], &out);
        base_assert(!out.failed);
        const uint32_t length = (uint32_t)(out.length - start - sizeof(length));
        memcpy(out.data + start, &length, sizeof(length));
    }
    input.shape[0] = forest->n_roots;
    input.data = (const uint8_t *)out.data;
    input.bytes = out.length;
    again.inputs = &input;
    again.n_inputs = 1;
    base_assert(srv_texts_read(texts, model, &again, &rows, &error) == BASE_OK);
    for (uint32_t i = 0; i < 2; i++) {
        base_assert(again.inputs[i].bytes == request->inputs[i].bytes);
        base_assert(again.inputs[i].bytes == 0 ||
                    memcmp(again.inputs[i].data, request->inputs[i].data, again.inputs[i].bytes) ==
                        0);
    }
    base_arena_release(&again.arena);
    base_buf_release(&out);
}

static void check_trees(const struct srv_texts *texts, struct srv_request *request)
{
    static struct cell_model model = {
        .n_inputs = 2,
        .n_sequences = 1,
        .unfold = CELL_UNFOLD_TREE,
        .tree = {.n_children = CHILDREN, .n_leaf_inputs = 1, .children_input = 1}};
    const struct srv_limits limits = {.sequence_length_max = STEPS_MAX};
    struct srv_text_rows rows;
    struct sched_forest forest;
    struct base_error error;
    model.inputs[0] = tensor_of("x", 1, 1);
    model.inputs[1] = tensor_of("children", 2, CHILDREN);
    model.inputs[1].dims[1] = CHILDREN;
    if (srv_texts_read(texts, &model, request, &rows, &error) != BASE_OK) {
        return;
    }
    // Only their number may still be wrong: what brackets say is always a tree.
    const enum base_status status =
        srv_validate_tree(request, &model, &limits, &rows, &forest, &error);
    base_assert(status == BASE_OK ||
                request->inputs[0].shape[0] + request->inputs[1].shape[0] > (int64_t)STEPS_MAX);
    if (status == BASE_OK && texts->unknown == SRV_VOCABULARY_NONE) {
        check_again(texts, &model, request, &forest);
    }
}

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (vocabularies[0] == NULL) {
        open_vocabularies();
    }
    if (size < CHOICES) {
        return 0;
    }
    const uint8_t choices = data[0];
    const bool is_tree = (choices & CHOICE_TREE) != 0;
    struct srv_texts texts = {.unknown = (choices & CHOICE_UNKNOWN) != 0 ? 1 : SRV_VOCABULARY_NONE};
    const uint32_t kind = (choices & CHOICE_SENTENCEPIECE) != 0 ? CFG_VOCABULARY_SENTENCEPIECE
                                                                : choices & CHOICE_KIND;
    texts.inputs[0] = vocabularies[is_tree ? CFG_VOCABULARY_WORDS : kind];
    struct srv_tensor input = {.name = "x",
                               .datatype = SRV_BYTES,
                               .rank = 1,
                               .shape = {data[1]},
                               .data = data + CHOICES,
                               .bytes = size - CHOICES};
    struct srv_request request = {.id = "", .inputs = &input, .n_inputs = 1};
    base_arena_init(&request.arena, 4096, 1u << 22);
    if (is_tree) {
        check_trees(&texts, &request);
    } else {
        check_rows(&texts, &request, (choices & CHOICE_TIME_FIRST) != 0);
    }
    base_arena_release(&request.arena);
    return 0;
}
