/* Models whose requests a plug-in unfolds: what it makes of good ones, all that it can do wrong,
 * and one that does not come back until the test lets it (tests/plugins/steered.c). */
#include "server/plugin.h"

#include "base/clock.h"
#include "base/mem.h"
#include "server/repository.h"
#include "tests/plugins/steered.h"
#include "tests/server/graphs.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifndef CELLBATCH_OUT // set by the Makefile
#    define CELLBATCH_OUT "build/release"
#endif

enum { ROWS_MAX = 64 };

static const float xs[][GRAPHS_WIDTH] = {{1, 2}, {3, 4}, {5, 6}};
static const float ys[][GRAPHS_WIDTH] = {{102, 204}, {108, 212}, {118, 224}};

static struct steered_hold hold;
static int64_t address; /* of hold: requests read it while others are made */
static char config[128];

/* ---- The model ---------------------------------------------------------------------------- */

/* "steered" with the plug-in of this name, or none; its version's path. */
static void write_model(const char *plugin, const char *deadline, char version[UTIL_PATH_BYTES])
{
    char from[UTIL_PATH_BYTES];
    char to[2 * UTIL_PATH_BYTES];
    snprintf(config, sizeof(config),
             "unfold: plugin\ncells: source,join,word,wide\nunfold-deadline: %s\n", deadline);
    parts_folder(graphs_folder, "steered", config, version);
    graphs_write_parts(version);
    if (plugin != NULL) {
        snprintf(from, sizeof(from), CELLBATCH_OUT "/tests/plugins/%s.so", plugin);
        snprintf(to, sizeof(to), "%s/unfold.so", version);
        ck_assert_int_eq(symlink(from, to), 0);
    }
}

static void open_steered(const char *deadline)
{
    char version[UTIL_PATH_BYTES];
    atomic_store(&hold.is_inside, 0);
    atomic_store(&hold.is_released, 0);
    address = (int64_t)(uintptr_t)&hold;
    write_model("steered", deadline, version);
    graphs_open(ROWS_MAX, 64);
}

/* ---- Requests ----------------------------------------------------------------------------- */

static const int64_t modes[] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10,
                                11, 12, 13, 14, 15, 16, 17, 18, 19, 20};

static void prepare(struct visit *visit, enum steered_mode mode)
{
    graphs_begin(visit, "steered");
    graphs_add(visit, "mode", "INT64", 1, 0, &modes[mode]);
    graphs_add(visit, "x", "FP32", 3, GRAPHS_WIDTH, xs);
    graphs_add(visit, "hold", "INT64", 1, 0, &address);
}

static void start(struct visit *visit, enum steered_mode mode)
{
    prepare(visit, mode);
    visit_start(&graphs_site, visit);
}

/* Waits for the answer and ends the visit. */
static void expect(struct visit *visit, enum base_status status, const char *why)
{
    visit_wait(visit);
    const struct base_error *error = &visit->ask.request.error;
    ck_assert_msg(error->status == status && strstr(error->message, why) != NULL, "%s: %s",
                  base_status_name(error->status), error->message);
    graphs_end(visit);
}

static void expect_good(struct visit *visit)
{
    visit_wait(visit);
    const struct srv_request *request = &visit->ask.request;
    ck_assert_msg(request->error.status == BASE_OK, "%s", request->error.message);
    ck_assert_uint_eq(request->n_outputs, 2);
    const struct srv_tensor *y = ask_output(&visit->ask, "y");
    ck_assert_int_eq(y->shape[0], 3);
    ck_assert_uint_eq(y->bytes, sizeof(ys));
    ck_assert_mem_eq(y->data, ys, sizeof(ys));
    const int64_t zero = 0;
    ck_assert_mem_eq(ask_output(&visit->ask, "ids")->data, &zero, sizeof(zero)); // not answered
    graphs_end(visit);
}

static bool is_inside(void *argument)
{
    (void)argument;
    return atomic_load(&hold.is_inside) == 1;
}

