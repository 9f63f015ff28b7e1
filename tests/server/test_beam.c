/* Beam search: what the server finds against a plain search that keeps every hypothesis as a list
 * of ids, in double precision; widths 1 to 8, all in one run, and each request again alone. */
#include "base/mem.h"
#include "tests/cells/oracle.h"
#include "tests/server/parts.h"
#include "tests/server/site.h"
#include "tests/util.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IDS = 13, HIDDEN = 20, START = 1, END = 4, WIDTHS = 8, EACH = 25, STEPS_MOST = 12 };

static char folder[UTIL_PATH_BYTES];
static struct site site;
static struct onnx_builder builder;
static struct base_random random_numbers;

/* ---- Models ------------------------------------------------------------------------------- */

static void constant(const char *name, int64_t rows, int64_t cols)
{
    parts_constant(&builder, &random_numbers, name, rows, cols);
}

/* h' = tanh(table[token] + h U + x V), c' = c / 2 + h', logits = c' O; no encoder. */
static void write_decoder(const char *version, int64_t ids)
{
    const float half = 0.5f;
    onnx_init(&builder, 17);
    parts_input(&builder, "token", PARTS_INT64, 0);
    parts_input(&builder, "h", PARTS_FLOAT, HIDDEN);
    parts_input(&builder, "c", PARTS_FLOAT, HIDDEN);
    parts_input(&builder, "x", PARTS_FLOAT, HIDDEN);
    constant("table", ids, HIDDEN);
    constant("u", HIDDEN, HIDDEN);
    constant("v", HIDDEN, HIDDEN);
    constant("o", HIDDEN, ids);
    onnx_constant(&builder, "half", onnx_tensor(&builder, PARTS_FLOAT, 0, NULL, &half, 4));
    onnx_node(&builder, "Gather", "table token", "embedded");
    onnx_node(&builder, "MatMul", "h u", "of_h");
    onnx_node(&builder, "MatMul", "x v", "of_x");
    onnx_node(&builder, "Add", "embedded of_h", "sum");
    onnx_node(&builder, "Add", "sum of_x", "sum2");
    onnx_node(&builder, "Tanh", "sum2", "h_next");
    onnx_node(&builder, "Mul", "c half", "c_half");
    onnx_node(&builder, "Add", "c_half h_next", "c_next");
    onnx_node(&builder, "MatMul", "c_next o", "logits");
    Onnx__NodeProto *largest = onnx_node(&builder, "ArgMax", "logits", "token_next");
    onnx_set_int(&builder, largest, "axis", 1);
    onnx_set_int(&builder, largest, "keepdims", 0);
    parts_output(&builder, "token_next");
    parts_output(&builder, "h_next");
    parts_output(&builder, "c_next");
    parts_output(&builder, "logits");
    parts_write(&builder, version, "decoder");
}

/* Of the model "beam<width>". */
struct search {
    uint32_t width, steps;
    bool has_end;
    double penalty;
};

static struct search search_of(uint32_t width)
{
    static const double penalties[] = {0, 1, 0.6, 2};
    return (struct search){.width = width,
                           .steps = STEPS_MOST - width % 5,
                           .has_end = width != 5,
                           .penalty = penalties[width % 4]};
}

static void write_models(void)
{
    for (uint32_t width = 1; width <= WIDTHS; width++) {
        const struct search search = search_of(width);
        char name[16];
        char config[128];
        char version[UTIL_PATH_BYTES];
        char end[16] = "none";
        if (search.has_end) {
            snprintf(end, sizeof(end), "%d", END);
        }
        random_numbers = util_random(width);
        snprintf(name, sizeof(name), "beam%u", width);
        snprintf(config, sizeof(config),
                 "unfold: seq2seq\nstart: %d\nend: %s\nmax-steps: %u\nbeam: %u\n"
                 "length-penalty: %.1f\n",
                 START, end, search.steps, width, search.penalty);
        parts_folder(folder, name, config, version);
        write_decoder(version, IDS);
    }
}

/* ---- The plain search --------------------------------------------------------------------- */

struct hypothesis {
    double score, rank;
    uint32_t n;
    int64_t ids[STEPS_MOST];
    double h[HIDDEN], c[HIDDEN];
};

struct list {
    uint32_t n;
    struct hypothesis all[WIDTHS * IDS];
};

