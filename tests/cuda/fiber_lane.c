/* The host of a one-SM lane in the emulator; see fiber_lane.h. It runs between two fibers. */
#define CELL_LANE_TRACE
#define CELL_WORD_TRACE
#include "tests/cuda/fiber_lane.h"
#include "cells/lane/host.c" // NOLINT(bugprone-suspicious-include): so that its accesses are heard

#include "base/mem.h"
#include "cells/bf16.h"
#include "tests/lane/rig.h"
#include "tests/util.h"

#include <math.h>

#define RAW 0xFFFFu /* in the place of an op: nothing of the task is known */

void fiber_lane_options_init(struct fiber_lane_options *options,
                             const struct fiber_lane_kernel *kernel)
{
    *options = (struct fiber_lane_options){.kernel = kernel,
                                           .units = kernel->menu.units,
                                           .inputs = 8,
                                           .chains = 3,
                                           .steps = 5,
                                           .one_in = 2,
                                           .seed = 1,
                                           .bound_ns = 1000000000,
                                           .park_ns = 1000000000};
}

/* ---- Model and chains ---- */

static void *some(size_t bytes)
{
    void *memory = base_alloc_aligned(bytes, CELL_LANE_LINE_BYTES);
    ck_assert_ptr_nonnull(memory);
    return memory;
}

static float *random_floats(struct fiber_lane *rig, size_t n, float scale)
{
    float *floats = some(n * sizeof(float));
    for (size_t i = 0; i < n; i++) {
        floats[i] = base_random_f32(&rig->random, -scale, scale);
    }
    return floats;
}

static void make_model(struct fiber_lane *rig)
{
    const struct fiber_lane_options *options = &rig->options;
    const uint32_t gates = options->kind == CELL_SM_LSTM ? 4 : 3;
    const size_t rows = (size_t)gates * options->units;
    rig->w = random_floats(rig, rows * options->inputs, 1.0f);
    rig->r = random_floats(rig, rows * options->units, 2.0f / sqrtf((float)options->units));
    rig->b_w = random_floats(rig, rows, 0.5f);
    rig->b_r = random_floats(rig, rows, 0.5f);
    rig->gated = (struct cell_gated){
        .kind = options->kind == CELL_SM_LSTM ? CELL_GATED_LSTM : CELL_GATED_GRU,
        .precision = CELL_FP32, // bf16 lanes are held to a definition of their own
        .inputs = options->inputs,
        .feedback = options->units,
        .hidden = options->units,
        .w = rig->w,
        .r = rig->r,
        .b_w = rig->b_w,
        .b_r = rig->b_r};
    ck_assert_int_eq(cell_kernels__scalar.gated_load(&rig->gated), BASE_OK);
    const struct cell_sm_layout layout =
        cell_sm_layout_of(&rig->gated, &options->kernel->menu, options->is_given);
    rig->weights = some(layout.bytes);
    cell_sm_pack(&rig->gated, &options->kernel->menu, options->is_given, rig->weights);
    fiber_watch(rig->weights, layout.bytes, "weights");
    const size_t shared_bytes = cell_sm_shared_bytes(&options->kernel->menu, &layout);
    rig->launch.shared = some(shared_bytes);
    fiber_watch(rig->launch.shared, shared_bytes, "shared memory");
    for (size_t i = 0; i < shared_bytes; i++) {
        ((uint8_t *)rig->launch.shared)[i] = (uint8_t)base_random_below(&rig->random, 256);
    }
}

/* As who computes them ahead: bias, then a fused multiply-add a term. */
static void compute_sums(struct fiber_lane *rig, struct fiber_lane_chain *chain)
{
    const struct cell_gated *gated = &rig->gated;
    for (uint32_t step = 0; step < chain->steps; step++) {
        for (uint32_t row = 0; row < gated->columns * gated->hidden; row++) {
            const bool is_late = gated->kind == CELL_GATED_GRU && row >= 2 * gated->hidden;
            float sum = is_late ? rig->b_w[row] : rig->b_w[row] + rig->b_r[row];
            for (uint32_t k = 0; k < gated->inputs; k++) {
                sum = fmaf(chain->x[step][k], rig->w[(size_t)row * gated->inputs + k], sum);
            }
            chain->sums[step][row] = sum;
        }
    }
}

