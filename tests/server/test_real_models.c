/* Models from files, through core and engine: langid (models/langid); order, a random LSTM whose
 * answer depends on the order of its steps; phased and normed, whose cells are bodies of a Scan
 * (tests/data/models). On every kind of engine each answer is PyTorch's; where the backend promises
 * it, its bits are the same on all of them, alone and in company that grows at every step. */
#include "base/log.h"
#include "server/repository.h"
#include "tests/cells/isa.h"
#include "tests/server/gate.h"
#include "tests/server/site.h"
#include "tests/util.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ERROR_MAX 1e-5

enum { CASES_MAX = 64, OUTPUTS_MAX = 3 };

/* A stored answer: the request it answers, and what came back. */
struct golden {
    const char *model;
    json_t *stored;
    uint32_t n_rows, steps;
    struct visit visit;
    uint8_t *bits[OUTPUTS_MAX]; /* of its first answer; in arena */
};

static struct site site;
static struct base_arena arena;
static struct golden goldens[CASES_MAX]; /* the longest first */
static uint32_t n_goldens;

/* Of tests/data/models; whether time stands before the batch in x. */
static const struct {
    const char *name;
    bool is_time_major;
} stored_models[] = {{"order", false}, {"phased", true}, {"normed", true}};

enum { STORED = sizeof(stored_models) / sizeof(stored_models[0]) };

static json_t *stored_files[STORED];
static double error_max = ERROR_MAX;
static double error_seen; /* the largest */

/* ---- What is stored ---- */

static int longer_first(const void *a, const void *b)
{
    return (int)((const struct golden *)b)->steps - (int)((const struct golden *)a)->steps;
}

static struct golden *golden_add(const char *model, json_t *stored)
{
    ck_assert_uint_lt(n_goldens, CASES_MAX);
    struct golden *golden = &goldens[n_goldens++];
    golden->model = model;
    golden->stored = stored;
    return golden;
}

static void read_langid(void)
{
    char path[UTIL_PATH_BYTES];
    util_repo_path(path, "models/langid/sentences.jsonl");
    FILE *file = fopen(path, "re");
    ck_assert_ptr_nonnull(file);
    json_t *line = NULL;
    while ((line = json_loadf(file, JSON_DISABLE_EOF_CHECK, NULL)) != NULL) {
        struct golden *golden = golden_add("langid", line);
        golden->n_rows = 1;
        golden->steps = (uint32_t)strlen(json_string_value(json_object_get(line, "text")));
    }
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_uint_ge(n_goldens, 40);
}

static void read_stored(size_t m)
{
    char relative[UTIL_PATH_BYTES];
    snprintf(relative, sizeof(relative), "tests/data/models/%s/golden.json", stored_models[m].name);
    stored_files[m] = util_load_json(relative);
    size_t i = 0;
    json_t *stored = NULL;
    json_array_foreach(json_object_get(stored_files[m], "cases"), i, stored)
    {
        struct golden *golden = golden_add(stored_models[m].name, json_incref(stored));
        const json_t *shape =
            json_object_get(json_object_get(json_object_get(stored, "inputs"), "x"), "shape");
        size_t time = stored_models[m].is_time_major ? 0 : 1;
        golden->n_rows = (uint32_t)json_integer_value(json_array_get(shape, 1 - time));
        golden->steps = (uint32_t)json_integer_value(json_array_get(shape, time));
    }
}

static void setup(void)
{
    n_goldens = 0;
    memset(goldens, 0, sizeof(goldens));
    base_arena_init(&arena, 1 << 16, 1 << 24);
    read_langid();
    for (size_t m = 0; m < STORED; m++) {
        read_stored(m);
    }
    qsort(goldens, n_goldens, sizeof(goldens[0]), longer_first);
}

static void teardown(void)
{
    for (uint32_t i = 0; i < n_goldens; i++) {
        json_decref(goldens[i].stored);
    }
    for (size_t m = 0; m < STORED; m++) {
        json_decref(stored_files[m]);
    }
    base_arena_release(&arena);
}

/* ---- Asking ---- */

static float *floats(struct ask *ask, size_t n)
{
    float *made = base_arena_array(&ask->request.arena, n, sizeof(*made));
    ck_assert_ptr_nonnull(made);
    return made;
}

static void fill_text(struct golden *golden)
{
    const char *text = json_string_value(json_object_get(golden->stored, "text"));
    int64_t *tokens =
        base_arena_array(&golden->visit.ask.request.arena, golden->steps, sizeof(*tokens));
    ck_assert_ptr_nonnull(tokens);
    for (uint32_t i = 0; i < golden->steps; i++) {
        tokens[i] = (unsigned char)text[i];
    }
    ask_input(&golden->visit.ask, "tokens")->data = (const uint8_t *)tokens;
}

