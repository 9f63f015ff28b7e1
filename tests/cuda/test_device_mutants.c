/* TOP and ATTEND on the CUDA device over a host's driver with one thing wrong in a kernel at a
 * time: of the answers some must differ from the CPU's, whose bits a right device has. A mistake is
 * made around the kernel's own body, in what it reads or leaves between its phases. */
#include "base/mem.h"
#include "cells/cuda/step_attend.h"
#include "cells/cuda/step_top.h"
#include "tests/cells/rig.h"
#include "tests/cuda/driver_host.h"
#include "tests/cuda/kernels_host.h"
#include "tests/util.h"

#include <math.h>
#include <string.h>

enum { ROWS = 11, STEPS = 3 };

/* ---- A kernel's body ------------------------------------------------------------------------ */

struct body {
    uint32_t lanes, phases;
    void (*run)(const struct cell_step *step, struct cell_step_at at);
    /* Behind each phase of an item; NULL: nothing is. */
    void (*between)(const struct cell_step *step, uint32_t item, uint32_t phase, float *room);
};

static void run_item(const struct body *body, const struct cell_step *step, uint32_t item)
{
    float room[CELL_STEP_ROOM * CELL_STEP_LANES_MAX];
    struct cell_step_at at = {.item = item, .n_items = item + 1, .room = room};
    memset(room, 0xFF, sizeof(room));
    for (at.phase = 0; at.phase < body->phases; at.phase++) {
        for (at.lane = 0; at.lane < body->lanes; at.lane++) {
            body->run(step, at);
        }
        if (body->between != NULL) {
            body->between(step, item, at.phase, room);
        }
    }
}

static void run_top(const struct cell_step *step, struct cell_step_at at)
{
    cell_step_top(&step->top, at);
}

static void run_scores(const struct cell_step *step, struct cell_step_at at)
{
    cell_step_attend_score(&step->attend_score, at);
}

static void run_weigh(const struct cell_step *step, struct cell_step_at at)
{
    cell_step_attend_weigh(&step->attend_weigh, at);
}

static const struct body tops = {CELL_STEP_LANES_MAX, CELL_STEP_TOP_BITS + 5, run_top, NULL};
static const struct body scores = {CELL_SOFTMAX_LANES, 2, run_scores, NULL};
static const struct body weighs = {CELL_STEP_LANES_MAX, 2, run_weigh, NULL};

/* ---- TOP ------------------------------------------------------------------------------------ */

enum { WIDTH = 600, TOP = 40 };

/* A row as a mistake has it in place of what stands there. */
static void run_changed(const struct cell_step *step, uint32_t n_items,
                        void (*change)(const float *from, float *to))
{
    static float changed[WIDTH];
    for (uint32_t i = 0; i < n_items; i++) {
        struct cell_step other = *step;
        change(cell_step_f32(step->top.in, i), changed);
        other.top.in =
            (struct cell_step_place){.at = (uint64_t)(uintptr_t)changed + CELL_STEP_HOST_BIAS};
        run_item(&tops, &other, i);
    }
}

static void mirror(const float *from, float *to)
{
    for (uint32_t i = 0; i < WIDTH; i++) {
        to[i] = from[WIDTH - 1 - i];
    }
}

/* Of equal elements the later first. */
static void top_ties(const struct cell_step *step, uint32_t n_items, bool is_backwards)
{
    (void)is_backwards;
    run_changed(step, n_items, mirror);
    for (uint32_t i = 0; i < n_items; i++) {
        uint32_t *numbers = cell_step_words(step->top.out, i);
        for (uint32_t k = 0; k < step->top.n; k++) {
            numbers[2 * k] = WIDTH - 1 - numbers[2 * k];
        }
    }
}

static void without_nan(const float *from, float *to)
{
    for (uint32_t i = 0; i < WIDTH; i++) {
        to[i] = isnan(from[i]) ? -INFINITY : from[i];
    }
}

