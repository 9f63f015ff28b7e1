/* Pieces: what a batch reads of requests' memory is copied to pinned memory with its table of rows,
 * and what it gives away back.
 *
 *   in    task | rows | sources [inputs, states][rows] | emits | rows that are read
 *   out   result, with the outcomes of the piece's rows | rows that were given away
 *
 * Both directions walk rows and references in the same order, so nothing is noted between. Pool
 * thread; cost: the bytes of the rows, and some tens of nanoseconds a reference. */
#include "cells/cuda/device_state.h"

#include "base/assert.h"
#include "cells/beam.h"
#include "cells/ref/math.h"

#include <math.h>
#include <string.h>

_Static_assert(CELL_STEP_ROWS_MAX == CELL_BATCH_ROWS_MAX, "rows of a batch");
_Static_assert((int)CELL_STEP_EACH == (int)CELL_EMIT_EACH &&
                   (int)CELL_STEP_FIRST == (int)CELL_EMIT_FIRST &&
                   (int)CELL_STEP_LAST == (int)CELL_EMIT_LAST,
               "one enum for both sides");

/* A row's emits, as many as a graph's node may reasonably have: each value twice. */
#define EMITS_A_VALUE 2u

/* Steps of the piece that a row takes, if no end comes before. A search that is over takes none. */
static uint32_t steps_of(const struct cell_batch_row *row, uint32_t first, uint32_t steps)
{
    const uint32_t left = row->steps > first && !row->has_ended ? row->steps - first : 0;
    return left < steps ? left : steps;
}

static const struct cell_value *emitted(const struct cell_def *def, const struct cell_emit *emit)
{
    const uint32_t value =
        emit->what == CELL_EMIT_STATE ? def->n_inputs + emit->index : def->outputs[emit->index];
    return &def->values[value];
}

/* ---- Sizes ---------------------------------------------------------------------------------- */

void cell_cuda__piece_sizes(const struct cell_type *type, size_t *in_bytes, size_t *out_bytes)
{
    const struct cell_def *def = &type->def;
    size_t in = 0;
    size_t out = 0;
    size_t memory = 0;
    for (uint32_t v = 0; v < def->n_inputs + def->n_states; v++) {
        in += cell_cuda__bytes(&def->values[v]) + sizeof(struct cell_step_source);
        memory = v < def->n_inputs && cell_def_input_has_rows(def, v) ? CELL_CUDA__MEMORY : memory;
        out += v >= def->n_inputs ? cell_cuda__bytes(&def->values[v]) : 0;
    }
    for (uint32_t o = 0; o < def->n_outputs; o++) {
        out += cell_cuda__bytes(&def->values[def->outputs[o]]);
    }
    in += sizeof(struct cell_step_row);
    in += (1 + EMITS_A_VALUE * (size_t)(def->n_outputs + def->n_states)) *
          sizeof(struct cell_step_emit);
    *in_bytes =
        sizeof(struct cell_step_task) + in * CELL_STEP_ROWS_MAX + CELL_CUDA__STAGING + memory;
    *out_bytes = sizeof(struct cell_step_result) + EMITS_A_VALUE * out * CELL_STEP_ROWS_MAX +
                 CELL_CUDA__STAGING;
}

/* Bytes that a piece needs, in all and for each of its steps. */
struct need {
    size_t in, in_step;
    size_t out, out_step;
};

