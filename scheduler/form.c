/* Forming batches: Algorithm 1 of BatchMaker with runs.
 *
 * A queue takes from two sorted lists of a type, its own pinned subgraphs and the unpinned ones,
 * those of the earliest finish tags first; of the unpinned ones it leaves idle queues their part
 * (docs/decisions.md, 25). Two batches side by side are formed at once: first the rows of both are
 * taken, then each learns how long it runs. Thread: pool thread. Cost: O(rows of the batch), plus
 * one look at each known type when a burst ends. */
#include "base/assert.h"
#include "scheduler/state.h"

/* Rows whose values are on their way while one is started. */
#define AHEAD 8u

/* Of many rows one leaves at nearly every step. A batch that then ended would begin and end for one
 * step each, which takes longer than the step of a small cell: it goes on without those that leave,
 * for a step for each ROWS_A_STEP of its rows, but no more than LASTING_STEPS_MAX. What
 * run_flops_least says of its operations bounds how long an answer waits for it.
 * (docs/decisions.md, 68) */
#define ROWS_A_STEP       4u
#define LASTING_STEPS_MAX 8u

/* Other queues that have nothing in flight. */
static uint32_t count_idle(const struct sched *sched, uint32_t queue)
{
    const uint32_t is_idle = sched->queues[queue].in_flight == 0 ? 1 : 0;
    return sched->options.n_queues - sched->n_busy - is_idle;
}

/* Unpinned rows of the type that the queue may take: none behind what it has in flight while others
 * have nothing; else as many as each of those should find when it is asked next. */
static uint32_t unpinned_rows(const struct sched *sched, const struct sched__type *type,
                              uint32_t queue)
{
    const uint32_t idle = count_idle(sched, queue);
    base_assert(idle < sched->options.n_queues);
    if (idle > 0 && sched->queues[queue].in_flight > 0) {
        return 0;
    }
    const uint32_t share = (type->unpinned.n_rows + idle) / (idle + 1);
    const uint32_t least = share > sched->options.rows_min ? share : sched->options.rows_min;
    return least < type->unpinned.n_rows ? least : type->unpinned.n_rows;
}

/* Rows of the type that the queue may take. */
static uint32_t ready_rows(const struct sched *sched, const struct sched__type *type,
                           uint32_t queue)
{
    return type->ready[queue].n_rows + unpinned_rows(sched, type, queue);
}

/* Batches of the type in flight. A device that takes one batch at a time has none whenever it asks:
 * the one it had last counts, or the last type of a graph would hold back all others as long as it
 * has work. */
static uint32_t count_running(const struct sched *sched, uint32_t type, uint32_t queue)
{
    const struct sched__queue *asking = &sched->queues[queue];
    const bool had_it = asking->in_flight == 0 && asking->burst_type == type;
    return sched->types[type]->running + (had_it ? 1 : 0);
}

/* Whether so many rows of a type have as long steps as the batch, and are few. */
static bool is_alike(const struct sched__type *type, uint32_t rows, const struct cell_batch *first)
{
    const uint64_t flops = type->type->flops * rows;
    const uint64_t first_flops = first->type->flops * first->n_cells;
    return type->type != first->type && rows <= type->beside_rows && 2 * flops <= 3 * first_flops &&
           2 * first_flops <= 3 * flops;
}

/* Whether the type's ready rows, the first of which is this, suit one of two batches side by side,
 * the other of which is `first`: they are few, their steps about as long, since both end when
 * somebody comes, and they do not end by themselves, for which runs go on while others wait. */
static bool suits_beside(const struct sched *sched, const struct sched__type *type,
                         const struct sched_subgraph *head, const struct cell_batch *first)
{
    const uint32_t ready = ready_rows(sched, type, first->queue);
    const uint32_t rows = ready < type->rows_max ? ready : type->rows_max;
    return is_alike(type, rows, first) && !sched__ends_itself(head->ready_first);
}

/* Types that a queue may form a batch from. */
struct choice {
    struct sched_candidate candidates[CELL_TYPES_MAX];
    uint32_t n;
};

/* What the group has had; one that was away has had as much as any. */
static uint64_t served_by(struct sched *sched, uint32_t group)
{
    uint64_t *served = &sched->served[group];
    *served = *served > sched->clock ? *served : sched->clock;
    return *served;
}

/* first: a batch whose rows have been taken, beside which one of another type is to run; or NULL.
 */