/* A NaN is the smallest. */
static void top_nan(const struct cell_step *step, uint32_t n_items, bool is_backwards)
{
    (void)is_backwards;
    run_changed(step, n_items, without_nan);
}

static void with_signs(const float *from, float *to)
{
    for (uint32_t i = 0; i < WIDTH; i++) {
        to[i] = from[i] == 0.0f && signbit(from[i]) != 0 ? -1e-45f : from[i];
    }
}

/* -0 is below 0. */
static void top_zeros(const struct cell_step *step, uint32_t n_items, bool is_backwards)
{
    (void)is_backwards;
    run_changed(step, n_items, with_signs);
}

static void without_bit(const float *from, float *to)
{
    for (uint32_t i = 0; i < WIDTH; i++) {
        to[i] = isnan(from[i]) ? from[i] : cell_math_float(cell_math_bits(from[i]) & ~1u);
    }
}

/* A phase too few: the lowest bit of keys is not looked at. */
static void top_bit(const struct cell_step *step, uint32_t n_items, bool is_backwards)
{
    (void)is_backwards;
    run_changed(step, n_items, without_bit);
}

/* What is behind the last whole tile of 256 is left out. */
static void top_tile(const struct cell_step *step, uint32_t n_items, bool is_backwards)
{
    (void)is_backwards;
    for (uint32_t i = 0; i < n_items; i++) {
        struct cell_step other = *step;
        other.top.width -= other.top.width % CELL_STEP_LANES_MAX;
        run_item(&tops, &other, i);
    }
}

/* The neighbour's row is read. */
static void top_row(const struct cell_step *step, uint32_t n_items, bool is_backwards)
{
    (void)is_backwards;
    for (uint32_t i = 0; i < n_items; i++) {
        struct cell_step other = *step;
        const float *next = cell_step_f32(step->top.in, (i + 1) % n_items);
        other.top.in =
            (struct cell_step_place){.at = (uint64_t)(uintptr_t)next + CELL_STEP_HOST_BIAS};
        run_item(&tops, &other, i);
    }
}

/* Ties, both zeros, NaN, infinities, and floats side by side. */
static float top_element(struct base_random *random)
{
    static const float specials[] = {NAN,  INFINITY, -INFINITY, 0.0f, 0.0f,
                                     0.0f, -0.0f,    -0.0f,     -0.0f};
    const uint32_t kind = base_random_below(random, 4 * sizeof(specials) / sizeof(specials[0]));
    const float one = cell_math_float(0x3F800000u + base_random_below(random, 6));
    if (kind < sizeof(specials) / sizeof(specials[0])) {
        return kind > 2 || base_random_below(random, 3) == 0 ? specials[kind] : -2.0f;
    }
    return base_random_below(random, 60) == 0 ? one : -one;
}

static void build_top(struct build *build, uint32_t variant)
{
    build_init(build, 5);
    const uint32_t x = build_input(build, CELL_F32, WIDTH);
    const uint32_t numbers = build_op(build, CELL_OP_TOP, x, UINT32_MAX, TOP);
    build_last(build)->variant = variant;
    build->def.values[numbers].dtype = CELL_I64;
    build_output(build, numbers);
}

/* All outputs of one step of ROWS chains. */
static void answer_top(const char *backend, const struct cell_def *def, int64_t out[ROWS][TOP])
{
    static struct rig_chain chains[ROWS];
    struct cell_batch_row rows[ROWS];
    struct base_random random = util_random(91);
    struct rig rig;
    rig_init(&rig, backend, NULL, 0, def);
    for (uint32_t r = 0; r < ROWS; r++) {
        rig_chain_init(&chains[r], rig.type, r, 1, &random);
        float *x = (float *)(void *)chains[r].inputs[0];
        for (uint32_t i = 0; i < WIDTH; i++) {
            x[i] = top_element(&random);
        }
        rows[r] = rig_chain_row(&chains[r], 1);
    }
    struct cell_batch batch = {.n_rows = ROWS, .steps = 1, .rows = rows};
    rig_run(&rig, &batch);
    for (uint32_t r = 0; r < ROWS; r++) {
        memcpy(out[r], chains[r].outputs[0], sizeof(out[r]));
        rig_chain_release(&chains[r]);
    }
    rig_release(&rig);
}

