/* Models that are loaded and unloaded while the server runs: what comes and goes, what requests see
 * of it, and all that can be wrong with it. Of models of plug-ins: test_plugin. */
#include "base/mem.h"
#include "server/core_state.h"
#include "tests/server/gate.h"
#include "tests/server/shelf.h"
#include "tests/server/site.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FILE_NAME "m/1/model.onnx"

static struct site site;
static struct base_random numbers;

/* The models that the files make, apart from the server's, for requests and their answers. */
static struct cell_registry *own;

static void open_site(bool is_gated)
{
    struct site_options options;
    site_options_init(&options);
    options.gated = is_gated;
    options.engine.run_steps_max = is_gated ? 1 : 0;
    options.core.model_control = true;
    options.core.repository.path = shelf.root;
    site_open(&site, &options);
}

static void setup(void)
{
    util_temp_dir(shelf.root);
    numbers = util_random(11);
    ck_assert_int_eq(cell_registry_create(&own), BASE_OK);
    open_site(false);
}

static void teardown(void)
{
    site_close(&site);
    cell_registry_free(own);
    util_remove_tree(shelf.root);
}

static struct cell_model *read_own(const char *file)
{
    struct cell_model *model = NULL;
    struct base_error error = {.status = BASE_OK};
    ck_assert_msg(cell_model_load(own, shelf_at(file), "own", NULL, &model, &error) == BASE_OK,
                  "%s", error.message);
    return model;
}

/* The file, anew, and what it makes. */
static struct cell_model *put(const char *file, uint32_t hidden, uint64_t seed)
{
    shelf_lstm(file, hidden, seed);
    return read_own(file);
}

/* ---- What there is ---- */

static uint32_t count_types(void)
{
    uint32_t n = 0;
    for (uint32_t t = 0; t < CELL_TYPES_MAX; t++) {
        n += srv_engine_type(site.engine, t) != NULL ? 1 : 0;
    }
    return n;
}

struct look {
    const char *name, *version;
    enum base_status status;
    enum srv_model_state state;
    char reason[BASE_ERROR_BYTES];
    uint32_t n_types, n_models;
    bool is_over; /* nothing is at work, nothing retired */
};

static void read_look(struct site *of, void *argument)
{
    struct look *look = argument;
    const struct srv_model *model = NULL;
    look->status = srv_core_find_model(of->core, look->name, look->version, &model, NULL);
    look->state = model == NULL ? SRV_MODEL_UNAVAILABLE : model->state;
    snprintf(look->reason, sizeof(look->reason), "%s", model == NULL ? "" : model->reason);
    look->n_types = count_types();
    look->n_models = srv_core_models(of->core);
    look->is_over = !srv_core__has_controls(of->core) && of->core->retired == NULL;
}

static struct look look_at(const char *name, const char *version)
{
    struct look look = {.name = name, .version = version};
    site_call(&site, read_look, &look);
    return look;
}

static bool is_over(void *argument)
{
    (void)argument;
    return look_at("m", "").is_over;
}

/* Whatever was retired is gone. */
static void settle(void)
{
    ck_assert_msg(site_until(is_over, NULL), "something stays");
}

static void expect_wish(enum srv_control_kind kind, const char *name, enum base_status status,
                        const char *text)
{
    struct wish wish;
    wish_start(&site, &wish, kind, name);
    ck_assert_msg(wish_wait(&wish) == status && strstr(wish.control.error.message, text) != NULL,
                  "%s: %s", base_status_text(wish.control.error.status),
                  wish.control.error.message);
}

/* ---- Requests ---- */

static void begin(struct visit *visit, const struct cell_model *cells, uint32_t steps)
{
    memset(visit, 0, sizeof(*visit));
    ask_init(&visit->ask, cells, 1, steps, &numbers, ASK_OPTIONAL);
    visit->ask.request.model_name = "m";
    visit_start(&site, visit);
}

static void expect_served(const struct cell_model *cells)
{
    struct visit visit;
    begin(&visit, cells, 7);
    visit_expect_ok(&visit);
}

static void expect_refused(const struct cell_model *cells, enum base_status status,
                           const char *message)
{
    struct visit visit;
    begin(&visit, cells, 7);
    visit_expect(&visit, status, message);
}

/* ---- Good ones ---- */

