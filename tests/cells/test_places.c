/* Batches of single cells without a state, whose rows read and write wherever a wiring can say:
 * request memory at any stride, value rows, nothing; results that go to several places at once. On
 * the CPU their places are found when they are submitted (cells/cpu/places.h). */
#include "tests/cells/rig.h"
#include "tests/cells/team.h"
#include "tests/util.h"

#include <string.h>

enum { WIDTH = 5, SUMS = 7, ROWS = 20, STEPS = 3, HOSTS = 4, FULL_EMITS = 400 };

static const struct {
    const char *backend;
    uint32_t members; /* 0: no team */
} devices[] = {{"cpu", 0}, {"cpu", 2}, {"blas", 2}, {"cuda-host", 0}};

#define N_DEVICES ((int)(sizeof(devices) / sizeof(devices[0])))

/* x and y; x + y, products of it, and x as it came. */
enum { SUM, PRODUCTS, SAME, N_OUTPUTS };
static const uint32_t widths[N_OUTPUTS] = {WIDTH, SUMS, WIDTH};

/* What the cell computes last: products, whose panels members share, or something of them, row by
 * row, where no barrier is left before the results are copied. */
enum ending { ON_PANELS, ON_ROWS, N_ENDINGS };

static void build_cell(struct build *build, enum ending ending)
{
    build_init(build, 3);
    const uint32_t x = build_input(build, CELL_F32, WIDTH);
    const uint32_t y = build_input(build, CELL_F32, WIDTH);
    const uint32_t sum = build_op(build, CELL_OP_ADD, x, y, WIDTH);
    const uint32_t products = build_linear(build, sum, SUMS, true);
    build_output(build, sum);
    build_output(build, ending == ON_PANELS
                            ? products
                            : build_op(build, CELL_OP_TANH, products, UINT32_MAX, SUMS));
    build_output(build, x);
}

/* One row: what it reads, where it writes, and what must then stand there. */
struct row {
    struct cell_wiring wiring;
    struct cell_refs refs;
    struct cell_emit emits[FULL_EMITS];
    float in[2][STEPS][WIDTH];
    float host[FULL_EMITS][STEPS][SUMS];
    float x[WIDTH], y[WIDTH]; /* at its step */
    uint32_t step;
};

static struct row rows[ROWS];
static struct row alone;

/* Value rows, of which outputs and inputs of one width have one store: ROWS each. */
static uint32_t row_of_output(uint32_t r, uint32_t o)
{
    return r + (o == SAME ? ROWS : 0);
}

static uint32_t row_of_input(uint32_t r)
{
    return RIG_ROWS - 1 - r;
}

_Static_assert(3 * ROWS <= RIG_ROWS, "no row is written and read");

static void fill(struct base_random *random, float *to, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        to[i] = base_random_f32(random, -1.0f, 1.0f);
    }
}

static void read_from(const struct rig *rig, struct row *row, uint32_t r, uint32_t input,
                      struct base_random *random)
{
    float *used = input == 0 ? row->x : row->y;
    struct cell_ref *ref = &row->refs.inputs[input];
    fill(random, &row->in[input][0][0], STEPS * WIDTH);
    memcpy(used, row->in[input][row->step], sizeof(row->x));
    switch (base_random_below(random, 4)) {
    case 0:
        *ref = (struct cell_ref){.kind = CELL_REF_ZERO};
        memset(used, 0, sizeof(row->x));
        break;
    case 1:
        *ref = (struct cell_ref){.kind = CELL_REF_VALUE, .row = row_of_input(r)};
        rig->backend->row_read(rig->device, rig->type->input_layouts[input], ref->row, 0, 0, used);
        break;
    case 2: // backwards
        *ref = (struct cell_ref){.kind = CELL_REF_HOST,
                                 .host = (uint8_t *)row->in[input][STEPS - 1],
                                 .stride_bytes = -(int64_t)sizeof(row->x)};
        memcpy(used, row->in[input][STEPS - 1 - row->step], sizeof(row->x));
        break;
    default:
        *ref = (struct cell_ref){.kind = CELL_REF_HOST,
                                 .host = (uint8_t *)row->in[input],
                                 .stride_bytes = sizeof(row->x)};
        break;
    }
}

static void emit_to_host(struct row *row, uint32_t output, enum cell_emit_when when)
{
    const uint32_t e = row->wiring.n_emits++;
    row->emits[e] = (struct cell_emit){CELL_EMIT_OUTPUT,
                                       when,
                                       output,
                                       {.kind = CELL_REF_HOST,
                                        .host = (uint8_t *)row->host[e],
                                        .stride_bytes = sizeof(row->host[e][0])}};
}