/* Rows whose numbers are not the CPU's, of the largest and the smallest. */
static uint32_t wrong_tops(void)
{
    static int64_t wanted[ROWS][TOP];
    static int64_t got[ROWS][TOP];
    static const uint32_t variants[] = {CELL_TOP_LARGEST, CELL_TOP_SMALLEST};
    uint32_t n_wrong = 0;
    for (uint32_t v = 0; v < 2; v++) {
        struct build build;
        build_top(&build, variants[v]);
        answer_top("cpu", &build.def, wanted);
        answer_top("cuda-host", &build.def, got);
        for (uint32_t r = 0; r < ROWS; r++) {
            n_wrong += memcmp(got[r], wanted[r], sizeof(got[r])) != 0 ? 1 : 0;
        }
        build_release(&build);
    }
    return n_wrong;
}

/* ---- ATTEND --------------------------------------------------------------------------------- */

enum { KEY = 20, VALUE = 7, LONGEST = 300 };

static struct cell_step_source *keys_of(const struct cell_step_attend *p, uint32_t r)
{
    union {
        const struct cell_step_source *read;
        struct cell_step_source *changed;
    } keys = {.read = cell_step_source_of(&p->batch, p->keys, r)};
    return keys.changed;
}

/* The scores are of the source step behind. */
static void attend_behind(const struct cell_step *step, uint32_t n_items, bool is_backwards)
{
    (void)is_backwards;
    for (uint32_t i = 0; i < n_items; i++) {
        const struct cell_step_attend *p = &step->attend_score;
        struct cell_step_source *keys = keys_of(p, i / CELL_STEP_SCORERS);
        keys->at += (uint64_t)keys->stride;
        run_item(&scores, step, i);
        keys->at -= (uint64_t)keys->stride;
    }
}

/* The keys are the next row's, where it has as many. */
static void attend_neighbour(const struct cell_step *step, uint32_t n_items, bool is_backwards)
{
    (void)is_backwards;
    for (uint32_t i = 0; i < n_items; i++) {
        const struct cell_step_attend *p = &step->attend_score;
        const uint32_t r = i / CELL_STEP_SCORERS;
        struct cell_step_source *keys = keys_of(p, r);
        const struct cell_step_source kept = *keys;
        const uint32_t next = r + 1 < n_items / CELL_STEP_SCORERS ? r + 1 : r;
        keys->at = keys_of(p, next)->rows >= keys->rows ? keys_of(p, next)->at : keys->at;
        run_item(&scores, step, i);
        *keys = kept;
    }
}

/* Positions behind the last whole tile are not scored. */
static void attend_tile(const struct cell_step *step, uint32_t n_items, bool is_backwards)
{
    (void)is_backwards;
    for (uint32_t i = 0; i < n_items; i++) {
        const struct cell_step_attend *p = &step->attend_score;
        const struct cell_step_source *keys = keys_of(p, i / CELL_STEP_SCORERS);
        run_item(&scores, step, i);
        const struct cell_step_weights weights = cell_step_weights(p, i / CELL_STEP_SCORERS);
        for (uint32_t t = keys->rows / CELL_STEP_SCORERS * CELL_STEP_SCORERS; t < keys->rows; t++) {
            weights.scores[t] = 0.0f;
        }
    }
}

