/* Sessions of models whose cells read steps beside their own: convolutions and pools that look
 * back, ahead, or both, with strides and without padding, shifts; and of some others. What earlier
 * requests had is kept, and what needs later ones waits for them, so that the answers to parts of
 * any size are, one behind the other, that of the whole, bit by bit, whoever else is there. */
#include "tests/server/site.h"
#include "tests/util.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PARTS_MAX = 12, ROWS_MAX = 3, STEPS_MAX = 400 };

#define RECURRENT "states: recurrent\n"

/* Exports under tests/data/onnx, and their config.yaml. */
static const struct {
    const char *name, *export, *config;
} models[] = {
    {"attended", "stream_attended-ts1.13-op17", RECURRENT},
    {"bands", "stream_bands-ts1.13-op17", RECURRENT},
    {"bands_newer", "stream_bands-external2.15-op20", RECURRENT},
    {"behind", "conv_behind-ts1.13-op17", RECURRENT},
    {"between", "conv_between-ts1.13-op17", RECURRENT},
    {"cached", "stream_cached-ts1.13-op17",
     "states: first_kept=first_next,second_kept=second_next,h0=hn\n"},
    {"causal", "conv_causal-ts1.13-op17", RECURRENT},
    {"chunked", "chunk_left-ts1.13-op17", RECURRENT},
    {"chunks_apart", "chunk_distances-external2.15-op20", RECURRENT "max-sequence-length: 150\n"},
    {"chunks_to_end", "chunk_to_end-external2.15-op20", RECURRENT "max-sequence-length: 150\n"},
    {"clips", "clips_strided-external2.15-op20", RECURRENT},
    {"convolved", "stream_convolved-ts1.13-op17", RECURRENT},
    {"coded", "stream_coded-external2.15-op20", RECURRENT},
    {"counted", "stream_counted-ts1.13-op17", RECURRENT},
    {"cumulative", "conv_cumulative-ts1.13-op17", RECURRENT},
    {"deep", "conv_deep-ts1.13-op17", RECURRENT},
    {"denoised", "stream_denoised-external2.15-op20", RECURRENT},
    {"denoised_older", "stream_denoised-ts1.13-op17", RECURRENT},
    {"denoiser", "transposed_denoiser-ts1.13-op17", RECURRENT},
    {"early", "stream_early-ts1.13-op17", RECURRENT},
    {"encoded", "stream_encoded-ts1.13-op17", RECURRENT},
    {"enhanced", "stream_enhanced-external2.15-op20", RECURRENT},
    {"exponential", "loop_exponential-ts1.13-op17", RECURRENT},
    {"frames", "conv_frames-ts1.13-op17", RECURRENT},
    {"gated", "loop_mixed-ts1.13-op17", RECURRENT},
    {"keras", "keras_conv-tf2.15-op15", RECURRENT},
    {"labels", "conv_residual-ts1.13-op17", RECURRENT "ctc: y\n"},
    {"learned", "learned_state-ts1.13-op14", RECURRENT},
    {"mamba", "loop_mamba-ts1.13-op17", RECURRENT},
    {"pairs", "regroup_pairs-ts1.13-op17", RECURRENT},
    {"pictures", "picture_residual-ts1.13-op17", RECURRENT},
    {"pixels", "regroup_pixels-ts1.13-op17", RECURRENT},
    {"placed", "stream_placed-ts1.13-op17", RECURRENT},
    {"pools", "picture_pools-ts1.13-op17", RECURRENT},
    {"raised", "stream_raised-ts1.13-op17", RECURRENT},
    {"recogniser", "chunk_recogniser-ts1.13-op17", RECURRENT},
    {"recogniser_newer", "chunk_recogniser-external2.15-op20", RECURRENT},
    {"recalling", "stream_recalling-ts1.13-op17", RECURRENT "max-sequence-length: 150\n"},
    {"repeated", "regroup_repeated-external2.15-op20", RECURRENT},
    {"residual", "conv_residual-ts1.13-op17", RECURRENT},
    {"samples", "regroup_samples-external2.15-op20", RECURRENT},
    {"shifted", "stream_shifted-ts1.13-op17", RECURRENT},
    {"shuffled", "regroup_shuffled-ts1.13-op17", RECURRENT},
    {"sloped", "stream_sloped-ts1.13-op17", RECURRENT "max-sequence-length: 160\n"},
    {"sloped_newer", "stream_sloped-external2.15-op20", RECURRENT "max-sequence-length: 160\n"},
    {"spectral", "transposed_spectral-ts1.13-op17", RECURRENT},
    {"spectrum", "function_spectrum-external2.15-op20", RECURRENT},
    {"speech", "transposed_speech-ts1.13-op17", RECURRENT},
    {"spoken", "stream_spoken-ts1.13-op17", RECURRENT},
    {"subsampled", "stream_subsampled-ts1.13-op17", RECURRENT},
    {"static", "repeated_static-ts1.13-op17", RECURRENT},
    {"turned", "stream_turned-ts1.13-op17", RECURRENT},
    {"voiced", "stream_voiced-external2.15-op20", RECURRENT},
    {"waveform", "transposed_waveform-ts1.13-op17", RECURRENT},
    {"waveform_newer", "transposed_waveform-external2.15-op20", RECURRENT},
};
enum { MODELS = sizeof(models) / sizeof(models[0]) };