static void list_candidates(struct sched *sched, uint32_t queue, const struct cell_batch *first,
                            struct choice *out)
{
    out->n = 0;
    for (uint32_t t = 0; t < sched->n_types; t++) {
        struct sched__type *type = sched->types[t];
        if (type == NULL) {
            continue;
        }
        struct sched__ready *list = NULL;
        const uint32_t unpinned = unpinned_rows(sched, type, queue);
        const struct sched_subgraph *head = sched__first_ready(type, queue, unpinned > 0, &list);
        if (head != NULL && (first == NULL || suits_beside(sched, type, head, first))) {
            out->candidates[out->n++] =
                (struct sched_candidate){.type = t,
                                         .ready = type->ready[queue].n_rows + unpinned,
                                         .running = count_running(sched, t, queue),
                                         .rows_max = type->rows_max,
                                         .priority = type->priority,
                                         .turns = sched->turns + 1 - type->last_turn,
                                         .finish_tag = head->graph->finish_tag,
                                         .order = head->order,
                                         .served = served_by(sched, type->group)};
        }
    }
}

/* Chooses a type by the policy (lines 5-10); NULL when nothing is ready for this queue. */
static struct sched__type *choose_type(struct sched *sched, const struct choice *choice)
{
    if (choice->n == 0) {
        return NULL;
    }
    const uint32_t chosen = sched->options.policy->choose(choice->candidates, choice->n);
    return sched->types[choice->candidates[chosen].type];
}

/* Nobody who has something ready or in flight has had less. */
static void turn_clock(struct sched *sched, const struct choice *choice)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < choice->n; i++) {
        least = choice->candidates[i].served < least ? choice->candidates[i].served : least;
    }
    for (uint32_t t = 0; t < sched->n_types && choice->n > 0; t++) {
        const struct sched__type *type = sched->types[t];
        const bool is_running = type != NULL && type->running > 0;
        least =
            is_running && sched->served[type->group] < least ? sched->served[type->group] : least;
    }
    sched->clock = choice->n > 0 && least > sched->clock ? least : sched->clock;
}

/* First submission of a node: its state slot and value rows are taken, and its reads learn theirs.
 */
static void node_start(struct sched *sched, struct sched_graph *graph, struct sched_node *node)
{
    node->wiring.chain = ++sched->chains;
    if (node->type->state_layout != CELL_LAYOUT_NONE) {
        node->wiring.state = sched_rows_take(sched->rows, node->type->state_layout);
    }
    for (uint32_t e = 0; e < node->wiring.n_emits; e++) {
        struct cell_ref *to = &node->wiring.emits[e].to;
        if (to->kind == CELL_REF_VALUE) {
            struct sched_value *value = &graph->values[to->value];
            value->row = to->row = sched_rows_take(sched->rows, value->layout);
        }
    }
    for (uint32_t i = 0; i < sched__n_reads(node); i++) {
        struct cell_ref *from = &node->wiring.inputs[i];
        if (from->kind == CELL_REF_VALUE) {
            from->row = graph->values[from->value].row;
            base_assert(from->row != CELL_ROW_NONE);
        }
    }
    for (uint32_t lane = 1; lane < node->lanes; lane++) {
        struct cell_wiring *wiring = sched__wiring_of(node, lane);
        *wiring = node->wiring;
        wiring->lane = lane;
        wiring->chain = ++sched->chains;
        wiring->state = sched_rows_take(sched->rows, node->type->state_layout);
    }
}

/* A row for each of its lanes; a run's steps are set with its length. */
static void row_add(struct cell_batch *batch, struct sched_node *node, uint32_t first_step,
                    uint32_t steps)
{
    batch->n_cells += node->lanes * steps;
    for (uint32_t lane = 0; lane < node->lanes; lane++) {
        struct cell_batch_row *row = &batch->rows[batch->n_rows++];
        row->wiring = sched__wiring_of(node, lane);
        row->first_step = first_step;
        row->steps = steps;
        row->steps_done = 0;
        row->has_ended = false;
        row->tag = node;
    }
}

/* Whether all lanes of the subgraph's next node fit: alone they always do. The type's own bound is
 * where more rows no longer gain, not where they end: two beams of 5 are better than one where it
 * is 8. */
static bool has_room(const struct sched *sched, const struct cell_batch *batch,
                     const struct sched_subgraph *subgraph, uint32_t rows_max)
{
    const struct sched_node *node = subgraph->ready_first;
    const uint32_t most = sched->options.rows_max > rows_max ? sched->options.rows_max : rows_max;
    return batch->n_rows == 0 ||
           (batch->n_cells < rows_max && batch->n_cells + node->lanes <= most);
}

