/* Sessions whose recurrent layers begin with a state that cells make: a learned one, or what is
 * made of an input without steps. Parts of any number of steps of each row, none among them, also
 * in the first, have the bits of the whole. */
#include "tests/server/parts.h"
#include "tests/server/site.h"
#include "tests/util.h"

#include <stdio.h>
#include <string.h>

enum { FEATURES = 3, VOICE = 5, HIDDEN = 8, ROWS = 3, PARTS = 5, STEPS = 4 };

struct form {
    const char *name;
    bool is_voiced, is_single;
};

static const struct form forms[] = {
    {"learned", false, false}, {"voiced", true, false}, {"single", false, true}};
enum { FORMS = sizeof(forms) / sizeof(forms[0]) };

static char folder[UTIL_PATH_BYTES];
static struct site site;
static struct base_random numbers;

/* h0 [1, batch, HIDDEN]. */
static void write_begin(struct onnx_builder *builder, const struct form *form)
{
    const int64_t one = 1;
    const int64_t state[] = {1, 1, HIDDEN};
    const int64_t zero = 0;
    const int64_t width = HIDDEN;
    onnx_constant(builder, "zero", onnx_ints(builder, 1, 1, &zero));
    if (form->is_voiced) {
        parts_input(builder, "voice", PARTS_FLOAT, VOICE);
        parts_constant(builder, &numbers, "v", VOICE, HIDDEN);
        onnx_node(builder, "MatMul", "voice v", "of_voice");
        onnx_node(builder, "Tanh", "of_voice", "begin");
        onnx_node(builder, "Unsqueeze", "begin zero", "h0");
        return;
    }
    onnx_constant(builder, "one", onnx_ints(builder, 1, 1, &one));
    onnx_constant(builder, "width", onnx_ints(builder, 1, 1, &width));
    onnx_constant(builder, "first", onnx_random(builder, 3, state, &numbers, 1.0f));
    onnx_node(builder, "Shape", "frames", "shape");
    onnx_node(builder, "Gather", "shape one", "rows");
    onnx_set_int(builder, onnx_node(builder, "Concat", "one rows width", "wanted"), "axis", 0);
    onnx_node(builder, "Expand", "first wanted", "h0");
}

/* y [batch, time, HIDDEN] and hn [1, batch, HIDDEN] of x, of whose rows each has `used` steps. */
static void write_model(const struct form *form)
{
    static struct onnx_builder builder;
    char version[UTIL_PATH_BYTES];
    const int64_t dims[] = {form->is_single ? 1 : -1, -1, FEATURES};
    const int64_t one = 1;
    numbers = util_random(3);
    onnx_init(&builder, 17);
    onnx_input(&builder, "x", PARTS_FLOAT, 3, dims);
    onnx_input(&builder, "used", PARTS_INT32, 1, dims);
    onnx_add_weights(&builder, "GRU", FEATURES, HIDDEN, 7);
    onnx_set_ints(&builder, onnx_node(&builder, "Transpose", "x", "frames"), "perm", 3,
                  (const int64_t[]){1, 0, 2});
    write_begin(&builder, form);
    onnx_set_int(&builder, onnx_node(&builder, "GRU", "frames w r b used h0", "all hn"),
                 "hidden_size", HIDDEN);
    onnx_constant(&builder, "direction", onnx_ints(&builder, 1, 1, &one));
    onnx_node(&builder, "Squeeze", "all direction", "steps");
    onnx_set_ints(&builder, onnx_node(&builder, "Transpose", "steps", "y"), "perm", 3,
                  (const int64_t[]){1, 0, 2});
    parts_output(&builder, "y");
    parts_output(&builder, "hn");
    parts_folder(folder, form->name, "states: recurrent\n", version);
    parts_write(&builder, version, "model");
}

static void setup(void)
{
    util_temp_dir(folder);
    for (uint32_t f = 0; f < FORMS; f++) {
        write_model(&forms[f]);
    }
}