static char folder[UTIL_PATH_BYTES];
static struct site site;
static struct base_random numbers;

static void write_repository(void)
{
    char path[UTIL_PATH_BYTES + 64];
    char export[UTIL_PATH_BYTES];
    char relative[128];
    for (uint32_t m = 0; m < MODELS; m++) {
        snprintf(path, sizeof(path), "%s/%s", folder, models[m].name);
        ck_assert_int_eq(mkdir(path, 0700), 0);
        snprintf(path, sizeof(path), "%s/%s/config.yaml", folder, models[m].name);
        util_write_file(path, models[m].config);
        snprintf(path, sizeof(path), "%s/%s/1", folder, models[m].name);
        snprintf(relative, sizeof(relative), "tests/data/onnx/%s", models[m].export);
        util_repo_path(export, relative);
        ck_assert_int_eq(symlink(export, path), 0);
    }
}

/* _i of a loop test: one thread; two; the tests' device, batches of one step. */
static void open_site(int kind)
{
    struct site_options options;
    site_options_init(&options);
    options.repositories[0] = folder;
    options.engine.backend = kind == 2 ? options.engine.backend : cell_backend_find("cpu");
    options.engine.team_threads = kind == 1 ? 2 : 1;
    options.engine.run_steps_max = kind == 2 ? 1 : options.engine.run_steps_max;
    options.engine.rows = 512;
    options.core.queue_max = 1000;
    options.core.sequence_length_max = STEPS_MAX;
    site_open(&site, &options);
    numbers = util_random(5);
}

static void setup(void)
{
    util_temp_dir(folder);
    write_repository();
}

static void teardown(void)
{
    util_remove_tree(folder);
}

/* ---- A sequence, whole and in parts ---- */

struct course {
    uint32_t model, n_rows, n_parts, steps[PARTS_MAX];
    char id[16];
    struct visit whole, parts[PARTS_MAX];
};

/* Of a tensor with a time axis: the elements before it, and the bytes of a step behind it. */
static size_t outer_of(const struct srv_tensor *tensor, uint32_t axis)
{
    size_t outer = 1;
    for (uint32_t k = 0; k < axis; k++) {
        outer *= (size_t)tensor->shape[k];
    }
    return outer;
}