static void start_held(struct visit *visit)
{
    start(visit, STEERED_HOLD);
    ck_assert(site_until(is_inside, NULL));
}

/* ---- Good and bad requests ---------------------------------------------------------------- */

START_TEST(test_what_a_plugin_describes_is_computed)
{
    enum { MANY = 40 };
    static struct visit visits[MANY];
    open_steered("10s");
    for (uint32_t i = 0; i < MANY; i++) {
        start(&visits[i], STEERED_GOOD);
    }
    for (uint32_t i = 0; i < MANY; i++) {
        expect_good(&visits[i]);
    }
    ck_assert_uint_eq(site_stats(&graphs_site, "steered", "1").success.count, MANY);
    ck_assert_uint_eq(site_reserved(&graphs_site), 0);
    site_close(&graphs_site);
}
END_TEST

START_TEST(test_outputs_by_name)
{
    static struct visit visit;
    static const char *wanted[] = {"y"};
    open_steered("10s");
    prepare(&visit, STEERED_GOOD);
    visit.ask.request.wanted = wanted;
    visit.ask.request.n_wanted = 1;
    graphs_answer(&visit);
    ck_assert_uint_eq(visit.ask.request.n_outputs, 1);
    ck_assert_mem_eq(visit.ask.request.outputs[0].data, ys, sizeof(ys));
    graphs_end(&visit);
    site_close(&graphs_site);
}
END_TEST

/* Whatever a plug-in says wrongly, its request fails alone. */
START_TEST(test_what_is_wrong_fails_its_request_alone)
{
    static const struct {
        enum steered_mode mode;
        enum base_status status;
        const char *why;
    } cases[] = {
        {STEERED_MESSAGE, BASE_INVALID_ARGUMENT, "unfold.so: x is not to my liking"},
        {STEERED_FAIL, BASE_INVALID_ARGUMENT, "unfold.so: x has failed"},
        {STEERED_EMPTY, BASE_INTERNAL, "unfold.so: a graph of no nodes"},
        {STEERED_CYCLE, BASE_INTERNAL, "a cycle through node "},
        {STEERED_NODE, BASE_INTERNAL, "to node 77, expected 0..5"},
        {STEERED_CELL, BASE_INTERNAL, "node 6 is of cell 7, expected 0..3"},
        {STEERED_FIT, BASE_INTERNAL, "source.v is FP32 of width 2, wide.y takes FP32 of width 3"},
        {STEERED_TOO_MANY, BASE_INVALID_ARGUMENT, "the request becomes more than 64 nodes"},
        {STEERED_WIDTH, BASE_INTERNAL, "input 0 of node 6: a row of other bytes than it takes"},
        {STEERED_ID, BASE_INVALID_ARGUMENT, "id 9 for input 0 of node 6, expected 0..4"},
        {STEERED_BEYOND, BASE_INTERNAL, "input 0 of node 6: a row beyond the request's tensor"},
        {STEERED_DATATYPE, BASE_INTERNAL, "no such tensor, or one of another datatype"},
        {STEERED_INPUT, BASE_INTERNAL, "input 5 of node 0: its cell has fewer"},
        {STEERED_FED_TWICE, BASE_INTERNAL, "input 0 of node 1: it reads something else already"},
        {STEERED_ANSWER_BEYOND, BASE_INTERNAL, "a row beyond the answer's tensor"},
        {STEERED_ANSWER_TWICE, BASE_INTERNAL, "output 0 of node 0: it is answered twice"},
        {STEERED_ANSWER_DATATYPE, BASE_INTERNAL, "output 1 of node 0: no such tensor"},
        {STEERED_SHAPE, BASE_INTERNAL, "unfold.so: dimension 1 of output 'y' is 3"},
        {STEERED_NO_OUTPUT, BASE_INTERNAL, "set_shape() of an output that is not there"},
    };
    static struct visit visit;
    open_steered("10s");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        start(&visit, cases[i].mode);
        expect(&visit, cases[i].status, cases[i].why);
        start(&visit, STEERED_GOOD);
        expect_good(&visit);
    }
    site_close(&graphs_site);
}
END_TEST

