/* Operators that are written out as others: Einsum against sums over all its labels, the others
 * against what ONNX says of an element or a row; and what is refused. */
#include "base/mem.h"
#include "cells/model.h"
#include "tests/cells/parse.h"
#include "tests/cells/replay.h"
#include "tests/util.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { FLOAT = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT };
enum { BATCH = 2, STEPS = 3, WIDTH = 4, HIDDEN = 2, RANK = 4, COUNT_MAX = 3072 };

static struct onnx_builder builder;
static struct base_random numbers;

/* ---- Tensors that a model has
 * -------------------------------------------------------------------- */

struct tensor {
    const char *name;
    uint32_t rank;
    int64_t dims[RANK];
    bool is_input;
    const char *of; /* it is this one, before it, in another shape */
    double data[COUNT_MAX];
};

/* y and z have steps, v and u a row each, the others are constants, or these in other shapes. */
static struct tensor tensors[] = {
    {.name = "y", .rank = 3, .dims = {BATCH, STEPS, WIDTH}, .is_input = true},
    {.name = "z", .rank = 3, .dims = {BATCH, STEPS, WIDTH}, .is_input = true},
    {.name = "v", .rank = 2, .dims = {BATCH, WIDTH}, .is_input = true},
    {.name = "u", .rank = 2, .dims = {BATCH, WIDTH}, .is_input = true},
    {.name = "c4", .rank = 1, .dims = {WIDTH}},
    {.name = "c44", .rank = 2, .dims = {WIDTH, WIDTH}},
    {.name = "c34", .rank = 2, .dims = {3, WIDTH}},
    {.name = "c423", .rank = 3, .dims = {WIDTH, 2, 3}},
    {.name = "c344", .rank = 3, .dims = {3, WIDTH, WIDTH}},
    {.name = "c22", .rank = 2, .dims = {2, 2}},
    {.name = "c223", .rank = 3, .dims = {2, 2, 3}},
    {.name = "c322", .rank = 3, .dims = {3, 2, 2}},
    {.name = "c4824", .rank = 3, .dims = {WIDTH, 8, 24}},
    {.name = "c82416", .rank = 3, .dims = {8, 24, 16}}, // as matrices of two blocks each
    {.name = "c22460", .rank = 3, .dims = {2, 24, 60}}, // each block a matrix
    {.name = "c4224", .rank = 3, .dims = {WIDTH, 2, 24}},
    {.name = "y22", .rank = 4, .dims = {BATCH, STEPS, 2, 2}, .of = "y"},
    {.name = "v22", .rank = 3, .dims = {BATCH, 2, 2}, .of = "v"},
    {.name = "v41", .rank = 3, .dims = {BATCH, WIDTH, 1}, .of = "v"},
};
enum { TENSORS = sizeof(tensors) / sizeof(tensors[0]), INPUTS = 4 };

static size_t count_of(const struct tensor *tensor)
{
    size_t n = 1;
    for (uint32_t k = 0; k < tensor->rank; k++) {
        n *= (size_t)tensor->dims[k];
    }
    return n;
}

static const struct tensor *find(const char *name, size_t length)
{
    for (uint32_t i = 0; i < TENSORS; i++) {
        if (strlen(tensors[i].name) == length && memcmp(tensors[i].name, name, length) == 0) {
            return &tensors[i];
        }
    }
    ck_abort_msg("no tensor %s", name);
    return NULL;
}

/* Rows of 4 as 2 times 2, or 4 times 1. */
static void reshape(struct tensor *tensor)
{
    char inputs[64];
    char shape[32];
    const int64_t *last = &tensor->dims[tensor->rank - 2];
    const int64_t dims[] = {0, tensor->rank == 4 ? 0 : last[0],
                            tensor->rank == 4 ? last[0] : last[1], last[1]};
    const struct tensor *of = find(tensor->of, strlen(tensor->of));
    const int64_t n = tensor->rank;
    memcpy(tensor->data, of->data, sizeof(tensor->data));
    snprintf(shape, sizeof(shape), "%s_shape", tensor->name);
    snprintf(inputs, sizeof(inputs), "%s %s", tensor->of, shape);
    onnx_constant(&builder, shape, onnx_ints(&builder, 1, (size_t)n, dims));
    (void)onnx_node(&builder, "Reshape", inputs, tensor->name);
}