static void cut_steps(const struct srv_tensor *whole, uint32_t axis, uint32_t first,
                      const struct srv_tensor *part, uint8_t *to)
{
    const size_t outer = outer_of(whole, axis);
    const size_t n_whole = (size_t)whole->shape[axis];
    const size_t n_part = (size_t)part->shape[axis];
    const size_t step = n_part == 0 ? 0 : part->bytes / outer / n_part;
    for (size_t o = 0; o < outer; o++) {
        memcpy(to + o * n_part * step, whole->data + (o * n_whole + first) * step, n_part * step);
    }
}

/* The part as a request of the session, ready to be started; also one more time. */
static void make_part(struct course *course, uint32_t part)
{
    struct visit *visit = &course->parts[part];
    struct ask *whole = &course->whole.ask;
    uint32_t first = 0;
    for (uint32_t p = 0; p < part; p++) {
        first += course->steps[p];
    }
    memset(visit, 0, sizeof(*visit));
    ask_init(&visit->ask, whole->cells, course->n_rows, course->steps[part], &numbers, ASK_PLAIN);
    visit->ask.request.model_name = models[course->model].name;
    for (uint32_t i = 0; i < visit->ask.request.n_inputs; i++) {
        struct srv_tensor *tensor = &visit->ask.request.inputs[i];
        const uint32_t n =
            cell_tensor_find(whole->cells->inputs, whole->cells->n_inputs, tensor->name);
        uint8_t *data = base_arena_alloc(&visit->ask.request.arena, tensor->bytes);
        ck_assert_ptr_nonnull(data);
        const int32_t axis = whole->cells->inputs[n].time_axis;
        if (axis < 0) { // what has no steps comes with each part
            memcpy(data, ask_input(whole, tensor->name)->data, tensor->bytes);
        } else {
            cut_steps(ask_input(whole, tensor->name), (uint32_t)axis, first, tensor, data);
        }
        tensor->data = data;
    }
    visit->ask.request.sequence = (struct srv_sequence){
        .id = course->id, .is_start = part == 0, .is_end = part + 1 == course->n_parts};
}

/* Whether a request of so many steps leaves each stage one whose last step is read. */
static bool has_all_last(const struct cell_model *cells, uint32_t before, uint32_t steps,
                         bool is_end)
{
    int64_t from[CELL_STAGES_MAX];
    int64_t to[CELL_STAGES_MAX];
    bool has_all = true;
    cell_stream_steps(cells, before, false, from);
    cell_stream_steps(cells, (int64_t)before + steps, is_end, to);
    for (uint32_t s = 0; cells->stream.is_on && s < cells->n_stages; s++) {
        has_all = has_all && (!cells->stream.has_last[s] || to[s] > from[s]);
    }
    return has_all;
}

static bool may_end(const struct cell_model *cells, uint32_t steps)
{
    return !cells->stream.is_on || cell_stream_unmet(cells, steps) == CELL_SEQUENCES_MAX;
}

/* The answer to all steps at once, and the parts to be sent. */
static void ask_whole(struct course *course, uint32_t steps)
{
    const char *name = models[course->model].name;
    ask_init(&course->whole.ask, site_find(&site, name), course->n_rows, steps, &numbers,
             ASK_PLAIN);
    course->whole.ask.request.model_name = name;
    visit_start(&site, &course->whole);
    visit_wait(&course->whole);
    ck_assert_msg(course->whole.ask.request.error.status == BASE_OK, "%s: %s", name,
                  course->whole.ask.request.error.message);
    for (uint32_t p = 0; p < course->n_parts; p++) {
        make_part(course, p);
    }
}