static void make_chains(struct fiber_lane *rig)
{
    const struct fiber_lane_options *options = &rig->options;
    uint32_t ids[FIBER_LANE_CHAINS];
    rig->chains = some(options->chains * sizeof(*rig->chains));
    fiber_watch(rig->chains, options->chains * sizeof(*rig->chains), "requests");
    for (uint32_t i = 0; i < options->chains; i++) {
        struct fiber_lane_chain *chain = &rig->chains[i];
        const uint32_t at = base_random_below(&rig->random, i + 1);
        ids[i] = ids[at];
        ids[at] = i;
        memset(chain->out, 0xFF, sizeof(chain->out));
        memset(chain->last, 0xFF, sizeof(chain->last));
        chain->steps =
            options->is_calm ? options->steps : 1 + base_random_below(&rig->random, options->steps);
        chain->has_init = base_random_below(&rig->random, 2) == 0;
        for (uint32_t k = 0; k < 2 * options->units; k++) {
            // What a bf16 lane reads of it, it reads rounded: no other definition of step 0.
            const float value = base_random_f32(&rig->random, -1.0f, 1.0f);
            chain->init[k] = k < options->units && options->kernel->menu.is_bf16
                                 ? cell_bf16_widen(cell_bf16_round(value))
                                 : value;
        }
        for (uint32_t step = 0; step < chain->steps; step++) {
            for (uint32_t k = 0; k < options->inputs; k++) {
                const bool is_wild = options->is_wild && base_random_below(&rig->random, 9) == 0;
                chain->x[step][k] = is_wild
                                        ? (base_random_below(&rig->random, 2) == 0 ? INFINITY : NAN)
                                        : base_random_f32(&rig->random, -1.0f, 1.0f);
            }
        }
        compute_sums(rig, chain);
    }
    for (uint32_t i = 0; i < options->chains; i++) {
        rig->chains[i].id = ids[i];
    }
}

/* ---- Life ---- */

void fiber_lane_init(struct fiber_lane *rig, const struct fiber_lane_options *options)
{
    memset(rig, 0, sizeof(*rig));
    rig->options = *options;
    base_random_init(&rig->random, options->seed);
    ck_assert_uint_le(options->chains, FIBER_LANE_CHAINS);
    ck_assert_uint_le(options->steps, FIBER_LANE_STEPS);
    make_model(rig);
    make_chains(rig);
    ck_assert(lane_rig_init(&rig->lane, FIBER_LANE_SLOTS, CELL_SM_ROWS_MAX, CELL_LANE_FORM_TAGGED));
    const size_t n_rows = (size_t)FIBER_LANE_SLOTS * CELL_SM_ROWS_MAX;
    rig->rows = some(n_rows * sizeof(*rig->rows));
    struct cell_sm_args *args = &rig->launch.args;
    cell_lane_rows_init(&args->rows, options->chains);
    cell_lane_rows_add(&args->rows, options->units * 4, true);
    if (options->kind == CELL_SM_LSTM) {
        cell_lane_rows_add(&args->rows, options->units * 4, false);
    }
    rig->memory = some(args->rows.bytes);
    memset(rig->memory, 0xFF, args->rows.bytes); // a row that another chain has left is not trusted
    fiber_watch(rig->memory, args->rows.bytes, "rows");
    fiber_watch(rig->rows, n_rows * sizeof(*rig->rows), "rows of tasks");
    fiber_watch(rig->lane.row_ids, n_rows * sizeof(uint32_t), "row ids");
    fiber_watch(rig->lane.outcomes, n_rows * sizeof(uint32_t), "outcomes");
    fiber_watch(rig->lane.results, FIBER_LANE_SLOTS * sizeof(*rig->lane.results), "results");
    fiber_watch(rig->lane.slots, FIBER_LANE_SLOTS * sizeof(*rig->lane.slots), "slots");
    fiber_watch(rig->lane.control, sizeof(*rig->lane.control), "control words");
    args->lane = rig->lane;
    args->memory = rig->memory;
    args->weights = rig->weights;
    args->units = options->units;
    args->inputs = options->is_given ? 0 : options->inputs;
    args->index = 7;
    args->bound_ns = (uint32_t)options->bound_ns;
    args->busy_idle_ns = options->park_ns / 2;
    args->park_ns = options->park_ns;
    rig->launch.kind = options->kind;
    cell_lane_host_init(&rig->host, &rig->lane, 0);
}