static void fill_floats(struct golden *golden)
{
    struct ask *ask = &golden->visit.ask;
    for (uint32_t i = 0; i < ask->request.n_inputs; i++) {
        struct srv_tensor *input = &ask->request.inputs[i];
        const json_t *stored =
            json_object_get(json_object_get(golden->stored, "inputs"), input->name);
        const json_t *data = json_object_get(stored, "data");
        float *made = floats(ask, json_array_size(data));
        ck_assert_uint_eq(input->bytes, json_array_size(data) * sizeof(float));
        for (size_t e = 0; e < json_array_size(data); e++) {
            made[e] = (float)json_number_value(json_array_get(data, e));
        }
        input->data = (const uint8_t *)made;
    }
}

/* The stored request, not yet started. */
static void golden_ask(struct golden *golden)
{
    const struct srv_model *model = NULL;
    struct base_error error;
    struct base_random random = util_random(1);
    ck_assert_int_eq(srv_core_find_model(site.core, golden->model, "", &model, &error), BASE_OK);
    memset(&golden->visit, 0, sizeof(golden->visit));
    ask_init(&golden->visit.ask, site_find(&site, golden->model), golden->n_rows, golden->steps,
             &random, ASK_OPTIONAL);
    golden->visit.ask.request.model_name = golden->model;
    if (strcmp(golden->model, "langid") == 0) {
        fill_text(golden);
    } else {
        fill_floats(golden);
    }
}

/* Largest difference of an output from what PyTorch computed. */
static double output_error(const struct golden *golden, const struct srv_tensor *output)
{
    const json_t *data =
        strcmp(golden->model, "langid") == 0
            ? json_object_get(golden->stored, output->name)
            : json_object_get(
                  json_object_get(json_object_get(golden->stored, "outputs"), output->name),
                  "data");
    double worst = 0;
    ck_assert_uint_eq(output->bytes, json_array_size(data) * sizeof(float));
    for (size_t e = 0; e < json_array_size(data); e++) {
        float got = 0;
        memcpy(&got, output->data + e * sizeof(got), sizeof(got));
        double off = fabs((double)got - json_number_value(json_array_get(data, e)));
        worst = off <= worst ? worst : off; // a NaN is the worst
    }
    return worst;
}

/* Checks the answer against PyTorch's, and its bits against the first answer's when same_bits. */
static void golden_check(struct golden *golden, bool same_bits)
{
    visit_wait(&golden->visit);
    const struct srv_request *request = &golden->visit.ask.request;
    ck_assert_msg(request->error.status == BASE_OK, "%s", request->error.message);
    ck_assert_uint_le(request->n_outputs, OUTPUTS_MAX);
    for (uint32_t o = 0; o < request->n_outputs; o++) {
        const struct srv_tensor *output = &request->outputs[o];
        double off = output_error(golden, output);
        ck_assert_double_le(off, error_max);
        error_seen = off > error_seen ? off : error_seen;
        if (golden->bits[o] == NULL) {
            golden->bits[o] = base_arena_alloc(&arena, output->bytes);
            ck_assert_ptr_nonnull(golden->bits[o]);
            memcpy(golden->bits[o], output->data, output->bytes);
        }
        ck_assert(!same_bits || memcmp(golden->bits[o], output->data, output->bytes) == 0);
    }
    ask_release(&golden->visit.ask);
}

/* ---- Engines ---- */

struct kind {
    const char *backend, *isa; /* gate: cpu, held still at will */
    uint32_t threads;
    bool same_bits;
};

static const struct kind kinds[] = {
    {"gate", "scalar", 1, true}, {"gate", "auto", 1, true}, {"gate", "auto", 2, true},
    {"gate", "avx2", 1, true},   {"cpu", "auto", 2, true},  {"blas", "auto", 1, false},
};

enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static bool is_here(const struct kind *kind)
{
    return strcmp(kind->isa, "avx2") != 0 || isa_named(kind->isa) != NULL;
}

static void open_site_of(const struct kind *kind, const char *first, const char *second)
{
    struct site_options options;
    site_options_init(&options);
    options.repositories[0] = first;
    options.repositories[1] = second;
    bool is_gate = strcmp(kind->backend, "gate") == 0;
    options.engine.backend = is_gate ? &gate_backend : cell_backend_find(kind->backend);
    options.gated = is_gate;
    options.engine.isa = kind->isa;
    options.engine.team_threads = kind->threads;
    options.engine.run_steps_max = is_gate ? 1 : 0;
    options.core.sequence_length_max = 512;
    site_open(&site, &options);
}

static void open_site(const struct kind *kind)
{
    open_site_of(kind, "models", "tests/data/models");
}