// NOLINTNEXTLINE(readability-non-const-parameter): as forget_parts()
static void turn_sums(const struct cell_step *step, uint32_t item, uint32_t phase, float *room)
{
    const struct cell_step_attend *p = &step->attend_score;
    const struct cell_step_weights weights = cell_step_weights(p, item / CELL_STEP_SCORERS);
    (void)room;
    for (uint32_t t = item % CELL_STEP_SCORERS; t < weights.n && phase == 0;
         t += CELL_STEP_SCORERS) {
        float *sums = weights.behind + (size_t)t * CELL_SOFTMAX_LANES;
        const float one = sums[0];
        sums[0] = sums[1];
        sums[1] = sums[2];
        sums[2] = one;
    }
}

/* Partial sums are added in another order. */
static void attend_fold(const struct cell_step *step, uint32_t n_items, bool is_backwards)
{
    struct body body = scores;
    (void)is_backwards;
    body.between = turn_sums;
    for (uint32_t i = 0; i < n_items; i++) {
        run_item(&body, step, i);
    }
}

/* The largest score is not subtracted. */
static void attend_unsubtracted(const struct cell_step *step, uint32_t n_items, bool is_backwards)
{
    (void)is_backwards;
    for (uint32_t i = 0; i < n_items; i++) {
        const struct cell_step_weights weights = cell_step_weights(&step->attend_weigh, i);
        for (uint32_t t = 0; t < weights.n; t++) {
            weights.scores[t] = cell_exp_f32(weights.scores[t]);
            weights.behind[t] = 1.0f;
        }
    }
}

/* What was summed stays as it is when a larger score comes. */
static void attend_unscaled(const struct cell_step *step, uint32_t n_items, bool is_backwards)
{
    (void)is_backwards;
    for (uint32_t i = 0; i < n_items; i++) {
        run_item(&weighs, step, i);
        const struct cell_step_weights weights = cell_step_weights(&step->attend_weigh, i);
        for (uint32_t t = 0; t < weights.n; t++) {
            weights.behind[t] = 1.0f;
        }
    }
}

static void forget_parts(const struct cell_step *step, uint32_t item, uint32_t phase, float *room)
{
    (void)step, (void)item, (void)phase;
    for (uint32_t lane = 0; lane < CELL_STEP_LANES_MAX; lane++) {
        room[lane] = -INFINITY;
    }
}

/* Each lane begins with no score before its part. */
static void attend_parts(const struct cell_step *step, uint32_t n_items, bool is_backwards)
{
    struct body body = weighs;
    (void)is_backwards;
    body.between = forget_parts;
    for (uint32_t i = 0; i < n_items; i++) {
        run_item(&body, step, i);
    }
}

/* A score that is no number is passed over. */
static void attend_nan(const struct cell_step *step, uint32_t n_items, bool is_backwards)
{
    (void)is_backwards;
    for (uint32_t i = 0; i < n_items; i++) {
        const struct cell_step_weights weights = cell_step_weights(&step->attend_weigh, i);
        for (uint32_t t = 0; t < weights.n; t++) {
            weights.scores[t] = isnan(weights.scores[t]) ? -INFINITY : weights.scores[t];
        }
        run_item(&weighs, step, i);
    }
}

/* No rows give 0 / 0. */
static void attend_empty(const struct cell_step *step, uint32_t n_items, bool is_backwards)
{
    (void)is_backwards;
    const struct cell_step_attend *p = &step->attend;
    for (uint32_t i = 0; i < n_items; i++) {
        const uint32_t r = i / p->out_width;
        cell_step_attend(p, (struct cell_step_at){.item = i, .n_items = n_items});
        if (keys_of(p, r)->rows == 0) {
            cell_step_f32(p->out, r)[i % p->out_width] = NAN;
        }
    }
}

/* Relative positions are those of the next key. */
static void attend_relative(const struct cell_step *step, uint32_t n_items, bool is_backwards)
{
    struct cell_step later = *step;
    struct cell_step_attend *p = &later.attend_score;
    (void)is_backwards;
    if (p->table_width > 0) {
        p->table += (uint64_t)p->table_width * sizeof(float);
        p->table_rows--;
    }
    for (uint32_t i = 0; i < n_items; i++) {
        run_item(&scores, &later, i);
    }
}

