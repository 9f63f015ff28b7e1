/* Beam searches on the CUDA device over a host's driver against the CPU: each alone there in one
 * run, all together here in random batches, with chains that search nothing. Logits are sums of
 * quarters, so equal scores abound, and some ids are impossible or no number. Every bit must be the
 * same; and a device with one thing wrong must not pass. */
#include "base/mem.h"
#include "cells/cuda/step_search.h"
#include "tests/cells/rig.h"
#include "tests/cuda/driver_host.h"
#include "tests/cuda/kernels_host.h"
#include "tests/util.h"

#include <stdatomic.h>
#include <string.h>

enum { SEARCHES = 12, STEPS = 37, IDS_MOST = 300, ROUNDS = 6, START = 1 };

enum { TOKEN, H }; /* states */

static _Atomic uint32_t attention;

/* A search, and what of it is its own. */
struct search {
    struct cell_beam beam;
    struct cell_wiring wirings[CELL_BEAM_MAX];
    struct cell_refs refs;
    int64_t start;
    float h[IDS_MOST];
    int32_t tokens[STEPS * CELL_BEAM_MAX], parents[STEPS * CELL_BEAM_MAX];
    float room[IDS_MOST];
    uint8_t copies[CELL_BEAM_MAX * IDS_MOST * sizeof(float)];
    uint32_t done;
};

/* h' = h + table[token], which are the logits: what a lane chooses depends on all its way. */
static void build_decoder(struct build *build, enum cell_dtype dtype, uint32_t ids)
{
    build_init(build, 71);
    const uint32_t token = build_state(build, dtype, 1);
    const uint32_t h = build_state(build, CELL_F32, ids);
    const uint32_t row = build_gather(build, token, ids, ids);
    static float table[IDS_MOST * IDS_MOST];
    build_last(build)->weights[0].data = table;
    struct base_random random = util_random(72);
    for (uint32_t i = 0; i < ids * ids; i++) {
        table[i] = (float)base_random_below(&random, 9) * 0.25f - 1.0f;
    }
    table[2 * ids + 3] = table[3 * ids + 3] = 3e38f; // after ids 2, 3 all are no numbers
    const uint32_t next = build_op(build, CELL_OP_ADD, h, row, ids);
    const uint32_t best = build_op(build, CELL_OP_ARGMAX, next, UINT32_MAX, 1);
    build->def.values[best].dtype = dtype;
    build_next(build, TOKEN, best);
    build_next(build, H, next);
    build_output(build, best);
    build_output(build, next);
}

/* ---- Searches ----------------------------------------------------------------------------- */

static void search_init(struct search *search, uint32_t ids, struct base_random *random)
{
    static const float penalties[] = {0.0f, 0.6f, 1.0f, 2.0f};
    memset(search, 0, sizeof(*search));
    search->beam = (struct cell_beam){.width = 1 + base_random_below(random, CELL_BEAM_MAX),
                                      .steps = 1 + base_random_below(random, STEPS),
                                      .token = TOKEN,
                                      .logits = 1,
                                      .ids = ids,
                                      .has_end = base_random_below(random, 4) > 0,
                                      .end = base_random_below(random, ids),
                                      .length_penalty = penalties[base_random_below(random, 4)]};
    search->start = START;
    for (uint32_t i = 0; i < ids; i++) {
        const bool is_impossible = base_random_below(random, 20) == 0;
        search->h[i] = is_impossible ? -INFINITY : (float)base_random_below(random, 5) * 0.25f;
    }
}

/* Its memory is where it stands; slots are those from `slot` on. */
static void search_wire(struct search *search, uint32_t slot)
{
    search->beam.tokens = search->tokens;
    search->beam.parents = search->parents;
    search->beam.room = search->room;
    search->beam.copies = search->copies;
    search->refs.init[TOKEN] =
        (struct cell_ref){.kind = CELL_REF_HOST, .host = (uint8_t *)&search->start};
    search->refs.init[H] = (struct cell_ref){.kind = CELL_REF_HOST, .host = (uint8_t *)search->h};
    for (uint32_t lane = 0; lane < search->beam.width; lane++) {
        search->wirings[lane] = (struct cell_wiring){
            .steps = search->beam.steps, .lane = lane, .beam = &search->beam, .state = slot + lane};
        cell_wiring_use(&search->wirings[lane], &search->refs);
    }
}

