/* A model: named tensors outside, cells inside, and how they are wired for sequences, a tree or a
 * graph.
 *
 * An imported model is a short program of *stages*. A stage is one cell type used once per request
 * (ONCE), once per time step with no memory (EACH), once per time step with state (CHAIN), or with
 * state until it ends (DECODER). The unfold program `chain` (scheduler/unfold.h) turns stages and a
 * request's tensors into a cell graph; each row of the batch axis is a chain of its own. Immutable
 * after load. */
#ifndef CELLS_MODEL_H
#define CELLS_MODEL_H

#include "base/divide.h"
#include "cells/batch.h"
#include "cells/type.h"

#define CELL_RANK_MAX    8u
#define CELL_TENSORS_MAX 256u
#define CELL_STAGES_MAX  256u
#define CELL_NAME_BYTES  128u
#define CELL_PIECES_MAX  16u /* of a row: layers times directions */

#define CELL_ID_BOUNDS_MAX 64u /* elements of a row of which some are ids, of several tables */

/* Time axes of a model that differ in length: a reader has a document and a question, and a
 * convolution with strides leaves fewer steps than it reads. */
#define CELL_SEQUENCES_MAX  32u
#define CELL_MEMORIES_MAX   64u
#define CELL_JOINS_MAX      16u
#define CELL_JOIN_PARTS_MAX 16u
#define CELL_WINDOW_MAX     4096u /* steps from the first to the last that a step reads; a stride */

/* How elements come and go of which cells see floats: one byte each, false and true as 0 and 1; or
 * two, halves of IEEE 754 (f16.h) and brain floats (bf16.h); or eight, doubles. OWN: as cells see
 * them. */
enum cell_form {
    CELL_FORM_OWN,
    CELL_FORM_BOOL,
    CELL_FORM_U8,
    CELL_FORM_I8,
    CELL_FORM_F16,
    CELL_FORM_BF16,
    CELL_FORM_F64,
};

/* A dimension that each request chooses. */
#define CELL_DIM_ANY (-1)

/* What an integer tells of steps: it and `add` more, and where `over` is more than 1, over that,
 * rounded down, as strides leave them, of no integer below `least`. */
struct cell_told {
    int32_t add;
    uint32_t over;
    int32_t least;
};

static inline int64_t cell_told(struct cell_told told, int64_t said)
{
    return base_floor_divide(said + told.add, told.over > 1 ? told.over : 1);
}

/* The least integer that tells so much, or more. */
static inline int64_t cell_telling(struct cell_told told, int64_t number)
{
    const int64_t said = number * (told.over > 1 ? told.over : 1) - told.add;
    return told.over > 1 && said < told.least ? told.least : said;
}

/* An input or output tensor. Its rows lie at [batch b, step t]; the other axes, flattened, are the
 * row. It is contiguous, or where one of these axes stands before batch or time (the directions or
 * layers of states), as many contiguous pieces of the same width as that axis is long. Where such
 * pieces would be many or short (the channels before the steps), the tensor is turned: whoever
 * unfolds a request of the model hands over rows [batch][time][width], and gets such. */
struct cell_tensor {
    char name[CELL_NAME_BYTES];
    enum cell_dtype dtype;
    enum cell_form form; /* whoever unfolds a request of the model makes floats of an input, and of
                            an output's floats what goes out */
    uint32_t rank;
    int64_t dims[CELL_RANK_MAX]; /* CELL_DIM_ANY on the batch and time axes */
    int32_t batch_axis;          /* -1: none, every request is one row */
    int32_t time_axis;           /* -1: one row per chain */
    uint32_t sequence;           /* whose steps the time axis, is_lengths, or is_step has */
    int32_t piece_axis;          /* -1: pieces, if there are several, lie next to each other */
    uint32_t pieces;             /* >= 1 */
    bool is_turned;              /* features stand before batch or time, and are no pieces */
    uint32_t width;              /* elements in a row, all pieces together */
    int64_t id_bound; /* > 0: values must be 0..id_bound-1 (they index an embedding table; of floats
                         what is left when they are cut to integers) */
    bool ids_below_zero;  /* with id_bound: values below 0 too, which the model cuts to others */
    uint32_t n_id_bounds; /* 0, or width: element k of each row has a bound of its own, which
                             stands last in the tensor; id_bound is 0 then */
    int64_t id_bounds[CELL_ID_BOUNDS_MAX]; /* 0: any value */
    bool optional;                         /* may be left out: reads as zeros */
    bool is_step; /* input of integers: what each tells, not below 0 where step_is_clipped, and
                     the last one where it would be behind that and step_is_ended, is the number of
                     a step of `sequence`, which there must be */
    bool step_is_clipped, step_is_ended;
    bool is_lengths;       /* input [batch]: what each tells are its row's steps of its sequence
                              (sequence_lens), which may be fewer than the axis has; outputs past them are
                              zeros */
    struct cell_told told; /* of either */
};