/* Random parts; the whole is answered when this returns. */
static void begin(struct course *course, uint32_t model, const char *id)
{
    const struct cell_model *cells = site_find(&site, models[model].name);
    uint32_t steps = 0;
    memset(&course->whole, 0, sizeof(course->whole));
    course->model = model;
    course->n_rows = 1 + base_random_below(&numbers, ROWS_MAX);
    course->n_parts = 2 + base_random_below(&numbers, PARTS_MAX - 1);
    snprintf(course->id, sizeof(course->id), "%s", id);
    for (uint32_t p = 0; p < course->n_parts; p++) {
        const bool is_end = p + 1 == course->n_parts;
        const bool is_short = base_random_below(&numbers, 2) == 0;
        const bool is_empty = is_end && is_short && cells->stream.is_on; // what is left, no more
        course->steps[p] = is_empty ? 0 : 1 + base_random_below(&numbers, is_short ? 2 : 9);
        while (!has_all_last(cells, steps, course->steps[p], is_end) ||
               (is_end && !may_end(cells, steps + course->steps[p]))) {
            course->steps[p]++;
        }
        steps += course->steps[p];
    }
    ask_whole(course, steps);
}

/* Every step of every part has the whole's bits, and what is answered once those of the last part.
 */
static void expect(struct course *course)
{
    const struct cell_model *cells = course->whole.ask.cells;
    uint32_t n_steps[CELL_TENSORS_MAX] = {0};
    for (uint32_t p = 0; p < course->n_parts; p++) {
        struct visit *part = &course->parts[p];
        visit_wait(part);
        ck_assert_msg(part->ask.request.error.status == BASE_OK, "%s: part %u: %s",
                      models[course->model].name, p, part->ask.request.error.message);
        ck_assert_uint_eq(part->ask.request.n_outputs, course->whole.ask.request.n_outputs);
        for (uint32_t i = 0; i < part->ask.request.n_outputs; i++) {
            const struct srv_tensor *got = &part->ask.request.outputs[i];
            const struct srv_tensor *right = ask_output(&course->whole.ask, got->name);
            const uint32_t o = cell_tensor_find(cells->outputs, cells->n_outputs, got->name);
            const int32_t axis = cells->outputs[o].time_axis;
            ck_assert_ptr_nonnull(right);
            if (cells->labels.is_on) {
                continue; // not by steps
            }
            if (axis < 0 && p + 1 < course->n_parts) {
                continue; // as of what there has been so far
            }
            uint8_t *wanted = base_arena_alloc(&part->ask.request.arena, got->bytes);
            ck_assert_ptr_nonnull(wanted);
            if (axis < 0) {
                memcpy(wanted, right->data, got->bytes);
            } else if (got->bytes > 0) {
                cut_steps(right, (uint32_t)axis, n_steps[o], got, wanted);
                n_steps[o] += (uint32_t)got->shape[axis];
            }
            ck_assert_msg(memcmp(got->data, wanted, got->bytes) == 0, "%s: part %u of %u: '%s'",
                          models[course->model].name, p, course->n_parts, got->name);
        }
    }
    for (uint32_t o = 0; o < cells->n_outputs; o++) {
        const struct srv_tensor *right = ask_output(&course->whole.ask, cells->outputs[o].name);
        if (right != NULL && cells->outputs[o].time_axis >= 0 && !cells->labels.is_on) {
            ck_assert_int_eq(right->shape[cells->outputs[o].time_axis], n_steps[o]);
        }
    }
}

static void end(struct course *course)
{
    for (uint32_t p = 0; p < course->n_parts; p++) {
        ask_release(&course->parts[p].ask);
    }
    ask_release(&course->whole.ask);
}

/* All models' at once, each part sent before the one before it is answered. */
START_TEST(test_parts_have_the_bits_of_the_whole)
{
    enum { ROUNDS = 4 };
    static struct course courses[MODELS * ROUNDS];
    open_site(_i);
    for (uint32_t k = 0; k < MODELS * ROUNDS; k++) {
        char id[16];
        snprintf(id, sizeof(id), "s%u", k);
        begin(&courses[k], k % MODELS, id);
    }
    for (uint32_t p = 0; p < PARTS_MAX; p++) {
        for (uint32_t k = 0; k < MODELS * ROUNDS; k++) {
            if (p < courses[k].n_parts) {
                visit_start(&site, &courses[k].parts[p]);
            }
        }
    }
    for (uint32_t k = 0; k < MODELS * ROUNDS; k++) {
        expect(&courses[k]);
        end(&courses[k]);
    }
    site_close(&site);
}
END_TEST

