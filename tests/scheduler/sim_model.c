/* The simulation's model of Algorithm 1 with runs: written from the paper and scheduler.h, it looks
 * at the ready subgraphs and says what the next batch must be. O(everything). */
#include "base/assert.h"
#include "scheduler/policy.h"
#include "tests/scheduler/sim.h"

#include <string.h>

/* Rows the queue may take of a type, how many of them stand on no queue, and the first. */
struct offer {
    uint32_t ready, unpinned;
    const struct sched_subgraph *first;
    bool ends; /* its first node, by itself */
};

static struct sched_subgraph *subgraph_of(const struct cell_batch_row *row)
{
    const struct sched_node *node = row->tag;
    return &node->graph->subgraphs[node->subgraph];
}

/* Of rows that stand on no queue, those that the queue may take: an equal part for it and each
 * queue with nothing in flight, but not less than rows_min; none while it has something in flight
 * and others have not. */
static uint32_t part_of(const struct sim *sim, uint32_t q, uint32_t unpinned)
{
    uint32_t takers = sim->queues[q].n > 0 ? 0 : 1;
    uint32_t idle = 0;
    for (uint32_t other = 0; other < sim->options.n_queues; other++) {
        idle += other != q && sim->queues[other].n == 0 ? 1 : 0;
    }
    if (idle == 0) {
        return unpinned;
    }
    uint32_t part = 0;
    while (takers > 0 && (part < sim->options.rows_min || part * (idle + 1) < unpinned)) {
        part++;
    }
    return part < unpinned ? part : unpinned;
}

/* Of a batch's step: its rows, or all steps of their spans. */
static uint32_t cells_of(const struct cell_batch *batch)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < batch->n_rows; i++) {
        n += batch->type->def.n_states > 0 ? 1 : batch->rows[i].steps;
    }
    return n;
}

/* By finish tags, then as they were released. b may be NULL: nobody. */
static bool goes_before(const struct sched_subgraph *a, const struct sched_subgraph *b)
{
    if (b == NULL || a->graph->finish_tag < b->graph->finish_tag) {
        return true;
    }
    return a->graph->finish_tag == b->graph->finish_tag && a->order < b->order;
}

/* What of the subgraph the queue may look at. */
static uint32_t open_rows(const struct sched_subgraph *subgraph, uint32_t q)
{
    bool mine = subgraph->pinned == SCHED_NONE || subgraph->pinned == q;
    return subgraph->released && !subgraph->graph->stopping && mine ? subgraph->n_ready : 0;
}

/* Fills offers[type] with what is ready for the queue, graph after graph. */
static void offers_count(struct sim *sim, uint32_t q, struct offer *offers)
{
    uint32_t pinned[GRAPHS_TYPES_MAX] = {0};
    const struct sched_subgraph *first[GRAPHS_TYPES_MAX][2]; // on no queue, and on this one
    bool ends[GRAPHS_TYPES_MAX][2] = {{false}};
    memset(offers, 0, GRAPHS_TYPES_MAX * sizeof(*offers));
    memset(first, 0, sizeof(first));
    for (uint32_t i = 0; i < SIM_GRAPHS_MAX; i++) {
        struct sim_graph *graph = sim->graphs[i];
        for (uint32_t s = 0; graph != NULL && s < graph->recipe.graph->n_subgraphs; s++) {
            const struct sched_subgraph *subgraph = &graph->recipe.graph->subgraphs[s];
            const uint32_t type = subgraph->type->id;
            bool is_mine = subgraph->pinned == q;
            graph->ready[s] = open_rows(subgraph, q);
            graph->pinned[s] = subgraph->pinned;
            graph->taken[s] = 0;
            graph->due[s] = 0;
            if (graph->ready[s] > 0) {
                *(is_mine ? &pinned[type] : &offers[type].unpinned) += graph->ready[s];
                bool is_first_of_type = goes_before(subgraph, first[type][is_mine]);
                first[type][is_mine] = is_first_of_type ? subgraph : first[type][is_mine];
                ends[type][is_mine] = is_first_of_type ? subgraph->ready_first->wiring.end != NULL
                                                       : ends[type][is_mine];
            }
        }
    }
    for (uint32_t t = 0; t < GRAPHS_TYPES_MAX; t++) {
        offers[t].unpinned = part_of(sim, q, offers[t].unpinned);
        offers[t].ready = pinned[t] + offers[t].unpinned;
        const bool is_mine = offers[t].unpinned == 0 ||
                             (first[t][1] != NULL && goes_before(first[t][1], first[t][0]));
        offers[t].first = first[t][is_mine];
        offers[t].ends = ends[t][is_mine];
    }
}