START_TEST(test_tensors_are_checked_before_the_plugin_sees_them)
{
    static struct visit visit;
    open_steered("10s");
    graphs_begin(&visit, "steered");
    graphs_add(&visit, "mode", "INT64", 1, 0, &modes[0]);
    graphs_refused(&visit, "input 'x' is missing");
    graphs_begin(&visit, "steered");
    graphs_add(&visit, "mode", "INT64", 2, 0, modes);
    graphs_refused(&visit, "input 'mode': shape [2], expected [1]");
    graphs_begin(&visit, "steered");
    graphs_add(&visit, "cells", "INT64", 1, 0, modes);
    graphs_refused(&visit, "input 'cells' is not one of the model's 3 inputs");
    site_close(&graphs_site);
}
END_TEST

/* ---- Late --------------------------------------------------------------------------------- */

/* Until the plug-in is back its model is refused; then all is as before. */
START_TEST(test_a_late_plugin_fails_its_request_and_holds_up_no_other_model)
{
    static struct visit late;
    static struct visit behind;
    static struct visit later;
    static struct visit other;
    struct base_random random = util_random(1);
    open_steered("300ms");
    start_held(&late);
    start(&behind, STEERED_GOOD);
    expect(&late, BASE_DEADLINE_EXCEEDED, "unfold.so took longer than 300 ms (unfold-deadline)");
    expect(&behind, BASE_UNAVAILABLE, "unfold.so has not returned from an earlier request");
    start(&later, STEERED_GOOD);
    expect(&later, BASE_UNAVAILABLE, "unfold.so has not returned from an earlier request");
    memset(&other, 0, sizeof(other));
    ask_init(&other.ask, graphs_site.chain, 1, 3, &random, ASK_PLAIN);
    visit_start(&graphs_site, &other);
    visit_wait(&other);
    ck_assert_int_eq(other.ask.request.error.status, BASE_OK);
    ask_release(&other.ask);
    atomic_store(&hold.is_released, 1);
    const uint64_t end_ns = base_now_ns() + 20 * BASE_NS_PER_S;
    enum base_status status = BASE_UNAVAILABLE;
    while (status == BASE_UNAVAILABLE && base_now_ns() < end_ns) {
        start(&later, STEERED_GOOD);
        visit_wait(&later);
        status = later.ask.request.error.status;
        graphs_end(&later);
    }
    ck_assert_int_eq(status, BASE_OK);
    site_close(&graphs_site);
}
END_TEST

/* One that waits for the plug-in, one that it has, and one that it did not come back from in time:
 * each is answered by the model that it came to, and the next model has a plug-in of its own. */
START_TEST(test_a_reload_while_the_plugin_has_a_request)
{
    static struct visit inside;
    static struct visit behind;
    static struct visit next;
    open_steered(_i == 0 ? "30s" : "300ms");
    if (srv_engine_can_change(graphs_site.engine, NULL) != BASE_OK) {
        site_close(&graphs_site); // a CUDA device takes models at the start alone
        return;
    }
    start_held(&inside);
    if (_i == 1) {
        expect(&inside, BASE_DEADLINE_EXCEEDED, "unfold.so took longer than 300 ms");
    } else {
        start(&behind, STEERED_GOOD);
    }
    site_load(&graphs_site, "steered");
    start(&next, STEERED_GOOD);
    expect_good(&next);
    atomic_store(&hold.is_released, 1);
    if (_i == 0) {
        expect_good(&inside);
        expect_good(&behind);
    }
    site_unload(&graphs_site, "steered");
    start(&next, STEERED_GOOD);
    expect(&next, BASE_UNAVAILABLE, "model 'steered' version 1 is unavailable: unloaded");
    site_load(&graphs_site, "steered");
    start(&next, STEERED_GOOD);
    expect_good(&next);
    site_close(&graphs_site);
}
END_TEST

