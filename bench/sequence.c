/* A device of its own for one cell type, with a state slot, a wiring and a batch row for each row.
 */
#include "bench/sequence.h"

#include "base/assert.h"
#include "base/mem.h"
#include "bench/small_ops.h"

struct bench_sequence {
    struct bench_sequence_options options;
    struct bench_data data; /* the caller's */
    struct cell_device *device;
    struct cell_registry *registry;
    const struct cell_type *type;
    struct cell_wiring *wirings;
    struct cell_refs *refs;
    struct cell_emit *emits;
    struct cell_batch_row *rows;
    uint64_t chains; /* begun so far */
};

static enum base_status define(const struct bench_sequence_options *options,
                               const struct bench_data *data, float **weights, struct cell_def *out,
                               struct base_error *error)
{
    if (options->ops == BENCH_OPS_SMALL) {
        return bench_small_ops_def(options->cell, &options->shape, data, weights, out, error);
    }
    bench_cell_def(options->cell, &options->shape, data, out);
    out->ops[0].precision = options->precision;
    return BASE_OK;
}

static enum base_status intern(struct bench_sequence *sequence, const struct bench_data *data,
                               struct base_error *error)
{
    struct cell_def *def = base_alloc(sizeof(*def));
    if (def == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "out of memory");
    }
    float *weights = NULL;
    bool is_new = false;
    enum base_status status = define(&sequence->options, data, &weights, def, error);
    if (status == BASE_OK) {
        status =
            cell_registry_intern(sequence->registry, def, "bench", &sequence->type, &is_new, error);
    }
    base_free(weights);
    base_free(def);
    return status;
}

static enum base_status load(struct bench_sequence *sequence, const struct bench_data *data,
                             struct base_error *error)
{
    const struct bench_sequence_options *options = &sequence->options;
    const struct cell_backend *backend = options->backend;
    struct cell_device_options device = {.n_queues = 1,
                                         .teams = &sequence->options.team,
                                         .isa = options->isa,
                                         .batches_queued_max = 1};
    BASE_TRY(backend->open(&device, &sequence->device, error));
    if (cell_registry_create(&sequence->registry) != BASE_OK) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "out of memory");
    }
    BASE_TRY(intern(sequence, data, error));
    BASE_TRY(backend->type_load(sequence->device, sequence->type, error));
    if (options->without_windows) {
        struct cell_tuning tuning;
        (void)backend->type_tuning(sequence->device, sequence->type, &tuning);
        tuning.ahead_rows = 0;
        backend->type_tune(sequence->device, sequence->type, &tuning);
    }
    uint32_t layout = sequence->type->state_layout;
    return backend->rows_open(sequence->device, layout,
                              cell_registry_layout(sequence->registry, layout), options->shape.rows,
                              error);
}

/* Row r's part of a tensor [steps, rows, width] from step `first` on. */
static struct cell_ref host_ref(const struct bench_shape *shape, float *tensor, uint32_t width,
                                uint32_t r, uint32_t first)
{
    size_t stride = (size_t)shape->rows * width;
    return (struct cell_ref){.kind = CELL_REF_HOST,
                             .host = (uint8_t *)(tensor + first * stride + (size_t)r * width),
                             .stride_bytes = (int64_t)(stride * sizeof(float))};
}

/* Slots as a server has them that has run for a while: neighbouring rows of a batch do not have
 * neighbouring ones. Every second one first. */
static uint32_t slot_of(uint32_t row, uint32_t rows)
{
    return 2 * row % rows + (rows % 2 == 0 ? 2 * row / rows : 0);
}

