/* Order of accesses; see fiber_order.h. Cost: some operations an access; a write to what
 * many threads have read looks at each of them. */
#include "tests/cuda/fiber_order.h"

#include "base/mem.h"
#include "tests/util.h"

#include <stdio.h>
#include <string.h>

#define REGIONS_MAX 32u
#define WORDS_MAX   256u
#define READERS     FIBER_CLOCKS /* as reader: more than one, see readers */

/* Of 16 bits, the least that a block accesses: who wrote them last, and who has read them since. */
#define UNIT 2u

struct access {
    uint32_t written_at, read_at; /* clocks; 0: never */
    uint16_t writer, reader;      /* reader READERS: read_at is an index into `readers` */
};

struct region {
    const uint8_t *base;
    size_t bytes;
    const char *name;
    struct access *accesses;
};

/* A control word, and what its last store released. */
struct word {
    const void *at;
    struct fiber_clock clock;
};

static struct {
    struct fiber_clock clocks[FIBER_CLOCKS];
    struct region regions[REGIONS_MAX];
    uint32_t n_regions, last_region;
    struct word words[WORDS_MAX];
    uint32_t n_words;
    struct fiber_clock *readers; /* of what several have read */
    uint32_t n_readers, readers_max;
} order;

void fiber_order_release(void)
{
    for (uint32_t i = 0; i < order.n_regions; i++) {
        base_free(order.regions[i].accesses);
    }
    order.n_regions = 0;
    base_free(order.readers);
    order.readers = NULL;
    order.n_readers = order.readers_max = 0;
}

void fiber_order_init(void)
{
    fiber_order_release();
    memset(&order, 0, sizeof(order));
    for (uint32_t thread = 0; thread < FIBER_CLOCKS; thread++) {
        order.clocks[thread].of[thread] = 1;
    }
}

void fiber_order_watch(const void *base, size_t bytes, const char *name)
{
    ck_assert_uint_lt(order.n_regions, REGIONS_MAX);
    struct region *region = &order.regions[order.n_regions++];
    *region = (struct region){.base = base, .bytes = bytes, .name = name};
    region->accesses = base_alloc_array((bytes + UNIT - 1) / UNIT, sizeof(*region->accesses));
    ck_assert_ptr_nonnull(region->accesses);
    for (size_t i = 0; i < (bytes + UNIT - 1) / UNIT; i++) {
        region->accesses[i].writer = FIBER_HOST;
        region->accesses[i].written_at = order.clocks[FIBER_HOST].of[FIBER_HOST];
    }
}

/* ---- Clocks ---- */

void fiber_clock_join(struct fiber_clock *to, const struct fiber_clock *from)
{
    for (uint32_t i = 0; i < FIBER_CLOCKS; i++) {
        to->of[i] = to->of[i] < from->of[i] ? from->of[i] : to->of[i];
    }
}

struct fiber_clock *fiber_clock_of(uint32_t thread)
{
    return &order.clocks[thread];
}

void fiber_clock_tick(uint32_t thread)
{
    order.clocks[thread].of[thread]++;
}

static struct word *find_word(const void *at)
{
    for (uint32_t i = 0; i < order.n_words; i++) {
        if (order.words[i].at == at) {
            return &order.words[i];
        }
    }
    return NULL;
}

void fiber_order_word(uint32_t thread, const void *at, enum cell_lane_order how, bool is_store)
{
    struct word *word = find_word(at);
    if (!is_store) {
        if (how == CELL_LANE_ACQUIRE && word != NULL) {
            fiber_clock_join(&order.clocks[thread], &word->clock);
        }
        return;
    }
    if (how != CELL_LANE_RELEASE) {
        if (word != NULL) {
            memset(&word->clock, 0, sizeof(word->clock));
        }
        return;
    }
    if (word == NULL) {
        ck_assert_uint_lt(order.n_words, WORDS_MAX);
        word = &order.words[order.n_words++];
        word->at = at;
    }
    word->clock = order.clocks[thread];
    fiber_clock_tick(thread);
}

/* ---- Accesses ---- */

static struct region *find_region(const uint8_t *at, size_t bytes)
{
    for (uint32_t i = 0; i < order.n_regions; i++) {
        const uint32_t n = (order.last_region + i) % order.n_regions;
        struct region *region = &order.regions[n];
        if (at >= region->base && at + bytes <= region->base + region->bytes) {
            order.last_region = n;
            return region;
        }
    }
    return NULL;
}

