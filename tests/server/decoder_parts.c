/* See decoder_parts.h. The encoder is a GRU; the decoder a step of tanh, which may attend. */
#include "tests/server/decoder_parts.h"

#include "tests/server/parts.h"

#include <stdio.h>

static struct onnx_builder builder;
static struct base_random random_numbers;

const struct decoder_parts decoder_parts_whole = {
    .config = "unfold: seq2seq\nstart: 2\nend: 5\nmax-steps: 20\n",
    .encoder_output = "h",
    .token = "token",
    .token_next = "token_next",
    .h_next = "h_next",
    .logits = "logits",
    .decoder_hidden = DECODER_HIDDEN,
    .has_encoder = true,
};

static void constant(const char *name, int64_t rows, int64_t cols)
{
    parts_constant(&builder, &random_numbers, name, rows, cols);
}

/* Both directions of another GRU, side by side: memory [batch, time, 2 * DECODER_HIDDEN]. */
static void write_memory(void)
{
    const int64_t w[] = {2, 3 * DECODER_HIDDEN, DECODER_HIDDEN};
    const int64_t b[] = {2, 6 * DECODER_HIDDEN};
    const int64_t shape[] = {0, 0, 2 * DECODER_HIDDEN};
    onnx_constant(&builder, "w2", onnx_random(&builder, 3, w, &random_numbers, 0.5f));
    onnx_constant(&builder, "r2", onnx_random(&builder, 3, w, &random_numbers, 0.5f));
    onnx_constant(&builder, "b2", onnx_random(&builder, 2, b, &random_numbers, 0.5f));
    Onnx__NodeProto *gru = onnx_node(&builder, "GRU", "x w2 r2 b2", "y2");
    onnx_set_int(&builder, gru, "hidden_size", DECODER_HIDDEN);
    onnx_set_string(&builder, gru, "direction", "bidirectional");
    onnx_set_ints(&builder, onnx_node(&builder, "Transpose", "y2", "y2_turned"), "perm", 4,
                  (const int64_t[]){2, 0, 1, 3});
    onnx_constant(&builder, "shape", onnx_ints(&builder, 1, 3, shape));
    onnx_node(&builder, "Reshape", "y2_turned shape", "memory");
}

/* A GRU over words; what it has at its end, and a product of that. */
static void write_encoder(const char *version, const struct decoder_parts *parts)
{
    const int64_t dims[] = {-1, -1};
    const int64_t last[] = {1};
    char name[64];
    onnx_init(&builder, 17);
    onnx_input(&builder, "source", PARTS_INT64, 2, dims);
    constant("table", DECODER_WORDS, DECODER_HIDDEN);
    onnx_add_weights(&builder, "GRU", DECODER_HIDDEN, DECODER_HIDDEN, 3);
    constant("bridge", DECODER_HIDDEN, DECODER_HIDDEN);
    onnx_node(&builder, "Gather", "table source", "embedded");
    onnx_set_ints(&builder, onnx_node(&builder, "Transpose", "embedded", "x"), "perm", 3,
                  (const int64_t[]){1, 0, 2});
    onnx_set_int(&builder, onnx_node(&builder, "GRU", "x w r b", "y y_h"), "hidden_size",
                 DECODER_HIDDEN);
    onnx_constant(&builder, "zero", onnx_ints(&builder, 1, 1, (const int64_t[]){0}));
    onnx_constant(&builder, "one", onnx_ints(&builder, 1, 1, last));
    if (parts->attends) {
        write_memory();
    }
    if (parts->is_timed) {
        onnx_node(&builder, "Squeeze", "y one", "steps");
        onnx_set_ints(&builder, onnx_node(&builder, "Transpose", "steps", parts->encoder_output),
                      "perm", 3, (const int64_t[]){1, 0, 2});
    } else {
        onnx_node(&builder, "Squeeze", "y_h zero", parts->encoder_output);
    }
    snprintf(name, sizeof(name), "%s bridge", parts->encoder_output);
    onnx_node(&builder, "MatMul", name, "context");
    parts_output(&builder, parts->encoder_output);
    parts_output(&builder, "context");
    if (parts->attends) {
        parts_output(&builder, "memory");
    }
    parts_write(&builder, version, "encoder");
}

