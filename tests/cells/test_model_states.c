/* States that sessions keep: which pairs of tensors may be one, and that a model whose layers' own
 * states are kept gives for a sequence in parts what it gives for the whole, or is refused. That is
 * asked of every export under tests/data/onnx. */
#include "base/mem.h"
#include "cells/model.h"
#include "cells/stream_steps.h"
#include "tests/cells/replay.h"
#include "tests/util.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define ROWS 2

static struct cell_registry *registry;
static struct cell_model *model;
static struct base_error error;

static void open_export(const char *name)
{
    char relative[256];
    char path[UTIL_PATH_BYTES];
    snprintf(relative, sizeof(relative), "tests/data/onnx/%s/model.onnx", name);
    util_repo_path(path, relative);
    error = (struct base_error){.status = BASE_OK};
    ck_assert_int_eq(cell_registry_create(&registry), BASE_OK);
    (void)cell_model_load(registry, path, "test", NULL, &model, &error);
}

static void close_export(void)
{
    if (model != NULL) {
        cell_model_free(registry, model);
    }
    cell_registry_free(registry);
    model = NULL;
}

/* ---- Pairs ---- */

START_TEST(test_pairs_of_tensors)
{
    const struct cell_kept_state pairs[] = {{"c0", "cn"}, {"h0", "hn"}};
    const struct cell_kept_states kept = {.n = 2, .items = pairs};
    open_export("state_in-ts1.13-op14");
    ck_assert(!model->inputs[1].optional);
    ck_assert_int_eq(cell_model_keep_states(model, &kept, &error), BASE_OK);
    ck_assert_uint_eq(model->n_states, 2);
    ck_assert_uint_eq(model->states[0].input, 2);
    ck_assert_uint_eq(model->states[0].output, 2);
    ck_assert_uint_eq(model->states[1].input, 1);
    ck_assert_uint_eq(model->states[1].output, 1);
    ck_assert(model->inputs[1].optional && model->inputs[2].optional);
    ck_assert(!model->inputs[0].optional);
    ck_assert_uint_eq(model->n_inputs, 3);
    close_export();
}
END_TEST

/* The last steps of some, as many as the file states. */
START_TEST(test_pairs_of_some_steps)
{
    static const char *const names[] = {
        "stream_cached-ts1.13-op17", "stream_cached_four-ts1.13-op17",
        "stream_cached-external2.15-op20", "stream_cached_four-external2.15-op20"};
    const struct cell_kept_state pairs[] = {
        {"first_kept", "first_next"}, {"second_kept", "second_next"}, {"h0", "hn"}};
    const struct cell_kept_states kept = {.n = 3, .items = pairs};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        open_export(names[i]);
        ck_assert_msg(cell_model_keep_states(model, &kept, &error) == BASE_OK, "%s", error.message);
        ck_assert_uint_eq(model->n_states, 3);
        close_export();
    }
}
END_TEST

START_TEST(test_no_states)
{
    const struct cell_kept_states kept = {.n = 0};
    open_export("state_in-ts1.13-op14");
    ck_assert_int_eq(cell_model_keep_states(model, &kept, &error), BASE_OK);
    ck_assert_uint_eq(model->n_states, 0);
    ck_assert(!model->inputs[1].optional);
    close_export();
}
END_TEST

