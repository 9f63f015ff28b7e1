/* See random_cell.h. One thread.
 *
 * Of each value the largest magnitude is kept, roughly: one that has grown goes through a tanh
 * before something is computed of it. A cell without that soon computes nothing but infinities, in
 * which every fault hides. */
#include "tests/cells/random_cell.h"

#include "base/assert.h"

#include <math.h>
#include <stdio.h>

#define IDS        10u /* an input of integers is less */
#define OPS_DRAWN  24u /* at most; they bring others with them */
#define STATE_MOST 8.0 /* magnitude that a state may start a step with */
#define CALM       8.0

struct drawing {
    struct build *build;
    struct base_random *random;
    enum random_cell_manner manner;
    uint32_t n_rowed;             /* inputs 0 .. n_rowed - 1 are K and V of ATTENDs, K of REDUCEs */
    double most[CELL_VALUES_MAX]; /* magnitude, roughly; 0 of a result that is not noted yet */
    uint32_t below[CELL_VALUES_MAX]; /* of integers: they are less; 0: nobody knows */
};

static uint32_t draw(struct drawing *drawing, uint32_t n)
{
    return base_random_below(drawing->random, n);
}

static bool is_smooth(const struct drawing *drawing)
{
    return drawing->manner == RANDOM_CELL_SMOOTH;
}

/* Around the sizes of vectors and tiles, now and then beyond several of them. */
static uint32_t draw_width(struct drawing *drawing)
{
    static const uint32_t widths[] = {1, 2, 5, 8, 15, 16, 17, 31, 32, 33, 48, 64, 65, 80, 96, 130};
    return draw(drawing, 12) == 0 ? 1 + draw(drawing, 400)
                                  : widths[draw(drawing, sizeof(widths) / sizeof(widths[0]))];
}

static const struct cell_value *shape(const struct drawing *drawing, uint32_t value)
{
    return &drawing->build->def.values[value];
}

static uint32_t width_of(const struct drawing *drawing, uint32_t value)
{
    return shape(drawing, value)->width;
}

static uint32_t noted(struct drawing *drawing, uint32_t value, double most)
{
    drawing->most[value] = most;
    return value;
}

/* A value of floats or of integers, more often a late one; UINT32_MAX: there is none. */
static uint32_t pick(struct drawing *drawing, bool is_float)
{
    const uint32_t n = drawing->build->def.n_values;
    uint32_t found[CELL_VALUES_MAX];
    uint32_t n_found = 0;
    for (uint32_t v = drawing->n_rowed; v < n; v++) {
        if ((shape(drawing, v)->dtype == CELL_F32) == is_float) {
            found[n_found++] = v;
        }
    }
    if (n_found == 0) {
        return UINT32_MAX;
    }
    const uint32_t late = n_found < 6 ? n_found : 6;
    return draw(drawing, 2) == 0 ? found[n_found - 1 - draw(drawing, late)]
                                 : found[draw(drawing, n_found)];
}

static uint32_t tanh_of(struct drawing *drawing, uint32_t value)
{
    const uint32_t width = width_of(drawing, value);
    return noted(drawing, build_op(drawing->build, CELL_OP_TANH, value, UINT32_MAX, width), 1.0);
}

/* The value, or a tanh of it where it may be large; in a cell of any kind not always. */
static uint32_t calm(struct drawing *drawing, uint32_t value)
{
    const bool is_large = drawing->most[value] > CALM;
    return is_large && (is_smooth(drawing) || draw(drawing, 4) != 0) ? tanh_of(drawing, value)
                                                                     : value;
}

static uint32_t pick_calm(struct drawing *drawing)
{
    return calm(drawing, pick(drawing, true));
}

static uint32_t slice_of(struct drawing *drawing, uint32_t value, uint32_t width)
{
    const uint32_t start = draw(drawing, width_of(drawing, value) - width + 1);
    const uint32_t result = build_op(drawing->build, CELL_OP_SLICE, value, UINT32_MAX, width);
    build_last(drawing->build)->start = start;
    drawing->below[result] = drawing->below[value];
    return noted(drawing, result, drawing->most[value]);
}