START_TEST(test_cancelled_while_the_plugin_has_it_or_before)
{
    static struct visit inside;
    static struct visit behind;
    static struct visit later;
    open_steered("30s");
    start_held(&inside);
    start(&behind, STEERED_GOOD);
    visit_cancel(&behind, BASE_CANCELLED);
    expect(&behind, BASE_CANCELLED, "cancelled by the client while waiting");
    visit_cancel(&inside, BASE_CANCELLED);
    expect(&inside, BASE_CANCELLED, "cancelled by the client while waiting");
    start(&later, STEERED_GOOD); // waits for the plug-in to come back
    atomic_store(&hold.is_released, 1);
    expect_good(&later);
    ck_assert_uint_eq(site_counters(&graphs_site).cancelled_waiting, 2);
    site_close(&graphs_site);
}
END_TEST

START_TEST(test_the_clients_own_deadline)
{
    static struct visit inside;
    static struct visit later;
    open_steered("30s");
    prepare(&inside, STEERED_HOLD);
    inside.ask.request.deadline_ns = base_now_ns() + 500 * BASE_NS_PER_MS;
    visit_start(&graphs_site, &inside);
    expect(&inside, BASE_DEADLINE_EXCEEDED, "the deadline passed while it was waiting");
    atomic_store(&hold.is_released, 1);
    start(&later, STEERED_GOOD);
    expect_good(&later);
    site_close(&graphs_site);
}
END_TEST

static bool is_outside(void *argument)
{
    return !is_inside(argument);
}

/* A plug-in that hangs holds up neither a drain nor the end. */
START_TEST(test_stopping_while_the_plugin_hangs)
{
    static struct visit inside;
    static struct visit behind;
    open_steered("60s");
    start_held(&inside);
    start(&behind, STEERED_GOOD);
    site_refuse_new(&graphs_site);
    site_cancel_all(&graphs_site);
    expect(&inside, BASE_UNAVAILABLE, "the server is stopping; it was waiting");
    expect(&behind, BASE_UNAVAILABLE, "the server is stopping; it was waiting");
    site_close(&graphs_site);
    atomic_store(&hold.is_released, 1);
    ck_assert(site_until(is_outside, NULL));
}
END_TEST

START_TEST(test_a_full_queue_before_the_plugin)
{
    static struct visit visits[102];
    open_steered("60s");
    start_held(&visits[0]);
    for (uint32_t i = 1; i < 102; i++) {
        start(&visits[i], STEERED_GOOD);
    }
    // 100 may wait (site_options_init), the one inside among them.
    expect(&visits[101], BASE_RESOURCE_EXHAUSTED, "the queue is full: 100 requests of model");
    atomic_store(&hold.is_released, 1);
    for (uint32_t i = 0; i < 100; i++) {
        expect_good(&visits[i]);
    }
    visit_wait(&visits[100]);
    graphs_end(&visits[100]);
    site_close(&graphs_site);
}
END_TEST

/* ---- Loading ------------------------------------------------------------------------------ */

/* Opens VERSION/unfold.so for a model without tensors. */
static void expect_not_opened(const char *version, enum base_status wanted, const char *why)
{
    struct base_error error = {.message = ""};
    struct srv_plugin *plugin = NULL;
    struct cell_model *model = base_alloc(sizeof(*model));
    ck_assert_ptr_nonnull(model);
    const enum base_status status = srv_plugin_open(version, model, &plugin, &error);
    ck_assert_msg(status == wanted && strstr(error.message, why) != NULL, "%s: %s",
                  base_status_name(status), error.message);
    ck_assert_ptr_null(strstr(error.message, version)); // no path of this machine
    ck_assert_ptr_null(plugin);
    ck_assert_uint_eq(model->n_inputs, 0);
    base_free(model);
}