/* Ids of any element of the tensor are below this; 0: it holds none. */
int64_t cell_tensor_ids_below(const struct cell_tensor *tensor);

/* Of element number i of the tensor, counted as it lies; 0: any value. */
static inline int64_t cell_tensor_id_bound(const struct cell_tensor *tensor, size_t i)
{
    return tensor->n_id_bounds > 0 ? tensor->id_bounds[i % tensor->n_id_bounds] : tensor->id_bound;
}

/* Place of the tensor of that name; n: there is none. */
uint32_t cell_tensor_find(const struct cell_tensor *tensors, uint32_t n, const char *name);

enum cell_source_kind {
    CELL_SOURCE_ZERO,
    CELL_SOURCE_INPUT,      /* model input `index`: piece `piece` of its row at this step, or of its
                               only row */
    CELL_SOURCE_EACH,       /* output `index` of stage `stage` at the same step */
    CELL_SOURCE_FIRST,      /* output `index` of stage `stage` at the first step of the sequence, */
    CELL_SOURCE_LAST,       /* and at the last one */
    CELL_SOURCE_LAST_STATE, /* state `index` of stage `stage` when all its steps are done */
    CELL_SOURCE_CHILD,      /* of a tree: value `index` of child `piece`; of a root: its own */
    CELL_SOURCE_START,      /* of a decoder's token: decoder.start */
    CELL_SOURCE_MEMORY, /* all rows of memories[index]; of each `count` elements from `offset` on,
                           count 0: all */
    CELL_SOURCE_JOIN,   /* joins[index] at the same step */
    CELL_SOURCE_NUMBER, /* the number of the step, an int64: of the sequence from 0 on, or with
                           index CELL_NUMBER_ATTENDED of the rows that the stage attends to */
    CELL_SOURCE_TAKEN,  /* of an output, which no cell makes: the steps that a decoder has taken
                           before its end, what a beam search has found (CELL_BEAM_..), or the
                           labels that steps come to (CELL_LABELS_..) */
    CELL_SOURCE_KEPT,   /* of an output, which no cell makes either: what histories[index] keeps, */
    CELL_SOURCE_COUNT,  /* or how many steps the session has had */
};

/* Both are the same but in a session, which does not hand over what is long past. */
enum { CELL_NUMBER_OF_SEQUENCE, CELL_NUMBER_ATTENDED };

/* An INPUT, an EACH or a JOIN of one sequence may be a window: `count` rows behind each other, as
 * one, at step t of the reader from that of the step t * stride + offset on; beyond the ends zeros.
 * count 0: the row of the step itself, of the reader's own sequence. A row may be parted: then
 * these are parts of rows, which lie behind each other as rows do, and none is beyond the ends. */
struct cell_source {
    enum cell_source_kind kind;
    uint32_t stage, index, piece;
    int32_t offset;
    uint32_t count, stride;
    uint32_t parts;   /* EACH: of a row; 0: rows are whole */
    uint32_t by;      /* a window of a stage of kind ONCE: 0, or its step is what model input by - 1
                         says, plus offset, */
    bool is_clipped;  /* and not below 0, */
    bool is_ended;    /* and not behind the last step */
    bool is_from_end; /* offset counts from behind the last step of what is read: below 0 */
    bool or_start;    /* an INPUT that is left out: decoder.start */
};