/* Of the last op's weights. */
static void any_precision(struct drawing *drawing)
{
    if (!is_smooth(drawing)) {
        build_last(drawing->build)->precision =
            (enum cell_precision)draw(drawing, CELL_PRECISION_COUNT);
    }
}

/* Sums of terms of both signs: the root of their number, and something for luck. */
static uint32_t linear_of(struct drawing *drawing, uint32_t value, uint32_t width)
{
    const double most = 4.0 * drawing->most[value] + 1.0;
    const uint32_t out = build_linear(drawing->build, value, width, draw(drawing, 2) == 0);
    if (draw(drawing, 4) == 0) {
        any_precision(drawing);
    }
    return noted(drawing, out, most);
}

/* Of floats, so wide: the value, a part of it, or a product. */
static uint32_t fit(struct drawing *drawing, uint32_t value, uint32_t width)
{
    if (width_of(drawing, value) == width) {
        return value;
    }
    return width_of(drawing, value) > width && draw(drawing, 2) == 0
               ? slice_of(drawing, value, width)
               : linear_of(drawing, value, width);
}

static uint32_t pick_fitting(struct drawing *drawing, uint32_t width)
{
    for (uint32_t tries = 0; tries < 8; tries++) {
        const uint32_t value = pick(drawing, true);
        if (width_of(drawing, value) == width) {
            return calm(drawing, value);
        }
    }
    return calm(drawing, fit(drawing, pick_calm(drawing), width));
}

/* ---- One op and what it brings -------------------------------------------------------------- */

static void add_lstm(struct drawing *drawing)
{
    const uint32_t x = pick_calm(drawing);
    const uint32_t h = pick_calm(drawing);
    const uint32_t c = pick_calm(drawing);
    const bool has_bias = draw(drawing, 3) != 0;
    const uint32_t out = build_lstm(drawing->build, x, h, c, has_bias);
    if (has_bias && draw(drawing, 3) == 0) {
        build_peepholes(drawing->build);
    }
    any_precision(drawing);
    (void)noted(drawing, out, 1.0);
    (void)noted(drawing, out + 1, drawing->most[c] + 1.0);
}

static void add_gru_or_rnn(struct drawing *drawing)
{
    const uint32_t x = pick_calm(drawing);
    const uint32_t h = pick_calm(drawing);
    const enum cell_op_kind kind = draw(drawing, 3) == 0 ? CELL_OP_RNN : CELL_OP_GRU;
    const uint32_t variant = draw(drawing, 2);
    const bool is_relu = kind == CELL_OP_RNN && variant == CELL_RNN_RELU;
    const double most =
        is_relu ? 4.0 * (drawing->most[x] + drawing->most[h]) + 2.0 : fmax(1.0, drawing->most[h]);
    (void)noted(drawing, build_gated(drawing->build, kind, variant, x, h, draw(drawing, 3) != 0),
                most);
    any_precision(drawing);
}

/* The first number from `from` on that divides n. */
static uint32_t divisor_from(uint32_t n, uint32_t from)
{
    while (n % from != 0) {
        from++;
    }
    return from;
}

/* In any order; of what fits an h of each patch, or of them all. */
static void add_gated_patches(struct drawing *drawing)
{
    struct build_turns turns = {.kind = (enum cell_op_kind)(CELL_OP_LSTM + draw(drawing, 3)),
                                .order = (enum cell_patch_order)draw(drawing, 3),
                                .hidden = 1 + draw(drawing, 40),
                                .x = pick_calm(drawing),
                                .has_bias = draw(drawing, 3) != 0};
    const bool is_apart = turns.order == CELL_PATCHES_APART;
    const uint32_t width = width_of(drawing, turns.x);
    turns.patches = divisor_from(width, 1 + draw(drawing, width < 4 ? width : 4));
    turns.variant = turns.kind == CELL_OP_GRU && !is_apart ? CELL_GRU_RESET_AFTER
                    : turns.kind == CELL_OP_GRU            ? draw(drawing, 2)
                                                           : CELL_RNN_TANH;
    if (turns.patches > 12) {
        turns.patches = 1;
    }
    turns.h = pick_fitting(drawing, turns.hidden * (is_apart ? turns.patches : 1));
    turns.c = pick_fitting(drawing, turns.hidden * (is_apart ? turns.patches : 1));
    const double most = fmax(1.0, drawing->most[turns.h]);
    const uint32_t out = build_gated_patches(drawing->build, &turns);
    any_precision(drawing);
    (void)noted(drawing, out, turns.kind == CELL_OP_LSTM ? 1.0 : most);
    if (turns.kind == CELL_OP_LSTM) {
        (void)noted(drawing, out + 1, drawing->most[turns.c] + turns.patches);
    }
}

