/* A list of those that wait for each bucket; all kinds but GRAPH have one bucket. */
#include "bench/batching.h"

#include "base/assert.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

#define NONE UINT32_MAX

#define WIDTH_MAX 1000000u

struct bucket {
    uint32_t first, last; /* NONE: nobody waits; then last means nothing */
    uint32_t count;
};

struct bench_batching {
    struct bench_batching_policy policy;
    uint32_t capacity, n_buckets;
    struct bucket *buckets;
    uint32_t *next;               /* [capacity], of those that wait */
    struct bench_extent *extents; /* [capacity] */
    uint32_t waiting, inside;

    /* The group that goes in: what is left of it, and what it is padded to. */
    uint32_t bucket, left;
    struct bench_extent padded;
};

enum base_status bench_batching_parse(const char *text, struct bench_batching_policy *out,
                                      struct base_error *error)
{
    static const char *const names[] = {"cellular", "merge", "graph", "single"};
    unsigned int width = 0;
    char rest = 0;
    // NOLINTNEXTLINE(cert-err34-c): the range is checked below
    if (sscanf(text, "graph:%u%c", &width, &rest) == 1 && width > 0 && width <= WIDTH_MAX) {
        out->kind = BENCH_GRAPH;
        out->width = width;
        return BASE_OK;
    }
    for (uint32_t k = 0; k < sizeof(names) / sizeof(names[0]); k++) {
        if (k != BENCH_GRAPH && strcmp(text, names[k]) == 0) {
            out->kind = (enum bench_batching_kind)k;
            return BASE_OK;
        }
    }
    return base_fail(error, BASE_INVALID_ARGUMENT,
                     "policy '%s': want cellular, merge, single or graph:WIDTH", text);
}

enum base_status bench_batching_create(const struct bench_batching_policy *policy,
                                       uint32_t capacity, uint32_t steps_max,
                                       struct bench_batching **out, struct base_error *error)
{
    struct bench_batching *batching = base_alloc(sizeof *batching);
    if (batching == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "out of memory");
    }
    batching->policy = *policy;
    batching->capacity = capacity;
    batching->n_buckets =
        policy->kind == BENCH_GRAPH ? (steps_max + policy->width - 1) / policy->width : 1;
    batching->bucket = batching->n_buckets - 1; // so that the first comes first
    batching->buckets = base_alloc_array(batching->n_buckets, sizeof *batching->buckets);
    batching->next = base_alloc_array(capacity, sizeof *batching->next);
    batching->extents = base_alloc_array(capacity, sizeof *batching->extents);
    if (batching->buckets == NULL || batching->next == NULL || batching->extents == NULL) {
        bench_batching_free(batching);
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "out of memory");
    }
    for (uint32_t b = 0; b < batching->n_buckets; b++) {
        batching->buckets[b].first = NONE;
    }
    *out = batching;
    return BASE_OK;
}

void bench_batching_free(struct bench_batching *batching)
{
    if (batching != NULL) {
        base_free(batching->buckets);
        base_free(batching->next);
        base_free(batching->extents);
        base_free(batching);
    }
}

void bench_batching_add(struct bench_batching *batching, uint32_t id, struct bench_extent extent)
{
    base_assert(id < batching->capacity);
    const bool has_buckets = batching->policy.kind == BENCH_GRAPH;
    const uint32_t b = has_buckets ? (extent.steps - 1) / batching->policy.width : 0;
    base_assert(b < batching->n_buckets);
    struct bucket *bucket = &batching->buckets[b];
    batching->extents[id] = extent;
    batching->next[id] = NONE;
    *(bucket->first == NONE ? &bucket->first : &batching->next[bucket->last]) = id;
    bucket->last = id;
    bucket->count++;
    batching->waiting++;
}

bool bench_batching_is_grouped(const struct bench_batching *batching)
{
    return batching->policy.kind == BENCH_MERGE || batching->policy.kind == BENCH_GRAPH;
}

/* How many may go in together, of the kind's own rule; `count` wait. */
static uint32_t group_of(const struct bench_batching *batching, uint32_t count)
{
    uint32_t room = batching->policy.most;
    if (batching->policy.kind == BENCH_CELLULAR) {
        room = room > batching->inside ? room - batching->inside : 0;
    } else if (batching->inside > 0) {
        room = 0;
    } else if (batching->policy.kind == BENCH_SINGLE) {
        room = 1;
    }
    return count < room ? count : room;
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* The next bucket in turn in which somebody waits. */
static void begin_group(struct bench_batching *batching)
{
    do {
        batching->bucket = (batching->bucket + 1) % batching->n_buckets;
    } while (batching->buckets[batching->bucket].count == 0);
    const struct bucket *bucket = &batching->buckets[batching->bucket];
    batching->left = group_of(batching, bucket->count);
    batching->padded = (struct bench_extent){0};
    uint32_t id = bucket->first;
    for (uint32_t i = 0; i < batching->left && batching->policy.kind == BENCH_GRAPH; i++) {
        const struct bench_extent *own = &batching->extents[id];
        batching->padded.steps = larger(batching->padded.steps, own->steps);
        batching->padded.answer = larger(batching->padded.answer, own->answer);
        id = batching->next[id];
    }
}

uint32_t bench_batching_next(struct bench_batching *batching, struct bench_extent *padded)
{
    if (batching->left == 0) {
        if (batching->waiting == 0 || group_of(batching, 1) == 0) {
            return NONE;
        }
        begin_group(batching);
    }
    struct bucket *bucket = &batching->buckets[batching->bucket];
    uint32_t id = bucket->first;
    bucket->first = batching->next[id];
    bucket->count--;
    batching->waiting--;
    batching->inside++;
    batching->left--;
    *padded = batching->padded;
    return id;
}

void bench_batching_leave(struct bench_batching *batching)
{
    base_assert(batching->inside > 0);
    batching->inside--;
}

uint32_t bench_batching_inside(const struct bench_batching *batching)
{
    return batching->inside;
}

uint32_t bench_batching_waiting(const struct bench_batching *batching)
{
    return batching->waiting;
}
