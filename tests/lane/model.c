/* The model check: every state that can be reached, and whether each can go on to the good end.
 *
 * States wait for their turn in a queue; of those that had it only a hash of 128 bits is kept, and
 * the edges, by which the good ends are walked back from at last. */
#include "tests/lane/model.h"

#include "base/assert.h"
#include "base/hash.h"
#include "base/mem.h"
#include "tests/lane/model_state.h"

#include <string.h>

#define STATES_MAX (1u << 21)
#define TABLE_SIZE (1u << 22)
#define EDGES_MAX  (1u << 23)
#define CHOICES    (MODEL_STORES + 1u)

struct edge {
    uint32_t from, to;
};

struct search {
    const struct model_options *options;
    struct base_hash *hashes;  /* [states] */
    uint32_t *table;           /* number of a state + 1, by hash */
    struct model_state *queue; /* ring of those that wait */
    uint32_t queue_size, first, n_states, n_edges;
    struct edge *edges;
    uint8_t *is_good;
    const char *violation;
};

/* ---- States ---- */

uint16_t model_op_of(const struct model_options *options, uint8_t seq)
{
    if (seq > options->n_tasks) {
        return CELL_LANE_EXIT;
    }
    return seq == options->park_op ? CELL_LANE_PARK : CELL_LANE_RUN;
}

void model_state_init(struct model_state *state)
{
    memset(state, 0, sizeof(*state));
    memset(state->memory.n, 1, sizeof(state->memory.n));
    state->end = CELL_LANE_END_PARKED;
}

bool model_is_good_end(const struct model_options *options, const struct model_state *state)
{
    const bool is_off = options->is_ahead ? model_ahead_is_off(state) : model_lane_is_off(state);
    bool is_good = model_host_is_free(state) && is_off && state->end != 0 &&
                   state->submitted >= options->n_tasks && state->settled == state->submitted;
    for (uint32_t seq = 1; seq <= options->n_tasks; seq++) {
        is_good = is_good && state->answered[seq] == 1;
    }
    return is_good;
}

/* The number of a state; *is_new: it has just got it. */
static uint32_t number_of(struct search *search, const struct model_state *state, bool *is_new)
{
    const struct base_hash hash = base_hash_bytes(state, sizeof(*state));
    uint32_t at = (uint32_t)hash.low & (TABLE_SIZE - 1);
    while (search->table[at] != 0) {
        const struct base_hash *other = &search->hashes[search->table[at] - 1];
        if (base_hash_equal(*other, hash)) {
            *is_new = false;
            return search->table[at] - 1;
        }
        at = (at + 1) & (TABLE_SIZE - 1);
    }
    *is_new = true;
    search->hashes[search->n_states] = hash;
    search->table[at] = ++search->n_states;
    return search->n_states - 1;
}

/* ---- Exploring ---- */

static void grow_queue(struct search *search)
{
    // States are numbered in the order of the queue, so it only has to hold those that wait.
    const uint32_t waiting = search->n_states - search->first;
    struct model_state *queue = base_alloc_array(2 * search->queue_size, sizeof(*queue));
    base_assert(queue != NULL);
    for (uint32_t i = 0; i < waiting; i++) {
        const uint32_t n = search->first + i;
        queue[n & (2 * search->queue_size - 1)] = search->queue[n & (search->queue_size - 1)];
    }
    base_free(search->queue);
    search->queue = queue;
    search->queue_size *= 2;
}

static void add(struct search *search, uint32_t from, struct model_state *state)
{
    model_memory_forget(&state->memory, search->options->is_ahead ? MODEL_THREADS : MODEL_BACK);
    bool is_new = false;
    if (search->n_states - search->first + 1 >= search->queue_size) {
        grow_queue(search);
    }
    const uint32_t to = number_of(search, state, &is_new);
    if (is_new) {
        search->queue[to & (search->queue_size - 1)] = *state;
        search->is_good[to] = model_is_good_end(search->options, state);
    }
    search->edges[search->n_edges++] = (struct edge){from, to};
}

static bool take_step(struct model_step *step, uint32_t thread)
{
    if (thread == MODEL_HOST) {
        return model_host_step(step);
    }
    if (!step->options->is_ahead) {
        return model_lane_step(step);
    }
    return thread == MODEL_LANE ? model_front_step(step) : model_back_step(step);
}

/* All that may follow state n. */
static void expand(struct search *search, uint32_t n)
{
    const struct model_state from = search->queue[n & (search->queue_size - 1)];
    const uint32_t n_threads = search->options->is_ahead ? MODEL_THREADS : MODEL_BACK;
    for (uint32_t thread = 0; thread < n_threads; thread++) {
        for (uint8_t choice = 0; choice < CHOICES && search->violation == NULL; choice++) {
            struct model_state to = from;
            struct model_step step = {.options = search->options,
                                      .state = &to,
                                      .choice = choice,
                                      .site = CELL_LANE_SITE_COUNT};
            const bool is_step = take_step(&step, thread);
            if (is_step) {
                search->violation = step.violation;
                add(search, n, &to);
            }
        }
    }
}