/* (a) a full batch, (b) nothing of the type running, (c) anything. */
static uint32_t class_of(const struct sim *sim, uint32_t q, const struct offer *offers, uint32_t t)
{
    const struct sim_queue *queue = &sim->queues[q];
    // What an empty queue had last counts as if it ran.
    bool is_last = queue->n == 0 && queue->has_burst && queue->burst_type == t;
    return offers[t].ready >= sim->rows_max[t] ? 3 : sim->running[t] == 0 && !is_last ? 2 : 1;
}

static bool goes_first(const struct sim *sim, uint32_t q, const struct offer *offers, uint32_t a,
                       uint32_t b)
{
    uint32_t class_a = class_of(sim, q, offers, a);
    uint32_t class_b = class_of(sim, q, offers, b);
    if (class_a != class_b) {
        return class_a > class_b;
    }
    const uint64_t waited_a = offers[a].ready * (sim->turns + 1 - sim->turn_of[a]);
    const uint64_t waited_b = offers[b].ready * (sim->turns + 1 - sim->turn_of[b]);
    if (class_a == 2 && waited_a != waited_b) {
        return waited_a > waited_b;
    }
    if (sim->priorities[a] != sim->priorities[b]) {
        return sim->priorities[a] > sim->priorities[b];
    }
    return goes_before(offers[a].first, offers[b].first);
}

/* What the least served of the groups has had that have a type wanted; a group that was away has
 * had as much as the clock says. */
static uint64_t least_served(struct sim *sim, const bool *wanted)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t t = 0; t < sim->types->n; t++) {
        uint64_t *served = &sim->served[sim->groups[t]];
        if (wanted[t]) {
            *served = *served > sim->clock ? *served : sim->clock;
            least = *served < least ? *served : least;
        }
    }
    return least;
}

/* The first of the types that are wanted; GRAPHS_TYPES_MAX: none is. */
static uint32_t first_of(struct sim *sim, uint32_t q, const struct offer *offers,
                         const bool *wanted)
{
    const uint64_t least = least_served(sim, wanted);
    uint32_t best = GRAPHS_TYPES_MAX;
    for (uint32_t t = 0; t < sim->types->n; t++) {
        const bool may_be = wanted[t] && sim->served[sim->groups[t]] == least;
        const bool is_first =
            may_be && (best == GRAPHS_TYPES_MAX || goes_first(sim, q, offers, t, best));
        best = is_first ? t : best;
    }
    return best;
}

/* Whether a batch of the type may stand behind what the queue has in flight. */
static bool may_follow(const struct sim *sim, uint32_t q, const struct offer *offers, uint32_t t)
{
    bool has_run = false;
    for (uint32_t i = 0; i < sim->queues[q].n; i++) {
        has_run |= sim->queues[q].batches[i]->interruptible;
    }
    return !has_run || !sim->options.full_behind_runs || offers[t].ready >= sim->rows_max[t];
}

/* The type of the next batch, and the queue's burst; GRAPHS_TYPES_MAX: none. */
static uint32_t type_predict(struct sim *sim, uint32_t q, const struct offer *offers)
{
    struct sim_queue *queue = &sim->queues[q];
    if (queue->n > 0 && queue->burst_left > 0 &&
        offers[queue->burst_type].ready >= sim->options.rows_min) {
        if (!may_follow(sim, q, offers, queue->burst_type)) {
            return GRAPHS_TYPES_MAX;
        }
        queue->burst_left--;
        return queue->burst_type;
    }
    bool wanted[GRAPHS_TYPES_MAX] = {false};
    for (uint32_t t = 0; t < sim->types->n; t++) {
        wanted[t] = offers[t].ready > 0;
    }
    const uint32_t best = first_of(sim, q, offers, wanted);
    uint64_t least = best == GRAPHS_TYPES_MAX ? 0 : sim->served[sim->groups[best]];
    for (uint32_t t = 0; t < sim->types->n; t++) {
        const bool is_less = sim->running[t] > 0 && sim->served[sim->groups[t]] < least;
        least = is_less ? sim->served[sim->groups[t]] : least;
    }
    sim->clock = least > sim->clock ? least : sim->clock;
    if (best == GRAPHS_TYPES_MAX || !may_follow(sim, q, offers, best)) {
        return GRAPHS_TYPES_MAX;
    }
    queue->has_burst = true;
    queue->burst_type = best;
    queue->burst_left = sim->options.tasks_max - 1;
    return best;
}

