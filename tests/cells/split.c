/* See split.h. One thread, beside the team's. */
#include "tests/cells/split.h"

#include "base/mem.h"
#include "tests/cells/rig.h"
#include "tests/util.h"

#include <stdio.h>
#include <string.h>

/* A chain and what it must give. */
struct wanted {
    struct rig_chain chain;
    uint8_t *outputs[CELL_OUTPUTS_MAX];
    uint8_t *finals[CELL_STATES_MAX];
};

struct split {
    const struct split_options *options;
    struct wanted chains[SPLIT_CHAINS_MAX];
    uint32_t rows_taken[CELL_LAYOUTS_MAX]; /* value rows that a chain reads or writes */
};

static size_t width_bytes(const struct rig *rig, uint32_t value)
{
    struct cell_value shape = rig->type->def.values[value];
    return (size_t)shape.width * cell_dtype_bytes(shape.dtype);
}

static void turn(struct cell_ref *ref, uint32_t steps)
{
    ref->host += (int64_t)(steps - 1) * ref->stride_bytes;
    ref->stride_bytes = -ref->stride_bytes;
}

/* Now and then the place is a value row that nobody else has. */
static void use_value_row(struct split *split, struct cell_ref *ref, uint32_t layout,
                          struct base_random *random)
{
    uint32_t *taken = &split->rows_taken[layout];
    if (base_random_below(random, 6) == 0 && *taken < RIG_ROWS) {
        *ref = (struct cell_ref){.kind = CELL_REF_VALUE, .row = (*taken)++};
    }
}

/* Some chains run backwards in time, start from zeros, read zeros or what stands in value rows,
 * write there, or do not emit at every step. */
static void vary(struct split *split, struct rig_chain *chain, const struct cell_type *type,
                 struct base_random *random)
{
    const struct cell_def *def = &type->def;
    struct cell_wiring *wiring = &chain->wiring;
    const bool is_backwards = base_random_below(random, 3) == 0;
    for (uint32_t i = 0; i < def->n_inputs; i++) {
        if (cell_def_input_has_rows(def, i)) {
            continue;
        }
        if (base_random_below(random, 8) == 0) {
            wiring->inputs[i] = (struct cell_ref){.kind = CELL_REF_ZERO};
        } else if (is_backwards) {
            turn(&wiring->inputs[i], wiring->steps);
        }
        use_value_row(split, &wiring->inputs[i], type->input_layouts[i], random);
    }
    for (uint32_t s = 0; s < def->n_states; s++) {
        if (base_random_below(random, 4) == 0) {
            wiring->init[s] = (struct cell_ref){.kind = CELL_REF_ZERO};
        }
        use_value_row(split, &wiring->init[s], type->state_layouts[s], random);
    }
    for (uint32_t e = 0; e < wiring->n_emits; e++) {
        struct cell_emit *emit = &wiring->emits[e];
        if (emit->what == CELL_EMIT_OUTPUT && is_backwards) {
            turn(&emit->to, wiring->steps);
        }
        if (emit->what == CELL_EMIT_OUTPUT && base_random_below(random, 4) == 0) {
            emit->when = base_random_below(random, 2) == 0 ? CELL_EMIT_FIRST : CELL_EMIT_LAST;
        }
        use_value_row(split, &emit->to,
                      emit->what == CELL_EMIT_OUTPUT ? type->output_layouts[emit->index]
                                                     : type->state_layouts[emit->index],
                      random);
    }
    rig_chain_reset(chain, type); // what is not emitted is the same each time
}

/* What the chain reads of value rows: the first row that it has of the input. */
static void write_value_rows(const struct rig *rig, const struct rig_chain *chain)
{
    const struct cell_type *type = rig->type;
    const struct cell_wiring *wiring = &chain->wiring;
    for (uint32_t i = 0; i < type->def.n_inputs; i++) {
        if (wiring->inputs[i].kind == CELL_REF_VALUE) {
            rig->backend->row_write(rig->device, type->input_layouts[i], wiring->inputs[i].row, 0,
                                    0, chain->inputs[i]);
        }
    }
    for (uint32_t s = 0; s < type->def.n_states; s++) {
        if (wiring->init[s].kind == CELL_REF_VALUE) {
            rig->backend->row_write(rig->device, type->state_layouts[s], wiring->init[s].row, 0, 0,
                                    chain->init[s]);
        }
    }
}