static void teardown(void)
{
    util_remove_tree(folder);
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
    site_open(&site, &options);
    numbers = util_random(5);
}

/* Of each part, how many steps each row has. */
struct course {
    uint32_t n_rows, steps[PARTS][ROWS];
    float x[ROWS][PARTS * STEPS][FEATURES], voice[ROWS][VOICE];
};

static uint32_t steps_before(const struct course *course, uint32_t part, uint32_t row)
{
    uint32_t steps = 0;
    for (uint32_t p = 0; p < part; p++) {
        steps += course->steps[p][row];
    }
    return steps;
}

static void draw(float *to, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        to[i] = base_random_f32(&numbers, -1.0f, 1.0f);
    }
}

static void choose(struct course *course, bool is_single)
{
    course->n_rows = is_single ? 1 : ROWS;
    draw(&course->x[0][0][0], sizeof(course->x) / sizeof(float));
    draw(&course->voice[0][0], sizeof(course->voice) / sizeof(float));
    for (uint32_t p = 0; p < PARTS; p++) {
        for (uint32_t b = 0; b < ROWS; b++) {
            course->steps[p][b] = base_random_below(&numbers, STEPS + 1);
        }
    }
    course->steps[0][0] = 0; // there is one that begins later
    course->steps[PARTS - 1][0] = 1;
}

/* A request of the steps of all rows that stand in parts from first up to end. */
static void make(struct visit *visit, const struct form *form, const struct course *course,
                 uint32_t first, uint32_t end)
{
    const struct cell_model *cells = site_find(&site, form->name);
    uint32_t most = 1;
    for (uint32_t b = 0; b < course->n_rows; b++) {
        const uint32_t steps = steps_before(course, end, b) - steps_before(course, first, b);
        most = steps > most ? steps : most;
    }
    memset(visit, 0, sizeof(*visit));
    ask_init(&visit->ask, cells, course->n_rows, most, &numbers, ASK_PLAIN);
    struct srv_request *request = &visit->ask.request;
    request->model_name = form->name;
    float *x =
        base_arena_array(&request->arena, (size_t)ROWS * PARTS * STEPS * FEATURES, sizeof(*x));
    int32_t *used = base_arena_array(&request->arena, ROWS, sizeof(*used));
    ck_assert(x != NULL && used != NULL);
    for (uint32_t b = 0; b < course->n_rows; b++) {
        const uint32_t before = steps_before(course, first, b);
        used[b] = (int32_t)(steps_before(course, end, b) - before);
        memcpy(x + (size_t)b * most * FEATURES, course->x[b][before],
               (size_t)used[b] * FEATURES * sizeof(*x));
    }
    ask_input(&visit->ask, "x")->data = (const uint8_t *)x;
    ask_input(&visit->ask, "used")->data = (const uint8_t *)used;
    if (form->is_voiced) {
        ask_input(&visit->ask, "voice")->data = (const uint8_t *)course->voice;
    }
}

/* Row b of y from its first step on, and its hn. */
static const uint8_t *row_of(const struct visit *visit, uint32_t b)
{
    const struct srv_tensor *y = ask_output(&visit->ask, "y");
    return y->data + b * (y->bytes / (size_t)y->shape[0]);
}

static const uint8_t *state_of(const struct visit *visit, uint32_t b)
{
    return ask_output(&visit->ask, "hn")->data + b * HIDDEN * sizeof(float);
}

static void expect_part(const struct visit *whole, const struct visit *part,
                        const struct course *course, uint32_t p)
{
    for (uint32_t b = 0; b < course->n_rows; b++) {
        const size_t before = steps_before(course, p, b) * HIDDEN * sizeof(float);
        const size_t bytes = course->steps[p][b] * HIDDEN * sizeof(float);
        ck_assert_mem_eq(row_of(part, b), row_of(whole, b) + before, bytes);
    }
}

