/* Free lists of row ids: a stack of ids per layout, and per row its generation, whose lowest bit
 * says whether the row is taken. Owner: the pool thread (in_use may be read by any). */
#include "scheduler/rows.h"

#include "base/assert.h"
#include "base/mem.h"

#include <stdatomic.h>

/* Rows taken after this one whose generation is asked for. */
#define AHEAD 8u

struct free_list {
    uint32_t capacity, n_free;
    uint32_t *ids;         /* ids[0..n_free-1] are free */
    uint32_t *generations; /* odd = taken */
    _Atomic uint32_t in_use;
};

struct sched_rows {
    struct free_list lists[CELL_LAYOUTS_MAX];
};

enum base_status sched_rows_create(struct sched_rows **out)
{
    *out = base_alloc(sizeof(**out));
    return *out == NULL ? BASE_RESOURCE_EXHAUSTED : BASE_OK;
}

void sched_rows_free(struct sched_rows *rows)
{
    if (rows == NULL) {
        return;
    }
    for (uint32_t i = 0; i < CELL_LAYOUTS_MAX; i++) {
        base_free(rows->lists[i].ids);
        base_free(rows->lists[i].generations);
    }
    base_free(rows);
}

enum base_status sched_rows_open(struct sched_rows *rows, uint32_t layout, uint32_t capacity)
{
    base_assert(layout < CELL_LAYOUTS_MAX && capacity > 0);
    struct free_list *list = &rows->lists[layout];
    base_assert(list->capacity == 0);
    uint32_t *ids = base_alloc_array(capacity, sizeof(*ids));
    uint32_t *generations = base_alloc_array(capacity, sizeof(*generations));
    if (ids == NULL || generations == NULL) {
        base_free(ids);
        base_free(generations);
        return BASE_RESOURCE_EXHAUSTED;
    }
    // Low ids on top: a lightly loaded server touches little memory.
    for (uint32_t i = 0; i < capacity; i++) {
        ids[i] = capacity - 1 - i;
    }
    list->ids = ids;
    list->generations = generations;
    list->n_free = list->capacity = capacity;
    return BASE_OK;
}

uint32_t sched_rows_take(struct sched_rows *rows, uint32_t layout)
{
    base_assert(layout < CELL_LAYOUTS_MAX);
    struct free_list *list = &rows->lists[layout];
    base_assert(list->n_free > 0);
    uint32_t row = list->ids[--list->n_free];
    base_assert((list->generations[row] & 1u) == 0);
    list->generations[row]++;
    if (list->n_free > AHEAD) {
        __builtin_prefetch(&list->generations[list->ids[list->n_free - 1 - AHEAD]], 1);
    }
    atomic_store_explicit(&list->in_use, list->capacity - list->n_free, memory_order_relaxed);
    return row;
}

void sched_rows_give(struct sched_rows *rows, uint32_t layout, uint32_t row)
{
    base_assert(layout < CELL_LAYOUTS_MAX);
    struct free_list *list = &rows->lists[layout];
    base_assert(row < list->capacity && (list->generations[row] & 1u) == 1);
    list->generations[row]++;
    list->ids[list->n_free++] = row;
    atomic_store_explicit(&list->in_use, list->capacity - list->n_free, memory_order_relaxed);
}

uint32_t sched_rows_capacity(const struct sched_rows *rows, uint32_t layout)
{
    base_assert(layout < CELL_LAYOUTS_MAX);
    return rows->lists[layout].capacity;
}

uint32_t sched_rows_in_use(const struct sched_rows *rows, uint32_t layout)
{
    base_assert(layout < CELL_LAYOUTS_MAX);
    return atomic_load_explicit(&rows->lists[layout].in_use, memory_order_relaxed);
}

uint32_t sched_rows_generation(const struct sched_rows *rows, uint32_t layout, uint32_t row)
{
    base_assert(layout < CELL_LAYOUTS_MAX && row < rows->lists[layout].capacity);
    return rows->lists[layout].generations[row];
}
