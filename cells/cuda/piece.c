/* Pieces: what a batch reads of requests' memory is copied to pinned memory with its table of rows,
 * and what it gives away back.
 *
 *   in    task | rows | sources [inputs, states][rows] | searches | emits | rows that are read
 *   out   result, with outcomes of the rows | searches | what they chose, rows that were given away
 *
 * Both directions walk rows and references in the same order, so nothing is noted between. Pool
 * thread; cost: the bytes of the rows, and some tens of nanoseconds a reference. */
#include "cells/cuda/device_state.h"

#include "base/assert.h"
#include "cells/beam_body.h"

#include <string.h>

_Static_assert(CELL_STEP_ROWS_MAX == CELL_BATCH_ROWS_MAX, "rows of a batch");
_Static_assert((int)CELL_STEP_EACH == (int)CELL_EMIT_EACH &&
                   (int)CELL_STEP_FIRST == (int)CELL_EMIT_FIRST &&
                   (int)CELL_STEP_LAST == (int)CELL_EMIT_LAST,
               "one enum for both sides");

/* A row's emits, as many as a graph's node may reasonably have: each value twice. */
#define EMITS_A_VALUE 2u

/* Steps of the piece that a row takes, if no end comes before. */
static uint32_t steps_of(const struct cell_batch_row *row, uint32_t first, uint32_t steps)
{
    const uint32_t left = row->steps > first ? row->steps - first : 0;
    return left < steps ? left : steps;
}

/* What a lane of a search chooses in a step: a token and a parent. */
#define CHOICE_BYTES (2 * sizeof(int32_t))

/* The search that the row begins; NULL: it is another lane of one, or of none. */
static struct cell_beam *search_of(const struct cell_batch_row *row)
{
    return row->wiring->lane == 0 ? row->wiring->beam : NULL;
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
    in += sizeof(struct cell_step_row) + sizeof(struct cell_step_search);
    out += sizeof(struct cell_beam) + CHOICE_BYTES;
    in += (1 + EMITS_A_VALUE * (size_t)(def->n_outputs + def->n_states)) *
          sizeof(struct cell_step_emit);
    *in_bytes =
        sizeof(struct cell_step_task) + in * CELL_STEP_ROWS_MAX + CELL_CUDA__STAGING + memory;
    *out_bytes = sizeof(struct cell_step_result) + sizeof(uint64_t) +
                 EMITS_A_VALUE * out * CELL_STEP_ROWS_MAX + CELL_CUDA__STAGING;
}

/* Bytes that a piece needs, in all and for each of its steps. */
struct need {
    size_t in, in_step;
    size_t out, out_step;
};

/* For each row of an input with many: scores, where they are the keys of an ATTEND. */
static size_t room_bytes(const struct cell_def *def, uint32_t input)
{
    size_t floats = 0;
    for (uint32_t o = 0; o < def->n_ops; o++) {
        const struct cell_op *op = &def->ops[o];
        if (op->kind == CELL_OP_ATTEND && op->operands[1] == input) {
            const size_t own = op->n_operands > 4 ? CELL_STEP_RELATIVE_ROOM : CELL_STEP_ATTEND_ROOM;
            floats = own > floats ? own : floats;
        }
    }
    return floats * sizeof(float);
}

/* Of what the row reads as a whole, with its room. */
static size_t memory_bytes(const struct cell_def *def, const struct cell_wiring *wiring)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < def->n_inputs; i++) {
        if (wiring->inputs[i].kind == CELL_REF_HOST && cell_def_input_has_rows(def, i)) {
            bytes +=
                wiring->inputs[i].rows * (cell_cuda__bytes(&def->values[i]) + room_bytes(def, i));
        }
    }
    return bytes;
}

