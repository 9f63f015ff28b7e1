/* Models that read several sequences, or at each step those around it, also of pictures, or answer
 * the best of a row, or make more steps than they read, or join steps, as PyTorch exports them
 * (tests/data/onnx/reader_*, conv_*, picture_*, transposed_*, joined_*, head_topk*), served: at
 * once, each sequence of any length, on every kind of engine. Each answer is compared with the
 * cells evaluated step by step in double precision, and has the bits that it has alone. Requests
 * whose sequences do not fit are refused by name. */
#include "base/mem.h"
#include "tests/server/gate.h"
#include "tests/server/site.h"
#include "tests/util.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXPORTS   "tests/data/onnx"
#define SUFFIX    "-ts1.13-op17"
#define TOLERANCE 1e-5

enum { MODELS_MAX = 128, TOGETHER = 120, STEPS_MAX = 25, MANY_STEPS = 4000 };

static char root[UTIL_PATH_BYTES];
static struct site site;
static char names[MODELS_MAX][64];
static uint32_t n_models;

/* A folder's model: `reader_both`, `conv_deep`; of an exporter other than the usual one the
 * folder's own name. */
static void name_model(const char *entry, char name[64])
{
    const size_t length = strlen(entry);
    const size_t suffix = strlen(SUFFIX);
    const bool is_usual = length > suffix && strcmp(entry + length - suffix, SUFFIX) == 0;
    (void)snprintf(name, 64, "%.*s", (int)(is_usual ? length - suffix : length), entry);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* A repository of the exports. */
static void make_repository(void)
{
    char path[UTIL_PATH_BYTES];
    util_temp_dir(root);
    util_repo_path(path, EXPORTS);
    DIR *dir = opendir(path);
    ck_assert_ptr_nonnull(dir);
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        char target[UTIL_PATH_BYTES];
        char link[UTIL_PATH_BYTES];
        if (strncmp(entry->d_name, "reader_", 7) != 0 && strncmp(entry->d_name, "conv_", 5) != 0 &&
            strncmp(entry->d_name, "picture_", 8) != 0 &&
            strncmp(entry->d_name, "transposed_", 11) != 0 &&
            strncmp(entry->d_name, "joined_", 7) != 0 &&
            strncmp(entry->d_name, "head_topk", 9) != 0) {
            continue;
        }
        ck_assert_uint_lt(n_models, MODELS_MAX);
        char *name = names[n_models++];
        name_model(entry->d_name, name);
        snprintf(target, sizeof(target), "%.900s/%.100s", path, entry->d_name);
        snprintf(link, sizeof(link), "%.900s/%.60s", root, name);
        ck_assert_int_eq(mkdir(link, 0755), 0);
        snprintf(link, sizeof(link), "%.900s/%.60s/1", root, name);
        ck_assert_int_eq(symlink(target, link), 0);
    }
    closedir(dir);
    ck_assert_uint_ge(n_models, 60);
    qsort(names, n_models, sizeof(names[0]), compare_names); // the same requests everywhere
}

static const struct kind {
    const char *backend, *isa;
    uint32_t threads;
} kinds[] = {{"gate", "scalar", 1}, {"gate", "auto", 2}, {"cpu", "auto", 1}, {"cpu", "auto", 2}};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static void open_long(const struct kind *kind, uint32_t steps_max)
{
    struct site_options options;
    const bool is_gate = strcmp(kind->backend, "gate") == 0;
    site_options_init(&options);
    options.repositories[0] = root;
    options.engine.backend = is_gate ? &gate_backend : cell_backend_find(kind->backend);
    options.engine.isa = kind->isa;
    options.engine.team_threads = kind->threads;
    options.engine.run_steps_max = is_gate ? 1 : 0;
    options.engine.rows = 4096;
    options.core.queue_max = TOGETHER;
    options.core.sequence_length_max = steps_max;
    site_open(&site, &options);
}

static void open_site(const struct kind *kind)
{
    open_long(kind, 64);
}

static void setup(void)
{
    make_repository();
}

static void teardown(void)
{
    util_remove_tree(root);
    n_models = 0;
}