START_TEST(test_pairs_that_are_none)
{
    static const struct {
        struct cell_kept_state first, second;
        const char *why;
    } cases[] = {
        {{"h", "hn"}, {NULL, NULL}, "the model has no input \"h\""},
        {{"h0", "h"}, {NULL, NULL}, "the model has no output \"h\""},
        {{"x", "hn"}, {NULL, NULL}, "input \"x\" has a value for each step"},
        {{"h0", "y"}, {NULL, NULL}, "output \"y\" has a value for each step"},
        {{"h0", "hn"}, {"h0", "cn"}, "are not the only pair of one of them"},
        {{"h0", "hn"}, {"c0", "hn"}, "are not the only pair of one of them"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct cell_kept_state pairs[] = {cases[i].first, cases[i].second};
        const struct cell_kept_states kept = {.n = cases[i].second.input == NULL ? 1 : 2,
                                              .items = pairs};
        open_export("state_in-ts1.13-op14");
        ck_assert_int_eq(cell_model_keep_states(model, &kept, &error), BASE_INVALID_ARGUMENT);
        ck_assert_msg(strstr(error.message, cases[i].why) != NULL, "%s", error.message);
        close_export();
    }
}
END_TEST

/* Of another shape, or another type. */
START_TEST(test_pairs_that_are_not_alike)
{
    const struct cell_kept_state pair = {"h0", "hn"};
    const struct cell_kept_states kept = {.n = 1, .items = &pair};
    for (uint32_t i = 0; i < 4; i++) {
        open_export("state_in-ts1.13-op14");
        struct cell_tensor *hn = &model->outputs[1];
        if (i == 0) {
            hn->dims[2]++;
        } else if (i == 1) {
            hn->rank--;
        } else if (i == 2) {
            hn->dtype = CELL_I64;
        } else {
            hn->batch_axis = 0;
        }
        ck_assert_int_eq(cell_model_keep_states(model, &kept, &error), BASE_INVALID_ARGUMENT);
        ck_assert_msg(strstr(error.message, "are not of one type and shape") != NULL, "%s",
                      error.message);
        close_export();
    }
}
END_TEST

/* ---- Layers of every export ---- */

/* What an input of steps' numbers says: how many there are, or which is the last. */
static double number_of(const struct cell_tensor *tensor, uint32_t steps)
{
    const int64_t left = cell__length_of(model, tensor->sequence, steps);
    return (double)cell_telling(tensor->told, tensor->is_lengths ? left : left - 1);
}

/* A tensor of the model for so many steps: random, or zeros. */
static struct replay_tensor make(const struct cell_tensor *tensor, uint32_t steps,
                                 struct base_random *random)
{
    int64_t dims[CELL_RANK_MAX];
    for (uint32_t k = 0; k < tensor->rank; k++) {
        const int64_t open = tensor->time_axis == (int32_t)k ? steps : ROWS;
        dims[k] = tensor->dims[k] == CELL_DIM_ANY ? open : tensor->dims[k];
    }
    struct replay_tensor made = replay_tensor_random(tensor->rank, dims, random);
    for (size_t i = 0; random != NULL && i < made.count; i++) {
        if (tensor->id_bound > 0) {
            made.data[i] = base_random_below(random, (uint32_t)tensor->id_bound);
        } else if (tensor->is_lengths || tensor->is_step) {
            made.data[i] = number_of(tensor, steps);
        } else if (tensor->dtype != CELL_F32 || tensor->form != CELL_FORM_OWN) {
            made.data[i] = base_random_below(random, 2);
        }
    }
    return made;
}

/* The steps from first on, which `steps` are many, of a tensor of the whole; or back into it. */
static void move_steps(const struct cell_tensor *tensor, struct replay_tensor *whole,
                       struct replay_tensor *part, uint32_t first, bool is_back)
{
    size_t outer = 1;
    size_t inner = 1;
    const size_t axis = (size_t)tensor->time_axis;
    for (size_t k = 0; k < tensor->rank; k++) {
        *(k < axis ? &outer : &inner) *= k == axis ? 1 : (size_t)part->dims[k];
    }
    const size_t n_whole = (size_t)whole->dims[axis];
    const size_t n_part = (size_t)part->dims[axis];
    for (size_t o = 0; o < outer; o++) {
        double *in_whole = whole->data + (o * n_whole + first) * inner;
        double *in_part = part->data + o * n_part * inner;
        memcpy(is_back ? in_whole : in_part, is_back ? in_part : in_whole,
               n_part * inner * sizeof(double));
    }
}

static void copy_values(const struct replay_tensor *from, struct replay_tensor *to)
{
    ck_assert_uint_eq(from->count, to->count);
    memcpy(to->data, from->data, from->count * sizeof(double));
}

static void release(struct replay_tensor *tensors, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        base_free(tensors[i].data);
    }
}

static bool is_state_input(uint32_t input)
{
    bool is_state = false;
    for (uint32_t s = 0; s < model->n_states; s++) {
        is_state = is_state || model->states[s].input == input;
    }
    return is_state;
}

static bool is_made_state(uint32_t input)
{
    bool is_made = false;
    for (uint32_t s = 0; s < model->n_states; s++) {
        is_made = is_made || (model->states[s].input == input && model->states[s].is_made);
    }
    return is_made;
}

