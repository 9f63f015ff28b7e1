/* Positions from the last step down to the first, shifted as Transformer-XL does it: what each step
 * attends to by how far it is behind, against the sums that this stands for; and what is refused,
 * such as positions that are no distances, or a mask that leaves what the shift makes of others.
 * And such positions as numbers by which Zipformer gathers distances. */
#include "base/mem.h"
#include "cells/model.h"
#include "tests/cells/parse.h"
#include "tests/cells/replay.h"
#include "tests/util.h"

#include <math.h>
#include <string.h>

enum { FLOAT = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, INT64 = ONNX__TENSOR_PROTO__DATA_TYPE__INT64 };
enum { BATCH = 2, LONGEST = 9, TABLE = 9, WIDTH = 3, HIDDEN = 2 };

static struct onnx_builder builder;
static struct base_random numbers;

/* How positions become rows of WIDTH. */
enum way { FLOATS, INTEGERS, TABLES };

/* What is said, and otherwise. */
struct down {
    enum way way;
    int64_t less;              /* of the first position: T - less */
    int64_t limit, step, from; /* from: of the Slice */
    int64_t diagonal;          /* of the mask; 0: none */
    bool is_joined;            /* zeros by Concat */
    bool is_again;             /* a Reshape behind, to the shape that there is */
};

static const struct down straight = {.less = 1, .limit = -1, .step = -1, .from = 1, .diagonal = 1};

static const float rates[WIDTH] = {0.5f, 1.0f, -0.25f};
static float table[TABLE * WIDTH];

static void node_of_axis(const char *op, const char *inputs, const char *output, int64_t axis)
{
    onnx_set_int(&builder, onnx_node(&builder, op, inputs, output), "axis", axis);
}

static void integers(const char *name, uint32_t rank, int64_t number)
{
    onnx_constant(&builder, name, onnx_ints(&builder, rank, 1, &number));
}

static void floats(const char *name, uint32_t rank, const int64_t *dims, const float *data,
                   size_t n)
{
    onnx_constant(&builder, name,
                  onnx_tensor(&builder, FLOAT, rank, dims, data, n * sizeof(*data)));
}

/* y [batch, steps, WIDTH], all products of its steps, and positions [steps, WIDTH]. */
static void begin(const struct down *down)
{
    const int64_t dims[] = {-1, -1, WIDTH};
    const int64_t perm[] = {0, 2, 1};
    const int64_t row[] = {1, WIDTH};
    const int64_t rows[] = {TABLE, WIDTH};
    const float limit = (float)down->limit;
    const float step = (float)down->step;
    onnx_init(&builder, 17);
    onnx_add_weights(&builder, "GRU", WIDTH, HIDDEN, 1);
    onnx_input(&builder, "y", FLOAT, 3, dims);
    integers("i1", 0, 1);
    integers("less", 0, down->less);
    integers("limit", 0, down->limit);
    integers("step", 0, down->step);
    floats("limit_f", 0, NULL, &limit, 1);
    floats("step_f", 0, NULL, &step, 1);
    integers("n0", 1, 0);
    integers("n1", 1, 1);
    integers("from", 1, down->from);
    integers("far", 1, INT64_MAX);
    floats("rates", 2, row, rates, WIDTH);
    floats("table", 2, rows, table, TABLE * WIDTH);
    onnx_node(&builder, "Shape", "y", "shape");
    onnx_node(&builder, "Gather", "shape i1", "steps");
    onnx_node(&builder, "Gather", "shape n1", "steps_list");
    onnx_node(&builder, "Gather", "shape n0", "rows_list");
    onnx_node(&builder, "Sub", "steps less", "start");
    onnx_set_int(&builder, onnx_node(&builder, "Cast", "start", "start_f"), "to", FLOAT);
    onnx_node(&builder, "Range",
              down->way == FLOATS ? "start_f limit_f step_f" : "start limit step", "down");
    if (down->way == TABLES) {
        onnx_node(&builder, "Gather", "table down", "positions");
    } else {
        onnx_set_int(&builder, onnx_node(&builder, "Cast", "down", "down_f"), "to", FLOAT);
        onnx_node(&builder, "Unsqueeze", "down_f n1", "down_column");
        onnx_node(&builder, "Mul", "down_column rates", "angles");
        onnx_node(&builder, "Sin", "angles", "positions");
    }
    onnx_set_ints(&builder, onnx_node(&builder, "Transpose", "y", "yt"), "perm", 3, perm);
    onnx_node(&builder, "MatMul", "y yt", "products");
}