/* Value of the definition that the stage reads from this input of the model, as a state or not. */
static uint32_t value_of(const struct cell_model *model, const char *name)
{
    const struct cell_stage *stage = &model->stages[model->decoder.stage];
    const struct cell_def *def = &stage->type->def;
    for (uint32_t i = 0; i < def->n_inputs + def->n_states; i++) {
        const struct cell_source *source =
            i < def->n_inputs ? &stage->inputs[i] : &stage->init[i - def->n_inputs];
        if (source->kind == CELL_SOURCE_INPUT &&
            strcmp(model->inputs[source->index].name, name) == 0) {
            return i;
        }
    }
    ck_abort_msg("nothing reads %s", name);
}

/* One step of the cell: the state of `from` becomes that of `to`; the logarithms of the ids'
 * probabilities. */
static void step(const struct cell_model *model, const double *x, const struct hypothesis *from,
                 struct hypothesis *to, double *logs)
{
    const struct cell_def *def = &model->stages[model->decoder.stage].type->def;
    const uint32_t h = value_of(model, "h");
    const uint32_t c = value_of(model, "c");
    struct oracle oracle;
    double sum = 0;
    oracle_init(&oracle, def);
    oracle.values[def->n_inputs + model->decoder.token][0] =
        from->n == 0 ? START : (double)from->ids[from->n - 1];
    memcpy(oracle.values[h], from->h, sizeof(from->h));
    memcpy(oracle.values[c], from->c, sizeof(from->c));
    memcpy(oracle.values[value_of(model, "x")], x, HIDDEN * sizeof(double));
    oracle_step(&oracle);
    memcpy(to->h, oracle.values[def->state_next[h - def->n_inputs]], sizeof(to->h));
    memcpy(to->c, oracle.values[def->state_next[c - def->n_inputs]], sizeof(to->c));
    const double *logits = oracle.values[def->outputs[model->decoder.logits]];
    for (uint32_t id = 0; id < IDS; id++) {
        sum += exp(logits[id]);
    }
    for (uint32_t id = 0; id < IDS; id++) {
        logs[id] = logits[id] - log(sum);
    }
    oracle_release(&oracle);
}

static int by_score(const void *a, const void *b)
{
    const double x = ((const struct hypothesis *)a)->score;
    const double y = ((const struct hypothesis *)b)->score;
    return x < y ? 1 : x > y ? -1 : 0;
}