static void need_row(struct need *need, const struct cell_def *def,
                     const struct cell_batch_row *row)
{
    const struct cell_wiring *wiring = row->wiring;
    need->in += sizeof(struct cell_step_row) +
                (def->n_inputs + def->n_states) * sizeof(struct cell_step_source) +
                wiring->n_emits * sizeof(struct cell_step_emit);
    need->out += sizeof(uint32_t);
    for (uint32_t i = 0; i < def->n_inputs; i++) {
        if (wiring->inputs[i].kind == CELL_REF_HOST && cell_def_input_has_rows(def, i)) {
            need->in +=
                wiring->inputs[i].rows * (cell_cuda__bytes(&def->values[i]) + sizeof(float));
        } else if (wiring->inputs[i].kind == CELL_REF_HOST) {
            *(wiring->inputs[i].stride_bytes == 0 ? &need->in : &need->in_step) +=
                cell_cuda__bytes(&def->values[i]);
        }
    }
    for (uint32_t s = 0; s < def->n_states && row->first_step == 0; s++) {
        need->in += cell_cuda__bytes(&def->values[def->n_inputs + s]);
    }
    for (uint32_t e = 0; e < wiring->n_emits; e++) {
        const struct cell_emit *emit = &wiring->emits[e];
        if (emit->to.kind == CELL_REF_HOST) {
            *(emit->when == CELL_EMIT_EACH ? &need->out_step : &need->out) +=
                cell_cuda__bytes(emitted(def, emit));
        }
    }
    if (wiring->beam != NULL) {
        need->in += sizeof(struct cell_step_emit) + sizeof(int64_t);
        need->out_step += wiring->beam->ids * sizeof(float);
    }
}

static uint32_t steps_that_fit(uint32_t steps, size_t bytes_max, size_t bytes, size_t step_bytes)
{
    if (bytes > bytes_max) {
        return 0;
    }
    const size_t fit = step_bytes == 0 ? steps : (bytes_max - bytes) / step_bytes;
    return fit < steps ? (uint32_t)fit : steps;
}

/* ---- In ------------------------------------------------------------------------------------- */

/* A piece while it is written. */
struct writer {
    const struct cell_device *device;
    const struct cell_cuda__program *program;
    struct cell_cuda__piece *piece;
    uint8_t *in;
    size_t in_at, out_at;
};

static cell_step_address value_row(const struct cell_device *device, uint32_t layout, uint32_t row)
{
    const struct cell_step_store *store = &device->stores[layout];
    base_assert(row < store->rows.count);
    return store->memory + cell_lane_rows_at(&store->rows, row, 0, 0);
}

/* n rows, one behind the other in the inbox; strides may be negative. */
static cell_step_address put(struct writer *writer, const uint8_t *from, int64_t stride,
                             size_t bytes, uint32_t n)
{
    const cell_step_address at = writer->program->inbox + writer->in_at;
    uint8_t *to = writer->in + writer->in_at;
    if (stride == (int64_t)bytes) {
        memcpy(to, from, n * bytes);
    } else {
        for (uint32_t i = 0; i < n; i++) {
            memcpy(to + i * bytes, from + i * stride, bytes);
        }
    }
    writer->in_at += n * bytes;
    return at;
}

/* Where the row reads this from step `step` of its chain on, for n steps. */
static struct cell_step_source source_of(struct writer *writer, const struct cell_ref *ref,
                                         uint32_t layout, size_t bytes, uint32_t step, uint32_t n)
{
    struct cell_step_source source = {0};
    if (ref->kind == CELL_REF_VALUE && n > 0) {
        source.at = value_row(writer->device, layout, ref->row);
    } else if (ref->kind == CELL_REF_HOST && n > 0) {
        const uint8_t *from = ref->host + (int64_t)step * ref->stride_bytes;
        const bool is_one = ref->stride_bytes == 0;
        source.at = put(writer, from, ref->stride_bytes, bytes, is_one ? 1 : n);
        source.stride = is_one ? 0 : (int64_t)bytes;
    }
    return source;
}

/* A memory that is attended to, whole: the same at every step. */
static struct cell_step_source memory_of(struct writer *writer, const struct cell_ref *ref,
                                         size_t bytes, uint32_t n)
{
    struct cell_step_source source = {.stride = (int64_t)bytes};
    if (ref->kind == CELL_REF_HOST && n > 0 && ref->rows > 0) {
        source.rows = ref->rows;
        source.at = put(writer, ref->host, ref->stride_bytes, bytes, ref->rows);
        source.room = writer->program->inbox + writer->in_at;
        writer->in_at += ref->rows * sizeof(float);
    }
    return source;
}