void fiber_lane_release(struct fiber_lane *rig)
{
    cell_gated_release(&rig->gated);
    lane_rig_release(&rig->lane);
    base_free(rig->w);
    base_free(rig->r);
    base_free(rig->b_w);
    base_free(rig->b_r);
    base_free(rig->memory);
    base_free(rig->weights);
    base_free(rig->launch.shared);
    base_free(rig->rows);
    base_free(rig->chains);
}

/* ---- Tasks ---- */

static uint64_t address(const void *at)
{
    return (uint64_t)(uintptr_t)at;
}

/* The next `steps` steps of a chain. */
static void describe(const struct fiber_lane *rig, struct fiber_lane_chain *chain, uint32_t steps,
                     struct cell_sm_row *to)
{
    const bool is_given = rig->options.is_given;
    const uint32_t first = chain->submitted;
    float *x = is_given ? chain->sums[first] : chain->x[first];
    *to = (struct cell_sm_row){.x = address(x),
                               .x_stride = is_given ? (int64_t)sizeof(chain->sums[0])
                                                    : (int64_t)sizeof(chain->x[0]),
                               .out = address(chain->out[first]),
                               .out_stride = (int64_t)sizeof(chain->out[0]),
                               .init = chain->has_init ? address(chain->init) : 0,
                               .last = address(chain->last),
                               .first_step = first,
                               .steps = steps,
                               .flags = first + steps == chain->steps ? CELL_SM_ROW_LAST : 0};
    if (chain->id % 2 == 1) { // the same places, told apart
        to->flags |= CELL_SM_ROW_APART;
        to->init_c = chain->has_init ? address(chain->init + rig->options.units) : 0;
        to->last_c = address(chain->last + rig->options.units);
    }
    if (first == 0) { // its input comes with its first task
        fiber_host_touch(chain->x, sizeof(chain->x), true);
        fiber_host_touch(chain->sums, sizeof(chain->sums), true);
        fiber_host_touch(chain->init, sizeof(chain->init), true);
    }
}

static uint32_t publish(struct fiber_lane *rig, struct cell_lane_task *task, const uint32_t *chains,
                        uint32_t n_chains)
{
    const uint32_t slot = cell_lane_index(&rig->lane, rig->host.submitted + 1);
    uint32_t ids[CELL_SM_ROWS_MAX] = {0};
    for (uint32_t i = 0; i < n_chains; i++) {
        ids[i] = rig->chains[chains[i]].id;
        rig->tasks[slot].chains[i] = chains[i];
    }
    rig->tasks[slot].n_rows = n_chains;
    rig->tasks[slot].op = task->op;
    cell_lane_host_rows(&rig->host, task, ids, n_chains);
    if ((task->flags & CELL_LANE_ROWS_BY_OFFSET) != 0) {
        fiber_host_touch(rig->lane.row_ids + task->rows_off, n_chains * sizeof(uint32_t), true);
    }
    (void)cell_lane_host_submit(&rig->host, task);
    return slot;
}

void fiber_lane_submit_op(struct fiber_lane *rig, uint16_t op, const uint32_t *chains,
                          uint32_t n_chains)
{
    struct cell_lane_task task = {.op = op};
    (void)publish(rig, &task, chains, n_chains);
}