static bool is_before(uint32_t thread, uint32_t other, uint32_t clock)
{
    return order.clocks[thread].of[other] >= clock;
}

/* Somebody who has read it and whom `thread` does not know of; FIBER_NONE: nobody. */
static uint32_t find_reader(const struct access *access, uint32_t thread)
{
    if (access->read_at == 0 && access->reader != READERS) {
        return FIBER_NONE;
    }
    if (access->reader != READERS) {
        return is_before(thread, access->reader, access->read_at) ? FIBER_NONE : access->reader;
    }
    const struct fiber_clock *readers = &order.readers[access->read_at];
    for (uint32_t other = 0; other < FIBER_CLOCKS; other++) {
        if (readers->of[other] != 0 && !is_before(thread, other, readers->of[other])) {
            return other;
        }
    }
    return FIBER_NONE;
}

static void add_readers(struct access *access)
{
    if (order.n_readers == order.readers_max) {
        order.readers_max = order.readers_max == 0 ? 1024 : 2 * order.readers_max;
        struct fiber_clock *more = base_alloc_array(order.readers_max, sizeof(*more));
        ck_assert_ptr_nonnull(more);
        if (order.n_readers > 0) {
            memcpy(more, order.readers, order.n_readers * sizeof(*more));
        }
        base_free(order.readers);
        order.readers = more;
    }
    struct fiber_clock *readers = &order.readers[order.n_readers];
    memset(readers, 0, sizeof(*readers));
    readers->of[access->reader] = access->read_at;
    access->reader = READERS;
    access->read_at = order.n_readers++;
}

static void note_read(struct access *access, uint32_t thread)
{
    const uint32_t now = order.clocks[thread].of[thread];
    if (access->reader == READERS) {
        order.readers[access->read_at].of[thread] = now;
        return;
    }
    if (access->read_at != 0 && access->reader != thread &&
        !is_before(thread, access->reader, access->read_at)) {
        add_readers(access);
        order.readers[access->read_at].of[thread] = now;
        return;
    }
    access->reader = (uint16_t)thread;
    access->read_at = now;
}

/* What many had read keeps its place for the next time. */
static void note_write(struct access *access, uint32_t thread)
{
    access->writer = (uint16_t)thread;
    access->written_at = order.clocks[thread].of[thread];
    if (access->reader == READERS) {
        memset(&order.readers[access->read_at], 0, sizeof(order.readers[0]));
    } else {
        access->reader = 0;
        access->read_at = 0;
    }
}

void fiber_order_note(uint32_t thread, const void *at, size_t bytes, bool is_write)
{
    struct region *region = find_region(at, bytes);
    if (region == NULL) {
        return;
    }
    const size_t first = (size_t)((const uint8_t *)at - region->base) / UNIT;
    for (size_t i = first; i < first + bytes / UNIT; i++) {
        if (is_write) {
            note_write(&region->accesses[i], thread);
        } else {
            note_read(&region->accesses[i], thread);
        }
    }
}

static const char *name_of(uint32_t thread, char text[16])
{
    if (thread == FIBER_HOST) {
        return "the host";
    }
    (void)snprintf(text, 16, "thread %u", thread);
    return text;
}

bool fiber_order_touch(uint32_t thread, const void *at, size_t bytes, bool is_write,
                       char why[FIBER_TEXT])
{
    char one[16];
    char other[16];
    struct region *region = find_region(at, bytes);
    if (region == NULL) {
        (void)snprintf(why, FIBER_TEXT, "%s touches %zu bytes outside all memory",
                       name_of(thread, one), bytes);
        return false;
    }
    const size_t offset = (size_t)((const uint8_t *)at - region->base);
    for (size_t i = offset / UNIT; i <= (offset + bytes - 1) / UNIT; i++) {
        struct access *access = &region->accesses[i];
        uint32_t who = FIBER_NONE;
        if (access->writer != thread && !is_before(thread, access->writer, access->written_at)) {
            who = access->writer;
        } else if (is_write) {
            who = find_reader(access, thread);
        }
        if (who != FIBER_NONE) {
            (void)snprintf(why, FIBER_TEXT, "%s %s byte %zu of %s, not ordered behind %s",
                           name_of(thread, one), is_write ? "writes" : "reads", i * UNIT,
                           region->name, name_of(who, other));
            return false;
        }
        if (is_write) {
            note_write(access, thread);
        } else {
            note_read(access, thread);
        }
    }
    return true;
}
