/* See reference_cells.h. */
#include "tests/reference_cells.h"

#include "base/mem.h"
#include "tests/scheduler/graphs.h"

#include <string.h>

static double element_read(const struct cell_value *value, const uint8_t *row, uint32_t i)
{
    if (value->dtype == CELL_F32) {
        float f32 = 0;
        memcpy(&f32, row + i * sizeof(f32), sizeof(f32));
        return (double)f32;
    }
    if (value->dtype == CELL_I64) {
        int64_t i64 = 0;
        memcpy(&i64, row + i * sizeof(i64), sizeof(i64));
        return (double)i64;
    }
    int32_t i32 = 0;
    memcpy(&i32, row + i * sizeof(i32), sizeof(i32));
    return (double)i32;
}

static void element_write(const struct cell_value *value, uint8_t *row, uint32_t i, double element)
{
    if (value->dtype == CELL_F32) {
        float f32 = (float)element;
        memcpy(row + i * sizeof(f32), &f32, sizeof(f32));
    } else if (value->dtype == CELL_I64) {
        int64_t i64 = (int64_t)element;
        memcpy(row + i * sizeof(i64), &i64, sizeof(i64));
    } else {
        int32_t i32 = (int32_t)element;
        memcpy(row + i * sizeof(i32), &i32, sizeof(i32));
    }
}

static void value_write(const struct oracle *oracle, uint32_t number,
                        const struct cell_value *shape, uint8_t *row)
{
    for (uint32_t i = 0; i < shape->width; i++) {
        element_write(shape, row, i, oracle->values[number][i]);
    }
}

bool reference_cells_init(struct reference_cells *cells, const struct cell_type *type)
{
    cells->type = type;
    oracle_init(&cells->oracle, &type->def);
    for (uint32_t o = 0; o < type->def.n_outputs; o++) {
        cells->outputs[o] = base_alloc(graphs_row_bytes(&type->def.values[type->def.outputs[o]]));
        if (cells->outputs[o] == NULL) {
            return false;
        }
    }
    return true;
}

void reference_cells_release(struct reference_cells *cells)
{
    if (cells->type != NULL) {
        oracle_release(&cells->oracle);
    }
    for (uint32_t o = 0; o < CELL_OUTPUTS_MAX; o++) {
        base_free(cells->outputs[o]);
    }
}

void reference_cells_run(struct reference_cells *cells, const void *const *inputs,
                         void *const *states, void *const *outputs)
{
    const struct cell_def *def = &cells->type->def;
    struct oracle *oracle = &cells->oracle;
    if (def->n_ops == 0) {
        graphs_cell_token(cells->type, inputs, states, outputs);
        return;
    }
    for (uint32_t v = 0; v < def->n_inputs + def->n_states; v++) {
        const uint8_t *row = v < def->n_inputs ? inputs[v] : states[v - def->n_inputs];
        for (uint32_t i = 0; i < def->values[v].width; i++) {
            oracle->values[v][i] = element_read(&def->values[v], row, i);
        }
    }
    oracle_step(oracle);
    for (uint32_t o = 0; o < def->n_outputs; o++) {
        value_write(oracle, def->outputs[o], &def->values[def->outputs[o]], outputs[o]);
    }
    // The next state may be another state of now: the oracle still holds what was read.
    for (uint32_t s = 0; s < def->n_states; s++) {
        value_write(oracle, def->state_next[s], &def->values[def->n_inputs + s], states[s]);
    }
}

void reference_cell(const struct cell_type *type, const void *const *inputs, void *const *states,
                    void *const *outputs)
{
    struct reference_cells cells = {.type = type};
    oracle_init(&cells.oracle, &type->def);
    reference_cells_run(&cells, inputs, states, outputs);
    oracle_release(&cells.oracle);
}