/* Runs the steps from first on with states, and leaves the next ones there; outputs of steps go to
 * their place in made, behind those that are there, others replace what is there. */
static void run_part(struct replay_tensor *whole, struct replay_tensor *states, uint32_t first,
                     uint32_t steps, struct replay_tensor *made, uint32_t *n_made)
{
    struct replay_tensor inputs[CELL_TENSORS_MAX];
    struct replay_tensor outputs[CELL_TENSORS_MAX];
    bool is_end = true;
    for (uint32_t i = 0; i < model->n_inputs; i++) {
        inputs[i] = make(&model->inputs[i], steps, NULL);
        if (model->inputs[i].is_lengths || model->inputs[i].is_step) {
            for (size_t e = 0; e < inputs[i].count; e++) {
                inputs[i].data[e] = number_of(&model->inputs[i], steps);
            }
        } else if (is_state_input(i) && states[i].data == NULL) {
            base_free(inputs[i].data); // the session begins
            inputs[i].data = NULL;
        } else if (is_state_input(i)) {
            copy_values(&states[i], &inputs[i]);
        } else if (model->inputs[i].time_axis >= 0) {
            move_steps(&model->inputs[i], &whole[i], &inputs[i], first, false);
            is_end = is_end && first + steps == whole[i].dims[model->inputs[i].time_axis];
        } else {
            copy_values(&whole[i], &inputs[i]);
        }
    }
    replay_run_part(model, inputs, is_end, outputs);
    for (uint32_t s = 0; s < model->n_states; s++) {
        struct replay_tensor *state = &states[model->states[s].input];
        struct replay_tensor *left = &outputs[model->states[s].output];
        if (state->data == NULL) {
            state->data = base_alloc_array(state->count, sizeof(double));
            ck_assert_ptr_nonnull(state->data);
        }
        copy_values(left, state);
    }
    for (uint32_t o = 0; o < model->n_outputs; o++) {
        if (model->outputs[o].time_axis >= 0) {
            move_steps(&model->outputs[o], &made[o], &outputs[o], n_made[o], true);
            n_made[o] += (uint32_t)outputs[o].dims[model->outputs[o].time_axis];
        } else {
            copy_values(&outputs[o], &made[o]);
        }
    }
    release(inputs, model->n_inputs);
    release(outputs, model->n_outputs);
}

/* Whether a request of so many steps leaves each stage one whose last step is read. */
static bool has_all_last(uint32_t before, uint32_t steps)
{
    int64_t from[CELL_STAGES_MAX];
    int64_t to[CELL_STAGES_MAX];
    bool has_all = true;
    if (!model->stream.is_on) {
        return true;
    }
    cell_stream_steps(model, before, false, from);
    cell_stream_steps(model, (int64_t)before + steps, false, to);
    for (uint32_t s = 0; s < model->n_stages; s++) {
        has_all = has_all && (!model->stream.has_last[s] || to[s] > from[s]);
    }
    return has_all;
}

/* Sizes of parts, one of which has more steps than the model needs at the least; how many. */
static uint32_t choose_parts(uint32_t parts[8])
{
    static const uint32_t sizes[8] = {1, 3, 1, 1, 5, 2, 7, 1};
    uint32_t least[CELL_SEQUENCES_MAX];
    uint32_t before = 0;
    cell_model_steps_min(model, least);
    for (uint32_t p = 0; p < 8; p++) {
        parts[p] = sizes[p] + (p == 4 ? least[model->stream.base] : 0);
        while (!has_all_last(before, parts[p])) {
            parts[p]++;
        }
        before += parts[p];
    }
    // of steps that a stride parts and something puts together again there is a multiple
    while (cell_stream_unmet(model, before) < CELL_SEQUENCES_MAX) {
        ck_assert_uint_lt(before++, 1000);
        parts[7]++;
    }
    return before;
}

/* Whether an output may be a number that follows from one that a request tells of its own steps. */
static bool is_told(uint32_t output)
{
    bool is_told = false;
    for (uint32_t i = 0; i < model->n_inputs; i++) {
        is_told = is_told || model->inputs[i].is_lengths || model->inputs[i].is_step;
    }
    return is_told && model->outputs[output].dtype != CELL_F32;
}