/* The type of the batch beside this one; GRAPHS_TYPES_MAX: none. */
static uint32_t beside_predict(struct sim *sim, uint32_t q, const struct offer *offers,
                               const struct cell_batch *batch)
{
    const uint32_t first = batch->type->id;
    bool wanted[GRAPHS_TYPES_MAX] = {false};
    for (uint32_t i = 0; i < batch->n_rows; i++) {
        if (batch->rows[i].wiring->end != NULL) {
            return GRAPHS_TYPES_MAX;
        }
    }
    for (uint32_t t = 0; t < sim->types->n && sim->options.beside && sim->queues[q].n == 0; t++) {
        const uint32_t ready = offers[t].ready;
        const uint32_t rows = ready < sim->rows_max[t] ? ready : sim->rows_max[t];
        const double cost = (double)rows * (double)sim->types->types[t].flops;
        const double beside = (double)cells_of(batch) * (double)batch->type->flops;
        wanted[t] = t != first && !offers[t].ends && rows > 0 && rows <= sim->beside_rows[t] &&
                    cells_of(batch) <= sim->beside_rows[first] && cost <= 1.5 * beside &&
                    beside <= 1.5 * cost;
    }
    return first_of(sim, q, offers, wanted);
}

/* ---- Who follows ---- */

/* Whether an earlier input reads the same node as this one. */
static bool is_read_before(const struct recipe_node *node, uint32_t input)
{
    bool is_read = false;
    for (uint32_t i = 0; i < input; i++) {
        const struct recipe_read *read = &node->inputs[i];
        is_read |= (read->kind == RECIPE_SPILL || read->kind == RECIPE_VALUE) &&
                   read->node == node->inputs[input].node;
    }
    return is_read;
}

/* The node whose steps this one may follow, the last that it begins to read so; SCHED_NONE: none.
 */
static uint32_t leader_of(const struct recipe *recipe, uint32_t n)
{
    const struct recipe_node *node = &recipe->nodes[n];
    uint32_t leader = SCHED_NONE;
    for (uint32_t i = 0; i < node->type->def.n_inputs; i++) {
        const struct recipe_read *read = &node->inputs[i];
        const struct recipe_node *from = &recipe->nodes[read->node];
        const bool has_states = node->type->def.n_states > 0 && from->type->def.n_states > 0;
        if (read->kind == RECIPE_SPILL && !is_read_before(node, i) &&
            sim_reads_steps(recipe, n, read->node) && has_states && node->type != from->type &&
            node->ends_after == 0 && from->ends_after == 0) {
            leader = read->node;
        }
    }
    return leader;
}

/* Whether of all that the node's subgraph reads nothing but this one is not done. */
static bool lacks_only(const struct recipe *recipe, uint32_t n, uint32_t leader)
{
    const struct sched_node *nodes = recipe->graph->nodes;
    uint32_t lacking = 0;
    for (uint32_t m = 0; m < recipe->n_nodes; m++) {
        for (uint32_t from = 0; nodes[m].subgraph == nodes[n].subgraph && from < m; from++) {
            bool is_outside = nodes[from].subgraph != nodes[n].subgraph;
            bool is_done = nodes[from].steps_done == recipe->nodes[from].steps;
            lacking += is_outside && !is_done && recipe_is_child(recipe, m, from) ? 1 : 0;
        }
    }
    return lacking == 1 && nodes[leader].steps_done < recipe->nodes[leader].steps;
}

/* Before a batch: of each node the one that may run behind it. */
static void followers_count(struct sim *sim)
{
    for (uint32_t i = 0; i < SIM_GRAPHS_MAX; i++) {
        struct sim_graph *graph = sim->graphs[i];
        const uint32_t n_nodes = graph == NULL ? 0 : graph->recipe.n_nodes;
        for (uint32_t n = 0; n < n_nodes; n++) {
            graph->follower[n] = SCHED_NONE;
        }
        for (uint32_t n = n_nodes; n-- > 0;) {
            const struct sched_node *node = &graph->recipe.graph->nodes[n];
            const struct sched_subgraph *subgraph = &graph->recipe.graph->subgraphs[node->subgraph];
            const uint32_t leader = leader_of(&graph->recipe, n);
            if (leader != SCHED_NONE && subgraph->n_ready == 1 && subgraph->ready_first == node &&
                lacks_only(&graph->recipe, n, leader)) {
                graph->follower[leader] = n; // of several the first
            }
        }
    }
}