static void start_and_wait(struct visit *visit)
{
    visit_start(&site, visit);
    visit_wait(visit);
}

/* Steps that attend to the end of their chunk are answered when it is full, and not later: also
 * behind a second such layer. */
START_TEST(test_chunks_are_answered_when_they_are_full)
{
    static const struct {
        const char *model;
        uint32_t first, next, n; /* steps until a chunk is full, the first and others; of those */
    } cases[] = {{"chunked", 3, 3, 3},
                 {"chunks_to_end", 3, 3, 3},
                 {"recogniser", 7, 6, 3},
                 {"recogniser_newer", 7, 6, 3}};
    static struct course course;
    open_site(0);
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        memset(&course, 0, sizeof(course));
        course.n_rows = 2;
        course.n_parts = PARTS_MAX;
        snprintf(course.id, sizeof(course.id), "full");
        while (strcmp(models[course.model].name, cases[c].model) != 0) {
            course.model++;
        }
        for (uint32_t p = 0; p < PARTS_MAX; p++) {
            course.steps[p] = 1;
        }
        ask_whole(&course, PARTS_MAX);
        for (uint32_t p = 0; p + 1 < PARTS_MAX; p++) {
            const uint32_t given = p + 1;
            const bool is_full =
                given >= cases[c].first && (given - cases[c].first) % cases[c].next == 0;
            start_and_wait(&course.parts[p]);
            const struct srv_tensor *y = ask_output(&course.parts[p].ask, "y");
            ck_assert_ptr_nonnull(y);
            ck_assert_int_eq(y->shape[1], is_full ? cases[c].n : 0);
        }
        start_and_wait(&course.parts[PARTS_MAX - 1]);
        expect(&course);
        end(&course);
    }
    site_close(&site);
}
END_TEST

/* A part that failed changes nothing, and is sent again; so is one that was refused for its steps.
 */
START_TEST(test_a_part_that_fails_changes_nothing)
{
    static struct course course;
    open_site(0);
    for (uint32_t m = 0; m < MODELS; m++) {
        if (strcmp(models[m].name, "labels") == 0) {
            continue; // labels are not answered by steps
        }
        begin(&course, m, "once more");
        start_and_wait(&course.parts[0]);
        struct visit *spoilt = &course.parts[1];
        spoilt->ask.request.inputs[0].datatype = "BYTES"; // no model of these has words
        start_and_wait(spoilt);
        ck_assert_int_eq(spoilt->ask.request.error.status, BASE_INVALID_ARGUMENT);
        ask_release(&spoilt->ask);
        make_part(&course, 1);
        for (uint32_t p = 1; p < course.n_parts; p++) {
            start_and_wait(&course.parts[p]);
        }
        expect(&course);
        end(&course);
    }
    site_close(&site);
}
END_TEST

/* Of 'subsampled' four steps are one, of which the last is answered besides. */
START_TEST(test_steps_that_leave_no_last_one)
{
    static struct course course;
    uint32_t model = 0;
    while (strcmp(models[model].name, "subsampled") != 0) {
        model++;
    }
    open_site(0);
    begin(&course, model, "strides");
    for (uint32_t steps = 1; steps < 4; steps++) {
        struct visit few = {.site = NULL};
        ask_init(&few.ask, course.whole.ask.cells, 1, steps, &numbers, ASK_PLAIN);
        few.ask.request.model_name = models[course.model].name;
        few.ask.request.sequence.id = "strides";
        few.ask.request.sequence.is_start = true;
        start_and_wait(&few);
        ck_assert_int_eq(few.ask.request.error.status, BASE_INVALID_ARGUMENT);
        char text[128];
        snprintf(text, sizeof(text), "%u steps behind 0 of the session, of which the model's",
                 steps);
        ck_assert_msg(strstr(few.ask.request.error.message, text) != NULL, "%s",
                      few.ask.request.error.message);
        ask_release(&few.ask);
    }
    for (uint32_t p = 0; p < course.n_parts; p++) {
        start_and_wait(&course.parts[p]);
    }
    expect(&course);
    end(&course);
    site_close(&site);
}
END_TEST