/* Whether it is an output of a stage, or a state of one. */
static inline bool cell_source_is_of_stage(const struct cell_source *source)
{
    return source->kind == CELL_SOURCE_EACH || source->kind == CELL_SOURCE_FIRST ||
           source->kind == CELL_SOURCE_LAST || source->kind == CELL_SOURCE_LAST_STATE;
}

/* Of each row that is read; 1: rows are whole. */
static inline uint32_t cell_source_parts(const struct cell_source *source)
{
    return source->parts > 0 ? source->parts : 1;
}

/* A time axis. Its rows are as long as the request says, or as follows from how long they are in
 * another sequence, with a smaller number: where that has n steps, of so many parts each, this has
 * (n * parts + add) / stride + 1, rounded down, or none where that is below 1; or `kept`, or none
 * where n * parts + add is below 0. */
struct cell_sequence {
    uint32_t stride; /* 0: the request says, and the next two mean nothing */
    int32_t add;
    uint32_t source;
    uint32_t parts;  /* a transposed convolution makes such steps; 0: as 1 */
    uint32_t kept;   /* some of the source's first or last steps; stride is 1 */
    uint32_t stated; /* stride 0: as many in every request, for the file says so; 0: any number */
    uint32_t steps_max; /* what a table of positions has a row for; 0: any number */
    uint32_t multiple;  /* what divides it, since steps are parted so; 0: anything may */
    uint32_t steps_min; /* what steps that are taken by their number ask for; 0: any number */
    bool may_be_empty;  /* only joins read it, of which it then is no part, or nobody does */
};

/* Whether so many steps are enough of it, of so many of its source; those mean nothing where it has
 * none. None are enough of what may be empty, unless the source has too few for that, too. */
bool cell_sequence_is_met(const struct cell_sequence *sequence, uint32_t source_steps,
                          uint32_t steps);

/* Steps here of each of the source's. */
uint32_t cell_sequence_parts(const struct cell_sequence *sequence);
/* Steps of a sequence that follows from another, which has so many. */
uint32_t cell_sequence_steps(const struct cell_sequence *sequence, uint32_t source_steps);

enum cell_stage_kind { CELL_STAGE_ONCE, CELL_STAGE_EACH, CELL_STAGE_CHAIN, CELL_STAGE_DECODER };

struct cell_stage {
    const struct cell_type *type;
    enum cell_stage_kind kind;
    bool is_reverse;   /* CHAIN: takes the steps of the sequence from the last to the first */
    bool is_shared;    /* reads nothing that has a batch axis: once for all rows of a request */
    uint32_t sequence; /* EACH, CHAIN: whose steps it takes */
    struct cell_source inputs[CELL_INPUTS_MAX]; /* earlier stages only */
    struct cell_source init[CELL_STATES_MAX];   /* CHAIN, DECODER: the state before step 0 */
    /* CHAIN: the model input, plus 1, which is that in a session that has begun; 0: init is, or
     * names the input itself. */
    uint32_t resumes[CELL_STATES_MAX];
};

/* "once", "at each step", "chain", "chain, backwards" or "decoder"; static. */
const char *cell_stage_kind_name(const struct cell_stage *stage);

/* How a request is unfolded (scheduler/unfold.h): SEQ2SEQ as CHAIN, with a decoder behind. A model
 * that is loaded as TRANSDUCER is then one of SEQ2SEQ. */
enum cell_unfold {
    CELL_UNFOLD_CHAIN,
    CELL_UNFOLD_TREE,
    CELL_UNFOLD_SEQ2SEQ,
    CELL_UNFOLD_GRAPH,
    CELL_UNFOLD_PLUGIN,
    CELL_UNFOLD_TRANSDUCER,
};

/* Of "chain", "tree", "seq2seq", "graph", "plugin" or "transducer"; INVALID_ARGUMENT for another
 * word. */
enum base_status cell_unfold_find(const char *name, enum cell_unfold *out,
                                  struct base_error *error);

/* The cells of a tree, stages of kind ONCE. */
enum { CELL_TREE_LEAF, CELL_TREE_NODE, CELL_TREE_ROOT };

/* What a node gets from its children are values that their cells, leaf or node, hand up. Inputs of
 * the model: first those of leaves, one row a leaf; then those of
 * inner nodes, one row a node; then the nodes' children. */
