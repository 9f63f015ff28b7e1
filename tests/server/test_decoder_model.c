/* Models of an encoder and a decoder: two parts on disk, served; random requests in one run, each
 * answer compared with the cells evaluated step by step in double precision, and with itself asked
 * alone. A row that has ended lets go of what it held, whoever still runs. Parts that do not fit
 * each other are refused by name. */
#include "server/check_model.h"
#include "server/explain.h"
#include "tests/server/decoder_parts.h"
#include "tests/server/gate.h"
#include "tests/server/parts.h"
#include "tests/server/site.h"
#include "tests/util.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* Of logits near 10 after 20 steps that feed back what they round. */
#define TOLERANCE 1e-4

static char folder[UTIL_PATH_BYTES];
static struct site site;

static void open_site(const struct cell_backend *backend)
{
    struct site_options options;
    site_options_init(&options);
    options.repositories[0] = folder;
    options.engine.rows = 512;
    if (backend != NULL) {
        options.engine.backend = backend;
        options.gated = true;
        options.engine.run_steps_max = 4;
    }
    site_open(&site, &options);
}

static void setup(void)
{
    util_temp_dir(folder);
}

static void teardown(void)
{
    util_remove_tree(folder);
}

/* ---- Answers ------------------------------------------------------------------------------ */

static void begin(struct visit *visit, const char *model, uint32_t n_rows, uint32_t steps,
                  struct base_random *random)
{
    memset(visit, 0, sizeof(*visit));
    ask_init(&visit->ask, site_find(&site, model), n_rows, steps, random,
             base_random_below(random, 2) == 0 ? ASK_PLAIN : ASK_OPTIONAL);
    visit->ask.request.model_name = model;
}

static void expect_ok(struct visit *visit)
{
    visit_wait(visit);
    ck_assert_msg(visit->ask.request.error.status == BASE_OK, "%s",
                  visit->ask.request.error.message);
}

static int64_t length_of(const struct visit *visit, uint32_t row)
{
    const struct srv_tensor *lengths = ask_output(&visit->ask, "lengths");
    ck_assert_ptr_nonnull(lengths);
    return cell_integer_at(CELL_I64, lengths->data + row * sizeof(int64_t));
}

/* A repeated request: the same inputs. */
static void ask_again(struct visit *again, const struct visit *first)
{
    memset(again, 0, sizeof(*again));
    again->ask = first->ask;
    base_arena_init(&again->ask.request.arena, 4096, (size_t)64 << 20);
    again->ask.request.n_outputs = 0;
    visit_start(&site, again);
    expect_ok(again);
}

static void expect_same(const struct srv_request *a, const struct srv_request *b)
{
    ck_assert_uint_eq(a->n_outputs, b->n_outputs);
    for (uint32_t o = 0; o < a->n_outputs; o++) {
        ck_assert_uint_eq(a->outputs[o].bytes, b->outputs[o].bytes);
        ck_assert_mem_eq(a->outputs[o].data, b->outputs[o].data, b->outputs[o].bytes);
    }
}

enum { TOGETHER = 60 };

/* Requests of all sizes in one run; then each of them again, alone: the same bits. */
static void check_company(const struct decoder_parts *parts)
{
    static struct visit visits[TOGETHER];
    static struct visit again;
    struct base_random random = util_random(2);
    char version[UTIL_PATH_BYTES];
    bool is_short[2] = {false};
    decoder_parts_write(folder, "talk", parts, version);
    open_site(NULL);
    for (uint32_t i = 0; i < TOGETHER; i++) {
        begin(&visits[i], "talk", 1 + base_random_below(&random, 4),
              1 + base_random_below(&random, 20), &random);
        visit_start(&site, &visits[i]);
    }
    for (uint32_t i = 0; i < TOGETHER; i++) {
        expect_ok(&visits[i]);
        ck_assert_double_lt(ask_error(&visits[i].ask), TOLERANCE);
        for (uint32_t row = 0; row < visits[i].ask.n_rows; row++) {
            is_short[length_of(&visits[i], row) < DECODER_STEPS_MAX] = true;
        }
        ask_again(&again, &visits[i]);
        expect_same(&again.ask.request, &visits[i].ask.request);
        ask_release(&again.ask);
    }
    ck_assert(is_short[true] && is_short[false]); // both ends came up
    for (uint32_t i = 0; i < TOGETHER; i++) {
        ask_release(&visits[i].ask);
    }
    ck_assert_uint_eq(site_rows(&site), 0);
    ck_assert_uint_eq(site_reserved(&site), 0);
    site_close(&site);
}