static int by_rank(const void *a, const void *b)
{
    const double x = ((const struct hypothesis *)a)->rank;
    const double y = ((const struct hypothesis *)b)->rank;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* All continuations of all lanes by one id, the best first. */
static void continue_all(const struct cell_model *model, const double *x, const struct list *lanes,
                         struct list *out)
{
    out->n = 0;
    for (uint32_t lane = 0; lane < lanes->n; lane++) {
        struct hypothesis next = lanes->all[lane];
        double logs[IDS];
        step(model, x, &lanes->all[lane], &next, logs);
        for (int64_t id = 0; id < IDS; id++) {
            struct hypothesis *one = &out->all[out->n++];
            *one = next;
            one->ids[one->n++] = id;
            one->score += logs[id];
        }
    }
    qsort(out->all, out->n, sizeof(out->all[0]), by_score);
}

/* The best continuations in their order: what ends is complete, others are the lanes of the next
 * step. t: steps before this one. */
static void choose(const struct search *search, uint32_t t, const struct list *next,
                   struct list *lanes, struct list *found)
{
    lanes->n = 0;
    for (uint32_t i = 0; i < next->n && i < 2 * search->width && lanes->n < search->width; i++) {
        struct hypothesis one = next->all[i];
        if (!search->has_end || one.ids[one.n - 1] != END) {
            lanes->all[lanes->n++] = one;
        } else if (i < search->width) {
            one.n--;
            one.rank = one.score / pow(t + 1, search->penalty);
            found->all[found->n++] = one;
        }
    }
}

static void find(const struct cell_model *model, const struct search *search, const double *x,
                 const struct hypothesis *first, struct list *found)
{
    static struct list lanes;
    static struct list next;
    uint32_t t = 0;
    lanes.n = 1;
    lanes.all[0] = *first;
    found->n = 0;
    for (; t < search->steps && found->n < search->width && lanes.n > 0; t++) {
        continue_all(model, x, &lanes, &next);
        choose(search, t, &next, &lanes, found);
    }
    // The last step's lanes are complete.
    for (uint32_t lane = 0; t == search->steps && lane < lanes.n; lane++) {
        lanes.all[lane].rank = lanes.all[lane].score / pow(t, search->penalty);
        found->all[found->n++] = lanes.all[lane];
    }
    qsort(found->all, found->n, sizeof(found->all[0]), by_rank);
    found->n = found->n < search->width ? found->n : search->width;
}

/* ---- Asking ------------------------------------------------------------------------------- */

static const float *floats_of(struct visit *visit, const char *name, uint32_t row)
{
    const struct srv_tensor *tensor = ask_input(&visit->ask, name);
    ck_assert_ptr_nonnull(tensor);
    return (const float *)(const void *)tensor->data + (size_t)row * HIDDEN;
}

static void expect_row(struct visit *visit, const struct search *search, uint32_t row)
{
    static struct list found;
    struct hypothesis first = {.n = 0};
    double x[HIDDEN];
    const struct srv_tensor *token = ask_output(&visit->ask, "token");
    const struct srv_tensor *scores = ask_output(&visit->ask, "scores");
    const struct srv_tensor *lengths = ask_output(&visit->ask, "lengths");
    ck_assert(token != NULL && scores != NULL && lengths != NULL);
    ck_assert_int_eq(token->shape[1], search->width);
    ck_assert_int_eq(scores->shape[1], search->width);
    for (uint32_t k = 0; k < HIDDEN; k++) {
        x[k] = (double)floats_of(visit, "x", row)[k];
        first.h[k] = (double)floats_of(visit, "h", row)[k];
        first.c[k] = (double)floats_of(visit, "c", row)[k];
    }
    find(visit->ask.cells, search, x, &first, &found);
    for (uint32_t i = 0; i < search->width; i++) {
        const size_t at = (size_t)row * search->width + i;
        const int64_t *ids =
            (const int64_t *)(const void *)token->data + at * (size_t)token->shape[2];
        float score = 0;
        memcpy(&score, scores->data + at * sizeof(score), sizeof(score));
        const int64_t length = cell_integer_at(CELL_I64, lengths->data + at * sizeof(length));
        if (i >= found.n) {
            ck_assert(score == -INFINITY && length == 0);
            continue;
        }
        util_assert_close(score, found.all[i].score, 1e-4, 0);
        ck_assert_int_eq(length, found.all[i].n);
        for (int64_t k = 0; k < token->shape[2]; k++) {
            const int64_t behind = search->has_end ? END : 0;
            ck_assert_int_eq(ids[k], k < length ? found.all[i].ids[k] : behind);
        }
    }
}

/* Of the model "beam<width>"; every third asks for fewer hypotheses than it has. */
static void begin(struct visit *visit, uint32_t width, struct base_random *random)
{
    static const char *const names[] = {"",      "beam1", "beam2", "beam3", "beam4",
                                        "beam5", "beam6", "beam7", "beam8"};
    memset(visit, 0, sizeof(*visit));
    ask_init(&visit->ask, site_find(&site, names[width]), 1 + base_random_below(random, 3), 1,
             random, ASK_OPTIONAL);
    visit->ask.request.model_name = names[width];
    visit->ask.request.beam = base_random_below(random, 3) == 0 ? 1 + width / 2 : 0;
}

/* The search that was asked for. */
static struct search search_asked(const struct visit *visit, uint32_t width)
{
    struct search search = search_of(width);
    search.width = visit->ask.request.beam > 0 ? (uint32_t)visit->ask.request.beam : width;
    return search;
}

static void ask_again(const struct visit *first)
{
    static struct visit again;
    memset(&again, 0, sizeof(again));
    again.ask = first->ask;
    base_arena_init(&again.ask.request.arena, 4096, (size_t)64 << 20);
    again.ask.request.n_outputs = 0;
    visit_start(&site, &again);
    visit_wait(&again);
    ck_assert_int_eq(again.ask.request.error.status, BASE_OK);
    for (uint32_t o = 0; o < CELL_BEAM_OUTPUTS; o++) {
        const struct srv_tensor *a = &again.ask.request.outputs[o];
        const struct srv_tensor *b = &first->ask.request.outputs[o];
        ck_assert_uint_eq(a->bytes, b->bytes);
        ck_assert_mem_eq(a->data, b->data, b->bytes);
    }
    ask_release(&again.ask);
}

static void open_site(uint32_t threads, uint32_t batch_rows)
{
    struct site_options options;
    site_options_init(&options);
    options.repositories[0] = folder;
    options.engine.backend = cell_backend_find("cpu");
    options.engine.rows = 512;
    options.engine.team_threads = threads;
    options.engine.batch_rows_max = batch_rows;
    options.core.queue_max = WIDTHS * EACH;
    site_open(&site, &options);
}

static void setup(void)
{
    util_temp_dir(folder);
    write_models();
}

static void teardown(void)
{
    util_remove_tree(folder);
}

/* _i: alone, two threads, and batches that the widest beams do not fit. */
START_TEST(test_beams_find_what_a_plain_search_finds)
{
    static struct visit visits[WIDTHS * EACH];
    struct base_random random = util_random(11);
    open_site(_i == 1 ? 2 : 1, _i == 2 ? 3 : 64);
    for (uint32_t i = 0; i < WIDTHS * EACH; i++) {
        begin(&visits[i], 1 + i % WIDTHS, &random);
        visit_start(&site, &visits[i]);
    }
    for (uint32_t i = 0; i < WIDTHS * EACH; i++) {
        const struct search search = search_asked(&visits[i], 1 + i % WIDTHS);
        visit_wait(&visits[i]);
        ck_assert_msg(visits[i].ask.request.error.status == BASE_OK, "%s",
                      visits[i].ask.request.error.message);
        for (uint32_t row = 0; row < visits[i].ask.n_rows; row++) {
            expect_row(&visits[i], &search, row);
        }
        ask_again(&visits[i]);
    }
    for (uint32_t i = 0; i < WIDTHS * EACH; i++) {
        ask_release(&visits[i].ask);
    }
    ck_assert_uint_eq(site_rows(&site), 0);
    ck_assert_uint_eq(site_reserved(&site), 0);
    site_close(&site);
}
END_TEST

/* Beams that are cancelled on the way give back the rows of all their lanes. */
START_TEST(test_beams_that_are_cancelled)
{
    static struct visit visits[WIDTHS * EACH];
    struct base_random random = util_random(12);
    open_site(1, 64);
    for (uint32_t i = 0; i < WIDTHS * EACH; i++) {
        begin(&visits[i], 1 + i % WIDTHS, &random);
        visit_start(&site, &visits[i]);
        if (i % 3 == 0) {
            visit_cancel(&visits[i], BASE_CANCELLED);
        }
    }
    for (uint32_t i = 0; i < WIDTHS * EACH; i++) {
        visit_wait(&visits[i]);
        const struct base_error *error = &visits[i].ask.request.error;
        ck_assert_msg(error->status == BASE_OK || (i % 3 == 0 && error->status == BASE_CANCELLED),
                      "%s", error->message);
        ask_release(&visits[i].ask);
    }
    ck_assert_uint_eq(site_rows(&site), 0);
    ck_assert_uint_eq(site_reserved(&site), 0);
    site_close(&site);
}
END_TEST

START_TEST(test_a_beam_wider_than_the_models_is_refused)
{
    static struct visit visit;
    struct base_random random = util_random(14);
    open_site(1, 64);
    begin(&visit, 3, &random);
    visit.ask.request.beam = 4;
    visit_start(&site, &visit);
    visit_wait(&visit);
    ck_assert_int_eq(visit.ask.request.error.status, BASE_INVALID_ARGUMENT);
    ck_assert_str_eq(visit.ask.request.error.message,
                     "parameter 'beam' is 4; the model has at most 3");
    ask_release(&visit.ask);
    site_close(&site);
}
END_TEST

/* What the server asks itself before a model is ready has room for the most that a beam may be. */
START_TEST(test_a_wide_vocabulary_and_long_answers_become_ready)
{
    char version[UTIL_PATH_BYTES];
    random_numbers = util_random(13);
    parts_folder(folder, "wide", "unfold: seq2seq\nstart: 1\nend: none\nmax-steps: 2\nbeam: 8\n",
                 version);
    write_decoder(version, 300000);
    parts_folder(folder, "long", "unfold: seq2seq\nstart: 1\nend: 4\nmax-steps: 1048576\nbeam: 8\n",
                 version);
    write_decoder(version, IDS);
    open_site(1, 64);
    ck_assert_ptr_nonnull(site_find(&site, "wide"));
    ck_assert_ptr_nonnull(site_find(&site, "long"));
    site_close(&site);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("beam");
    TCase *tcase = tcase_create("beam");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, test_beams_find_what_a_plain_search_finds, 0, 3);
    tcase_add_test(tcase, test_beams_that_are_cancelled);
    tcase_add_test(tcase, test_a_beam_wider_than_the_models_is_refused);
    tcase_add_test(tcase, test_a_wide_vocabulary_and_long_answers_become_ready);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
