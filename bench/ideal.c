/* The bare loop over a device.
 *
 * Data: one set of rows and wirings a queue, made anew for each measurement. Threads: where batches
 * run inside pump(), team q's loop runs on a thread of its own, the first on the caller's. A device
 * with threads or a card of its own is fed by the caller alone, as the pool thread would: each
 * queue has as many batches under way as the engine may have, one behind the other. */
#include "bench/ideal.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/cpus.h"
#include "base/mem.h"
#include "base/random.h"
#include "worker/team.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

#define SEED 2u

/* Chains are in mid-course: no initial state is read, no step is the last. */
#define FIRST_STEP 2u

struct bench_ideal {
    struct srv_engine_options options;
    const struct cell_registry *registry;
    const struct cell_model *cells;
    struct cell_team **teams;
    struct cell_device *device;
    bool is_pumped;
    bool loaded[CELL_TYPES_MAX];
};

/* A batch of a device that is not pumped, and its copy of the rows: the device writes into them. */
struct flight {
    struct cell_batch batch;
    struct cell_batch_row *rows;
};

/* One queue's loop. */
struct course {
    struct bench_ideal *ideal;
    uint32_t queue;
    const struct cell_type *type;
    uint32_t rows, steps;
    uint64_t window_ns;
    uint8_t *inputs[CELL_INPUTS_MAX]; /* [rows][chain_steps()][width] */
    struct cell_wiring *wirings;
    struct cell_refs *refs;
    struct cell_batch_row *batch_rows;
    struct flight *flights; /* [options.tasks_max]; of a device that is not pumped */
    uint64_t before;        /* the queue's counter when the loop began */
    uint64_t submitted, done;
    double cells_per_s; /* 0: a batch has failed */
    pthread_t thread;
};

static void *must(void *memory)
{
    base_assert(memory != NULL); // a benchmark without memory has nothing to say
    return memory;
}

/* ---- Batches ---- */

/* Ids that the type's tables hold, when the input is one: below this. */
static uint32_t id_bound(const struct cell_type *type, uint32_t input)
{
    const uint32_t bound = cell_def_id_bound(&type->def, input);
    return bound == 0 ? 1 : bound;
}

/* One step more than is run, so that no batch ends its chains: the device may read the inputs of
 * all.
 */
static size_t chain_steps(const struct course *course)
{
    return FIRST_STEP + course->steps + 1;
}

static void fill_input(const struct course *course, uint32_t input, struct base_random *random)
{
    struct cell_value shape = course->type->def.values[input];
    size_t count = course->rows * chain_steps(course) * shape.width;
    uint32_t bound = id_bound(course->type, input);
    for (size_t i = 0; i < count; i++) {
        uint8_t *to = course->inputs[input] + i * cell_dtype_bytes(shape.dtype);
        float real = base_random_f32(random, -1.0f, 1.0f);
        int64_t id = base_random_below(random, bound); // little-endian: its low half is the I32
        memcpy(to, shape.dtype == CELL_F32 ? (const void *)&real : (const void *)&id,
               cell_dtype_bytes(shape.dtype));
    }
}