static uint32_t search_rows(struct search *search, uint32_t steps, struct cell_batch_row *rows)
{
    const uint32_t left = search->beam.steps - search->done;
    for (uint32_t lane = 0; lane < search->beam.width; lane++) {
        rows[lane] = (struct cell_batch_row){.wiring = &search->wirings[lane],
                                             .first_step = search->done,
                                             .steps = steps < left ? steps : left};
    }
    return search->beam.width;
}

static void run_alone(struct rig *rig, struct search *search)
{
    struct cell_batch_row rows[CELL_BEAM_MAX];
    struct cell_batch batch = {.steps = search->beam.steps, .attention = &attention, .rows = rows};
    search_wire(search, 0);
    batch.n_rows = search_rows(search, batch.steps, rows);
    rig_run(rig, &batch);
    search->done = rows[0].steps_done;
    ck_assert(search->beam.is_done && rows[0].has_ended);
}

/* ---- Together ------------------------------------------------------------------------------- */

/* A batch of those of the searches that are not done, as many as there are rows for, and a chain.
 * Returns whether there was one. */
static bool run_some(struct rig *rig, struct search *searches, struct rig_chain *chain,
                     struct base_random *random)
{
    struct search *all[RIG_ROWS];
    struct cell_batch_row rows[RIG_ROWS];
    const uint32_t steps = 1 + base_random_below(random, STEPS);
    const uint32_t skipped = base_random_below(random, 3);
    struct cell_batch batch = {.steps = steps,
                               .interruptible = base_random_below(random, 2) == 0,
                               .attention = &attention,
                               .rows = rows};
    uint32_t n_left = 0;
    for (uint32_t i = 0; i < SEARCHES; i++) {
        n_left += searches[i].beam.is_done ? 0 : 1;
        if (searches[i].beam.is_done || (skipped > 0 && i % 3 == skipped) ||
            batch.n_rows + searches[i].beam.width >= RIG_ROWS) {
            continue;
        }
        all[batch.n_rows] = &searches[i];
        batch.n_rows += search_rows(&searches[i], steps, rows + batch.n_rows);
        if (chain->done < chain->wiring.steps && i % 2 == 0 && all[0] == &searches[i]) {
            all[batch.n_rows] = NULL;
            rows[batch.n_rows++] = rig_chain_row(chain, steps);
        }
    }
    if (batch.n_rows == 0) {
        return n_left > 0;
    }
    rig_run(rig, &batch);
    for (uint32_t r = 0; r < batch.n_rows; r++) {
        if (rows[r].wiring == &chain->wiring) {
            chain->done += rows[r].steps_done;
        } else if (rows[r].wiring->lane == 0) {
            ck_assert(rows[r].has_ended == all[r]->beam.is_done);
            all[r]->done += rows[r].steps_done;
        }
    }
    return true;
}

static bool is_same_way(const struct search *a, const struct search *b,
                        const struct cell_beam_found *found)
{
    uint32_t lane = found->lane;
    for (uint32_t step = found->steps; step-- > 0;) {
        const size_t at = (size_t)step * a->beam.width + lane;
        if (a->tokens[at] != b->tokens[at] || a->parents[at] != b->parents[at]) {
            return false;
        }
        lane = (uint32_t)a->parents[at];
    }
    return true;
}

static bool is_same(const struct search *a, const struct search *b)
{
    bool is_same =
        a->done == b->done && a->beam.n_found == b->beam.n_found &&
        memcmp(a->beam.found, b->beam.found, a->beam.n_found * sizeof(a->beam.found[0])) == 0 &&
        memcmp(a->beam.scores, b->beam.scores, a->beam.width * sizeof(a->beam.scores[0])) == 0;
    for (uint32_t i = 0; i < a->beam.n_found && is_same; i++) {
        is_same = is_same_way(a, b, &a->beam.found[i]);
    }
    return is_same;
}