/* Marks what can go on to a good end; false when some state cannot. */
static bool walk_back(struct search *search)
{
    // Edges lead mostly to higher numbers, so a few rounds from behind reach all.
    bool moved = true;
    while (moved) {
        moved = false;
        for (uint32_t e = search->n_edges; e-- > 0;) {
            const struct edge *edge = &search->edges[e];
            if (search->is_good[edge->to] != 0 && search->is_good[edge->from] == 0) {
                search->is_good[edge->from] = 1;
                moved = true;
            }
        }
    }
    for (uint32_t n = 0; n < search->n_states; n++) {
        if (search->is_good[n] == 0) {
            return false;
        }
    }
    return true;
}

static void *room(size_t count, size_t size)
{
    void *memory = base_alloc_array(count, size);
    base_assert(memory != NULL);
    return memory;
}

void model_check(const struct model_options *options, struct model_result *out)
{
    base_assert(options->n_tasks < MODEL_TASKS_MAX && options->n_slots <= 2);
    struct search search = {.options = options,
                            .hashes = room(STATES_MAX, sizeof(*search.hashes)),
                            .table = room(TABLE_SIZE, sizeof(*search.table)),
                            .queue = room(1024, sizeof(*search.queue)),
                            .queue_size = 1024,
                            .edges = room(EDGES_MAX, sizeof(*search.edges)),
                            .is_good = room(STATES_MAX, 1)};
    struct model_state start;
    bool is_new = false;
    model_state_init(&start);
    search.queue[number_of(&search, &start, &is_new)] = start;
    bool is_whole = true;
    while (search.first < search.n_states && search.violation == NULL && is_whole) {
        expand(&search, search.first);
        search.first++;
        is_whole =
            search.n_states + 2 * CHOICES < STATES_MAX && search.n_edges + 2 * CHOICES < EDGES_MAX;
    }
    if (search.violation == NULL && is_whole && !walk_back(&search)) {
        search.violation = "some state has no way to the good end";
    }
    *out = (struct model_result){.violation = search.violation,
                                 .states = search.n_states,
                                 .edges = search.n_edges,
                                 .is_whole = is_whole};
    base_free(search.hashes);
    base_free(search.table);
    base_free(search.queue);
    base_free(search.edges);
    base_free(search.is_good);
}

void model_options_init(struct model_options *options)
{
#define ORDER(name, order) [CELL_LANE_SITE_##name] = CELL_LANE_##order,
    *options = (struct model_options){.orders = {CELL_LANE_SITES(ORDER)},
                                      .form = CELL_LANE_FORM_PLAIN,
                                      .n_slots = 2,
                                      .n_tasks = 2,
                                      .parks_max = 1,
                                      .aborts_max = 1,
                                      .faults_max = 1,
                                      .attentions_max = 1};
#undef ORDER
}

/* ---- One run, for its sites ---- */

struct trace {
    const struct model_options *options;
    struct model_state state;
    uint8_t *sites;
    uint32_t n;
};

/* One step; of several stores that a load could return, the newest. */
static void go(struct trace *trace, enum model_thread thread, uint8_t choice)
{
    struct model_state to = trace->state;
    struct model_step step = {
        .options = trace->options, .state = &to, .choice = choice, .site = CELL_LANE_SITE_COUNT};
    bool is_step = thread == MODEL_HOST ? model_host_step(&step) : model_lane_step(&step);
    base_assert(is_step && step.violation == NULL);
    trace->state = to;
    // In this run a thread that has not seen the newest store of a word sees it now.
    struct model_memory *memory = &trace->state.memory;
    for (uint32_t place = 0; place < MODEL_PLACES; place++) {
        memory->seen[MODEL_HOST][place] = (uint8_t)(memory->n[place] - 1);
        memory->seen[MODEL_LANE][place] = (uint8_t)(memory->n[place] - 1);
        memory->seen[MODEL_HOST][MODEL_PLACES + place] = memory->read[place];
        memory->seen[MODEL_LANE][MODEL_PLACES + place] = memory->read[place];
    }
    if (step.site != CELL_LANE_SITE_COUNT &&
        (trace->n == 0 || trace->sites[trace->n - 1] != step.site)) {
        base_assert(trace->n < MODEL_TRACE_MAX);
        trace->sites[trace->n++] = step.site;
    }
}

/* The host's choice (0: a look, 1: a submit), and all that follows from it. */
static void host_does(struct trace *trace, uint8_t choice)
{
    go(trace, MODEL_HOST, choice);
    while (!model_host_is_free(&trace->state)) {
        go(trace, MODEL_HOST, 0);
    }
}

static void lane_goes_on(struct trace *trace)
{
    go(trace, MODEL_LANE, 0);
    while (!model_lane_has_nothing(&trace->state) && !model_lane_is_off(&trace->state)) {
        go(trace, MODEL_LANE, 0);
    }
}

// NOLINTNEXTLINE(readability-non-const-parameter): written through the trace
uint32_t model_trace(const struct model_options *options, uint8_t sites[MODEL_TRACE_MAX])
{
    struct trace trace = {.options = options, .sites = sites};
    model_state_init(&trace.state);
    host_does(&trace, 1);
    host_does(&trace, 0);
    lane_goes_on(&trace);
    host_does(&trace, 0);
    host_does(&trace, 1);
    lane_goes_on(&trace);
    host_does(&trace, 0);
    return trace.n;
}