/* Whether parts give what the whole gives. */
static void check_parts(const char *name, struct base_random *random)
{
    uint32_t parts[8];
    struct replay_tensor inputs[CELL_TENSORS_MAX];
    struct replay_tensor outputs[CELL_TENSORS_MAX];
    struct replay_tensor states[CELL_TENSORS_MAX];
    struct replay_tensor made[CELL_TENSORS_MAX];
    uint32_t n_made[CELL_TENSORS_MAX] = {0};
    const uint32_t steps = choose_parts(parts);
    for (uint32_t i = 0; i < model->n_inputs; i++) {
        const bool is_state = is_state_input(i);
        inputs[i] = make(&model->inputs[i], steps, is_state ? NULL : random);
        states[i] = make(&model->inputs[i], steps, NULL);
        if (is_made_state(i)) { // by a cell, unless a session brings it
            base_free(inputs[i].data);
            base_free(states[i].data);
            inputs[i].data = states[i].data = NULL;
        }
    }
    replay_run(model, inputs, outputs);
    for (uint32_t o = 0; o < model->n_outputs; o++) {
        made[o] = replay_tensor_random(outputs[o].rank, outputs[o].dims, NULL);
    }
    uint32_t first = 0;
    for (size_t p = 0; p < 8; p++) {
        run_part(inputs, states, first, parts[p], made, n_made);
        first += parts[p];
    }
    for (uint32_t o = 0; o < model->n_outputs; o++) {
        const enum cell_source_kind kind = model->output_sources[o][0].kind;
        const bool is_of_stream =
            kind == CELL_SOURCE_KEPT || kind == CELL_SOURCE_COUNT || is_told(o);
        const int32_t axis = model->outputs[o].time_axis;
        ck_assert_msg(axis < 0 || outputs[o].dims[axis] == n_made[o],
                      "%s: output '%s' has %u steps", name, model->outputs[o].name, n_made[o]);
        for (size_t e = 0; e < made[o].count && !is_of_stream; e++) {
            ck_assert_msg(fabs(made[o].data[e] - outputs[o].data[e]) < 1e-9,
                          "%s: output '%s' differs at %zu", name, model->outputs[o].name, e);
        }
    }
    release(inputs, model->n_inputs);
    release(states, model->n_inputs);
    release(outputs, model->n_outputs);
    release(made, model->n_outputs);
}

/* Why layers of exports are refused; of each there are some. */
static const char *const reasons[] = {
    "begins at the end of the sequence",
    "reads steps beside its own, which",
    "reads all steps",
    "attends to all steps, of which",
    "attends to all earlier steps",
    "reads steps that are joined to others",
    "reads the last step",
    "reads the first step",
    "is of the first step",
    "begins with a state that is made of steps",
    "has one state for all rows",
    "the model has no recurrent layer",
};
#define REASONS (sizeof(reasons) / sizeof(reasons[0]))

/* Those whose steps the file states have no whole of several parts. */
static bool has_stated_steps(void)
{
    bool has = false;
    for (uint32_t q = 0; q < model->n_sequences; q++) {
        has = has || model->sequences[q].stated > 0 || model->sequences[q].steps_min > 1;
    }
    return has;
}

START_TEST(test_layers_of_every_export_in_parts_or_refused)
{
    static const struct cell_kept_states kept = {.recurrent = true};
    uint32_t refused[REASONS] = {0};
    uint32_t n = 0;
    uint32_t checked = 0;
    uint32_t stated = 0;
    uint32_t with_histories = 0;
    uint32_t counting = 0;
    struct base_random random = util_random(7);
    char path[UTIL_PATH_BYTES];
    util_repo_path(path, "tests/data/onnx");
    DIR *folder = opendir(path);
    ck_assert_ptr_nonnull(folder);
    for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        if (strchr(entry->d_name, '.') == entry->d_name || strstr(entry->d_name, "-op") == NULL) {
            continue;
        }
        open_export(entry->d_name);
        n += model != NULL ? 1 : 0;
        if (model == NULL) { // one is refused anyhow
        } else if (cell_model_keep_states(model, &kept, &error) == BASE_OK) {
            ck_assert_uint_gt(model->n_states, 0);
            with_histories += model->n_histories > 0 ? 1 : 0;
            counting += model->stream.counts ? 1 : 0;
            if (has_stated_steps()) {
                stated++;
            } else {
                checked++;
                check_parts(entry->d_name, &random);
            }
        } else {
            size_t why = 0;
            while (why < REASONS && strstr(error.message, reasons[why]) == NULL) {
                why++;
            }
            ck_assert_msg(why < REASONS, "%s: %s", entry->d_name, error.message);
            refused[why]++;
        }
        close_export();
    }
    closedir(folder);
    ck_assert_uint_ge(n, 650);
    ck_assert_uint_ge(checked, 310);
    ck_assert_uint_ge(stated, 3);
    ck_assert_uint_ge(with_histories, 65);
    ck_assert_uint_ge(counting, 50);
    for (size_t i = 0; i < REASONS; i++) {
        ck_assert_msg(refused[i] > 0, "none %s", reasons[i]);
    }
}
END_TEST

