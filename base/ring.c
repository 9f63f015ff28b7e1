/* The two rings between threads.
 *
 * Indices run freely in uint32_t and are masked at use; full and empty are told apart by their
 * difference. Each side writes only its own cache line and keeps a copy of the other side's index
 * there, which it refreshes only when the ring looks full or empty: a push or pop usually touches
 * no line of the other side but the slot. */
#include "base/ring.h"

#include "base/assert.h"
#include "base/mem.h"

#include <stdatomic.h>
#include <stddef.h>

/* Differences of indices must stay positive as int32_t. */
#define CAPACITY_MAX (1u << 30)

static bool is_capacity(uint32_t capacity)
{
    return capacity >= 2 && capacity <= CAPACITY_MAX && (capacity & (capacity - 1)) == 0;
}

/* ---- One producer, one consumer ---- */

struct base_spsc {
    // Consumer's line.
    _Alignas(BASE_CACHE_LINE) _Atomic uint32_t head; // next to pop
    uint32_t tail_seen;
    // Producer's line.
    _Alignas(BASE_CACHE_LINE) _Atomic uint32_t tail; // next to push
    uint32_t head_seen;
    // Never changes.
    _Alignas(BASE_CACHE_LINE) uint32_t capacity;
    _Alignas(BASE_CACHE_LINE) void *slots[];
};

enum base_status base_spsc_create(uint32_t capacity, struct base_spsc **out)
{
    base_assert(is_capacity(capacity));
    size_t bytes = sizeof(struct base_spsc) + (size_t)capacity * sizeof(void *);
    struct base_spsc *ring = base_alloc_aligned(bytes, BASE_CACHE_LINE);
    if (ring == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    ring->capacity = capacity;
    *out = ring;
    return BASE_OK;
}

void base_spsc_free(struct base_spsc *ring)
{
    base_free(ring);
}

bool base_spsc_push(struct base_spsc *ring, void *item)
{
    base_assert(item != NULL);
    uint32_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    if (tail - ring->head_seen == ring->capacity) {
        ring->head_seen = atomic_load_explicit(&ring->head, memory_order_acquire);
        if (tail - ring->head_seen == ring->capacity) {
            return false;
        }
    }
    ring->slots[tail & (ring->capacity - 1)] = item;
    atomic_store_explicit(&ring->tail, tail + 1, memory_order_release);
    return true;
}

void *base_spsc_pop(struct base_spsc *ring)
{
    uint32_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    if (head == ring->tail_seen) {
        ring->tail_seen = atomic_load_explicit(&ring->tail, memory_order_acquire);
        if (head == ring->tail_seen) {
            return NULL;
        }
    }
    void *item = ring->slots[head & (ring->capacity - 1)];
    atomic_store_explicit(&ring->head, head + 1, memory_order_release);
    return item;
}

bool base_spsc_is_empty(const struct base_spsc *ring)
{
    return atomic_load_explicit(&ring->head, memory_order_acquire) ==
           atomic_load_explicit(&ring->tail, memory_order_acquire);
}

/* ---- Many producers, one consumer ---- */

/* The sequence says whose turn the cell at index i is: i for the producer of index i, i + 1 for the
 * consumer, i + capacity for the producer one lap later. */
struct mpsc_cell {
    _Atomic uint32_t sequence;
    void *item;
};

struct base_mpsc {
    // Consumer's line; atomic only for base_mpsc_is_empty() on other threads.
    _Alignas(BASE_CACHE_LINE) _Atomic uint32_t head;
    // Producers' line.
    _Alignas(BASE_CACHE_LINE) _Atomic uint32_t tail;
    // Never changes.
    _Alignas(BASE_CACHE_LINE) uint32_t capacity;
    _Alignas(BASE_CACHE_LINE) struct mpsc_cell cells[];
};

enum base_status base_mpsc_create(uint32_t capacity, struct base_mpsc **out)
{
    base_assert(is_capacity(capacity));
    size_t bytes = sizeof(struct base_mpsc) + (size_t)capacity * sizeof(struct mpsc_cell);
    struct base_mpsc *ring = base_alloc_aligned(bytes, BASE_CACHE_LINE);
    if (ring == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    ring->capacity = capacity;
    for (uint32_t i = 0; i < capacity; i++) {
        atomic_init(&ring->cells[i].sequence, i);
    }
    *out = ring;
    return BASE_OK;
}

void base_mpsc_free(struct base_mpsc *ring)
{
    base_free(ring);
}

bool base_mpsc_push(struct base_mpsc *ring, void *item)
{
    base_assert(item != NULL);
    uint32_t mask = ring->capacity - 1;
    uint32_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    for (;;) {
        struct mpsc_cell *cell = &ring->cells[tail & mask];
        uint32_t sequence = atomic_load_explicit(&cell->sequence, memory_order_acquire);
        int32_t ahead = (int32_t)(sequence - tail);
        if (ahead < 0) {
            return false; // still holds the item of one lap ago
        }
        if (ahead > 0) {
            tail = atomic_load_explicit(&ring->tail, memory_order_relaxed); // another took it
        } else if (atomic_compare_exchange_weak_explicit(
                       &ring->tail, &tail, tail + 1, memory_order_relaxed, memory_order_relaxed)) {
            cell->item = item;
            atomic_store_explicit(&cell->sequence, tail + 1, memory_order_release);
            return true;
        }
    }
}

void *base_mpsc_pop(struct base_mpsc *ring)
{
    uint32_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    struct mpsc_cell *cell = &ring->cells[head & (ring->capacity - 1)];
    if (atomic_load_explicit(&cell->sequence, memory_order_acquire) != head + 1) {
        return NULL;
    }
    void *item = cell->item;
    atomic_store_explicit(&cell->sequence, head + ring->capacity, memory_order_release);
    atomic_store_explicit(&ring->head, head + 1, memory_order_release);
    return item;
}

bool base_mpsc_is_empty(const struct base_mpsc *ring)
{
    return atomic_load_explicit(&ring->head, memory_order_acquire) ==
           atomic_load_explicit(&ring->tail, memory_order_acquire);
}
