/* Transducers: what a model of encoder.onnx, decoder.onnx and joiner.onnx answers is what the
 * greedy search finds that asks those three as models of their own, frame by frame and label by
 * label: rows of any lengths, in any company, as ids and as text. */
#include "server/check_model.h"
#include "server/signature.h"
#include "tests/server/hearer.h"

#include <stdio.h>
#include <string.h>

static const struct hearer_model models[] = {
    {"plain", "max-symbols: 10\n", {.symbols_max = 10, .favour = 1.5f}},
    {"stateless",
     "blank: 4\nmax-symbols: 1\n",
     {.is_stateless = true, .symbols_max = 1, .blank = 4, .favour = 1.0f}},
    {"pieces",
     "max-symbols: 3\nstart: 2\n",
     {.is_direct = true, .is_bidirectional = true, .symbols_max = 3, .start = 2, .favour = 1.0f}},
    {"joined_pieces",
     "max-symbols: 2\n",
     {.is_bidirectional = true, .symbols_max = 2, .favour = 1.5f}},
    {"session",
     "states: recurrent\nblank: 3\nmax-symbols: 4\n",
     {.has_lengths = true, .symbols_max = 4, .blank = 3, .favour = -2.5f}},
    {"stateful",
     "states: h0=hn\nmax-symbols: 4\n",
     {.has_state = true, .symbols_max = 4, .favour = 1.5f}},
    {"icefall",
     "max-symbols: 1\n",
     {.is_stateless = true, .knows_none = true, .symbols_max = 1, .favour = 1.0f}},
    {"icefall_session",
     "states: recurrent\nmax-symbols: 1\n",
     {.is_stateless = true,
      .knows_none = true,
      .has_lengths = true,
      .symbols_max = 1,
      .favour = 1.5f}},
    {"ends",
     "max-symbols: 2\n",
     {.is_bidirectional = true, .has_ends = true, .symbols_max = 2, .favour = 1.5f}},
    {"lengths",
     "vocabularies: token=words:marks.txt\n",
     {.has_lengths = true, .symbols_max = 10, .favour = 1.5f}},
};

#define MODELS (sizeof(models) / sizeof(models[0]))
static void setup(void)
{
    util_temp_dir(texts_folder);
    for (size_t i = 0; i < MODELS; i++) {
        hearer_write(&models[i]);
    }
    texts_open_site();
}

/* ---- Greedy search ------------------------------------------------------------------------ */

static void search(const struct hearer_model *model, const float *frames, uint32_t n,
                   struct hearer_path *path)
{
    const struct hearer_form *form = &model->form;
    int64_t labels[HEARER_CONTEXT];
    float h[HEARER_HIDDEN] = {0};
    float predicted[HEARER_FRAMES + HEARER_JOINED];
    hearer_start(form, labels);
    hearer_predict(model, labels, h, predicted);
    for (uint32_t t = 0; t < n; t++) {
        for (uint32_t s = 0; s < form->symbols_max; s++) {
            float logits[HEARER_LABELS];
            int64_t label = 0;
            hearer_look(model, frames + (size_t)t * HEARER_FRAMES, predicted, logits);
            for (int64_t l = 1; l < HEARER_LABELS; l++) {
                label = logits[l] > logits[label] ? l : label;
            }
            path->steps++;
            if (label == form->blank) {
                break;
            }
            path->token[path->n] = label;
            path->frame[path->n] = t;
            path->score[path->n++] = logits[label];
            labels[0] = labels[1];
            labels[1] = label;
            hearer_predict(model, labels, h, predicted);
        }
    }
}

/* ---- Requests ----------------------------------------------------------------------------- */

/* _i: the model. Over all requests there are frames without a label, with one, and where that may
 * be, with several. */