/* What no export has, made of some that have something else there. */
START_TEST(test_layers_that_are_refused)
{
    static const struct cell_kept_states kept = {.recurrent = true};
    open_export("last_slice-ts1.13-op14");
    ck_assert_int_eq(model->stages[1].inputs[0].kind, CELL_SOURCE_LAST);
    model->stages[1].inputs[0].kind = CELL_SOURCE_FIRST;
    ck_assert_int_eq(cell_model_keep_states(model, &kept, &error), BASE_UNIMPLEMENTED);
    ck_assert_msg(strstr(error.message, "reads the first step") != NULL, "%s", error.message);
    close_export();
    open_export("state_in-ts1.13-op14");
    model->output_sources[0][0].kind = CELL_SOURCE_FIRST;
    ck_assert_int_eq(cell_model_keep_states(model, &kept, &error), BASE_UNIMPLEMENTED);
    ck_assert_msg(strstr(error.message, "output \"y\" is of the first step") != NULL, "%s",
                  error.message);
    close_export();
    open_export("state_in-ts1.13-op14");
    model->stages[0].init[1].index = 1; // h and c begin with the same
    model->n_outputs = 1;
    ck_assert_int_eq(cell_model_keep_states(model, &kept, &error), BASE_UNIMPLEMENTED);
    ck_assert_msg(strstr(error.message, "input \"h0\" is a state of cell test/lstm, and not all of "
                                        "it is of one cell") != NULL,
                  "%s", error.message);
    close_export();
    open_export("tagger-ts1.13-op14");
    model->n_outputs = CELL_TENSORS_MAX;
    ck_assert_int_eq(cell_model_keep_states(model, &kept, &error), BASE_UNIMPLEMENTED);
    ck_assert_msg(strstr(error.message, "more than 256 inputs or outputs") != NULL, "%s",
                  error.message);
    close_export();
}
END_TEST

/* A window of the step before each, put where a stage reads a step of its own. */
static void look_back(uint32_t stage, uint32_t input, int32_t offset)
{
    struct cell_source *source = &model->stages[stage].inputs[input];
    source->count = 1;
    source->stride = 1;
    source->offset = offset;
    model->reach = offset < 0 ? (uint32_t)-offset : model->reach;
}

static void expect_refused(const char *why)
{
    static const struct cell_kept_states kept = {.recurrent = true};
    ck_assert_int_eq(cell_model_keep_states(model, &kept, &error), BASE_UNIMPLEMENTED);
    ck_assert_msg(strstr(error.message, why) != NULL, "%s", error.message);
    close_export();
}

/* Of ids a session keeps ids, which whoever brings them may not choose freely. */
START_TEST(test_histories_of_ids)
{
    static const struct cell_kept_states kept = {.recurrent = true};
    open_export("embedding-ts1.13-op14");
    ck_assert_int_gt(model->inputs[0].id_bound, 0);
    look_back(0, 0, -2);
    ck_assert_int_eq(cell_model_keep_states(model, &kept, &error), BASE_OK);
    ck_assert_uint_eq(model->n_histories, 1);
    const struct cell_history *history = &model->histories[0];
    const struct cell_tensor *input = &model->inputs[history->input];
    ck_assert_uint_eq(history->steps, 2);
    ck_assert_uint_eq(history->width, 1);
    ck_assert_int_eq(input->dtype, CELL_I64);
    ck_assert_int_eq(input->id_bound, model->inputs[0].id_bound);
    ck_assert_uint_eq(input->rank, 3);
    ck_assert_int_eq(input->dims[1], 2);
    ck_assert_int_eq(input->dims[2], 1);
    ck_assert(input->optional && input->time_axis < 0);
    ck_assert_int_eq(model->output_sources[history->output][0].kind, CELL_SOURCE_KEPT);
    close_export();
}
END_TEST

