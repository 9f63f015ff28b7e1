/* See card_lane.h. The host's side is cells/lane/host.c, as in the product. */
#include "tests/cuda/card_lane.h"

#include "base/clock.h"
#include "base/mem.h"
#include "cells/bf16.h"

#include <math.h>
#include <string.h>

#define WATCHDOG_NS UINT64_C(3000000000)
#define BOUND_NS    2000000000u
#define PARK_NS     UINT64_C(10000000000)

/* Of a row of card->x. */
#define X_BYTES (4 * LANE_CARD_UNITS * sizeof(float))

static void fail(struct lane_card *card, const char *text)
{
    card->wrong = card->wrong == NULL ? text : card->wrong;
}

static bool is_ok(struct lane_card *card, enum base_status status)
{
    if (status != BASE_OK) {
        fail(card, card->error.message[0] != '\0' ? card->error.message : base_status_name(status));
    }
    return status == BASE_OK;
}

/* ---- Model and chains ---- */

static float *random_floats(struct lane_card *card, size_t n, float scale)
{
    float *floats = base_alloc_array(n > 0 ? n : 1, sizeof(*floats));
    for (size_t i = 0; floats != NULL && i < n; i++) {
        floats[i] = base_random_f32(&card->random, -scale, scale);
    }
    return floats;
}

static bool make_model(struct lane_card *card)
{
    const struct lane_shape *shape = &card->shape;
    const size_t rows = (size_t)(shape->kind == CELL_SM_LSTM ? 4 : 3) * shape->units;
    card->w = random_floats(card, rows * shape->inputs, 1.0f);
    card->r = random_floats(card, rows * shape->units, 2.0f / sqrtf((float)shape->units));
    card->b_w = random_floats(card, rows, 0.5f);
    card->b_r = random_floats(card, rows, 0.5f);
    card->gated =
        (struct cell_gated){.kind = shape->kind == CELL_SM_LSTM ? CELL_GATED_LSTM : CELL_GATED_GRU,
                            .precision = shape->is_bf16 ? CELL_BF16 : CELL_FP32,
                            .inputs = shape->inputs,
                            .feedback = shape->units,
                            .hidden = shape->units,
                            .w = card->w,
                            .r = card->r,
                            .b_w = card->b_w,
                            .b_r = card->b_r};
    return card->w != NULL && card->r != NULL && card->b_w != NULL && card->b_r != NULL;
}

/* As who computes them ahead: bias, then a fused multiply-add a term. */
static void compute_sums(struct lane_card *card, uint32_t i)
{
    const uint32_t units = card->shape.units;
    const bool is_gru = card->shape.kind == CELL_SM_GRU;
    const uint32_t rows = (is_gru ? 3 : 4) * units;
    for (uint32_t step = 0; step < card->chains[i].steps; step++) {
        for (uint32_t row = 0; row < rows; row++) {
            const bool is_late = is_gru && row >= 2 * units;
            float sum = is_late ? card->b_w[row] : card->b_w[row] + card->b_r[row];
            for (uint32_t k = 0; k < card->shape.inputs; k++) {
                sum = fmaf(card->io[i].x[step][k], card->w[(size_t)row * card->shape.inputs + k],
                           sum);
            }
            card->io[i].sums[step][row] = sum;
        }
    }
}

static void make_chain(struct lane_card *card, uint32_t i)
{
    struct lane_card_io *io = &card->io[i];
    card->chains[i] = (struct lane_card_chain){
        .steps = 1 + base_random_below(&card->random, LANE_CARD_STEPS), .has_init = i % 2 == 1};
    for (uint32_t k = 0; k < 2 * card->shape.units; k++) {
        const float value = base_random_f32(&card->random, -1.0f, 1.0f);
        // What a bf16 lane reads of it, it reads rounded: no other definition of step 0.
        io->init[k] = k < card->shape.units && card->shape.is_bf16
                          ? cell_bf16_widen(cell_bf16_round(value))
                          : value;
    }
    for (uint32_t step = 0; step < LANE_CARD_STEPS; step++) {
        for (uint32_t k = 0; k < card->shape.inputs; k++) {
            io->x[step][k] = base_random_f32(&card->random, -1.0f, 1.0f);
        }
    }
    compute_sums(card, i);
    lane_card_reset(card, i);
}

void lane_card_reset(struct lane_card *card, uint32_t chain)
{
    card->chains[chain].submitted = 0;
    card->chains[chain].done = 0;
    memset(card->io[chain].out, 0xFF, sizeof(card->io[chain].out));
    memset(card->io[chain].last, 0xFF, sizeof(card->io[chain].last));
}