void bench_sequence_wire(const struct bench_sequence *sequence, uint32_t row, uint32_t first,
                         struct cell_emit *emit, struct cell_refs *refs, struct cell_wiring *out)
{
    const struct bench_shape *shape = &sequence->options.shape;
    float *const *tensors = sequence->data.tensors;
    *emit = (struct cell_emit){.what = CELL_EMIT_OUTPUT,
                               .when = CELL_EMIT_EACH,
                               .to = host_ref(shape, tensors[BENCH_Y], shape->hidden, row, first)};
    *out = (struct cell_wiring){.steps = shape->steps - first,
                                .state = slot_of(row, shape->rows),
                                .n_emits = 1,
                                .emits = emit};
    *refs = (struct cell_refs){0};
    cell_wiring_use(out, refs);
    out->inputs[0] = host_ref(shape, tensors[BENCH_X], shape->inputs, row, first);
}

static enum base_status wire(struct bench_sequence *sequence, struct base_error *error)
{
    const struct bench_shape *shape = &sequence->options.shape;
    sequence->wirings = base_alloc_array(shape->rows, sizeof(*sequence->wirings));
    sequence->refs = base_alloc_array(shape->rows, sizeof(*sequence->refs));
    sequence->emits = base_alloc_array(shape->rows, sizeof(*sequence->emits));
    sequence->rows = base_alloc_array(shape->rows, sizeof(*sequence->rows));
    if (sequence->wirings == NULL || sequence->refs == NULL || sequence->emits == NULL ||
        sequence->rows == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "out of memory for %u rows", shape->rows);
    }
    for (uint32_t r = 0; r < shape->rows; r++) {
        bench_sequence_wire(sequence, r, 0, &sequence->emits[r], &sequence->refs[r],
                            &sequence->wirings[r]);
        sequence->rows[r].wiring = &sequence->wirings[r];
    }
    return BASE_OK;
}

enum base_status bench_sequence_open(const struct bench_sequence_options *options,
                                     const struct bench_data *data, struct bench_sequence **out,
                                     struct base_error *error)
{
    struct bench_sequence *sequence = base_alloc(sizeof(*sequence));
    if (sequence == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "out of memory");
    }
    sequence->options = *options;
    sequence->data = *data;
    enum base_status status = load(sequence, data, error);
    if (status == BASE_OK) {
        status = wire(sequence, error);
    }
    if (status != BASE_OK) {
        bench_sequence_close(sequence);
        return status;
    }
    *out = sequence;
    return BASE_OK;
}

void bench_sequence_run_batch(struct bench_sequence *sequence, struct cell_batch *batch)
{
    const struct cell_backend *backend = sequence->options.backend;
    batch->type = sequence->type;
    backend->submit(sequence->device, 0, batch);
    bool ran = backend->pump(sequence->device, 0);
    base_assert(ran && batch->status == BASE_OK);
}

uint64_t bench_sequence_next_chain(struct bench_sequence *sequence)
{
    return ++sequence->chains;
}

void bench_sequence_run(struct bench_sequence *sequence)
{
    const struct bench_shape *shape = &sequence->options.shape;
    const uint32_t steps = sequence->options.by_steps ? 1 : shape->steps;
    for (uint32_t r = 0; r < shape->rows; r++) {
        sequence->wirings[r].chain = bench_sequence_next_chain(sequence);
    }
    for (uint32_t first = 0; first < shape->steps; first += steps) {
        for (uint32_t r = 0; r < shape->rows; r++) {
            sequence->rows[r].first_step = first;
            sequence->rows[r].steps = steps;
        }
        struct cell_batch batch = {.n_rows = shape->rows, .steps = steps, .rows = sequence->rows};
        bench_sequence_run_batch(sequence, &batch);
    }
}

void bench_sequence_close(struct bench_sequence *sequence)
{
    if (sequence == NULL) {
        return;
    }
    if (sequence->device != NULL) {
        sequence->options.backend->close(sequence->device);
    }
    cell_registry_free(sequence->registry);
    base_free(sequence->wirings);
    base_free(sequence->refs);
    base_free(sequence->emits);
    base_free(sequence->rows);
    base_free(sequence);
}
