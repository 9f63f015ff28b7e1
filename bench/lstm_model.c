/* One CHAIN stage; the weights are copied by the registry. */
#include "bench/lstm_model.h"

#include "base/mem.h"
#include "bench/weights.h"

#include <stdio.h>

/* Values: x, h, c, h', c'. */
static void make_def(struct bench_weights *weights, uint32_t inputs, uint32_t hidden,
                     struct cell_def *def)
{
    *def = (struct cell_def){.n_inputs = 1,
                             .n_states = 2,
                             .n_values = 5,
                             .n_ops = 1,
                             .n_outputs = 1,
                             .state_next = {3, 4},
                             .outputs = {3}};
    for (uint32_t v = 0; v < def->n_values; v++) {
        def->values[v] = (struct cell_value){CELL_F32, v == 0 ? inputs : hidden};
    }
    struct cell_op *op = &def->ops[0];
    *op = (struct cell_op){
        .kind = CELL_OP_LSTM, .n_operands = 3, .operands = {0, 1, 2}, .n_weights = 3, .result = 3};
    op->weights[0] = bench_weights_draw(weights, 4 * hidden, inputs);
    op->weights[1] = bench_weights_draw(weights, 4 * hidden, hidden);
    op->weights[2] = bench_weights_draw(weights, 1, 8 * hidden);
}

static void make_tensors(struct cell_model *model, uint32_t inputs, uint32_t hidden)
{
    model->n_inputs = model->n_outputs = model->n_stages = 1;
    model->n_sequences = 1;
    model->inputs[0] = (struct cell_tensor){.name = "x",
                                            .rank = 3,
                                            .dims = {CELL_DIM_ANY, CELL_DIM_ANY, inputs},
                                            .time_axis = 1,
                                            .piece_axis = -1,
                                            .pieces = 1,
                                            .width = inputs};
    model->outputs[0] = (struct cell_tensor){.name = "h",
                                             .rank = 2,
                                             .dims = {CELL_DIM_ANY, hidden},
                                             .time_axis = -1,
                                             .piece_axis = -1,
                                             .pieces = 1,
                                             .width = hidden};
    model->output_sources[0][0] = (struct cell_source){.kind = CELL_SOURCE_LAST};
    model->stages[0].kind = CELL_STAGE_CHAIN;
    model->stages[0].inputs[0] = (struct cell_source){.kind = CELL_SOURCE_INPUT};
    (void)snprintf(model->producer, sizeof(model->producer), "cellbatch-bench");
}

enum base_status bench_lstm_model(struct cell_registry *registry, uint32_t inputs, uint32_t hidden,
                                  struct cell_model **out, struct base_error *error)
{
    struct bench_weights weights;
    bench_weights_init(&weights, hidden);
    struct cell_model *model = base_alloc(sizeof(*model));
    struct cell_def *def = base_alloc(sizeof(*def));
    enum base_status status = BASE_RESOURCE_EXHAUSTED;
    if (model != NULL && def != NULL) {
        make_def(&weights, inputs, hidden, def);
        status = weights.failed ? status : BASE_OK;
    }
    bool is_new = false;
    if (status == BASE_OK) {
        make_tensors(model, inputs, hidden);
        status = cell_registry_intern(registry, def, "bench/lstm", &model->stages[0].type, &is_new,
                                      error);
    } else {
        base_fail(error, status, "no memory for an LSTM of %u inputs, %u units", inputs, hidden);
    }
    bench_weights_release(&weights);
    base_free(def);
    if (status != BASE_OK) {
        base_free(model);
        return status;
    }
    *out = model;
    return BASE_OK;
}
