/* See calibrate.h.
 *
 * A *sample* is one batch: some rows, each a fresh chain of some steps, computed in one way. All
 * samples are taken once before any is taken twice, the ways of one number of rows in turns, and
 * the shortest of each counts: what else the machine does only ever makes a sample longer. Small
 * types get many rounds, large ones as many as the time allows, perhaps not a whole one; then what
 * is missing is the most rows. The lengths of fills come from the second round on.
 *
 * Memory: taken at the start, given back at the end. Cost: the budget at most. */
#include "worker/calibrate.h"

#include "base/arena.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/random.h"

#include <string.h>

#define ROUNDS 24u
#define SEED   1u

/* Steps of a sample: a whole number of fills of each length; with more rows windows are filled in
 * shorter pieces anyway. */
#define STEPS_FEW_ROWS  32u
#define STEPS_MANY_ROWS 16u
#define FEW_ROWS        4u

/* Without windows one step is like another: where a step is long, so many are enough. */
#define STEPS_PLAIN  4u
#define LONG_STEP_NS (50 * BASE_NS_PER_US)

/* A sample of a small type is repeated for so long, and the shortest batch counts. */
#define SAMPLE_NS   (100 * BASE_NS_PER_US)
#define REPEATS_MAX 64u

/* Lengths of fills are tried where windows matter most. */
#define FILL_ROWS_MAX 8u

/* Fewer rows are nobody's but one member's. */
#define APART_ROWS_MIN 2u

/* Rows of an input; row r reads number r at its first step, r + 1 at its second. */
#define INPUT_ROWS  (CELL_CALIBRATION_ROWS_MAX + STEPS_FEW_ROWS)
#define MEMORY_ROWS 24u /* of an input with many rows (ATTEND, REDUCE) */

/* Ids of an input that no table is read by. */
#define IDS 16u

struct measuring {
    const struct wrk_calibrate_options *options;
    const struct cell_type *type;
    struct cell_calibration *result;
    uint32_t ahead_rows_max; /* rows that can use windows on this device */
    uint64_t deadline_ns;
    uint64_t first_step_ns;   /* of one row, before anything is known */
    uint64_t ran_ns, cost_ns; /* of all batches, by the clock and as they count */
    uint64_t known_ns;        /* of a step of known_rows, the most that have been measured */
    uint32_t known_rows;
    struct base_arena arena;
    struct cell_wiring wirings[CELL_CALIBRATION_ROWS_MAX];
    struct cell_refs refs[CELL_CALIBRATION_ROWS_MAX];
    struct cell_batch_row rows[CELL_CALIBRATION_ROWS_MAX];
    enum base_status status; /* of the first batch that failed */
};

static uint64_t now(const struct measuring *m)
{
    return m->options->now_ns != NULL ? m->options->now_ns() : base_now_ns();
}

/* What a sample costs: of CPU time where the caller computes alone, which its neighbours on the
 * machine only disturb through the caches. */
static uint64_t cost(const struct measuring *m)
{
    bool by_cpu = m->options->is_alone && m->options->now_ns == NULL;
    return by_cpu ? base_thread_cpu_ns() : now(m);
}

/* ---- Rows ----------------------------------------------------------------------------------- */

static size_t row_bytes(struct cell_value value)
{
    return (size_t)value.width * cell_dtype_bytes(value.dtype);
}

/* Ids of an input are below this: those of the table that it is looked up in. */
static uint32_t id_bound(const struct cell_def *def, uint32_t input)
{
    const uint32_t bound = cell_def_id_bound(def, input);
    return bound == 0 ? IDS : bound;
}

/* Random rows of a value, one behind another; NULL when out of memory. */
static uint8_t *random_rows(struct measuring *m, struct cell_value value, uint32_t rows,
                            uint32_t ids, struct base_random *random)
{
    const size_t element = cell_dtype_bytes(value.dtype);
    uint8_t *data = base_arena_array(&m->arena, rows, row_bytes(value));
    for (size_t i = 0; i < (size_t)rows * value.width && data != NULL; i++) {
        if (value.dtype == CELL_F32) {
            float x = base_random_f32(random, -1.0f, 1.0f);
            memcpy(data + i * element, &x, sizeof(x));
        } else {
            uint32_t id = base_random_below(random, ids);
            memcpy(data + i * element, &id, sizeof(id)); // little-endian; the rest is zero
        }
    }
    return data;
}

static struct cell_ref host_ref(uint8_t *data, size_t bytes, uint32_t row, size_t stride)
{
    return (struct cell_ref){
        .kind = CELL_REF_HOST, .host = data + row * bytes, .stride_bytes = (int64_t)stride};
}