START_TEST(test_a_model_comes_and_goes)
{
    struct cell_model *cells = put(FILE_NAME, 5, 1);
    const uint32_t n_types = look_at("m", "").n_types;
    expect_refused(cells, BASE_NOT_FOUND, "no model 'm' here");
    for (int i = 0; i < 3; i++) {
        site_load(&site, "m");
        ck_assert_int_eq(look_at("m", "1").state, SRV_MODEL_READY);
        ck_assert_uint_gt(look_at("m", "").n_types, n_types);
        expect_served(cells);
        site_unload(&site, "m");
        const struct look look = look_at("m", "1");
        ck_assert_int_eq(look.status, BASE_OK);
        ck_assert_int_eq(look.state, SRV_MODEL_UNAVAILABLE);
        ck_assert_str_eq(look.reason, "unloaded");
        expect_refused(cells, BASE_UNAVAILABLE, "model 'm' version 1 is unavailable: unloaded");
        settle();
        ck_assert_uint_eq(look_at("m", "").n_types, n_types);
    }
    site_unload(&site, "m"); // it is so already
    cell_model_free(own, cells);
}
END_TEST

/* Each answer is the old model's or the new one's, none fails, and the old is gone at last. */
START_TEST(test_a_reload_loses_no_request)
{
    enum { VISITS = 24, ROUNDS = 10 };
    static struct visit visits[VISITS];
    struct cell_model *models[2] = {put(FILE_NAME, 6, 100), NULL};
    site_load(&site, "m");
    const uint32_t n_types = look_at("m", "").n_types;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        struct wish wish;
        models[1] = put(FILE_NAME, 6, 101 + round);
        for (uint32_t i = 0; i < VISITS; i++) {
            begin(&visits[i], models[0], 1 + base_random_below(&numbers, 60));
            if (i == VISITS / 3) {
                wish_start(&site, &wish, SRV_CONTROL_LOAD, "m");
            }
        }
        ck_assert_msg(wish_wait(&wish) == BASE_OK, "%s", wish.control.error.message);
        expect_served(models[1]);
        uint32_t n_new = 0;
        for (uint32_t i = 0; i < VISITS; i++) {
            visit_wait(&visits[i]);
            ck_assert_msg(visits[i].ask.request.error.status == BASE_OK, "%s",
                          visits[i].ask.request.error.message);
            if (ask_error(&visits[i].ask) > 1e-5) {
                visits[i].ask.cells = models[1];
                ck_assert_double_le(ask_error(&visits[i].ask), 1e-5);
                n_new++;
            }
            ask_release(&visits[i].ask);
        }
        ck_assert_uint_lt(n_new, VISITS);
        cell_model_free(own, models[0]);
        models[0] = models[1];
    }
    settle();
    ck_assert_uint_eq(look_at("m", "").n_types, n_types);
    cell_model_free(own, models[0]);
}
END_TEST

START_TEST(test_versions_of_the_folder_come_and_go_together)
{
    struct cell_model *first = put(FILE_NAME, 5, 1);
    struct cell_model *second = put("m/2/model.onnx", 4, 2);
    struct cell_model *tenth = put("m/10/model.onnx", 3, 3);
    site_load(&site, "m");
    expect_served(tenth);
    struct visit visit;
    memset(&visit, 0, sizeof(visit));
    ask_init(&visit.ask, first, 1, 4, &numbers, ASK_PLAIN);
    visit.ask.request.model_name = "m";
    visit.ask.request.model_version = "1";
    visit_start(&site, &visit);
    visit_expect_ok(&visit);
    util_remove_tree(shelf_at("m/10"));
    util_remove_tree(shelf_at("m/1"));
    site_load(&site, "m");
    expect_served(second);
    ck_assert_int_eq(look_at("m", "1").status, BASE_NOT_FOUND);
    ck_assert_int_eq(look_at("m", "10").status, BASE_NOT_FOUND);
    cell_model_free(own, first);
    cell_model_free(own, second);
    cell_model_free(own, tenth);
}
END_TEST

/* A model that somebody else was loaded with from the start. */
START_TEST(test_models_of_the_start_go_too)
{
    const uint32_t n_types = look_at("tokens", "").n_types;
    site_unload(&site, "tokens");
    settle();
    ck_assert_uint_lt(look_at("tokens", "").n_types, n_types);
    ck_assert_int_eq(look_at("tokens", "1").state, SRV_MODEL_UNAVAILABLE);
    ck_assert_int_eq(look_at("tokens", "2").state, SRV_MODEL_UNAVAILABLE);
    struct visit visit = {.site = NULL};
    ask_init(&visit.ask, site.chain, 1, 9, &numbers, ASK_OPTIONAL);
    visit_start(&site, &visit);
    visit_expect_ok(&visit);
}
END_TEST

START_TEST(test_wishes_are_fulfilled_in_their_order)
{
    enum { WISHES = 20 };
    static struct wish wishes[WISHES];
    struct cell_model *cells = put(FILE_NAME, 5, 1);
    shelf_lstm("n/1/model.onnx", 5, 1);
    for (uint32_t i = 0; i < WISHES; i++) {
        wish_start(&site, &wishes[i], i / 2 % 2 == 0 ? SRV_CONTROL_LOAD : SRV_CONTROL_UNLOAD,
                   i % 2 == 0 ? "m" : "n");
    }
    site_load(&site, "m");
    for (uint32_t i = 0; i < WISHES; i++) {
        ck_assert_uint_eq(atomic_load(&wishes[i].done), 1);
        ck_assert_msg(wishes[i].control.error.status == BASE_OK, "%s",
                      wishes[i].control.error.message);
    }
    expect_served(cells);
    cell_model_free(own, cells);
}
END_TEST