static void row_init(const struct rig *rig, struct row *row, uint32_t r, struct base_random *random)
{
    memset(row, 0, sizeof(*row));
    memset(row->host, 0x7f, sizeof(row->host));
    cell_wiring_use(&row->wiring, &row->refs);
    row->wiring.steps = STEPS;
    row->wiring.state = CELL_ROW_NONE;
    row->wiring.emits = row->emits;
    row->step = base_random_below(random, STEPS);
    read_from(rig, row, r, 0, random);
    read_from(rig, row, r, 1, random);
    for (uint32_t o = 0; o < N_OUTPUTS; o++) {
        for (uint32_t n = base_random_below(random, 3); n > 0; n--) {
            emit_to_host(row, o, (enum cell_emit_when)base_random_below(random, 3));
        }
        if (row->step != 1 && base_random_below(random, 2) == 0) {
            row->emits[row->wiring.n_emits++] =
                (struct cell_emit){CELL_EMIT_OUTPUT,
                                   row->step == 0 ? CELL_EMIT_FIRST : CELL_EMIT_LAST,
                                   o,
                                   {.kind = CELL_REF_VALUE, .row = row_of_output(r, o)}};
        }
    }
}

static struct cell_batch_row batch_row(const struct row *row)
{
    return (struct cell_batch_row){.wiring = &row->wiring, .first_step = row->step, .steps = 1};
}

/* The row's results, alone, from request memory to request memory. */
static void compute_alone(struct rig *rig, const struct row *row, float (*out)[SUMS])
{
    memset(&alone, 0, sizeof(alone));
    cell_wiring_use(&alone.wiring, &alone.refs);
    alone.wiring.steps = 1;
    alone.wiring.state = CELL_ROW_NONE;
    alone.wiring.emits = alone.emits;
    memcpy(alone.x, row->x, sizeof(alone.x));
    memcpy(alone.y, row->y, sizeof(alone.y));
    alone.refs.inputs[0] = (struct cell_ref){.kind = CELL_REF_HOST, .host = (uint8_t *)alone.x};
    alone.refs.inputs[1] = (struct cell_ref){.kind = CELL_REF_HOST, .host = (uint8_t *)alone.y};
    for (uint32_t o = 0; o < N_OUTPUTS; o++) {
        emit_to_host(&alone, o, CELL_EMIT_LAST);
    }
    struct cell_batch_row of_one = batch_row(&alone);
    struct cell_batch batch = {.n_rows = 1, .steps = 1, .rows = &of_one};
    rig_run(rig, &batch);
    for (uint32_t o = 0; o < N_OUTPUTS; o++) {
        memcpy(out[o], alone.host[o][0], sizeof(out[o]));
    }
    for (uint32_t i = 0; i < WIDTH; i++) {
        ck_assert(out[SUM][i] == row->x[i] + row->y[i]);
        ck_assert(out[SAME][i] == row->x[i]);
    }
}

/* What the row was to write stands there, and where it was to write nothing nothing does. */
static void check_row(struct rig *rig, const struct row *row, bool is_invariant)
{
    float out[N_OUTPUTS][SUMS];
    float untouched[STEPS][SUMS];
    memset(untouched, 0x7f, sizeof(untouched));
    compute_alone(rig, row, out);
    for (uint32_t e = 0; e < row->wiring.n_emits; e++) {
        const struct cell_emit *emit = &row->emits[e];
        const uint32_t o = emit->index;
        const size_t bytes = widths[o] * sizeof(float);
        float value[SUMS];
        if (emit->to.kind == CELL_REF_VALUE) {
            rig->backend->row_read(rig->device, rig->type->output_layouts[o], emit->to.row, 0, 0,
                                   value);
        }
        for (uint32_t s = 0; s < STEPS; s++) {
            const bool is_due =
                s == row->step && cell_emit_is_due(emit, row->step, row->wiring.steps);
            const float *got = emit->to.kind == CELL_REF_VALUE ? value : row->host[e][s];
            const float *want = is_due ? out[o] : untouched[s];
            if (emit->to.kind == CELL_REF_VALUE && !is_due) {
                continue;
            }
            for (uint32_t i = 0; i < widths[o]; i++) {
                const float off = got[i] > want[i] ? got[i] - want[i] : want[i] - got[i];
                ck_assert_msg(is_invariant || !is_due ? memcmp(got, want, bytes) == 0 : off < 1e-6f,
                              "emit %u of output %u at step %u", e, o, s);
            }
        }
    }
}