/* What it has written to them, to where it would stand if it had been emitted once. */
static void read_value_rows(const struct rig *rig, const struct rig_chain *chain)
{
    const struct cell_type *type = rig->type;
    for (uint32_t e = 0; e < chain->wiring.n_emits; e++) {
        const struct cell_emit *emit = &chain->emits[e];
        const bool is_output = emit->what == CELL_EMIT_OUTPUT;
        if (emit->to.kind == CELL_REF_VALUE) {
            rig->backend->row_read(
                rig->device,
                is_output ? type->output_layouts[emit->index] : type->state_layouts[emit->index],
                emit->to.row, 0, 0,
                is_output ? chain->outputs[emit->index] : chain->final[emit->index]);
        }
    }
}

/* Runs each chain alone to its end in one batch and keeps what it gave. */
static void make_wanted(struct split *split, struct rig *rig)
{
    struct base_random random = util_random(split->options->salt + 11);
    const struct cell_def *def = &rig->type->def;
    for (uint32_t i = 0; i < split->options->n_chains; i++) {
        struct wanted *wanted = &split->chains[i];
        struct rig_chain *chain = &wanted->chain;
        uint32_t steps = 1 + base_random_below(&random, split->options->steps_max);
        rig_chain_init(chain, rig->type, i, steps, &random);
        vary(split, chain, rig->type, &random);
        write_value_rows(rig, chain);
        struct cell_batch_row row = rig_chain_row(chain, steps);
        struct cell_batch batch = {.n_rows = 1, .steps = steps, .rows = &row};
        rig_run(rig, &batch);
        ck_assert_uint_eq(batch.steps_done, steps);
        ck_assert_uint_eq(row.steps_done, steps);
        read_value_rows(rig, chain);
        for (uint32_t o = 0; o < def->n_outputs; o++) {
            wanted->outputs[o] =
                rig_copy(chain->outputs[o], steps * width_bytes(rig, def->outputs[o]));
        }
        for (uint32_t s = 0; s < def->n_states; s++) {
            wanted->finals[s] = rig_copy(chain->final[s], width_bytes(rig, def->n_inputs + s));
        }
    }
}

/* Random batches of random unfinished chains and random lengths until all are done. */
static void run_split(struct split *split, struct rig *rig, struct base_random *random)
{
    const uint32_t n_chains = split->options->n_chains;
    uint32_t left = n_chains;
    for (uint32_t i = 0; i < n_chains; i++) {
        rig_chain_reset(&split->chains[i].chain, rig->type);
        write_value_rows(rig, &split->chains[i].chain);
        split->chains[i].chain.wiring.state = (i + 17) % RIG_ROWS; // a slot with other contents
    }
    while (left > 0) {
        struct cell_batch_row rows[SPLIT_CHAINS_MAX];
        uint32_t members[SPLIT_CHAINS_MAX] = {0};
        struct cell_batch batch = {
            .steps = 1 + base_random_below(random, split->options->steps_max), .rows = rows};
        for (uint32_t i = 0; i < n_chains; i++) {
            struct rig_chain *chain = &split->chains[i].chain;
            if (chain->done < chain->wiring.steps && base_random_below(random, n_chains / 6) == 0) {
                members[batch.n_rows] = i;
                rows[batch.n_rows++] = rig_chain_row(chain, batch.steps);
            }
        }
        if (batch.n_rows == 0) {
            continue;
        }
        rig_run(rig, &batch);
        for (uint32_t r = 0; r < batch.n_rows; r++) {
            ck_assert_uint_eq(rows[r].steps_done, rows[r].steps);
            struct rig_chain *chain = &split->chains[members[r]].chain;
            chain->done += rows[r].steps_done;
            left -= chain->done == chain->wiring.steps;
        }
    }
    for (uint32_t i = 0; i < n_chains; i++) {
        read_value_rows(rig, &split->chains[i].chain);
    }
}