struct cell_tree {
    uint32_t n_children; /* of an inner node, at most; 1..CELL_CHILDREN_MAX */
    uint32_t n_values;
    uint32_t outputs[2][CELL_OUTPUTS_MAX]; /* of leaf and node: the cell's output that value v is */
    uint32_t n_leaf_inputs, n_node_inputs;
    uint32_t children_input; /* [inner nodes, n_children] of int64: numbers of leaves and nodes */
    bool has_root;           /* stage CELL_TREE_ROOT makes the outputs, else a root's cell does */
};

/* The separator of a cell's name from that of its tensor. */
#define CELL_GRAPH_SEPARATOR "."

/* A cell of a graph, a stage of kind ONCE. Its inputs and outputs are numbered as in its file; here
 * are the first of them among those of all cells. */
struct cell_graph_cell {
    char name[CELL_NAME_BYTES];
    uint32_t first_input, n_inputs, first_output, n_outputs;
};

/* The cells of a graph, by stage. An input has one value a node: an output of another node, of the
 * same type and width, or a row of the request. A stage's inputs are CELL_SOURCE_INPUT with the
 * number of the cell's input as index. */
struct cell_graph {
    uint32_t n_inputs, n_outputs; /* of all cells together */
    struct cell_graph_cell cells[CELL_STAGES_MAX];
    /* Called CELL.TENSOR, rows on the first axis; inputs are optional. */
    struct cell_tensor inputs[CELL_TENSORS_MAX], outputs[CELL_TENSORS_MAX];
    uint32_t results[CELL_TENSORS_MAX]; /* by output: the cell's output that it is */
    /* Of CELL_UNFOLD_GRAPH. Inputs of the model: which cell each node is, INT64 [nodes]; INT64
     * [edges, CELL_EDGE_NUMBERS]; behind them all of inputs. Outputs of the model are outputs. */
    uint32_t cells_input, edges_input;
};

/* Of an edge: a node, the number of an output of its cell, the node that reads it, and the number
 * of an input of that one's cell. */
enum { CELL_EDGE_FROM, CELL_EDGE_OUTPUT, CELL_EDGE_TO, CELL_EDGE_INPUT, CELL_EDGE_NUMBERS };

/* Whether an edge may lead from the output to the input. */
bool cell_graph_fits(const struct cell_tensor *output, const struct cell_tensor *input);

/* The state of a decoder that is an id, and the output that answers its ids. */
#define CELL_TOKEN "token"

/* The output of a decoder, a number for each id, that a beam chooses by. */
#define CELL_LOGITS "logits"

#define CELL_DECODER_STEPS_MAX (1u << 20)

/* How a decoder begins and ends. */
struct cell_decoding {
    bool has_start, has_end;
    int64_t start, end;   /* ids */
    uint32_t steps_max;   /* 1..CELL_DECODER_STEPS_MAX */
    uint32_t beam_width;  /* 1..CELL_BEAM_MAX: beam search over CELL_LOGITS; 0: the step chooses */
    float length_penalty; /* of a beam: scores are compared over length ^ this */
    // Of a transducer, which needs no end and no steps_max:
    int64_t blank;        /* the label that means none; start without has_start */
    uint32_t symbols_max; /* labels of a frame at most, 1..CELL_SYMBOLS_MAX */
};

#define CELL_SYMBOLS_MAX 1000u
#define CELL_CONTEXT_MAX 8u /* labels that a transducer's predictor reads at once */

/* Of a beam search, each hypothesis a row, the best first: ids [batch, width, steps], the sums of
 * the logarithms of their probabilities [batch, width], and how many ids there are [batch, width];
 * a row without that many hypotheses has scores of -Inf. */
enum { CELL_BEAM_TOKENS, CELL_BEAM_SCORES, CELL_BEAM_LENGTHS, CELL_BEAM_OUTPUTS };

/* What a cell attends to: rows, as many as its sequence has steps, each of pieces side by side: a
 * model input, or outputs of stages at each step, all or none of which are shared. */
struct cell_memory {
    uint32_t width, pieces, sequence;
    struct cell_source sources[CELL_PIECES_MAX];
};