static void add_tree(struct drawing *drawing)
{
    struct build_tree tree = {
        .kind = (enum cell_op_kind)(CELL_OP_TREE_LEAF + draw(drawing, 3)),
        .hidden = draw_width(drawing),
        .x = UINT32_MAX,
        .has_bias = draw(drawing, 3) != 0,
    };
    tree.n_children = tree.kind == CELL_OP_TREE_LEAF     ? 0
                      : tree.kind == CELL_OP_TREE_BINARY ? 2
                                                         : 1 + draw(drawing, 4);
    double most = 1.0;
    for (uint32_t i = 0; i < 2 * tree.n_children; i++) {
        tree.children[i] = pick_fitting(drawing, tree.hidden);
        most += i % 2 == 1 ? drawing->most[tree.children[i]] : 0.0;
    }
    if (tree.kind == CELL_OP_TREE_LEAF || draw(drawing, 2) == 0) {
        tree.x = pick_calm(drawing);
    }
    const uint32_t out = build_tree(drawing->build, &tree);
    any_precision(drawing);
    (void)noted(drawing, out, 1.0);
    (void)noted(drawing, out + 1, most);
}

/* a and b of one width, or b a single number. */
static void add_arithmetic(struct drawing *drawing)
{
    const enum cell_op_kind kind = (enum cell_op_kind)(
        CELL_OP_ADD +
        draw(drawing, (is_smooth(drawing) ? CELL_OP_MAX : CELL_OP_LESS_EQUAL) - CELL_OP_ADD + 1));
    uint32_t a = pick_calm(drawing);
    const uint32_t width = width_of(drawing, a);
    uint32_t b = pick_fitting(drawing, draw(drawing, 5) == 0 ? 1 : width);
    double most = drawing->most[a] + drawing->most[b];
    if (kind == CELL_OP_MUL) {
        most = drawing->most[a] * drawing->most[b];
    } else if (kind == CELL_OP_DIV && (is_smooth(drawing) || draw(drawing, 2) == 0)) {
        b = noted(drawing,
                  build_op(drawing->build, CELL_OP_EXP, tanh_of(drawing, b), UINT32_MAX,
                           width_of(drawing, b)),
                  3.0);
        most = 3.0 * drawing->most[a];
    } else if (kind == CELL_OP_POW && is_smooth(drawing)) { // of what is above 0
        a = build_op(drawing->build, CELL_OP_EXP, tanh_of(drawing, a), UINT32_MAX, width);
        drawing->most[a] = 3.0;
        b = tanh_of(drawing, b);
        most = 3.0;
    } else if (kind == CELL_OP_DIV || kind == CELL_OP_POW) {
        most = 1e9;
    }
    if (kind != CELL_OP_DIV && kind != CELL_OP_POW && width_of(drawing, b) == 1 &&
        draw(drawing, 4) == 0) {
        const uint32_t first = b;
        b = a;
        a = first;
    }
    (void)noted(drawing, build_op(drawing->build, kind, a, b, width), most);
}

static void add_select(struct drawing *drawing)
{
    const uint32_t a = pick_calm(drawing);
    const uint32_t width = width_of(drawing, a);
    const uint32_t condition = pick_fitting(drawing, draw(drawing, 4) == 0 ? 1 : width);
    const uint32_t b = pick_fitting(drawing, draw(drawing, 4) == 0 ? 1 : width);
    (void)noted(drawing, build_select(drawing->build, condition, a, b, width),
                fmax(drawing->most[a], drawing->most[b]));
}