static bool is_wanted(const struct wanted *wanted, const struct rig *rig)
{
    const struct cell_def *def = &rig->type->def;
    const struct rig_chain *chain = &wanted->chain;
    bool is_same = true;
    for (uint32_t o = 0; o < def->n_outputs; o++) {
        size_t bytes = chain->wiring.steps * width_bytes(rig, def->outputs[o]);
        is_same &= memcmp(chain->outputs[o], wanted->outputs[o], bytes) == 0;
    }
    for (uint32_t s = 0; s < def->n_states; s++) {
        size_t bytes = width_bytes(rig, def->n_inputs + s);
        is_same &= memcmp(chain->final[s], wanted->finals[s], bytes) == 0;
    }
    return is_same;
}

static bool are_wanted(const struct split *split, const struct rig *rig, uint32_t round,
                       struct split_difference *out)
{
    for (uint32_t i = 0; i < split->options->n_chains; i++) {
        if (!is_wanted(&split->chains[i], rig)) {
            (void)snprintf(out->text, sizeof(out->text), "chain %u differs in round %u", i, round);
            return false;
        }
    }
    return true;
}

static void release(struct split *split)
{
    for (uint32_t i = 0; i < split->options->n_chains; i++) {
        rig_chain_release(&split->chains[i].chain);
        for (uint32_t o = 0; o < CELL_OUTPUTS_MAX; o++) {
            base_free(split->chains[i].outputs[o]);
        }
        for (uint32_t s = 0; s < CELL_STATES_MAX; s++) {
            base_free(split->chains[i].finals[s]);
        }
    }
}

bool split_has_the_bits_of_one_run(const struct split_options *options,
                                   struct split_difference *out)
{
    struct rig alone;
    struct rig batches;
    struct split split = {.options = options};
    struct base_random random = util_random(options->salt + 13);
    struct cell_def as_written = *options->def;
    as_written.as_written = true;
    rig_init(&alone, "cpu", "scalar", 0, &as_written);
    make_wanted(&split, &alone);
    const char *backend = options->backend == NULL ? "cpu" : options->backend;
    rig_init(&batches, backend, options->isa, options->members, options->def);
    if (options->tuning != NULL && batches.backend->type_tune != NULL) {
        batches.backend->type_tune(batches.device, batches.type, options->tuning);
    }
    uint64_t allocations = base_alloc_count();
    bool is_same = true;
    const uint32_t rounds = util_is_quick() ? 1 : 3;
    for (uint32_t round = 0; round < rounds && is_same; round++) {
        run_split(&split, &batches, &random);
        is_same = are_wanted(&split, &batches, round, out);
    }
    ck_assert_uint_eq(base_alloc_count(), allocations);
    release(&split);
    rig_release(&batches);
    rig_release(&alone);
    return is_same;
}

/* x: wanted by both; a: by the step; b: by the sums over x. */
void split_build_front(struct build *build)
{
    build_init(build, 33);
    uint32_t x = build_input(build, CELL_F32, 20);
    uint32_t h = build_state(build, CELL_F32, 70);
    uint32_t g = build_state(build, CELL_F32, 66);
    uint32_t k = build_state(build, CELL_F32, 40);
    uint32_t a = build_linear(build, x, 30, true);
    uint32_t b = build_op(build, CELL_OP_TANH, build_linear(build, a, 90, true), UINT32_MAX, 90);
    uint32_t first = build_gated(build, CELL_OP_GRU, CELL_GRU_RESET_AFTER, b, h, true);
    uint32_t second = build_gated(build, CELL_OP_GRU, CELL_GRU_RESET_BEFORE, first, g, true);
    uint32_t third = build_gated(build, CELL_OP_RNN, CELL_RNN_TANH, x, k, true);
    build_next(build, 0, first);
    build_next(build, 1, second);
    build_next(build, 2, third);
    build_output(build, build_concat(build, 4, (const uint32_t[]){second, third, a, x}));
}