/* A variant; or, as many as there are, products with relative positions within bounds. */
enum { RELATIVE = CELL_ATTEND_LARGEST + 1, TABLE_ROWS = 40, TABLE_WIDTH = 18 };

static void build_attend(struct build *build, uint32_t way)
{
    const uint32_t variant = way == RELATIVE ? CELL_ATTEND_PRODUCT : way;
    static const float bounds[] = {0.0f, LONGEST, -5.0f};
    build_init(build, 3);
    const bool is_largest = variant == CELL_ATTEND_LARGEST; // V is K, the result one number
    const uint32_t width = is_largest ? 1 : VALUE;
    const uint32_t q = build_input(build, CELL_F32, KEY);
    const uint32_t keys = build_input(build, CELL_F32, KEY);
    const uint32_t values = build_input(build, CELL_F32, VALUE);
    const uint32_t relative = way == RELATIVE ? build_input(build, CELL_F32, TABLE_WIDTH) : q;
    const uint32_t all = way == RELATIVE ? build_const(build, 3) : q;
    if (way == RELATIVE) {
        build_last(build)->weights[0].data = bounds;
    }
    const uint32_t out = build_op(build, CELL_OP_ATTEND, q, keys, width);
    struct cell_op *op = build_last(build);
    op->operands[op->n_operands++] = is_largest ? keys : values;
    op->variant = variant;
    op->n_weights = 1;
    op->weights[0] = (struct cell_weight){CELL_F32, 1, KEY, build_floats(build, 1, KEY, 1.0f)};
    if (way == RELATIVE) {
        op->operands[op->n_operands++] = all;
        op->operands[op->n_operands++] = relative;
        op->weights[op->n_weights++] = (struct cell_weight){
            CELL_F32, TABLE_ROWS, TABLE_WIDTH, build_floats(build, TABLE_ROWS, TABLE_WIDTH, 1.0f)};
    }
    build_output(build, out);
}

/* A memory, and one row behind it that nobody may read. */
static float *memory(uint32_t rows, uint32_t width, struct base_random *random)
{
    float *floats = base_alloc_array((size_t)(rows + 1) * width, sizeof(*floats));
    ck_assert_ptr_nonnull(floats);
    for (size_t i = 0; i < (size_t)(rows + 1) * width; i++) {
        floats[i] = base_random_f32(random, -4.0f, 4.0f);
    }
    if (rows > 5 && base_random_below(random, 4) == 0) {
        floats[3 * width] = NAN;
    }
    return floats;
}

static struct cell_ref memory_ref(float *floats, uint32_t width, uint32_t rows)
{
    return (struct cell_ref){.kind = CELL_REF_HOST,
                             .host = (uint8_t *)floats,
                             .stride_bytes = (int64_t)(width * sizeof(float)),
                             .rows = rows};
}

static void answer_attend(const char *backend, const struct cell_def *def,
                          float out[ROWS][STEPS * VALUE])
{
    static struct rig_chain chains[ROWS];
    struct cell_batch_row rows[ROWS];
    float *memories[ROWS][2];
    struct base_random random = util_random(92);
    struct rig rig;
    const size_t width = def->values[def->outputs[0]].width;
    rig_init(&rig, backend, NULL, 0, def);
    for (uint32_t r = 0; r < ROWS; r++) {
        const uint32_t n = r == 0 ? 0 : 1 + base_random_below(&random, LONGEST);
        rig_chain_init(&chains[r], rig.type, r, STEPS, &random);
        memories[r][0] = memory(n, KEY, &random);
        memories[r][1] = memory(n, VALUE, &random);
        chains[r].wiring.inputs[1] = memory_ref(memories[r][0], KEY, n);
        if (cell_def_input_has_rows(def, 2)) {
            chains[r].wiring.inputs[2] = memory_ref(memories[r][1], VALUE, n);
        }
        rows[r] = rig_chain_row(&chains[r], STEPS);
    }
    struct cell_batch batch = {.n_rows = ROWS, .steps = STEPS, .rows = rows};
    rig_run(&rig, &batch);
    for (uint32_t r = 0; r < ROWS; r++) {
        memcpy(out[r], chains[r].outputs[0], STEPS * width * sizeof(float));
        base_free(memories[r][0]);
        base_free(memories[r][1]);
        rig_chain_release(&chains[r]);
    }
    rig_release(&rig);
}

