/* Labels of the best path (connectionist temporal classification): what a model with `ctc` answers
 * is what the definition makes of the numbers that its twin without it answers, step by step: as
 * ids and as text, of rows of any lengths, in one request and in sessions cut anywhere. */
#include "server/check_model.h"
#include "server/signature.h"
#include "tests/server/frames.h"
#include "tests/server/parts.h"

#include <stdio.h>
#include <string.h>

#define HIDDEN 6
#define LABELS 4

static struct onnx_builder builder;
static struct base_random numbers;

/* ---- Models ------------------------------------------------------------------------------- */

/* How a model's numbers lie, and what comes before them. */
struct form {
    bool is_timed_first; /* [time, batch, labels], or the batch first */
    bool has_lengths;
    bool has_stride; /* half as many steps as there are frames */
    bool is_alone;   /* no batch axis */
    bool has_scores; /* `last` is called that */
};

static struct form form;

static void transpose(const char *from, const char *to, int64_t a, int64_t b, int64_t c)
{
    const int64_t perm[] = {a, b, c};
    onnx_set_ints(&builder, onnx_node(&builder, "Transpose", from, to), "perm", 3, perm);
}

/* frames [time, batch, features] of x. */
static void write_frames(void)
{
    const int64_t dims[] = {-1, -1, FRAMES_FEATURES};
    const int64_t kernel[] = {FRAMES_FEATURES, FRAMES_FEATURES, 3};
    onnx_input(&builder, "x", PARTS_FLOAT, form.is_alone ? 2 : 3, form.is_alone ? dims + 1 : dims);
    if (form.is_alone) {
        onnx_node(&builder, "Unsqueeze", "x one", "frames");
    } else if (form.has_stride) {
        onnx_constant(&builder, "kernel", onnx_random(&builder, 3, kernel, &numbers, 1.0f));
        transpose("x", "channels", 0, 2, 1);
        Onnx__NodeProto *conv = onnx_node(&builder, "Conv", "channels kernel", "strided");
        onnx_set_ints(&builder, conv, "strides", 1, (const int64_t[]){2});
        onnx_set_ints(&builder, conv, "pads", 2, (const int64_t[]){1, 1});
        transpose("strided", "frames", 2, 0, 1);
    } else {
        transpose("x", "frames", 1, 0, 2);
    }
}

/* numbers: the logarithms of how likely each label is; y, of which they are made. */
static void write_model(const char *version)
{
    const int64_t matrix[] = {HIDDEN, LABELS};
    const bool is_straight = form.is_timed_first && !form.is_alone;
    base_random_init(&numbers, 5);
    onnx_init(&builder, 17);
    onnx_constant(&builder, "one", onnx_ints(&builder, 1, 1, (const int64_t[]){1}));
    write_frames();
    if (form.has_lengths) {
        onnx_input(&builder, "used", PARTS_INT32, 1, (const int64_t[]){-1});
    }
    onnx_add_weights(&builder, "GRU", FRAMES_FEATURES, HIDDEN, 7);
    onnx_set_int(&builder,
                 onnx_node(&builder, "GRU", form.has_lengths ? "frames w r b used" : "frames w r b",
                           form.has_scores ? "directions scores" : "directions last"),
                 "hidden_size", HIDDEN);
    onnx_node(&builder, "Squeeze", "directions one", "y");
    onnx_constant(&builder, "m", onnx_random(&builder, 2, matrix, &numbers, 9.0f));
    onnx_node(&builder, "MatMul", "y m", "logits");
    onnx_set_int(&builder,
                 onnx_node(&builder, "LogSoftmax", "logits", is_straight ? "numbers" : "logs"),
                 "axis", 2);
    if (form.is_alone) {
        onnx_node(&builder, "Squeeze", "logs one", "numbers");
    } else if (!form.is_timed_first) {
        transpose("logs", "numbers", 1, 0, 2);
    }
    parts_output(&builder, "y");
    parts_output(&builder, "numbers");
    parts_output(&builder, form.has_scores ? "scores" : "last");
    parts_write(&builder, version, "model");
}