void fiber_lane_submit_raw(struct fiber_lane *rig, const struct cell_lane_task *task)
{
    rig->tasks[cell_lane_index(&rig->lane, rig->host.submitted + 1)].op = RAW;
    (void)cell_lane_host_submit(&rig->host, task);
}

void fiber_lane_submit(struct fiber_lane *rig, const uint32_t *chains, uint32_t n_chains,
                       uint32_t k_steps, uint32_t flags)
{
    const uint32_t slot = cell_lane_index(&rig->lane, rig->host.submitted + 1);
    struct cell_sm_row *rows = &rig->rows[(size_t)slot * CELL_SM_ROWS_MAX];
    fiber_host_touch(rows, n_chains * sizeof(*rows), true);
    for (uint32_t i = 0; i < n_chains; i++) {
        struct fiber_lane_chain *chain = &rig->chains[chains[i]];
        const uint32_t left = chain->steps - chain->submitted;
        const uint32_t steps = left < k_steps ? left : k_steps;
        describe(rig, chain, steps, &rows[i]);
        rig->tasks[slot].steps[i] = steps;
        chain->submitted += steps;
        chain->pending++;
        chain->is_open = (flags & CELL_LANE_INTERRUPTIBLE) != 0;
    }
    struct cell_lane_task task = {.op = CELL_LANE_RUN,
                                  .k_steps = (uint16_t)k_steps,
                                  .flags = flags,
                                  .x_ref = address(rows),
                                  .user_tag = rig->host.submitted + 1};
    (void)publish(rig, &task, chains, n_chains);
}

/* ---- Results ---- */

static void note_wrong(struct fiber_lane *rig, const char *text)
{
    if (rig->wrong++ == 0 && text != rig->text) {
        (void)snprintf(rig->text, sizeof(rig->text), "%s", text);
    }
}

static void settle_row(struct fiber_lane *rig, uint32_t slot, uint32_t i, uint32_t outcome)
{
    struct fiber_lane_chain *chain = &rig->chains[rig->tasks[slot].chains[i]];
    const uint32_t steps = rig->tasks[slot].steps[i];
    if (outcome > steps || outcome == 0) {
        note_wrong(rig, "an outcome is not one of the row's steps");
        return;
    }
    rig->interrupted += outcome < steps;
    fiber_host_touch(chain->out[chain->done], outcome * sizeof(chain->out[0]), false);
    chain->done += outcome;
    chain->submitted -= steps - outcome;
    chain->pending--;
    chain->is_open = chain->is_open && chain->pending > 0;
    if (chain->done == chain->steps) {
        fiber_host_touch(chain->last, sizeof(chain->last), false);
    }
    const char *wrong = fiber_lane_compare(rig, chain);
    if (wrong != NULL) {
        note_wrong(rig, wrong);
    }
}

static void settle(struct fiber_lane *rig, uint64_t seq)
{
    const uint32_t slot = cell_lane_index(&rig->lane, seq);
    const struct cell_lane_result *result = &rig->lane.results[slot];
    fiber_host_touch(result, sizeof(*result), false);
    rig->statuses[slot] = result->status;
    if (rig->tasks[slot].op == RAW) {
        return;
    }
    if (result->status != BASE_OK) {
        note_wrong(rig, "a task has failed");
    }
    if (rig->tasks[slot].op != CELL_LANE_RUN) {
        return;
    }
    const uint32_t *outcomes = rig->lane.outcomes + (size_t)slot * rig->lane.rows_max;
    fiber_host_touch(outcomes, rig->tasks[slot].n_rows * sizeof(*outcomes), false);
    for (uint32_t i = 0; i < rig->tasks[slot].n_rows && rig->wrong == 0; i++) {
        settle_row(rig, slot, i, outcomes[i]);
    }
}