/* ---- Memory ---- */

/* The next bytes of the pinned memory, on a line of their own. *used counts; host NULL: counts
 * only. */
static uint64_t place(const struct lane_card *card, size_t *used, size_t bytes, void **host)
{
    const size_t at = *used;
    *used += (bytes + CELL_LANE_LINE_BYTES - 1) & ~(size_t)(CELL_LANE_LINE_BYTES - 1);
    *host = card->pinned.host == NULL ? NULL : (uint8_t *)card->pinned.host + at;
    return card->pinned.at + at;
}

static void *card_pointer(uint64_t at)
{
    return (void *)(uintptr_t)at; // NOLINT(performance-no-int-to-ptr): the card's
}

/* Lays all of it out, for the host and for the card; returns the bytes. */
static size_t lay_out(struct lane_card *card, struct cell_lane *host)
{
    const size_t n_rows = (size_t)LANE_CARD_SLOTS * CELL_SM_ROWS_MAX;
    struct cell_lane *far = &card->args.lane;
    void *at[7];
    size_t used = 0;
    far->control = card_pointer(place(card, &used, sizeof(*far->control), &at[0]));
    far->slots = card_pointer(place(card, &used, LANE_CARD_SLOTS * sizeof(*far->slots), &at[1]));
    far->results =
        card_pointer(place(card, &used, LANE_CARD_SLOTS * sizeof(*far->results), &at[2]));
    far->row_ids = card_pointer(place(card, &used, n_rows * sizeof(uint32_t), &at[3]));
    far->outcomes = card_pointer(place(card, &used, n_rows * sizeof(uint32_t), &at[4]));
    card->rows_at = place(card, &used, n_rows * sizeof(*card->rows), &at[5]);
    card->io_at = place(card, &used, CELL_SM_ROWS_MAX * sizeof(*card->io), &at[6]);
    far->n_slots = LANE_CARD_SLOTS;
    far->rows_max = CELL_SM_ROWS_MAX;
    far->form = CELL_LANE_FORM_TAGGED;
    *host = *far;
    host->control = at[0];
    host->slots = at[1];
    host->results = at[2];
    host->row_ids = at[3];
    host->outcomes = at[4];
    card->rows = at[5];
    card->io = at[6];
    return used;
}

/* Weights and rows, in the card's memory. */
static bool fill_card(struct lane_card *card, const struct cell_sm_layout *layout)
{
    struct cell_sm_args *args = &card->args;
    cell_lane_rows_init(&args->rows, CELL_SM_ROWS_MAX);
    cell_lane_rows_add(&args->rows, card->shape.units * 4, true);
    if (card->shape.kind == CELL_SM_LSTM) {
        cell_lane_rows_add(&args->rows, card->shape.units * 4, false);
    }
    const size_t most = layout->bytes > args->rows.bytes ? layout->bytes : args->rows.bytes;
    uint8_t *bytes = base_alloc_aligned(most, CELL_LANE_LINE_BYTES);
    bool is_there =
        bytes != NULL &&
        is_ok(card, card->driver->alloc(card->cuda, layout->bytes, &card->weights)) &&
        is_ok(card, card->driver->alloc(card->cuda, args->rows.bytes, &card->memory)) &&
        is_ok(card, card->driver->alloc(card->cuda, CELL_SM_ROWS_MAX * X_BYTES, &card->x));
    if (is_there) {
        cell_sm_pack(&card->gated, card->kernel, card->shape.is_given, bytes);
        is_there =
            is_ok(card, card->driver->write(card->cuda, card->weights, bytes, layout->bytes));
    }
    if (is_there) {
        memset(bytes, 0xFF, args->rows.bytes); // a row that nobody has written is not trusted
        is_there =
            is_ok(card, card->driver->write(card->cuda, card->memory, bytes, args->rows.bytes));
    }
    base_free(bytes);
    args->weights = card_pointer(card->weights);
    args->memory = card_pointer(card->memory);
    return is_there;
}

