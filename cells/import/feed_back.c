/* A part whose outputs are fed back becomes a cell with states; see feed_back.h. Value numbers of a
 * definition are inputs, states, results: an input that becomes a state moves behind those that do
 * not, and all results keep their numbers. Cost: O(ops + inputs x outputs). */
#include "cells/import/feed_back.h"

#include "base/assert.h"

#include <string.h>

#define SUFFIX "_next"

/* The length of the name without the suffix, or 0 when it has none. */
static size_t stem_of(const char *name)
{
    const size_t length = strlen(name);
    const size_t suffix = sizeof(SUFFIX) - 1;
    return length > suffix && strcmp(name + length - suffix, SUFFIX) == 0 ? length - suffix : 0;
}

static uint32_t find_input(const struct cell_model *model, const char *name, size_t length)
{
    for (uint32_t i = 0; i < model->n_inputs; i++) {
        const char *input = model->inputs[i].name;
        if (strlen(input) == length && strncmp(input, name, length) == 0) {
            return i;
        }
    }
    return CELL__NONE;
}

/* The definition's input that is the model's, or NONE. */
static uint32_t find_operand(const struct cell__fed *fed, uint32_t input)
{
    for (uint32_t i = 0; i < fed->def->n_inputs; i++) {
        if (fed->inputs[i].kind == CELL_SOURCE_INPUT && fed->inputs[i].index == input) {
            return i;
        }
    }
    return CELL__NONE;
}

/* One output that is fed back. */
struct pair {
    uint32_t operand; /* of the definition, before it becomes a state */
    uint32_t next;    /* value, as numbered before */
};

/* The value of the definition that an output of the part is. */
static enum base_status value_of(struct cell__import *im, const struct cell_model *model,
                                 const struct cell__fed *fed, uint32_t output, uint32_t *out)
{
    const struct cell_source *source = &model->output_sources[output][0];
    const bool is_computed = source->kind == CELL_SOURCE_EACH || source->kind == CELL_SOURCE_LAST;
    *out = CELL__NONE;
    if (source->kind == CELL_SOURCE_INPUT) {
        *out = find_operand(fed, source->index);
    } else if (is_computed) { // by the only stage, whose first step is its last
        *out = fed->def->outputs[source->index];
    }
    if (*out == CELL__NONE || model->outputs[output].pieces != 1) {
        return base_fail(im->error, BASE_UNIMPLEMENTED,
                         "output \"%.60s\" is not computed from what the step reads",
                         model->outputs[output].name);
    }
    return BASE_OK;
}

static enum base_status pair_up(struct cell__import *im, const struct cell_model *model,
                                const struct cell__fed *fed, uint32_t output, size_t stem,
                                struct pair *out)
{
    const struct cell_tensor *next = &model->outputs[output];
    const uint32_t input = find_input(model, next->name, stem);
    if (input == CELL__NONE) {
        return base_fail(im->error, BASE_INVALID_ARGUMENT,
                         "output \"%.60s\" is to be fed back, but there is no input \"%.*s\"",
                         next->name, (int)(stem < 60 ? stem : 60), next->name);
    }
    const struct cell_tensor *tensor = &model->inputs[input];
    if (tensor->dtype != next->dtype || tensor->width != next->width || tensor->pieces != 1) {
        return base_fail(im->error, BASE_INVALID_ARGUMENT,
                         "output \"%.60s\" has width %u, the input that it becomes %u, or another "
                         "type",
                         next->name, next->width, tensor->width);
    }
    out->operand = find_operand(fed, input);
    if (out->operand == CELL__NONE) {
        return base_fail(im->error, BASE_UNIMPLEMENTED,
                         "input \"%.60s\" is fed back, but nothing reads it", tensor->name);
    }
    return value_of(im, model, fed, output, &out->next);
}

static enum base_status find_pairs(struct cell__import *im, const struct cell_model *model,
                                   const struct cell__fed *fed, struct pair *pairs, uint32_t *n)
{
    for (uint32_t o = 0; o < model->n_outputs; o++) {
        const size_t stem = stem_of(model->outputs[o].name);
        if (stem == 0) {
            continue;
        }
        if (*n == CELL_STATES_MAX) {
            return base_fail(im->error, BASE_UNIMPLEMENTED, "more than %u outputs are fed back",
                             CELL_STATES_MAX);
        }
        BASE_TRY(pair_up(im, model, fed, o, stem, &pairs[(*n)++]));
    }
    if (*n == 0 && !model->options.may_feed_none) {
        return base_fail(im->error, BASE_INVALID_ARGUMENT,
                         "no output is fed back: none is called like an input with \"" SUFFIX
                         "\" behind it");
    }
    return BASE_OK;
}