START_TEST(test_decoders_in_company_and_alone)
{
    struct decoder_parts parts = decoder_parts_whole;
    parts.is_narrow = _i == 1;
    parts.attends = _i == 2;
    check_company(&parts);
}
END_TEST

/* A request of zeros, as the warm-up's. */
static void zero(struct visit *visit)
{
    for (uint32_t i = 0; i < visit->ask.request.n_inputs; i++) {
        struct srv_tensor *input = &visit->ask.request.inputs[i];
        uint8_t *zeros = base_arena_alloc(&visit->ask.request.arena, input->bytes);
        ck_assert_ptr_nonnull(zeros);
        input->data = zeros;
    }
}

/* A model whose longest answer would fill the memory of a warm-up many times over becomes ready. */
START_TEST(test_a_long_answer_does_not_stop_the_warm_up)
{
    static struct visit visit;
    struct base_random random = util_random(7);
    struct decoder_parts parts = decoder_parts_whole;
    char version[UTIL_PATH_BYTES];
    char config[128];
    parts.config = "unfold: seq2seq\nstart: 2\nmax-steps: 1\n";
    decoder_parts_write(folder, "short", &parts, version);
    open_site(NULL);
    begin(&visit, "short", 1, 2, &random);
    zero(&visit);
    visit_start(&site, &visit);
    expect_ok(&visit);
    const int64_t first = cell_integer_at(CELL_I64, ask_output(&visit.ask, "token")->data);
    ask_release(&visit.ask);
    site_close(&site);
    snprintf(config, sizeof(config), "unfold: seq2seq\nstart: 2\nend: %lld\nmax-steps: 1048576\n",
             (long long)first);
    parts.config = config;
    decoder_parts_write(folder, "long", &parts, version);
    open_site(NULL);
    ck_assert_ptr_nonnull(site_find(&site, "long"));
    site_close(&site);
}
END_TEST

/* A memory that the client sends. */
START_TEST(test_a_memory_of_the_client)
{
    static struct visit visit;
    struct base_random random = util_random(6);
    struct decoder_parts parts = decoder_parts_whole;
    char version[UTIL_PATH_BYTES];
    parts.attends = true;
    parts.has_encoder = false;
    decoder_parts_write(folder, "talk", &parts, version);
    open_site(NULL);
    for (uint32_t i = 0; i < 20; i++) {
        begin(&visit, "talk", 3, 1 + i, &random);
        visit_start(&site, &visit);
        expect_ok(&visit);
        ck_assert_double_lt(ask_error(&visit.ask), TOLERANCE);
        ask_release(&visit.ask);
    }
    site_close(&site);
}
END_TEST

/* No encoder, and no start in config.yaml: the client sends the first token and the first state. */
START_TEST(test_a_decoder_of_its_own)
{
    static struct visit visit;
    struct base_random random = util_random(3);
    struct decoder_parts parts = decoder_parts_whole;
    char version[UTIL_PATH_BYTES];
    parts.has_encoder = false;
    parts.config = "unfold: seq2seq\nend: 5\nmax-steps: 20\n";
    decoder_parts_write(folder, "talk", &parts, version);
    open_site(NULL);
    for (uint32_t i = 0; i < 20; i++) {
        begin(&visit, "talk", 3, 1, &random);
        visit_start(&site, &visit);
        expect_ok(&visit);
        ck_assert_double_lt(ask_error(&visit.ask), TOLERANCE);
        ask_release(&visit.ask);
    }
    begin(&visit, "talk", 1, 1, &random);
    ask_input(&visit.ask, "token")->name = "s";
    visit_start(&site, &visit);
    visit_wait(&visit);
    ck_assert_int_eq(visit.ask.request.error.status, BASE_INVALID_ARGUMENT);
    ask_release(&visit.ask);
    site_close(&site);
}
END_TEST

/* Without an end each row takes all steps; with one alone, outputs that are asked for come alone.
 */