static bool open_lane(struct lane_card *card)
{
    const struct lane_shape *shape = &card->shape;
    struct cell_lane host;
    if (!is_ok(card, cell_sm_choose(&card->gated, shape->is_given, &card->kernel, &card->error))) {
        return false;
    }
    const struct cell_sm_layout layout =
        cell_sm_layout_of(&card->gated, card->kernel, shape->is_given);
    const struct cell_cuda_lane_kernel kernel = {
        .name = shape->kind == CELL_SM_LSTM ? card->kernel->lstm : card->kernel->gru,
        .threads = cell_sm_threads(&layout),
        .shared_bytes = cell_sm_shared_bytes(card->kernel, &layout)};
    struct cell_cuda_room room = {0};
    card->driver->room(card->cuda, &room);
    if (room.sms == 0 || kernel.shared_bytes > room.shared_block) {
        fail(card, "the card has no SM for such a lane");
        return false;
    }
    if (!is_ok(card, card->driver->pin(card->cuda, lay_out(card, &host), &card->pinned)) ||
        !fill_card(card, &layout) ||
        !is_ok(card, card->driver->lane_open(card->cuda, &kernel, &card->lane, &card->error))) {
        return false;
    }
    (void)lay_out(card, &host);
    cell_lane_host_init(&card->host, &host, WATCHDOG_NS);
    return true;
}

/* Each chain's first x, in the card's memory. */
static bool fill_x(struct lane_card *card)
{
    bool is_there = true;
    for (uint32_t i = 0; i < CELL_SM_ROWS_MAX && is_there; i++) {
        const void *x = card->shape.is_given ? card->io[i].sums[0] : card->io[i].x[0];
        const size_t bytes =
            card->shape.is_given ? sizeof(card->io->sums[0]) : sizeof(card->io->x[0]);
        is_there = is_ok(card, card->driver->write(card->cuda, card->x + i * X_BYTES, x, bytes));
    }
    return is_there;
}

bool lane_card_open(struct lane_card *card, const struct lane_shape *shape)
{
    card->shape = *shape;
    base_random_init(&card->random, shape->units + shape->inputs);
    if (card->driver->room == NULL || card->driver->lane_open == NULL) {
        fail(card, "this driver runs no lanes");
        return false;
    }
    const struct cell_device_options options = {.card = 0};
    if (!is_ok(card, card->driver->open(&options, &card->cuda, &card->error)) ||
        !make_model(card) || !open_lane(card)) {
        fail(card, "out of memory");
        return false;
    }
    struct cell_sm_args *args = &card->args;
    args->units = shape->units;
    args->inputs = shape->is_given ? 0 : shape->inputs;
    args->index = 5;
    args->bound_ns = BOUND_NS;
    args->busy_idle_ns = PARK_NS / 2;
    args->park_ns = PARK_NS;
    for (uint32_t i = 0; i < CELL_SM_ROWS_MAX; i++) {
        make_chain(card, i);
    }
    return fill_x(card);
}

static void close_lane(struct lane_card *card)
{
    const uint64_t from_ns = base_now_ns();
    if (card->host.end == 0 && !card->host.is_lost && !cell_lane_host_is_busy(&card->host)) {
        cell_lane_host_exit(&card->host);
    } else if (card->host.end == 0) {
        cell_lane_abort(&card->host.lane, card->host.launch);
    }
    while (card->host.end == 0 && base_now_ns() - from_ns < 2 * WATCHDOG_NS) {
        cell_lane_host_look(&card->host, base_now_ns());
    }
    if (card->host.end == 0 || card->driver->lane_wait(card->lane, WATCHDOG_NS) != BASE_OK) {
        fail(card, "the lane does not leave");
        card->host.is_lost = true;
        return;
    }
    card->driver->lane_close(card->lane);
}

void lane_card_close(struct lane_card *card)
{
    if (card->lane != NULL) {
        close_lane(card);
    }
    const bool is_lost = card->host.is_lost;
    if (card->cuda != NULL) {
        if (!is_lost) { // else it would be waited for
            card->driver->free(card->cuda, card->weights);
            card->driver->free(card->cuda, card->memory);
            card->driver->free(card->cuda, card->x);
            if (card->pinned.host != NULL) {
                card->driver->unpin(card->cuda, &card->pinned);
            }
        }
        card->driver->close(card->cuda, is_lost);
    }
    base_free(card->w);
    base_free(card->r);
    base_free(card->b_w);
    base_free(card->b_r);
}

/* ---- Tasks ---- */

static uint64_t io_at(const struct lane_card *card, uint32_t chain, size_t offset)
{
    return card->io_at + chain * sizeof(*card->io) + offset;
}

/* x of a step of a chain. */
static uint64_t x_at(const struct lane_card *card, uint32_t chain, uint32_t step)
{
    return card->shape.is_given ? io_at(card, chain, offsetof(struct lane_card_io, sums)) +
                                      step * sizeof(card->io->sums[0])
                                : io_at(card, chain, offsetof(struct lane_card_io, x)) +
                                      step * sizeof(card->io->x[0]);
}