/* Gives inputs their new numbers: numbers[old]. */
static void renumber(const struct cell__fed *fed, const struct pair *pairs, uint32_t n_pairs,
                     uint32_t numbers[CELL_INPUTS_MAX])
{
    struct cell_def *def = fed->def;
    struct cell_value values[CELL_INPUTS_MAX] = {{0}};
    struct cell_source sources[CELL_INPUTS_MAX] = {{0}};
    const uint32_t n = def->n_inputs;
    uint32_t kept = 0;
    memcpy(values, def->values, n * sizeof(values[0]));
    memcpy(sources, fed->inputs, n * sizeof(sources[0]));
    for (uint32_t i = 0; i < n; i++) {
        uint32_t state = 0;
        while (state < n_pairs && pairs[state].operand != i) {
            state++;
        }
        numbers[i] = state < n_pairs ? n - n_pairs + state : kept++;
        def->values[numbers[i]] = values[i];
        *(state < n_pairs ? &fed->init[state] : &fed->inputs[numbers[i]]) = sources[i];
    }
    base_assert(kept == n - n_pairs);
    def->n_inputs = kept;
    def->n_states = n_pairs;
}

static uint32_t renumbered(const uint32_t numbers[CELL_INPUTS_MAX], uint32_t n, uint32_t value)
{
    return value < n ? numbers[value] : value;
}

/* The outputs that stay: those not fed back, and the token. values: theirs. */
static enum base_status keep_outputs(struct cell__import *im, struct cell_model *model,
                                     const struct cell__fed *fed, uint32_t *values)
{
    uint32_t n = 0;
    for (uint32_t o = 0; o < model->n_outputs; o++) {
        const size_t stem = stem_of(model->outputs[o].name);
        const bool is_token =
            stem == strlen(CELL_TOKEN) && strncmp(model->outputs[o].name, CELL_TOKEN, stem) == 0;
        if (stem > 0 && !is_token) {
            continue;
        }
        uint32_t value = 0;
        BASE_TRY(value_of(im, model, fed, o, &value));
        model->outputs[n] = model->outputs[o];
        model->outputs[n].name[is_token ? stem : strlen(model->outputs[n].name)] = '\0';
        model->output_sources[n][0] = (struct cell_source){.kind = CELL_SOURCE_EACH, .index = n};
        values[n++] = value;
        for (uint32_t other = 0; other + 1 < n; other++) {
            if (strcmp(model->outputs[other].name, model->outputs[n - 1].name) == 0) {
                return base_fail(im->error, BASE_INVALID_ARGUMENT,
                                 "two outputs would be called \"%.60s\"",
                                 model->outputs[other].name);
            }
        }
    }
    if (n == 0) {
        return base_fail(im->error, BASE_INVALID_ARGUMENT,
                         "every output is fed back: nothing is left to answer");
    }
    model->n_outputs = n;
    return BASE_OK;
}

enum base_status cell__feed_back(struct cell__import *im, struct cell_model *model,
                                 const struct cell__fed *fed)
{
    struct cell_def *def = fed->def;
    struct pair pairs[CELL_STATES_MAX] = {{0}};
    uint32_t values[CELL_TENSORS_MAX] = {0};
    uint32_t numbers[CELL_INPUTS_MAX] = {0};
    uint32_t n = 0;
    BASE_TRY(find_pairs(im, model, fed, pairs, &n));
    BASE_TRY(keep_outputs(im, model, fed, values));
    const uint32_t n_inputs = def->n_inputs;
    renumber(fed, pairs, n, numbers);
    for (uint32_t s = 0; s < n; s++) {
        def->state_next[s] = renumbered(numbers, n_inputs, pairs[s].next);
    }
    for (uint32_t o = 0; o < def->n_ops; o++) {
        for (uint32_t i = 0; i < def->ops[o].n_operands; i++) {
            uint32_t *operand = &def->ops[o].operands[i];
            *operand = renumbered(numbers, n_inputs, *operand);
        }
    }
    def->n_outputs = model->n_outputs;
    for (uint32_t o = 0; o < def->n_outputs; o++) {
        def->outputs[o] = renumbered(numbers, n_inputs, values[o]);
    }
    return BASE_OK;
}