struct case_of {
    enum cell_dtype dtype;
    uint32_t ids;
};
static const struct case_of cases[] = {{CELL_I32, 37}, {CELL_I64, 5}, {CELL_I64, IDS_MOST}};

/* Searches of one round; returns how many are not the CPU's, and whether the chain is. */
static uint32_t count_wrong(struct rig *cpu, struct rig *cuda, uint32_t ids,
                            struct base_random *random)
{
    static struct search wanted[SEARCHES];
    static struct search searches[SEARCHES];
    struct rig_chain chain;
    uint32_t slot = 0;
    uint32_t n_wrong = 0;
    rig_chain_init(&chain, cpu->type, RIG_ROWS - 1, STEPS, random);
    struct cell_batch_row row = rig_chain_row(&chain, STEPS);
    struct cell_batch batch = {.n_rows = 1, .steps = STEPS, .rows = &row};
    rig_run(cpu, &batch);
    const size_t bytes = STEPS * ids * sizeof(float);
    uint8_t *output = rig_copy(chain.outputs[1], bytes);
    rig_chain_reset(&chain, cpu->type);
    for (uint32_t i = 0; i < SEARCHES; i++) {
        search_init(&searches[i], ids, random);
        searches[i].beam.width =
            searches[i].beam.width < 5 ? searches[i].beam.width : searches[i].beam.width % 6 + 2;
        wanted[i] = searches[i];
        run_alone(cpu, &wanted[i]);
        search_wire(&searches[i], slot);
        slot += searches[i].beam.width;
    }
    ck_assert_uint_lt(slot, RIG_ROWS);
    for (uint32_t batches = 0; batches < 400 && run_some(cuda, searches, &chain, random);
         batches++) {
    }
    for (uint32_t i = 0; i < SEARCHES; i++) {
        n_wrong += is_same(&wanted[i], &searches[i]) ? 0 : 1;
    }
    n_wrong += memcmp(chain.outputs[1], output, chain.done * ids * sizeof(float)) == 0 ? 0 : 1;
    base_free(output);
    rig_chain_release(&chain);
    return n_wrong;
}

static uint32_t run_case(const struct case_of *one)
{
    struct base_random random = util_random(73);
    struct build build;
    struct rig cpu;
    struct rig cuda;
    uint32_t n_wrong = 0;
    build_decoder(&build, one->dtype, one->ids);
    rig_init(&cpu, "cpu", NULL, 0, &build.def);
    rig_init(&cuda, "cuda-host", NULL, 0, &build.def);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        n_wrong += count_wrong(&cpu, &cuda, one->ids, &random);
    }
    rig_release(&cuda);
    rig_release(&cpu);
    ck_assert_uint_eq(cuda_host_counts().unsound, 0);
    build_release(&build);
    return n_wrong;
}

START_TEST(test_searches_have_the_bits_of_the_cpu)
{
    ck_assert_uint_eq(run_case(&cases[_i]), 0);
}
END_TEST

/* ---- One thing wrong ------------------------------------------------------------------------ */

static void run_items(const struct cell_step *step, uint32_t n_items,
                      void (*choose)(const struct cell_step_choose *p, struct cell_step_at at))
{
    for (uint32_t i = 0; i < n_items; i++) {
        choose(&step->choose, (struct cell_step_at){.item = i, .n_items = n_items});
    }
}

/* Of equal scores the later lane or id first. */
static void turn_ties(const struct cell_step_choose *p, struct cell_step_at at)
{
    struct cell_step_continued *best =
        (struct cell_step_continued *)(void *)cell_step_words(p->best, at.item);
    for (uint32_t i = 0; cell_step_runs(&p->batch, at.item) && i + 1 < CELL_STEP_BEST; i++) {
        const struct cell_step_continued one = best[i];
        if (cell_step_row(&p->batch, at.item)->search != 0 && one.score == best[i + 1].score &&
            one.score > -INFINITY) {
            best[i] = best[i + 1];
            best[i + 1] = one;
        }
    }
}