/* Whether the fewest steps divide all others that may be. */
static bool are_stacked(const struct cell_model *model)
{
    bool are = false;
    for (uint32_t s = 0; s < model->n_sequences; s++) {
        are |= model->sequences[s].multiple > 0;
    }
    return are;
}

static void begin(struct visit *visit, const char *model, uint32_t n_rows,
                  struct base_random *random)
{
    uint32_t steps[CELL_SEQUENCES_MAX];
    for (uint32_t s = 0; s < CELL_SEQUENCES_MAX; s++) {
        steps[s] = 1 + base_random_below(random, STEPS_MAX);
    }
    uint32_t least[CELL_SEQUENCES_MAX]; // what convolutions need
    cell_model_steps_min(site_find(&site, model), least);
    if (strncmp(model, "conv_standardised", 17) == 0) { // has no deviation of one step
        least[0] = 2;
    }
    for (uint32_t s = 0; s < CELL_SEQUENCES_MAX; s++) {
        steps[s] += least[s] - 1;
        steps[s] -= are_stacked(site_find(&site, model)) ? steps[s] % least[s] : 0;
    }
    memset(visit, 0, sizeof(*visit));
    ask_init_sequences(&visit->ask, site_find(&site, model), n_rows, steps, random, ASK_OPTIONAL);
    visit->ask.request.model_name = model;
}

static void expect_ok(struct visit *visit)
{
    visit_wait(visit);
    ck_assert_msg(visit->ask.request.error.status == BASE_OK, "%s: %s",
                  visit->ask.request.model_name, visit->ask.request.error.message);
}

static void expect_same_alone(const struct visit *first)
{
    static struct visit again;
    const struct srv_request *a = &first->ask.request;
    const struct srv_request *b = &again.ask.request;
    memset(&again, 0, sizeof(again));
    again.ask = first->ask;
    base_arena_init(&again.ask.request.arena, 4096, (size_t)64 << 20);
    again.ask.request.n_outputs = 0;
    visit_start(&site, &again);
    expect_ok(&again);
    ck_assert_uint_eq(a->n_outputs, b->n_outputs);
    for (uint32_t o = 0; o < a->n_outputs; o++) {
        ck_assert_uint_eq(a->outputs[o].bytes, b->outputs[o].bytes);
        ck_assert_mem_eq(a->outputs[o].data, b->outputs[o].data, b->outputs[o].bytes);
    }
    ask_release(&again.ask);
}

START_TEST(test_readers_in_company_and_alone)
{
    static struct visit visits[TOGETHER];
    struct base_random random = util_random(3);
    open_site(&kinds[_i]);
    for (uint32_t i = 0; i < TOGETHER; i++) {
        begin(&visits[i], names[i % n_models], 1 + base_random_below(&random, 4), &random);
        visit_start(&site, &visits[i]);
    }
    for (uint32_t i = 0; i < TOGETHER; i++) {
        expect_ok(&visits[i]);
        const double error = ask_error(&visits[i].ask);
        ck_assert_msg(error <= TOLERANCE, "%s: %g", visits[i].ask.request.model_name, error);
        expect_same_alone(&visits[i]);
    }
    for (uint32_t i = 0; i < TOGETHER; i++) {
        ask_release(&visits[i].ask);
    }
    ck_assert_uint_eq(site_rows(&site), 0);
    ck_assert_uint_eq(site_reserved(&site), 0);
    site_close(&site);
}
END_TEST

/* A query of which there is one costs one chain, however many documents are compared with it. */
START_TEST(test_a_shared_query_is_read_once)
{
    static struct visit visit;
    struct base_random random = util_random(4);
    open_site(&kinds[0]);
    const struct cell_model *cells = site_find(&site, "reader_similarity");
    uint32_t shared = 0;
    for (uint32_t s = 0; s < cells->n_stages; s++) {
        shared += cells->stages[s].is_shared ? 1 : 0;
    }
    ck_assert_uint_eq(shared, 3); // both directions and what is made of them
    begin(&visit, "reader_similarity", 40, &random);
    visit_start(&site, &visit);
    expect_ok(&visit);
    ck_assert_double_le(ask_error(&visit.ask), TOLERANCE);
    ask_release(&visit.ask);
    site_close(&site);
}
END_TEST

