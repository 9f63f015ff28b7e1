/* A CHAIN and a DECODER; the weights are copied by the registry. */
#include "bench/seq2seq_model.h"

#include "base/mem.h"
#include "bench/weights.h"

#include <stdio.h>

enum { ENCODER, DECODER, STAGES };

static const float one = 1.0f;

static struct cell_value floats(uint32_t width)
{
    return (struct cell_value){CELL_F32, width};
}

static const struct cell_value id_value = {CELL_I64, 1};

/* x is the row of an id, then h' and c': two ops, from this value on. */
static void add_lstm(struct bench_weights *weights, struct cell_def *def, uint32_t ids,
                     uint32_t hidden, uint32_t h, uint32_t x)
{
    const uint32_t c = h + 1;
    def->values[h] = def->values[c] = floats(hidden);
    def->values[x] = def->values[x + 1] = def->values[x + 2] = floats(hidden);
    def->ops[def->n_ops++] = (struct cell_op){.kind = CELL_OP_GATHER,
                                              .n_operands = 1,
                                              .operands = {0},
                                              .n_weights = 1,
                                              .weights = {bench_weights_draw(weights, ids, hidden)},
                                              .result = x};
    def->ops[def->n_ops++] =
        (struct cell_op){.kind = CELL_OP_LSTM,
                         .n_operands = 3,
                         .operands = {x, h, c},
                         .n_weights = 3,
                         .weights = {bench_weights_draw(weights, 4 * hidden, hidden),
                                     bench_weights_draw(weights, 4 * hidden, hidden),
                                     bench_weights_draw(weights, 1, 8 * hidden)},
                         .result = x + 1};
}

static void make_encoder(struct bench_weights *weights, uint32_t vocabulary, uint32_t hidden,
                         struct cell_def *def)
{
    enum { ID, H, C, X, H_NEXT, C_NEXT, VALUES };
    *def = (struct cell_def){.n_inputs = 1,
                             .n_states = 2,
                             .n_values = VALUES,
                             .values = {[ID] = id_value},
                             .state_next = {H_NEXT, C_NEXT},
                             .n_outputs = 1,
                             .outputs = {H_NEXT}};
    add_lstm(weights, def, vocabulary, hidden, H, X);
}

static void add_op(struct cell_def *def, struct cell_value value, struct cell_op op)
{
    def->values[op.result] = value;
    def->ops[def->n_ops++] = op;
}

/* The id behind the vocabulary, which no product makes, is the end: it comes when as many steps are
 * done as the request has said. */
static void make_decoder(struct bench_weights *weights, const float *end, uint32_t hidden,
                         struct cell_def *def)
{
    enum {
        TOKEN,
        H,
        C,
        LEFT,
        X,
        H_NEXT,
        C_NEXT,
        LOGITS,
        BEST,
        WORD,
        ONE,
        LEFT_NEXT,
        END,
        ID,
        NEXT
    };
    const uint32_t vocabulary = (uint32_t)*end;
    const struct cell_value number = floats(1);
    *def = (struct cell_def){.n_states = 4,
                             .n_values = NEXT + 1,
                             .values = {[TOKEN] = id_value, [LEFT] = number},
                             .state_next = {NEXT, H_NEXT, C_NEXT, LEFT_NEXT},
                             .n_outputs = 1,
                             .outputs = {NEXT}};
    add_lstm(weights, def, vocabulary + 1, hidden, H, X);
    add_op(def, floats(vocabulary),
           (struct cell_op){.kind = CELL_OP_LINEAR,
                            .n_operands = 1,
                            .operands = {H_NEXT},
                            .n_weights = 2,
                            .weights = {bench_weights_draw(weights, hidden, vocabulary),
                                        bench_weights_draw(weights, 1, vocabulary)},
                            .result = LOGITS});
    add_op(def, id_value,
           (struct cell_op){
               .kind = CELL_OP_ARGMAX, .n_operands = 1, .operands = {LOGITS}, .result = BEST});
    add_op(def, number,
           (struct cell_op){
               .kind = CELL_OP_CAST, .n_operands = 1, .operands = {BEST}, .result = WORD});
    add_op(def, number,
           (struct cell_op){.kind = CELL_OP_CONST,
                            .n_weights = 1,
                            .weights = {{CELL_F32, 1, 1, &one}},
                            .result = ONE});
    add_op(def, number,
           (struct cell_op){
               .kind = CELL_OP_SUB, .n_operands = 2, .operands = {LEFT, ONE}, .result = LEFT_NEXT});
    add_op(def, number,
           (struct cell_op){.kind = CELL_OP_CONST,
                            .n_weights = 1,
                            .weights = {{CELL_F32, 1, 1, end}},
                            .result = END});
    add_op(def, number,
           (struct cell_op){.kind = CELL_OP_SELECT,
                            .n_operands = 3,
                            .operands = {LEFT_NEXT, WORD, END},
                            .result = ID});
    add_op(
        def, id_value,
        (struct cell_op){.kind = CELL_OP_CAST, .n_operands = 1, .operands = {ID}, .result = NEXT});
}