START_TEST(test_labels_are_those_that_the_search_finds)
{
    const struct hearer_form *form = &models[_i].form;
    uint32_t labels = 0;
    uint32_t blanks = 0;
    uint32_t again = 0;
    uint32_t empty = 0;
    for (uint32_t i = 0; i < 12; i++) {
        struct frames frames;
        struct hearer_path paths[FRAMES_ROWS];
        struct visit visit;
        base_random_init(&hearer_numbers, 100 + i);
        frames_draw(&frames, &hearer_numbers, 1 + i % FRAMES_ROWS, 1 + i % HEARER_STEPS);
        hearer_search_rows(&models[_i], &frames, search, paths);
        frames_begin(&visit, models[_i].name, &frames);
        texts_run(&visit);
        const uint32_t more = form->has_ends ? 1 : 0; // a state is no output any more
        ck_assert_uint_eq(visit.ask.request.n_outputs, 4 + more);
        for (uint32_t row = 0; row < frames.n_rows; row++) {
            hearer_expect_row(&visit, row, &paths[row], form->blank);
            labels += paths[row].n;
            blanks += paths[row].steps - paths[row].n;
            empty += hearer_used_of(form, &frames, row) == 0;
            for (uint32_t n = 1; n < paths[row].n; n++) {
                again += paths[row].frame[n] == paths[row].frame[n - 1];
            }
        }
        ask_release(&visit.ask);
    }
    ck_assert_uint_gt(labels, 20);
    ck_assert_uint_gt(blanks, 20);
    ck_assert(form->symbols_max == 1 || again > 5);
    ck_assert(!form->has_lengths || empty > 0);
}
END_TEST

/* What the encoder answers beside its frames is answered as it answers it by itself, also where
 * features stand before the rows. */
START_TEST(test_what_has_no_frames)
{
    for (uint32_t i = 0; i < 6; i++) {
        struct frames frames;
        struct visit visits[2];
        base_random_init(&hearer_numbers, 200 + i);
        frames_draw(&frames, &hearer_numbers, 1 + i % FRAMES_ROWS, 1 + i % HEARER_STEPS);
        for (uint32_t v = 0; v < 2; v++) {
            frames_begin(&visits[v], v == 0 ? "ends" : "ends_encoder", &frames);
            texts_run(&visits[v]);
        }
        const struct srv_tensor *got = texts_output(&visits[0], "ends");
        const struct srv_tensor *wanted = texts_output(&visits[1], "ends");
        ck_assert_uint_eq(got->bytes, frames.n_rows * HEARER_FRAMES * sizeof(float));
        ck_assert_uint_eq(got->bytes, wanted->bytes);
        ck_assert_mem_eq(got->data, wanted->data, wanted->bytes);
        ask_release(&visits[0].ask);
        ask_release(&visits[1].ask);
    }
}
END_TEST

START_TEST(test_company_changes_nothing)
{
    hearer_check_company(models[0].name);
}
END_TEST

/* The labels of a part go on where those of the one before have ended. */
static void expect_part(const struct visit *visit, const struct hearer_path *path, uint32_t row,
                        uint32_t from, uint32_t *done)
{
    const int64_t n =
        cell_integer_at(CELL_I64, texts_output(visit, "lengths")->data + row * sizeof(int64_t));
    for (uint32_t i = 0; i < n; i++, (*done)++) {
        ck_assert_uint_lt(*done, path->n);
        ck_assert_int_eq(
            cell_integer_at(CELL_I64, hearer_label_at(visit, "token", row, i, sizeof(int64_t))),
            path->token[*done]);
        ck_assert_int_eq(from + cell_integer_at(CELL_I64, hearer_label_at(visit, "steps", row, i,
                                                                          sizeof(int64_t))),
                         path->frame[*done]);
    }
}

/* Cut anywhere, also where a row has no frame in a part, or none in the first. _i: the states of
 * layers, a tensor of the encoder's, or the last labels alone, of which there may be none. */