START_TEST(test_no_end_and_outputs_by_name)
{
    static struct visit visit;
    static const char *const wanted[] = {"lengths", "logits"};
    struct base_random random = util_random(4);
    struct decoder_parts parts = decoder_parts_whole;
    char version[UTIL_PATH_BYTES];
    parts.config = "unfold: seq2seq\nstart: 2\nmax-steps: 7\n";
    decoder_parts_write(folder, "talk", &parts, version);
    open_site(NULL);
    begin(&visit, "talk", 3, 4, &random);
    visit.ask.request.n_wanted = 2;
    visit.ask.request.wanted = wanted;
    visit_start(&site, &visit);
    expect_ok(&visit);
    ck_assert_uint_eq(visit.ask.request.n_outputs, 2);
    ck_assert_int_eq(length_of(&visit, 2), 7);
    ck_assert_int_eq(ask_output(&visit.ask, "logits")->shape[1], 7);
    ck_assert_double_lt(ask_error(&visit.ask), TOLERANCE);
    ask_release(&visit.ask);
    site_close(&site);
}
END_TEST

/* A request may ask for fewer steps than the model's; they are the same as the first of all. */
START_TEST(test_a_bound_of_steps_by_request)
{
    static const uint32_t asked[] = {0, 3, 7, 100};
    static const int64_t wanted[] = {7, 3, 7, 7};
    static struct visit visits[4];
    struct decoder_parts parts = decoder_parts_whole;
    char version[UTIL_PATH_BYTES];
    parts.config = "unfold: seq2seq\nstart: 2\nmax-steps: 7\n";
    decoder_parts_write(folder, "talk", &parts, version);
    open_site(NULL);
    for (uint32_t i = 0; i < 4; i++) {
        struct base_random random = util_random(4);
        begin(&visits[i], "talk", 1, 4, &random);
        visits[i].ask.request.steps_max = asked[i];
        visit_start(&site, &visits[i]);
    }
    for (uint32_t i = 0; i < 4; i++) {
        expect_ok(&visits[i]);
        const struct srv_tensor *all = ask_output(&visits[0].ask, "token");
        const struct srv_tensor *some = ask_output(&visits[i].ask, "token");
        ck_assert_int_eq(length_of(&visits[i], 0), wanted[i]);
        ck_assert_int_eq(some->shape[1], wanted[i]);
        ck_assert_mem_eq(some->data, all->data, some->bytes);
    }
    for (uint32_t i = 0; i < 4; i++) {
        ask_release(&visits[i].ask);
    }
    site_close(&site);
}
END_TEST

/* ---- Rows that have ended ----------------------------------------------------------------- */

/* A request that ends after a few steps, and one that takes all. */
static void find_short_and_long(struct visit *visits, struct base_random *random)
{
    int64_t length[2] = {DECODER_STEPS_MAX, 0};
    for (uint32_t i = 0; length[0] > 6 || length[1] < DECODER_STEPS_MAX; i++) {
        static struct visit tried;
        ck_assert_uint_lt(i, 2000);
        begin(&tried, "talk", 1, 3, random); // both come to decoding at the same time
        visit_start(&site, &tried);
        expect_ok(&tried);
        const int64_t taken = length_of(&tried, 0);
        const uint32_t which = taken > 6 ? 1 : 0;
        if ((which == 0 && length[0] > 6) ||
            (taken == DECODER_STEPS_MAX && length[1] < DECODER_STEPS_MAX)) {
            length[which] = taken;
            visits[which] = tried;
        } else {
            ask_release(&tried.ask);
        }
    }
}

/* The long one comes first and runs on, now alone, when the short one is answered; the device
 * computes no batch but those that the test lets through. */
START_TEST(test_a_row_that_ends_leaves_at_once)
{
    static struct visit first[2];
    static struct visit again[2];
    struct base_random random = util_random(5);
    char version[UTIL_PATH_BYTES];
    decoder_parts_write(folder, "talk", &decoder_parts_whole, version);
    open_site(&gate_backend);
    find_short_and_long(first, &random);
    gate_close();
    for (uint32_t i = 0; i < 2; i++) {
        again[i].ask = first[1 - i].ask; // the long one first
        base_arena_init(&again[i].ask.request.arena, 4096, (size_t)64 << 20);
        again[i].ask.request.n_outputs = 0;
        visit_start(&site, &again[i]);
    }
    while (!visit_is_done(&again[1])) {
        const uint64_t passed = gate_passed();
        gate_let(1);
        while (gate_passed() == passed) {
        }
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL); // for the answer to come back
    }
    ck_assert(!visit_is_done(&again[0]));
    ck_assert_uint_gt(site_rows(&site), 0);
    const uint32_t held = site_reserved(&site);
    gate_open();
    for (uint32_t i = 0; i < 2; i++) {
        expect_ok(&again[i]);
        expect_same(&again[i].ask.request, &first[1 - i].ask.request);
        ask_release(&again[i].ask);
    }
    ask_release(&first[0].ask);
    ask_release(&first[1].ask);
    ck_assert_uint_gt(held, 0);
    ck_assert_uint_eq(site_rows(&site), 0);
    site_close(&site);
}
END_TEST