static void add_function(struct drawing *drawing)
{
    static const enum cell_op_kind kinds[] = {
        CELL_OP_SIGMOID, CELL_OP_TANH, CELL_OP_RELU, CELL_OP_ABS,  CELL_OP_EXP,   CELL_OP_LOG,
        CELL_OP_SIN,     CELL_OP_COS,  CELL_OP_ATAN, CELL_OP_SQRT, CELL_OP_FLOOR, CELL_OP_ROUND};
    const uint32_t n = sizeof(kinds) / sizeof(kinds[0]);
    const enum cell_op_kind kind = kinds[draw(drawing, is_smooth(drawing) ? n - 2 : n)];
    uint32_t of = pick_calm(drawing);
    const uint32_t width = width_of(drawing, of);
    const bool is_tamed = is_smooth(drawing) || draw(drawing, 3) != 0;
    if (is_tamed && (kind == CELL_OP_EXP || kind == CELL_OP_LOG || kind == CELL_OP_SQRT)) {
        of = tanh_of(drawing, of);
    }
    if (is_tamed && (kind == CELL_OP_LOG || kind == CELL_OP_SQRT)) { // of what is not near 0
        of = noted(drawing, build_op(drawing->build, CELL_OP_SIGMOID, of, UINT32_MAX, width), 1.0);
    }
    const double most = kind == CELL_OP_EXP ? exp(fmin(drawing->most[of], 20.0)) : 0.0;
    (void)noted(drawing, build_op(drawing->build, kind, of, UINT32_MAX, width),
                fmax(most, fmax(drawing->most[of], 2.0)));
}

static void add_softmax(struct drawing *drawing)
{
    const uint32_t of = pick_calm(drawing);
    const uint32_t width = width_of(drawing, of);
    const bool is_log = draw(drawing, 2) == 0;
    (void)noted(drawing,
                build_op(drawing->build, is_log ? CELL_OP_LOG_SOFTMAX : CELL_OP_SOFTMAX, of,
                         UINT32_MAX, width),
                is_log ? 2.0 * CALM + log((double)width) : 1.0);
    const uint32_t parts = 1 + draw(drawing, 5);
    build_last(drawing->build)->group = width % parts == 0 ? width / parts : width;
}

/* Of all elements, or of groups. */
static void add_sum_or_mean(struct drawing *drawing)
{
    const uint32_t of = pick_calm(drawing);
    const uint32_t width = width_of(drawing, of);
    const uint32_t groups =
        draw(drawing, 2) == 0 ? 1 : divisor_from(width, 1 + draw(drawing, width < 9 ? width : 9));
    const bool is_sum = width / groups <= 8 && draw(drawing, 2) == 0;
    const uint32_t out =
        build_op(drawing->build, is_sum ? CELL_OP_SUM : CELL_OP_MEAN, of, UINT32_MAX, groups);
    build_last(drawing->build)->group = groups == 1 ? 0 : width / groups;
    (void)noted(drawing, out, drawing->most[of] * (is_sum ? width / groups : 1));
}

static void add_argmax(struct drawing *drawing)
{
    const uint32_t of = pick(drawing, true);
    const uint32_t result = build_op(drawing->build, CELL_OP_ARGMAX, of, UINT32_MAX, 1);
    drawing->build->def.values[result].dtype = draw(drawing, 2) == 0 ? CELL_I64 : CELL_I32;
    drawing->below[result] = width_of(drawing, of);
}

/* The numbers, and what they are the numbers of; or by any numbers. */
static void add_top(struct drawing *drawing)
{
    const uint32_t of = pick(drawing, true);
    const uint32_t most = width_of(drawing, of) < 20 ? width_of(drawing, of) : 20;
    const uint32_t width = 1 + draw(drawing, most);
    if (draw(drawing, 2) == 0) {
        const uint32_t any = build_numbers(drawing->build, width, width_of(drawing, of));
        (void)noted(drawing, build_op(drawing->build, CELL_OP_TAKE, of, any, width),
                    drawing->most[of]);
        return;
    }
    const uint32_t numbers = build_op(drawing->build, CELL_OP_TOP, of, UINT32_MAX, width);
    build_last(drawing->build)->variant = draw(drawing, 2);
    drawing->build->def.values[numbers].dtype = CELL_I64;
    drawing->below[numbers] = width_of(drawing, of);
    (void)noted(drawing, build_op(drawing->build, CELL_OP_TAKE, of, numbers, width),
                drawing->most[of]);
}