static void describe(const struct lane_card *card, uint32_t i, uint32_t steps,
                     struct cell_sm_row *to)
{
    const struct lane_card_chain *chain = &card->chains[i];
    const uint32_t first = chain->submitted;
    *to = (struct cell_sm_row){
        .x = x_at(card, i, first),
        .x_stride = card->shape.is_given ? (int64_t)sizeof(card->io->sums[0])
                                         : (int64_t)sizeof(card->io->x[0]),
        .out =
            io_at(card, i, offsetof(struct lane_card_io, out)) + first * sizeof(card->io->out[0]),
        .out_stride = (int64_t)sizeof(card->io->out[0]),
        .init = chain->has_init ? io_at(card, i, offsetof(struct lane_card_io, init)) : 0,
        .last = io_at(card, i, offsetof(struct lane_card_io, last)),
        .first_step = first,
        .steps = steps,
        .flags = first + steps == chain->steps ? CELL_SM_ROW_LAST : 0};
}

/* The rows' memory is scattered, as a server's is. */
static uint32_t row_id(uint32_t chain)
{
    return (chain * 7 + 3) % CELL_SM_ROWS_MAX;
}

static struct cell_sm_row *rows_of(struct lane_card *card, uint32_t slot, uint64_t *at)
{
    *at = card->rows_at + (uint64_t)slot * CELL_SM_ROWS_MAX * sizeof(*card->rows);
    return card->rows + (size_t)slot * CELL_SM_ROWS_MAX;
}

static void publish(struct lane_card *card, struct cell_lane_task *task, const uint32_t *chains,
                    uint32_t n)
{
    uint32_t ids[CELL_SM_ROWS_MAX] = {0};
    for (uint32_t i = 0; i < n; i++) {
        ids[i] = row_id(chains[i]);
    }
    cell_lane_host_rows(&card->host, task, ids, n);
    (void)cell_lane_host_submit(&card->host, task);
}

void lane_card_submit(struct lane_card *card, const uint32_t *chains, uint32_t n, uint32_t k_steps,
                      uint32_t flags)
{
    const uint32_t slot = cell_lane_index(&card->host.lane, card->host.submitted + 1);
    struct cell_lane_task task = {
        .op = CELL_LANE_RUN, .k_steps = (uint16_t)k_steps, .flags = flags};
    struct cell_sm_row *rows = rows_of(card, slot, &task.x_ref);
    card->sent[slot].is_raw = false;
    card->sent[slot].n_rows = n;
    for (uint32_t i = 0; i < n; i++) {
        struct lane_card_chain *chain = &card->chains[chains[i]];
        const uint32_t left = chain->steps - chain->submitted;
        const uint32_t steps = left < k_steps ? left : k_steps;
        describe(card, chains[i], steps, &rows[i]);
        card->sent[slot].chains[i] = chains[i];
        card->sent[slot].steps[i] = steps;
        chain->submitted += steps;
    }
    publish(card, &task, chains, n);
}

void lane_card_submit_op(struct lane_card *card, uint16_t op)
{
    const uint32_t slot = cell_lane_index(&card->host.lane, card->host.submitted + 1);
    struct cell_lane_task task = {.op = op};
    card->sent[slot].is_raw = true;
    publish(card, &task, NULL, 0);
}

void lane_card_submit_long(struct lane_card *card, uint32_t n, uint32_t k_steps, uint32_t flags,
                           bool is_far)
{
    const uint32_t slot = cell_lane_index(&card->host.lane, card->host.submitted + 1);
    struct cell_lane_task task = {
        .op = CELL_LANE_RUN, .k_steps = (uint16_t)k_steps, .flags = flags};
    struct cell_sm_row *rows = rows_of(card, slot, &task.x_ref);
    uint32_t chains[CELL_SM_ROWS_MAX];
    card->sent[slot].is_raw = true;
    for (uint32_t i = 0; i < n; i++) {
        chains[i] = i;
        rows[i] = (struct cell_sm_row){
            .x = is_far ? card->x + i * X_BYTES : x_at(card, i, 0),
            .out = is_far ? 0 : io_at(card, i, offsetof(struct lane_card_io, out)),
            .steps = k_steps};
    }
    publish(card, &task, chains, n);
}

/* ---- Results ---- */