static void shift(const struct down *down)
{
    const int64_t turn[] = {0, 2, 1};
    const int64_t pads[] = {0, 0, 1, 0, 0, 0};
    const float zero = 0.0f;
    onnx_node(&builder, "Unsqueeze", "positions n0", "all_positions");
    onnx_set_ints(&builder, onnx_node(&builder, "Transpose", "all_positions", "turned_positions"),
                  "perm", 3, turn);
    onnx_node(&builder, "MatMul", "y turned_positions", "by_position");
    onnx_constant(&builder, "pads", onnx_ints(&builder, 1, 6, pads));
    floats("zero", 0, NULL, &zero, 1);
    node_of_axis("Concat", "rows_list steps_list n1", "column", 0);
    onnx_node(&builder, "Expand", "zero column", "zeros");
    if (down->is_joined) {
        node_of_axis("Concat", "zeros by_position", "padded", 2);
    } else {
        onnx_node(&builder, "Pad", "by_position pads", "padded");
    }
    onnx_node(&builder, "Add", "steps_list n1", "longer");
    node_of_axis("Concat", "rows_list longer steps_list", "turned_shape", 0);
    onnx_node(&builder, "Reshape", "padded turned_shape", "turned_round");
    onnx_node(&builder, "Slice", "turned_round from far n1",
              down->is_again ? "but_first" : "added");
    if (down->is_again) {
        node_of_axis("Concat", "rows_list steps_list steps_list", "again", 0);
        onnx_node(&builder, "Reshape", "but_first again", "added");
    }
    onnx_node(&builder, "Add", "products added", "sums");
}

static void end(const struct down *down)
{
    const int64_t perm[] = {1, 0, 2};
    const float lowest = -INFINITY;
    const float one = 1.0f;
    integers("diagonal", 0, down->diagonal);
    floats("lowest", 0, NULL, &lowest, 1);
    floats("one", 0, NULL, &one, 1);
    node_of_axis("Concat", "steps_list steps_list", "square", 0);
    onnx_node(&builder, "Expand", "one square", "ones");
    onnx_node(&builder, "Trilu", "ones diagonal", "later");
    onnx_set_int(&builder, onnx_node(&builder, "Cast", "later", "masked"), "to",
                 ONNX__TENSOR_PROTO__DATA_TYPE__BOOL);
    onnx_node(&builder, "Where", "masked lowest sums", "left");
    node_of_axis("Softmax", down->diagonal == 0 ? "sums" : "left", "weights", -1);
    onnx_node(&builder, "MatMul", "weights y", "o");
    onnx_set_ints(&builder, onnx_node(&builder, "Transpose", "y", "turned"), "perm", 3, perm);
    onnx_set_int(&builder, onnx_node(&builder, "GRU", "turned w r b", "gru"), "hidden_size",
                 HIDDEN);
    onnx_output(&builder, "o", FLOAT, 0, NULL);
    onnx_output(&builder, "gru", FLOAT, 0, NULL);
    builder.graph.output[0]->type = NULL;
    builder.graph.output[1]->type = NULL;
}

/* Of a position, element k. */
static double position(const struct down *down, int64_t at, int64_t k)
{
    return down->way == TABLES ? (double)table[at * WIDTH + k] : sin((double)at * (double)rates[k]);
}

/* What a query attends to among so many keys, of which each has a vector beside its own. */
static void expect_sums(const double *rows, int64_t query, int64_t keys, const double *vectors,
                        const double *got)
{
    double sums[WIDTH] = {0.0};
    double sum = 0.0;
    for (int64_t key = 0; key < keys; key++) {
        double score = 0.0;
        for (int64_t k = 0; k < WIDTH; k++) {
            score += rows[query * WIDTH + k] * (rows[key * WIDTH + k] + vectors[key * WIDTH + k]);
        }
        sum += exp(score);
        for (int64_t k = 0; k < WIDTH; k++) {
            sums[k] += exp(score) * rows[key * WIDTH + k];
        }
    }
    for (int64_t k = 0; k < WIDTH; k++) {
        util_assert_close(got[k], sums[k] / sum, 1e-5, 0);
    }
}

/* Of a query and a key, element k; NaN: the query does not attend to it. */
typedef double vector_of(const struct down *down, int64_t query, int64_t key, int64_t k);

static double behind(const struct down *down, int64_t query, int64_t key, int64_t k)
{
    return key > query ? (double)NAN : position(down, query - key, k);
}