static bool has_passed(void *argument)
{
    return gate_passed() >= *(const uint64_t *)argument;
}

/* Every request comes one step after the one before; the first is longer than there are others. */
static void start_one_a_step(void)
{
    gate_close();
    uint64_t passed = gate_passed();
    for (uint32_t i = 0; i < n_goldens; i++) {
        golden_ask(&goldens[i]);
        visit_start(&site, &goldens[i].visit);
        (void)site_counters(&site); // it has been admitted
        gate_let(1);
        passed++;
        ck_assert(site_until(has_passed, &passed));
    }
    gate_open();
}

static void start_all(void)
{
    for (uint32_t i = 0; i < n_goldens; i++) {
        golden_ask(&goldens[i]);
        visit_start(&site, &goldens[i].visit);
    }
}

/* Rows in a batch, on average over all that ran. */
static double company(void)
{
    uint64_t batches = 0;
    uint64_t rows = 0;
    for (uint32_t t = 0; t < cell_registry_types(srv_engine_registry(site.engine)); t++) {
        const struct sched_type_stats *stats =
            sched_type_stats(srv_engine_scheduler(site.engine, 0), t);
        batches += atomic_load(&stats->batches);
        rows += atomic_load(&stats->rows_sum);
    }
    return (double)rows / (double)batches;
}

static void ask_alone(const struct kind *kind)
{
    for (uint32_t i = 0; i < n_goldens; i++) {
        golden_ask(&goldens[i]);
        visit_start(&site, &goldens[i].visit);
        golden_check(&goldens[i], kind->same_bits);
    }
}

static void ask_together(const struct kind *kind)
{
    bool is_gate = strcmp(kind->backend, "gate") == 0;
    if (is_gate) {
        start_one_a_step();
    } else {
        start_all();
    }
    for (uint32_t i = 0; i < n_goldens; i++) {
        golden_check(&goldens[i], kind->same_bits);
    }
    if (is_gate) {
        ck_assert_double_gt(company(), 1.5); // half of the batches were of requests alone
    }
}

/* ---- Weights in fewer bits ---- */

/* The models of this tree, with a config.yaml each. */
static void make_repository(const char *config, char root[UTIL_PATH_BYTES])
{
    static const char *const versions[] = {"models/langid/1", "tests/data/models/order/1",
                                           "tests/data/models/phased/1",
                                           "tests/data/models/normed/1"};
    static const char *const names[] = {"langid", "order", "phased", "normed"};
    util_temp_dir(root);
    for (uint32_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char target[UTIL_PATH_BYTES];
        char path[UTIL_PATH_BYTES + 64];
        snprintf(path, sizeof(path), "%s/%s/config.yaml", root, names[i]);
        util_write_file(path, config);
        util_repo_path(target, versions[i]);
        snprintf(path, sizeof(path), "%s/%s/1", root, names[i]);
        ck_assert_int_eq(symlink(target, path), 0);
    }
}

/* What langid holds for the likelier. */
static const char *label_of(const struct golden *golden)
{
    float got[2];
    memcpy(got, golden->bits[0], sizeof(got));
    return got[0] > got[1] ? "English" : "German";
}

static void check_labels(void)
{
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < n_goldens; i++) {
        const char *want = json_string_value(json_object_get(goldens[i].stored, "label"));
        wrong += want != NULL && strcmp(label_of(&goldens[i]), want) != 0;
    }
    ck_assert_uint_eq(wrong, 0);
}

struct held {
    const char *config;
    const char *about; /* what a library refuses first, and in which cell */
    const char *cell;
    double error_max; /* of a probability, and of a random LSTM's outputs */
};

/* Four times what was measured: docs/kernels.md. */
static const struct held held[] = {
    {"weights: bf16\n", "weights: bf16", "lstm", 0.0068},
    {"weights: int8\n", "weights: int8", "lstm", 0.027},
    {"linear-weights: bf16\n", "linear-weights: bf16", "once", 0.0042},
    {"linear-weights: int8\n", "linear-weights: int8", "once", 0.016},
    {"weights: int8\nlinear-weights: int8\n", "weights: int8", "lstm", 0.027},
};
enum { HELD = sizeof(held) / sizeof(held[0]) };

/* ---- Cases ---- */

START_TEST(test_weights_in_fewer_bits_give_close_answers_on_every_engine)
{
    char root[UTIL_PATH_BYTES];
    make_repository(held[_i].config, root);
    error_max = held[_i].error_max;
    for (uint32_t k = 0; k < KINDS; k++) {
        if (kinds[k].same_bits && strcmp(kinds[k].isa, "avx2") != 0) {
            open_site_of(&kinds[k], root, NULL);
            ask_alone(&kinds[k]); // bits: against the first engine's
            ask_together(&kinds[k]);
            site_close(&site);
        }
    }
    check_labels();
    printf("%slargest difference %.3g\n", held[_i].config, error_seen);
    util_remove_tree(root);
}
END_TEST