/* A GRU over y says which axes are which. */
static void begin(int64_t opset)
{
    numbers = util_random(7);
    onnx_init(&builder, opset);
    onnx_add_weights(&builder, "GRU", WIDTH, HIDDEN, 1);
    for (uint32_t i = 0; i < TENSORS; i++) {
        struct tensor *tensor = &tensors[i];
        float floats[COUNT_MAX];
        if (tensor->of != NULL) {
            reshape(tensor);
            continue;
        }
        const size_t n = count_of(tensor);
        for (size_t e = 0; e < n; e++) {
            floats[e] = base_random_f32(&numbers, -1.0f, 1.0f);
            tensor->data[e] = (double)floats[e];
        }
        if (tensor->is_input) {
            const int64_t dims[] = {-1, tensor->rank == 3 ? -1 : WIDTH, WIDTH};
            onnx_input(&builder, tensor->name, FLOAT, tensor->rank, dims);
        } else {
            onnx_constant(&builder, tensor->name,
                          onnx_tensor(&builder, FLOAT, tensor->rank, tensor->dims, floats,
                                      n * sizeof(float)));
        }
    }
}

static void end(void)
{
    const int64_t perm[] = {1, 0, 2};
    (void)onnx_node(&builder, "Add", "y z", "both");
    (void)onnx_node(&builder, "Add", "v u", "rows");
    const int64_t one = 1;
    onnx_constant(&builder, "one", onnx_ints(&builder, 1, 1, &one));
    Onnx__NodeProto *wide = builder.opset.version < 13
                                ? onnx_node(&builder, "Unsqueeze", "rows", "wide")
                                : onnx_node(&builder, "Unsqueeze", "rows one", "wide");
    if (builder.opset.version < 13) {
        onnx_set_ints(&builder, wide, "axes", 1, &one);
    }
    (void)onnx_node(&builder, "Add", "both wide", "all");
    onnx_set_ints(&builder, onnx_node(&builder, "Transpose", "all", "turned"), "perm", 3, perm);
    onnx_set_int(&builder, onnx_node(&builder, "GRU", "turned w r b", "gru"), "hidden_size",
                 HIDDEN);
    onnx_output(&builder, "o", FLOAT, 0, NULL);
    onnx_output(&builder, "gru", FLOAT, 0, NULL);
    builder.graph.output[0]->type = NULL;
    builder.graph.output[1]->type = NULL;
}

/* o, ended with base_free(). */
static struct replay_tensor answer(void)
{
    struct built built;
    struct replay_tensor inputs[INPUTS];
    struct replay_tensor outputs[2] = {{.rank = 0}};
    end();
    load_built(&builder, &built);
    ck_assert_uint_eq(built.model->n_inputs, INPUTS);
    for (uint32_t i = 0; i < INPUTS; i++) {
        inputs[i] = (struct replay_tensor){
            .rank = tensors[i].rank, .count = count_of(&tensors[i]), .data = tensors[i].data};
        memcpy(inputs[i].dims, tensors[i].dims, sizeof(tensors[i].dims));
    }
    replay_run(built.model, inputs, outputs);
    free_built(&builder, &built);
    base_free(outputs[1].data);
    return outputs[0];
}

static void refuse(enum base_status status, const char *why)
{
    end();
    expect_refused(&builder, status, why);
}

/* ---- Einsum
 * ---------------------------------------------------------------------------------------- */

static void einsum(const char *operands, const char *equation)
{
    begin(17);
    onnx_set_string(&builder, onnx_node(&builder, "Einsum", operands, "o"), "equation", equation);
}

enum { LABELS_MAX = 8, TERMS_MAX = 3 };

/* The plain sum: labels are letters, terms those of `plain`, without blanks or dots. */
struct sum {
    uint32_t n_labels, n_terms;
    char labels[LABELS_MAX];
    int64_t sizes[LABELS_MAX];
    const struct tensor *terms[TERMS_MAX];
    const char *of[TERMS_MAX];
    const char *out;
};

static uint32_t label_of(const struct sum *sum, char label)
{
    const char *at = memchr(sum->labels, label, sum->n_labels);
    return at == NULL ? sum->n_labels : (uint32_t)(at - sum->labels);
}