/* A chain over every second step that reads none of them: of one and of two there are as many, of
 * three there are not. */
START_TEST(test_strided_steps_of_which_nothing_is_read)
{
    static const struct cell_kept_states kept = {.recurrent = true};
    open_export("tagger-ts1.13-op14");
    ck_assert_uint_eq(model->n_stages, 2);
    model->sequences[1] = (struct cell_sequence){.stride = 2, .source = model->inputs[0].sequence};
    model->n_sequences = 2;
    for (uint32_t s = 0; s < model->n_stages; s++) {
        model->stages[s].sequence = 1;
    }
    model->stages[0].inputs[0] = (struct cell_source){.kind = CELL_SOURCE_ZERO};
    model->outputs[0].sequence = 1;
    ck_assert_msg(cell_model_keep_states(model, &kept, &error) == BASE_OK, "%s", error.message);
    ck_assert(model->stream.is_on && model->stream.counts);
    close_export();
}
END_TEST

/* Two outputs of one sequence, of which the second is there before the first: each is answered as
 * it comes. A third comes with the second. */
START_TEST(test_outputs_that_come_at_unlike_times)
{
    static const struct cell_kept_states kept = {.recurrent = true};
    open_export("conv_residual-ts1.13-op17");
    const uint32_t sequence = model->outputs[0].sequence;
    const uint32_t n = model->n_sequences;
    for (uint32_t o = 1; o < 3; o++) {
        model->outputs[o] = model->outputs[0];
        snprintf(model->outputs[o].name, sizeof(model->outputs[o].name), "early%u", o);
        model->output_sources[o][0] = (struct cell_source){.kind = CELL_SOURCE_EACH, .stage = 0};
    }
    model->n_outputs = 3;
    ck_assert_msg(cell_model_keep_states(model, &kept, &error) == BASE_OK, "%s", error.message);
    ck_assert_uint_eq(model->outputs[0].sequence, sequence);
    ck_assert_uint_eq(model->outputs[1].sequence, n);
    ck_assert_uint_eq(model->outputs[2].sequence, n);
    ck_assert_uint_eq(model->n_sequences, n + 1);
    ck_assert_uint_eq(cell_sequence_steps(&model->sequences[n], 7), 7);
    ck_assert_uint_eq(model->sequences[n].source, sequence);
    close_export();
    open_export("conv_residual-ts1.13-op17");
    model->outputs[1] = model->outputs[0];
    model->output_sources[1][0] = (struct cell_source){.kind = CELL_SOURCE_EACH, .stage = 0};
    model->n_outputs = 2;
    model->n_sequences = CELL_SEQUENCES_MAX;
    ck_assert_int_eq(cell_model_keep_states(model, &kept, &error), BASE_UNIMPLEMENTED);
    ck_assert_msg(strstr(error.message, "more than 32 sequences") != NULL, "%s", error.message);
    close_export();
}
END_TEST