/* The longest run, within the bounds, that no row ends before; beside: GRAPHS_TYPES_MAX: none. */
static uint32_t longest_run(const struct sim *sim, const struct cell_batch *batch, uint32_t beside);
static uint32_t lasting_run(const struct sim *sim, const struct cell_batch *batch);

/* The type of the batch that follows this one, and its rows; GRAPHS_TYPES_MAX: none. */
static uint32_t follow_predict(const struct sim *sim, uint32_t q, const struct cell_batch *batch,
                               uint32_t *n_rows)
{
    const uint32_t first = batch->type->id;
    uint32_t type = GRAPHS_TYPES_MAX;
    *n_rows = 0;
    for (uint32_t i = 0; i < batch->n_rows; i++) {
        const struct sim_graph *graph = sim_graph_of(&batch->rows[i]);
        const uint32_t n = graph->follower[sim_node_of(&batch->rows[i])];
        if (batch->rows[i].wiring->end != NULL) {
            return GRAPHS_TYPES_MAX;
        }
        if (n != SCHED_NONE) {
            const uint32_t its = graph->recipe.nodes[n].type->id;
            type = type == GRAPHS_TYPES_MAX ? its : type;
            *n_rows += type == its ? 1 : 0;
        }
    }
    const bool may = sim->options.beside && sim->options.interruptible && sim->queues[q].n == 0 &&
                     batch->n_rows <= sim->follow_rows[first] &&
                     batch->n_rows <= sim->beside_rows[first] && type < GRAPHS_TYPES_MAX &&
                     *n_rows <= sim->follow_rows[type] && *n_rows <= sim->beside_rows[type] &&
                     *n_rows <= sim->rows_max[type] &&
                     longest_run(sim, batch, GRAPHS_TYPES_MAX) >= sim->options.follow_steps_min &&
                     longest_run(sim, batch, GRAPHS_TYPES_MAX) > lasting_run(sim, batch);
    if (!may) {
        return GRAPHS_TYPES_MAX;
    }
    const double cost = (double)*n_rows * (double)sim->types->types[type].flops;
    const double beside = (double)batch->n_rows * (double)batch->type->flops;
    return cost <= 1.5 * beside && beside <= 1.5 * cost ? type : GRAPHS_TYPES_MAX;
}

/* Each row behind one of the first batch, in its order; as far ahead as the least of those. */
static void check_followers(struct sim *sim, const struct cell_batch *batch,
                            const struct cell_batch *first)
{
    uint32_t n = 0;
    uint32_t lead = UINT32_MAX;
    for (uint32_t i = 0; i < first->n_rows; i++) {
        struct sim_graph *graph = sim_graph_of(&first->rows[i]);
        const uint32_t follower = graph->follower[sim_node_of(&first->rows[i])];
        if (follower == SCHED_NONE || graph->recipe.nodes[follower].type != batch->type) {
            continue;
        }
        sim_require(sim, n < batch->n_rows && sim_graph_of(&batch->rows[n]) == graph &&
                             sim_node_of(&batch->rows[n]) == follower);
        const uint32_t ahead = first->rows[i].first_step - batch->rows[n].first_step;
        lead = ahead < lead ? ahead : lead;
        graph->taken[graph->recipe.graph->nodes[follower].subgraph]++;
        n++;
    }
    sim_require(sim, n == batch->n_rows && lead == batch->lead);
}

static struct offer offers_before[GRAPHS_TYPES_MAX];

void sim_model_before(struct sim *sim, uint32_t q)
{
    offers_count(sim, q, offers_before);
    followers_count(sim);
}