static void settle_row(struct lane_card *card, uint32_t slot, uint32_t i, uint32_t outcome)
{
    struct lane_card_chain *chain = &card->chains[card->sent[slot].chains[i]];
    const uint32_t steps = card->sent[slot].steps[i];
    if (outcome > steps || outcome == 0) {
        fail(card, "an outcome is not one of the row's steps");
        return;
    }
    card->interrupted += outcome < steps;
    chain->done += outcome;
    chain->submitted -= steps - outcome;
}

static void settle(struct lane_card *card, uint64_t seq)
{
    const struct cell_lane *lane = &card->host.lane;
    const uint32_t slot = cell_lane_index(lane, seq);
    card->steps_done = lane->results[slot].steps_done;
    if (lane->results[slot].status != BASE_OK) {
        fail(card, "a task has failed");
    }
    for (uint32_t i = 0; !card->sent[slot].is_raw && i < card->sent[slot].n_rows; i++) {
        settle_row(card, slot, i, lane->outcomes[(size_t)slot * lane->rows_max + i]);
    }
}

static void look(struct lane_card *card)
{
    cell_lane_host_look(&card->host, base_now_ns());
    for (uint64_t seq = 0; (seq = cell_lane_host_next(&card->host)) != 0;) {
        settle(card, seq);
    }
    while (cell_lane_host_next_failed(&card->host) != 0) {
        card->failed++;
    }
    if (card->host.is_lost) {
        fail(card, "the lane does not hear its abort word");
    }
}

void lane_card_turn(struct lane_card *card)
{
    look(card);
    if (card->wrong == NULL && cell_lane_host_wants_launch(&card->host)) {
        const uint64_t n = card->host.submitted - card->host.settled;
        card->args.launch = cell_lane_host_launch(&card->host, card->is_filled ? n : 0);
        (void)is_ok(card, card->driver->lane_launch(card->lane, &card->args));
    }
}

void lane_card_drain(struct lane_card *card)
{
    const uint64_t from_ns = base_now_ns();
    const uint32_t failed = card->failed;
    while (card->wrong == NULL && cell_lane_host_is_busy(&card->host)) {
        lane_card_turn(card);
        if (base_now_ns() - from_ns > LANE_CARD_WAIT_NS) {
            fail(card, "a task does not come back");
        }
    }
    if (card->failed != failed) {
        fail(card, "a launch has died");
    }
    if (card->is_filled && card->wrong == NULL) {
        lane_card_wait_end(card);
    }
}

void lane_card_wait_end(struct lane_card *card)
{
    const uint64_t from_ns = base_now_ns();
    while (card->wrong == NULL && card->host.end == 0) {
        look(card);
        if (base_now_ns() - from_ns > LANE_CARD_WAIT_NS) {
            fail(card, "a launch does not end");
        }
    }
}

static bool has_left(const struct lane_card *card, uint32_t chain)
{
    return card->chains[chain].submitted < card->chains[chain].steps;
}

/* One task of some of them; false: there is nothing left to submit. */
static bool submit_some(struct lane_card *card, const uint32_t *chains, uint32_t n, uint32_t flags)
{
    uint32_t some[CELL_SM_ROWS_MAX];
    uint32_t n_some = 0;
    uint32_t n_left = 0;
    for (uint32_t i = 0; i < n; i++) {
        n_left += has_left(card, chains[i]) ? 1 : 0;
        if (has_left(card, chains[i]) && (n == 1 || base_random_below(&card->random, 4) != 0)) {
            some[n_some++] = chains[i];
        }
    }
    if (n_some > 0) {
        lane_card_submit(card, some, n_some, 1 + base_random_below(&card->random, 4), flags);
    }
    return n_left > 0;
}

void lane_card_run(struct lane_card *card, const uint32_t *chains, uint32_t n)
{
    for (bool is_left = true; is_left && card->wrong == NULL;) {
        // A task that may end early is the last of its rows until it has ended.
        const bool is_open = base_random_below(&card->random, 3) == 0;
        if (is_open) {
            cell_lane_attend(&card->host.lane, 1);
            is_left = submit_some(card, chains, n, CELL_LANE_INTERRUPTIBLE);
        }
        while (!is_open && is_left && cell_lane_host_has_room(&card->host)) {
            is_left = submit_some(card, chains, n, 0);
        }
        lane_card_drain(card);
        cell_lane_attend(&card->host.lane, 0);
        for (uint32_t i = 0; i < n; i++) {
            is_left |= has_left(card, chains[i]);
        }
    }
}
