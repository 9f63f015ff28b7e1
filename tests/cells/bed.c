/* See bed.h. */
#include "tests/cells/bed.h"

#include "base/mem.h"
#include "tests/util.h"

#include <string.h>

static size_t value_bytes(const struct side *side, uint32_t value)
{
    const struct cell_value shape = side->type->def.values[value];
    return (size_t)shape.width * cell_dtype_bytes(shape.dtype);
}

/* ---- Running -------------------------------------------------------------------------------- */

struct cell_batch *bed_batch(struct side *side, uint32_t steps)
{
    side->batch = (struct cell_batch){
        .type = side->type, .steps = steps, .rows = side->rows, .status = BASE_INTERNAL};
    return &side->batch;
}

void bed_add_row(struct side *side, uint32_t chain)
{
    side->of_row[side->batch.n_rows] = chain;
    side->rows[side->batch.n_rows++] = rig_chain_row(&side->chains[chain], side->batch.steps);
}

void bed_run(struct bed *bed, struct cell_batch *first, struct cell_batch *second)
{
    first->beside = second;
    bed->rig.backend->submit(bed->rig.device, 0, first);
    bed->rig.submitted += second == NULL ? 1 : 2;
    ck_assert(bed->rig.backend->pump(bed->rig.device, 0));
    ck_assert_uint_eq(atomic_load(bed->rig.backend->completed(bed->rig.device, 0)),
                      bed->rig.submitted);
    ck_assert(!bed->rig.backend->pump(bed->rig.device, 0));
    ck_assert_int_eq(first->status, BASE_OK);
    ck_assert(second == NULL || second->status == BASE_OK);
}

void bed_take_back(struct side *side)
{
    for (uint32_t r = 0; r < side->batch.n_rows; r++) {
        const uint32_t most = side->rows[r].steps;
        const uint32_t done = side->batch.steps_done < most ? side->batch.steps_done : most;
        ck_assert_uint_ge(side->rows[r].steps_done, side->batch.interruptible ? 1 : most);
        ck_assert_uint_le(side->rows[r].steps_done, done);
        side->chains[side->of_row[r]].done += side->rows[r].steps_done;
    }
}

bool bed_is_done(const struct side *side, uint32_t chain)
{
    return side->chains[chain].done == side->chains[chain].wiring.steps;
}

void bed_begin_again(struct bed *bed)
{
    for (uint32_t i = 0; i < 2; i++) {
        for (uint32_t c = 0; c < BED_CHAINS; c++) {
            rig_chain_reset(&bed->sides[i].chains[c], bed->sides[i].type);
        }
    }
}

/* ---- The bed -------------------------------------------------------------------------------- */

/* Every chain alone, by all of the team. */
static void make_wanted(struct bed *bed, struct side *side)
{
    const struct cell_def *def = &side->type->def;
    for (uint32_t c = 0; c < BED_CHAINS; c++) {
        const uint32_t steps = side->chains[c].wiring.steps;
        (void)bed_batch(side, steps);
        bed_add_row(side, c);
        bed_run(bed, &side->batch, NULL);
        for (uint32_t o = 0; o < def->n_outputs; o++) {
            side->outputs[c][o] =
                rig_copy(side->chains[c].outputs[o], steps * value_bytes(side, def->outputs[o]));
        }
        for (uint32_t s = 0; s < def->n_states; s++) {
            side->finals[c][s] =
                rig_copy(side->chains[c].final[s], value_bytes(side, def->n_inputs + s));
        }
    }
}

static void check_chain(const struct side *side, uint32_t c)
{
    const struct cell_def *def = &side->type->def;
    const struct rig_chain *chain = &side->chains[c];
    for (uint32_t o = 0; o < def->n_outputs; o++) {
        ck_assert_mem_eq(chain->outputs[o], side->outputs[c][o],
                         chain->wiring.steps * value_bytes(side, def->outputs[o]));
    }
    for (uint32_t s = 0; s < def->n_states; s++) {
        ck_assert_mem_eq(chain->final[s], side->finals[c][s], value_bytes(side, def->n_inputs + s));
    }
}

void bed_check(const struct bed *bed)
{
    for (uint32_t c = 0; c < BED_CHAINS; c++) {
        check_chain(&bed->sides[0], c);
        check_chain(&bed->sides[1], c);
    }
}

void bed_draw_tuning(const struct bed *bed, struct base_random *random)
{
    for (uint32_t i = 0; i < 2; i++) {
        const struct cell_tuning tuning = {.ahead_rows = base_random_below(random, 20),
                                           .fill_steps = base_random_below(random, 12),
                                           .solo_rows = base_random_below(random, 4),
                                           .apart_rows = base_random_below(random, 6)};
        bed->rig.backend->type_tune(bed->rig.device, bed->sides[i].type, &tuning);
    }
}

/* The chain reads the same one of the side below. */
static void stack(const struct side *below, struct side *side, uint32_t c)
{
    const struct cell_def *def = &below->type->def;
    side->chains[c].wiring.inputs[0] =
        (struct cell_ref){.kind = CELL_REF_HOST,
                          .host = below->chains[c].outputs[0],
                          .stride_bytes = (int64_t)value_bytes(below, def->outputs[0])};
}

void bed_open(struct bed *bed, const char *isa, uint32_t members, bool has_layers, uint64_t salt)
{
    struct base_random random = util_random(salt);
    rig_init(&bed->rig, "cpu", isa, members, &bed->sides[0].build.def);
    bed->sides[0].type = bed->rig.type;
    bed->sides[1].type = rig_add(&bed->rig, &bed->sides[1].build.def);
    for (uint32_t i = 0; i < 2; i++) {
        struct side *side = &bed->sides[i];
        memset(side->outputs, 0, sizeof(side->outputs));
        memset(side->finals, 0, sizeof(side->finals));
        side->batch.n_rows = 0;
        for (uint32_t c = 0; c < BED_CHAINS; c++) {
            const uint32_t below = has_layers && i > 0 ? bed->sides[0].chains[c].wiring.steps : 0;
            const uint32_t steps =
                below > 0 ? below : 1 + base_random_below(&random, BED_STEPS_MAX);
            rig_chain_init(&side->chains[c], side->type, i * RIG_ROWS / 2 + c, steps, &random);
            if (below > 0) {
                stack(&bed->sides[0], side, c);
            }
        }
        make_wanted(bed, side);
    }
}

void bed_close(struct bed *bed)
{
    for (uint32_t i = 0; i < 2; i++) {
        struct side *side = &bed->sides[i];
        for (uint32_t c = 0; c < BED_CHAINS; c++) {
            rig_chain_release(&side->chains[c]);
            for (uint32_t o = 0; o < CELL_OUTPUTS_MAX; o++) {
                base_free(side->outputs[c][o]);
            }
            for (uint32_t s = 0; s < CELL_STATES_MAX; s++) {
                base_free(side->finals[c][s]);
            }
        }
    }
    rig_release(&bed->rig);
    build_release(&bed->sides[0].build);
    build_release(&bed->sides[1].build);
}