/* What the session has at its end, of rows without a step in the last part too. */
static void expect_states(const struct visit *whole, const struct visit *last,
                          const struct course *course)
{
    const size_t bytes = HIDDEN * sizeof(float);
    const uint8_t *left = ask_output(&last->ask, "state.0")->data;
    for (uint32_t b = 0; b < course->n_rows; b++) {
        const size_t kept = steps_before(course, PARTS, b) > 0 ? bytes : 0;
        const size_t answered = course->steps[PARTS - 1][b] > 0 ? bytes : 0;
        ck_assert_mem_eq(left + b * bytes, state_of(whole, b), kept);
        ck_assert_mem_eq(state_of(last, b), state_of(whole, b), answered);
    }
}

static void run(const struct form *form)
{
    static const char *const wanted[] = {"y", "hn", "state.0"};
    static struct course course;
    struct visit whole;
    struct visit parts[PARTS];
    choose(&course, form->is_single);
    make(&whole, form, &course, 0, PARTS);
    visit_start(&site, &whole);
    visit_wait(&whole);
    ck_assert_msg(whole.ask.request.error.status == BASE_OK, "%s", whole.ask.request.error.message);
    for (uint32_t p = 0; p < PARTS; p++) {
        make(&parts[p], form, &course, p, p + 1);
        parts[p].ask.request.sequence =
            (struct srv_sequence){.id = "s", .is_start = p == 0, .is_end = p + 1 == PARTS};
        parts[p].ask.request.wanted = wanted;
        parts[p].ask.request.n_wanted = 3;
        visit_start(&site, &parts[p]);
    }
    for (uint32_t p = 0; p < PARTS; p++) {
        visit_wait(&parts[p]);
        ck_assert_msg(parts[p].ask.request.error.status == BASE_OK, "%s, part %u: %s", form->name,
                      p, parts[p].ask.request.error.message);
        expect_part(&whole, &parts[p], &course, p);
    }
    expect_states(&whole, &parts[PARTS - 1], &course);
    for (uint32_t p = 0; p < PARTS; p++) {
        ask_release(&parts[p].ask);
    }
    ask_release(&whole.ask);
}

START_TEST(test_parts_have_the_bits_of_the_whole)
{
    open_site(_i);
    for (uint32_t k = 0; k < 12; k++) {
        run(&forms[k % FORMS]);
    }
    site_close(&site);
}
END_TEST

/* A client may begin with a state of its own in place of the learned one. */
START_TEST(test_a_state_that_is_brought)
{
    static struct course course;
    static const float brought[ROWS][HIDDEN] = {{0.5f}};
    struct visit visits[2];
    open_site(0);
    choose(&course, false);
    for (uint32_t v = 0; v < 2; v++) {
        make(&visits[v], &forms[0], &course, PARTS - 1, PARTS);
        struct srv_request *request = &visits[v].ask.request;
        if (v == 1) {
            struct srv_tensor *tensors =
                base_arena_array(&request->arena, request->n_inputs + 1, sizeof(*tensors));
            ck_assert_ptr_nonnull(tensors);
            memcpy(tensors, request->inputs, request->n_inputs * sizeof(*tensors));
            tensors[request->n_inputs] = (struct srv_tensor){.name = "state.0",
                                                             .datatype = "FP32",
                                                             .rank = 2,
                                                             .shape = {ROWS, HIDDEN},
                                                             .data = (const uint8_t *)brought,
                                                             .bytes = sizeof(brought)};
            request->inputs = tensors;
            request->n_inputs++;
        }
        visit_start(&site, &visits[v]);
        visit_wait(&visits[v]);
        ck_assert_msg(request->error.status == BASE_OK, "%s", request->error.message);
    }
    ck_assert_mem_ne(row_of(&visits[0], 0), row_of(&visits[1], 0), sizeof(float));
    ask_release(&visits[0].ask);
    ask_release(&visits[1].ask);
    site_close(&site);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("begins");
    TCase *tcase = tcase_create("begins");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, test_parts_have_the_bits_of_the_whole, 0, 3);
    tcase_add_test(tcase, test_a_state_that_is_brought);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