/* The node that is taken next has been asked for before: what it points to is asked for now, and
 * the node behind it. */
static void fetch_ahead(const struct sched_node *next)
{
    if (next != NULL) {
        sched__fetch_references(next);
        sched__fetch(next->next_ready);
    }
}

/* Steps of a node without state, each of which is a cell like any other: as many as there is room
 * for, as a span or a row for each. */
static void take_steps(const struct sched *sched, struct cell_batch *batch, struct sched_node *node,
                       uint32_t rows_max)
{
    const uint32_t left = node->wiring.steps - node->steps_submitted;
    const uint32_t room = rows_max - batch->n_cells;
    const uint32_t steps = left < room ? left : room;
    for (uint32_t k = 0; k < steps && !sched->options.spans; k++) {
        row_add(batch, node, node->steps_submitted + k, 1);
    }
    if (steps > 0 && sched->options.spans) {
        row_add(batch, node, node->steps_submitted, steps);
    }
    node->steps_submitted += steps;
}

/* Moves ready nodes of a subgraph into the batch, as many as fit. */
static void take_nodes(const struct sched *sched, struct cell_batch *batch,
                       struct sched_subgraph *subgraph, uint32_t rows_max)
{
    struct sched_graph *graph = subgraph->graph;
    uint32_t before = batch->n_rows;
    while (subgraph->ready_first != NULL && has_room(sched, batch, subgraph, rows_max)) {
        struct sched_node *node = sched__subgraph_pop(subgraph);
        fetch_ahead(subgraph->ready_first);
        if (node->type->state_layout != CELL_LAYOUT_NONE) {
            row_add(batch, node, node->steps_submitted, 1);
            continue;
        }
        take_steps(sched, batch, node, rows_max);
        if (node->steps_submitted < node->wiring.steps) {
            sched__subgraph_push(subgraph, node, true);
        }
    }
    graph->rows_running += batch->n_rows - before;
}

/* Lines 24-32. The subgraphs taken from are unlisted; sched_next() lists them anew. */
static void take_subgraphs(struct sched *sched, struct sched__type *type, struct cell_batch *batch)
{
    const uint32_t most = unpinned_rows(sched, type, batch->queue);
    uint32_t unpinned = 0;
    while (batch->n_cells < type->rows_max) {
        struct sched__ready *list = NULL;
        struct sched_subgraph *subgraph =
            sched__first_ready(type, batch->queue, unpinned < most, &list);
        if (subgraph == NULL || !has_room(sched, batch, subgraph, type->rows_max)) {
            break;
        }
        const uint32_t before = batch->n_cells;
        sched__ready_remove(list, subgraph);
        take_nodes(sched, batch, subgraph, type->rows_max);
        unpinned += list == &type->unpinned ? batch->n_cells - before : 0;
        subgraph->running++;
        subgraph->pinned = batch->queue;
    }
}

/* Starts the nodes that are in a batch for the first time. Most of what that touches was last
 * touched when the request was unfolded: references have been asked for while nodes were taken, and
 * what they refer to is asked for some rows ahead. */
static void start_nodes(struct sched *sched, const struct cell_batch *batch)
{
    for (uint32_t i = 0; i < batch->n_rows; i++) {
        const struct cell_batch_row *row = &batch->rows[i];
        if (i + AHEAD < batch->n_rows) {
            sched__fetch_values(batch->rows[i + AHEAD].tag);
            sched__fetch_consumer(batch->rows[i + AHEAD].tag);
        }
        if (row->first_step == 0 && row->wiring->lane == 0) {
            struct sched_node *node = row->tag;
            node_start(sched, node->graph, node);
        }
    }
}

/* Of the row's chain, from the batch on. */
static uint32_t steps_left(const struct cell_batch_row *row)
{
    return row->wiring->steps - row->first_step;
}

/* Steps of a run while others wait: some of them, or as many as are worth starting. */
static uint32_t shared_steps(const struct sched_options *options, const struct cell_batch *batch)
{
    const uint64_t flops = batch->type->flops * batch->n_rows;
    const uint64_t worth = options->run_flops_shared / (flops == 0 ? 1 : flops);
    if (worth <= options->run_steps_shared) {
        return options->run_steps_shared;
    }
    return worth < UINT32_MAX ? (uint32_t)worth : UINT32_MAX;
}