/* Of integers whose bound nobody knows it takes what it finds: an id outside is held inside. */
static void add_gather(struct drawing *drawing)
{
    const uint32_t id = pick(drawing, false);
    if (id == UINT32_MAX) {
        return;
    }
    const uint32_t width = width_of(drawing, id);
    const bool takes_all = width > 1 && width < 12 && draw(drawing, 2) == 0;
    const uint32_t of = width == 1 || takes_all ? id : slice_of(drawing, id, 1);
    const uint32_t below = drawing->below[of] == 0 ? 5 : drawing->below[of];
    (void)noted(drawing,
                build_gather(drawing->build, of, below + draw(drawing, 3), draw_width(drawing)),
                1.0);
}

/* Its q is made as wide as K. */
static void add_attend(struct drawing *drawing)
{
    if (drawing->n_rowed == 0) {
        return;
    }
    const uint32_t variant = draw(drawing, CELL_ATTEND_LARGEST + 1);
    const uint32_t keys = draw(drawing, drawing->n_rowed);
    const uint32_t values = variant == CELL_ATTEND_LARGEST ? keys : draw(drawing, drawing->n_rowed);
    const uint32_t depth = width_of(drawing, keys);
    const uint32_t q = pick_fitting(drawing, depth);
    const uint32_t width = variant == CELL_ATTEND_LARGEST ? 1 : width_of(drawing, values);
    const bool is_bounded =
        variant != CELL_ATTEND_LARGEST && !is_smooth(drawing) && draw(drawing, 2) == 0;
    const bool is_relative = is_bounded && variant == CELL_ATTEND_PRODUCT && draw(drawing, 2) == 0;
    const uint32_t near = 1 + draw(drawing, 20);
    const uint32_t bounds = is_bounded ? pick_fitting(drawing, is_relative ? 3 : 2) : q;
    const uint32_t relative = is_relative ? pick_fitting(drawing, near) : q;
    const uint32_t out = build_op(drawing->build, CELL_OP_ATTEND, q, keys, width);
    struct cell_op *op = build_last(drawing->build);
    op->operands[op->n_operands++] = values;
    op->variant = variant;
    op->nan_is_zero = variant != CELL_ATTEND_LARGEST && draw(drawing, 2) == 0;
    op->n_weights = 1;
    if (is_bounded) {
        op->operands[op->n_operands++] = bounds;
    }
    if (is_relative) {
        const uint32_t rows = 1 + draw(drawing, 6);
        op->operands[op->n_operands++] = relative;
        op->weights[op->n_weights++] = (struct cell_weight){
            CELL_F32, rows, near, build_floats(drawing->build, rows, near, 0.5f)};
    }
    op->weights[0] = (struct cell_weight){
        CELL_F32, 1, depth, build_floats(drawing->build, 1, depth, 1.0f / sqrtf((float)depth))};
    (void)noted(drawing, out, 4.0 * CALM);
}

static void add_reduce(struct drawing *drawing)
{
    if (drawing->n_rowed == 0) {
        return;
    }
    const uint32_t variant = draw(drawing, CELL_REDUCE_COUNT + 1);
    const uint32_t memory = draw(drawing, drawing->n_rowed);
    const uint32_t width = variant == CELL_REDUCE_COUNT ? 1 : width_of(drawing, memory);
    const uint32_t out = build_op(drawing->build, CELL_OP_REDUCE, memory, UINT32_MAX, width);
    build_last(drawing->build)->variant = variant;
    (void)noted(drawing, out, 16.0 * CALM);
}

