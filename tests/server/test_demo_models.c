/* The demo models that answer text: dates and listops (models/). Every stored example, all of both
 * models in one run: the answer is PyTorch's, and each has the same bits when it is asked alone. */
#include "tests/server/site.h"
#include "tests/util.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define ERROR_MAX 1e-5

enum { EXAMPLES_MAX = 600 };

/* A stored question. */
struct example {
    const char *model, *input;
    json_t *stored;
    struct visit visit;
};

static struct site site;
static struct example examples[EXAMPLES_MAX];
static uint32_t n_examples;

static void read_examples(const char *model, const char *input, uint32_t n_wanted)
{
    char path[UTIL_PATH_BYTES];
    char relative[64];
    snprintf(relative, sizeof(relative), "models/%s/examples.jsonl", model);
    util_repo_path(path, relative);
    FILE *file = fopen(path, "re");
    ck_assert_ptr_nonnull(file);
    json_t *line = NULL;
    const uint32_t before = n_examples;
    while ((line = json_loadf(file, JSON_DISABLE_EOF_CHECK, NULL)) != NULL) {
        ck_assert_uint_lt(n_examples, EXAMPLES_MAX);
        examples[n_examples++] = (struct example){.model = model, .input = input, .stored = line};
    }
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_uint_eq(n_examples - before, n_wanted);
}

static void setup(void)
{
    n_examples = 0;
    read_examples("dates", "text", 300);
    read_examples("listops", "word", 200);
}

static void teardown(void)
{
    for (uint32_t i = 0; i < n_examples; i++) {
        json_decref(examples[i].stored);
    }
}

static const char *text_of(const json_t *stored, const char *key)
{
    const char *text = json_string_value(json_object_get(stored, key));
    ck_assert_ptr_nonnull(text);
    return text;
}

static void start(const struct example *example, struct visit *visit)
{
    struct base_random random = util_random(1);
    const char *text = text_of(example->stored, "text");
    const size_t length = strlen(text);
    memset(visit, 0, sizeof(*visit));
    ask_init(&visit->ask, site_find(&site, example->model), 1, 1, &random, ASK_PLAIN);
    struct srv_request *request = &visit->ask.request;
    uint8_t *data = base_arena_alloc(&request->arena, sizeof(uint32_t) + length);
    ck_assert_ptr_nonnull(data);
    request->model_name = example->model;
    request->n_inputs = 1;
    request->inputs[0] = (struct srv_tensor){.name = example->input,
                                             .datatype = SRV_BYTES,
                                             .rank = 1,
                                             .shape = {1},
                                             .data = data,
                                             .bytes = ask_put_text(data, text, length)};
    visit_start(&site, visit);
}

static void wait(struct visit *visit)
{
    visit_wait(visit);
    ck_assert_msg(visit->ask.request.error.status == BASE_OK, "%s",
                  visit->ask.request.error.message);
}

static void assert_text(const struct visit *visit, const char *output, const char *wanted)
{
    const struct srv_tensor *got = ask_output(&visit->ask, output);
    const size_t prefix = sizeof(uint32_t);
    ck_assert_ptr_nonnull(got);
    ck_assert_msg(got->bytes == prefix + strlen(wanted) &&
                      memcmp(got->data + prefix, wanted, strlen(wanted)) == 0,
                  "\"%.*s\", wanted \"%s\"", (int)(got->bytes - prefix),
                  (const char *)got->data + prefix, wanted);
}

/* PyTorch's probabilities, and the digit that is the likeliest. */
static void assert_scores(const struct visit *visit, const json_t *wanted)
{
    const struct srv_tensor *got = ask_output(&visit->ask, "scores");
    size_t best = 0;
    ck_assert_uint_eq(got->bytes, json_array_size(wanted) * sizeof(float));
    for (size_t i = 0; i < json_array_size(wanted); i++) {
        const double want = json_number_value(json_array_get(wanted, i));
        float value = 0;
        memcpy(&value, got->data + i * sizeof(value), sizeof(value));
        ck_assert_msg(fabs((double)value - want) <= ERROR_MAX, "%g, wanted %g", (double)value,
                      want);
        best = want > json_number_value(json_array_get(wanted, best)) ? i : best;
    }
    const char digit[] = {"0123456789"[best], '\0'};
    assert_text(visit, "value", digit);
}

static void check(const struct example *example)
{
    if (strcmp(example->model, "dates") == 0) {
        assert_text(&example->visit, "token", text_of(example->stored, "answer"));
    } else {
        assert_scores(&example->visit, json_object_get(example->stored, "scores"));
    }
}

static void check_alone(const struct example *example)
{
    struct visit alone;
    start(example, &alone);
    wait(&alone);
    const struct srv_request *first = &example->visit.ask.request;
    ck_assert_uint_eq(alone.ask.request.n_outputs, first->n_outputs);
    for (uint32_t o = 0; o < first->n_outputs; o++) {
        ck_assert_uint_eq(alone.ask.request.outputs[o].bytes, first->outputs[o].bytes);
        ck_assert_mem_eq(alone.ask.request.outputs[o].data, first->outputs[o].data,
                         first->outputs[o].bytes);
    }
    ask_release(&alone.ask);
}

/* _i + 1 threads. */
START_TEST(test_every_example_is_answered_as_pytorch_does)
{
    struct site_options options;
    site_options_init(&options);
    options.repositories[0] = "models";
    options.engine.backend = cell_backend_find("cpu");
    options.engine.team_threads = (uint32_t)_i + 1;
    options.engine.rows = 4096;
    options.core.sequence_length_max = 512;
    options.core.queue_max = EXAMPLES_MAX;
    site_open(&site, &options);
    for (uint32_t i = 0; i < n_examples; i++) {
        start(&examples[i], &examples[i].visit);
    }
    for (uint32_t i = 0; i < n_examples; i++) {
        wait(&examples[i].visit);
        check(&examples[i]);
    }
    for (uint32_t i = 0; i < n_examples; i++) {
        check_alone(&examples[i]);
        ask_release(&examples[i].visit.ask);
    }
    ck_assert_uint_eq(site_rows(&site), 0);
    site_close(&site);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("demo_models");
    TCase *tcase = tcase_create("demo_models");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, test_every_example_is_answered_as_pytorch_does, 0, 2);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