static struct sum read_sum(const char *operands, const char *plain)
{
    struct sum sum = {.n_labels = 0};
    const char *at = plain;
    while (*operands != '\0') {
        const size_t length = strcspn(operands, " ");
        const struct tensor *tensor = find(operands, length);
        sum.terms[sum.n_terms] = tensor;
        sum.of[sum.n_terms++] = at;
        for (uint32_t k = 0; k < tensor->rank; k++, at++) {
            const uint32_t label = label_of(&sum, *at);
            if (label == sum.n_labels) {
                sum.labels[sum.n_labels++] = *at;
                sum.sizes[label] = tensor->dims[k];
            }
            ck_assert_int_eq(sum.sizes[label], tensor->dims[k]);
        }
        at += *at == ',' ? 1 : 0;
        operands += length + (operands[length] == ' ' ? 1 : 0);
    }
    ck_assert_int_eq(strncmp(at, "->", 2), 0);
    sum.out = at + 2;
    return sum;
}

static size_t place_of(const struct sum *sum, const char *labels, size_t n, const int64_t *at)
{
    size_t place = 0;
    for (size_t k = 0; k < n; k++) {
        const uint32_t label = label_of(sum, labels[k]);
        place = place * (size_t)sum->sizes[label] + (size_t)at[label];
    }
    return place;
}

/* Over all numbers that the labels may have. */
static void add_up(const struct sum *sum, double *out)
{
    int64_t at[LABELS_MAX] = {0};
    uint32_t k = 0;
    while (k < sum->n_labels) {
        double product = 1.0;
        for (uint32_t t = 0; t < sum->n_terms; t++) {
            product *= sum->terms[t]->data[place_of(sum, sum->of[t], sum->terms[t]->rank, at)];
        }
        out[place_of(sum, sum->out, strlen(sum->out), at)] += product;
        for (k = 0; k < sum->n_labels && ++at[k] == sum->sizes[k]; k++) {
            at[k] = 0;
        }
    }
}

static const struct {
    const char *operands, *equation, *plain;
} equations[] = {
    {"y c44", "btd,de->bte", "btd,de->bte"},
    {"y c44", "btd,ed->bte", "btd,ed->bte"},
    {"c44 y", "de,btd->bte", "de,btd->bte"},
    {"y c423", "btd,dhk->bthk", "btd,dhk->bthk"},
    {"y c34", "btd,hd->bht", "btd,hd->bht"},
    {"y c4", "btd,d->bt", "btd,d->bt"},
    {"v c423", "bi,ijk->bkj", "bi,ijk->bkj"},
    {"v u", "bd,bd->b", "bd,bd->b"},
    {"v u", "bd,be->bed", "bd,be->bed"},
    {"y", "btd->bd", "btd->bd"},
    {"y", "btd->b", "btd->b"},
    {"y", "btd->btd", "btd->btd"},
    {"y z", "btd,btd->bt", "btd,btd->bt"},
    {"y z", "btd,btd->bd", "btd,btd->bd"},
    {"y z", "btd,btd->b", "btd,btd->b"},
    {"y z", "btd,btd->btd", "btd,btd->btd"},
    {"y v", "btd,bd->bt", "btd,bd->bt"},
    {"v c44 u", "bi,ij,bj->b", "bi,ij,bj->b"},
    {"v u c344", "bi,bj,kij->bk", "bi,bj,kij->bk"},
    {"v c423 u", "bd,dkl,be->bkle", "bd,dkl,be->bkle"},
    {"y c44", " b t d , d e -> b t e ", "btd,de->bte"},
    {"v c44", "bd,de", "bd,de->be"},
    {"v u", "ba,ba", "ba,ba->"},
    {"y c44", "...d,de->...e", "btd,de->bte"},
    {"y z", "...d,...d->...", "btd,btd->bt"},
    {"v u", "...,...->...", "bd,bd->bd"},
    {"y c4", "...d,d", "btd,d->bt"},
    {"y22 c223", "btgi,gih->btgh", "btgi,gih->btgh"},
    {"c223 y22", "gih,btgi->btgh", "gih,btgi->btgh"},
    {"y22 c322", "btgi,hgi->bthg", "btgi,hgi->bthg"},
    {"y22 c223", "btig,gih->btgh", "btig,gih->btgh"},
    {"y c4824 c82416", "btd,dgi,gih->btgh", "btd,dgi,gih->btgh"},
    {"v c4824 c82416", "bd,dgi,gih->bgh", "bd,dgi,gih->bgh"},
    {"y c4224 c22460", "btd,dgi,gih->btgh", "btd,dgi,gih->btgh"},
    {"y22 c22", "btgi,gi->btg", "btgi,gi->btg"},
    {"v22 c223", "bgi,gih->bgh", "bgi,gih->bgh"},
    {"v22 c223 c22", "bgi,gih,gk->bghk", "bgi,gih,gk->bghk"},
};