/* Of a join: each step of a stage (EACH) or of a model input, the last one first where it is turned
 * round; or `count` steps that lie behind each other in one row, of a stage of kind ONCE or of an
 * input without steps. */
struct cell_join_part {
    struct cell_source source;
    uint32_t count; /* 0: of what has steps */
    bool is_turned; /* of what has steps */
};

/* Steps of several sequences one behind the other, as those of one: `sequence`, which has as many
 * as all parts together, or fewer where a request says how long its rows are. All parts are of
 * `width` float32 a step, and their stages are all shared or none is. */
struct cell_join {
    uint32_t width, sequence, n_parts;
    bool is_shared;
    struct cell_join_part parts[CELL_JOIN_PARTS_MAX];
};

/* The last stage of a SEQ2SEQ model. Outputs of the model are its outputs, a row a step, but the
 * last, [batch] of int64: the steps that each row took, without that of its end id. */
struct cell_decoder {
    uint32_t stage;
    uint32_t sequence; /* of its outputs: behind those of the encoder */
    uint32_t steps_max;
    uint32_t steps_each; /* of a transducer, for each frame at most; 0: it is none */
    bool has_end;
    struct cell_end end;
    uint32_t token_output;               /* of the model; CELL_TENSORS_MAX: it has no token */
    uint8_t start[8 * CELL_CONTEXT_MAX]; /* elements of the token's dtype: one, or a transducer's */
    /* Beam search: width 0: none. Outputs of the model are then CELL_BEAM_OUTPUTS; a transducer's
     * are its labels, as without. token: UINT32_MAX of a transducer. */
    uint32_t beam_width, token, logits, ids; /* state, output of the stage, its width */
    float length_penalty;
    uint32_t label_state, held_state, context; /* of a transducer: as in cell_beam_labels */
};

/* Labels that steps come to, at most one each: by connectionist temporal classification (CTC;
 * Graves, Fernandez, Gomez, Schmidhuber, ICML 2006), where a model of sequences gives each step a
 * number for every label and one for none, the blank, and the labels of a row are the largest of
 * each step, of a run of equal ones the first, without blanks; or by a transducer's decoder
 * (cells/transducer.h). Of each label its id, the number that it had there, and that step; and how
 * many there are. [batch, labels], and [batch] of the last. They stand behind all other outputs. As
 * cells write them tokens, scores, and a transducer's steps, are of each step. */
enum {
    CELL_LABELS_TOKENS,
    CELL_LABELS_SCORES,
    CELL_LABELS_STEPS,
    CELL_LABELS_LENGTHS,
    CELL_LABELS_OUTPUTS
};

struct cell_labels {
    bool is_on;
    bool is_ctc;       /* else of a transducer */
    uint32_t first;    /* of these outputs, */
    uint32_t sequence; /* and theirs: at most as many as steps of what they are made of */
    int64_t blank;
    uint32_t n_ids;      /* with the blank */
    uint32_t frames;     /* of a transducer: the sequence that it goes through */
    int64_t id_bound;    /* what it looks up: ids below, or 0 */
    bool ids_below_zero; /* as of a tensor */
    bool has_last; /* of CTC with sessions: these are the label of a row's last step, and 1; */
    uint32_t last_input, last_output; /* [batch] of int64, 0 before the first step */
};

/* Such an output, of batches of so many rows, or CELL_DIM_ANY; 0: the model has no batch axis. */
struct cell_tensor cell_labels_tensor(uint32_t output, int64_t batch);

/* Which of a model's outputs has CTC's numbers. */
struct cell_ctc_of {
    const char *output;
    int64_t blank;
};

/* A layer of a model whose tensors are a safetensors file (docs/safetensors.md): what it is, and
 * what the names of its tensors begin with; "" where they stand alone, or it has none. */
struct cell_layer {
    const char *kind, *prefix;
};

/* In the order in which they follow each other. */
struct cell_layers {
    uint32_t n;
    const struct cell_layer *items;
};

/* What the user knows of an input, and the file does not say: the number that each of its elements
 * is in every request, so that it is no input; or sizes of its axes. */
struct cell_known_input {
    const char *name;
    bool is_constant;
    double number;
    uint32_t rank;
    int64_t dims[CELL_RANK_MAX]; /* or CELL_DIM_ANY: as the file says */
};