#define CTC        "ctc: numbers\n"
#define LETTERS    "vocabularies: token=characters:marks.txt\n"
#define BLANK_LAST "blank: 3\n"

static const struct {
    const char *name, *config, *ctc;
    struct form form;
    int64_t blank;
} models[] = {
    {"plain", "", CTC, {.is_timed_first = true}, 0},
    {"turned", "", CTC BLANK_LAST, {.is_timed_first = false}, 3},
    {"lengths", "", CTC BLANK_LAST, {.has_lengths = true}, 3},
    {"strided", "", CTC, {.has_stride = true, .is_timed_first = true}, 0},
    {"alone", "", CTC, {.is_alone = true}, 0},
    {"text", "", CTC LETTERS, {.has_lengths = true}, 0},
    {"session", "states: recurrent\n", CTC "blank: 2\n", {.is_timed_first = true}, 2},
};

#define MODELS (sizeof(models) / sizeof(models[0]))

static void setup(void)
{
    util_temp_dir(texts_folder);
    for (size_t i = 0; i < MODELS; i++) {
        form = models[i].form;
        texts_write_twins(models[i].name, models[i].config, models[i].ctc, write_model);
        texts_write_file(models[i].name, "marks.txt", "_\na\n\xc3\xa4\n \n");
    }
    texts_open_site();
}

/* ---- What comes in, and what is to come out ----------------------------------------------- */

/* Of each row. */
struct path {
    uint32_t n[FRAMES_ROWS], longest;
    int64_t token[FRAMES_ROWS][FRAMES_STEPS], step[FRAMES_ROWS][FRAMES_STEPS];
    float score[FRAMES_ROWS][FRAMES_STEPS];
    uint32_t blanks, repeats; /* that were left out */
};

/* By the definition, of the twin's answer. */
static void follow(const struct visit *twin, const struct frames *frames, bool is_timed_first,
                   int64_t blank, struct path *path)
{
    const struct srv_tensor *got = texts_output(twin, "numbers");
    const bool has_lengths = twin->ask.request.n_inputs > 1;
    const bool is_alone = got->rank == 2;
    const int64_t steps = got->shape[is_timed_first || is_alone ? 0 : 1];
    memset(path, 0, sizeof(*path));
    for (uint32_t row = 0; row < frames->n_rows; row++) {
        int64_t before = -1;
        for (int64_t t = 0; t < (has_lengths ? frames->used[row] : steps); t++) {
            const int64_t at = is_timed_first ? t * frames->n_rows + row : row * steps + t;
            float of[LABELS];
            int64_t best = 0;
            memcpy(of, got->data + at * (int64_t)sizeof(of), sizeof(of));
            for (int64_t label = 1; label < LABELS; label++) {
                best = of[label] > of[best] ? label : best;
            }
            if (best != blank && best != before) {
                const uint32_t n = path->n[row]++;
                path->token[row][n] = best;
                path->step[row][n] = t;
                path->score[row][n] = of[best];
            }
            path->blanks += best == blank;
            path->repeats += best != blank && best == before;
            before = best;
        }
        path->longest = path->n[row] > path->longest ? path->n[row] : path->longest;
    }
}

/* An output of the request against what it should be, behind a row's own labels too. */
static void assert_labels(const struct visit *visit, const struct path *path, uint32_t n_rows,
                          const char *name, int64_t blank)
{
    const struct srv_tensor *got = texts_output(visit, name);
    const bool is_score = strcmp(name, "scores") == 0;
    const size_t bytes = is_score ? sizeof(float) : sizeof(int64_t);
    ck_assert_int_eq(got->shape[got->rank - 1], path->longest);
    ck_assert_uint_eq(got->bytes, n_rows * path->longest * bytes);
    for (uint32_t at = 0; at < n_rows * path->longest; at++) {
        const uint32_t row = at / path->longest;
        const uint32_t i = at % path->longest;
        const bool is_own = i < path->n[row];
        const float score = is_own ? path->score[row][i] : 0.0f;
        const int64_t step = is_own ? path->step[row][i] : 0;
        const int64_t token = is_own ? path->token[row][i] : blank;
        const void *wanted = is_score                     ? (const void *)&score
                             : strcmp(name, "steps") == 0 ? &step
                                                          : &token;
        ck_assert_msg(memcmp(got->data + at * bytes, wanted, bytes) == 0, "%s: label %u of row %u",
                      name, i, row);
    }
}