/* Where the lane of a search goes on: its number among the step's, and the parent's row; false: it
 * begins, or nobody is there. */
static bool continues(const struct cell_batch_row *row, uint32_t first, size_t *at,
                      const struct cell_batch_row **parent)
{
    const struct cell_beam *beam = row->wiring->beam;
    const uint32_t lane = row->wiring->lane;
    const uint32_t step = row->first_step + first;
    if (beam == NULL || step == 0 || !(beam->scores[lane] > -INFINITY)) {
        return false;
    }
    *at = (size_t)(step - 1) * beam->width + lane;
    *parent = row - lane + beam->parents[*at];
    return true;
}

static void write_row(const struct writer *writer, const struct cell_batch *batch, uint32_t r,
                      struct cell_step_row *out)
{
    const struct cell_batch_row *row = &batch->rows[r];
    const struct cell_end *end = row->wiring->end;
    const struct cell_batch_row *parent = row;
    size_t at = 0;
    *out = (struct cell_step_row){.slot = row->wiring->state,
                                  .given =
                                      row->first_step + writer->piece->first == 0 ? UINT32_MAX : 0,
                                  .first_step = row->first_step,
                                  .steps = row->steps,
                                  .of_chain = row->wiring->steps,
                                  .has_end = end != NULL ? 1 : 0,
                                  .end_state = end != NULL ? end->state : 0,
                                  .end_id = end != NULL ? end->id : 0};
    if (continues(row, writer->piece->first, &at, &parent)) {
        out->given = 1u << row->wiring->beam->token;
    }
    out->origin = parent->wiring->state;
}

/* The id that the lane of a search goes on with. */
static struct cell_step_source token_of(struct writer *writer, const struct cell_batch_row *row,
                                        size_t at, size_t bytes)
{
    const int64_t id = row->wiring->beam->tokens[at]; // little-endian: the low half is the I32
    return (struct cell_step_source){.at = put(writer, (const uint8_t *)&id, 0, bytes, 1)};
}

static void write_sources(struct writer *writer, const struct cell_batch *batch, uint32_t r,
                          struct cell_step_source *sources)
{
    const struct cell_type *type = batch->type;
    const struct cell_def *def = &type->def;
    const struct cell_batch_row *row = &batch->rows[r];
    const uint32_t first = writer->piece->first;
    const uint32_t n = steps_of(row, first, writer->piece->steps);
    for (uint32_t i = 0; i < def->n_inputs; i++) {
        const struct cell_ref *ref = &row->wiring->inputs[i];
        const size_t bytes = cell_cuda__bytes(&def->values[i]);
        sources[(size_t)i * batch->n_rows + r] =
            cell_def_input_has_rows(def, i)
                ? memory_of(writer, ref, bytes, n)
                : source_of(writer, ref, type->input_layouts[i], bytes, row->first_step + first, n);
    }
    const uint32_t is_first = row->first_step + first == 0 && n > 0 ? 1 : 0;
    for (uint32_t s = 0; s < def->n_states; s++) {
        sources[(size_t)(def->n_inputs + s) * batch->n_rows + r] =
            source_of(writer, &row->wiring->init[s], type->state_layouts[s],
                      cell_cuda__bytes(&def->values[def->n_inputs + s]), 0, is_first);
        sources[(size_t)(def->n_inputs + s) * batch->n_rows + r].stride = 0;
    }
    const struct cell_batch_row *parent = NULL;
    size_t at = 0;
    if (n > 0 && continues(row, first, &at, &parent)) {
        const uint32_t token = def->n_inputs + row->wiring->beam->token;
        sources[(size_t)token * batch->n_rows + r] =
            token_of(writer, row, at, cell_cuda__bytes(&def->values[token]));
    }
}