static void course_init(struct course *course)
{
    const struct cell_def *def = &course->type->def;
    struct base_random random;
    base_random_init(&random, SEED + course->queue);
    course->wirings = must(base_alloc_array(course->rows, sizeof(*course->wirings)));
    course->refs = must(base_alloc_array(course->rows, sizeof(*course->refs)));
    for (uint32_t r = 0; r < course->rows; r++) {
        cell_wiring_use(&course->wirings[r], &course->refs[r]);
    }
    course->batch_rows = must(base_alloc_array(course->rows, sizeof(*course->batch_rows)));
    for (uint32_t i = 0; i < def->n_inputs; i++) {
        size_t row = (size_t)def->values[i].width * cell_dtype_bytes(def->values[i].dtype);
        size_t rows = course->rows * chain_steps(course);
        course->inputs[i] = must(base_alloc_aligned(rows * row, BASE_CACHE_LINE));
        fill_input(course, i, &random);
        for (uint32_t r = 0; r < course->rows; r++) {
            course->wirings[r].inputs[i] =
                (struct cell_ref){.kind = CELL_REF_HOST,
                                  .host = course->inputs[i] + r * chain_steps(course) * row,
                                  .stride_bytes = (int64_t)row};
        }
    }
    for (uint32_t r = 0; r < course->rows; r++) {
        struct cell_wiring *wiring = &course->wirings[r];
        wiring->steps = (uint32_t)chain_steps(course);
        wiring->state = def->n_states > 0 ? course->queue * course->rows + r : CELL_ROW_NONE;
        course->batch_rows[r] = (struct cell_batch_row){
            .wiring = wiring, .first_step = FIRST_STEP, .steps = course->steps};
    }
}

static void course_release(struct course *course)
{
    for (uint32_t i = 0; i < CELL_INPUTS_MAX; i++) {
        base_free(course->inputs[i]);
    }
    base_free(course->wirings);
    base_free(course->refs);
    base_free(course->batch_rows);
    for (uint32_t i = 0; course->flights != NULL && i < course->ideal->options.tasks_max; i++) {
        base_free(course->flights[i].rows);
    }
    base_free(course->flights);
}

/* ---- The loop, pumped ---- */

static bool run_batch(struct course *course)
{
    const struct cell_backend *backend = course->ideal->options.backend;
    struct cell_batch batch = {.type = course->type,
                               .queue = course->queue,
                               .n_rows = course->rows,
                               .steps = course->steps,
                               .rows = course->batch_rows};
    backend->submit(course->ideal->device, course->queue, &batch);
    bool ran = backend->pump(course->ideal->device, course->queue);
    base_assert(ran);
    return batch.status == BASE_OK;
}

static void *course_main(void *argument)
{
    struct course *course = argument;
    const struct srv_engine_options *options = &course->ideal->options;
    if (options->pin) {
        (void)base_cpus_pin_self(course->queue * options->team_threads);
    }
    bool is_right = run_batch(course); // warm
    uint64_t start_ns = base_now_ns();
    uint64_t now_ns = start_ns;
    uint64_t batches = 0;
    while (is_right && now_ns - start_ns < course->window_ns) {
        is_right = run_batch(course);
        batches++;
        now_ns = base_now_ns();
    }
    course->cells_per_s = is_right ? (double)(batches * course->rows * course->steps) /
                                         ((double)(now_ns - start_ns) * 1e-9)
                                   : 0;
    return NULL;
}

static void pump_all(struct course *courses, uint32_t n)
{
    for (uint32_t q = 1; q < n; q++) {
        int failed = pthread_create(&courses[q].thread, NULL, course_main, &courses[q]);
        base_assert(failed == 0);
    }
    course_main(&courses[0]);
    for (uint32_t q = 1; q < n; q++) {
        pthread_join(courses[q].thread, NULL);
    }
}

/* ---- The loop of a device that computes by itself ---- */

static void flights_init(struct course *course)
{
    const uint32_t depth = course->ideal->options.tasks_max;
    course->flights = must(base_alloc_array(depth, sizeof(*course->flights)));
    for (uint32_t i = 0; i < depth; i++) {
        struct flight *flight = &course->flights[i];
        flight->rows = must(base_alloc_array(course->rows, sizeof(*flight->rows)));
        flight->batch.status = BASE_OK; // as if it had been run
    }
    const struct bench_ideal *ideal = course->ideal;
    course->before = atomic_load_explicit(
        ideal->options.backend->completed(ideal->device, course->queue), memory_order_acquire);
}