static void assert_lengths(const struct visit *visit, const struct path *path, uint32_t n_rows)
{
    const struct srv_tensor *got = texts_output(visit, "lengths");
    ck_assert_uint_eq(got->rank, 1);
    ck_assert_int_eq(got->shape[0], n_rows);
    for (uint32_t row = 0; row < n_rows; row++) {
        ck_assert_int_eq(cell_integer_at(CELL_I64, got->data + row * sizeof(int64_t)),
                         path->n[row]);
    }
}

/* ---- Good ones ---------------------------------------------------------------------------- */

/* _i: the model. Over all requests labels are left out for either reason, and rows differ. */
START_TEST(test_labels_are_those_of_the_best_path)
{
    const bool is_text = strcmp(models[_i].name, "text") == 0;
    uint32_t blanks = 0;
    uint32_t repeats = 0;
    uint32_t unlike = 0;
    uint32_t empty = 0;
    char twin_name[32];
    snprintf(twin_name, sizeof(twin_name), "%s_ids", models[_i].name);
    for (uint32_t i = 0; i < 40; i++) {
        struct frames frames;
        struct visit visit;
        struct visit twin;
        struct path path;
        frames_draw(&frames, &numbers, models[_i].form.is_alone ? 1 : 1 + i % FRAMES_ROWS,
                    1 + i % FRAMES_STEPS);
        frames_begin(&visit, models[_i].name, &frames);
        frames_begin(&twin, twin_name, &frames);
        texts_run(&visit);
        texts_run(&twin);
        follow(&twin, &frames, models[_i].form.is_timed_first, models[_i].blank, &path);
        ck_assert_uint_eq(visit.ask.request.n_outputs, 6);
        assert_lengths(&visit, &path, frames.n_rows);
        assert_labels(&visit, &path, frames.n_rows, "scores", 0);
        assert_labels(&visit, &path, frames.n_rows, "steps", 0);
        for (uint32_t row = 0; is_text && row < frames.n_rows; row++) {
            static const char *const marks[] = {"_", "a", "\xc3\xa4", " "};
            char wanted[2 * FRAMES_STEPS + 1] = "";
            for (uint32_t n = 0; n < path.n[row]; n++) {
                const size_t at = strlen(wanted);
                snprintf(wanted + at, sizeof(wanted) - at, "%s", marks[path.token[row][n]]);
            }
            texts_assert(texts_output(&visit, "token"), row, wanted);
        }
        if (!is_text) {
            assert_labels(&visit, &path, frames.n_rows, "token", models[_i].blank);
        }
        const struct srv_tensor *y = texts_output(&twin, "y");
        ck_assert_uint_eq(texts_output(&visit, "y")->bytes, y->bytes);
        ck_assert_mem_eq(texts_output(&visit, "y")->data, y->data, y->bytes);
        blanks += path.blanks;
        repeats += path.repeats;
        for (uint32_t row = 0; row < frames.n_rows; row++) {
            unlike += path.n[row] < path.longest;
            empty += path.n[row] == 0;
        }
        ask_release(&visit.ask);
        ask_release(&twin.ask);
    }
    ck_assert_uint_gt(blanks, 20);
    ck_assert_uint_gt(repeats, 20);
    ck_assert(!models[_i].form.has_lengths || empty > 0);
    ck_assert(models[_i].form.is_alone || unlike > 10);
}
END_TEST