START_TEST(test_a_session_in_parts_hears_what_the_whole_does)
{
    static const char *const names[] = {"session", "stateful", "icefall_session"};
    size_t model = 0;
    uint32_t said = 0;
    while (strcmp(models[model].name, names[_i]) != 0) {
        model++;
    }
    for (uint32_t i = 0; i < 16; i++) {
        struct frames frames;
        struct hearer_path paths[FRAMES_ROWS];
        uint32_t done[FRAMES_ROWS] = {0};
        frames_draw(&frames, &hearer_numbers, 1 + i % FRAMES_ROWS, HEARER_STEPS);
        hearer_search_rows(&models[model], &frames, search, paths);
        for (uint32_t from = 0, to = 0; from < HEARER_STEPS; from = to) {
            struct visit visit;
            to =
                from + 1 + base_random_below(&hearer_numbers, i % 2 == 0 ? 2 : HEARER_STEPS - from);
            to = to < HEARER_STEPS ? to : HEARER_STEPS;
            frames_run_part(&visit, models[model].name, &frames, from, to);
            ck_assert_uint_eq(visit.ask.request.n_outputs, 4); // and no state
            for (uint32_t row = 0; row < frames.n_rows; row++) {
                expect_part(&visit, &paths[row], row, from, &done[row]);
            }
            ask_release(&visit.ask);
        }
        for (uint32_t row = 0; row < frames.n_rows; row++) {
            ck_assert_uint_eq(done[row], paths[row].n);
            said += done[row];
        }
    }
    ck_assert_uint_gt(said, 60);
}
END_TEST

/* A row that has nothing to hear in the first part begins with the start, not with zeros; and
 * states that a client brings are checked as ids are. */
START_TEST(test_sessions_begin_with_the_start)
{
    struct frames frames;
    struct hearer_path path;
    struct visit visit;
    const struct hearer_model *model = &models[4];
    uint32_t done = 0;
    frames_draw(&frames, &hearer_numbers, 1, HEARER_STEPS);
    frames.used[0] = HEARER_STEPS;
    ck_assert_str_eq(model->name, "session");
    hearer_search_rows(model, &frames, search, &path);
    frames.used[0] = 0;
    frames_begin(&visit, "session", &frames);
    visit.ask.request.sequence = (struct srv_sequence){.id = "s", .is_start = true};
    texts_run(&visit);
    ask_release(&visit.ask);
    frames.used[0] = HEARER_STEPS;
    frames_begin(&visit, "session", &frames);
    visit.ask.request.sequence = (struct srv_sequence){.id = "s", .is_end = true};
    texts_run(&visit);
    expect_part(&visit, &path, 0, 0, &done);
    ck_assert_uint_eq(done, path.n);
    ask_release(&visit.ask);

    const struct cell_model *cells = site_find(&texts_site, "session");
    const struct cell_tensor *labels = NULL;
    for (uint32_t i = 0; i < cells->n_inputs; i++) {
        labels = cells->inputs[i].dtype == CELL_I64 ? &cells->inputs[i] : labels;
    }
    ck_assert_ptr_nonnull(labels);
    frames_begin(&visit, "session", &frames);
    texts_add(&visit, labels->name, "INT64", &(int64_t){HEARER_LABELS}, sizeof(int64_t));
    texts_shape(&visit, 2, 1, 1);
    visit.ask.request.sequence = (struct srv_sequence){.id = "s", .is_start = true, .is_end = true};
    visit_start(&texts_site, &visit);
    visit_wait(&visit);
    ck_assert_int_eq(visit.ask.request.error.status, BASE_INVALID_ARGUMENT);
    ck_assert_msg(strstr(visit.ask.request.error.message, "id 5 at position 0, expected 0..4") !=
                      NULL,
                  "%s", visit.ask.request.error.message);
    ask_release(&visit.ask);
}
END_TEST

/* ---- What is said of them, and refused ---------------------------------------------------- */

START_TEST(test_clients_are_told_of_labels)
{
    struct srv_signature signature;
    srv_signature_make(site_find(&texts_site, "plain"), NULL, &signature);
    static const char *const names[] = {"token", "scores", "steps", "lengths"};
    ck_assert_uint_eq(signature.n_outputs, 4);
    for (uint32_t i = 0; i < 4; i++) {
        ck_assert_str_eq(signature.outputs[i].name, names[i]);
        ck_assert_str_eq(signature.outputs[i].datatype, i == 1 ? "FP32" : "INT64");
        ck_assert_uint_eq(signature.outputs[i].rank, i == 3 ? 1 : 2);
    }
}
END_TEST

START_TEST(test_requests_that_ask_for_something_else_are_refused)
{
    struct frames frames;
    struct visit visit;
    frames_draw(&frames, &hearer_numbers, 1, 3);
    frames_begin(&visit, "plain", &frames);
    visit.ask.request.steps_max = 5;
    texts_expect_refused(&visit, "parameter 'max_steps': a transducer has as many steps as its "
                                 "frames ask for");
    frames_begin(&visit, "plain", &frames);
    visit.ask.request.beam = 2;
    texts_expect_refused(&visit, "parameter 'beam' is 2; the model has at most 0");
}
END_TEST

