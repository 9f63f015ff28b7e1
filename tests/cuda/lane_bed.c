/* See lane_bed.h. */
#include "tests/cuda/lane_bed.h"

#include "base/clock.h"
#include "base/mem.h"
#include "tests/cuda/driver_host.h"
#include "tests/util.h"

#include <sched.h>
#include <string.h>

enum { C = 1 }; /* an LSTM's states: h, c */

static void build_cell(struct build *build, const struct lane_bed_options *options)
{
    if (options->is_gru) {
        build_init(build, 53);
        const uint32_t x = build_input(build, CELL_F32, options->inputs);
        const uint32_t h = build_state(build, CELL_F32, options->units);
        const uint32_t out = build_gated(build, CELL_OP_GRU, CELL_GRU_RESET_AFTER, x, h, true);
        build_next(build, 0, out);
        build_output(build, out);
    } else {
        build_lstm_cell(build, options->inputs, options->units, 51);
    }
    build->def.products = options->products;
}

void lane_bed_init(struct lane_bed *bed, const struct lane_bed_options *options)
{
    struct base_error error = {BASE_OK, ""};
    bool is_new = false;
    memset(bed, 0, sizeof(*bed));
    ck_assert_uint_le(options->units, LANE_BED_UNITS_MAX);
    build_cell(&bed->build, options);
    bed->backend = options->is_library ? cuda_host_library_backend() : cuda_host_backend();
    bed->n_queues = options->n_queues == 0 ? 1 : options->n_queues;
    ck_assert_uint_le(bed->n_queues, LANE_BED_QUEUES);
    const struct cell_device_options device = {.n_queues = bed->n_queues,
                                               .batches_queued_max = LANE_BED_DEPTH,
                                               .watchdog_ns = options->watchdog_ns,
                                               .lanes_off = options->lanes_off};
    ck_assert_int_eq(bed->backend->open(&device, &bed->device, &error), BASE_OK);
    ck_assert_int_eq(cell_registry_create(&bed->registry), BASE_OK);
    ck_assert_int_eq(cell_registry_intern(bed->registry, &bed->build.def, "test/cell", &bed->type,
                                          &is_new, &error),
                     BASE_OK);
    ck_assert_int_eq(bed->backend->type_load(bed->device, bed->type, &error), BASE_OK);
    for (uint32_t l = 0; l < cell_registry_layouts(bed->registry); l++) {
        ck_assert_int_eq(
            bed->backend->rows_open(bed->device, l, cell_registry_layout(bed->registry, l),
                                    options->n_rows == 0 ? RIG_ROWS : options->n_rows, &error),
            BASE_OK);
    }
}

void lane_bed_release(struct lane_bed *bed)
{
    bed->backend->type_unload(bed->device, bed->type);
    bed->backend->close(bed->device);
    cell_registry_free(bed->registry);
    build_release(&bed->build);
    cuda_host_pause(0);
    ck_assert_uint_eq(cuda_host_counts().unsound, 0);
}

bool lane_bed_has_lane(const struct lane_bed *bed)
{
    struct base_buf text;
    base_buf_init(&text, 1 << 16);
    bed->backend->type_explain(bed->device, bed->type, &text);
    const bool has = strstr(text.data, "a lane on each queue") != NULL;
    base_buf_release(&text);
    return has;
}

void lane_bed_submit(struct lane_bed *bed, uint32_t queue, struct cell_batch *batch)
{
    batch->type = bed->type;
    batch->queue = queue;
    batch->status = BASE_INTERNAL;
    bed->backend->submit(bed->device, queue, batch);
    bed->submitted[queue]++;
}

uint64_t lane_bed_completed(const struct lane_bed *bed, uint32_t queue)
{
    return atomic_load(bed->backend->completed(bed->device, queue));
}

void lane_bed_poll(struct lane_bed *bed)
{
    for (uint32_t q = 0; q < bed->n_queues; q++) {
        bed->backend->poll(bed->device, q, base_now_ns());
    }
}

void lane_bed_wait(struct lane_bed *bed, uint32_t queue, uint64_t n)
{
    while (lane_bed_completed(bed, queue) < n) {
        lane_bed_poll(bed);
        sched_yield();
    }
}

void lane_bed_wait_all(struct lane_bed *bed)
{
    for (uint32_t q = 0; q < bed->n_queues; q++) {
        lane_bed_wait(bed, q, bed->submitted[q]);
        ck_assert_uint_eq(lane_bed_completed(bed, q), bed->submitted[q]);
    }
}

void lane_bed_park(struct lane_bed *bed)
{
    static float h[LANE_BED_UNITS_MAX];
    bed->backend->row_read(bed->device, bed->type->state_layout, 0, 0, 0, h);
}

void lane_bed_run(struct lane_bed *bed, uint32_t queue, struct cell_batch *batch)
{
    lane_bed_submit(bed, queue, batch);
    lane_bed_wait(bed, queue, bed->submitted[queue]);
    ck_assert_int_eq(batch->status, BASE_OK);
}

void lane_bed_run_chain(struct lane_bed *bed, struct rig_chain *chain, uint32_t steps)
{
    struct cell_batch_row row = rig_chain_row(chain, steps);
    struct cell_batch batch = {.n_rows = 1, .steps = row.steps, .rows = &row};
    lane_bed_run(bed, 0, &batch);
    ck_assert_uint_eq(row.steps_done, steps);
    chain->done += steps;
}

uint8_t *lane_bed_alone(struct lane_bed *bed, struct rig_chain *chain)
{
    const uint32_t steps = chain->wiring.steps;
    lane_bed_run_chain(bed, chain, steps);
    uint8_t *wanted = rig_copy(chain->outputs[0], (size_t)steps * lane_bed_row_bytes(bed));
    rig_chain_reset(chain, bed->type);
    return wanted;
}

uint32_t lane_bed_row_bytes(const struct lane_bed *bed)
{
    const struct cell_def *def = &bed->type->def;
    return def->values[def->n_inputs].width * (uint32_t)sizeof(float);
}

// NOLINTNEXTLINE(readability-non-const-parameter): the device writes there
void lane_bed_make_odd(const struct lane_bed *bed, struct rig_chain *chain, uint8_t *to)
{
    struct cell_wiring *wiring = &chain->wiring;
    ck_assert_uint_lt(wiring->n_emits, CELL_OUTPUTS_MAX + CELL_STATES_MAX);
    wiring->emits[wiring->n_emits++] = (struct cell_emit){
        CELL_EMIT_STATE,
        CELL_EMIT_EACH,
        C,
        {.kind = CELL_REF_HOST, .host = to, .stride_bytes = (int64_t)lane_bed_row_bytes(bed)}};
}