/* A sequence that the model would refuse as a whole does not end as a session. */
START_TEST(test_ends_that_are_none)
{
    static const struct {
        const char *model, *why;
        uint32_t wrong, right;
    } cases[] = {{"pairs", "5 steps of row 0, which the model does not part evenly", 5, 1},
                 {"spectrum", "5 steps of row 0, of which the model's strides", 5, 20}};
    open_site(0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct cell_model *cells = site_find(&site, cases[i].model);
        for (uint32_t p = 0; p < 2; p++) {
            struct visit visit = {.site = NULL};
            ask_init(&visit.ask, cells, 1, cases[i].wrong + (p == 0 ? 0 : cases[i].right), &numbers,
                     ASK_PLAIN);
            visit.ask.request.model_name = cases[i].model;
            visit.ask.request.sequence =
                (struct srv_sequence){.id = "odd", .is_start = true, .is_end = true};
            start_and_wait(&visit);
            ck_assert_int_eq(visit.ask.request.error.status,
                             p == 0 ? BASE_INVALID_ARGUMENT : BASE_OK);
            ck_assert_msg(p > 0 || strstr(visit.ask.request.error.message, cases[i].why) != NULL,
                          "%s", visit.ask.request.error.message);
            ask_release(&visit.ask);
        }
    }
    site_close(&site);
}
END_TEST

/* A table of positions, and what is attended to from the first step on, bound all parts together;
 * one that does not fit changes nothing. */
START_TEST(test_sessions_that_are_too_long)
{
    static const struct {
        const char *model, *why;
        uint32_t most;
    } cases[] = {
        {"placed", "steps of row 0, where the model has a table of positions of 130", 130},
        {"recalling", "steps of row 0, at most 150, all of which the model attends to", 150}};
    open_site(0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct cell_model *cells = site_find(&site, cases[i].model);
        const uint32_t steps[] = {cases[i].most - 30, 31, 30, 1};
        for (uint32_t p = 0; p < 4; p++) {
            struct visit visit = {.site = NULL};
            const bool fits = p == 0 || p == 2;
            ask_init(&visit.ask, cells, 1, steps[p], &numbers, ASK_PLAIN);
            visit.ask.request.model_name = cases[i].model;
            visit.ask.request.sequence = (struct srv_sequence){.id = "long", .is_start = p == 0};
            start_and_wait(&visit);
            ck_assert_msg(visit.ask.request.error.status ==
                              (fits ? BASE_OK : BASE_INVALID_ARGUMENT),
                          "%s: %u: %s", cases[i].model, p, visit.ask.request.error.message);
            ck_assert_msg(fits || strstr(visit.ask.request.error.message, cases[i].why) != NULL,
                          "%s", visit.ask.request.error.message);
            ask_release(&visit.ask);
        }
    }
    site_close(&site);
}
END_TEST

/* How many steps each row has had, as the client says. */
static struct srv_tensor count_tensor(const struct course *course, const int64_t *rows)
{
    const struct cell_model *cells = course->whole.ask.cells;
    return (struct srv_tensor){.name = cells->inputs[cells->stream.count_input].name,
                               .datatype = "INT64",
                               .rank = 2,
                               .shape = {course->n_rows, 1},
                               .data = (const uint8_t *)rows,
                               .bytes = course->n_rows * sizeof(rows[0])};
}