/* Steps that the batch takes though rows leave it before; 1: none. The steps of all its rows must
 * be known, and the lanes of a beam stay together. */
static uint32_t lasting_steps(const struct sched *sched, const struct cell_batch *batch)
{
    const uint64_t flops = batch->type->flops * batch->n_rows;
    const uint64_t worth = sched->options.run_flops_least / (flops == 0 ? 1 : flops);
    uint32_t steps = batch->n_rows / ROWS_A_STEP;
    steps = steps < LASTING_STEPS_MAX ? steps : LASTING_STEPS_MAX;
    steps = steps < worth ? steps : (uint32_t)worth;
    for (uint32_t i = 0; i < batch->n_rows && steps > 1; i++) {
        const struct cell_wiring *wiring = batch->rows[i].wiring;
        steps = wiring->end != NULL || wiring->beam != NULL ? 1 : steps;
    }
    return steps > 1 ? steps : 1;
}

/* Who is told how far a row is has waited for these steps; UINT32_MAX: nobody is. */
static uint32_t shown_steps(const struct sched_options *options, const struct cell_batch *batch)
{
    bool is_shown = false;
    for (uint32_t i = 0; i < batch->n_rows; i++) {
        const struct sched_node *node = batch->rows[i].tag;
        is_shown = is_shown || node->is_shown;
    }
    if (!is_shown) {
        return UINT32_MAX;
    }
    const uint64_t flops = batch->type->flops * batch->n_rows;
    uint64_t steps = options->run_steps_shared;
    if (options->run_flops_shown > 0 && options->run_flops_shown / steps < flops) {
        steps = options->run_flops_shown / flops;
    }
    return steps > 1 ? (uint32_t)steps : 1;
}

/* How many steps the batch may run: 1 for a type without state. lasting: lasting_steps(). beside:
 * the type that runs at the same time, or NULL. */
static uint32_t run_length(const struct sched *sched, const struct cell_batch *batch,
                           uint32_t lasting, const struct cell_type *beside)
{
    if (batch->type->state_layout == CELL_LAYOUT_NONE) {
        return 1;
    }
    uint32_t steps = sched->options.run_steps_max;
    for (uint32_t t = 0; t < sched->n_types; t++) {
        const struct sched__type *other = sched->types[t];
        if (other != NULL && other->type != batch->type && other->type != beside &&
            ready_rows(sched, other, batch->queue) > 0) {
            const uint32_t shared = shared_steps(&sched->options, batch);
            steps = steps < shared ? steps : shared;
            break;
        }
    }
    const uint32_t shown = shown_steps(&sched->options, batch);
    steps = steps < shown ? steps : shown;
    uint32_t least = UINT32_MAX;
    uint32_t most = 0;
    for (uint32_t i = 0; i < batch->n_rows; i++) {
        const uint32_t left = steps_left(&batch->rows[i]);
        least = left < least ? left : least;
        most = left > most ? left : most;
    }
    const uint32_t wanted = lasting < most ? lasting : most;
    least = least > wanted ? least : wanted;
    return steps < least ? steps : least;
}

/* Rows that come and go by themselves would end a run at nearly every step: those that come wait
 * some steps, as long as others would let them. */
static uint32_t least_steps(const struct sched *sched, const struct cell_batch *batch)
{
    for (uint32_t i = 0; i < batch->n_rows; i++) {
        if (sched__ends_itself(batch->rows[i].tag)) {
            return sched->options.run_steps_shared;
        }
    }
    return 0;
}

/* Line 18: what is submitted and cannot be interrupted counts as done for what follows on the same
 * queue. */
static void advance_rows(struct cell_batch *batch)
{
    bool has_state = batch->type->state_layout != CELL_LAYOUT_NONE;
    for (uint32_t i = 0; i < batch->n_rows; i++) {
        struct cell_batch_row *row = &batch->rows[i];
        struct sched_node *node = row->tag;
        if (has_state) {
            const uint32_t left = steps_left(row);
            row->steps = left < batch->steps ? left : batch->steps;
            node->steps_submitted += row->wiring->lane == 0 ? row->steps : 0;
        }
        if (sched__is_held(batch, node)) {
            continue;
        }
        if (row->first_step + row->steps == node->wiring.steps) {
            sched__advance(node->graph, node);
        } else if (has_state) {
            sched__subgraph_push(&node->graph->subgraphs[node->subgraph], node, false);
        }
    }
}