START_TEST(test_plugins_that_are_refused)
{
    static const char *const why[] = {
        "made for version 99 of the interface, this server has 1",
        "unfold.so: no symbol cellbatch_unfold",
        "unfold.so: input 0: a name has 1 to 127 bytes",
        "unfold.so: input 0: datatype 9, rank 1, expected 0..2 and 0..8",
        "unfold.so: input 0: dimension 0 is 0, expected -1 or more than 0",
        "unfold.so: inputs 0 and 1 are 'a'",
        "unfold.so: 0 inputs and 2 outputs, expected 1..32 each, and a function",
        "unfold.so: 2 inputs and 2 outputs, expected 1..32 each, and a function"};
    char version[UTIL_PATH_BYTES];
    char path[2 * UTIL_PATH_BYTES];
    write_model(NULL, "100ms", version);
    expect_not_opened(version, BASE_NOT_FOUND, "unfold.so: no such file beside the cells");
    snprintf(path, sizeof(path), "%s/unfold.so", version);
    util_write_file(path, "no shared object");
    expect_not_opened(version, BASE_INVALID_ARGUMENT, "unfold.so: cannot be loaded: ");
    for (size_t v = 0; v < sizeof(why) / sizeof(why[0]); v++) {
        char from[UTIL_PATH_BYTES];
        ck_assert_int_eq(remove(path), 0);
        snprintf(from, sizeof(from), CELLBATCH_OUT "/tests/plugins/wrong%zu.so", v + 1);
        ck_assert_int_eq(symlink(from, path), 0);
        expect_not_opened(version, BASE_INVALID_ARGUMENT, why[v]);
    }
}
END_TEST

/* Nothing of a plug-in is loaded unless that is allowed. */
START_TEST(test_plugins_are_not_allowed_by_default)
{
    struct srv_engine *engine = NULL;
    struct srv_core *core = NULL;
    struct srv_loop loop;
    struct srv_engine_options options;
    struct base_error error = {.message = ""};
    char version[UTIL_PATH_BYTES];
    write_model("steered", "100ms", version);
    srv_engine_options_init(&options);
    const struct srv_core_options core_options = {.sequence_length_max = 64};
    ck_assert_int_eq(srv_loop_init(&loop), BASE_OK);
    ck_assert_int_eq(srv_engine_create(&options, &engine, &error), BASE_OK);
    ck_assert_int_eq(srv_core_create(&loop, engine, &core_options, &core), BASE_OK);
    const struct srv_repository_options repository = {.path = graphs_folder, .exit_on_error = true};
    ck_assert_int_eq(srv_repository_load(&repository, core, engine, &error),
                     BASE_FAILED_PRECONDITION);
    ck_assert_ptr_nonnull(strstr(error.message, "plug-ins are not allowed (--allow-plugins true)"));
    srv_core_close(core);
    srv_loop_stop(&loop);
    srv_loop_run(&loop);
    srv_loop_release(&loop);
    srv_core_free(core);
    srv_engine_free(engine);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("plugin");
    TCase *served = tcase_create("served");
    TCase *loaded = tcase_create("loaded");
    tcase_add_checked_fixture(served, graphs_setup, graphs_teardown);
    tcase_add_checked_fixture(loaded, graphs_setup, graphs_teardown);
    tcase_add_test(served, test_what_a_plugin_describes_is_computed);
    tcase_add_test(served, test_outputs_by_name);
    tcase_add_test(served, test_what_is_wrong_fails_its_request_alone);
    tcase_add_test(served, test_tensors_are_checked_before_the_plugin_sees_them);
    tcase_add_test(served, test_a_late_plugin_fails_its_request_and_holds_up_no_other_model);
    tcase_add_loop_test(served, test_a_reload_while_the_plugin_has_a_request, 0, 2);
    tcase_add_test(served, test_cancelled_while_the_plugin_has_it_or_before);
    tcase_add_test(served, test_the_clients_own_deadline);
    tcase_add_test(served, test_stopping_while_the_plugin_hangs);
    tcase_add_test(served, test_a_full_queue_before_the_plugin);
    suite_add_tcase(suite, served);
    tcase_add_test(loaded, test_plugins_that_are_refused);
    tcase_add_test(loaded, test_plugins_are_not_allowed_by_default);
    suite_add_tcase(suite, loaded);
    return util_run(suite);
}