/* Of a constant number, which no rounding moves to another row. */
static void add_pick(struct drawing *drawing)
{
    if (drawing->n_rowed > 0) {
        const uint32_t memory = draw(drawing, drawing->n_rowed);
        const uint32_t number = build_const(drawing->build, 1);
        float *at = base_arena_array(&drawing->build->arena, 1, sizeof(*at));
        base_assert(at != NULL);
        *at = (float)draw(drawing, 24) / 2.0f - 1.25f;
        build_last(drawing->build)->weights[0].data = at;
        const uint32_t width = width_of(drawing, memory);
        const uint32_t out = build_op(drawing->build, CELL_OP_PICK, memory, number, width);
        (void)noted(drawing, number, 12.0);
        (void)noted(drawing, out, 2.0);
    }
}

static void add_concat(struct drawing *drawing)
{
    const bool is_float = draw(drawing, 4) != 0 || pick(drawing, false) == UINT32_MAX;
    uint32_t operands[4] = {pick(drawing, is_float)};
    const enum cell_dtype dtype = shape(drawing, operands[0])->dtype;
    double most = drawing->most[operands[0]];
    uint32_t below = drawing->below[operands[0]];
    uint32_t n = 1;
    for (uint32_t tries = draw(drawing, 4); tries > 0; tries--) {
        const uint32_t value = pick(drawing, is_float);
        if (shape(drawing, value)->dtype == dtype) {
            operands[n++] = value;
            most = fmax(most, drawing->most[value]);
            below = below > drawing->below[value] ? below : drawing->below[value];
        }
    }
    const uint32_t result = build_concat(drawing->build, n, operands);
    drawing->below[result] = below;
    (void)noted(drawing, result, most);
}

static void add_slice_or_copy(struct drawing *drawing)
{
    uint32_t of = draw(drawing, 4) == 0 ? pick(drawing, false) : UINT32_MAX;
    of = of == UINT32_MAX ? pick(drawing, true) : of;
    if (draw(drawing, 3) != 0) {
        (void)slice_of(drawing, of, 1 + draw(drawing, width_of(drawing, of)));
        return;
    }
    const uint32_t copy =
        build_op(drawing->build, CELL_OP_COPY, of, UINT32_MAX, width_of(drawing, of));
    drawing->below[copy] = drawing->below[of];
    (void)noted(drawing, copy, drawing->most[of]);
}

static void add_cast(struct drawing *drawing)
{
    const bool is_float = draw(drawing, 2) == 0;
    const uint32_t of = pick(drawing, is_float);
    if (of != UINT32_MAX) {
        const enum cell_dtype to = (enum cell_dtype)draw(drawing, 3);
        (void)noted(drawing, build_cast(drawing->build, of, to), 1e9);
    }
}

static void add_linear(struct drawing *drawing)
{
    const uint32_t of = pick_calm(drawing);
    (void)linear_of(drawing, of, draw_width(drawing));
}

/* Patches that overlap, lie side by side, or have elements between them that no one reads. */
static void add_patches(struct drawing *drawing)
{
    const uint32_t of = pick_calm(drawing);
    const uint32_t width = width_of(drawing, of);
    const uint32_t step = 1 + draw(drawing, 20);
    const uint32_t most = 1 + (width - 1) / step;
    const uint32_t patches = 1 + draw(drawing, most < 9 ? most : 9);
    const uint32_t outputs = 1 + draw(drawing, 40);
    const double magnitude = 4.0 * drawing->most[of] + 1.0;
    const uint32_t out = build_patches(drawing->build, of, patches, step, outputs);
    if (draw(drawing, 3) == 0) {
        any_precision(drawing);
    }
    (void)noted(drawing, out, magnitude);
}

/* Places of a picture, with edges on all sides or none, of which some may read nothing else. */
static struct cell_picture draw_picture(struct drawing *drawing, uint32_t width)
{
    const uint32_t places = divisor_from(width, 1 + draw(drawing, width < 12 ? width : 12));
    const uint32_t height = divisor_from(places, 1 + draw(drawing, places < 3 ? places : 3));
    struct cell_picture picture = {.size = {height, places / height}};
    for (uint32_t i = 0; i < 2; i++) {
        picture.taps[i] = 1 + draw(drawing, 3);
        picture.dilations[i] = 1 + draw(drawing, 2);
        picture.strides[i] = 1 + draw(drawing, 3);
        picture.before[i] = draw(drawing, picture.taps[i] + 1);
        picture.left[i] = 1 + draw(drawing, 4);
    }
    return picture;
}