static void need_row(struct need *need, const struct cell_def *def,
                     const struct cell_batch_row *row)
{
    const struct cell_wiring *wiring = row->wiring;
    need->in += sizeof(struct cell_step_row) +
                (def->n_inputs + def->n_states) * sizeof(struct cell_step_source) +
                wiring->n_emits * sizeof(struct cell_step_emit);
    need->in += memory_bytes(def, wiring);
    need->out += sizeof(uint32_t);
    for (uint32_t i = 0; i < def->n_inputs; i++) {
        if (wiring->inputs[i].kind == CELL_REF_HOST && !cell_def_input_has_rows(def, i)) {
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
    if (search_of(row) != NULL) {
        need->in += sizeof(struct cell_step_search);
        need->out += sizeof(struct cell_beam);
        need->out_step += wiring->beam->width * CHOICE_BYTES;
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

enum base_status cell_cuda_wiring_check(const struct cell_device *device,
                                        const struct cell_type *type,
                                        const struct cell_wiring *wiring, struct base_error *error)
{
    const uint32_t lanes = wiring->beam != NULL ? wiring->beam->width : 1;
    const size_t bytes = lanes * memory_bytes(&type->def, wiring);
    (void)device;
    return bytes <= CELL_CUDA__MEMORY
               ? BASE_OK
               : base_fail(error, BASE_RESOURCE_EXHAUSTED,
                           "what a row attends to takes %zu bytes of the device, which has %zu "
                           "(with a beam search: for each lane)",
                           bytes, CELL_CUDA__MEMORY);
}

/* ---- In ------------------------------------------------------------------------------------- */

/* A piece while it is written. */
struct writer {
    const struct cell_device *device;
    const struct cell_cuda__program *program;
    struct cell_cuda__piece *piece;
    uint8_t *in;
    size_t in_at, out_at;
    size_t room_at; /* in the inbox: rooms, from its end on, which are not copied */
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

/* A memory, whole: the same at every step. */
static struct cell_step_source memory_of(struct writer *writer, const struct cell_def *def,
                                         uint32_t input, const struct cell_ref *ref, uint32_t n)
{
    const size_t bytes = cell_cuda__bytes(&def->values[input]);
    struct cell_step_source source = {.stride = (int64_t)bytes};
    if (ref->kind == CELL_REF_HOST && n > 0 && ref->rows > 0) {
        source.rows = ref->rows;
        source.at = put(writer, ref->host, ref->stride_bytes, bytes, ref->rows);
        writer->room_at -= ref->rows * room_bytes(def, input);
        source.room = writer->program->inbox + writer->room_at;
    }
    return source;
}

/* search: its search's number, from 1 on; 0: none. */
static void write_row(const struct cell_batch *batch, uint32_t r, uint32_t search,
                      struct cell_step_row *out)
{
    const struct cell_batch_row *row = &batch->rows[r];
    const struct cell_end *end = row->wiring->end;
    *out = (struct cell_step_row){.slot = row->wiring->state,
                                  .search = search,
                                  .lane = row->wiring->lane,
                                  .first_step = row->first_step,
                                  .steps = row->steps,
                                  .of_chain = row->wiring->steps,
                                  .has_end = end != NULL ? 1 : 0,
                                  .end_state = end != NULL ? end->state : 0,
                                  .end_id = end != NULL ? end->id : 0};
}

static void write_rows(struct writer *writer, const struct cell_batch *batch)
{
    struct cell_step_row *rows = (struct cell_step_row *)(void *)(writer->in + writer->in_at);
    uint32_t searches = 0;
    for (uint32_t r = 0; r < batch->n_rows; r++) {
        const struct cell_batch_row *row = &batch->rows[r];
        searches += search_of(row) != NULL ? 1 : 0;
        base_assert(search_of(row) == NULL || r + row->wiring->beam->width <= batch->n_rows);
        write_row(batch, r, row->wiring->beam != NULL ? searches : 0, &rows[r]);
    }
    writer->in_at += batch->n_rows * sizeof(*rows);
}

/* Searches as they are before the batch, which its first piece brings, and where the piece puts
 * what they choose. */
static void write_searches(struct writer *writer, const struct cell_batch *batch,
                           struct cell_step_task *task)
{
    struct cell_step_search *out = (struct cell_step_search *)(void *)(writer->in + writer->in_at);
    task->searches_at = (uint32_t)writer->in_at;
    for (uint32_t r = 0; r < batch->n_rows; r++) {
        const struct cell_batch_row *row = &batch->rows[r];
        const struct cell_beam *beam = search_of(row);
        if (beam == NULL) {
            continue;
        }
        struct cell_step_search *search = &out[task->n_searches++];
        search->choices = writer->program->outbox + writer->out_at;
        search->beam = *beam;
        search->beam.tokens = search->beam.parents = NULL;
        search->beam.room = NULL;
        search->beam.copies = NULL;
        if (row->first_step == 0) {
            cell_beam_begin(&search->beam);
        }
        writer->out_at += (size_t)steps_of(row, writer->piece->first, writer->piece->steps) *
                          beam->width * CHOICE_BYTES;
    }
    writer->in_at += task->n_searches * sizeof(*out);
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
                ? memory_of(writer, def, i, ref, n)
                : source_of(writer, ref, type->input_layouts[i], bytes, row->first_step + first, n);
    }
    const uint32_t is_first = row->first_step + first == 0 && n > 0 ? 1 : 0;
    for (uint32_t s = 0; s < def->n_states; s++) {
        sources[(size_t)(def->n_inputs + s) * batch->n_rows + r] =
            source_of(writer, &row->wiring->init[s], type->state_layouts[s],
                      cell_cuda__bytes(&def->values[def->n_inputs + s]), 0, is_first);
        sources[(size_t)(def->n_inputs + s) * batch->n_rows + r].stride = 0;
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
    return n > 0 ? wiring->n_emits : 0;
}

/* Where searches stand: behind the outcomes of so many rows; what the result has room for beyond is
 * not used. The same in all pieces of a pass: between them the card keeps searches there. */
static size_t beams_at(uint32_t n_rows)
{
    const size_t end = offsetof(struct cell_step_result, outcomes) + n_rows * sizeof(uint32_t);
    return (end + sizeof(uint64_t) - 1) / sizeof(uint64_t) * sizeof(uint64_t);
}

static size_t emitted_at(const struct cell_batch *batch)
{
    size_t at = beams_at(batch->n_rows);
    for (uint32_t r = 0; r < batch->n_rows; r++) {
        at += search_of(&batch->rows[r]) != NULL ? sizeof(struct cell_beam) : 0;
    }
    return at;
}

uint32_t cell_cuda__piece_rows(const struct cell_cuda__program *program,
                               const struct cell_batch *batch)
{
    struct need need = {.in = sizeof(struct cell_step_task)};
    uint32_t fit = 0;
    for (uint32_t r = 0; r < batch->n_rows; r++) {
        need_row(&need, &batch->type->def, &batch->rows[r]);
        if (need.in + need.in_step > program->inbox_bytes ||
            beams_at(r + 1) + need.out + need.out_step > program->outbox_bytes) {
            break;
        }
        const bool is_whole = r + 1 == batch->n_rows || batch->rows[r + 1].wiring->lane == 0;
        fit = is_whole ? r + 1 : fit;
    }
    return fit;
}

size_t cell_cuda__piece_write(const struct cell_device *device,
                              const struct cell_cuda__program *program,
                              const struct cell_batch *batch, struct cell_cuda__piece *piece,
                              size_t *out_bytes)
{
    const struct cell_def *def = &batch->type->def;
    const uint32_t n = batch->n_rows;
    struct need need = {.in = sizeof(struct cell_step_task), .out = beams_at(n)};
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
                            .out_at = emitted_at(batch),
                            .room_at = program->inbox_bytes / sizeof(float) * sizeof(float)};
    struct cell_step_task *task = piece->in.host;
    write_rows(&writer, batch);
    struct cell_step_source *sources =
        (struct cell_step_source *)(void *)(writer.in + writer.in_at);
    *task = (struct cell_step_task){.n_rows = n,
                                    .first = piece->first,
                                    .steps = batch->steps,
                                    .is_interruptible = batch->interruptible ? 1 : 0,
                                    .steps_min = batch->steps_min,
                                    .sources_at = (uint32_t)writer.in_at,
                                    .beams_at = (uint32_t)beams_at(n)};
    writer.in_at += (size_t)n * (def->n_inputs + def->n_states) * sizeof(*sources);
    write_searches(&writer, batch, task);
    task->emits_at = (uint32_t)writer.in_at;
    struct cell_step_emit *emits = (struct cell_step_emit *)(void *)(writer.in + writer.in_at);
    for (uint32_t r = 0; r < n; r++) {
        task->n_emits += write_emits(&writer, batch, r, emits + task->n_emits);
    }
    writer.in_at += task->n_emits * sizeof(*emits);
    for (uint32_t r = 0; r < n; r++) {
        write_sources(&writer, batch, r, sources);
    }
    base_assert(writer.in_at <= writer.room_at && writer.out_at <= program->outbox_bytes);
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

/* Of the piece's steps the row took: its batch was over later, or its end came. */
static uint32_t steps_taken(const struct cell_step_result *result, uint32_t r,
                            const struct cell_cuda__piece *piece, uint32_t planned)
{
    const uint32_t taken = result->outcomes[r] & ~CELL_STEP_ENDED;
    const uint32_t until = taken < result->steps_done ? taken : result->steps_done;
    const uint32_t ran = until > piece->first ? until - piece->first : 0;
    return ran < planned ? ran : planned;
}

/* What a search has chosen in n steps from `step` on, which stands at `from`, and how it is now. */
static void take_search(struct cell_beam *beam, const struct cell_beam *now, const uint8_t *from,
                        uint32_t step, uint32_t n)
{
    const size_t bytes = beam->width * sizeof(int32_t);
    for (uint32_t t = 0; t < n; t++) {
        const size_t at = (size_t)(step + t) * beam->width;
        memcpy(beam->tokens + at, from + (size_t)2 * t * bytes, bytes);
        memcpy(beam->parents + at, from + ((size_t)2 * t + 1) * bytes, bytes);
    }
    memcpy(beam->scores, now->scores, sizeof(beam->scores));
    memcpy(beam->found, now->found, sizeof(beam->found));
    beam->n_found = now->n_found;
    beam->is_done = now->is_done;
}

/* Returns what stands behind. */
static const uint8_t *read_searches(const struct cell_batch *batch,
                                    const struct cell_cuda__piece *piece)
{
    const struct cell_step_result *result = piece->out.host;
    const uint8_t *out = piece->out.host;
    const struct cell_beam *now =
        (const struct cell_beam *)(const void *)(out + beams_at(batch->n_rows));
    const uint8_t *from = out + emitted_at(batch);
    for (uint32_t r = 0; r < batch->n_rows; r++) {
        const struct cell_batch_row *row = &batch->rows[r];
        struct cell_beam *beam = search_of(row);
        if (beam == NULL) {
            continue;
        }
        const uint32_t planned = steps_of(row, piece->first, piece->steps);
        take_search(beam, now++, from, row->first_step + piece->first,
                    steps_taken(result, r, piece, planned));
        from += (size_t)planned * beam->width * CHOICE_BYTES;
    }
    return from;
}

void cell_cuda__piece_read(const struct cell_batch *batch, const struct cell_cuda__piece *piece)
{
    const struct cell_def *def = &batch->type->def;
    const uint8_t *from = read_searches(batch, piece);
    for (uint32_t r = 0; r < batch->n_rows; r++) {
        const struct cell_batch_row *row = &batch->rows[r];
        const uint32_t planned = steps_of(row, piece->first, piece->steps);
        const uint32_t n = steps_taken(piece->out.host, r, piece, planned);
        for (uint32_t e = 0; e < row->wiring->n_emits && planned > 0; e++) {
            const struct cell_emit *emit = &row->wiring->emits[e];
            if (emit->to.kind != CELL_REF_HOST) {
                continue;
            }
            const size_t bytes = cell_cuda__bytes(emitted(def, emit));
            take(emit, from, bytes, row->first_step + piece->first, n, row->wiring->steps);
            from += emit->when == CELL_EMIT_EACH ? planned * bytes : bytes;
        }
    }
}