/* What is complete is looked at; false: a batch has failed. */
static bool take_completed(struct course *course)
{
    const struct bench_ideal *ideal = course->ideal;
    const struct cell_backend *backend = ideal->options.backend;
    bool is_right = true;
    if (backend->poll != NULL) {
        backend->poll(ideal->device, course->queue, base_now_ns());
    }
    const uint64_t done = atomic_load_explicit(backend->completed(ideal->device, course->queue),
                                               memory_order_acquire) -
                          course->before;
    for (; course->done < done; course->done++) {
        const struct flight *flight = &course->flights[course->done % ideal->options.tasks_max];
        is_right &= flight->batch.status == BASE_OK;
    }
    return is_right;
}

static void submit_one(struct course *course)
{
    const struct bench_ideal *ideal = course->ideal;
    struct flight *flight = &course->flights[course->submitted % ideal->options.tasks_max];
    memcpy(flight->rows, course->batch_rows, course->rows * sizeof(*flight->rows));
    flight->batch = (struct cell_batch){.type = course->type,
                                        .queue = course->queue,
                                        .n_rows = course->rows,
                                        .steps = course->steps,
                                        .rows = flight->rows};
    ideal->options.backend->submit(ideal->device, course->queue, &flight->batch);
    course->submitted++;
}

/* Keeps all queues full for so long, then lets them run empty; false: a batch has failed. */
static bool feed(struct course *courses, uint32_t n, uint64_t window_ns)
{
    const uint32_t depth = courses[0].ideal->options.tasks_max;
    const uint64_t start_ns = base_now_ns();
    bool is_right = true;
    bool is_busy = true;
    for (bool is_open = true; is_open || is_busy;) {
        is_open = is_right && base_now_ns() - start_ns < window_ns;
        is_busy = false;
        for (uint32_t q = 0; q < n; q++) {
            is_right &= take_completed(&courses[q]);
            while (is_open && courses[q].submitted - courses[q].done < depth) {
                submit_one(&courses[q]);
            }
            is_busy |= courses[q].submitted != courses[q].done;
        }
        sched_yield(); // as the pool thread does
    }
    return is_right;
}

static void feed_all(struct course *courses, uint32_t n)
{
    for (uint32_t q = 0; q < n; q++) {
        submit_one(&courses[q]); // warm
    }
    bool is_right = feed(courses, n, 0);
    const uint64_t warm = courses[0].done; // one of each
    const uint64_t start_ns = base_now_ns();
    is_right = is_right && feed(courses, n, courses[0].window_ns);
    const double seconds = (double)(base_now_ns() - start_ns) * 1e-9;
    for (uint32_t q = 0; q < n; q++) {
        const uint64_t cells = (courses[q].done - warm) * courses[q].rows * courses[q].steps;
        courses[q].cells_per_s = is_right ? (double)cells / seconds : 0;
    }
}

double bench_ideal_cells_per_s(struct bench_ideal *ideal, const struct cell_type *type,
                               uint32_t rows, uint32_t steps, uint64_t ns)
{
    uint32_t n = ideal->options.teams;
    struct course *courses = must(base_alloc_array(n, sizeof(*courses)));
    double cells_per_s = 0;
    bool is_right = true;
    for (uint32_t q = 0; q < n; q++) {
        courses[q] = (struct course){.ideal = ideal,
                                     .queue = q,
                                     .type = type,
                                     .rows = rows,
                                     .steps = steps,
                                     .window_ns = ns};
        course_init(&courses[q]);
        if (!ideal->is_pumped) {
            flights_init(&courses[q]);
        }
    }
    if (ideal->is_pumped) {
        pump_all(courses, n);
    } else {
        feed_all(courses, n);
    }
    for (uint32_t q = 0; q < n; q++) {
        is_right &= courses[q].cells_per_s > 0;
        cells_per_s += courses[q].cells_per_s;
        course_release(&courses[q]);
    }
    base_free(courses);
    return is_right ? cells_per_s : 0;
}

/* ---- Life cycle ---- */