/* A library multiplies floats: it says so, and does not answer otherwise than it was told. */
START_TEST(test_blas_refuses_weights_in_fewer_bits)
{
    char root[UTIL_PATH_BYTES];
    struct base_error error = {BASE_OK, ""};
    struct srv_loop loop;
    struct srv_engine *engine = NULL;
    struct srv_core *core = NULL;
    struct srv_engine_options options;
    const struct srv_core_options core_options = {.sequence_length_max = 64};
    make_repository(held[_i].config, root);
    srv_engine_options_init(&options);
    options.backend = cell_backend_find("blas");
    options.rows = 16;
    ck_assert_int_eq(srv_loop_init(&loop), BASE_OK);
    ck_assert_int_eq(srv_engine_create(&options, &engine, &error), BASE_OK);
    ck_assert_int_eq(srv_core_create(&loop, engine, &core_options, &core), BASE_OK);
    const struct srv_repository_options repository = {.path = root, .exit_on_error = true};
    ck_assert_int_eq(srv_repository_load(&repository, core, engine, &error), BASE_UNIMPLEMENTED);
    char want[128];
    snprintf(want, sizeof(want), "/langid/1/model.onnx: cell type langid/%s: %s in the model's ",
             held[_i].cell, held[_i].about);
    ck_assert_msg(strstr(error.message, want) != NULL, "%s", error.message);
    srv_core_close(core);
    srv_loop_stop(&loop);
    srv_loop_run(&loop);
    srv_loop_release(&loop);
    srv_core_free(core);
    srv_engine_free(engine);
    util_remove_tree(root);
}
END_TEST

START_TEST(test_answers_are_pytorchs_alone_and_in_company)
{
    if (!is_here(&kinds[_i])) {
        return; // marked as skipped
    }
    open_site(&kinds[_i]);
    ask_alone(&kinds[_i]);
    ask_together(&kinds[_i]);
    site_close(&site);
}
END_TEST

START_TEST(test_answers_have_the_same_bits_on_every_engine)
{
    for (uint32_t k = 0; k < KINDS; k++) {
        // One instruction set by name may not be here, and "auto" is the best that is.
        if (kinds[k].same_bits && strcmp(kinds[k].isa, "avx2") != 0) {
            open_site(&kinds[k]);
            ask_together(&kinds[k]); // bits: against the first engine's
            site_close(&site);
        }
    }
}
END_TEST

START_TEST(test_another_order_of_the_steps_is_another_answer)
{
    if (!is_here(&kinds[_i])) {
        return;
    }
    open_site(&kinds[_i]);
    uint32_t tried = 0;
    for (uint32_t i = 0; i < n_goldens; i++) {
        struct golden *golden = &goldens[i];
        if (strcmp(golden->model, "order") != 0 || golden->steps < 2) {
            continue;
        }
        golden_ask(golden);
        struct srv_tensor *x = ask_input(&golden->visit.ask, "x");
        float *turned = floats(&golden->visit.ask, x->bytes / sizeof(float));
        const size_t step_bytes = (size_t)x->shape[2] * sizeof(float);
        memcpy(turned, x->data, x->bytes);
        memcpy(turned, x->data + step_bytes, step_bytes); // the first two steps change places
        memcpy((uint8_t *)turned + step_bytes, x->data, step_bytes);
        x->data = (const uint8_t *)turned;
        visit_start(&site, &golden->visit);
        visit_wait(&golden->visit);
        ck_assert_double_gt(output_error(golden, ask_output(&golden->visit.ask, "y")), 0.05);
        ask_release(&golden->visit.ask);
        tried++;
    }
    ck_assert_uint_ge(tried, 4);
    site_close(&site);
}
END_TEST

int main(void)
{
    base_log_configure(BASE_LOG_ERROR, BASE_LOG_TEXT);
    Suite *suite = suite_create("real_models");
    TCase *tcase = tcase_create("real_models");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, test_answers_are_pytorchs_alone_and_in_company, 0, KINDS);
    tcase_add_test(tcase, test_answers_have_the_same_bits_on_every_engine);
    tcase_add_loop_test(tcase, test_another_order_of_the_steps_is_another_answer, 0, KINDS);
    tcase_add_loop_test(tcase, test_weights_in_fewer_bits_give_close_answers_on_every_engine, 0,
                        HELD);
    tcase_add_loop_test(tcase, test_blas_refuses_weights_in_fewer_bits, 0, HELD);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