/* The first subgraph of a type that has rows ready and comes behind `last`; NULL: none. */
static struct sim_graph *first_behind(struct sim *sim, uint32_t type,
                                      const struct sched_subgraph *last, uint32_t *s_out)
{
    struct sim_graph *found = NULL;
    const struct sched_subgraph *first = NULL;
    for (uint32_t i = 0; i < SIM_GRAPHS_MAX; i++) {
        struct sim_graph *graph = sim->graphs[i];
        for (uint32_t s = 0; graph != NULL && s < graph->recipe.graph->n_subgraphs; s++) {
            const struct sched_subgraph *subgraph = &graph->recipe.graph->subgraphs[s];
            const bool is_behind =
                last == NULL || (subgraph != last && goes_before(last, subgraph));
            if (subgraph->type->id == type && graph->ready[s] > 0 && is_behind &&
                goes_before(subgraph, first)) {
                found = graph;
                first = subgraph;
                *s_out = s;
            }
        }
    }
    return found;
}

/* What the batch should take of each subgraph: the earliest tags first, of those on no queue as
 * long as the queue's part of them is not reached. Returns the rows. */
static uint32_t due_rows(struct sim *sim, uint32_t type)
{
    uint32_t rows = 0;
    uint32_t unpinned = 0;
    uint32_t s = 0;
    const struct sched_subgraph *last = NULL;
    for (struct sim_graph *graph; (graph = first_behind(sim, type, last, &s)) != NULL;) {
        bool is_unpinned = graph->pinned[s] == SCHED_NONE;
        uint32_t room = sim->rows_max[type] - rows;
        last = &graph->recipe.graph->subgraphs[s];
        if (!is_unpinned || unpinned < offers_before[type].unpinned) {
            graph->due[s] = graph->ready[s] < room ? graph->ready[s] : room;
            rows += graph->due[s];
            unpinned += is_unpinned ? graph->due[s] : 0;
        }
    }
    return rows;
}

/* Rows come from the first subgraphs, as many of each as are due; which are none for the batch
 * beside it. */
static void check_order(struct sim *sim, const struct cell_batch *batch)
{
    const struct sched_subgraph *last = NULL;
    for (uint32_t i = 0; i < batch->n_rows; i++) {
        const struct sched_subgraph *subgraph = subgraph_of(&batch->rows[i]);
        sim_require(sim, subgraph == last || last == NULL || goes_before(last, subgraph));
        last = subgraph;
        sim_graph_of(&batch->rows[i])->taken[subgraph - subgraph->graph->subgraphs] +=
            batch->type->def.n_states > 0 ? 1 : batch->rows[i].steps;
    }
    for (uint32_t i = 0; i < SIM_GRAPHS_MAX; i++) {
        const struct sim_graph *graph = sim->graphs[i];
        for (uint32_t s = 0; graph != NULL && s < graph->recipe.graph->n_subgraphs; s++) {
            const struct sched_subgraph *subgraph = &graph->recipe.graph->subgraphs[s];
            sim_require(sim, subgraph->type == batch->type || graph->taken[s] == 0);
            sim_require(sim, graph->taken[s] == graph->due[s]);
            graph->due[s] = 0;
        }
    }
}

/* How many steps of the row come to be done is known when the batch is back. */
static bool is_held(const struct cell_batch *batch, const struct cell_batch_row *row)
{
    return batch->interruptible || row->wiring->end != NULL;
}

/* Steps that go on while rows leave: one for four rows, eight, what the operations allow. */
static uint32_t lasting_run(const struct sim *sim, const struct cell_batch *batch)
{
    uint32_t steps = 1;
    while (steps < 8 && 4 * (steps + 1) <= batch->n_rows &&
           (steps + 1) * batch->n_rows * batch->type->flops <= sim->options.run_flops_least) {
        steps++;
    }
    for (uint32_t i = 0; i < batch->n_rows; i++) {
        const struct cell_wiring *wiring = batch->rows[i].wiring;
        steps = wiring->end != NULL || wiring->beam != NULL ? 1 : steps;
    }
    return steps;
}

/* Each row continues where its node stood; none is in another batch that holds it. */
static void check_rows(struct sim *sim, const struct cell_batch *batch)
{
    bool has_state = batch->type->def.n_states > 0;
    for (uint32_t i = 0; i < batch->n_rows; i++) {
        const struct cell_batch_row *row = &batch->rows[i];
        struct sim_graph *graph = sim_graph_of(row);
        uint32_t n = sim_node_of(row);
        const uint32_t left = row->wiring->steps - row->first_step;
        const uint32_t steps = left < batch->steps ? left : batch->steps;
        const bool is_span = !has_state && sim->options.spans; // as long as there is room
        sim_require(sim, row->steps == (has_state ? steps : 1) || (is_span && row->steps <= left));
        sim_require(sim, !is_span || i == 0 || batch->rows[i - 1].wiring != row->wiring);
        sim_require(sim, steps == batch->steps || batch->steps <= lasting_run(sim, batch));
        sim_require(sim, graph->recipe.nodes[n].type == batch->type && !graph->held[n]);
        sim_require(sim, row->first_step == graph->submitted[n]);
        graph->submitted[n] += row->steps;
        sim_require(sim, graph->submitted[n] <= graph->recipe.nodes[n].steps);
        graph->held[n] = is_held(batch, row);
    }
}