/* Returns how many were written. */
static uint32_t write_emits(struct writer *writer, const struct cell_batch *batch, uint32_t r,
                            struct cell_step_emit *out)
{
    const struct cell_type *type = batch->type;
    const struct cell_wiring *wiring = batch->rows[r].wiring;
    const uint32_t n = steps_of(&batch->rows[r], writer->piece->first, writer->piece->steps);
    for (uint32_t e = 0; e < wiring->n_emits && n > 0; e++) {
        const struct cell_emit *emit = &wiring->emits[e];
        const bool is_state = emit->what == CELL_EMIT_STATE;
        const size_t bytes = cell_cuda__bytes(emitted(&type->def, emit));
        out[e] = (struct cell_step_emit){.row = r,
                                         .value = is_state ? type->def.n_outputs + emit->index
                                                           : emit->index,
                                         .when = (uint32_t)emit->when};
        if (emit->to.kind == CELL_REF_HOST) {
            const bool is_each = emit->when == CELL_EMIT_EACH;
            out[e].to = writer->program->outbox + writer->out_at;
            out[e].stride = is_each ? (int64_t)bytes : 0;
            writer->out_at += is_each ? n * bytes : bytes;
        } else {
            base_assert(emit->to.kind == CELL_REF_VALUE);
            out[e].to = value_row(writer->device,
                                  is_state ? type->state_layouts[emit->index]
                                           : type->output_layouts[emit->index],
                                  emit->to.row);
        }
    }
    if (wiring->beam == NULL || n == 0) {
        return n > 0 ? wiring->n_emits : 0;
    }
    // A search emits nothing, but the host chooses, and needs to see its logits.
    out[wiring->n_emits] = (struct cell_step_emit){.row = r,
                                                   .value = wiring->beam->logits,
                                                   .when = CELL_STEP_EACH,
                                                   .to = writer->program->outbox + writer->out_at};
    writer->out_at += wiring->beam->ids * sizeof(float);
    return wiring->n_emits + 1;
}

/* Behind the outcomes of the batch's rows; what the result has room for beyond is not used. */
static size_t emitted_at(const struct cell_batch *batch)
{
    return offsetof(struct cell_step_result, outcomes) + batch->n_rows * sizeof(uint32_t);
}

size_t cell_cuda__piece_write(const struct cell_device *device,
                              const struct cell_cuda__program *program,
                              const struct cell_batch *batch, struct cell_cuda__piece *piece,
                              size_t *out_bytes)
{
    const struct cell_def *def = &batch->type->def;
    const uint32_t n = batch->n_rows;
    struct need need = {.in = sizeof(struct cell_step_task), .out = emitted_at(batch)};
    for (uint32_t r = 0; r < n; r++) {
        need_row(&need, def, &batch->rows[r]);
    }
    piece->steps = steps_that_fit(piece->steps, program->inbox_bytes, need.in, need.in_step);
    piece->steps = steps_that_fit(piece->steps, program->outbox_bytes, need.out, need.out_step);
    if (piece->steps == 0) {
        return 0;
    }
    struct writer writer = {.device = device,
                            .program = program,
                            .piece = piece,
                            .in = piece->in.host,
                            .in_at = sizeof(struct cell_step_task),
                            .out_at = emitted_at(batch)};
    struct cell_step_task *task = piece->in.host;
    struct cell_step_row *rows = (struct cell_step_row *)(void *)(writer.in + writer.in_at);
    writer.in_at += n * sizeof(*rows);
    struct cell_step_source *sources =
        (struct cell_step_source *)(void *)(writer.in + writer.in_at);
    *task = (struct cell_step_task){.n_rows = n,
                                    .first = piece->first,
                                    .steps = batch->steps,
                                    .is_interruptible = batch->interruptible ? 1 : 0,
                                    .steps_min = batch->steps_min,
                                    .sources_at = (uint32_t)writer.in_at};
    writer.in_at += (size_t)n * (def->n_inputs + def->n_states) * sizeof(*sources);
    task->emits_at = (uint32_t)writer.in_at;
    struct cell_step_emit *emits = (struct cell_step_emit *)(void *)(writer.in + writer.in_at);
    for (uint32_t r = 0; r < n; r++) {
        task->n_emits += write_emits(&writer, batch, r, emits + task->n_emits);
    }
    writer.in_at += task->n_emits * sizeof(*emits);
    for (uint32_t r = 0; r < n; r++) {
        write_row(&writer, batch, r, &rows[r]);
        write_sources(&writer, batch, r, sources);
    }
    base_assert(writer.in_at <= program->inbox_bytes && writer.out_at <= program->outbox_bytes);
    *out_bytes = writer.out_at;
    return writer.in_at;
}

