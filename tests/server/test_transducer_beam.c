/* Transducers with a beam: what they answer is what a search finds that is written here, over
 * sequences of labels and double precision, and asks the same parts as models of their own. */
#include "server/check_model.h"
#include "tests/server/hearer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define WIDTH_MAX 8

static const struct hearer_model models[] = {
    {"stateless",
     "blank: 4\nmax-symbols: 1\nbeam: 4\n",
     {.is_stateless = true, .symbols_max = 1, .blank = 4, .favour = 1.0f}},
    {"stateful", "max-symbols: 1\nbeam: 3\n", {.symbols_max = 1, .favour = 1.5f}},
    {"pieces",
     "max-symbols: 1\nstart: 2\nbeam: 8\n",
     {.is_direct = true, .is_bidirectional = true, .symbols_max = 1, .start = 2, .favour = 1.0f}},
    {"lengths",
     "max-symbols: 1\nbeam: 2\nvocabularies: token=words:marks.txt\n",
     {.has_lengths = true, .symbols_max = 1, .favour = 1.0f}},
    {"penalty", // the score alone counts
     "max-symbols: 1\nbeam: 5\nlength-penalty: 0\n",
     {.symbols_max = 1, .favour = 1.5f}},
    {"icefall",
     "max-symbols: 1\nbeam: 4\n",
     {.is_stateless = true, .knows_none = true, .symbols_max = 1, .favour = 1.0f}},
};

static const uint32_t widths[] = {4, 3, 8, 2, 5, 4};

#define MODELS (sizeof(models) / sizeof(models[0]))

static void setup(void)
{
    util_temp_dir(texts_folder);
    for (size_t i = 0; i < MODELS; i++) {
        hearer_write(&models[i]);
    }
    texts_open_site();
}

/* ---- The search ----------------------------------------------------------------------------- */

/* Labels, and what the predictor has made of them. */
struct hypothesis {
    struct hearer_path path;
    double score;
    int64_t labels[HEARER_CONTEXT];
    float h[HEARER_HIDDEN];
    float predicted[HEARER_FRAMES + HEARER_JOINED];
};

struct continuation {
    double score, gain;
    uint32_t from;
    int64_t label;
};

static struct hypothesis beams[2][WIDTH_MAX];
static uint32_t width; /* of the search; 0: the model's */
static uint32_t merged;

static double penalty_of(const struct hearer_model *model)
{
    return strcmp(model->name, "penalty") == 0 ? 0.0 : 1.0;
}

static uint32_t width_of(const struct hearer_model *model)
{
    return width > 0 ? width : widths[model - models];
}

/* Behind equal ones. */
static void insert(struct continuation *all, uint32_t *n, uint32_t most, struct continuation one)
{
    uint32_t at = *n < most ? (*n)++ : most;
    while (at > 0 && one.score > all[at - 1].score) {
        if (at < most) {
            all[at] = all[at - 1];
        }
        at--;
    }
    if (at < most) {
        all[at] = one;
    }
}

/* The best continuations of all hypotheses by one look at a frame. */
static uint32_t look_on(const struct hearer_model *model, const struct hypothesis *beam,
                        uint32_t n_beam, const float *frame, struct continuation *all)
{
    uint32_t n = 0;
    for (uint32_t b = 0; b < n_beam; b++) {
        float logits[HEARER_LABELS];
        double sum = 0;
        hearer_look(model, frame, beam[b].predicted, logits);
        for (int64_t l = 0; l < HEARER_LABELS; l++) {
            sum += exp((double)logits[l]);
        }
        for (int64_t l = 0; l < HEARER_LABELS; l++) {
            const double gain = (double)logits[l] - log(sum);
            insert(all, &n, width_of(model),
                   (struct continuation){beam[b].score + gain, gain, b, l});
        }
    }
    return n;
}

static bool has_said(const struct hypothesis *a, const struct hypothesis *b)
{
    return a->path.n == b->path.n &&
           memcmp(a->path.token, b->path.token, a->path.n * sizeof(a->path.token[0])) == 0;
}