START_TEST(test_einsum)
{
    const char *plain = equations[_i].plain;
    if (plain[strlen(plain) - 1] == '>') { // what has no rows is no answer of a batch
        einsum(equations[_i].operands, equations[_i].equation);
        end();
        struct base_error error = {.message = ""};
        ck_assert_int_ne(parse_built(&builder, &error), BASE_OK);
        return;
    }
    einsum(equations[_i].operands, equations[_i].equation);
    const struct sum sum = read_sum(equations[_i].operands, plain);
    struct replay_tensor got = answer();
    double want[COUNT_MAX] = {0.0};
    ck_assert_uint_eq(got.rank, strlen(sum.out));
    for (uint32_t k = 0; k < got.rank; k++) {
        ck_assert_int_eq(got.dims[k], sum.sizes[label_of(&sum, sum.out[k])]);
    }
    add_up(&sum, want);
    for (size_t i = 0; i < got.count; i++) {
        util_assert_close(got.data[i], want[i], 1e-6, 0);
    }
    base_free(got.data);
}
END_TEST

START_TEST(test_equations_that_are_refused)
{
    static const struct {
        const char *operands, *equation, *why;
    } cases[] = {
        {"y", "", "an equation that does not fit its operands"},
        {"y", "btde->b", "an equation that does not fit"},
        {"y c44", "btd->btd", "an equation that does not fit"},
        {"y", "btd,de->bte", "an equation that does not fit"},
        {"y", "btd->bte", "an equation that does not fit"},
        {"y", "btd->bb", "an equation that does not fit"},
        {"y", "btd-", "an equation that does not fit"},
        {"y", "b..d->b", "an equation that does not fit"},
        {"y", "......d->d", "an equation that does not fit"},
        {"y", "b1d->b", "an equation that does not fit"},
        {"c44", "dd->d", "a label that stands twice in an operand: a diagonal"},
        {"v c423 c344 c4", "bd,efg,hij,k->bdefghijk", "an equation that does not fit"},
        {"v41 c223", "bgi,gih->bgh", "operands whose sizes do not fit"}, // 4 and 1 for 2 and 2
        {"y c34", "btd,de->bte", "operands whose sizes do not fit"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        einsum(cases[i].operands, cases[i].equation);
        refuse(BASE_UNIMPLEMENTED, cases[i].why);
    }
    einsum("y none", "btd,de->bte");
    end();
    struct base_error error = {.message = ""};
    ck_assert_int_ne(parse_built(&builder, &error), BASE_OK);
}
END_TEST

/* ---- Of an element, and of a row
 * ------------------------------------------------------------------- */

static double ceil_of(const double *row, uint32_t i)
{
    return ceil(row[i]);
}

static double celu_of(const double *row, uint32_t i)
{
    return fmax(row[i], 0.0) + fmin(0.0, 0.75 * expm1(row[i] / 0.75));
}

static double swish_of(const double *row, uint32_t i)
{
    return row[i] / (1.0 + exp(-row[i]));
}

static double lp1_of(const double *row, uint32_t i)
{
    double sum = 0.0;
    for (uint32_t k = 0; k < WIDTH; k++) {
        sum += fabs(row[k]);
    }
    return row[i] / sum;
}

static double squares_of(const double *row)
{
    double sum = 0.0;
    for (uint32_t k = 0; k < WIDTH; k++) {
        sum += row[k] * row[k];
    }
    return sum;
}

static double lp2_of(const double *row, uint32_t i)
{
    return row[i] / sqrt(squares_of(row));
}

static double rms_of(const double *row, uint32_t i)
{
    return row[i] / sqrt(squares_of(row) / WIDTH + 0.25) * find("c4", 2)->data[i];
}

static double acos_of(const double *row, uint32_t i)
{
    return acos(row[i]);
}

static double asin_of(const double *row, uint32_t i)
{
    return asin(row[i]);
}

static double asinh_of(const double *row, uint32_t i)
{
    return asinh(row[i]);
}

static double atan_of(const double *row, uint32_t i)
{
    return atan(row[i]);
}

static double cos_of(const double *row, uint32_t i)
{
    return cos(row[i]);
}

static double cosh_of(const double *row, uint32_t i)
{
    return cosh(row[i]);
}

static double sign_of(const double *row, uint32_t i)
{
    return row[i] > 0.0 ? 1.0 : row[i] < 0.0 ? -1.0 : 0.0;
}

static double sin_of(const double *row, uint32_t i)
{
    return sin(row[i]);
}

static double sinh_of(const double *row, uint32_t i)
{
    return sinh(row[i]);
}

static double tan_of(const double *row, uint32_t i)
{
    return tan(row[i]);
}

static const struct {
    const char *op, *operands, *attribute;
    double (*of)(const double *row, uint32_t i);
    float value;
    int64_t opset;
} functions[] = {
    {.op = "Ceil", .operands = "y", .of = ceil_of, .opset = 17},
    {.op = "Celu",
     .operands = "y",
     .attribute = "alpha",
     .value = 0.75f,
     .of = celu_of,
     .opset = 17},
    {.op = "Acos", .operands = "y", .of = acos_of, .opset = 7},
    {.op = "Asin", .operands = "y", .of = asin_of, .opset = 7},
    {.op = "Asinh", .operands = "y", .of = asinh_of, .opset = 9},
    {.op = "Atan", .operands = "y", .of = atan_of, .opset = 7},
    {.op = "Cos", .operands = "y", .of = cos_of, .opset = 7},
    {.op = "Cosh", .operands = "y", .of = cosh_of, .opset = 22},
    {.op = "Sign", .operands = "y", .of = sign_of, .opset = 9},
    {.op = "Sin", .operands = "y", .of = sin_of, .opset = 22},
    {.op = "Sinh", .operands = "y", .of = sinh_of, .opset = 9},
    {.op = "Tan", .operands = "y", .of = tan_of, .opset = 7},
    {.op = "Swish", .operands = "y", .of = swish_of, .opset = 24},
    {.op = "LpNormalization", .operands = "y", .of = lp2_of, .opset = 11},
    {.op = "LpNormalization",
     .operands = "y",
     .attribute = "p",
     .value = 1,
     .of = lp1_of,
     .opset = 18},
    {.op = "RMSNormalization",
     .operands = "y c4",
     .attribute = "epsilon",
     .value = 0.25f,
     .of = rms_of,
     .opset = 23},
};

START_TEST(test_functions_and_norms)
{
    begin(functions[_i].opset);
    Onnx__NodeProto *node = onnx_node(&builder, functions[_i].op, functions[_i].operands, "o");
    if (functions[_i].attribute != NULL && functions[_i].value == 1.0f) {
        onnx_set_int(&builder, node, functions[_i].attribute, 1);
    } else if (functions[_i].attribute != NULL) {
        onnx_set_float(&builder, node, functions[_i].attribute, functions[_i].value);
    }
    struct replay_tensor got = answer();
    ck_assert_uint_eq(got.count, BATCH * STEPS * WIDTH);
    for (uint32_t i = 0; i < got.count; i++) {
        const double *row = tensors[0].data + i / WIDTH * WIDTH;
        util_assert_close(got.data[i], functions[_i].of(row, i % WIDTH), 1e-6, 0);
    }
    base_free(got.data);
}
END_TEST

/* ---- Blocks of places -------------------------------------------------------------------------
 */

enum { CHANNELS = 8, ROWS = 4, COLS = 6, BLOCK = 2 };

/* Where element [channel, row, column] of the result of an operator on a picture comes from. */
static uint32_t from_channels(const char *mode, uint32_t channel, uint32_t row, uint32_t col)
{
    const uint32_t of_block = row % BLOCK * BLOCK + col % BLOCK;
    const uint32_t channels = CHANNELS / (BLOCK * BLOCK);
    const uint32_t from = strcmp(mode, "CRD") == 0 ? channel * BLOCK * BLOCK + of_block
                                                   : of_block * channels + channel;
    return (from * ROWS + row / BLOCK) * COLS + col / BLOCK;
}

static uint32_t from_places(uint32_t channel, uint32_t row, uint32_t col)
{
    const uint32_t of_block = channel / CHANNELS;
    return (channel % CHANNELS * ROWS + row * BLOCK + of_block / BLOCK) * COLS + col * BLOCK +
           of_block % BLOCK;
}

/* Of what a row makes of v, as a picture. */
START_TEST(test_blocks_of_channels_are_places)
{
    static const char *const modes[] = {"DCR", "CRD", NULL};
    const char *mode = modes[_i];
    const int64_t shape[] = {0, CHANNELS, ROWS, COLS};
    const struct sum sum = read_sum("v c4824", "bd,dgi->bgi");
    double picture[BATCH * CHANNELS * ROWS * COLS] = {0};
    begin(17);
    add_up(&sum, picture);
    onnx_set_string(&builder, onnx_node(&builder, "Einsum", "v c4824", "flat"), "equation",
                    "bd,dgi->bgi");
    onnx_constant(&builder, "shape", onnx_ints(&builder, 1, 4, shape));
    (void)onnx_node(&builder, "Reshape", "flat shape", "picture");
    Onnx__NodeProto *node =
        onnx_node(&builder, mode == NULL ? "SpaceToDepth" : "DepthToSpace", "picture", "o");
    onnx_set_int(&builder, node, "blocksize", BLOCK);
    if (mode != NULL) {
        onnx_set_string(&builder, node, "mode", mode);
    }
    struct replay_tensor got = answer();
    const uint32_t rows = mode == NULL ? ROWS / BLOCK : ROWS * BLOCK;
    const uint32_t cols = mode == NULL ? COLS / BLOCK : COLS * BLOCK;
    const uint32_t each = CHANNELS * ROWS * COLS;
    ck_assert_uint_eq(got.count, BATCH * each);
    for (uint32_t e = 0; e < got.count; e++) {
        const uint32_t col = e % cols;
        const uint32_t row = e / cols % rows;
        const uint32_t channel = e % each / cols / rows;
        const uint32_t from =
            mode == NULL ? from_places(channel, row, col) : from_channels(mode, channel, row, col);
        util_assert_close(got.data[e], picture[e / each * each + from], 1e-6, 1e-6);
    }
    base_free(got.data);
}
END_TEST

START_TEST(test_sums_and_means)
{
    static const char *const operands[] = {"y", "y z", "y z y", "y c4 z"};
    for (uint32_t i = 0; i < 8; i++) {
        const char *of = operands[i / 2];
        const bool is_mean = i % 2 == 1;
        begin(i < 4 ? 8 : 17);
        (void)onnx_node(&builder, is_mean ? "Mean" : "Sum", of, "o");
        struct replay_tensor got = answer();
        ck_assert_uint_eq(got.count, BATCH * STEPS * WIDTH);
        for (size_t e = 0; e < got.count; e++) {
            double sum = 0.0;
            uint32_t n = 0;
            for (const char *at = of; *at != '\0'; n++) {
                const size_t length = strcspn(at, " ");
                const struct tensor *tensor = find(at, length);
                sum += tensor->data[e % count_of(tensor)];
                at += length + (at[length] == ' ' ? 1 : 0);
            }
            util_assert_close(got.data[e], is_mean ? sum / n : sum, 1e-6, 0);
        }
        base_free(got.data);
    }
}
END_TEST

/* Over features, or the steps, of y or what it is without its signs. */
struct log_sum {
    int64_t opset, axis;
    bool is_exp, keeps;
};

static void add_log_sum(const struct log_sum *of)
{
    char operands[32];
    begin(of->opset);
    (void)onnx_node(&builder, "Abs", "y", "positive");
    onnx_constant(&builder, "axes", onnx_ints(&builder, 1, 1, &of->axis));
    (void)snprintf(operands, sizeof(operands), "%s%s", of->is_exp ? "y" : "positive",
                   of->opset >= 18 ? " axes" : "");
    Onnx__NodeProto *node =
        onnx_node(&builder, of->is_exp ? "ReduceLogSumExp" : "ReduceLogSum", operands, "o");
    if (of->opset < 18) {
        onnx_set_ints(&builder, node, "axes", 1, &of->axis);
    }
    onnx_set_int(&builder, node, "keepdims", of->keeps ? 1 : 0);
}

static double log_sum_of(const struct log_sum *of, size_t e)
{
    const size_t n = of->axis == 2 ? WIDTH : STEPS;
    const size_t step = of->axis == 2 ? 1 : WIDTH;
    const size_t first = of->axis == 2 ? e * WIDTH : e / WIDTH * STEPS * WIDTH + e % WIDTH;
    double sum = 0.0;
    for (size_t k = 0; k < n; k++) {
        const double x = tensors[0].data[first + k * step];
        sum += of->is_exp ? exp(x) : fabs(x);
    }
    return log(sum);
}

START_TEST(test_logarithms_of_sums)
{
    const struct log_sum of = {.opset = _i % 3 == 0 ? 18 : 13,
                               .axis = _i % 2 == 0 ? 2 : 1,
                               .is_exp = _i / 4 == 0,
                               .keeps = _i / 2 % 2 == 0};
    add_log_sum(&of);
    struct replay_tensor got = answer();
    ck_assert_uint_eq(got.rank, of.keeps ? 3 : 2);
    ck_assert_uint_eq(got.count, (size_t)(of.axis == 2 ? BATCH * STEPS : BATCH * WIDTH));
    for (size_t e = 0; e < got.count; e++) {
        util_assert_close(got.data[e], log_sum_of(&of, e), 1e-6, 0);
    }
    base_free(got.data);
}
END_TEST

START_TEST(test_what_cannot_be_written_out)
{
    static char other[] = "com.example";
    const int64_t three = 3;
    begin(17);
    (void)onnx_node(&builder, "ReduceLogSumExp", "y", "o");
    refuse(BASE_UNIMPLEMENTED, "ReduceLogSumExp (node \"o\", opset 17): without axes");
    begin(18);
    (void)onnx_node(&builder, "ReduceLogSum", "y v", "o");
    refuse(BASE_UNIMPLEMENTED, "axes that are no constant");
    begin(17);
    onnx_set_int(&builder, onnx_node(&builder, "LpNormalization", "y", "o"), "p", 3);
    refuse(BASE_UNIMPLEMENTED, "p is neither 1 nor 2");
    begin(23);
    onnx_set_int(&builder, onnx_node(&builder, "RMSNormalization", "y c4", "o"), "axis", three);
    refuse(BASE_UNIMPLEMENTED, "an axis that there is not");
    begin(23);
    (void)onnx_node(&builder, "RMSNormalization", "y", "o");
    refuse(BASE_INVALID_ARGUMENT, "1 inputs and 1 outputs");
    begin(17);
    (void)onnx_node(&builder, "Sum", "y -", "o");
    refuse(BASE_INVALID_ARGUMENT, "input 1 is missing");
    begin(17); // nobody's but the standard's
    onnx_node(&builder, "Ceil", "y", "o")->domain = other;
    refuse(BASE_UNIMPLEMENTED, "operator of another domain");
    begin(17);
    onnx_set_int(&builder, onnx_node(&builder, "Ceil", "y", "o"), "speed", 3);
    refuse(BASE_UNIMPLEMENTED, "attribute \"speed\"");
}
END_TEST

/* What it computes, function_spectrum in test_import_exports.c. */
START_TEST(test_transforms_that_are_refused)
{
    static const struct {
        const char *operands, *why;
    } cases[] = {
        {"y step - length", "of anything but a real signal"},
        {"c34 step - length", "of anything but a real signal"},
        {"signal v - length", "step or length is no constant"},
        {"signal half - length", "step or length is no constant"},
        {"signal none - length", "of less than 1 or more than 2048 samples"},
        {"signal step", "of less than 1 or more than 2048 samples"},
        {"signal step - far", "of less than 1 or more than 2048 samples"},
        {"signal step - none", "of less than 1 or more than 2048 samples"},
        {"signal step c4 length", "whose window is not as long as a frame"},
        {"signal step v length", "whose window is no constant list"},
        {"signal step c34 length", "whose window is no constant list"},
    };
    static const int64_t ints[] = {0, 1, 2, 4096};
    const float half = 0.5f;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        begin(17);
        onnx_constant(&builder, "from", onnx_ints(&builder, 1, 1, &ints[0]));
        onnx_constant(&builder, "to", onnx_ints(&builder, 1, 1, &ints[1]));
        onnx_constant(&builder, "at", onnx_ints(&builder, 1, 1, &ints[2]));
        onnx_constant(&builder, "none", onnx_ints(&builder, 0, 1, &ints[0]));
        onnx_constant(&builder, "step", onnx_ints(&builder, 0, 1, &ints[1]));
        onnx_constant(&builder, "length", onnx_ints(&builder, 0, 1, &ints[2]));
        onnx_constant(&builder, "far", onnx_ints(&builder, 0, 1, &ints[3]));
        onnx_constant(&builder, "half", onnx_tensor(&builder, FLOAT, 0, NULL, &half, sizeof(half)));
        onnx_node(&builder, "Slice", "y from to at", "signal");
        onnx_node(&builder, "STFT", cases[i].operands, "o");
        refuse(BASE_UNIMPLEMENTED, cases[i].why);
    }
}
END_TEST