/* Lines 20-21: subgraphs that still have something ready stand in the lists again, now pinned. */
static void list_again(struct sched__type *type, struct cell_batch *batch, uint64_t now_ns)
{
    struct sched_subgraph *hint = NULL;
    for (uint32_t i = 0; i < batch->n_rows; i++) {
        const struct sched_node *node = batch->rows[i].tag;
        struct sched_graph *graph = node->graph;
        struct sched_subgraph *subgraph = &graph->subgraphs[node->subgraph];
        if (graph->started_ns == 0) {
            graph->started_ns = now_ns;
        }
        if (!subgraph->listed && subgraph->n_ready > 0) {
            sched__ready_insert(&type->ready[batch->queue], subgraph, hint);
            hint = subgraph;
        }
    }
}

static struct sched__batch *slot_take(struct sched__queue *queue)
{
    struct sched__batch *slot = queue->free;
    base_assert(slot != NULL);
    queue->free = slot->next_free;
    slot->is_in_flight = true;
    return slot;
}

/* Behind a run that newcomers interrupt only a full batch is formed, where that is asked for: one
 * that is not would have joined the run's rows, and by turns with them it would never meet them
 * again. */
static bool may_follow(const struct sched *sched, const struct sched__queue *queue,
                       const struct sched__type *type, uint32_t index)
{
    return queue->interruptible == 0 || !sched->options.full_behind_runs ||
           ready_rows(sched, type, index) >= type->rows_max;
}

/* The type to form from: the burst's while it lasts and the queue is busy, else the policy's. */
static struct sched__type *next_type(struct sched *sched, struct sched__queue *queue,
                                     uint32_t index)
{
    if (queue->in_flight > 0 && queue->burst_left > 0) {
        struct sched__type *type = sched->types[queue->burst_type];
        if (ready_rows(sched, type, index) >= sched->options.rows_min) {
            return may_follow(sched, queue, type, index) ? type : NULL;
        }
    }
    struct choice choice;
    list_candidates(sched, index, NULL, &choice);
    turn_clock(sched, &choice);
    struct sched__type *type = choose_type(sched, &choice);
    if (type == NULL || !may_follow(sched, queue, type, index)) {
        return NULL;
    }
    queue->burst_type = type->type->id;
    queue->burst_left = sched->options.tasks_max;
    return type;
}

/* Without rows. */
static struct cell_batch *open_batch(struct sched *sched, struct sched__type *type, uint32_t index,
                                     uint64_t now_ns)
{
    struct cell_batch *batch = &slot_take(&sched->queues[index])->batch;
    type->last_turn = ++sched->turns;
    batch->type = type->type;
    batch->n_rows = 0;
    batch->n_cells = 0;
    batch->steps_done = 0;
    batch->status = BASE_OK;
    batch->submitted_ns = now_ns;
    batch->beside = NULL;
    batch->follows = false;
    batch->lead = 0;
    return batch;
}

/* A batch with rows of the type, which do not yet know how many steps they take. */
static struct cell_batch *take_batch(struct sched *sched, struct sched__type *type, uint32_t index,
                                     uint64_t now_ns)
{
    struct cell_batch *batch = open_batch(sched, type, index, now_ns);
    take_subgraphs(sched, type, batch);
    start_nodes(sched, batch);
    base_assert(batch->n_rows > 0 && batch->n_rows <= CELL_BATCH_ROWS_MAX);
    return batch;
}

/* While nothing of both batches counts as in flight. */
static void set_length(const struct sched *sched, struct cell_batch *batch,
                       const struct cell_type *beside)
{
    const uint32_t lasting = lasting_steps(sched, batch);
    batch->steps = run_length(sched, batch, lasting, beside);
    batch->steps_min = least_steps(sched, batch);
    // Who comes waits for a run that lasts anyway: so the next can be formed behind it.
    batch->interruptible = sched->options.interruptible && batch->steps > lasting;
}

static void put_in_flight(struct sched *sched, struct cell_batch *batch, uint64_t now_ns)
{
    struct sched__queue *queue = &sched->queues[batch->queue];
    struct sched__type *type = sched__type_of(sched, batch->type);
    advance_rows(batch);
    list_again(type, batch, now_ns);
    type->running++;
    queue->interruptible += batch->interruptible ? 1 : 0;
    sched->n_busy += queue->in_flight++ == 0 ? 1 : 0;
}

/* The type of the chains that follow some of the batch's rows, where all of them suit a batch
 * beside it that goes on for a while; NULL: none. */
