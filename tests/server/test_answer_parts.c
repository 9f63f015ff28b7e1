/* Answers of decoders that are taken in parts while they are made: put together they are the answer
 * that comes in one piece, bit by bit, however many rows a request has, however often somebody
 * looks, in company and alone. What has no steps, or is a search, comes with the end. */
#include "base/buf.h"
#include "base/mem.h"
#include "tests/server/decoder_parts.h"
#include "tests/server/gate.h"
#include "tests/server/parts.h"
#include "tests/server/site.h"
#include "tests/util.h"

#include <stdio.h>
#include <string.h>

enum { OUTPUTS_MAX = 4, ROWS_MAX = 4, TOGETHER = 40 };

static char folder[UTIL_PATH_BYTES];
static struct site site;

/* A request whose answer is taken in parts. */
struct reader {
    struct visit visit; /* first: progressed() and done() find the reader by it */
    struct base_random random;
    uint32_t skips; /* of 100 times that there is more it does not look */
    _Atomic uint32_t told, n_parts;
    uint32_t steps;     /* of all parts, the last among them */
    uint32_t expected;  /* parts, by has_parts() */
    uint32_t sizes[64]; /* steps of the first parts */
    uint32_t n_outputs;
    struct joined {
        char name[32];
        struct base_buf rows[ROWS_MAX]; /* steps of each row, or of texts the text */
        struct base_buf rest;           /* of an output without steps */
    } outputs[OUTPUTS_MAX];
    uint32_t wrong;
};