struct cell_known_inputs {
    uint32_t n;
    const struct cell_known_input *items;
};

struct cell_model_options {
    enum cell_precision precision;        /* of its recurrent weights */
    enum cell_precision linear_precision; /* of those of LINEAR: MatMul, Gemm, Conv */
    enum cell_products products;
    /* The file is safetensors, and these are the layers of a whole model; NULL: it is ONNX. Only
     * read during the call. */
    const struct cell_layers *layers;
    /* Of a whole model or the encoder of one; NULL: nothing is known. Only read during the call. */
    const struct cell_known_inputs *known;
    struct cell_decoding decoding; /* of SEQ2SEQ */
    /* Of a whole model; NULL: none. Only read during the call. */
    const struct cell_ctc_of *ctc;
    /* A part of a model: rows in, rows out, on the first axis of each tensor; a recurrent node in
     * it has one step. It becomes one ONCE stage. */
    bool is_part;
    /* With is_part: its outputs called like an input with "_next" behind it are that input's value
     * at the next step. It becomes one DECODER stage. */
    bool feeds_back;
    bool may_feed_none; /* with feeds_back: there need be no such output */
    /* For measurements: cells in small operators are not recognised, and cell_def.as_written. */
    bool as_written;
};

/* Of a session, which is a sequence in several requests: what this output was in one of them, this
 * input is in the next. Both are of one type and shape, without a time axis; the input is optional.
 */
struct cell_model_state {
    uint32_t input, output;
    bool or_start; /* before the first of them it is decoder.start, in place of zeros */
    bool is_made;  /* or what a stage of kind ONCE makes, also of a row that has no step yet */
};

/* What windows of a session's requests read of steps that were in earlier ones: the last `steps`
 * rows, the oldest first, of a model input or of what a stage makes at each step. They are an input
 * and an output of the model, [batch, steps, width]; an input that is left out is zeros, as all is
 * before a sequence begins. */
struct cell_history {
    struct cell_source source; /* INPUT or EACH: which rows */
    uint32_t steps, width;
    uint32_t input, output;
};

/* Of a stage that attends to steps of the sequence: of those beside its own from so many before, 0
 * or less, up to so many behind, 0 or more. Or beside the first step of the chunk that its own is
 * in, of so many steps: from_chunk, to_chunk; 1: its own. Where either is a chunk from_chunk is,
 * and `from` are whole chunks, so that those of the rows that are handed over are the session's. */
struct cell_attended {
    bool is_on;
    uint32_t from_chunk, to_chunk;
    int64_t from, to;
};
#define CELL_ATTENDED_ALL INT32_MIN /* from: all before */
/* The first row that step t attends to; below 0: before all. */
static inline int64_t cell_attended_first(const struct cell_attended *attended, int64_t t)
{
    return t - t % attended->from_chunk + attended->from;
}

/* Of a model whose stages read beside their own steps, or count them, in a session: a stage takes
 * the steps for which all is there that they read, and at the end of the session the others, behind
 * which there are zeros, or nothing that is attended to, as in the whole (cell_stream_steps()). So
 * a convolution that reads ahead answers so many steps later, and one with strides when a window is
 * full. What is attended to is handed over from the first row on that any step of the request
 * needs. */
struct cell_stream {
    bool is_on;
    uint32_t base; /* the sequence that requests have, which all others follow from */
    bool counts;   /* what a stage takes or reads depends on how many steps the session has had:
                      these are an input and an output of the model, [batch] of int64; left out:
                      none */
    uint32_t count_input, count_output;
    bool is_answered[CELL_STAGES_MAX]; /* step by step; an output that comes at other times than
                                          another of its sequence has a sequence of its own */
    bool has_last[CELL_STAGES_MAX]; /* its last step is read, so that a request must leave it one */
    struct cell_attended attends[CELL_STAGES_MAX];
    uint32_t steps_max; /* of a session, for what attends to all earlier steps; 0: any number */
};

#define CELL_STREAM_STEPS_MAX ((int64_t)1 << 40) /* of a session */

/* States under the names of their tensors. */
struct cell_kept_state {
    const char *input, *output;
};