/* Every row reads inputs and first states of its own, and writes its outputs at every step. */
static bool make_rows(struct measuring *m)
{
    const struct cell_def *def = &m->type->def;
    const uint32_t n_rows = m->result->rows_limit;
    struct base_random random;
    base_random_init(&random, SEED);
    struct cell_emit *emits =
        base_arena_array(&m->arena, (size_t)n_rows * CELL_OUTPUTS_MAX, sizeof(*emits));
    bool has_all = emits != NULL;
    for (uint32_t r = 0; r < n_rows && has_all; r++) {
        m->wirings[r] = (struct cell_wiring){
            .state = r, .n_emits = def->n_outputs, .emits = emits + (size_t)r * CELL_OUTPUTS_MAX};
        cell_wiring_use(&m->wirings[r], &m->refs[r]);
    }
    for (uint32_t i = 0; i < def->n_inputs && has_all; i++) {
        size_t bytes = row_bytes(def->values[i]);
        const uint32_t n = INPUT_ROWS + MEMORY_ROWS;
        uint8_t *data = random_rows(m, def->values[i], n, id_bound(def, i), &random);
        has_all = data != NULL;
        for (uint32_t r = 0; r < n_rows && has_all; r++) {
            m->wirings[r].inputs[i] = host_ref(data, bytes, r, bytes);
            m->wirings[r].inputs[i].rows = MEMORY_ROWS;
        }
    }
    for (uint32_t s = 0; s < def->n_states && has_all; s++) {
        struct cell_value value = def->values[def->n_inputs + s];
        uint8_t *data = random_rows(m, value, n_rows, IDS, &random);
        has_all = data != NULL;
        for (uint32_t r = 0; r < n_rows && has_all; r++) {
            m->wirings[r].init[s] = host_ref(data, row_bytes(value), r, 0);
        }
    }
    for (uint32_t o = 0; o < def->n_outputs && has_all; o++) {
        size_t bytes = row_bytes(def->values[def->outputs[o]]);
        uint8_t *data = base_arena_array(&m->arena, n_rows, bytes);
        has_all = data != NULL;
        for (uint32_t r = 0; r < n_rows && has_all; r++) {
            m->wirings[r].emits[o] = (struct cell_emit){.what = CELL_EMIT_OUTPUT,
                                                        .when = CELL_EMIT_EACH,
                                                        .index = o,
                                                        .to = host_ref(data, bytes, r, 0)};
        }
    }
    return has_all;
}

/* ---- Samples -------------------------------------------------------------------------------- */

/* One batch; how long it took. Chain 0 keeps no window, so each begins without. */
static uint64_t run_batch(struct measuring *m, uint32_t n_rows, uint32_t steps)
{
    const struct wrk_calibrate_options *options = m->options;
    for (uint32_t r = 0; r < n_rows; r++) {
        m->wirings[r].steps = steps;
        m->rows[r] = (struct cell_batch_row){.wiring = &m->wirings[r], .steps = steps};
    }
    struct cell_batch batch = {.type = m->type,
                               .queue = options->queue,
                               .n_rows = n_rows,
                               .steps = steps,
                               .rows = m->rows};
    uint64_t start_ns = now(m);
    uint64_t start_cost_ns = cost(m);
    options->backend->submit(options->device, options->queue, &batch);
    bool ran = options->backend->pump(options->device, options->queue);
    uint64_t took_ns = cost(m) - start_cost_ns;
    m->ran_ns += now(m) - start_ns;
    m->cost_ns += took_ns;
    base_assert(ran);
    m->status = m->status == BASE_OK ? batch.status : m->status;
    return took_ns;
}

static uint32_t sample_steps(const struct measuring *m, enum cell_variant variant, uint32_t point)
{
    if (m->type->state_layout == CELL_LAYOUT_NONE) {
        return 1; // its steps would be cells of one batch
    }
    if (variant == CELL_VARIANT_PLAIN && m->first_step_ns > LONG_STEP_NS) {
        return STEPS_PLAIN;
    }
    return cell_calibration_rows[point] <= FEW_ROWS ? STEPS_FEW_ROWS : STEPS_MANY_ROWS;
}

/* How long a batch will take by the clock, from what is known so far: where the caller gets half of
 * a CPU, twice as long as it costs. */
static uint64_t expected_ns(const struct measuring *m, enum cell_variant variant, uint32_t point)
{
    const uint64_t plain_ns = m->result->step_ns[CELL_VARIANT_PLAIN][point];
    const uint32_t rows = cell_calibration_rows[point];
    uint64_t step_ns = m->known_ns * (rows > m->known_rows ? rows : m->known_rows) / m->known_rows;
    step_ns = plain_ns > 0 ? plain_ns : step_ns;
    if (m->result->step_ns[variant][point] > 0) {
        step_ns = m->result->step_ns[variant][point];
    }
    double slowness = m->cost_ns == 0 ? 1.0 : (double)m->ran_ns / (double)m->cost_ns;
    return (uint64_t)((double)step_ns * sample_steps(m, variant, point) * slowness);
}