/* What --check-model says of a model whose part `part` is that of another form. */
static void expect_no_model(const char *config, uint32_t part, const struct hearer_form *form,
                            const char *message)
{
    char path[2 * UTIL_PATH_BYTES];
    char version[UTIL_PATH_BYTES];
    struct base_buf out;
    struct base_error error = {.status = BASE_OK};
    base_buf_init(&out, 1 << 16);
    texts_write_file("plain", "config.yaml", config);
    snprintf(version, sizeof(version), "%.3000s/plain/1", texts_folder);
    for (uint32_t p = 0; p < 3; p++) {
        hearer_writers[p](p == part ? form : &models[0].form, version, hearer_part_names[p]);
    }
    snprintf(path, sizeof(path), "%s/plain", texts_folder);
    ck_assert_msg(srv_check_model(path, &out, &error) != BASE_OK, "%s", message);
    ck_assert_msg(strstr(error.message, message) != NULL, "%s", error.message);
    base_buf_release(&out);
}

START_TEST(test_what_is_no_transducer_is_refused)
{
    const struct hearer_form *plain = &models[0].form;
    const struct hearer_form direct = {.is_direct = true};
    expect_no_model("unfold: transducer\nblank: 5\n", 0, plain,
                    "the blank is 5, and joiner.onnx has 5 labels");
    expect_no_model("unfold: transducer\nstart: 5\n", 0, plain,
                    "decoder.onnx: its embedding has 5 rows, but labels up to 4 may come, and 5 "
                    "before the first");
    expect_no_model("unfold: transducer\nmax-symbols: 0\n", 0, plain, "max-symbols");
    expect_no_model("unfold: transducer\n", 1, &direct,
                    "decoder.onnx: output 'decoder_out' has width 8, in joiner.onnx it has 7");
    expect_no_model("unfold: transducer\nctc: logits\n", 0, plain,
                    "has ctc, which is of unfold: chain");
    expect_no_model("unfold: transducer\nstates: a=b\n", 0, plain,
                    "states: the model has no input \"a\"");
}
END_TEST

/* Parts that are written for this; the others are the plain model's. */
static void expect_no_part(uint32_t part, const char *message)
{
    char path[2 * UTIL_PATH_BYTES];
    char version[UTIL_PATH_BYTES];
    struct base_buf out;
    struct base_error error = {.status = BASE_OK};
    base_buf_init(&out, 1 << 16);
    snprintf(version, sizeof(version), "%.3000s/plain/1", texts_folder);
    parts_write(&hearer_builder, version, hearer_part_names[part]);
    snprintf(path, sizeof(path), "%s/plain", texts_folder);
    ck_assert_msg(srv_check_model(path, &out, &error) != BASE_OK, "%s", message);
    ck_assert_msg(strstr(error.message, message) != NULL, "%s", error.message);
    hearer_writers[part](&models[0].form, version, hearer_part_names[part]);
    base_buf_release(&out);
}

