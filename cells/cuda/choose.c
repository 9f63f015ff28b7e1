/* See choose.h. */
#include "cells/cuda/choose.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_BYTES 256
#define NONE       "none\n"
#define WORDS      (sizeof(((struct cell_cuda_algo *)NULL)->words) / sizeof(uint64_t))
#define FIELD      (CELL_STEP_ORDERS * CELL_CUDA_TIMED)

const uint32_t cell_cuda_counts[CELL_CUDA_COUNTS] = {1, 16, 64, 256, 1024};

static const char *const orders[CELL_STEP_ORDERS] = {"kn", "nk"};

/* Those that pass. */
struct field {
    uint32_t n;
    struct cell_cuda_candidate candidates[FIELD];
    uint64_t ns[FIELD][CELL_CUDA_COUNTS]; /* the shortest; 0: not timed */
    bool is_out[FIELD];
};

/* ---- Keeping -------------------------------------------------------------------------------- */

static void write_text(const struct cell_cuda_candidate *candidate, char out[TEXT_BYTES])
{
    int length = snprintf(out, TEXT_BYTES, "%s", orders[candidate->order]);
    for (size_t w = 0; w < WORDS; w++) {
        length += snprintf(out + length, TEXT_BYTES - (size_t)length, " %016" PRIx64,
                           candidate->algo.words[w]);
    }
    (void)snprintf(out + length, TEXT_BYTES - (size_t)length, "\n");
}

/* Strict by writing it again. */
static bool read_text(const char *text, struct cell_cuda_candidate *out)
{
    char again[TEXT_BYTES];
    const char *at = text + strcspn(text, " ");
    out->order = text[0] == orders[CELL_STEP_NK][0] ? CELL_STEP_NK : CELL_STEP_KN;
    for (size_t w = 0; w < WORDS; w++) {
        char *end = NULL;
        out->algo.words[w] = strtoull(at, &end, 16);
        at = end;
    }
    write_text(out, again);
    return strcmp(text, again) == 0;
}

static void keep(const struct cell_cuda_trial *trial, const struct cell_cuda_candidate *candidate)
{
    char text[TEXT_BYTES] = NONE;
    if (candidate != NULL) {
        write_text(candidate, text);
    }
    if (trial->cache != NULL) {
        trial->cache->store(trial->cache->context, trial->name, trial->key, text);
    }
}

/* ---- Probing and timing --------------------------------------------------------------------- */

static enum base_status probe(const struct cell_cuda_trial *trial,
                              const struct cell_cuda_candidate *candidate, bool *passes)
{
    const enum base_status status = trial->probe(trial->context, candidate, passes);
    *passes = *passes && status == BASE_OK;
    return status == BASE_UNIMPLEMENTED ? BASE_OK : status;
}

/* What was kept, if it still passes; UNIMPLEMENTED: that none did was. *is_known false: nothing. */
static enum base_status recall(const struct cell_cuda_trial *trial, struct cell_cuda_candidate *out,
                               bool *is_known)
{
    char text[TEXT_BYTES];
    *is_known = false;
    if (trial->cache == NULL ||
        !trial->cache->load(trial->cache->context, trial->name, trial->key, text, sizeof(text))) {
        return BASE_OK;
    }
    if (strcmp(text, NONE) == 0) {
        *is_known = true;
        return BASE_UNIMPLEMENTED;
    }
    return read_text(text, out) ? probe(trial, out, is_known) : BASE_OK;
}

static enum base_status find_passing(const struct cell_cuda_trial *trial,
                                     enum cell_step_order order, struct field *field)
{
    struct cell_cuda_algo ranked[CELL_CUDA_RANKED];
    const uint32_t most = field->n + CELL_CUDA_TIMED;
    uint32_t n = 0;
    const enum base_status status = trial->rank(trial->context, order, ranked, &n);
    if (status != BASE_OK) {
        return status == BASE_UNIMPLEMENTED ? BASE_OK : status;
    }
    for (uint32_t i = 0; i < n && field->n < most; i++) {
        const struct cell_cuda_candidate candidate = {.order = order, .algo = ranked[i]};
        bool passes = false;
        BASE_TRY(probe(trial, &candidate, &passes));
        if (passes) {
            field->candidates[field->n++] = candidate;
        }
    }
    return BASE_OK;
}

static enum base_status time_one(const struct cell_cuda_trial *trial, struct field *field,
                                 uint32_t candidate, uint32_t count)
{
    const uint64_t budget_ns =
        CELL_CUDA_CHOICE_NS / ((uint64_t)field->n * CELL_CUDA_COUNTS * CELL_CUDA_ROUNDS);
    uint64_t *shortest_ns = &field->ns[candidate][count];
    uint64_t ns = 0;
    const enum base_status status = trial->time(trial->context, &field->candidates[candidate],
                                                cell_cuda_counts[count], budget_ns, &ns);
    field->is_out[candidate] |= status == BASE_UNIMPLEMENTED;
    if (status == BASE_OK) {
        ns = ns > 0 ? ns : 1;
        *shortest_ns = *shortest_ns == 0 || ns < *shortest_ns ? ns : *shortest_ns;
    }
    return status == BASE_UNIMPLEMENTED ? BASE_OK : status;
}

static enum base_status time_count(const struct cell_cuda_trial *trial, struct field *field,
                                   uint32_t count)
{
    for (uint32_t i = 0; i < field->n; i++) {
        if (!field->is_out[i]) {
            BASE_TRY(time_one(trial, field, i, count));
        }
    }
    return BASE_OK;
}

/* All of them in each round, so that what disturbs for a while disturbs all. */
static enum base_status time_all(const struct cell_cuda_trial *trial, struct field *field)
{
    for (uint32_t round = 0; round < CELL_CUDA_ROUNDS; round++) {
        for (uint32_t count = 0; count < CELL_CUDA_COUNTS; count++) {
            BASE_TRY(time_count(trial, field, count));
        }
    }
    return BASE_OK;
}

/* field->n: nobody is left. */
static uint32_t best_of(const struct field *field)
{
    double sums[FIELD] = {0};
    uint32_t best = field->n;
    for (uint32_t count = 0; count < CELL_CUDA_COUNTS; count++) {
        uint64_t shortest_ns = UINT64_MAX;
        for (uint32_t i = 0; i < field->n; i++) {
            const uint64_t ns = field->ns[i][count];
            shortest_ns = !field->is_out[i] && ns < shortest_ns ? ns : shortest_ns;
        }
        for (uint32_t i = 0; i < field->n; i++) {
            sums[i] += (double)field->ns[i][count] / (double)shortest_ns;
        }
    }
    for (uint32_t i = 0; i < field->n; i++) {
        if (!field->is_out[i] && (best == field->n || sums[i] < sums[best])) {
            best = i;
        }
    }
    return best;
}

enum base_status cell_cuda_choose(const struct cell_cuda_trial *trial,
                                  struct cell_cuda_candidate *out)
{
    struct field field = {.n = 0};
    bool is_known = false;
    BASE_TRY(recall(trial, out, &is_known));
    if (is_known) {
        return BASE_OK;
    }
    BASE_TRY(find_passing(trial, CELL_STEP_KN, &field));
    BASE_TRY(find_passing(trial, CELL_STEP_NK, &field));
    if (field.n > 1) {
        BASE_TRY(time_all(trial, &field));
    }
    const uint32_t best = field.n > 1 ? best_of(&field) : 0;
    if (best == field.n) {
        keep(trial, NULL);
        return BASE_UNIMPLEMENTED;
    }
    *out = field.candidates[best];
    keep(trial, out);
    return BASE_OK;
}