/* Makes the device compute in one way. false: this many rows never are. */
static bool set_variant(const struct measuring *m, enum cell_variant variant, uint32_t point)
{
    const struct wrk_calibrate_options *options = m->options;
    const uint32_t rows = cell_calibration_rows[point];
    struct cell_tuning tuning = {.fill_steps = cell_variant_fill_steps(variant)};
    if (variant == CELL_VARIANT_SOLO) {
        if (!cell_calibration_has(m->result, CELL_TUNABLE_TEAM) ||
            rows > CELL_CALIBRATION_SOLO_ROWS_MAX) {
            return false;
        }
        tuning = m->result->own;
        tuning.solo_rows = CELL_CALIBRATION_SOLO_ROWS_MAX;
        tuning.apart_rows = 0;
    } else if (variant == CELL_VARIANT_APART) {
        if (!cell_calibration_has(m->result, CELL_TUNABLE_APART) || rows < APART_ROWS_MIN) {
            return false;
        }
        tuning = m->result->own;
        tuning.solo_rows = 0;
        tuning.apart_rows = APART_ROWS_MIN;
    } else if (variant != CELL_VARIANT_PLAIN) {
        bool is_length = variant != CELL_VARIANT_AHEAD;
        if (rows > m->ahead_rows_max || (is_length && rows > FILL_ROWS_MAX)) {
            return false;
        }
        tuning.ahead_rows = m->ahead_rows_max;
    }
    if (m->result->tunable != 0) {
        options->backend->type_tune(options->device, m->type, &tuning);
    }
    return true;
}

static void sample(struct measuring *m, enum cell_variant variant, uint32_t point)
{
    uint64_t *best_ns = &m->result->step_ns[variant][point];
    const uint32_t steps = sample_steps(m, variant, point);
    uint64_t start_ns = now(m);
    uint64_t end_ns = start_ns;
    if (!set_variant(m, variant, point)) {
        return;
    }
    for (uint32_t i = 0; i < REPEATS_MAX && end_ns - start_ns < SAMPLE_NS; i++) {
        if (end_ns + expected_ns(m, variant, point) > m->deadline_ns) {
            return;
        }
        uint64_t took_ns = run_batch(m, cell_calibration_rows[point], steps);
        uint64_t step_ns = took_ns / steps + 1; // 0 is for what was not measured
        *best_ns = *best_ns == 0 || step_ns < *best_ns ? step_ns : *best_ns;
        end_ns = now(m);
    }
    if (*best_ns > 0 && cell_calibration_rows[point] >= m->known_rows) {
        m->known_ns = *best_ns;
        m->known_rows = cell_calibration_rows[point];
    }
}

/* Each way at each number of rows; the ways forwards and backwards in turn. */
static void run_round(struct measuring *m, uint32_t round)
{
    for (uint32_t p = 0; p < CELL_CALIBRATION_POINTS; p++) {
        if (cell_calibration_rows[p] > m->result->rows_limit) {
            return;
        }
        const uint32_t n = round == 0 ? CELL_VARIANT_AHEAD_8 : CELL_VARIANTS;
        for (uint32_t i = 0; i < n; i++) {
            sample(m, (enum cell_variant)(round % 2 == 0 ? i : n - 1 - i), p);
        }
    }
}

/* ---- All of it ------------------------------------------------------------------------------ */

/* What there is to choose, and the device's own choice. */
static void ask_device(struct measuring *m)
{
    const struct wrk_calibrate_options *options = m->options;
    const struct cell_backend *backend = options->backend;
    struct cell_calibration *result = m->result;
    if (backend->type_tune == NULL) {
        return;
    }
    backend->type_tune(options->device, m->type, NULL); // whatever was set before
    result->tunable = backend->type_tuning(options->device, m->type, &result->own);
    if (!cell_calibration_has(result, CELL_TUNABLE_WINDOWS)) {
        return;
    }
    const struct cell_tuning most = {.ahead_rows = UINT32_MAX};
    struct cell_tuning got = {0};
    backend->type_tune(options->device, m->type, &most);
    (void)backend->type_tuning(options->device, m->type, &got);
    m->ahead_rows_max = got.ahead_rows;
}

enum base_status wrk_calibrate(const struct wrk_calibrate_options *options,
                               const struct cell_type *type, struct cell_calibration *out,
                               struct base_error *error)
{
    base_assert(options->rows_limit >= 1);
    struct measuring m = {.options = options, .type = type, .result = out};
    *out = (struct cell_calibration){.rows_limit = options->rows_limit};
    if (out->rows_limit > CELL_CALIBRATION_ROWS_MAX) {
        out->rows_limit = CELL_CALIBRATION_ROWS_MAX;
    }
    m.deadline_ns = base_deadline_after(now(&m), options->budget_ns);
    base_arena_init(&m.arena, 64 << 10, SIZE_MAX / 2);
    if (!make_rows(&m)) {
        base_arena_release(&m.arena);
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "out of memory");
    }
    ask_device(&m);
    (void)set_variant(&m, CELL_VARIANT_PLAIN, 0);
    m.first_step_ns = run_batch(&m, 1, 1);
    m.known_ns = m.first_step_ns;
    m.known_rows = 1;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        run_round(&m, round);
    }
    if (out->tunable != 0) {
        options->backend->type_tune(options->device, type, NULL);
    }
    base_arena_release(&m.arena);
    return m.status == BASE_OK ? BASE_OK
                               : base_fail(error, m.status, "a batch of the calibration failed");
}