/* Steps so far that nobody can have had. */
START_TEST(test_counts_that_are_none)
{
    static const int64_t counts[] = {-1, INT64_MIN, CELL_STREAM_STEPS_MAX + 1, INT64_MAX};
    static struct course course;
    struct srv_tensor inputs[2];
    uint32_t model = 0;
    while (strcmp(models[model].name, "residual") != 0) {
        model++;
    }
    open_site(0);
    for (uint32_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        begin(&course, model, "counted");
        struct srv_request *request = &course.parts[0].ask.request;
        const struct cell_model *cells = course.whole.ask.cells;
        const int64_t rows[ROWS_MAX] = {counts[i], 0, 0};
        ck_assert(cells->stream.counts);
        inputs[0] = request->inputs[0];
        inputs[1] = count_tensor(&course, rows);
        request->inputs = inputs;
        request->n_inputs = 2;
        start_and_wait(&course.parts[0]);
        ck_assert_int_eq(request->error.status, BASE_INVALID_ARGUMENT);
        ck_assert_msg(strstr(request->error.message, "steps of row 0, expected 0..") != NULL, "%s",
                      request->error.message);
        end(&course);
    }
    site_close(&site);
}
END_TEST

/* Steps so far that one may have had, and nobody did: an answer, or too many for the model. */
START_TEST(test_counts_that_are_far)
{
    static struct course course;
    uint32_t n_answered = 0;
    uint32_t n_refused = 0;
    open_site(0);
    for (uint32_t m = 0; m < MODELS; m++) {
        begin(&course, m, "far");
        const struct cell_model *cells = course.whole.ask.cells;
        const int64_t most = CELL_STREAM_STEPS_MAX - STEPS_MAX - base_random_below(&numbers, 99);
        const int64_t rows[ROWS_MAX] = {base_random_below(&numbers, 200), most, 1 << 24};
        struct srv_tensor inputs[CELL_TENSORS_MAX];
        if (!cells->stream.counts) {
            end(&course);
            continue;
        }
        for (uint32_t p = 0; p < 2; p++) { // a part, and an end
            struct srv_request *request = &course.parts[p].ask.request;
            memcpy(inputs, request->inputs, request->n_inputs * sizeof(inputs[0]));
            inputs[request->n_inputs++] = count_tensor(&course, rows);
            request->inputs = inputs;
            request->sequence.is_start = true;
            request->sequence.is_end = p == 1;
            request->sequence.id = p == 0 ? "far" : "farther";
            start_and_wait(&course.parts[p]);
            ck_assert_msg(request->error.status == BASE_OK ||
                              request->error.status == BASE_INVALID_ARGUMENT,
                          "%s: %s", models[m].name, request->error.message);
            n_answered += request->error.status == BASE_OK ? 1 : 0;
            n_refused += request->error.status == BASE_OK ? 0 : 1;
        }
        end(&course);
    }
    ck_assert_uint_gt(n_answered, 10);
    ck_assert_uint_gt(n_refused, 0);
    site_close(&site);
}
END_TEST

/* The labels that parts add are the whole's, of steps that come late too, and of parts without any.
 */
START_TEST(test_labels_of_parts)
{
    static struct course course;
    size_t n_all = 0;
    open_site(0);
    for (uint32_t round = 0; round < 8; round++) {
        uint32_t model = 0;
        size_t n = 0;
        while (strcmp(models[model].name, "labels") != 0) {
            model++;
        }
        do { // of one row
            if (round > 0 || course.n_rows > 0) {
                end(&course);
            }
            begin(&course, model, "said");
        } while (course.n_rows != 1);
        const struct srv_tensor *right = ask_output(&course.whole.ask, "token");
        for (uint32_t p = 0; p < course.n_parts; p++) {
            start_and_wait(&course.parts[p]);
            ck_assert_msg(course.parts[p].ask.request.error.status == BASE_OK, "%s",
                          course.parts[p].ask.request.error.message);
            const struct srv_tensor *got = ask_output(&course.parts[p].ask, "token");
            ck_assert_uint_le(n + got->bytes, right->bytes);
            ck_assert_mem_eq(got->data, right->data + n, got->bytes);
            n += got->bytes;
        }
        ck_assert_uint_eq(n, right->bytes);
        n_all += n;
    }
    ck_assert_uint_gt(n_all, 0);
    end(&course);
    site_close(&site);
}
END_TEST