struct cell_kept_states {
    bool recurrent; /* those of all chains too that begin with zeros, and what windows read */
    uint32_t n;
    const struct cell_kept_state *items;
    /* Of a sequence in all its requests at most, where cells attend to all earlier steps; 0: any
     * number, and such cells are refused. */
    uint32_t steps_max;
};

struct cell_model {
    enum cell_unfold unfold;
    struct cell_tree tree;       /* of CELL_UNFOLD_TREE */
    struct cell_decoder decoder; /* of CELL_UNFOLD_SEQ2SEQ */
    struct cell_labels labels;
    struct cell_graph graph; /* of CELL_UNFOLD_GRAPH and CELL_UNFOLD_PLUGIN */
    uint32_t n_inputs, n_outputs, n_stages, n_sequences, n_memories, n_joins;
    struct cell_sequence sequences[CELL_SEQUENCES_MAX];
    uint32_t reach; /* of all windows: the most steps beyond either end of a sequence */
    struct cell_tensor inputs[CELL_TENSORS_MAX];
    struct cell_tensor outputs[CELL_TENSORS_MAX];
    /* Of each piece; EACH where the output has a time axis. */
    struct cell_source output_sources[CELL_TENSORS_MAX][CELL_PIECES_MAX];
    struct cell_stage stages[CELL_STAGES_MAX];
    struct cell_memory memories[CELL_MEMORIES_MAX];
    struct cell_join joins[CELL_JOINS_MAX];
    uint32_t n_states; /* that a session keeps; 0: the model has no sessions */
    struct cell_model_state states[CELL_TENSORS_MAX];
    uint32_t n_histories; /* among the states */
    struct cell_history histories[CELL_TENSORS_MAX];
    struct cell_stream stream;
    struct cell_model_options options; /* as it was loaded */
    char producer[64];                 /* as the file states it, such as "pytorch 2.1.0" */
    uint64_t file_bytes;               /* of all files that were read */
};

/* The bytes of a model file; read while it is parsed, not kept. */
struct cell_model_file {
    const void *bytes;
    size_t length;
    const char *folder; /* where its weights lie that are in files beside it; NULL: it has none */
};

/* protobuf's own limit for a message; of a model file and those beside it together. */
#define CELL_MODEL_BYTES_MAX ((size_t)INT32_MAX)

/* The whole model file is read, and those beside it that its weights lie in (ONNX: external data);
 * nothing in it is trusted (docs/model-files.md). A model of layers
 * has one input, "input", and one output, "output". On success *out is freed with
 * cell_model_free(), which gives back its types. label names its cells in metrics; options: NULL
 * for ONNX in fp32.
 * NOT_FOUND, INVALID_ARGUMENT (what and where), UNIMPLEMENTED (operator, node, opset),
 * RESOURCE_EXHAUSTED (file over the budget), UNAVAILABLE (cannot be read, or a file beside it is
 * missing). Loop thread. */
enum base_status cell_model_load(struct cell_registry *registry, const char *path,
                                 const char *label, const struct cell_model_options *options,
                                 struct cell_model **out, struct base_error *error);
/* The same from memory: bytes are only read during the call. */
enum base_status cell_model_parse(struct cell_registry *registry, struct cell_model_file file,
                                  const char *label, const struct cell_model_options *options,
                                  struct cell_model **out, struct base_error *error);
/* Gives a model of sequences, which has none yet, the states that a session keeps. Those of chains,
 * and what windows read of earlier steps, become inputs and outputs called "state.0" and so on.
 * INVALID_ARGUMENT: no such tensors, or not alike; UNIMPLEMENTED: a sequence in parts would not
 * give what it gives as a whole, and why. The model may then be half changed: it is to be freed. */
enum base_status cell_model_keep_states(struct cell_model *model,
                                        const struct cell_kept_states *kept,
                                        struct base_error *error);
/* Of a model with a stream: how many steps each stage has taken when the session has had `given`;
 * is_end: and is over. 0 for stages without steps. */
void cell_stream_steps(const struct cell_model *model, int64_t given, bool is_end,
                       int64_t steps[CELL_STAGES_MAX]);