/* What a client does not ask for is not answered, and what it asks for is the same. */
START_TEST(test_outputs_are_asked_for_by_name)
{
    static const char *asked[][2] = {
        {"token", NULL}, {"lengths", NULL}, {"steps", "y"}, {"scores", "steps"}, {"y", NULL}};
    struct frames frames;
    struct visit twin;
    struct path path;
    frames_draw(&frames, &numbers, 3, FRAMES_STEPS);
    frames_begin(&twin, "turned_ids", &frames);
    texts_run(&twin);
    follow(&twin, &frames, false, 3, &path);
    for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
        struct visit visit;
        frames_begin(&visit, "turned", &frames);
        visit.ask.request.wanted = asked[i];
        visit.ask.request.n_wanted = asked[i][1] == NULL ? 1 : 2;
        texts_run(&visit);
        ck_assert_uint_eq(visit.ask.request.n_outputs, visit.ask.request.n_wanted);
        for (uint32_t o = 0; o < visit.ask.request.n_wanted; o++) {
            ck_assert_str_eq(visit.ask.request.outputs[o].name, asked[i][o]);
            if (strcmp(asked[i][o], "lengths") == 0) {
                assert_lengths(&visit, &path, 3);
            } else if (strcmp(asked[i][o], "y") != 0) {
                assert_labels(&visit, &path, 3, asked[i][o], 3);
            }
        }
        ask_release(&visit.ask);
    }
    struct visit none;
    frames_begin(&none, "turned", &frames);
    none.ask.request.wanted = (const char *[]){"numbers"};
    none.ask.request.n_wanted = 1;
    texts_expect_refused(&none, "output 'numbers' is not one of the model's 6 outputs");
    ask_release(&twin.ask);
}
END_TEST

/* Holds a row's labels of a part against the whole's, from number done[row] on. */
static void assert_part(const struct visit *visit, const struct path *path, uint32_t row,
                        uint32_t from, uint32_t *done)
{
    const struct srv_tensor *tokens = texts_output(visit, "token");
    const int64_t n =
        cell_integer_at(CELL_I64, texts_output(visit, "lengths")->data + row * sizeof(int64_t));
    for (int64_t k = 0; k < n; k++, done[row]++) {
        const size_t at = (row * (size_t)tokens->shape[1] + (size_t)k) * sizeof(int64_t);
        const int64_t step = cell_integer_at(CELL_I64, texts_output(visit, "steps")->data + at);
        ck_assert_int_eq(cell_integer_at(CELL_I64, tokens->data + at), path->token[row][done[row]]);
        ck_assert_int_eq(from + step, path->step[row][done[row]]);
    }
}

/* A label that goes on where one request ends and the next begins is one, not two. */
START_TEST(test_a_session_in_parts_has_the_labels_of_the_whole)
{
    uint32_t cut_within = 0;
    for (uint32_t i = 0; i < 60; i++) {
        struct frames frames;
        struct visit twin;
        struct path path;
        uint32_t done[FRAMES_ROWS] = {0};
        frames_draw(&frames, &numbers, 1 + i % FRAMES_ROWS, FRAMES_STEPS);
        frames_begin(&twin, "session_ids", &frames);
        texts_run(&twin);
        follow(&twin, &frames, true, 2, &path);
        for (uint32_t from = 0, to = 0; from < FRAMES_STEPS; from = to) {
            struct visit visit;
            to = from + 1 + base_random_below(&numbers, i % 2 == 0 ? 3 : FRAMES_STEPS - from);
            to = to < FRAMES_STEPS ? to : FRAMES_STEPS;
            frames_run_part(&visit, "session", &frames, from, to);
            for (uint32_t row = 0; row < frames.n_rows; row++) {
                assert_part(&visit, &path, row, from, done);
                const bool is_within = done[row] > 0 && done[row] < path.n[row];
                cut_within += is_within && path.step[row][done[row] - 1] + 1 < to;
            }
            ck_assert_uint_eq(visit.ask.request.n_outputs, 6); // and no state
            ask_release(&visit.ask);
        }
        for (uint32_t row = 0; row < frames.n_rows; row++) {
            ck_assert_uint_eq(done[row], path.n[row]);
        }
        ask_release(&twin.ask);
    }
    ck_assert_uint_gt(cut_within, 20);
}
END_TEST