static void open_site(bool gated)
{
    struct site_options options;
    site_options_init(&options);
    options.repositories[0] = folder;
    options.engine.rows = 512;
    options.gated = gated;
    options.engine.backend = gated ? &gate_backend : options.engine.backend;
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

static void write_model(const char *name, const struct decoder_parts *parts)
{
    char version[UTIL_PATH_BYTES];
    decoder_parts_write(folder, name, parts, version);
}

/* ---- Reading ---- */

static struct joined *joined_of(struct reader *reader, const char *name)
{
    for (uint32_t o = 0; o < reader->n_outputs; o++) {
        if (strcmp(reader->outputs[o].name, name) == 0) {
            return &reader->outputs[o];
        }
    }
    struct joined *joined = &reader->outputs[reader->n_outputs++];
    snprintf(joined->name, sizeof(joined->name), "%s", name);
    return joined;
}

static bool is_text(const struct srv_tensor *tensor)
{
    return strcmp(tensor->datatype, SRV_BYTES) == 0;
}

static void take_text(struct joined *joined, const struct srv_tensor *tensor)
{
    size_t at = 0;
    for (uint32_t row = 0; at < tensor->bytes; row++) {
        uint32_t length = 0;
        memcpy(&length, tensor->data + at, sizeof(length));
        base_buf_add(&joined->rows[row], tensor->data + at + sizeof(length), length);
        at += sizeof(length) + length;
    }
}

/* Loop thread. */
static void take_outputs(struct reader *reader)
{
    const struct srv_request *request = &reader->visit.ask.request;
    int64_t steps = -1;
    for (uint32_t i = 0; i < request->n_outputs; i++) {
        const struct srv_tensor *tensor = &request->outputs[i];
        struct joined *joined = joined_of(reader, tensor->name);
        if (is_text(tensor)) {
            take_text(joined, tensor);
        } else if (tensor->rank < 2) {
            base_buf_add(&joined->rest, tensor->data, tensor->bytes);
        } else {
            reader->wrong += steps >= 0 && steps != tensor->shape[1] ? 1 : 0;
            steps = tensor->shape[1];
            const size_t bytes = tensor->bytes / (size_t)tensor->shape[0];
            for (uint32_t row = 0; row < (uint32_t)tensor->shape[0]; row++) {
                base_buf_add(&joined->rows[row], tensor->data + row * bytes, bytes);
            }
        }
    }
    reader->steps += steps > 0 ? (uint32_t)steps : 0;
}

/* Loop thread. */
static void progressed(struct srv_request *request)
{
    struct reader *reader = (struct reader *)(void *)request;
    atomic_fetch_add(&reader->told, 1);
    if (base_random_below(&reader->random, 100) < reader->skips) {
        return;
    }
    while (srv_request_take_part(request)) {
        // All was taken: nothing new comes of asking at once, but of what ran meanwhile.
        for (uint32_t i = 0; i < request->n_outputs; i++) {
            reader->wrong += strcmp(request->outputs[i].name, "lengths") == 0 ? 1 : 0;
        }
        const uint32_t before = reader->steps;
        take_outputs(reader);
        const uint32_t n = atomic_load(&reader->n_parts);
        reader->sizes[n % 64] = reader->steps - before;
        atomic_store(&reader->n_parts, n + 1);
    }
}

static void reader_start(struct reader *reader, const char *model, uint32_t n_rows, uint32_t skips,
                         struct base_random *random)
{
    memset(reader, 0, sizeof(*reader));
    base_random_init(&reader->random, base_random_below(random, 1000000));
    ask_init(&reader->visit.ask, site_find(&site, model), n_rows, 1 + base_random_below(random, 20),
             random, ASK_PLAIN);
    reader->visit.ask.request.model_name = model;
    reader->visit.ask.request.in_parts = true;
    reader->visit.ask.request.progressed = progressed;
    reader->skips = skips;
    for (uint32_t o = 0; o < OUTPUTS_MAX; o++) {
        for (uint32_t row = 0; row < ROWS_MAX; row++) {
            base_buf_init(&reader->outputs[o].rows[row], (size_t)1 << 20);
        }
        base_buf_init(&reader->outputs[o].rest, (size_t)1 << 20);
    }
}

static void reader_release(struct reader *reader)
{
    for (uint32_t o = 0; o < OUTPUTS_MAX; o++) {
        for (uint32_t row = 0; row < ROWS_MAX; row++) {
            base_buf_release(&reader->outputs[o].rows[row]);
        }
        base_buf_release(&reader->outputs[o].rest);
    }
    ask_release(&reader->visit.ask);
}

static void expect_ok(struct visit *visit)
{
    visit_wait(visit);
    ck_assert_msg(visit->ask.request.error.status == BASE_OK, "%s",
                  visit->ask.request.error.message);
}

/* What the parts had of an output is what it has in one piece. */
static void expect_output(struct reader *reader, const struct srv_tensor *want)
{
    struct joined *joined = joined_of(reader, want->name);
    struct joined whole = {.name = ""};
    if (!is_text(want) && want->rank < 2) {
        ck_assert_uint_eq(joined->rest.length, want->bytes);
        ck_assert_mem_eq(joined->rest.data, want->data, want->bytes);
        return;
    }
    for (uint32_t row = 0; row < ROWS_MAX; row++) {
        base_buf_init(&whole.rows[row], (size_t)1 << 20);
    }
    if (is_text(want)) {
        take_text(&whole, want);
    }
    const uint32_t n_rows = (uint32_t)want->shape[0];
    const size_t bytes = want->bytes / n_rows;
    for (uint32_t row = 0; row < n_rows; row++) {
        if (!is_text(want)) {
            base_buf_add(&whole.rows[row], want->data + row * bytes, bytes);
        }
        ck_assert_uint_eq(joined->rows[row].length, whole.rows[row].length);
        ck_assert_mem_eq(joined->rows[row].data, whole.rows[row].data, whole.rows[row].length);
        base_buf_release(&whole.rows[row]);
    }
}

/* The same request, answered in one piece, has what the parts and the end had. */
static void expect_whole(struct reader *reader)
{
    static struct visit again;
    expect_ok(&reader->visit);
    take_outputs(reader);
    ck_assert_uint_eq(reader->wrong, 0);
    memset(&again, 0, sizeof(again));
    again.ask = reader->visit.ask;
    base_arena_init(&again.ask.request.arena, 4096, (size_t)64 << 20);
    again.ask.request.in_parts = false;
    again.ask.request.n_outputs = 0;
    visit_start(&site, &again);
    expect_ok(&again);
    for (uint32_t i = 0; i < again.ask.request.n_outputs; i++) {
        expect_output(reader, &again.ask.request.outputs[i]);
    }
    ask_release(&again.ask);
}

/* ---- Cases ---- */

/* Requests of all sizes at once; each looks as often as it likes. The last model is of halves. */
START_TEST(test_parts_are_the_whole)
{
    static struct reader readers[TOGETHER];
    struct base_random random = util_random(21);
    struct decoder_parts parts = decoder_parts_whole;
    parts.is_narrow = _i == 1;
    parts.attends = _i == 2;
    parts.config = _i == 3 ? "unfold: seq2seq\nstart: 2\nmax-steps: 2000\n" : parts.config;
    write_model("talk", &parts);
    if (_i == 4) {
        char version[2 * UTIL_PATH_BYTES];
        snprintf(version, sizeof(version), "%s/talk/1", folder);
        parts_halve(version, "encoder");
        parts_halve(version, "decoder");
    }
    open_site(false);
    for (uint32_t i = 0; i < TOGETHER; i++) {
        const uint32_t skips[] = {0, 50, 100};
        reader_start(&readers[i], "talk", 1 + base_random_below(&random, ROWS_MAX), skips[i % 3],
                     &random);
        visit_start(&site, &readers[i].visit);
    }
    for (uint32_t i = 0; i < TOGETHER; i++) {
        expect_whole(&readers[i]);
        reader_release(&readers[i]);
    }
    site_close(&site);
}
END_TEST

static bool has_parts(void *argument)
{
    const struct reader *reader = argument;
    return atomic_load(&reader->n_parts) == reader->expected;
}

static void write_metrics(struct site *of, void *argument)
{
    srv_core_write_metrics(of->core, argument);
}

/* Of one request with two parts before its end, and one that wanted none. */
static void expect_metrics(void)
{
    struct base_buf text;
    base_buf_init(&text, (size_t)1 << 20);
    site_call(&site, write_metrics, &text);
    ck_assert_ptr_nonnull(
        strstr(text.data, "\ncellbatch_answer_parts_total{model=\"talk\",version=\"1\"} 2\n"));
    ck_assert_ptr_nonnull(strstr(text.data,
                                 "\ncellbatch_first_part_duration_seconds_count{model=\"talk\","
                                 "version=\"1\"} 1\n"));
    base_buf_release(&text);
}

/* A site that serves one decoder as "talk". */
static void open_talk(bool has_encoder, const char *config, bool gated)
{
    struct decoder_parts parts = decoder_parts_whole;
    parts.has_encoder = has_encoder;
    parts.config = config;
    write_model("talk", &parts);
    open_site(gated);
}

/* Eight steps, then eight, then the end with the rest: told each time, and no step twice. */
START_TEST(test_one_request_alone)
{
    static struct reader reader;
    struct base_random random = util_random(22);
    open_talk(false, "unfold: seq2seq\nstart: 2\nmax-steps: 20\n", true);
    gate_close();
    reader_start(&reader, "talk", 1, 0, &random);
    visit_start(&site, &reader.visit);
    for (uint32_t i = 1; i <= 2; i++) {
        gate_let(1);
        reader.expected = i;
        ck_assert(site_until(has_parts, &reader));
        ck_assert(!visit_is_done(&reader.visit));
    }
    gate_open();
    expect_whole(&reader);
    expect_metrics();
    ck_assert_uint_eq(atomic_load(&reader.n_parts), 2);
    ck_assert_uint_eq(atomic_load(&reader.told), 2);
    ck_assert_uint_eq(reader.sizes[0], 8);
    ck_assert_uint_eq(reader.sizes[1], 8);
    ck_assert_uint_eq(reader.steps, 20);
    reader_release(&reader);
    site_close(&site);
}
END_TEST

/* The same of a batch whose rows end at different steps: behind a short row stand end ids. */
START_TEST(test_row_that_is_over_before_another)
{
    static struct reader reader;
    struct base_random random = util_random(28);
    open_talk(false, "unfold: seq2seq\nend: 5\nmax-steps: 60\n", true);
    uint32_t n_short = 0;
    for (uint32_t i = 0; i < 40; i++) {
        reader_start(&reader, "talk", ROWS_MAX, 0, &random);
        visit_start(&site, &reader.visit);
        expect_whole(&reader);
        const struct joined *lengths = joined_of(&reader, "lengths");
        for (uint32_t row = 0; row < ROWS_MAX; row++) {
            int64_t length = 0;
            memcpy(&length, lengths->rest.data + row * sizeof(length), sizeof(length));
            n_short += (uint32_t)length < reader.steps ? 1 : 0;
        }
        reader_release(&reader);
    }
    ck_assert_uint_gt(n_short, 0);
    site_close(&site);
}
END_TEST

/* One step a batch: what nobody looks at is in the next part, of one that is slow in few. */
START_TEST(test_who_is_slow_gets_larger_parts)
{
    static struct reader readers[2];
    struct base_random random = util_random(23);
    open_talk(true, "unfold: seq2seq\nstart: 2\nmax-steps: 64\n", false);
    for (uint32_t i = 0; i < 2; i++) {
        reader_start(&readers[i], "talk", 2, i == 0 ? 0 : 90, &random);
        visit_start(&site, &readers[i].visit);
    }
    for (uint32_t i = 0; i < 2; i++) {
        expect_whole(&readers[i]);
        ck_assert_uint_eq(readers[i].steps, 64);
        ck_assert_uint_le(atomic_load(&readers[i].n_parts), atomic_load(&readers[i].told));
        reader_release(&readers[i]);
    }
    site_close(&site);
}
END_TEST

/* Only what was asked for; and what has no steps alone comes whole. */
START_TEST(test_outputs_by_name)
{
    static const char *const wanted[] = {"lengths", "token"};
    static struct reader reader;
    struct base_random random = util_random(24);
    open_talk(true, "unfold: seq2seq\nstart: 2\nmax-steps: 40\n", false);
    for (uint32_t n = 1; n <= 2; n++) {
        reader_start(&reader, "talk", 2, 0, &random);
        reader.visit.ask.request.n_wanted = n;
        reader.visit.ask.request.wanted = wanted;
        visit_start(&site, &reader.visit);
        expect_whole(&reader);
        ck_assert_uint_eq(reader.n_outputs, n);
        ck_assert(n == 2 || atomic_load(&reader.n_parts) == 0);
        reader_release(&reader);
    }
    site_close(&site);
}
END_TEST

/* Chains and searches are answered in one piece. */
START_TEST(test_what_has_no_parts)
{
    static struct reader reader;
    struct base_random random = util_random(25);
    struct decoder_parts parts = decoder_parts_whole;
    parts.config = "unfold: seq2seq\nstart: 2\nend: 5\nmax-steps: 20\nbeam: 3\n";
    write_model("search", &parts);
    open_site(false);
    for (uint32_t i = 0; i < 2; i++) {
        reader_start(&reader, i == 0 ? "search" : "chain", 2, 0, &random);
        visit_start(&site, &reader.visit);
        expect_ok(&reader.visit);
        ck_assert_uint_eq(atomic_load(&reader.told), 0);
        ck_assert(i == 0 || ask_error(&reader.visit.ask) < 1e-4);
        reader_release(&reader);
    }
    site_close(&site);
}
END_TEST

/* Who answers once cannot. */
START_TEST(test_refused_where_there_is_one_answer)
{
    static struct reader reader;
    struct base_random random = util_random(29);
    write_model("talk", &decoder_parts_whole);
    open_site(false);
    reader_start(&reader, "chain", 1, 0, &random);
    reader.visit.ask.request.progressed = NULL;
    visit_start(&site, &reader.visit);
    visit_wait(&reader.visit);
    ck_assert_int_eq(reader.visit.ask.request.error.status, BASE_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(reader.visit.ask.request.error.message, "'stream'"));
    reader_release(&reader);
    site_close(&site);
}
END_TEST

/* Somebody leaves in the middle: nothing is told behind the cancel, and nothing is left. */
START_TEST(test_cancelled_in_the_middle)
{
    static struct reader reader;
    struct base_random random = util_random(26);
    open_talk(false, "unfold: seq2seq\nstart: 2\nmax-steps: 100000\n", true);
    gate_close();
    reader_start(&reader, "talk", 1, 0, &random);
    visit_start(&site, &reader.visit);
    for (uint32_t i = 1; i <= 3; i++) {
        gate_let(1);
        reader.expected = i;
        ck_assert(site_until(has_parts, &reader));
    }
    visit_cancel(&reader.visit, BASE_CANCELLED);
    gate_open();
    visit_wait(&reader.visit);
    ck_assert_int_eq(reader.visit.ask.request.error.status, BASE_CANCELLED);
    ck_assert_uint_eq(atomic_load(&reader.n_parts), 3);
    ck_assert_uint_eq(site_rows(&site), 0);
    reader_release(&reader);
    site_close(&site);
}
END_TEST

/* Text behind text, with a blank between words of two parts. */
START_TEST(test_texts)
{
    static struct reader readers[TOGETHER];
    struct base_random random = util_random(27);
    struct decoder_parts parts = decoder_parts_whole;
    char path[UTIL_PATH_BYTES + 64];
    parts.config = _i == 0 ? "unfold: seq2seq\nstart: 2\nmax-steps: 2000\n"
                             "vocabularies: token=words:ids.txt\n"
                           : "unfold: seq2seq\nstart: 2\nmax-steps: 2000\n"
                             "vocabularies: token=characters:ids.txt\n";
    write_model("talk", &parts);
    snprintf(path, sizeof(path), "%s/talk/ids.txt", folder);
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    for (uint32_t i = 0; i < DECODER_IDS; i++) {
        fprintf(file, _i == 0 ? "word%u\n" : "%c\n", _i == 0 ? i : 'a' + i);
    }
    ck_assert_int_eq(fclose(file), 0);
    open_site(false);
    for (uint32_t i = 0; i < TOGETHER; i++) {
        reader_start(&readers[i], "talk", 1 + base_random_below(&random, ROWS_MAX), 30, &random);
        visit_start(&site, &readers[i].visit);
    }
    for (uint32_t i = 0; i < TOGETHER; i++) {
        expect_whole(&readers[i]);
        reader_release(&readers[i]);
    }
    site_close(&site);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("answer parts");
    TCase *tcase = tcase_create("parts");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, test_parts_are_the_whole, 0, 5);
    tcase_add_test(tcase, test_one_request_alone);
    tcase_add_test(tcase, test_row_that_is_over_before_another);
    tcase_add_test(tcase, test_who_is_slow_gets_larger_parts);
    tcase_add_test(tcase, test_outputs_by_name);
    tcase_add_test(tcase, test_what_has_no_parts);
    tcase_add_test(tcase, test_refused_where_there_is_one_answer);
    tcase_add_test(tcase, test_cancelled_in_the_middle);
    tcase_add_loop_test(tcase, test_texts, 0, 2);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