START_TEST(test_parts_that_do_not_fit_are_refused)
{
    // A joiner of a tensor that nobody makes.
    onnx_init(&hearer_builder, 17);
    parts_input(&hearer_builder, "encoder_out", PARTS_FLOAT, HEARER_FRAMES);
    parts_input(&hearer_builder, "something", PARTS_FLOAT, HEARER_FRAMES);
    onnx_node(&hearer_builder, "Add", "encoder_out something", "logits");
    parts_output(&hearer_builder, "logits");
    expect_no_part(2, "joiner.onnx: input 'something' is not an output of either encoder.onnx or "
                      "decoder.onnx");
    // One that does not listen.
    onnx_init(&hearer_builder, 17);
    parts_input(&hearer_builder, "decoder_out", PARTS_FLOAT, HEARER_JOINED);
    onnx_node(&hearer_builder, "Tanh", "decoder_out", "logits");
    parts_output(&hearer_builder, "logits");
    expect_no_part(2, "joiner.onnx: its logits are not made of both sides");
    // One of two answers.
    onnx_init(&hearer_builder, 17);
    parts_input(&hearer_builder, "encoder_out", PARTS_FLOAT, HEARER_FRAMES);
    onnx_node(&hearer_builder, "Tanh", "encoder_out", "logits");
    onnx_node(&hearer_builder, "Exp", "encoder_out", "more");
    parts_output(&hearer_builder, "logits");
    parts_output(&hearer_builder, "more");
    expect_no_part(2, "joiner.onnx: its one output is no float for each label");
    // A predictor without labels, and one that asks for more.
    base_random_init(&hearer_numbers, 1);
    onnx_init(&hearer_builder, 17);
    parts_input(&hearer_builder, "h", PARTS_FLOAT, HEARER_JOINED);
    onnx_node(&hearer_builder, "Tanh", "h", "decoder_out");
    onnx_node(&hearer_builder, "Exp", "h", "h_next");
    parts_output(&hearer_builder, "decoder_out");
    parts_output(&hearer_builder, "h_next");
    expect_no_part(1, "decoder.onnx: reads 0 inputs that are not fed back");
    onnx_init(&hearer_builder, 17);
    parts_input(&hearer_builder, "token", PARTS_INT64, 0);
    parts_input(&hearer_builder, "voice", PARTS_FLOAT, HEARER_JOINED);
    hearer_constant("table", HEARER_LABELS, HEARER_JOINED, 1.0f);
    onnx_node(&hearer_builder, "Gather", "table token", "row");
    onnx_node(&hearer_builder, "Add", "row voice", "decoder_out");
    parts_output(&hearer_builder, "decoder_out");
    expect_no_part(1, "decoder.onnx: input 'voice' is no labels, and not fed back: no output is "
                      "called 'voice_next'");
    // An embedding of too few labels.
    onnx_init(&hearer_builder, 17);
    parts_input(&hearer_builder, "token", PARTS_INT64, 0);
    hearer_constant("table", HEARER_LABELS - 1, HEARER_JOINED, 1.0f);
    onnx_node(&hearer_builder, "Gather", "table token", "decoder_out");
    parts_output(&hearer_builder, "decoder_out");
    expect_no_part(1, "decoder.onnx: its embedding has 4 rows, but labels up to 4 may come");
    // An encoder without frames.
    onnx_init(&hearer_builder, 17);
    parts_input(&hearer_builder, "x", PARTS_FLOAT, HEARER_FRAMES);
    onnx_node(&hearer_builder, "Tanh", "x", "encoder_out");
    parts_output(&hearer_builder, "encoder_out");
    expect_no_part(0, "encoder.onnx: output 'encoder_out' is no row of width 8 for each frame");
}
END_TEST

static enum base_status load(struct cell_registry *registry, const void *version,
                             struct cell_model **out)
{
    static const struct cell_model_options options = {.decoding = {.symbols_max = 2}};
    struct base_error error;
    return cell_model_load_transducer(registry, version, "test", &options, out, &error);
}

/* An allocation that fails anywhere leaves nothing behind. */
START_TEST(test_loading_survives_every_failed_allocation)
{
    char version[UTIL_PATH_BYTES];
    snprintf(version, sizeof(version), "%.3000s/joined_pieces/1", texts_folder);
    parts_fail_allocations(load, version);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transducer");
    TCase *tcase = tcase_create("transducer");
    tcase_add_checked_fixture(tcase, setup, texts_teardown);
    tcase_add_loop_test(tcase, test_labels_are_those_that_the_search_finds, 0, (int)MODELS);
    tcase_add_test(tcase, test_what_has_no_frames);
    tcase_add_test(tcase, test_company_changes_nothing);
    tcase_add_loop_test(tcase, test_a_session_in_parts_hears_what_the_whole_does, 0, 3);
    tcase_add_test(tcase, test_sessions_begin_with_the_start);
    tcase_add_test(tcase, test_clients_are_told_of_labels);
    tcase_add_test(tcase, test_requests_that_ask_for_something_else_are_refused);
    tcase_add_test(tcase, test_what_is_no_transducer_is_refused);
    tcase_add_test(tcase, test_parts_that_do_not_fit_are_refused);
    tcase_add_test(tcase, test_loading_survives_every_failed_allocation);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