/* ---- Refusals ----------------------------------------------------------------------------- */

static const struct cell_model_options usual = {.decoding = {.has_start = true,
                                                             .start = DECODER_START,
                                                             .has_end = true,
                                                             .end = DECODER_END,
                                                             .steps_max = DECODER_STEPS_MAX}};

static void expect_no_model(const struct decoder_parts *parts,
                            const struct cell_model_options *options, enum base_status wanted,
                            const char *why)
{
    static uint32_t n;
    char name[32];
    char version[UTIL_PATH_BYTES];
    struct cell_registry *registry = NULL;
    struct cell_model *model = NULL;
    struct base_error error = {.message = ""};
    snprintf(name, sizeof(name), "model%u", n++);
    decoder_parts_write(folder, name, parts, version);
    ck_assert_int_eq(cell_registry_create(&registry), BASE_OK);
    enum base_status status =
        cell_model_load_decoder(registry, version, "test", options, &model, &error);
    ck_assert_msg(status == wanted && strstr(error.message, why) != NULL, "%s: %s",
                  base_status_name(status), error.message);
    ck_assert_ptr_null(model);
    cell_registry_free(registry); // fails the case when a type is still held
}

START_TEST(test_parts_that_do_not_fit_are_refused)
{
    struct decoder_parts parts = decoder_parts_whole;
    parts.h_next = "state_next";
    expect_no_model(&parts, &usual, BASE_INVALID_ARGUMENT,
                    "decoder.onnx: output \"state_next\" is to be fed back, but there is no input "
                    "\"state\"");
    parts = decoder_parts_whole;
    parts.token_next = "ids";
    expect_no_model(&parts, &usual, BASE_INVALID_ARGUMENT,
                    "decoder.onnx: start and end are ids, but no output 'token_next' of one "
                    "integer is fed back");
    parts = decoder_parts_whole;
    parts.logits = "lengths";
    expect_no_model(&parts, &usual, BASE_INVALID_ARGUMENT,
                    "decoder.onnx: output 'lengths' would be there twice");
    parts.logits = "h_next_next";
    expect_no_model(&parts, &usual, BASE_INVALID_ARGUMENT, "there is no input \"h_next\"");
    parts = decoder_parts_whole;
    parts.decoder_hidden = DECODER_HIDDEN - 1;
    expect_no_model(&parts, &usual, BASE_INVALID_ARGUMENT,
                    "encoder.onnx: output 'h' has width 24, in decoder.onnx it has 23");
    parts = decoder_parts_whole;
    parts.is_timed = true;
    expect_no_model(&parts, &usual, BASE_UNIMPLEMENTED,
                    "encoder.onnx: output 'context' has a row for each step, decoder.onnx reads "
                    "one, or the other way round");
    parts = decoder_parts_whole;
    parts.is_token_unread = true;
    expect_no_model(&parts, &usual, BASE_UNIMPLEMENTED,
                    "decoder.onnx: input \"token\" is fed back, but nothing reads it");
}
END_TEST

START_TEST(test_ids_and_bounds_are_checked)
{
    struct cell_model_options options = usual;
    options.decoding.start = DECODER_IDS;
    expect_no_model(&decoder_parts_whole, &options, BASE_INVALID_ARGUMENT,
                    "start: 17 is no id of the embedding that 'token' chooses from (17 rows)");
    options = usual;
    options.decoding.end = -4;
    expect_no_model(&decoder_parts_whole, &options, BASE_INVALID_ARGUMENT, "end: -4 is no id");
    options = usual;
    options.decoding.steps_max = 0;
    expect_no_model(&decoder_parts_whole, &options, BASE_INVALID_ARGUMENT,
                    "a decoder needs a bound of its steps: max-steps");
    options = usual;
    options.decoding.beam_width = CELL_BEAM_MAX + 1;
    expect_no_model(&decoder_parts_whole, &options, BASE_INVALID_ARGUMENT,
                    "a beam of 9; at most 8");
    options.decoding.beam_width = 2;
    options.decoding.length_penalty = -1.0f;
    expect_no_model(&decoder_parts_whole, &options, BASE_INVALID_ARGUMENT,
                    "a length penalty below 0");
    options.decoding.length_penalty = 1.0f;
    struct decoder_parts parts = decoder_parts_whole;
    parts.logits = "numbers";
    expect_no_model(&parts, &options, BASE_INVALID_ARGUMENT,
                    "decoder.onnx: a beam chooses by an output 'logits' of floats, which is not "
                    "there");
    parts = decoder_parts_whole;
    parts.token_next = "ids";
    options.decoding.has_start = options.decoding.has_end = false;
    expect_no_model(&parts, &options, BASE_INVALID_ARGUMENT,
                    "decoder.onnx: a beam chooses 'token', but no output 'token_next'");
}
END_TEST