/* Of a session that is over: the first sequence of which so many steps leave too few, or some that
 * are not parted evenly, as a whole of so many would; CELL_SEQUENCES_MAX: none. */
uint32_t cell_stream_unmet(const struct cell_model *model, int64_t given);
/* The first sequence of which a session that has had `given` steps has more than a table of
 * positions has rows; CELL_SEQUENCES_MAX: none. */
uint32_t cell_stream_over(const struct cell_model *model, int64_t given);
/* The history of these rows, of an INPUT or an EACH; NULL: no session keeps any. */
const struct cell_history *cell_model_history(const struct cell_model *model,
                                              const struct cell_source *source);
/* Steps of every sequence of the model where each that the request may choose has `given`. */
void cell_model_steps(const struct cell_model *model, uint32_t given,
                      uint32_t steps[CELL_SEQUENCES_MAX]);
/* Whether cells of the stage may have to wait for others of it: it has a state, or reads what it
 * has made. Of others a request has all cells at once. */
bool cell_model_recurs(const struct cell_model *model, uint32_t stage);

/* The fewest of every sequence that leave a step of each that follows from it; what the file states
 * of those, 1 of others. */
void cell_model_steps_min(const struct cell_model *model, uint32_t steps[CELL_SEQUENCES_MAX]);
void cell_model_free(struct cell_registry *registry, struct cell_model *model);

/* The parts of a tree model in `folder`, which is read as cell_model_load() reads a file. leaf.onnx
 * makes a leaf's values, such as h and c, of what the leaf has. node.onnx makes an inner node's,
 * under the same names, of its children's, named h_0, c_0, h_1, c_1, .., and of what else the node
 * has. root.onnx, which may be missing, makes the outputs of the model of a root's values. Errors
 * name the part; options->is_part is not looked at. */
enum base_status cell_model_load_tree(struct cell_registry *registry, const char *folder,
                                      const char *label, const struct cell_model_options *options,
                                      struct cell_model **out, struct base_error *error);

/* Parts in a folder, each NAME.onnx. */
struct cell_parts {
    const char *folder;
    uint32_t n; /* 1..CELL_STAGES_MAX */
    const char *names[CELL_STAGES_MAX];
};

/* The cells of a graph, each from a file that is read as cell_model_load() reads one, with the rows
 * of nodes on the first axis of all of its tensors. Errors name the part; options->is_part is not
 * looked at. */
enum base_status cell_model_load_graph(struct cell_registry *registry,
                                       const struct cell_parts *parts, const char *label,
                                       const struct cell_model_options *options,
                                       struct cell_model **out, struct base_error *error);

/* The same, for requests that somebody else turns into graphs: the model has no tensors yet. */
enum base_status cell_model_load_cells(struct cell_registry *registry,
                                       const struct cell_parts *parts, const char *label,
                                       const struct cell_model_options *options,
                                       struct cell_model **out, struct base_error *error);

/* The parts of a sequence-to-sequence model in `folder`. encoder.onnx, which may be missing, is a
 * model as cell_model_load() reads it. decoder.onnx is one step: of its outputs each that is called
 * like an input with "_next" behind it is that input at the next step; of "token" options->decoding
 * tells the first and the last id. Other inputs, and the states before the first step, are outputs
 * of the encoder by the same names, or inputs of the model (a state may be left out). Errors name
 * the part. */
enum base_status cell_model_load_decoder(struct cell_registry *registry, const char *folder,
                                         const char *label,
                                         const struct cell_model_options *options,
                                         struct cell_model **out, struct base_error *error);

/* The parts of a transducer in `folder`. encoder.onnx is a model as cell_model_load() reads it, of
 * which some outputs have a row for each frame. decoder.onnx, the prediction network, makes
 * rows of the last labels, its only integers, and of states, which are outputs called like an input
 * with "_next" behind it. joiner.onnx makes a logit for each label of what both make, by the names
 * of their outputs. options->decoding tells the blank, what comes before the first label, and how
 * many labels a frame may have. Errors name the part. */
enum base_status cell_model_load_transducer(struct cell_registry *registry, const char *folder,
                                            const char *label,
                                            const struct cell_model_options *options,
                                            struct cell_model **out, struct base_error *error);

#endif