static struct cell_tensor tensor(const char *name, enum cell_dtype dtype, uint32_t rank)
{
    struct cell_tensor made = {.dtype = dtype,
                               .rank = rank,
                               .dims = {CELL_DIM_ANY, CELL_DIM_ANY},
                               .time_axis = -1,
                               .piece_axis = -1,
                               .pieces = 1,
                               .width = 1};
    (void)snprintf(made.name, sizeof(made.name), "%s", name);
    return made;
}

static void make_tensors(struct cell_model *model, uint32_t vocabulary, uint32_t steps_max)
{
    struct cell_tensor *source = &model->inputs[BENCH_SEQ2SEQ_SOURCE];
    struct cell_tensor *answer = &model->inputs[BENCH_SEQ2SEQ_ANSWER];
    model->unfold = CELL_UNFOLD_SEQ2SEQ;
    model->n_sequences = model->n_inputs = model->n_outputs = 2;
    model->n_stages = STAGES;
    *source = tensor("source", CELL_I64, 2);
    source->time_axis = 1;
    source->id_bound = vocabulary;
    *answer = tensor("answer", CELL_F32, 2);
    answer->dims[1] = 1;
    model->decoder = (struct cell_decoder){.stage = DECODER,
                                           .sequence = 1,
                                           .steps_max = steps_max,
                                           .has_end = true,
                                           .end = {.state = 0, .id = vocabulary}};
    model->outputs[0] = tensor(CELL_TOKEN, CELL_I64, 2);
    model->outputs[0].time_axis = 1;
    model->outputs[0].sequence = model->decoder.sequence;
    model->output_sources[0][0] = (struct cell_source){.kind = CELL_SOURCE_EACH, .stage = DECODER};
    model->outputs[1] = tensor("lengths", CELL_I64, 1);
    model->output_sources[1][0] = (struct cell_source){.kind = CELL_SOURCE_TAKEN};
    (void)snprintf(model->producer, sizeof(model->producer), "cellbatch-bench");
}

static void make_stages(struct cell_model *model)
{
    struct cell_stage *encoder = &model->stages[ENCODER];
    struct cell_stage *decoder = &model->stages[DECODER];
    encoder->kind = CELL_STAGE_CHAIN;
    encoder->inputs[0] =
        (struct cell_source){.kind = CELL_SOURCE_INPUT, .index = BENCH_SEQ2SEQ_SOURCE};
    decoder->kind = CELL_STAGE_DECODER;
    decoder->sequence = model->decoder.sequence;
    decoder->init[0] = (struct cell_source){.kind = CELL_SOURCE_START};
    for (uint32_t s = 0; s < 2; s++) { // h, c
        decoder->init[1 + s] =
            (struct cell_source){.kind = CELL_SOURCE_LAST_STATE, .stage = ENCODER, .index = s};
    }
    decoder->init[3] =
        (struct cell_source){.kind = CELL_SOURCE_INPUT, .index = BENCH_SEQ2SEQ_ANSWER};
}

enum base_status bench_seq2seq_model(struct cell_registry *registry, uint32_t vocabulary,
                                     uint32_t hidden, uint32_t steps_max, struct cell_model **out,
                                     struct base_error *error)
{
    static const char *const names[] = {"bench/encoder", "bench/decoder"};
    struct bench_weights weights;
    struct cell_model *model = base_alloc(sizeof(*model));
    struct cell_def *defs = base_alloc_array(STAGES, sizeof(*defs));
    enum base_status status = BASE_RESOURCE_EXHAUSTED;
    const float end = (float)vocabulary;
    bench_weights_init(&weights, hidden);
    if (model != NULL && defs != NULL) {
        make_encoder(&weights, vocabulary, hidden, &defs[ENCODER]);
        make_decoder(&weights, &end, hidden, &defs[DECODER]);
        make_tensors(model, vocabulary, steps_max);
        make_stages(model);
        status = bench_weights_intern(&weights, registry, defs, names, model, error);
    } else {
        base_fail(error, status, "out of memory");
    }
    bench_weights_release(&weights);
    base_free(defs);
    if (status != BASE_OK) {
        base_free(model);
        return status;
    }
    *out = model;
    return BASE_OK;
}