/* Those that say the same are one. */
static uint32_t go_on(const struct hearer_model *model, const struct hypothesis *from,
                      const struct continuation *all, uint32_t n, uint32_t frame,
                      struct hypothesis *to)
{
    uint32_t n_to = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct hypothesis *next = &to[n_to];
        uint32_t same = 0;
        *next = from[all[i].from];
        next->score = all[i].score;
        if (all[i].label != model->form.blank) {
            next->path.token[next->path.n] = all[i].label;
            next->path.frame[next->path.n] = frame;
            next->path.score[next->path.n++] = (float)all[i].gain;
        }
        while (same < n_to && !has_said(&to[same], next)) {
            same++;
        }
        if (same < n_to) {
            to[same].score += log1p(exp(next->score - to[same].score));
            merged++;
            continue;
        }
        if (all[i].label != model->form.blank) {
            next->labels[0] = next->labels[1];
            next->labels[1] = all[i].label;
            hearer_predict(model, next->labels, next->h, next->predicted);
        }
        n_to++;
    }
    return n_to;
}

static void search(const struct hearer_model *model, const float *frames, uint32_t n,
                   struct hearer_path *path)
{
    const uint32_t context = model->form.is_stateless ? HEARER_CONTEXT : 1;
    uint32_t n_beam = 1;
    const struct hypothesis *best = NULL;
    beams[0][0] = (struct hypothesis){.score = 0.0};
    hearer_start(&model->form, beams[0][0].labels);
    hearer_predict(model, beams[0][0].labels, beams[0][0].h, beams[0][0].predicted);
    for (uint32_t t = 0; t < n; t++) {
        struct continuation all[WIDTH_MAX];
        const struct hypothesis *now = beams[t % 2];
        const uint32_t n_all = look_on(model, now, n_beam, frames + (size_t)t * HEARER_FRAMES, all);
        n_beam = go_on(model, now, all, n_all, t, beams[(t + 1) % 2]);
    }
    for (uint32_t b = 0; b < n_beam && n > 0; b++) {
        const struct hypothesis *one = &beams[n % 2][b];
        const double rank = one->score / pow(one->path.n + context, penalty_of(model));
        const double most =
            best == NULL ? -HUGE_VAL : best->score / pow(best->path.n + context, penalty_of(model));
        best = rank > most ? one : best;
    }
    if (best != NULL) {
        *path = best->path;
    }
}

/* ---- Requests ------------------------------------------------------------------------------- */

static void draw(struct frames *frames, uint32_t i)
{
    base_random_init(&hearer_numbers, 300 + i);
    frames_draw(frames, &hearer_numbers, 1 + i % FRAMES_ROWS, 1 + i % HEARER_STEPS);
}

START_TEST(test_labels_are_those_of_the_best_hypothesis)
{
    const struct hearer_model *model = &models[_i];
    uint32_t labels = 0;
    uint32_t others = 0; // than those that a width of 1 finds
    merged = 0;
    for (uint32_t i = 0; i < 14; i++) {
        struct frames frames;
        struct hearer_path paths[FRAMES_ROWS];
        struct hearer_path narrow[FRAMES_ROWS];
        struct visit visit;
        draw(&frames, i);
        width = 1;
        hearer_search_rows(model, &frames, search, narrow);
        width = 0;
        hearer_search_rows(model, &frames, search, paths);
        frames_begin(&visit, model->name, &frames);
        texts_run(&visit);
        ck_assert_uint_eq(visit.ask.request.n_outputs, 4);
        for (uint32_t row = 0; row < frames.n_rows; row++) {
            hearer_expect_row(&visit, row, &paths[row], model->form.blank);
            labels += paths[row].n;
            others += paths[row].n != narrow[row].n ||
                      memcmp(paths[row].token, narrow[row].token, sizeof(narrow[row].token)) != 0;
        }
        ask_release(&visit.ask);
    }
    ck_assert_uint_gt(labels, 20);
    ck_assert_uint_gt(others, 3);
    ck_assert(strcmp(model->name, "pieces") != 0 || merged > 10);
}
END_TEST