static enum base_status teams_create(struct bench_ideal *ideal, struct base_error *error)
{
    const struct srv_engine_options *options = &ideal->options;
    ideal->teams = must(base_alloc_array(options->teams, sizeof(struct cell_team *)));
    for (uint32_t t = 0; t < options->teams; t++) {
        struct wrk_team_options team = {.members = options->team_threads,
                                        .spin_ns = options->spin_ns,
                                        .first_cpu = t * options->team_threads,
                                        .pin = options->pin,
                                        .name = "ideal"};
        enum base_status status = wrk_team_create(&team, &ideal->teams[t]);
        if (status != BASE_OK) {
            return base_fail(error, status, "cannot start %u threads", options->team_threads);
        }
    }
    return BASE_OK;
}

static enum base_status load_type(struct bench_ideal *ideal, const struct cell_type *type,
                                  struct base_error *error)
{
    const struct cell_backend *backend = ideal->options.backend;
    if (ideal->loaded[type->id]) {
        return BASE_OK;
    }
    BASE_TRY(backend->type_load(ideal->device, type, error));
    ideal->loaded[type->id] = true;
    return BASE_OK;
}

static enum base_status open_rows(struct bench_ideal *ideal, struct base_error *error)
{
    bool opened[CELL_LAYOUTS_MAX] = {false};
    for (uint32_t s = 0; s < ideal->cells->n_stages; s++) {
        uint32_t layout = ideal->cells->stages[s].type->state_layout;
        if (layout == CELL_LAYOUT_NONE || opened[layout]) {
            continue;
        }
        opened[layout] = true;
        BASE_TRY(ideal->options.backend->rows_open(
            ideal->device, layout, cell_registry_layout(ideal->registry, layout),
            ideal->options.teams * ideal->options.batch_rows_max, error));
    }
    return BASE_OK;
}

static enum base_status device_open(struct bench_ideal *ideal, struct base_error *error)
{
    struct cell_device_options options = {.n_queues = ideal->options.teams,
                                          .teams = ideal->teams,
                                          .isa = ideal->options.isa,
                                          .batches_queued_max = ideal->options.tasks_max,
                                          .card = ideal->options.cards[0],
                                          .watchdog_ns = ideal->options.watchdog_ns};
    struct cell_device_caps caps;
    BASE_TRY(ideal->options.backend->open(&options, &ideal->device, error));
    ideal->options.backend->caps(ideal->device, &caps);
    ideal->is_pumped = caps.pumped;
    for (uint32_t s = 0; s < ideal->cells->n_stages; s++) {
        BASE_TRY(load_type(ideal, ideal->cells->stages[s].type, error));
    }
    return open_rows(ideal, error);
}

enum base_status bench_ideal_create(const struct srv_engine_options *options,
                                    const struct cell_registry *registry,
                                    const struct cell_model *cells, struct bench_ideal **out,
                                    struct base_error *error)
{
    struct bench_ideal *ideal = must(base_alloc(sizeof(*ideal)));
    ideal->options = *options;
    ideal->registry = registry;
    ideal->cells = cells;
    enum base_status status = teams_create(ideal, error);
    if (status == BASE_OK) {
        status = device_open(ideal, error);
    }
    if (status == BASE_OK) {
        *out = ideal;
    } else {
        bench_ideal_free(ideal);
    }
    return status;
}

void bench_ideal_free(struct bench_ideal *ideal)
{
    const struct cell_backend *backend = ideal->options.backend;
    for (uint32_t t = 0; t < CELL_TYPES_MAX; t++) {
        if (ideal->loaded[t]) {
            backend->type_unload(ideal->device, cell_registry_type(ideal->registry, t));
        }
    }
    if (ideal->device != NULL) {
        backend->close(ideal->device);
    }
    for (uint32_t t = 0; t < ideal->options.teams; t++) {
        wrk_team_free(ideal->teams[t]);
    }
    base_free((void *)ideal->teams);
    base_free(ideal);
}