/* What is summed over the steps is no less precise over many of them, far from zero. */
START_TEST(test_many_steps_are_normalised_as_precisely_as_few)
{
    static struct visit visit;
    struct base_random random = util_random(6);
    open_long(&kinds[2], MANY_STEPS);
    memset(&visit, 0, sizeof(visit));
    ask_init(&visit.ask, site_find(&site, "conv_instance_normed"), 2, MANY_STEPS, &random,
             ASK_PLAIN);
    visit.ask.request.model_name = "conv_instance_normed";
    struct srv_tensor *x = ask_input(&visit.ask, "x");
    float *data = base_arena_alloc(&visit.ask.request.arena, x->bytes);
    ck_assert_ptr_nonnull(data);
    memcpy(data, x->data, x->bytes);
    for (size_t i = 0; i < x->bytes / sizeof(float); i++) {
        data[i] += 100.0f;
    }
    x->data = (const uint8_t *)data;
    visit_start(&site, &visit);
    expect_ok(&visit);
    ck_assert_double_le(ask_error(&visit.ask), TOLERANCE);
    ask_release(&visit.ask);
    site_close(&site);
}
END_TEST

static void refuse(const char *model, void (*spoil)(struct ask *ask), const char *why)
{
    static struct visit visit;
    struct base_random random = util_random(5);
    begin(&visit, model, 3, &random);
    spoil(&visit.ask);
    visit_start(&site, &visit);
    visit_wait(&visit);
    const struct base_error *error = &visit.ask.request.error;
    ck_assert_msg(error->status == BASE_INVALID_ARGUMENT && strstr(error->message, why) != NULL,
                  "%s: %s", base_status_name(error->status), error->message);
    ask_release(&visit.ask);
}

static void no_steps(struct ask *ask)
{
    ask_input(ask, "text")->shape[1] = 0;
    ask_input(ask, "text")->bytes = 0;
}

static void other_batch(struct ask *ask)
{
    struct srv_tensor *text = ask_input(ask, "text");
    text->bytes = text->bytes / 3 * 2;
    text->shape[0] = 2;
}

static void too_long(struct ask *ask)
{
    struct srv_tensor *text = ask_input(ask, "text");
    const size_t row = text->bytes / (size_t)text->shape[1];
    text->shape[1] = 65;
    text->bytes = 65 * row;
    text->data = base_arena_alloc(&ask->request.arena, text->bytes);
    ck_assert_ptr_nonnull(text->data);
}

static void two_queries(struct ask *ask)
{
    ask_input(ask, "question")->shape[0] = 2;
}

static void length_of_the_other(struct ask *ask)
{
    struct srv_tensor *asked = ask_input(ask, "asked");
    int64_t *lengths = base_arena_array(&ask->request.arena, 3, sizeof(*lengths));
    ck_assert_ptr_nonnull(lengths);
    for (uint32_t i = 0; i < 3; i++) {
        lengths[i] = ask->steps[0] + 1;
    }
    asked->data = (const uint8_t *)lengths;
}

/* Two rows of so many steps: answered, or refused with this message. */
static void ask_steps(const char *model, uint32_t steps, const char *why)
{
    struct visit visit = {0};
    struct base_random random = util_random(steps);
    ask_init(&visit.ask, site_find(&site, model), 2, steps, &random, ASK_PLAIN);
    visit.ask.request.model_name = model;
    visit_start(&site, &visit);
    if (why == NULL) {
        expect_ok(&visit);
        ck_assert_double_le(ask_error(&visit.ask), TOLERANCE);
    } else {
        visit_wait(&visit);
        ck_assert_int_eq(visit.ask.request.error.status, BASE_INVALID_ARGUMENT);
        ck_assert_str_eq(visit.ask.request.error.message, why);
    }
    ask_release(&visit.ask);
}

/* Windows of 3 steps, and of 5 behind them: 7 make one. */
START_TEST(test_what_convolutions_leave_nothing_of_is_refused)
{
    open_site(&kinds[2]);
    for (uint32_t given = 1; given <= 8; given++) {
        char message[128];
        (void)snprintf(message, sizeof(message),
                       "input 'x': a sequence of %u steps, of which the model's strides and "
                       "windows leave none, expected at least 7",
                       given);
        ask_steps("conv_unpadded", given, given < 7 ? message : NULL);
    }
    site_close(&site);
}
END_TEST