/* ---- ScatterND: what it computes, group_streamed in test_import_exports.c
 * ----------------------------- */

static void scatter(const char *operands, const int64_t *indices, int64_t n, int64_t axes)
{
    const int64_t dims[] = {n, axes};
    begin(18);
    onnx_constant(&builder, "at",
                  onnx_tensor(&builder, ONNX__TENSOR_PROTO__DATA_TYPE__INT64, 2, dims, indices,
                              (size_t)(n * axes) * sizeof(*indices)));
    (void)onnx_node(&builder, "ScatterND", operands, "o");
}

START_TEST(test_assignments_that_are_refused)
{
    static const int64_t at[] = {0, 2, 1, 1};
    scatter("v at u", at, 1, 1); // of a batch
    refuse(BASE_UNIMPLEMENTED, "indices that are not known, or beyond the tensor");
    scatter("c344 at u", (const int64_t[]){3}, 1, 1);
    refuse(BASE_UNIMPLEMENTED, "indices that are not known, or beyond the tensor");
    scatter("c344 v u", at, 1, 1);
    refuse(BASE_UNIMPLEMENTED, "indices that are no constant");
    scatter("c344 at u", at, 2, 1); // 0 and 2
    refuse(BASE_UNIMPLEMENTED, "indices that are no box in its order");
    scatter("c344 at u", (const int64_t[]){1, 0}, 2, 1);
    refuse(BASE_UNIMPLEMENTED, "indices that are no box in its order");
    scatter("c344 at u", &at[2], 1, 2); // one of 3, one of 4
    refuse(BASE_UNIMPLEMENTED, "a part of more than one axis");
    scatter("c344 at u", at, 1, 1);
    onnx_set_string(&builder, builder.graph.node[builder.graph.n_node - 1], "reduction", "add");
    refuse(BASE_UNIMPLEMENTED, "with a reduction");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("import_written");
    TCase *tcase = tcase_create("written");
    tcase_add_loop_test(tcase, test_einsum, 0, (int)(sizeof(equations) / sizeof(equations[0])));
    tcase_add_test(tcase, test_equations_that_are_refused);
    tcase_add_loop_test(tcase, test_functions_and_norms, 0,
                        (int)(sizeof(functions) / sizeof(functions[0])));
    tcase_add_loop_test(tcase, test_blocks_of_channels_are_places, 0, 3);
    tcase_add_test(tcase, test_sums_and_means);
    tcase_add_loop_test(tcase, test_logarithms_of_sums, 0, 8);
    tcase_add_test(tcase, test_what_cannot_be_written_out);
    tcase_add_test(tcase, test_transforms_that_are_refused);
    tcase_add_test(tcase, test_assignments_that_are_refused);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