/* ---- What is said of them, and refused ---------------------------------------------------- */

START_TEST(test_clients_are_told_of_labels)
{
    struct srv_signature signature;
    srv_signature_make(site_find(&texts_site, "turned"), NULL, &signature);
    static const struct {
        const char *name, *datatype;
        uint32_t rank;
    } outputs[] = {{"y", "FP32", 3},      {"last", "FP32", 3},   {"token", "INT64", 2},
                   {"scores", "FP32", 2}, {"steps", "INT64", 2}, {"lengths", "INT64", 1}};
    ck_assert_uint_eq(signature.n_outputs, 6);
    for (uint32_t i = 0; i < 6; i++) {
        ck_assert_str_eq(signature.outputs[i].name, outputs[i].name);
        ck_assert_str_eq(signature.outputs[i].datatype, outputs[i].datatype);
        ck_assert_uint_eq(signature.outputs[i].rank, outputs[i].rank);
        for (uint32_t k = 0; i > 1 && k < outputs[i].rank; k++) {
            ck_assert_int_eq(signature.outputs[i].dims[k], CELL_DIM_ANY);
        }
    }
}
END_TEST

START_TEST(test_what_has_no_labels_is_refused)
{
    static const struct {
        const char *config, *message;
        bool has_scores, is_tree;
    } mistakes[] = {
        {"ctc: nothing\n", "ctc: the model has no output \"nothing\"", false, false},
        {"ctc: last\n", "ctc: output \"last\" has no float for each label at each step", false,
         false},
        {"ctc: numbers\nblank: 4\n", "ctc: the blank is 4, and output \"numbers\" has 4 labels",
         false, false},
        {"ctc: \"\"\n", "ctc: has no value", false, false},
        {"ctc: \"a\\tb\"\n", "is no tensor's name", false, false},
        {"ctc: numbers\nvocabularies: numbers=bytes\n",
         "'numbers' is neither an input nor an output", false, false},
        {"ctc: numbers\n", "ctc: output \"scores\" would be there twice", true, false},
        {"ctc: numbers\n", "has ctc, which is of unfold: chain, and unfold: tree", false, true},
    };
    for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
        char path[2 * UTIL_PATH_BYTES];
        struct base_buf out;
        struct base_error error;
        base_buf_init(&out, 1 << 16);
        texts_write_file("plain", "config.yaml", mistakes[i].config);
        if (mistakes[i].has_scores) {
            snprintf(path, sizeof(path), "%s/plain/1", texts_folder);
            form = (struct form){.has_scores = true};
            write_model(path);
        }
        if (mistakes[i].is_tree) { // whose parts are not even read
            texts_write_file("plain", "1/leaf.onnx", "");
            texts_write_file("plain", "1/node.onnx", "");
        }
        snprintf(path, sizeof(path), "%s/plain", texts_folder);
        ck_assert_msg(srv_check_model(path, &out, &error) != BASE_OK, "%s", mistakes[i].config);
        ck_assert_msg(strstr(error.message, mistakes[i].message) != NULL, "%s", error.message);
        base_buf_release(&out);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ctc");
    TCase *tcase = tcase_create("ctc");
    tcase_add_checked_fixture(tcase, setup, texts_teardown);
    tcase_add_loop_test(tcase, test_labels_are_those_of_the_best_path, 0, (int)MODELS);
    tcase_add_test(tcase, test_outputs_are_asked_for_by_name);
    tcase_add_test(tcase, test_a_session_in_parts_has_the_labels_of_the_whole);
    tcase_add_test(tcase, test_clients_are_told_of_labels);
    tcase_add_test(tcase, test_what_has_no_labels_is_refused);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