/* The longest run of a batch of which somebody waits for steps. */
static uint32_t shown_run(const struct sim *sim, const struct cell_batch *batch)
{
    bool is_shown = false;
    for (uint32_t i = 0; i < batch->n_rows; i++) {
        is_shown |= sim_graph_of(&batch->rows[i])->recipe.is_shown;
    }
    uint32_t steps = sim->options.run_steps_shared;
    while (steps > 1 && sim->options.run_flops_shown > 0 &&
           steps * batch->type->flops * batch->n_rows > sim->options.run_flops_shown) {
        steps--;
    }
    return is_shown ? steps : UINT32_MAX;
}

static uint32_t longest_run(const struct sim *sim, const struct cell_batch *batch, uint32_t beside)
{
    bool has_state = batch->type->def.n_states > 0;
    bool others = false;
    for (uint32_t t = 0; t < sim->types->n; t++) {
        others |= t != batch->type->id && t != beside && offers_before[t].ready > 0;
    }
    uint64_t shared = sim->options.run_steps_shared;
    uint64_t flops = batch->type->flops * batch->n_rows;
    flops = flops == 0 ? 1 : flops;
    while (flops * (shared + 1) <= sim->options.run_flops_shared) {
        shared++;
    }
    uint32_t want = sim->options.run_steps_max;
    want = others && shared < want ? (uint32_t)shared : want;
    const uint32_t shown = shown_run(sim, batch);
    want = shown < want ? shown : want;
    uint32_t end = 0; // the first step behind which nobody is missing, or all are
    for (uint32_t step = 1; step <= want && end == 0; step++) {
        uint32_t leave = 0;
        for (uint32_t i = 0; i < batch->n_rows; i++) {
            const struct cell_batch_row *row = &batch->rows[i];
            leave += row->wiring->steps - row->first_step <= step ? 1 : 0;
        }
        end = leave == batch->n_rows || (leave > 0 && step >= lasting_run(sim, batch)) ? step : 0;
    }
    want = end > 0 ? end : want;
    return has_state ? want : 1;
}

static void check_length(struct sim *sim, uint32_t q, const struct cell_batch *batch,
                         const struct cell_batch *beside)
{
    uint32_t want = longest_run(sim, batch, beside == NULL ? GRAPHS_TYPES_MAX : beside->type->id);
    sim_require(sim, !batch->follows || beside != NULL);
    if (batch->follows && beside != NULL) { // the other's length is its own, too
        want = batch->lead + beside->steps;
        for (uint32_t i = 0; i < batch->n_rows; i++) {
            const struct cell_batch_row *row = &batch->rows[i];
            uint32_t left = row->wiring->steps - row->first_step;
            want = left < want ? left : want;
        }
    }
    sim_require(sim, batch->steps == want && batch->queue == q);
    sim_require(sim, batch->interruptible ==
                         (sim->options.interruptible && want > lasting_run(sim, batch)));
}

/* A subgraph in flight stands on one queue only. */
static void check_pins(struct sim *sim, uint32_t q, const struct cell_batch *batch)
{
    for (uint32_t i = 0; i < batch->n_rows; i++) {
        struct sim_graph *graph = sim_graph_of(&batch->rows[i]);
        const struct sched_subgraph *subgraph = subgraph_of(&batch->rows[i]);
        uint32_t s = (uint32_t)(subgraph - subgraph->graph->subgraphs);
        sim_require(sim, subgraph->pinned == q);
        sim_require(sim, graph->running[s] == 0 || graph->queue[s] == q);
        if (graph->taken[s] > 0) {
            graph->taken[s] = 0; // counted once a batch
            graph->running[s]++;
            graph->queue[s] = q;
        }
        sim_require(sim, graph->running[s] == subgraph->running);
    }
}

