/* What the attributes activations, activation_alpha, activation_beta and clip of an LSTM, GRU or
 * RNN say of one direction. */
#include "cells/import/ops.h"

#include "cells/math_constants.h"

#include <math.h>
#include <string.h>

/* The functions by name, and what they take from activation_alpha and activation_beta, or else. */
static const struct {
    const char *name; /* in lower case */
    bool has_alpha, has_beta;
    float alpha, beta;
} functions[] = {
    [CELL__ACT_SIGMOID] = {.name = "sigmoid"},
    [CELL__ACT_TANH] = {.name = "tanh"},
    [CELL__ACT_RELU] = {.name = "relu"},
    [CELL__ACT_LEAKY_RELU] = {.name = "leakyrelu", .has_alpha = true, .alpha = 0.01f},
    [CELL__ACT_THRESHOLDED_RELU] = {.name = "thresholdedrelu", .has_alpha = true, .alpha = 1.0f},
    [CELL__ACT_SCALED_TANH] = {"scaledtanh", true, true, 1.0f, 1.0f},
    [CELL__ACT_HARD_SIGMOID] = {"hardsigmoid", true, true, 0.2f, 0.5f},
    [CELL__ACT_ELU] = {.name = "elu", .has_alpha = true, .alpha = 1.0f},
    [CELL__ACT_SOFTSIGN] = {.name = "softsign"},
    [CELL__ACT_SOFTPLUS] = {.name = "softplus"},
    [CELL__ACT_AFFINE] = {"affine", true, true, 1.0f, 0.0f},
};

/* activation_alpha or activation_beta: a list of floats, or the one of older exporters. */
static enum base_status read_factors(struct cell__import *im, const struct cell__node *node,
                                     const char *name, const float **out, size_t *n)
{
    const Onnx__AttributeProto *a = cell__attr(node, name);
    *n = 0;
    if (a == NULL) {
        return BASE_OK;
    }
    bool is_one = a->type == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT;
    if (!is_one && a->type != ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS) {
        return cell__invalid(im, "attribute %s is no list of numbers", name);
    }
    *out = is_one ? &a->f : a->floats;
    *n = is_one ? 1 : a->n_floats;
    for (size_t i = 0; i < *n; i++) {
        if (!isfinite((*out)[i])) {
            return cell__invalid(im, "attribute %s is not finite", name);
        }
    }
    return BASE_OK;
}

/* The given names, or the unit's own where the list is shorter, for one direction after the other;
 * in any case. */
static enum base_status find_function(struct cell__import *im, const Onnx__AttributeProto *a,
                                      const char *own, uint32_t i, enum cell__activation_kind *out)
{
    char text[CELL__TEXT_BYTES] = "";
    char quoted[CELL__TEXT_BYTES];
    for (size_t f = 0; f < sizeof(functions) / sizeof(functions[0]); f++) {
        if (a != NULL && i < a->n_strings ? cell__is_text(a->strings[i], functions[f].name)
                                          : strcmp(own, functions[f].name) == 0) {
            *out = (enum cell__activation_kind)f;
            return BASE_OK;
        }
    }
    const ProtobufCBinaryData given = a->strings[i];
    if (given.len > 0) {
        memcpy(text, given.data, given.len < sizeof(text) - 1 ? given.len : sizeof(text) - 1);
    }
    return cell__refuse(im, "activation \"%s\"", cell__quote(quoted, text));
}

/* The default of an RNN, of two directions, which ONNX Runtime states where it writes a file: of
 * one direction the first counts. */
static bool is_stated_default(const Onnx__AttributeProto *a, const struct cell__recurrent *of,
                              uint32_t n)
{
    return n == 1 && of->directions == 1 && a->n_strings == 2 &&
           cell__is_text(a->strings[0], "tanh") && cell__is_text(a->strings[1], "tanh");
}

/* alpha and beta go to the functions that take them, in the order of the list. */
static enum base_status read_activations(struct cell__import *im, const struct cell__node *node,
                                         const struct cell__functions *own, uint32_t direction,
                                         struct cell__recurrent *recurrent)
{
    const Onnx__AttributeProto *a = cell__attr(node, "activations");
    const uint32_t n = own->n;
    const float *alphas = NULL;
    const float *betas = NULL;
    size_t n_alphas = 0;
    size_t n_betas = 0;
    if (a != NULL && a->n_strings == 0 &&
        a->type != ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS) {
        return cell__invalid(im, "attribute activations is no list of names");
    }
    if (a != NULL && a->n_strings > (size_t)n * recurrent->directions &&
        !is_stated_default(a, recurrent, n)) {
        return cell__invalid(im, "%zu activations; at most %u", a->n_strings,
                             n * recurrent->directions);
    }
    BASE_TRY(read_factors(im, node, "activation_alpha", &alphas, &n_alphas));
    BASE_TRY(read_factors(im, node, "activation_beta", &betas, &n_betas));
    for (uint32_t i = 0; i < (direction + 1) * n; i++) {
        enum cell__activation_kind kind = CELL__ACT_SIGMOID;
        BASE_TRY(find_function(im, a, own->names[i % n], i, &kind));
        struct cell__activation *activation = &recurrent->activations[i % n];
        *activation = (struct cell__activation){kind, functions[kind].alpha, functions[kind].beta};
        if (functions[kind].has_alpha && n_alphas > 0) {
            activation->alpha = *alphas++;
            n_alphas--;
        }
        if (functions[kind].has_beta && n_betas > 0) {
            activation->beta = *betas++;
            n_betas--;
        }
    }
    return BASE_OK;
}

/* Sigmoid and tanh are what they are at their limit from there on: such a clip changes nothing. */
static enum base_status read_clip(struct cell__import *im, const struct cell__node *node,
                                  uint32_t n, struct cell__recurrent *recurrent)
{
    float clip = 0.0f;
    bool saturates = true;
    BASE_TRY(cell__attr_float(im, node, "clip", 0.0f, &clip));
    if (cell__attr(node, "clip") != NULL && !(clip > 0.0f)) {
        return cell__invalid(im, "clip %g; it must be above 0", (double)clip);
    }
    for (uint32_t i = 0; i < n; i++) {
        saturates = saturates && recurrent->activations[i].kind <= CELL__ACT_TANH;
    }
    bool is_nothing =
        isinf(clip) || (saturates && clip >= CELL_SIGMOID_LIMIT && clip >= CELL_TANH_LIMIT);
    recurrent->clip = is_nothing ? 0.0f : clip;
    return BASE_OK;
}

enum base_status cell__read_functions(struct cell__import *im, const struct cell__node *node,
                                      const struct cell__functions *own, uint32_t direction,
                                      struct cell__recurrent *recurrent)
{
    BASE_TRY(read_activations(im, node, own, direction, recurrent));
    BASE_TRY(read_clip(im, node, own->n, recurrent));
    recurrent->is_written_out = recurrent->clip > 0.0f;
    for (uint32_t i = 0; i < own->n; i++) {
        const char *name = functions[recurrent->activations[i].kind].name;
        recurrent->is_written_out |= strcmp(name, own->names[i]) != 0;
    }
    return BASE_OK;
}