/* What attends to all earlier steps needs a bound: a table of positions, or what the user says. */
START_TEST(test_attention_to_all_earlier_steps)
{
    static const struct cell_kept_states unbounded = {.recurrent = true};
    static const struct cell_kept_states bounded = {.recurrent = true, .steps_max = 500};
    static const struct cell_kept_states nearer = {.recurrent = true, .steps_max = 50};
    open_export("stream_recalling-ts1.13-op17");
    ck_assert_int_eq(cell_model_keep_states(model, &unbounded, &error), BASE_UNIMPLEMENTED);
    ck_assert_msg(strstr(error.message, "attends to all earlier steps") != NULL, "%s",
                  error.message);
    close_export();
    open_export("stream_recalling-ts1.13-op17");
    ck_assert_msg(cell_model_keep_states(model, &bounded, &error) == BASE_OK, "%s", error.message);
    ck_assert(model->stream.counts);
    ck_assert_uint_eq(model->stream.steps_max, 500);
    // Of the input the last four, since what is made of three of its steps comes one later.
    ck_assert_uint_eq(model->n_histories, 3);
    ck_assert_int_eq(model->histories[0].source.kind, CELL_SOURCE_INPUT);
    ck_assert_uint_eq(model->histories[0].steps, 4);
    ck_assert_uint_eq(model->histories[1].steps, 3);
    ck_assert_uint_eq(model->histories[2].steps, 499);
    close_export();
    open_export("stream_placed-ts1.13-op17"); // the table is the nearer one, and the rule
    ck_assert_msg(cell_model_keep_states(model, &bounded, &error) == BASE_OK, "%s", error.message);
    ck_assert_uint_eq(model->stream.steps_max, 0);
    ck_assert_uint_eq(model->histories[0].steps, 129);
    close_export();
    open_export("stream_placed-ts1.13-op17"); // and here the farther one
    ck_assert_msg(cell_model_keep_states(model, &nearer, &error) == BASE_OK, "%s", error.message);
    ck_assert_uint_eq(model->stream.steps_max, 50);
    ck_assert_uint_eq(model->histories[0].steps, 49);
    close_export();
    open_export("stream_sloped-ts1.13-op17"); // 2 heads' worth of what is 4 and 1 away, and all
    ck_assert_msg(cell_model_keep_states(model, &unbounded, &error) == BASE_OK, "%s",
                  error.message);
    ck_assert_uint_eq(model->stream.steps_max, 0);
    close_export();
    open_export("stream_attended-ts1.13-op17");
    ck_assert_msg(cell_model_keep_states(model, &bounded, &error) == BASE_OK, "%s", error.message);
    ck_assert_uint_eq(model->stream.steps_max, 0);
    close_export();
}
END_TEST

/* What no export has either, about attention. */
START_TEST(test_attention_that_is_refused)
{
    open_export("stream_attended-ts1.13-op17");
    model->memories[0].pieces = 2;
    model->memories[0].sources[1] = model->memories[0].sources[0];
    expect_refused("attends to what several cells make, side by side");
    open_export("stream_attended-ts1.13-op17");
    for (uint32_t s = 0; s < model->n_stages; s++) {
        for (uint32_t i = 0; i < model->stages[s].type->def.n_inputs; i++) {
            if (model->stages[s].inputs[i].kind == CELL_SOURCE_NUMBER) {
                model->stages[s].inputs[i].index = CELL_NUMBER_OF_SEQUENCE;
            }
        }
    }
    expect_refused("attends to all steps, of which some may be in other requests");
    open_export("stream_attended-ts1.13-op17");
    model->memories[0].sources[0] = (struct cell_source){.kind = CELL_SOURCE_ZERO};
    expect_refused("reads all steps, of which some may be in other requests");
}
END_TEST

/* What no export has either, about windows. */
/* Of a window repeated at all steps, as in whole requests. */
START_TEST(test_steps_of_all_rows_are_taken_row_by_row)
{
    static const struct cell_kept_states kept = {.recurrent = true};
    uint32_t shared = 0;
    open_export("transposed_waveform-ts1.13-op17");
    for (uint32_t s = 0; s < model->n_stages; s++) {
        shared += model->stages[s].is_shared && model->stages[s].kind == CELL_STAGE_EACH ? 1 : 0;
    }
    ck_assert_uint_gt(shared, 1);
    ck_assert_msg(cell_model_keep_states(model, &kept, &error) == BASE_OK, "%s", error.message);
    for (uint32_t s = 0; s < model->n_stages; s++) {
        ck_assert(!model->stages[s].is_shared || model->stages[s].kind == CELL_STAGE_ONCE);
    }
    close_export();
}
END_TEST

