/* See oracle_chain.h. One thread. */
#include "tests/cells/oracle_chain.h"

#include "base/mem.h"
#include "tests/cells/oracle.h"
#include "tests/util.h"

#include <string.h>

static double element(struct cell_value value, const uint8_t *row, uint32_t i)
{
    if (value.dtype == CELL_F32) {
        float x;
        memcpy(&x, row + i * sizeof(x), sizeof(x));
        return (double)x;
    }
    return (double)cell_integer_at(value.dtype, row + i * cell_dtype_bytes(value.dtype));
}

static void load_rows(double *out, struct cell_value value, const uint8_t *rows, uint32_t n)
{
    for (uint32_t i = 0; i < n * value.width; i++) {
        out[i] = element(value, rows, i);
    }
}

static const uint8_t *row_at(struct cell_value value, const uint8_t *rows, uint32_t row)
{
    return rows + (size_t)row * value.width * cell_dtype_bytes(value.dtype);
}

static void assert_row(const double *want, struct cell_value value, const uint8_t *row,
                       double tolerance)
{
    for (uint32_t i = 0; i < value.width; i++) {
        util_assert_close(element(value, row, i), want[i], tolerance, tolerance);
    }
}

/* What an input of many rows holds at every step; ended with base_free(). */
static double *load_memory(struct oracle *oracle, uint32_t input, const struct rig_chain *chain)
{
    const struct cell_value value = oracle->def->values[input];
    const uint32_t n = chain->wiring.inputs[input].rows;
    double *rows = base_alloc_array((size_t)n * value.width + 1, sizeof(*rows));
    ck_assert_ptr_nonnull(rows);
    load_rows(rows, value, chain->inputs[input], n);
    oracle->rows[input] = rows;
    oracle->n_rows[input] = n;
    return rows;
}

static void check_steps(struct oracle *oracle, const struct rig_chain *chain, double tolerance)
{
    const struct cell_def *def = oracle->def;
    for (uint32_t t = 0; t < chain->wiring.steps; t++) {
        for (uint32_t i = 0; i < def->n_inputs; i++) {
            load_rows(oracle->values[i], def->values[i],
                      row_at(def->values[i], chain->inputs[i], t), 1);
        }
        oracle_step(oracle);
        for (uint32_t o = 0; o < def->n_outputs; o++) {
            const struct cell_value value = def->values[def->outputs[o]];
            assert_row(oracle->values[def->outputs[o]], value, row_at(value, chain->outputs[o], t),
                       tolerance);
        }
        oracle_advance(oracle);
    }
}

void oracle_check_chain(const struct cell_def *def, const struct rig_chain *chain, double tolerance)
{
    struct oracle oracle;
    double *memories[CELL_INPUTS_MAX] = {0};
    oracle_init(&oracle, def);
    for (uint32_t i = 0; i < def->n_inputs; i++) {
        if (cell_def_input_has_rows(def, i)) {
            memories[i] = load_memory(&oracle, i, chain);
        }
    }
    for (uint32_t s = 0; s < def->n_states; s++) {
        const uint32_t value = def->n_inputs + s;
        load_rows(oracle.values[value], def->values[value], chain->init[s], 1);
    }
    check_steps(&oracle, chain, tolerance);
    for (uint32_t s = 0; s < def->n_states; s++) {
        const uint32_t value = def->n_inputs + s;
        assert_row(oracle.values[value], def->values[value], chain->final[s], tolerance);
    }
    for (uint32_t i = 0; i < def->n_inputs; i++) {
        base_free(memories[i]);
    }
    oracle_release(&oracle);
}