static void add_picture(struct drawing *drawing)
{
    const uint32_t of = pick_calm(drawing);
    const struct cell_picture picture = draw_picture(drawing, width_of(drawing, of));
    const double magnitude = 4.0 * drawing->most[of] + 1.0;
    const uint32_t out = build_picture(drawing->build, of, &picture, 1 + draw(drawing, 40));
    if (draw(drawing, 3) == 0) {
        any_precision(drawing);
    }
    (void)noted(drawing, out, magnitude);
}

static void add_filter(struct drawing *drawing)
{
    const uint32_t of = pick_calm(drawing);
    const struct cell_picture picture = draw_picture(drawing, width_of(drawing, of));
    const bool is_sum = draw(drawing, 2) == 0;
    const double most = drawing->most[of];
    const uint32_t out =
        build_filter(drawing->build, of, &picture, is_sum ? CELL_FILTER_SUM : CELL_FILTER_LARGEST,
                     draw(drawing, 2) == 0);
    (void)noted(drawing, out, is_sum ? 4.0 * most + 1.0 : most);
}

static void add_transpose(struct drawing *drawing)
{
    uint32_t of = draw(drawing, 4) == 0 ? pick(drawing, false) : UINT32_MAX;
    of = of == UINT32_MAX ? pick(drawing, true) : of;
    uint32_t left = width_of(drawing, of);
    uint32_t dims[3];
    for (uint32_t i = 0; i < 3; i++) {
        dims[i] = divisor_from(left, 1 + draw(drawing, left < 8 ? left : 8));
        left /= dims[i];
    }
    const uint32_t out = build_transpose(drawing->build, of, dims);
    drawing->below[out] = drawing->below[of];
    (void)noted(drawing, out, drawing->most[of]);
}

static void add_spread(struct drawing *drawing)
{
    uint32_t of = draw(drawing, 4) == 0 ? pick(drawing, false) : UINT32_MAX;
    of = of == UINT32_MAX ? pick(drawing, true) : of;
    const uint32_t width = width_of(drawing, of);
    const uint32_t part = divisor_from(width, 1 + draw(drawing, width));
    const uint32_t times = 1 + draw(drawing, width < 40 ? 4 : 2);
    const uint32_t out =
        build_spread(drawing->build, of, (const uint32_t[]){width / part, times, part});
    drawing->below[out] = drawing->below[of];
    (void)noted(drawing, out, drawing->most[of]);
}

static void add_const(struct drawing *drawing)
{
    (void)noted(drawing, build_const(drawing->build, draw_width(drawing)), 1.0);
}

static void add_some(struct drawing *drawing)
{
    // The last four decide on numbers.
    static void (*const of_any[])(struct drawing *) = {
        add_picture,    add_filter,        add_linear,        add_patches,     add_transpose,
        add_spread,     add_lstm,          add_gru_or_rnn,    add_tree,        add_arithmetic,
        add_gather,     add_softmax,       add_function,      add_sum_or_mean, add_attend,
        add_arithmetic, add_concat,        add_gated_patches, add_function,    add_reduce,
        add_const,      add_slice_or_copy, add_pick,          add_select,      add_argmax,
        add_top,        add_cast,
    };
    const uint32_t n = sizeof(of_any) / sizeof(of_any[0]);
    of_any[draw(drawing, is_smooth(drawing) ? n - 4 : n)](drawing);
}

/* ---- A whole cell --------------------------------------------------------------------------- */

static void add_inputs(struct drawing *drawing)
{
    struct build *build = drawing->build;
    drawing->n_rowed = draw(drawing, 3) == 0 ? 1 + draw(drawing, 2) : 0;
    for (uint32_t i = 0; i < drawing->n_rowed; i++) {
        (void)noted(drawing, build_input(build, CELL_F32, draw_width(drawing)), 2.0);
    }
    for (uint32_t i = draw(drawing, 2); i > 0; i--) {
        const uint32_t id = build_input(build, draw(drawing, 2) == 0 ? CELL_I64 : CELL_I32, 1);
        drawing->below[id] = IDS;
    }
    for (uint32_t i = 1 + draw(drawing, 3); i > 0; i--) {
        (void)noted(drawing, build_input(build, CELL_F32, draw_width(drawing)), 2.0);
    }
}