START_TEST(test_windows_that_are_refused)
{
    open_export("stream_convolved-ts1.13-op17");
    model->inputs[1] = model->inputs[0]; // of rows that all share one sequence
    model->inputs[0].batch_axis = -1;
    model->n_inputs = 2;
    expect_refused("input \"x\" is another sequence");
    open_export("ids_mixed-ts1.13-op17");
    model->inputs[0].pieces = 2; // of ids with bounds of their own
    look_back(0, 0, -1);
    expect_refused("reads earlier steps of numbers that nobody could check");
    open_export("stream_subsampled-ts1.13-op17");
    model->sequences[1].stride = 3; // no longer what the windows have
    expect_refused("do not repeat themselves");
    open_export("stream_subsampled-ts1.13-op17");
    model->sequences[1].stride = model->sequences[2].stride = CELL_WINDOW_MAX;
    expect_refused("has steps of a sequence that does not follow from the request's");
    open_export("stream_subsampled-ts1.13-op17");
    model->sequences[2].kept = 3;
    expect_refused("has steps of a sequence that does not follow from the request's");
    open_export("stream_convolved-ts1.13-op17");
    model->inputs[0].sequence = CELL_SEQUENCES_MAX - 1;
    expect_refused("input \"x\" is another sequence");
    open_export("stream_convolved-ts1.13-op17");
    model->stages[0].inputs[0].parts = 2;
    expect_refused("reads steps beside its own, which may be");
    open_export("conv_residual-ts1.13-op17");
    model->outputs[1] = model->outputs[0];
    model->output_sources[1][0] = (struct cell_source){.kind = CELL_SOURCE_EACH, .stage = 0};
    model->output_sources[1][1] = model->output_sources[0][0];
    model->outputs[1].pieces = 2;
    model->n_outputs = 2;
    expect_refused("has steps of several cells, of which one comes later");
    open_export("stream_convolved-ts1.13-op17");
    model->n_outputs = CELL_TENSORS_MAX - 1;
    expect_refused("more than 256 inputs or outputs");
}
END_TEST

/* Of inputs that no output goes on from, in two pieces. */
START_TEST(test_layers_that_begin_with_an_input)
{
    static const struct cell_kept_states kept = {.recurrent = true};
    open_export("gru_two_layer_state_in-ts1.13-op14");
    ck_assert_uint_eq(model->inputs[1].pieces, 2);
    model->n_outputs = 1; // without hn
    ck_assert_int_eq(cell_model_keep_states(model, &kept, &error), BASE_OK);
    ck_assert_uint_eq(model->n_states, 1);
    ck_assert_uint_eq(model->states[0].input, 1);
    ck_assert_str_eq(model->inputs[1].name, "h0");
    ck_assert_str_eq(model->outputs[1].name, "state.0");
    ck_assert_int_eq(model->output_sources[1][1].kind, CELL_SOURCE_LAST_STATE);
    ck_assert_uint_eq(model->output_sources[1][1].stage, 1);
    close_export();
    open_export("gru_two_layer_state_in-ts1.13-op14");
    ck_assert_int_eq(cell_model_keep_states(model, &kept, &error), BASE_OK);
    ck_assert_uint_eq(model->n_outputs, 2);
    ck_assert_uint_eq(model->states[0].output, 1);
    close_export();
}
END_TEST

/* An input whose name is taken. */
START_TEST(test_names_of_states)
{
    static const struct cell_kept_states kept = {.recurrent = true};
    open_export("tagger-ts1.13-op14");
    const uint32_t n_outputs = model->n_outputs;
    snprintf(model->inputs[0].name, sizeof(model->inputs[0].name), "state.0");
    ck_assert_int_eq(cell_model_keep_states(model, &kept, &error), BASE_OK);
    ck_assert_uint_eq(model->n_states, 2);
    ck_assert_str_eq(model->inputs[1].name, "state.1");
    ck_assert_str_eq(model->inputs[2].name, "state.2");
    ck_assert_str_eq(model->outputs[n_outputs].name, "state.1");
    close_export();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("model_states");
    TCase *tcase = tcase_create("states");
    tcase_add_test(tcase, test_pairs_of_tensors);
    tcase_add_test(tcase, test_pairs_of_some_steps);
    tcase_add_test(tcase, test_no_states);
    tcase_add_test(tcase, test_pairs_that_are_none);
    tcase_add_test(tcase, test_pairs_that_are_not_alike);
    tcase_add_test(tcase, test_layers_of_every_export_in_parts_or_refused);
    tcase_add_test(tcase, test_layers_that_are_refused);
    tcase_add_test(tcase, test_histories_of_ids);
    tcase_add_test(tcase, test_strided_steps_of_which_nothing_is_read);
    tcase_add_test(tcase, test_outputs_that_come_at_unlike_times);
    tcase_add_test(tcase, test_attention_to_all_earlier_steps);
    tcase_add_test(tcase, test_attention_that_is_refused);
    tcase_add_test(tcase, test_steps_of_all_rows_are_taken_row_by_row);
    tcase_add_test(tcase, test_windows_that_are_refused);
    tcase_add_test(tcase, test_layers_that_begin_with_an_input);
    tcase_add_test(tcase, test_names_of_states);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