void fiber_lane_look(struct fiber_lane *rig)
{
    // The host asserts it; here it is one more thing to notice.
    if (atomic_load_explicit(&rig->lane.control->completed, memory_order_relaxed) >
        rig->host.submitted) {
        note_wrong(rig, "a task is complete that was not submitted");
        return;
    }
    cell_lane_host_look(&rig->host, fiber_now_ns());
    for (uint64_t seq = cell_lane_host_next(&rig->host); seq != 0;
         seq = cell_lane_host_next(&rig->host)) {
        settle(rig, seq);
    }
    while (cell_lane_host_next_failed(&rig->host) != 0) {
        rig->failed++;
    }
}

/* ---- Driving ---- */

static bool is_finished(const struct fiber_lane *rig)
{
    for (uint32_t i = 0; i < rig->options.chains; i++) {
        if (rig->chains[i].done < rig->chains[i].steps) {
            return false;
        }
    }
    return true;
}

/* A batch of chains that have steps left, as they come. A chain may be in two tasks, one behind the
 * other, unless the first may end early. */
static void submit_some(struct fiber_lane *rig)
{
    uint32_t chains[FIBER_LANE_CHAINS];
    uint32_t n = 0;
    const bool is_calm = rig->options.is_calm;
    for (uint32_t i = 0; i < rig->options.chains; i++) {
        const struct fiber_lane_chain *chain = &rig->chains[i];
        const bool can = chain->submitted < chain->steps && !chain->is_open && chain->pending < 2 &&
                         !(rig->options.is_alone && n > 0);
        if (can && (is_calm || base_random_below(&rig->random, 4) != 0)) {
            chains[n++] = i;
        }
    }
    if (n == 0) {
        return;
    }
    const uint32_t steps = is_calm ? rig->options.steps : 1 + base_random_below(&rig->random, 4);
    const bool is_open = !is_calm && base_random_below(&rig->random, 2) == 0;
    fiber_lane_submit(rig, chains, n, steps, is_open ? CELL_LANE_INTERRUPTIBLE : 0);
}

/* One turn of the pool thread. */
static bool drive(void *context)
{
    struct fiber_lane *rig = context;
    fiber_lane_look(rig);
    if (rig->wrong > 0) {
        return false;
    }
    if (rig->host.end != 0 || rig->is_leaving) {
        return true;
    }
    if (is_finished(rig)) {
        rig->is_leaving = true;
        rig->tasks[cell_lane_index(&rig->lane, rig->host.submitted + 1)].op = CELL_LANE_EXIT;
        cell_lane_host_exit(&rig->host);
        return true;
    }
    if (!rig->options.is_calm) {
        cell_lane_attend(&rig->lane, base_random_below(&rig->random, 4) == 0);
    }
    if (cell_lane_host_has_room(&rig->host) &&
        base_random_below(&rig->random, rig->options.one_in) == 0) {
        submit_some(rig);
    }
    return true;
}

enum fiber_end fiber_lane_launch(struct fiber_lane *rig, bool (*host)(void *context))
{
    rig->launch.args.launch = cell_lane_host_launch(&rig->host, rig->options.tasks_max);
    rig->launches++;
    return fiber_run(rig->options.kernel->main, &rig->launch, host, rig);
}

const char *fiber_lane_run(struct fiber_lane *rig)
{
    while (rig->host.end != CELL_LANE_END_EXITED) {
        // Until there is something to run again.
        while (!cell_lane_host_wants_launch(&rig->host)) {
            submit_some(rig);
            if (is_finished(rig)) {
                return NULL; // it parked behind the last
            }
        }
        const enum fiber_end end = fiber_lane_launch(rig, drive);
        if (end != FIBER_VIOLATION) {
            fiber_lane_look(rig);
        }
        if (end == FIBER_VIOLATION) {
            return fiber_violation();
        }
        if (rig->wrong > 0) {
            return rig->text;
        }
        if (rig->host.faults > 0 || rig->host.end == 0) {
            return "the launch died";
        }
    }
    return NULL;
}