/* sum4 = sum3 + A attended, of memory by a query of h; not of token, so that it changes little. */
static void write_attention(void)
{
    const int64_t dims[] = {-1, -1, 2 * DECODER_HIDDEN};
    const float seven = 7.0f;
    onnx_constant(&builder, "seven", onnx_tensor(&builder, PARTS_FLOAT, 0, NULL, &seven, 4));
    onnx_input(&builder, "memory", PARTS_FLOAT, 3, dims);
    onnx_constant(&builder, "one", onnx_ints(&builder, 1, 1, (const int64_t[]){1}));
    onnx_constant(&builder, "two", onnx_ints(&builder, 1, 1, (const int64_t[]){2}));
    constant("to_query", DECODER_HIDDEN, 2 * DECODER_HIDDEN);
    constant("from_attended", 2 * DECODER_HIDDEN, DECODER_HIDDEN);
    onnx_node(&builder, "MatMul", "h to_query", "query");
    onnx_node(&builder, "Unsqueeze", "query two", "column");
    onnx_node(&builder, "MatMul", "memory column", "products");
    onnx_node(&builder, "Squeeze", "products two", "unscaled");
    onnx_node(&builder, "Div", "unscaled seven", "scores"); // about the root of the width
    onnx_set_int(&builder, onnx_node(&builder, "Softmax", "scores", "weights"), "axis", 1);
    onnx_node(&builder, "Unsqueeze", "weights one", "line");
    onnx_node(&builder, "MatMul", "line memory", "attended3");
    onnx_node(&builder, "Squeeze", "attended3 one", "attended");
    onnx_node(&builder, "MatMul", "attended from_attended", "of_memory");
    onnx_node(&builder, "Add", "sum3 of_memory", "sum4");
}

/* h' = tanh(table[token] + h U + context V + style S), s' = tanh(s + h'), logits = (h' + s') O. */
static void write_decoder(const char *version, const struct decoder_parts *parts)
{
    const int64_t hidden = parts->decoder_hidden;
    const int32_t ids = parts->is_narrow ? PARTS_INT32 : PARTS_INT64;
    char name[64];
    onnx_init(&builder, 17);
    parts_input(&builder, parts->token, ids, 0);
    parts_input(&builder, "h", PARTS_FLOAT, hidden);
    parts_input(&builder, "s", PARTS_FLOAT, hidden);
    parts_input(&builder, "context", PARTS_FLOAT, DECODER_HIDDEN);
    parts_input(&builder, "style", PARTS_FLOAT, DECODER_STYLE);
    constant("table", DECODER_IDS, hidden);
    constant("u", hidden, hidden);
    constant("v", DECODER_HIDDEN, hidden);
    constant("t", DECODER_STYLE, hidden);
    constant("o", hidden, DECODER_IDS);
    snprintf(name, sizeof(name), "table %s", parts->token);
    if (parts->is_token_unread) {
        constant("fixed", 1, hidden);
        onnx_node(&builder, "Identity", "fixed", "x");
    } else {
        onnx_node(&builder, "Gather", name, "x");
    }
    onnx_node(&builder, "MatMul", "h u", "of_h");
    onnx_node(&builder, "MatMul", "context v", "of_context");
    onnx_node(&builder, "MatMul", "style t", "of_style");
    onnx_node(&builder, "Add", "x of_h", "sum");
    onnx_node(&builder, "Add", "sum of_context", "sum2");
    onnx_node(&builder, "Add", "sum2 of_style", "sum3");
    if (parts->attends) {
        write_attention();
    }
    onnx_node(&builder, "Tanh", parts->attends ? "sum4" : "sum3", parts->h_next);
    snprintf(name, sizeof(name), "s %s", parts->h_next);
    onnx_node(&builder, "Add", name, "s_sum");
    onnx_node(&builder, "Tanh", "s_sum", "s_next");
    snprintf(name, sizeof(name), "s_next %s", parts->h_next);
    onnx_node(&builder, "Add", name, "both");
    onnx_node(&builder, "MatMul", "both o", parts->logits);
    Onnx__NodeProto *largest =
        onnx_node(&builder, "ArgMax", parts->logits, parts->is_narrow ? "id" : parts->token_next);
    onnx_set_int(&builder, largest, "axis", 1);
    onnx_set_int(&builder, largest, "keepdims", 0);
    if (parts->is_narrow) {
        onnx_set_int(&builder, onnx_node(&builder, "Cast", "id", parts->token_next), "to",
                     PARTS_INT32);
    }
    parts_output(&builder, parts->token_next);
    parts_output(&builder, parts->h_next);
    parts_output(&builder, "s_next");
    parts_output(&builder, parts->logits);
    parts_write(&builder, version, "decoder");
}

void decoder_parts_write(const char *folder, const char *name, const struct decoder_parts *parts,
                         char version[UTIL_PATH_BYTES])
{
    base_random_init(&random_numbers,
                     1); // the same model whatever the seed: it has to end and not to
    parts_folder(folder, name, parts->config, version);
    if (parts->has_encoder) {
        write_encoder(version, parts);
    }
    write_decoder(version, parts);
}