START_TEST(test_parts_are_told_of_and_broken_ones_refused)
{
    char version[UTIL_PATH_BYTES];
    char path[2 * UTIL_PATH_BYTES];
    struct base_buf out;
    struct base_error error = {.message = ""};
    decoder_parts_write(folder, "talk", &decoder_parts_whole, version);
    const char *const lines[] = {"input   source INT64 [batch, time], ids 0..12\n",
                                 "input   s FP32 [batch, 24], optional\n",
                                 "input   style FP32 [batch, 2]\n",
                                 "output  token INT64 [batch, steps]\n",
                                 "output  logits FP32 [batch, steps, 17]\n",
                                 "output  lengths INT64 [batch]\n",
                                 "model/decoder (decoder): ",
                                 NULL};
    parts_expect_lines(folder, lines);
    base_buf_init(&out, 1 << 16);
    snprintf(path, sizeof(path), "--explain-model=%s", version);
    const char *const flags[] = {"cellbatchd", path, "--calibrate=off"};
    const struct cfg_input input = {.argc = 3, .argv = flags};
    struct cfg_config *config = NULL;
    ck_assert_msg(cfg_load(&input, &config, &error) == BASE_OK, "%s", error.message);
    ck_assert_msg(srv_explain_model(config, &out, &error) == BASE_OK, "%s", error.message);
    ck_assert_ptr_nonnull(memmem(out.data, out.length, "model/decoder (decoder)", 23));
    cfg_free(config);
    base_buf_release(&out);
    snprintf(path, sizeof(path), "%s/encoder.onnx", version);
    util_write_file(path, "no model");
    base_buf_init(&out, 1 << 16);
    ck_assert_int_eq(srv_check_model(folder, &out, &error), BASE_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(error.message, "talk/1: encoder.onnx: "));
    base_buf_release(&out);
}
END_TEST

static enum base_status load_part(struct cell_registry *registry, const void *version,
                                  struct cell_model **out)
{
    struct base_error error;
    return cell_model_load_decoder(registry, version, "test", &usual, out, &error);
}

/* An allocation that fails anywhere leaves nothing behind. */
START_TEST(test_loading_survives_every_failed_allocation)
{
    char version[UTIL_PATH_BYTES];
    decoder_parts_write(folder, "talk", &decoder_parts_whole, version);
    parts_fail_allocations(load_part, version);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("decoder_model");
    TCase *served = tcase_create("served");
    TCase *refused = tcase_create("refused");
    tcase_add_checked_fixture(served, setup, teardown);
    tcase_add_checked_fixture(refused, setup, teardown);
    tcase_set_timeout(served, 120);
    tcase_add_loop_test(served, test_decoders_in_company_and_alone, 0, 3);
    tcase_add_test(served, test_a_memory_of_the_client);
    tcase_add_test(served, test_a_long_answer_does_not_stop_the_warm_up);
    tcase_add_test(served, test_a_decoder_of_its_own);
    tcase_add_test(served, test_no_end_and_outputs_by_name);
    tcase_add_test(served, test_a_bound_of_steps_by_request);
    tcase_add_test(served, test_a_row_that_ends_leaves_at_once);
    suite_add_tcase(suite, served);
    tcase_add_test(refused, test_parts_that_do_not_fit_are_refused);
    tcase_add_test(refused, test_ids_and_bounds_are_checked);
    tcase_add_test(refused, test_parts_are_told_of_and_broken_ones_refused);
    tcase_add_test(refused, test_loading_survives_every_failed_allocation);
    suite_add_tcase(suite, refused);
    return util_run(suite);
}