/* The states of a session, asked for by their names, brought to another that goes on. */
START_TEST(test_a_session_is_moved)
{
    static struct course course;
    open_site(0);
    for (uint32_t m = 0; m < MODELS; m++) {
        if (strcmp(models[m].name, "labels") == 0) {
            continue;
        }
        begin(&course, m, "here");
        const struct cell_model *cells = course.whole.ask.cells;
        const char *names[CELL_TENSORS_MAX];
        struct srv_tensor inputs[CELL_TENSORS_MAX];
        struct srv_request *first = &course.parts[0].ask.request;
        struct srv_request *second = &course.parts[1].ask.request;
        uint32_t n_wanted = 0;
        for (uint32_t o = 0; o < cells->n_outputs; o++) {
            names[n_wanted++] = cells->outputs[o].name;
        }
        first->wanted = names;
        first->n_wanted = n_wanted;
        start_and_wait(&course.parts[0]);
        ck_assert_int_eq(first->error.status, BASE_OK);
        ck_assert_uint_eq(first->n_outputs, n_wanted);
        memcpy(inputs, second->inputs, second->n_inputs * sizeof(inputs[0]));
        for (uint32_t s = 0; s < cells->n_states; s++) {
            inputs[second->n_inputs] =
                *ask_output(&course.parts[0].ask, cells->outputs[cells->states[s].output].name);
            inputs[second->n_inputs++].name = cells->inputs[cells->states[s].input].name;
        }
        second->inputs = inputs;
        for (uint32_t p = 1; p < course.n_parts; p++) {
            struct srv_sequence *sequence = &course.parts[p].ask.request.sequence;
            sequence->id = "there";
            sequence->is_start = p == 1;
            start_and_wait(&course.parts[p]);
        }
        // What the first part answered beside its states is looked at, too.
        for (uint32_t i = 0, n = 0; i < n_wanted; i++) {
            if (ask_output(&course.whole.ask, first->outputs[i].name) != NULL) {
                first->outputs[n++] = first->outputs[i];
                first->n_outputs = n;
            }
        }
        expect(&course);
        // The first session is still open.
        struct visit last = {.site = NULL};
        uint32_t steps = 9;
        while (!may_end(cells, course.steps[0] + steps)) {
            steps++;
        }
        ask_init(&last.ask, cells, course.n_rows, steps, &numbers, ASK_PLAIN);
        last.ask.request.model_name = models[m].name;
        last.ask.request.sequence.id = "here";
        last.ask.request.sequence.is_end = true;
        start_and_wait(&last);
        ck_assert_int_eq(last.ask.request.error.status, BASE_OK);
        ask_release(&last.ask);
        end(&course);
    }
    site_close(&site);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("session_windows");
    TCase *tcase = tcase_create("windows");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, test_parts_have_the_bits_of_the_whole, 0, 3);
    tcase_add_test(tcase, test_chunks_are_answered_when_they_are_full);
    tcase_add_test(tcase, test_a_part_that_fails_changes_nothing);
    tcase_add_test(tcase, test_steps_that_leave_no_last_one);
    tcase_add_test(tcase, test_labels_of_parts);
    tcase_add_test(tcase, test_ends_that_are_none);
    tcase_add_test(tcase, test_counts_that_are_none);
    tcase_add_test(tcase, test_counts_that_are_far);
    tcase_add_test(tcase, test_sessions_that_are_too_long);
    tcase_add_test(tcase, test_a_session_is_moved);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
