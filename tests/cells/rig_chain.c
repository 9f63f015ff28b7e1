/* Chains with memory of their own; see rig.h. Needs nothing of the tests' library. */
#include "tests/cells/rig.h"

#include "base/assert.h"
#include "base/mem.h"

#include <string.h>

static size_t row_bytes(struct cell_value value)
{
    return (size_t)value.width * cell_dtype_bytes(value.dtype);
}

static uint8_t *random_rows(struct cell_value value, uint32_t rows, struct base_random *random)
{
    uint8_t *data = base_alloc_array(rows, row_bytes(value));
    base_assert(data != NULL);
    for (size_t i = 0; i < (size_t)rows * value.width; i++) {
        if (value.dtype == CELL_F32) {
            float x = base_random_f32(random, -2.0f, 2.0f);
            memcpy(data + i * sizeof(x), &x, sizeof(x));
        } else {
            data[i * cell_dtype_bytes(value.dtype)] = (uint8_t)base_random_below(random, 10);
        }
    }
    return data;
}

static struct cell_ref host(uint8_t *data, size_t stride_bytes)
{
    return (struct cell_ref){
        .kind = CELL_REF_HOST, .host = data, .stride_bytes = (int64_t)stride_bytes};
}

static uint64_t chains; /* numbers given to them */

void rig_chain_init(struct rig_chain *chain, const struct cell_type *type, uint32_t slot,
                    uint32_t steps, struct base_random *random)
{
    const struct cell_def *def = &type->def;
    memset(chain, 0, sizeof(*chain));
    chain->wiring.steps = steps;
    chain->wiring.chain = ++chains;
    chain->wiring.state = def->n_states > 0 ? slot : CELL_ROW_NONE;
    chain->wiring.emits = chain->emits;
    cell_wiring_use(&chain->wiring, &chain->refs);
    for (uint32_t i = 0; i < def->n_inputs; i++) {
        chain->inputs[i] = random_rows(def->values[i], steps, random);
        chain->wiring.inputs[i] = host(chain->inputs[i], row_bytes(def->values[i]));
        if (cell_def_input_has_rows(def, i)) {
            chain->wiring.inputs[i].rows = steps;
        }
    }
    for (uint32_t s = 0; s < def->n_states; s++) {
        struct cell_value value = def->values[def->n_inputs + s];
        chain->init[s] = random_rows(value, 1, random);
        chain->final[s] = random_rows(value, 1, random);
        chain->wiring.init[s] = host(chain->init[s], 0);
        chain->emits[chain->wiring.n_emits++] =
            (struct cell_emit){CELL_EMIT_STATE, CELL_EMIT_LAST, s, host(chain->final[s], 0)};
    }
    for (uint32_t o = 0; o < def->n_outputs; o++) {
        struct cell_value value = def->values[def->outputs[o]];
        chain->outputs[o] = random_rows(value, steps, random);
        chain->emits[chain->wiring.n_emits++] = (struct cell_emit){
            CELL_EMIT_OUTPUT, CELL_EMIT_EACH, o, host(chain->outputs[o], row_bytes(value))};
    }
}

void rig_chain_release(struct rig_chain *chain)
{
    for (uint32_t i = 0; i < CELL_INPUTS_MAX; i++) {
        base_free(chain->inputs[i]);
    }
    for (uint32_t o = 0; o < CELL_OUTPUTS_MAX; o++) {
        base_free(chain->outputs[o]);
    }
    for (uint32_t s = 0; s < CELL_STATES_MAX; s++) {
        base_free(chain->init[s]);
        base_free(chain->final[s]);
    }
}

void rig_chain_reset(struct rig_chain *chain, const struct cell_type *type)
{
    const struct cell_def *def = &type->def;
    chain->done = 0;
    chain->wiring.chain = chain->wiring.chain == 0 ? 0 : ++chains; // it starts anew
    for (uint32_t s = 0; s < def->n_states; s++) {
        memset(chain->final[s], 0xA5, row_bytes(def->values[def->n_inputs + s]));
    }
    for (uint32_t o = 0; o < def->n_outputs; o++) {
        memset(chain->outputs[o], 0xA5,
               chain->wiring.steps * row_bytes(def->values[def->outputs[o]]));
    }
}

struct cell_batch_row rig_chain_row(struct rig_chain *chain, uint32_t steps)
{
    uint32_t left = chain->wiring.steps - chain->done;
    return (struct cell_batch_row){
        .wiring = &chain->wiring, .first_step = chain->done, .steps = steps < left ? steps : left};
}

uint8_t *rig_copy(const uint8_t *data, size_t bytes)
{
    uint8_t *copy = base_alloc(bytes);
    base_assert(copy != NULL);
    memcpy(copy, data, bytes);
    return copy;
}
