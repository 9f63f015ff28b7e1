/* The kernels' own ops as leaf and node; the weights are copied by the registry. */
#include "bench/tree_model.h"

#include "base/mem.h"
#include "bench/weights.h"

#include <stdio.h>

/* One op over all inputs; outputs h and c. */
static void make_def(struct cell_def *def, enum cell_op_kind kind, uint32_t n_inputs,
                     uint32_t width, uint32_t hidden)
{
    *def = (struct cell_def){.n_inputs = n_inputs,
                             .n_values = n_inputs + 2,
                             .n_ops = 1,
                             .n_outputs = 2,
                             .outputs = {n_inputs, n_inputs + 1}};
    def->ops[0] = (struct cell_op){.kind = kind, .n_operands = n_inputs, .result = n_inputs};
    for (uint32_t v = 0; v < def->n_values; v++) {
        def->values[v] = (struct cell_value){CELL_F32, v < n_inputs ? width : hidden};
        if (v < n_inputs) {
            def->ops[0].operands[v] = v;
        }
    }
}

static void add_weight(struct cell_def *def, struct cell_weight weight)
{
    def->ops[0].weights[def->ops[0].n_weights++] = weight;
}

static void make_tensors(struct cell_model *model, uint32_t inputs, uint32_t hidden)
{
    const struct cell_tensor rows = {
        .rank = 2, .dims = {CELL_DIM_ANY, inputs}, .time_axis = -1, .piece_axis = -1, .pieces = 1};
    model->unfold = CELL_UNFOLD_TREE;
    model->tree = (struct cell_tree){.n_children = 2,
                                     .n_values = 2,
                                     .outputs = {{0, 1}, {0, 1}},
                                     .n_leaf_inputs = 1,
                                     .children_input = 1};
    model->n_inputs = 2;
    model->n_outputs = 1;
    model->n_stages = 2;
    model->inputs[0] = model->inputs[1] = model->outputs[0] = rows;
    model->inputs[0].width = inputs;
    model->inputs[1].dtype = CELL_I64;
    model->inputs[1].dims[1] = model->inputs[1].width = 2;
    model->outputs[0].dims[1] = model->outputs[0].width = hidden;
    (void)snprintf(model->inputs[0].name, CELL_NAME_BYTES, "x");
    (void)snprintf(model->inputs[1].name, CELL_NAME_BYTES, "children");
    (void)snprintf(model->outputs[0].name, CELL_NAME_BYTES, "h");
    model->output_sources[0][0] = (struct cell_source){.kind = CELL_SOURCE_CHILD};
    for (uint32_t s = 0; s < 2; s++) {
        model->stages[s].kind = CELL_STAGE_ONCE;
    }
    model->stages[CELL_TREE_LEAF].inputs[0] = (struct cell_source){.kind = CELL_SOURCE_INPUT};
    for (uint32_t i = 0; i < 4; i++) { // h_l, c_l, h_r, c_r
        model->stages[CELL_TREE_NODE].inputs[i] =
            (struct cell_source){.kind = CELL_SOURCE_CHILD, .index = i % 2, .piece = i / 2};
    }
    (void)snprintf(model->producer, sizeof(model->producer), "cellbatch-bench");
}

enum base_status bench_tree_model(struct cell_registry *registry, uint32_t inputs, uint32_t hidden,
                                  struct cell_model **out, struct base_error *error)
{
    static const char *const names[] = {"bench/leaf", "bench/node"};
    struct bench_weights weights;
    struct cell_model *model = base_alloc(sizeof(*model));
    struct cell_def *defs = base_alloc_array(2, sizeof(*defs));
    enum base_status status = BASE_RESOURCE_EXHAUSTED;
    bench_weights_init(&weights, hidden);
    if (model != NULL && defs != NULL) {
        make_def(&defs[CELL_TREE_LEAF], CELL_OP_TREE_LEAF, 1, inputs, hidden);
        add_weight(&defs[CELL_TREE_LEAF], bench_weights_draw(&weights, 3 * hidden, inputs));
        add_weight(&defs[CELL_TREE_LEAF], bench_weights_draw(&weights, 1, 3 * hidden));
        make_def(&defs[CELL_TREE_NODE], CELL_OP_TREE_BINARY, 4, hidden, hidden);
        add_weight(&defs[CELL_TREE_NODE], bench_weights_draw(&weights, 5 * hidden, hidden));
        add_weight(&defs[CELL_TREE_NODE], bench_weights_draw(&weights, 5 * hidden, hidden));
        add_weight(&defs[CELL_TREE_NODE], bench_weights_draw(&weights, 1, 5 * hidden));
        make_tensors(model, inputs, hidden);
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
