/* A model's own settings: NAME/config.yaml in the repository, beside the version folders.
 *
 * The same YAML, value grammar and error messages as the server's file. Every key is optional, and
 * so is the file. */
#ifndef CONFIG_MODEL_CONFIG_H
#define CONFIG_MODEL_CONFIG_H

#include "base/buf.h"
#include "base/status.h"
#include "config/option.h"

#include <stdint.h>

/* X as in config/options.h. */
#define CFG_MODEL_OPTIONS(X)                                                                       \
    X(COUNT, max_sequence_length, "0", 0, 1 << 24, "N", LIMITS, ALL,                               \
      "Steps of the longest sequence; 0 = as the server's option of this name. Where a session's " \
      "steps attend to all before them, of all its requests together.")                            \
    X(WORD, weights, "fp32", 0, 0, "fp32|bf16|int8", DEVICES, ALL,                                 \
      "How recurrent weights are held, and what they multiply is rounded: fewer bits are faster, " \
      "and less exact.")                                                                           \
    X(WORD, linear_weights, "fp32", 0, 0, "fp32|bf16|int8", DEVICES, ALL,                          \
      "The same of the weights of MatMul, Gemm and Conv.")                                         \
    X(WORD, products, "fp32", 0, 0, "fp32|tf32|bf16|bf16x3", DEVICES, ALL,                         \
      "How a GPU multiplies: what it multiplies is rounded so, sums stay fp32; bf16x3 is nearly "  \
      "as exact as fp32. A CPU heeds weights alone.")                                              \
    X(WORD, unfold, "chain", 0, 0, "chain|tree|seq2seq|transducer|graph|plugin", LIMITS, ALL,      \
      "What a request becomes: chains of cells from model.onnx, a tree of those in leaf.onnx, "    \
      "node.onnx and root.onnx, a chain from encoder.onnx and then steps of decoder.onnx, or of "  \
      "a transducer's decoder.onnx and joiner.onnx, or, of the cells that are named, the graph "   \
      "that the client sends or that unfold.so makes.")                                            \
    X(PARTS, cells, "", 0, 0, "NAME,..", LIMITS, ALL,                                              \
      "graph, plugin: the cells, each from NAME.onnx; the order numbers them from 0. Needed.")     \
    X(TIME, unfold_deadline, "100ms", CFG_MS, CFG_HOUR, "TIME", LIMITS, ALL,                       \
      "plugin: how long unfold.so may take for a request.")                                        \
    X(ID, start, "none", 0, INT32_MAX, "ID", LIMITS, ALL,                                          \
      "seq2seq: the token before the first step; none: the client sends it, or the encoder; of a " \
      "transducer the blank.")                                                                     \
    X(ID, end, "none", 0, INT32_MAX, "ID", LIMITS, ALL,                                            \
      "seq2seq: the token that ends a sequence; it is not answered.")                              \
    X(COUNT, max_steps, "0", 0, 1 << 20, "N", LIMITS, ALL,                                         \
      "seq2seq: steps of the longest answer. Needed.")                                             \
    X(TENSOR, ctc, "", 0, 0, "OUTPUT", LIMITS, ALL,                                                \
      "chain: the output that has a number for each label at each step, of which the labels of "   \
      "the best path are answered in its place.")                                                  \
    X(COUNT, blank, "0", 0, INT32_MAX, "LABEL", LIMITS, ALL,                                       \
      "ctc, transducer: the label that means none.")                                               \
    X(COUNT, max_symbols, "10", 1, 1000, "N", LIMITS, ALL,                                         \
      "transducer: labels of one frame at most.")                                                  \
    X(COUNT, beam, "0", 0, 8, "N", LIMITS, ALL,                                                    \
      "seq2seq: hypotheses that a beam search over the output logits follows and answers; "        \
      "transducer: that the search follows, of which the best is answered (max-symbols: 1); 0: "   \
      "the "                                                                                       \
      "step chooses by itself.")                                                                   \
    X(DECIMAL, length_penalty, "1", 0, 10, "X", LIMITS, ALL,                                       \
      "seq2seq, transducer: what is found by a beam is compared by its score over its length to "  \
      "this power.")                                                                               \
    X(LAYERS, layers, "", 0, 0, "KIND:PREFIX,..", LIMITS, ALL,                                     \
      "Of model.safetensors: its layers in their order, and what the names of their tensors "      \
      "begin "                                                                                     \
      "with.")                                                                                     \
    X(VOCABULARIES, vocabularies, "", 0, 0, "TENSOR=HOW,..", LIMITS, ALL,                          \
      "Tensors of ids that clients send or get as text (BYTES): TENSOR=bytes, or "                 \
      "TENSOR=words:FILE, TENSOR=characters:FILE or TENSOR=bpe:FILE:CODES, a text an id a line; "  \
      "or "                                                                                        \
      "TENSOR=sentencepiece:FILE.")                                                                \
    X(CONSTANTS, constants, "", 0, 0, "TENSOR=NUMBER,..", LIMITS, ALL,                             \
      "Inputs that are this number in every request, and no client sends: what the model asks of " \
      "them it asks once, such as which of its parts is meant.")                                   \
    X(SHAPES, shapes, "", 0, 0, "TENSOR=SIZExSIZE,..", LIMITS, ALL,                                \
      "Sizes of inputs that the file leaves open; * where it stays open.")                         \
    X(STATES, states, "", 0, 0, "INPUT=OUTPUT,..", LIMITS, ALL,                                    \
      "What goes from one request of a session to the next, and no client sends: INPUT is what "   \
      "OUTPUT was; recurrent: the states of recurrent layers, and the steps that convolutions "    \
      "read and that others attend to.")                                                           \
    X(ID, text_start, "none", 0, INT32_MAX, "ID", LIMITS, ALL,                                     \
      "The id before those of each text that clients send.")                                       \
    X(ID, text_end, "none", 0, INT32_MAX, "ID", LIMITS, ALL,                                       \
      "The id behind those of each text that clients send.")                                       \
    X(ID, unknown, "none", 0, INT32_MAX, "ID", LIMITS, ALL,                                        \
      "The id of what stands in no vocabulary; none: a request with such a text is refused.")

struct cfg_model_config {
    uint32_t max_sequence_length;
    const char *weights, *linear_weights, *products, *unfold; /* one of their words each, forever */
    struct cfg_parts cells;                                   /* of a graph */
    uint64_t unfold_deadline;                                 /* ns */
    int64_t start, end;                                       /* or CFG_ID_NONE */
    uint32_t max_steps;
    struct cfg_tensor ctc; /* "": none */
    uint32_t blank, max_symbols, beam;
    double length_penalty;
    struct cfg_layers layers;
    struct cfg_vocabularies vocabularies;
    struct cfg_constants constants;
    struct cfg_shapes shapes;
    struct cfg_states states;
    int64_t text_start, text_end, unknown; /* or CFG_ID_NONE */
    struct cfg_tensor model_file;          /* of a config.pbtxt; "": as it is always called */
};

/* path: the file, which may be missing: then the defaults. INVALID_ARGUMENT as cfg_load();
 * RESOURCE_EXHAUSTED. Blocks. Nothing to release. */
enum base_status cfg_model_config_load(const char *path, struct cfg_model_config *out,
                                       struct base_error *error);

/* The same from memory; file names it in messages. */
enum base_status cfg_model_config_parse(const char *file, const void *bytes, size_t length,
                                        struct cfg_model_config *out, struct base_error *error);

#endif