/* beside: the other of two, or NULL. */
static void check_batch(struct sim *sim, uint32_t q, const struct cell_batch *batch,
                        const struct cell_batch *beside)
{
    const uint32_t type = batch->type->id;
    if (batch->follows) {
        check_followers(sim, batch, beside);
    } else {
        sim_require(sim, cells_of(batch) == due_rows(sim, type));
        check_order(sim, batch);
    }
    sim_require(sim, batch->n_cells == cells_of(batch));
    check_rows(sim, batch);
    check_length(sim, q, batch, beside);
    check_pins(sim, q, batch);
    sim->running[type]++;
}

void sim_model_after(struct sim *sim, uint32_t q, const struct cell_batch *batch)
{
    if (sim->queues[q].n == sim->options.tasks_max) {
        sim_require(sim, batch == NULL);
        return;
    }
    uint32_t type = type_predict(sim, q, offers_before);
    sim_require(sim, (batch == NULL) == (type == GRAPHS_TYPES_MAX));
    if (batch == NULL) {
        return;
    }
    sim->turn_of[type] = ++sim->turns;
    const struct cell_batch *other = batch->beside;
    uint32_t n_followers = 0;
    uint32_t beside = beside_predict(sim, q, offers_before, batch);
    const bool follows = beside == GRAPHS_TYPES_MAX;
    beside = follows ? follow_predict(sim, q, batch, &n_followers) : beside;
    sim_require(sim, (other == NULL) == (beside == GRAPHS_TYPES_MAX));
    sim_require(sim, batch->type->id == type && !batch->follows);
    check_batch(sim, q, batch, other);
    if (other != NULL) {
        sim->turn_of[beside] = ++sim->turns;
        sim_require(sim, other->beside == NULL && other->type->id == beside);
        sim_require(sim, other->follows == follows && (!follows || other->n_rows == n_followers));
        sim->n_followers += follows ? 1 : 0;
        check_batch(sim, q, other, batch);
    }
}

/* It is the only node of its subgraph. */
void sim_model_row_ended(const struct sim *sim, const struct cell_batch_row *row)
{
    struct sim_graph *graph = sim_graph_of(row);
    const struct sched_subgraph *subgraph = subgraph_of(row);
    const uint32_t s = (uint32_t)(subgraph - subgraph->graph->subgraphs);
    sim_require(sim, graph->running[s] == 1 && graph->held[sim_node_of(row)]);
    graph->running[s] = 0;
    graph->held[sim_node_of(row)] = false;
    graph->submitted[sim_node_of(row)] = row->first_step + row->steps_done;
}

void sim_model_retire(struct sim *sim, const struct cell_batch *batch)
{
    sim->running[batch->type->id]--;
    uint64_t *served = &sim->served[sim->groups[batch->type->id]];
    uint64_t flops = 100000;
    for (uint32_t i = 0; i < batch->n_rows; i++) {
        flops += batch->rows[i].steps_done * batch->type->flops;
        if (batch->rows[i].tag == NULL) {
            continue; // it left before
        }
        const struct sched_subgraph *subgraph = subgraph_of(&batch->rows[i]);
        struct sim_graph *graph = sim_graph_of(&batch->rows[i]);
        graph->taken[subgraph - subgraph->graph->subgraphs] = 1;
    }
    *served += flops / 4096;
    for (uint32_t i = 0; i < batch->n_rows; i++) {
        const struct cell_batch_row *row = &batch->rows[i];
        if (row->tag == NULL) {
            continue;
        }
        const struct sched_subgraph *subgraph = subgraph_of(row);
        struct sim_graph *graph = sim_graph_of(row);
        uint32_t s = (uint32_t)(subgraph - subgraph->graph->subgraphs);
        graph->running[s] -= graph->taken[s];
        graph->taken[s] = 0;
        if (is_held(batch, row)) {
            graph->held[sim_node_of(row)] = false;
            graph->submitted[sim_node_of(row)] = row->first_step + row->steps_done;
        }
    }
}

/* What its group has had, and eight times its own work; none goes by faster than 4096 operations.
 */
void sim_model_add(struct sim *sim, const struct sched_graph *graph)
{
    uint64_t flops = 0;
    for (uint32_t n = 0; n < graph->n_nodes; n++) {
        const struct sched_node *node = &graph->nodes[n];
        flops += (uint64_t)node->wiring.steps * node->lanes * node->type->flops;
    }
    const uint64_t had = sim->served[sim->groups[graph->nodes[0].type->id]];
    sim_require(sim, graph->finish_tag == had + 8 * (flops / 4096));
}