static void expect_attention(const struct cell_model *model, const struct down *down,
                             vector_of *vector, int64_t steps)
{
    struct replay_tensor y = {.rank = 3, .dims = {BATCH, steps, WIDTH}};
    struct replay_tensor outputs[2] = {{.rank = 0}};
    y.count = (size_t)(BATCH * steps * WIDTH);
    y.data = base_alloc_array(y.count, sizeof(double));
    ck_assert_ptr_nonnull(y.data);
    for (size_t i = 0; i < y.count; i++) {
        y.data[i] = (double)base_random_f32(&numbers, -1.0f, 1.0f);
    }
    replay_run(model, &y, outputs);
    for (int64_t r = 0; r < BATCH * steps; r++) {
        double vectors[LONGEST * WIDTH];
        int64_t keys = 0;
        for (; keys < steps && !isnan(vector(down, r % steps, keys, 0)); keys++) {
            for (int64_t k = 0; k < WIDTH; k++) {
                vectors[keys * WIDTH + k] = vector(down, r % steps, keys, k);
            }
        }
        expect_sums(y.data + r / steps * steps * WIDTH, r % steps, keys, vectors,
                    &outputs[0].data[r * WIDTH]);
    }
    base_free(y.data);
    base_free(outputs[0].data);
    base_free(outputs[1].data);
}

START_TEST(test_positions_behind_each_step)
{
    for (uint32_t i = 0; i < 12; i++) {
        struct down down = straight;
        struct built built;
        down.way = (enum way)(i % 3);
        down.is_joined = i / 3 % 2 != 0;
        down.is_again = i / 6 != 0;
        begin(&down);
        shift(&down);
        end(&down);
        load_built(&builder, &built);
        const uint32_t most = built.model->sequences[built.model->inputs[0].sequence].steps_max;
        ck_assert_uint_eq(down.way == TABLES ? most : TABLE, TABLE);
        for (int64_t steps = 1; steps <= LONGEST; steps++) {
            expect_attention(built.model, &down, behind, steps);
        }
        free_built(&builder, &built);
    }
}
END_TEST

/* ---- What is refused ------------------------------------------------------------------------- */

static void refuse_down(const struct down *down, const char *why)
{
    begin(down);
    shift(down);
    end(down);
    expect_refused(&builder, BASE_UNIMPLEMENTED, why);
}

START_TEST(test_steps_that_no_mask_takes_away)
{
    struct down down = straight;
    down.diagonal = 0;
    refuse_down(&down, "of steps before the query, which no mask takes away");
    down.diagonal = 2;
    refuse_down(&down, "of steps before the query, which no mask takes away");
}
END_TEST

START_TEST(test_what_is_no_such_shift)
{
    for (uint32_t i = 0; i < 2; i++) {
        struct down down = straight;
        down.way = i == 0 ? FLOATS : INTEGERS;
        down.less = 0;
        refuse_down(&down, "Range (node \"down\", opset 17)");
        down.less = 1;
        down.limit = -2;
        refuse_down(&down, "Range (node \"down\", opset 17)");
        down.limit = -1;
        down.step = -2;
        refuse_down(&down, "Range (node \"down\", opset 17)");
        down.step = -1;
        down.from = 2;
        refuse_down(&down, "(node \"turned_round\", opset 17)");
    }
}
END_TEST

static void answer(const char *name)
{
    onnx_output(&builder, name, FLOAT, 0, NULL);
    builder.graph.output[builder.graph.n_output - 1]->type = NULL;
    expect_refused(&builder, BASE_UNIMPLEMENTED, "");
}

/* They are no steps: neither beside those of a sequence, nor each of them, nor all together. */
START_TEST(test_positions_elsewhere)
{
    static const char *const ops[] = {"Add", "ReduceMean", "Gather", "Identity"};
    for (uint32_t way = 0; way < 3; way++) {
        for (uint32_t i = 0; i < 4; i++) {
            struct down down = straight;
            const int64_t first = 0;
            down.way = (enum way)way;
            begin(&down);
            shift(&down);
            end(&down);
            integers("last", 0, -1);
            Onnx__NodeProto *node = onnx_node(&builder, ops[i],
                                              i == 0   ? "y positions"
                                              : i == 2 ? "positions last"
                                                       : "positions",
                                              "other");
            if (i == 1) {
                onnx_set_ints(&builder, node, "axes", 1, &first);
            }
            answer("other");
        }
    }
}
END_TEST

/* ---- Gathered -------------------------------------------------------------------------------- */

enum { DISTANCES = 2 * LONGEST - 1 };