/* The third from either end, and others that are as many in every request. */
START_TEST(test_steps_that_are_not_there_are_refused)
{
    open_site(&kinds[2]);
    for (uint32_t given = 1; given <= 6; given++) {
        char message[128];
        (void)snprintf(
            message, sizeof(message),
            "input 'x': a sequence of %u steps, of which the model%s, expected at least 5", given,
            given < 3 ? " takes some by their number" : "'s strides and windows leave none");
        ask_steps("conv_taken", given, given < 5 ? message : NULL);
    }
    site_close(&site);
}
END_TEST

/* What is reflected lies inside of the ends. */
START_TEST(test_steps_that_reflections_lack_are_refused)
{
    open_site(&kinds[2]);
    for (uint32_t given = 1; given <= 5; given++) {
        char message[128];
        (void)snprintf(message, sizeof(message),
                       "input 'x': a sequence of %u steps, of which the model takes some by their "
                       "number, expected at least 4",
                       given);
        ask_steps("joined_reflected", given, given < 4 ? message : NULL);
    }
    for (uint32_t given = 4; given <= 8; given++) { // two samples each side; of three frames two
        char message[128];
        (void)snprintf(message, sizeof(message),
                       "input 'x': a sequence of %u steps, of which the model's strides and "
                       "windows leave none, expected at least 6",
                       given);
        ask_steps("joined_spectrum", given, given < 6 ? message : NULL);
    }
    for (uint32_t given = 1; given <= 3; given++) { // all but the last one, which may be none
        ask_steps("joined_shifted", given, NULL);
    }
    site_close(&site);
}
END_TEST

/* Pairs of pairs of steps. */
START_TEST(test_steps_that_stacking_leaves_over_are_refused)
{
    open_site(&kinds[2]);
    for (uint32_t given = 4; given <= 12; given++) {
        char message[160];
        (void)snprintf(message, sizeof(message),
                       "input 'x': a sequence of %u steps, which the model does not part evenly, "
                       "expected a multiple of %u",
                       given, given % 2 == 0 ? 4 : 2);
        ask_steps("conv_pyramid", given, given % 4 == 0 ? NULL : message);
    }
    site_close(&site);
}
END_TEST

/* A table of 40 positions, and one of 30 behind a stride of 2, which 60 steps would need. */
START_TEST(test_more_steps_than_positions_are_refused)
{
    open_site(&kinds[2]);
    for (uint32_t given = 39; given <= 42; given++) {
        char message[128];
        (void)snprintf(message, sizeof(message),
                       "input 'x': %u steps, where the model has a table of positions of 40",
                       given);
        ask_steps("conv_positioned", given, given <= 40 ? NULL : message);
    }
    site_close(&site);
}
END_TEST

START_TEST(test_sequences_that_do_not_fit_are_refused)
{
    open_site(&kinds[0]);
    refuse("reader_both", no_steps, "input 'text': an empty sequence");
    refuse("reader_both", other_batch, "on its batch axis");
    refuse("reader_both", too_long, "input 'text': a sequence of 65 steps, expected 1..64");
    refuse("reader_similarity", two_queries, "input 'question': shape [2,");
    refuse("reader_lengths", length_of_the_other, "input 'asked': length");
    site_close(&site);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("readers");
    TCase *tests = tcase_create("readers");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, test_readers_in_company_and_alone, 0, KINDS);
    tcase_add_test(tests, test_a_shared_query_is_read_once);
    tcase_add_test(tests, test_many_steps_are_normalised_as_precisely_as_few);
    tcase_add_test(tests, test_what_convolutions_leave_nothing_of_is_refused);
    tcase_add_test(tests, test_steps_that_are_not_there_are_refused);
    tcase_add_test(tests, test_steps_that_reflections_lack_are_refused);
    tcase_add_test(tests, test_steps_that_stacking_leaves_over_are_refused);
    tcase_add_test(tests, test_more_steps_than_positions_are_refused);
    tcase_add_test(tests, test_sequences_that_do_not_fit_are_refused);
    suite_add_tcase(suite, tests);
    return util_run(suite);
}