static bool has_other_bits(const float *a, const float *b)
{
    uint32_t other = 0;
    for (uint32_t i = 0; i < STEPS * VALUE; i++) {
        other += cell_math_bits(a[i]) != cell_math_bits(b[i]) ? 1 : 0;
    }
    return other > 0;
}

/* Rows whose bits are not the CPU's, of all variants. */
static uint32_t wrong_attends(void)
{
    static float wanted[ROWS][STEPS * VALUE];
    static float got[ROWS][STEPS * VALUE];
    uint32_t n_wrong = 0;
    for (uint32_t way = 0; way <= RELATIVE; way++) {
        struct build build;
        memset(wanted, 0, sizeof(wanted));
        memset(got, 0, sizeof(got));
        build_attend(&build, way);
        answer_attend("cpu", &build.def, wanted);
        answer_attend("cuda-host", &build.def, got);
        for (uint32_t r = 0; r < ROWS; r++) {
            n_wrong += has_other_bits(got[r], wanted[r]) ? 1 : 0;
        }
        build_release(&build);
    }
    return n_wrong;
}

/* ---- Tests ---------------------------------------------------------------------------------- */

START_TEST(test_top_and_attend_have_the_bits_of_the_cpu)
{
    ck_assert_uint_eq(wrong_tops(), 0);
    ck_assert_uint_eq(wrong_attends(), 0);
    ck_assert_uint_eq(cuda_host_counts().unsound, 0);
}
END_TEST

START_TEST(test_one_thing_wrong_in_top_is_noticed)
{
    static kernels_host_fn *const wrong[] = {top_ties, top_nan,  top_zeros,
                                             top_bit,  top_tile, top_row};
    kernels_host_replace(CELL_STEP_TOP, wrong[_i]);
    const uint32_t n_wrong = wrong_tops();
    kernels_host_replace(CELL_STEP_TOP, NULL);
    ck_assert_uint_gt(n_wrong, 0);
}
END_TEST

static const struct {
    enum cell_step_kernel kernel;
    kernels_host_fn *run;
} attends[] = {
    {CELL_STEP_ATTEND_SCORE, attend_behind},   {CELL_STEP_ATTEND_SCORE, attend_neighbour},
    {CELL_STEP_ATTEND_SCORE, attend_tile},     {CELL_STEP_ATTEND_SCORE, attend_fold},
    {CELL_STEP_ATTEND_SCORE, attend_relative}, {CELL_STEP_ATTEND_WEIGH, attend_unsubtracted},
    {CELL_STEP_ATTEND_WEIGH, attend_unscaled}, {CELL_STEP_ATTEND_WEIGH, attend_parts},
    {CELL_STEP_ATTEND_WEIGH, attend_nan},      {CELL_STEP_ATTEND, attend_empty},
};

START_TEST(test_one_thing_wrong_in_attend_is_noticed)
{
    kernels_host_replace(attends[_i].kernel, attends[_i].run);
    const uint32_t n_wrong = wrong_attends();
    kernels_host_replace(attends[_i].kernel, NULL);
    ck_assert_uint_gt(n_wrong, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device_mutants");
    TCase *tcase = tcase_create("cuda-host");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, test_top_and_attend_have_the_bits_of_the_cpu);
    tcase_add_loop_test(tcase, test_one_thing_wrong_in_top_is_noticed, 0, 6);
    tcase_add_loop_test(tcase, test_one_thing_wrong_in_attend_is_noticed, 0,
                        sizeof(attends) / sizeof(attends[0]));
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