/* A narrower beam is a request's to ask for, down to the most likely label of each frame. */
START_TEST(test_a_request_may_ask_for_less)
{
    const struct hearer_model *model = &models[0];
    for (width = 1; width <= 4; width++) {
        struct frames frames;
        struct hearer_path paths[FRAMES_ROWS];
        struct visit visit;
        draw(&frames, 10 + width);
        hearer_search_rows(model, &frames, search, paths);
        frames_begin(&visit, model->name, &frames);
        visit.ask.request.beam = width;
        texts_run(&visit);
        for (uint32_t row = 0; row < frames.n_rows; row++) {
            hearer_expect_row(&visit, row, &paths[row], model->form.blank);
        }
        ask_release(&visit.ask);
    }
    width = 0;
    struct frames frames;
    struct visit visit;
    draw(&frames, 1);
    frames_begin(&visit, model->name, &frames);
    visit.ask.request.beam = 5;
    texts_expect_refused(&visit, "parameter 'beam' is 5; the model has at most 4");
}
END_TEST

START_TEST(test_company_changes_nothing)
{
    hearer_check_company(models[1].name);
}
END_TEST

/* Only what is asked for is answered, whatever of it that is. */
START_TEST(test_outputs_may_be_asked_for_one_by_one)
{
    static const char *const names[] = {"token", "scores", "steps", "lengths"};
    struct frames frames;
    struct visit all;
    draw(&frames, 8);
    frames_begin(&all, models[0].name, &frames);
    texts_run(&all);
    for (uint32_t o = 0; o < 4; o++) {
        struct visit one;
        frames_begin(&one, models[0].name, &frames);
        one.ask.request.wanted = &names[o];
        one.ask.request.n_wanted = 1;
        texts_run(&one);
        ck_assert_uint_eq(one.ask.request.n_outputs, 1);
        const struct srv_tensor *wanted = texts_output(&all, names[o]);
        ck_assert_uint_eq(one.ask.request.outputs[0].bytes, wanted->bytes);
        ck_assert_mem_eq(one.ask.request.outputs[0].data, wanted->data, wanted->bytes);
        ask_release(&one.ask);
    }
    ask_release(&all.ask);
}
END_TEST

/* Numbers that are none have no continuation: no hypothesis is left, and so no label. */
START_TEST(test_frames_that_are_no_numbers_say_nothing)
{
    struct frames frames;
    struct visit visit;
    draw(&frames, 5);
    frames.x[0][0][0] = NAN;
    frames_begin(&visit, models[1].name, &frames);
    texts_run(&visit);
    ck_assert_int_eq(cell_integer_at(CELL_I64, texts_output(&visit, "lengths")->data), 0);
    ask_release(&visit.ask);
}
END_TEST

/* ---- What is refused ------------------------------------------------------------------------ */

static void expect_no_model(const char *config, const char *message)
{
    char path[2 * UTIL_PATH_BYTES];
    struct base_buf out;
    struct base_error error = {.status = BASE_OK};
    base_buf_init(&out, 1 << 16);
    texts_write_file("stateful", "config.yaml", config);
    snprintf(path, sizeof(path), "%s/stateful", texts_folder);
    ck_assert_msg(srv_check_model(path, &out, &error) != BASE_OK, "%s", message);
    ck_assert_msg(strstr(error.message, message) != NULL, "%s", error.message);
    base_buf_release(&out);
}

START_TEST(test_beams_that_cannot_be_are_refused)
{
    expect_no_model("unfold: transducer\nbeam: 4\n",
                    "at most 10 labels a frame; a beam looks at each once (max-symbols: 1)");
    expect_no_model("unfold: transducer\nmax-symbols: 1\nbeam: 9\n", "beam");
    expect_no_model("unfold: transducer\nmax-symbols: 1\nbeam: 4\nstates: recurrent\n",
                    "states: a beam's hypotheses are over with the request");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transducer_beam");
    TCase *tcase = tcase_create("beam");
    tcase_add_checked_fixture(tcase, setup, texts_teardown);
    tcase_add_loop_test(tcase, test_labels_are_those_of_the_best_hypothesis, 0, (int)MODELS);
    tcase_add_test(tcase, test_a_request_may_ask_for_less);
    tcase_add_test(tcase, test_company_changes_nothing);
    tcase_add_test(tcase, test_outputs_may_be_asked_for_one_by_one);
    tcase_add_test(tcase, test_frames_that_are_no_numbers_say_nothing);
    tcase_add_test(tcase, test_beams_that_cannot_be_are_refused);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
