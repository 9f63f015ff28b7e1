/* Sessions of models whose cells read earlier steps beside their own: convolutions that look back,
 * shifts, strides. What earlier requests had is kept, so that parts of any size have the bits of
 * the whole, whoever else is there. */
#include "tests/server/site.h"
#include "tests/util.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PARTS_MAX = 12, ROWS_MAX = 3, STEPS_MAX = 200 };

/* Exports under tests/data/onnx; what divides the steps of all parts but the last. */
static const struct {
    const char *name, *export;
    uint32_t multiple;
} models[] = {
    {"bands", "stream_bands-ts1.13-op17", 1},
    {"bands_newer", "stream_bands-external2.15-op20", 1},
    {"convolved", "stream_convolved-ts1.13-op17", 1},
    {"shifted", "stream_shifted-ts1.13-op17", 1},
    {"subsampled", "stream_subsampled-ts1.13-op17", 4},
    {"causal", "conv_causal-ts1.13-op17", 1},
    {"mamba", "loop_mamba-ts1.13-op17", 1},
    {"clips", "clips_causal-external2.15-op20", 1},
    {"keras", "keras_conv-tf2.15-op15", 1},
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
        util_write_file(path, "states: recurrent\n");
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
    const size_t step = part->bytes / outer / n_part;
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
        cut_steps(ask_input(whole, tensor->name), (uint32_t)whole->cells->inputs[n].time_axis,
                  first, tensor, data);
        tensor->data = data;
    }
    visit->ask.request.sequence = (struct srv_sequence){
        .id = course->id, .is_start = part == 0, .is_end = part + 1 == course->n_parts};
}

/* Random parts; the whole is answered when this returns. */
static void begin(struct course *course, uint32_t model, const char *id)
{
    const uint32_t multiple = models[model].multiple;
    uint32_t steps = 0;
    memset(&course->whole, 0, sizeof(course->whole));
    course->model = model;
    course->n_rows = 1 + base_random_below(&numbers, ROWS_MAX);
    course->n_parts = 2 + base_random_below(&numbers, PARTS_MAX - 1);
    snprintf(course->id, sizeof(course->id), "%s", id);
    for (uint32_t p = 0; p < course->n_parts; p++) {
        const bool is_short = base_random_below(&numbers, 2) == 0;
        const uint32_t n = 1 + base_random_below(&numbers, is_short ? 2 : 8 / multiple + 1);
        course->steps[p] = n * multiple;
        if (p + 1 == course->n_parts) {
            course->steps[p] += base_random_below(&numbers, multiple);
        }
        steps += course->steps[p];
    }
    ask_init(&course->whole.ask, site_find(&site, models[model].name), course->n_rows, steps,
             &numbers, ASK_PLAIN);
    course->whole.ask.request.model_name = models[model].name;
    visit_start(&site, &course->whole);
    visit_wait(&course->whole);
    ck_assert_msg(course->whole.ask.request.error.status == BASE_OK, "%s: %s", models[model].name,
                  course->whole.ask.request.error.message);
    for (uint32_t p = 0; p < course->n_parts; p++) {
        make_part(course, p);
    }
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
            if (axis < 0 && p + 1 < course->n_parts) {
                continue;
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
        if (right != NULL && cells->outputs[o].time_axis >= 0) {
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

/* A part that failed changes nothing, and is sent again; so is one that was refused for its steps.
 */
START_TEST(test_a_part_that_fails_changes_nothing)
{
    static struct course course;
    open_site(0);
    for (uint32_t m = 0; m < MODELS; m++) {
        begin(&course, m, "once more");
        start_and_wait(&course.parts[0]);
        struct visit *spoilt = &course.parts[1];
        spoilt->ask.request.inputs[0].datatype = "INT64";
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

START_TEST(test_steps_that_strides_do_not_divide)
{
    static struct course course;
    open_site(0);
    begin(&course, 4, "strides");
    ck_assert_uint_eq(models[course.model].multiple, 4);
    for (uint32_t steps = 1; steps < 8; steps++) {
        struct visit odd = {.site = NULL};
        if (steps % 4 == 0) {
            continue;
        }
        ask_init(&odd.ask, course.whole.ask.cells, 1, steps, &numbers, ASK_PLAIN);
        odd.ask.request.model_name = models[course.model].name;
        odd.ask.request.sequence.id = "strides";
        odd.ask.request.sequence.is_start = true;
        start_and_wait(&odd);
        ck_assert_int_eq(odd.ask.request.error.status, BASE_INVALID_ARGUMENT);
        char text[128] = "expected at least 4"; // fewer leave no step of the last sequence
        if (steps > 4) {
            snprintf(text, sizeof(text), "session 'strides' with %u steps; all but the last",
                     steps);
        }
        ck_assert_msg(strstr(odd.ask.request.error.message, text) != NULL, "%s",
                      odd.ask.request.error.message);
        ask_release(&odd.ask);
    }
    for (uint32_t p = 0; p < course.n_parts; p++) {
        start_and_wait(&course.parts[p]);
    }
    expect(&course);
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
        ask_init(&last.ask, cells, course.n_rows, models[m].multiple, &numbers, ASK_PLAIN);
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
    tcase_add_test(tcase, test_a_part_that_fails_changes_nothing);
    tcase_add_test(tcase, test_steps_that_strides_do_not_divide);
    tcase_add_test(tcase, test_a_session_is_moved);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