static void add_states(struct drawing *drawing)
{
    struct build *build = drawing->build;
    const uint32_t n = draw(drawing, 4);
    for (uint32_t s = 0; s < n; s++) {
        if (!is_smooth(drawing) && draw(drawing, 5) == 0) {
            (void)build_state(build, CELL_I64, 1);
        } else {
            (void)noted(drawing, build_state(build, CELL_F32, draw_width(drawing)), STATE_MOST);
        }
    }
}

/* What comes of a state of integers: one of them, or the state itself. */
static uint32_t next_integer(struct drawing *drawing, uint32_t state)
{
    for (uint32_t tries = 0; tries < 8; tries++) {
        const uint32_t value = pick(drawing, false);
        if (shape(drawing, value)->dtype == CELL_I64) {
            return width_of(drawing, value) == 1 ? value : slice_of(drawing, value, 1);
        }
    }
    return state;
}

static void add_nexts(struct drawing *drawing)
{
    const struct cell_def *def = &drawing->build->def;
    for (uint32_t s = 0; s < def->n_states; s++) {
        const uint32_t state = def->n_inputs + s;
        if (shape(drawing, state)->dtype != CELL_F32) {
            build_next(drawing->build, s, next_integer(drawing, state));
            continue;
        }
        uint32_t next = pick_fitting(drawing, width_of(drawing, state));
        if (drawing->most[next] > STATE_MOST) {
            next = tanh_of(drawing, next);
        }
        build_next(drawing->build, s, next);
    }
}

void random_cell_build(struct build *build, enum random_cell_manner manner, uint64_t salt)
{
    struct drawing drawing = {.build = build, .random = &build->random, .manner = manner};
    build_init(build, salt);
    add_inputs(&drawing);
    add_states(&drawing);
    const uint32_t n = 1 + draw(&drawing, OPS_DRAWN);
    for (uint32_t o = 0; o < n && build->def.n_ops < CELL_OPS_MAX - 50; o++) {
        add_some(&drawing);
    }
    add_nexts(&drawing);
    for (uint32_t o = 1 + draw(&drawing, CELL_OUTPUTS_MAX); o > 0; o--) {
        const uint32_t of_integers = draw(&drawing, 6) == 0 ? pick(&drawing, false) : UINT32_MAX;
        build_output(build, of_integers != UINT32_MAX ? of_integers : pick(&drawing, true));
    }
    struct base_error error = {BASE_OK, ""};
    if (cell_def_check(&build->def, &error) != BASE_OK) {
        random_cell_print(&build->def);
        (void)printf("%s\n", error.message);
        base_assert(false);
    }
}

void random_cell_print(const struct cell_def *def)
{
    for (uint32_t v = 0; v < def->n_inputs + def->n_states; v++) {
        (void)printf("%u: %s of %u, dtype %d", v, v < def->n_inputs ? "input" : "state",
                     def->values[v].width, (int)def->values[v].dtype);
        (void)printf(v < def->n_inputs ? "\n" : ", then %u\n",
                     def->state_next[v < def->n_inputs ? 0 : v - def->n_inputs]);
    }
    for (uint32_t o = 0; o < def->n_ops; o++) {
        const struct cell_op *op = &def->ops[o];
        (void)printf("%u: %s of", op->result, cell_op_name(op->kind));
        for (uint32_t i = 0; i < op->n_operands; i++) {
            (void)printf(" %u", op->operands[i]);
        }
        (void)printf(", %u wide, variant %u, start %u, group %u, precision %d, "
                     "patches %u, step %u, order %d, dims %u %u %u\n",
                     def->values[op->result].width, op->variant, op->start, op->group,
                     (int)op->precision, op->patches, op->step, (int)op->order, op->dims[0],
                     op->dims[1], op->dims[2]);
    }
    for (uint32_t o = 0; o < def->n_outputs; o++) {
        (void)printf("output %u: %u\n", o, def->outputs[o]);
    }
}