static void run(struct rig *rig, uint32_t n, uint32_t split)
{
    struct cell_batch_row given[ROWS];
    for (uint32_t r = 0; r < n; r++) {
        given[r] = batch_row(&rows[r]);
    }
    // Two on the queue at a time.
    struct cell_batch batches[2] = {{.rows = given, .n_rows = split, .steps = 1},
                                    {.rows = given + split, .n_rows = n - split, .steps = 1}};
    const uint64_t before = rig->submitted;
    for (uint32_t b = 0; b < 2; b++) {
        batches[b].type = rig->type;
        batches[b].status = BASE_INTERNAL;
        rig->backend->submit(rig->device, 0, &batches[b]);
        rig->submitted++;
    }
    while (atomic_load(rig->backend->completed(rig->device, 0)) < before + 2) {
        if (rig->backend->pump != NULL) {
            rig->backend->pump(rig->device, 0);
        }
        if (rig->backend->poll != NULL) {
            rig->backend->poll(rig->device, 0, 0);
        }
    }
    for (uint32_t b = 0; b < 2; b++) {
        ck_assert_int_eq(batches[b].status, BASE_OK);
        ck_assert_uint_eq(batches[b].steps_done, 1);
        for (uint32_t r = 0; r < batches[b].n_rows; r++) {
            ck_assert_uint_eq(batches[b].rows[r].steps_done, 1);
        }
    }
}

static void fill_value_rows(const struct rig *rig, struct base_random *random)
{
    for (uint32_t l = 0; l < 2; l++) {
        const uint32_t layout = rig->type->input_layouts[l];
        for (uint32_t r = 0; r < RIG_ROWS; r++) {
            float value[WIDTH];
            fill(random, value, WIDTH);
            rig->backend->row_write(rig->device, layout, r, 0, 0, value);
        }
    }
}

START_TEST(test_places_of_all_kinds)
{
    struct build build;
    struct rig rig;
    struct base_random random = util_random(11);
    struct cell_device_caps caps;
    build_cell(&build, (enum ending)(_i % N_ENDINGS));
    rig_init(&rig, devices[_i / N_ENDINGS].backend, NULL, devices[_i / N_ENDINGS].members,
             &build.def);
    rig.backend->caps(rig.device, &caps);
    for (uint32_t i = 0; i < 60; i++) {
        if (devices[_i / N_ENDINGS].members > 1) {
            team_delay(rig.team, i % 3, i % 3 < 2 ? 300 : 0); // the one, the other, nobody
        }
        const uint32_t n = 2 + base_random_below(&random, ROWS - 1);
        fill_value_rows(&rig, &random);
        for (uint32_t r = 0; r < n; r++) {
            row_init(&rig, &rows[r], r, &random);
        }
        run(&rig, n, 1 + base_random_below(&random, n - 1));
        for (uint32_t r = 0; r < n; r++) {
            check_row(&rig, &rows[r], caps.invariant_bits);
        }
    }
    rig_release(&rig);
    build_release(&build);
}
END_TEST

/* More results to be copied than anybody has kept room for. */
START_TEST(test_places_of_more_copies_than_there_is_room_for)
{
    struct build build;
    struct rig rig;
    struct base_random random = util_random(12);
    struct cell_device_caps caps;
    build_cell(&build, (enum ending)(_i % N_ENDINGS));
    rig_init(&rig, devices[_i / N_ENDINGS].backend, NULL, devices[_i / N_ENDINGS].members,
             &build.def);
    rig.backend->caps(rig.device, &caps);
    fill_value_rows(&rig, &random);
    for (uint32_t r = 0; r < ROWS; r++) {
        row_init(&rig, &rows[r], r, &random);
        while (rows[r].wiring.n_emits < FULL_EMITS) {
            emit_to_host(&rows[r], base_random_below(&random, N_OUTPUTS), CELL_EMIT_EACH);
        }
    }
    run(&rig, ROWS, ROWS - 1); // some 7,000 of the first batch
    for (uint32_t r = 0; r < ROWS; r++) {
        check_row(&rig, &rows[r], caps.invariant_bits);
    }
    rig_release(&rig);
    build_release(&build);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("places");
    TCase *tcase = tcase_create("places");
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, test_places_of_all_kinds, 0, N_DEVICES * N_ENDINGS);
    tcase_add_loop_test(tcase, test_places_of_more_copies_than_there_is_room_for, 0,
                        N_DEVICES * N_ENDINGS);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