/* ---- Requests under way ---- */

static bool has_seen(void *argument)
{
    struct visit *visit = argument;
    return atomic_load(&visit->cancel_seen);
}

START_TEST(test_what_has_been_accepted_is_answered)
{
    site_close(&site);
    open_site(true);
    struct cell_model *cells = put(FILE_NAME, 5, 1);
    site_load(&site, "m");
    gate_close();
    static struct visit visits[3];
    for (int i = 0; i < 3; i++) {
        begin(&visits[i], cells, 20);
    }
    site_unload(&site, "m");
    ck_assert_int_eq(look_at("m", "").state, SRV_MODEL_UNAVAILABLE);
    ck_assert(!look_at("m", "").is_over);
    expect_refused(cells, BASE_UNAVAILABLE, "model 'm' version 1 is unavailable: unloaded");
    visit_cancel(&visits[1], BASE_CANCELLED);
    ck_assert(site_until(has_seen, &visits[1]));
    gate_open();
    visit_expect_ok(&visits[0]);
    visit_wait(&visits[1]);
    ck_assert_int_eq(visits[1].ask.request.error.status, BASE_CANCELLED);
    ask_release(&visits[1].ask);
    visit_expect_ok(&visits[2]);
    settle();
    cell_model_free(own, cells);
}
END_TEST

START_TEST(test_sessions_end_with_their_version)
{
    shelf_text("m/config.yaml", "states: h0=hn, c0=cn\n");
    struct cell_model *cells = put(FILE_NAME, 5, 1);
    site_load(&site, "m");
    for (int i = 0; i < 3; i++) {
        struct visit visit;
        memset(&visit, 0, sizeof(visit));
        ask_init(&visit.ask, cells, 1, 4, &numbers, ASK_PLAIN);
        visit.ask.request.model_name = "m";
        visit.ask.request.sequence = (struct srv_sequence){.id = "7", .is_start = i == 0};
        visit.ask.request.n_inputs = i == 0 ? visit.ask.request.n_inputs : 1; // h0 and c0 are kept
        visit_start(&site, &visit);
        visit_wait(&visit);
        ck_assert_msg(visit.ask.request.error.status == (i < 2 ? BASE_OK : BASE_NOT_FOUND),
                      "%d: %s", i, visit.ask.request.error.message);
        ask_release(&visit.ask);
        if (i == 1) {
            site_load(&site, "m");
        }
    }
    settle();
    cell_model_free(own, cells);
}
END_TEST

/* ---- What can be wrong ---- */

START_TEST(test_a_load_that_fails_changes_nothing)
{
    struct cell_model *cells = put(FILE_NAME, 5, 1);
    site_load(&site, "m");
    const struct look before = look_at("m", "");
    shelf_text(FILE_NAME, "this is no model");
    expect_wish(SRV_CONTROL_LOAD, "m", BASE_INVALID_ARGUMENT, "model 'm': version 1: ");
    shelf_text("m/config.yaml", "weights: fp17\n");
    expect_wish(SRV_CONTROL_LOAD, "m", BASE_INVALID_ARGUMENT,
                "model 'm': config.yaml:1:10: weights");
    util_remove_tree(shelf_at("m"));
    expect_wish(SRV_CONTROL_LOAD, "m", BASE_NOT_FOUND, "No such file");
    settle();
    ck_assert_int_eq(look_at("m", "").state, SRV_MODEL_READY);
    ck_assert_uint_eq(look_at("m", "").n_types, before.n_types);
    expect_served(cells);
    cell_model_free(own, cells);
}
END_TEST

START_TEST(test_a_model_that_cannot_be_loaded_says_why_to_all)
{
    const uint32_t n_models = look_at("m", "").n_models;
    struct wish wish;
    wish_start(&site, &wish, SRV_CONTROL_LOAD, "m");
    ck_assert_int_eq(wish_wait(&wish), BASE_NOT_FOUND);
    ck_assert_str_eq(wish.control.error.message, "model 'm': No such file or directory");
    ck_assert_uint_eq(look_at("m", "").n_models, n_models); // or it would grow by any name
    struct cell_model *cells = put("m/2/model.onnx", 5, 1);
    shelf_text(FILE_NAME, "this is no model");
    for (int i = 0; i < 2; i++) {
        expect_wish(SRV_CONTROL_LOAD, "m", BASE_INVALID_ARGUMENT, "version 1: ");
        const struct look look = look_at("m", "");
        ck_assert_int_eq(look.state, SRV_MODEL_UNAVAILABLE);
        ck_assert_ptr_nonnull(strstr(look.reason, "version 1: "));
        ck_assert_uint_eq(look.n_models, n_models + 1);
    }
    util_remove_tree(shelf_at("m/1"));
    site_load(&site, "m");
    expect_served(cells);
    ck_assert_uint_eq(look_at("m", "").n_models, n_models + 1);
    cell_model_free(own, cells);
}
END_TEST