/* ---- Out ------------------------------------------------------------------------------------ */

/* The rows of one emit, that stand at `from`: of the piece's steps the row took n. */
static void take(const struct cell_emit *emit, const uint8_t *from, size_t bytes, uint32_t step,
                 uint32_t n, uint32_t of_chain)
{
    const struct cell_ref *to = &emit->to;
    if (emit->when == CELL_EMIT_EACH && to->stride_bytes == (int64_t)bytes) {
        memcpy(to->host + (int64_t)step * to->stride_bytes, from, n * bytes);
        return;
    }
    for (uint32_t t = 0; t < n; t++) {
        if (cell_emit_is_due(emit, step + t, of_chain)) {
            memcpy(to->host + (int64_t)(step + t) * to->stride_bytes,
                   from + (emit->when == CELL_EMIT_EACH ? t * bytes : 0), bytes);
        }
    }
}

/* All lanes' logits have come; the first of them stand at `logits`, side by side. */
static void advance_beam(struct cell_batch *batch, uint32_t r, const struct cell_cuda__piece *piece,
                         const float *logits)
{
    struct cell_batch_row *row = &batch->rows[r];
    struct cell_beam *beam = row->wiring->beam;
    struct cell_beam_logits all = {.softmax = cell_softmax_f32__scalar};
    for (uint32_t lane = 0; lane < beam->width; lane++) {
        all.rows[lane] = logits + (size_t)lane * beam->ids;
    }
    (void)cell_beam_choose(beam, row->first_step + piece->first, &all);
    for (uint32_t lane = 0; lane < beam->width && beam->is_done; lane++) {
        row[lane].has_ended = true;
        row[lane].steps_done = piece->first + 1;
    }
}

void cell_cuda__piece_read(struct cell_batch *batch, const struct cell_cuda__piece *piece)
{
    const struct cell_def *def = &batch->type->def;
    const struct cell_step_result *result = piece->out.host;
    const uint8_t *from = (const uint8_t *)piece->out.host + emitted_at(batch);
    for (uint32_t r = 0; r < batch->n_rows; r++) {
        const struct cell_batch_row *row = &batch->rows[r];
        const uint32_t taken = result->outcomes[r] & ~CELL_STEP_ENDED;
        const uint32_t until = taken < result->steps_done ? taken : result->steps_done;
        const uint32_t planned = steps_of(row, piece->first, piece->steps);
        const uint32_t ran = until > piece->first ? until - piece->first : 0;
        const uint32_t n = ran < planned ? ran : planned;
        for (uint32_t e = 0; e < row->wiring->n_emits && planned > 0; e++) {
            const struct cell_emit *emit = &row->wiring->emits[e];
            if (emit->to.kind != CELL_REF_HOST) {
                continue;
            }
            const size_t bytes = cell_cuda__bytes(emitted(def, emit));
            take(emit, from, bytes, row->first_step + piece->first, n, row->wiring->steps);
            from += emit->when == CELL_EMIT_EACH ? planned * bytes : bytes;
        }
        const struct cell_beam *beam = row->wiring->beam;
        if (beam != NULL && planned > 0) {
            base_assert(planned == 1 && n == 1);
            from += beam->ids * sizeof(float);
            if (row->wiring->lane + 1 == beam->width) {
                advance_beam(batch, r + 1 - beam->width, piece,
                             (const float *)(const void *)from - (size_t)beam->width * beam->ids);
            }
        }
    }
}