static void wrong_ties(const struct cell_step *step, uint32_t n_items, bool is_backwards)
{
    (void)is_backwards;
    run_items(step, n_items, turn_ties);
    run_items(step, n_items, cell_step_choose);
}

/* The last step is taken for one before. */
static void forget_last(const struct cell_step_choose *p, struct cell_step_at at)
{
    const struct cell_step_row *row = cell_step_row(&p->batch, at.item);
    if (cell_step_runs(&p->batch, at.item) && row->search != 0 && row->lane == 0) {
        struct cell_beam *beam = cell_step_beam(&p->batch, row);
        beam->steps++;
        cell_step_choose(p, at);
        beam->steps--;
        beam->is_done |= cell_step_taken(&p->batch, row) + 1 == beam->steps;
    }
}

static void wrong_last(const struct cell_step *step, uint32_t n_items, bool is_backwards)
{
    (void)is_backwards;
    run_items(step, n_items, forget_last);
}

/* All searches are as wide as the batch's first. */
static void as_the_first(const struct cell_step_choose *p, struct cell_step_at at)
{
    const struct cell_step_row *row = cell_step_row(&p->batch, at.item);
    if (cell_step_runs(&p->batch, at.item) && row->search > 1 && row->lane == 0) {
        struct cell_beam *beam = cell_step_beam(&p->batch, row);
        const uint32_t width = beam->width;
        const uint32_t first = (beam - (row->search - 1))->width;
        memset(cell_step_choices(&p->batch, row, width), 0, 2 * width * sizeof(int32_t));
        beam->width = first < width ? first : width;
        cell_step_choose(p, at);
        beam->width = width;
        return;
    }
    cell_step_choose(p, at);
}

static void wrong_width(const struct cell_step *step, uint32_t n_items, bool is_backwards)
{
    (void)is_backwards;
    run_items(step, n_items, as_the_first);
}

/* Lanes go on with their own states, whoever they continue. */
static void wrong_parent(const struct cell_step *step, uint32_t n_items, bool is_backwards)
{
    (void)is_backwards;
    const struct cell_step_store_states *p = &step->store;
    for (uint32_t i = 0; i < n_items; i++) {
        const uint32_t r = i / p->words;
        uint32_t word = i % p->words;
        const uint32_t s = cell_step_value_of(p->values, &word);
        if (!cell_step_runs(&p->batch, r) || cell_step_row(&p->batch, r)->search == 0 ||
            s == TOKEN) {
            cell_step_store(p, (struct cell_step_at){.item = i, .n_items = n_items});
            continue;
        }
        const struct cell_step_row *row = cell_step_row(&p->batch, r);
        cell_step_slot(&p->batch, row, s, cell_step_taken(&p->batch, row) + 1)[word] =
            cell_step_words(p->values[s].place, r)[word];
    }
}

START_TEST(test_one_thing_wrong_is_noticed)
{
    static const struct {
        enum cell_step_kernel kernel;
        kernels_host_fn *run;
    } wrong[] = {{CELL_STEP_CHOOSE, wrong_ties},
                 {CELL_STEP_CHOOSE, wrong_last},
                 {CELL_STEP_CHOOSE, wrong_width},
                 {CELL_STEP_STORE, wrong_parent}};
    kernels_host_replace(wrong[_i].kernel, wrong[_i].run);
    const uint32_t n_wrong = run_case(&cases[0]);
    kernels_host_replace(wrong[_i].kernel, NULL);
    ck_assert_uint_gt(n_wrong, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device_search");
    TCase *tcase = tcase_create("cuda-host");
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, test_searches_have_the_bits_of_the_cpu, 0,
                        sizeof(cases) / sizeof(cases[0]));
    tcase_add_loop_test(tcase, test_one_thing_wrong_is_noticed, 0, 4);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