/* What is said otherwise. */
enum wrong { NOTHING, UPWARDS, COLUMNS, REPEATED, FLAT, AXIS, TARGET, WRONGS };

static float near[DISTANCES * WIDTH];

/* Of each pair of steps its distance's row of a table times the query, gathered. */
static void gathered(enum wrong wrong)
{
    const int64_t turn[] = {0, 2, 1};
    const int64_t dims[] = {1, DISTANCES, WIDTH};
    begin(&straight);
    floats("near_table", 3, dims, near, DISTANCES * WIDTH);
    integers("farthest", 1, LONGEST);
    integers("nearest", 1, LONGEST - 1);
    integers("i0", 0, 0);
    integers("minus", 0, -1);
    integers("rest", 1, -1);
    integers("two", 1, 2);
    onnx_node(&builder, "Sub", "farthest steps_list", "begin");
    onnx_node(&builder, "Add", "nearest steps_list", "end");
    onnx_node(&builder, "Slice", "near_table begin end n1", "near");
    onnx_node(&builder, "Mul", "steps_list two", "twice");
    onnx_node(&builder, "Sub", "twice n1", "distances");
    node_of_axis("Concat", "n1 distances rest", "same_shape", 0);
    onnx_node(&builder, "Reshape", "near same_shape", "near_again");
    onnx_set_ints(&builder, onnx_node(&builder, "Transpose", "near_again", "near_turned"), "perm",
                  3, turn);
    onnx_node(&builder, "MatMul", "y near_turned", "by_distance");
    onnx_node(&builder, "Sub", "steps i1", "last_step");
    onnx_node(&builder, "Range", wrong == UPWARDS ? "i0 steps i1" : "last_step minus minus",
              "numbers_down");
    onnx_node(&builder, "Range", "i0 steps i1", "numbers_up");
    onnx_node(&builder, "Tile", wrong == REPEATED ? "numbers_down two" : "numbers_down rows_list",
              "all_down");
    onnx_node(&builder, "Unsqueeze", "all_down n1", "column_down");
    onnx_node(&builder, "Add",
              wrong == COLUMNS ? "column_down numbers_down" : "column_down numbers_up", "index");
    node_of_axis("Concat", wrong == FLAT ? "rest steps_list" : "rest distances", "flat_shape", 0);
    onnx_node(&builder, "Reshape", "by_distance flat_shape", "flat");
    node_of_axis("GatherElements", "flat index", "picked", wrong == AXIS ? 0 : 1);
    node_of_axis("Concat",
                 wrong == TARGET ? "steps_list rows_list steps_list"
                                 : "rows_list steps_list steps_list",
                 "pairs_shape", 0);
    onnx_node(&builder, "Reshape", "picked pairs_shape", "added");
    onnx_node(&builder, "Add", "products added", "sums");
    struct down down = straight;
    down.diagonal = 0;
    end(&down);
}

static double beside(const struct down *down, int64_t query, int64_t key, int64_t k)
{
    (void)down;
    return (double)near[(key - query + LONGEST - 1) * WIDTH + k];
}

START_TEST(test_distances_gathered)
{
    struct built built;
    gathered(NOTHING);
    load_built(&builder, &built);
    for (int64_t steps = 1; steps <= LONGEST; steps++) {
        expect_attention(built.model, &straight, beside, steps);
    }
    free_built(&builder, &built);
}
END_TEST

START_TEST(test_what_is_not_gathered_so)
{
    for (enum wrong wrong = UPWARDS; wrong < WRONGS; wrong++) {
        gathered(wrong);
        expect_refused(&builder, BASE_UNIMPLEMENTED, "");
    }
}
END_TEST

int main(void)
{
    numbers = util_random(1);
    for (uint32_t i = 0; i < TABLE * WIDTH; i++) {
        table[i] = base_random_f32(&numbers, -1.0f, 1.0f);
    }
    for (uint32_t i = 0; i < DISTANCES * WIDTH; i++) {
        near[i] = base_random_f32(&numbers, -1.0f, 1.0f);
    }
    Suite *suite = suite_create("import_down");
    TCase *tcase = tcase_create("down");
    tcase_add_test(tcase, test_positions_behind_each_step);
    tcase_add_test(tcase, test_steps_that_no_mask_takes_away);
    tcase_add_test(tcase, test_what_is_no_such_shift);
    tcase_add_test(tcase, test_positions_elsewhere);
    tcase_add_test(tcase, test_distances_gathered);
    tcase_add_test(tcase, test_what_is_not_gathered_so);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