START_TEST(test_names_that_are_none_and_unknown_ones)
{
    expect_wish(SRV_CONTROL_LOAD, "../m", BASE_INVALID_ARGUMENT, "'../m' is not a model name");
    expect_wish(SRV_CONTROL_UNLOAD, "", BASE_INVALID_ARGUMENT, "'' is not a model name");
    expect_wish(SRV_CONTROL_UNLOAD, "m", BASE_NOT_FOUND, "no model 'm' here");
}
END_TEST

START_TEST(test_only_who_is_allowed_may)
{
    struct site_options options;
    site_close(&site);
    site_options_init(&options);
    site_open(&site, &options);
    expect_wish(SRV_CONTROL_LOAD, "m", BASE_FAILED_PRECONDITION, "--model-control-mode explicit");
    expect_wish(SRV_CONTROL_UNLOAD, "chain", BASE_FAILED_PRECONDITION, "--model-control-mode");
    ck_assert_int_eq(look_at("chain", "").state, SRV_MODEL_READY);
}
END_TEST

/* Whoever waits for a load when the server stops is answered, and nothing is left of it. */
START_TEST(test_a_server_that_stops_answers_all_wishes)
{
    struct wish wishes[4];
    shelf_lstm(FILE_NAME, 5, 1);
    shelf_lstm("n/1/model.onnx", 4, 2);
    for (int i = 0; i < 4; i++) {
        wish_start(&site, &wishes[i], SRV_CONTROL_LOAD, i % 2 == 0 ? "m" : "n");
    }
    if (_i > 0) {
        usleep((useconds_t)(_i * 500));
    }
    site_refuse_new(&site);
    for (int i = 0; i < 4; i++) {
        const enum base_status status = wish_wait(&wishes[i]);
        ck_assert(status == BASE_OK || status == BASE_UNAVAILABLE);
    }
    expect_wish(SRV_CONTROL_LOAD, "m", BASE_UNAVAILABLE, "the server is stopping");
}
END_TEST

/* The n-th allocation from now on, whichever thread's. */
START_TEST(test_every_allocation_of_a_load_may_fail)
{
    struct cell_model *cells[2] = {put(FILE_NAME, 5, 1), NULL};
    site_load(&site, "m");
    const uint32_t n_types = look_at("m", "").n_types;
    cells[1] = put(FILE_NAME, 5, 2);
    enum base_status status = BASE_RESOURCE_EXHAUSTED;
    for (uint64_t n = 1; status != BASE_OK; n++) {
        struct wish wish;
        ck_assert_uint_lt(n, 2000);
        base_alloc_fail_at(n);
        wish_start(&site, &wish, SRV_CONTROL_LOAD, "m");
        status = wish_wait(&wish);
        base_alloc_fail_at(0);
        ck_assert_msg(status == BASE_OK || status == BASE_RESOURCE_EXHAUSTED ||
                          status == BASE_UNAVAILABLE,
                      "%s", wish.control.error.message);
        settle();
        ck_assert_uint_eq(look_at("m", "").n_types, n_types);
        expect_served(cells[status == BASE_OK ? 1 : 0]);
    }
    cell_model_free(own, cells[0]);
    cell_model_free(own, cells[1]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("control");
    TCase *tcase = tcase_create("control");
    tcase_set_timeout(tcase, 120);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_a_model_comes_and_goes);
    tcase_add_test(tcase, test_a_reload_loses_no_request);
    tcase_add_test(tcase, test_versions_of_the_folder_come_and_go_together);
    tcase_add_test(tcase, test_models_of_the_start_go_too);
    tcase_add_test(tcase, test_wishes_are_fulfilled_in_their_order);
    tcase_add_test(tcase, test_what_has_been_accepted_is_answered);
    tcase_add_test(tcase, test_sessions_end_with_their_version);
    tcase_add_test(tcase, test_a_load_that_fails_changes_nothing);
    tcase_add_test(tcase, test_a_model_that_cannot_be_loaded_says_why_to_all);
    tcase_add_test(tcase, test_names_that_are_none_and_unknown_ones);
    tcase_add_test(tcase, test_only_who_is_allowed_may);
    tcase_add_loop_test(tcase, test_a_server_that_stops_answers_all_wishes, 0, 8);
    tcase_add_test(tcase, test_every_allocation_of_a_load_may_fail);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