static struct sched__type *type_following(struct sched *sched, const struct cell_batch *batch)
{
    struct sched__type *type = NULL;
    uint32_t rows = 0;
    if (batch->n_rows > sched__type_of(sched, batch->type)->follow_rows ||
        !sched->options.interruptible) {
        return NULL;
    }
    const uint32_t lasting = lasting_steps(sched, batch);
    const uint32_t steps = run_length(sched, batch, lasting, NULL);
    if (steps < sched->options.follow_steps_min || steps <= lasting) {
        return NULL;
    }
    for (uint32_t i = 0; i < batch->n_rows; i++) {
        const struct sched_node *node = sched__follower(batch->rows[i].tag);
        if (node != NULL && (type == NULL || type->type == node->type)) {
            type = sched__type_of(sched, node->type);
            rows++;
        }
    }
    const bool suits = type != NULL && rows <= type->follow_rows && rows <= type->rows_max;
    return suits && is_alike(type, rows, batch) ? type : NULL;
}

/* A batch with the chains of the type that follow those of `first`. */
static struct cell_batch *take_followers(struct sched *sched, struct sched__type *type,
                                         const struct cell_batch *first, uint64_t now_ns)
{
    struct cell_batch *batch = open_batch(sched, type, first->queue, now_ns);
    batch->follows = true;
    batch->lead = UINT32_MAX;
    for (uint32_t i = 0; i < first->n_rows; i++) {
        struct sched_node *node = sched__follower(first->rows[i].tag);
        if (node == NULL || node->type != type->type) {
            continue;
        }
        struct sched_subgraph *subgraph = &node->graph->subgraphs[node->subgraph];
        const uint32_t lead = first->rows[i].first_step - node->steps_submitted;
        batch->lead = lead < batch->lead ? lead : batch->lead;
        (void)sched__subgraph_pop(subgraph);
        row_add(batch, node, node->steps_submitted, 1);
        node->graph->rows_running++;
        subgraph->running++;
        subgraph->pinned = batch->queue;
    }
    start_nodes(sched, batch);
    return batch;
}

/* Who follows comes as far as the other leads to. That is more than one step: it is held. */
static void set_length_behind(struct cell_batch *batch, const struct cell_batch *first)
{
    uint64_t steps = (uint64_t)batch->lead + first->steps;
    for (uint32_t i = 0; i < batch->n_rows; i++) {
        const uint32_t left = steps_left(&batch->rows[i]);
        steps = left < steps ? left : steps;
    }
    batch->steps = (uint32_t)steps;
    batch->steps_min = 0;
    batch->interruptible = true;
    base_assert(first->interruptible && steps > 1);
}

/* A batch that runs beside this one, of another type's ready rows or of what follows its own; NULL:
 * it is better run alone. */
static struct cell_batch *form_beside(struct sched *sched, const struct sched__type *type,
                                      const struct cell_batch *batch, uint64_t now_ns)
{
    const bool may_have = sched->options.beside && sched->queues[batch->queue].in_flight == 0 &&
                          batch->n_cells <= type->beside_rows && least_steps(sched, batch) == 0;
    if (!may_have) {
        return NULL;
    }
    struct choice choice;
    list_candidates(sched, batch->queue, batch, &choice);
    struct sched__type *other = choose_type(sched, &choice);
    if (other != NULL) {
        return take_batch(sched, other, batch->queue, now_ns);
    }
    other = type_following(sched, batch);
    return other == NULL ? NULL : take_followers(sched, other, batch, now_ns);
}

struct cell_batch *sched_next(struct sched *sched, uint32_t queue_index, uint64_t now_ns)
{
    base_assert(queue_index < sched->options.n_queues);
    struct sched__queue *queue = &sched->queues[queue_index];
    if (queue->in_flight == sched->options.tasks_max) {
        return NULL;
    }
    struct sched__type *type = next_type(sched, queue, queue_index);
    if (type == NULL) {
        return NULL;
    }
    struct cell_batch *batch = take_batch(sched, type, queue_index, now_ns);
    struct cell_batch *other = form_beside(sched, type, batch, now_ns);
    batch->beside = other;
    set_length(sched, batch, other == NULL ? NULL : other->type);
    if (other != NULL && other->follows) {
        set_length_behind(other, batch);
    } else if (other != NULL) {
        set_length(sched, other, type->type);
    }
    put_in_flight(sched, batch, now_ns);
    if (other != NULL) {
        put_in_flight(sched, other, now_ns);
    }
    queue->burst_left--;
    return batch;
}
