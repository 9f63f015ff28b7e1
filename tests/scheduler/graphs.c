/* Types made by hand, and recipes; see graphs.h. Thread: one at a time. Cost: tests only. */
#include "tests/scheduler/graphs.h"

#include "base/assert.h"

#include <math.h>
#include <string.h>

#define CHUNK_BYTES  ((size_t)16 << 10)
#define BUDGET_BYTES ((size_t)256 << 20)

size_t graphs_row_bytes(const struct cell_value *value)
{
    return (size_t)value->width * (value->dtype == CELL_I64 ? 8 : 4);
}

/* ---- Types ---- */

static uint32_t layout_of(struct graphs_types *types, const struct cell_layout *layout)
{
    for (uint32_t i = 0; i < types->n_layouts; i++) {
        const struct cell_layout *other = &types->layouts[i];
        bool same = other->kind == layout->kind && other->n_parts == layout->n_parts;
        for (uint32_t p = 0; same && p < layout->n_parts; p++) {
            same = other->parts[p].dtype == layout->parts[p].dtype &&
                   other->parts[p].width == layout->parts[p].width;
        }
        if (same) {
            return i;
        }
    }
    base_assert(types->n_layouts < GRAPHS_LAYOUTS_MAX);
    types->layouts[types->n_layouts] = *layout;
    return types->n_layouts++;
}

static uint32_t value_layout(struct graphs_types *types, const struct cell_value *value)
{
    struct cell_layout layout = {.kind = CELL_LAYOUT_VALUE, .n_parts = 1, .parts = {*value}};
    return layout_of(types, &layout);
}

const struct cell_type *graphs_type_add(struct graphs_types *types, const struct cell_def *def)
{
    base_assert(types->n < GRAPHS_TYPES_MAX);
    struct cell_type *type = &types->types[types->n];
    type->id = types->n++;
    type->def = *def;
    type->refs = 1;
    type->flops = (1 + type->id) * GRAPHS_FLOPS; // some, and not all the same
    type->state_layout = CELL_LAYOUT_NONE;
    if (def->n_states > 0) {
        struct cell_layout layout = {.kind = CELL_LAYOUT_STATE, .n_parts = def->n_states};
        memcpy(layout.parts, &def->values[def->n_inputs], def->n_states * sizeof(*layout.parts));
        type->state_layout = layout_of(types, &layout);
    }
    for (uint32_t i = 0; i < def->n_inputs; i++) {
        type->input_layouts[i] = value_layout(types, &def->values[i]);
    }
    for (uint32_t i = 0; i < def->n_outputs; i++) {
        type->output_layouts[i] = value_layout(types, &def->values[def->outputs[i]]);
    }
    for (uint32_t i = 0; i < def->n_states; i++) {
        type->state_layouts[i] = value_layout(types, &def->values[def->n_inputs + i]);
    }
    return type;
}

const struct cell_type *graphs_type_token(struct graphs_types *types, uint32_t n_inputs,
                                          uint32_t n_states, uint32_t n_outputs, uint32_t width)
{
    struct cell_def def = {.n_inputs = n_inputs, .n_states = n_states, .n_outputs = n_outputs};
    def.n_values = n_inputs + 2 * n_states + n_outputs;
    for (uint32_t i = 0; i < def.n_values; i++) {
        def.values[i] = (struct cell_value){.dtype = CELL_I64, .width = width};
    }
    for (uint32_t i = 0; i < n_outputs; i++) {
        def.outputs[i] = n_inputs + n_states + i;
    }
    for (uint32_t i = 0; i < n_states; i++) {
        def.state_next[i] = n_inputs + n_states + n_outputs + i;
    }
    return graphs_type_add(types, &def);
}

void graphs_types_copy(struct graphs_types *types, const struct cell_registry *registry)
{
    types->n = cell_registry_types(registry);
    types->n_layouts = cell_registry_layouts(registry);
    base_assert(types->n <= GRAPHS_TYPES_MAX && types->n_layouts <= GRAPHS_LAYOUTS_MAX);
    for (uint32_t t = 0; t < types->n; t++) {
        types->types[t] = *cell_registry_type(registry, t);
    }
    for (uint32_t l = 0; l < types->n_layouts; l++) {
        types->layouts[l] = *cell_registry_layout(registry, l);
    }
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
    return hash ^ hash >> 29;
}

void graphs_cell_token(const struct cell_type *type, const void *const *inputs, void *const *states,
                       void *const *outputs)
{
    const struct cell_def *def = &type->def;
    uint64_t hash = mix(1, type->id);
    for (uint32_t i = 0; i < def->n_inputs + def->n_states; i++) {
        const uint64_t *row = i < def->n_inputs ? inputs[i] : states[i - def->n_inputs];
        for (uint32_t e = 0; e < def->values[i].width; e++) {
            hash = mix(hash, row[e]);
        }
    }
    for (uint32_t i = 0; i < def->n_states + def->n_outputs; i++) {
        uint64_t *row = i < def->n_states ? states[i] : outputs[i - def->n_states];
        for (uint32_t e = 0; e < def->values[0].width; e++) {
            row[e] = mix(hash, (uint64_t)i << 32 | e);
        }
    }
}

/* ---- Recipes ---- */

static void *take(struct recipe *recipe, size_t bytes)
{
    void *memory = base_arena_alloc(&recipe->arena, bytes);
    base_assert(memory != NULL);
    return memory;
}

void recipe_init(struct recipe *recipe, const struct graphs_types *types, uint32_t nodes_max)
{
    memset(recipe, 0, sizeof(*recipe));
    base_arena_init(&recipe->arena, CHUNK_BYTES, BUDGET_BYTES);
    recipe->types = types;
    recipe->nodes_max = nodes_max;
    recipe->nodes = take(recipe, nodes_max * sizeof(*recipe->nodes));
}

void recipe_release(struct recipe *recipe)
{
    base_arena_release(&recipe->arena);
}

static void result_init(struct recipe *recipe, struct recipe_result *result,
                        const struct cell_value *value, uint32_t steps)
{
    result->row_bytes = graphs_row_bytes(value);
    result->value = SCHED_NONE;
    result->got = take(recipe, steps * result->row_bytes);
    result->want = take(recipe, steps * result->row_bytes);
    memset(result->got, RECIPE_BLANK, steps * result->row_bytes);
}

uint32_t recipe_node(struct recipe *recipe, const struct cell_type *type, uint32_t steps)
{
    base_assert(recipe->n_nodes < recipe->nodes_max && steps > 0);
    const struct cell_def *def = &type->def;
    struct recipe_node *node = &recipe->nodes[recipe->n_nodes];
    node->type = type;
    node->steps = steps;
    node->taken = steps;
    for (uint32_t i = 0; i < def->n_outputs; i++) {
        result_init(recipe, &node->outputs[i], &def->values[def->outputs[i]], steps);
    }
    for (uint32_t i = 0; i < def->n_states; i++) {
        result_init(recipe, &node->states[i], &def->values[def->n_inputs + i], steps);
    }
    return recipe->n_nodes++;
}

void recipe_input(struct recipe *recipe, uint32_t node, uint32_t input, uint32_t from,
                  enum cell_emit_what what, uint32_t index)
{
    recipe->nodes[node].inputs[input] =
        (struct recipe_read){.kind = RECIPE_VALUE, .node = from, .what = what, .index = index};
}

void recipe_state(struct recipe *recipe, uint32_t node, uint32_t state, uint32_t from,
                  enum cell_emit_what what, uint32_t index)
{
    recipe->nodes[node].init[state] =
        (struct recipe_read){.kind = RECIPE_VALUE, .node = from, .what = what, .index = index};
}

void recipe_steps(struct recipe *recipe, uint32_t node, uint32_t input, uint32_t from,
                  uint32_t index, bool backwards)
{
    recipe->nodes[from].outputs[index].is_emitted = true;
    recipe->nodes[from].outputs[index].when = CELL_EMIT_EACH;
    recipe->nodes[node].inputs[input] = (struct recipe_read){
        .kind = RECIPE_SPILL, .node = from, .index = index, .backwards = backwards};
}

void recipe_end(struct recipe *recipe, uint32_t node, uint32_t state, uint32_t steps)
{
    struct recipe_node *at = &recipe->nodes[node];
    base_assert(state < at->type->def.n_states && steps > 0 && steps <= at->steps);
    at->end.state = state;
    at->ends_after = steps;
    for (uint32_t i = 0; i < CELL_OUTPUTS_MAX + CELL_STATES_MAX; i++) {
        struct recipe_result *result =
            i < CELL_OUTPUTS_MAX ? &at->outputs[i] : &at->states[i - CELL_OUTPUTS_MAX];
        result->when = result->when == CELL_EMIT_LAST ? CELL_EMIT_EACH : result->when;
    }
}

static void read_host(struct recipe *recipe, struct recipe_read *read,
                      const struct cell_value *value, uint32_t steps, struct base_random *random)
{
    size_t elements = (size_t)value->width * steps;
    read->kind = RECIPE_HOST;
    read->backwards = base_random_below(random, 4) == 0;
    read->host = take(recipe, graphs_row_bytes(value) * steps);
    for (size_t i = 0; i < elements; i++) {
        if (value->dtype == CELL_F32) {
            ((float *)(void *)read->host)[i] = base_random_f32(random, -1, 1);
            continue;
        }
        uint64_t id = base_random_u64(random);
        id = recipe->types->id_bound > 0 ? id % (uint64_t)recipe->types->id_bound : id;
        if (value->dtype == CELL_I64) {
            ((uint64_t *)(void *)read->host)[i] = id;
        } else {
            ((uint32_t *)(void *)read->host)[i] = (uint32_t)id;
        }
    }
}

void recipe_fill(struct recipe *recipe, struct base_random *random)
{
    for (uint32_t n = 0; n < recipe->n_nodes; n++) {
        struct recipe_node *node = &recipe->nodes[n];
        const struct cell_def *def = &node->type->def;
        for (uint32_t i = 0; i < def->n_inputs + def->n_states; i++) {
            bool is_state = i >= def->n_inputs;
            struct recipe_read *read = is_state ? &node->init[i - def->n_inputs] : &node->inputs[i];
            if (read->kind == RECIPE_ZERO) {
                read_host(recipe, read, &def->values[i], is_state ? 1 : node->steps, random);
            }
        }
    }
}

/* ---- Random recipes ---- */

/* An output or state of an earlier node in this layout becomes what is read; false when the node
 * drawn has none. */
static bool read_earlier(struct recipe *recipe, uint32_t n, struct recipe_read *read,
                         uint32_t layout, struct base_random *random)
{
    uint32_t from = base_random_below(random, n);
    const struct cell_type *type = recipe->nodes[from].type;
    uint32_t total = type->def.n_outputs + type->def.n_states;
    uint32_t first = base_random_below(random, total);
    for (uint32_t k = 0; k < total; k++) {
        uint32_t i = (first + k) % total;
        bool is_output = i < type->def.n_outputs;
        uint32_t index = is_output ? i : i - type->def.n_outputs;
        if ((is_output ? type->output_layouts[index] : type->state_layouts[index]) == layout) {
            *read = (struct recipe_read){.kind = RECIPE_VALUE,
                                         .node = from,
                                         .what = is_output ? CELL_EMIT_OUTPUT : CELL_EMIT_STATE,
                                         .index = index};
            return true;
        }
    }
    return false;
}

/* An input of node n, that may also read an earlier node's output at every step. */
static void draw_input(struct recipe *recipe, uint32_t n, uint32_t input,
                       struct base_random *random)
{
    struct recipe_node *node = &recipe->nodes[n];
    struct recipe_read *read = &node->inputs[input];
    uint32_t kind = base_random_below(random, 8);
    uint32_t layout = node->type->input_layouts[input];
    if (kind == 0 && node->type->def.values[input].dtype != CELL_I64) {
        return; // reads zeros
    }
    if (n > 0 && kind >= 3 && read_earlier(recipe, n, read, layout, random)) {
        const struct recipe_node *from = &recipe->nodes[read->node];
        if (kind >= 6 && read->what == CELL_EMIT_OUTPUT && from->steps >= node->steps) {
            recipe_steps(recipe, n, input, read->node, read->index, kind == 7);
        }
        return;
    }
    read_host(recipe, read, &node->type->def.values[input], node->steps, random);
}

static void draw_init(struct recipe *recipe, uint32_t n, uint32_t state, struct base_random *random)
{
    struct recipe_node *node = &recipe->nodes[n];
    struct recipe_read *read = &node->init[state];
    uint32_t kind = base_random_below(random, 4);
    if (kind == 0 || (n > 0 && kind >= 2 &&
                      read_earlier(recipe, n, read, node->type->state_layouts[state], random))) {
        return;
    }
    read_host(recipe, read, &node->type->def.values[node->type->def.n_inputs + state], 1, random);
}

/* A node over the one before it, which reads each of its steps; false: their rows are not alike. */
static bool draw_layer(struct recipe *recipe, const struct cell_type *type,
                       struct base_random *random)
{
    const uint32_t below = recipe->n_nodes - 1;
    const struct recipe_node *from = &recipe->nodes[below];
    if (type->def.n_inputs == 0 || type->input_layouts[0] != from->type->output_layouts[0]) {
        return false;
    }
    const uint32_t n = recipe_node(recipe, type, from->steps);
    recipe_steps(recipe, n, 0, below, 0, false);
    for (uint32_t i = 1; i < type->def.n_inputs; i++) {
        draw_input(recipe, n, i, random);
    }
    for (uint32_t i = 0; i < type->def.n_states; i++) {
        read_host(recipe, &recipe->nodes[n].init[i], &type->def.values[type->def.n_inputs + i], 1,
                  random);
    }
    return true;
}

/* Some chains that nobody reads end by themselves. */
static void draw_end(struct recipe *recipe, uint32_t n, struct base_random *random)
{
    const struct recipe_node *node = &recipe->nodes[n];
    const struct cell_def *def = &node->type->def;
    bool is_able = def->n_states > 0 && base_random_below(random, 2) == 0;
    if (is_able) {
        const struct cell_value *state = &def->values[def->n_inputs];
        is_able = state->dtype != CELL_F32 && state->width == 1;
    }
    for (uint32_t reader = n + 1; is_able && reader < recipe->n_nodes; reader++) {
        is_able = !recipe_is_child(recipe, reader, n);
    }
    if (is_able) {
        recipe_end(recipe, n, 0, 1 + base_random_below(random, node->steps));
    }
}

void recipe_random(struct recipe *recipe, const struct graphs_types *types,
                   const struct recipe_shape *shape, struct base_random *random)
{
    uint32_t n_nodes = 1 + base_random_below(random, shape->nodes_max);
    recipe_init(recipe, types, n_nodes);
    for (uint32_t n = 0; n < n_nodes; n++) {
        const struct cell_type *type = &types->types[base_random_below(random, types->n)];
        uint32_t steps = 1 + base_random_below(random, shape->steps_max);
        bool is_layer = n > 0 && base_random_below(random, 100) < shape->layers &&
                        draw_layer(recipe, type, random);
        // Where there are no layers half are single cells, so that trees come up, not only long
        // chains.
        const bool is_single = shape->layers == 0 && base_random_below(random, 2) == 0;
        if (!is_layer) {
            recipe_node(recipe, type, is_single ? 1 : steps);
        }
        for (uint32_t i = 0; i < type->def.n_inputs && !is_layer; i++) {
            draw_input(recipe, n, i, random);
        }
        for (uint32_t i = 0; i < type->def.n_states && !is_layer; i++) {
            draw_init(recipe, n, i, random);
        }
        for (uint32_t i = 0; i < type->def.n_outputs; i++) {
            struct recipe_result *output = &recipe->nodes[n].outputs[i];
            output->is_emitted = base_random_below(random, 4) != 0;
            output->when = (enum cell_emit_when)base_random_below(random, 3);
        }
        for (uint32_t i = 0; i < type->def.n_states; i++) {
            struct recipe_result *state = &recipe->nodes[n].states[i];
            state->is_emitted = base_random_below(random, 2) == 0;
            state->when = (enum cell_emit_when)base_random_below(random, 3);
        }
    }
    for (uint32_t n = 0; n < n_nodes; n++) {
        draw_end(recipe, n, random);
    }
}

/* ---- Building ---- */

static struct recipe_result *result_of(const struct recipe *recipe, const struct recipe_read *read)
{
    struct recipe_node *from = &recipe->nodes[read->node];
    return read->kind == RECIPE_SPILL || read->what == CELL_EMIT_OUTPUT
               ? &from->outputs[read->index]
               : &from->states[read->index];
}

/* First row that a read of this many rows sees, and the way to the next. */
static const uint8_t *rows_of(const struct recipe *recipe, const struct recipe_read *read,
                              uint32_t steps, size_t row_bytes, int64_t *stride)
{
    const uint8_t *rows = read->host;
    if (read->kind == RECIPE_SPILL) {
        rows = result_of(recipe, read)->got;
        steps = recipe->nodes[read->node].steps;
    }
    *stride = read->backwards ? -(int64_t)row_bytes : (int64_t)row_bytes;
    return read->backwards ? rows + (steps - 1) * row_bytes : rows;
}

static sched_value_id value_of(struct recipe *recipe, struct sched_builder *builder,
                               const struct recipe_read *read)
{
    struct recipe_result *result = result_of(recipe, read);
    if (result->value == SCHED_NONE) {
        result->value =
            sched_builder_value(builder, read->node, read->what, CELL_EMIT_LAST, read->index);
    }
    return result->value;
}

bool recipe_reads_steps(const struct recipe *recipe, uint32_t node, uint32_t input)
{
    const struct recipe_read *read = &recipe->nodes[node].inputs[input];
    return read->kind == RECIPE_SPILL && !read->backwards &&
           recipe->nodes[read->node].steps == recipe->nodes[node].steps;
}

static void build_reads(struct recipe *recipe, struct sched_builder *builder, uint32_t n)
{
    const struct recipe_node *node = &recipe->nodes[n];
    const struct cell_def *def = &node->type->def;
    for (uint32_t i = 0; i < def->n_inputs; i++) {
        const struct recipe_read *read = &node->inputs[i];
        if (read->kind == RECIPE_VALUE) {
            sched_builder_input_value(builder, n, i, value_of(recipe, builder, read));
        } else if (read->kind != RECIPE_ZERO) {
            int64_t stride = 0;
            const uint8_t *rows =
                rows_of(recipe, read, node->steps, graphs_row_bytes(&def->values[i]), &stride);
            sched_builder_input_host(builder, n, i, rows, stride);
        }
        if (recipe_reads_steps(recipe, n, i)) {
            sched_builder_after_each(builder, n, read->node);
        } else if (read->kind == RECIPE_SPILL) {
            sched_builder_after(builder, n, read->node);
        }
    }
    for (uint32_t i = 0; i < def->n_states; i++) {
        const struct recipe_read *read = &node->init[i];
        if (read->kind == RECIPE_VALUE) {
            sched_builder_init_value(builder, n, i, value_of(recipe, builder, read));
        } else if (read->kind == RECIPE_HOST) {
            sched_builder_init_host(builder, n, i, read->host);
        }
    }
}

static void build_emits(struct recipe *recipe, struct sched_builder *builder, uint32_t n)
{
    struct recipe_node *node = &recipe->nodes[n];
    if (node->ends_after > 0) {
        sched_builder_end(builder, n, &node->end);
    }
    for (uint32_t i = 0; i < node->type->def.n_outputs + node->type->def.n_states; i++) {
        bool is_output = i < node->type->def.n_outputs;
        uint32_t index = is_output ? i : i - node->type->def.n_outputs;
        struct recipe_result *result = is_output ? &node->outputs[index] : &node->states[index];
        if (!result->is_emitted && result->value == SCHED_NONE) {
            result->is_emitted = true;
            result->when = is_output || node->ends_after > 0 ? CELL_EMIT_EACH : CELL_EMIT_LAST;
        }
        if (result->is_emitted) {
            int64_t stride = result->when == CELL_EMIT_EACH ? (int64_t)result->row_bytes : 0;
            struct cell_emit emit = {.what = is_output ? CELL_EMIT_OUTPUT : CELL_EMIT_STATE,
                                     .when = result->when,
                                     .index = index,
                                     .to = sched_host_ref(result->got, stride)};
            sched_builder_emit(builder, n, emit);
        }
    }
}

void recipe_build(struct recipe *recipe)
{
    uint32_t values = 0;
    uint32_t edges = 0;
    for (uint32_t n = 0; n < recipe->n_nodes; n++) {
        const struct recipe_node *node = &recipe->nodes[n];
        for (uint32_t i = 0; i < CELL_INPUTS_MAX + CELL_STATES_MAX; i++) {
            enum recipe_kind kind =
                i < CELL_INPUTS_MAX ? node->inputs[i].kind : node->init[i - CELL_INPUTS_MAX].kind;
            values += kind == RECIPE_VALUE ? 1 : 0;
            edges += kind == RECIPE_VALUE || kind == RECIPE_SPILL ? 1 : 0;
        }
    }
    struct sched_builder builder;
    sched_builder_init(&builder, &recipe->arena, recipe->n_nodes, values, edges);
    for (uint32_t n = 0; n < recipe->n_nodes; n++) {
        const struct cell_def *def = &recipe->nodes[n].type->def;
        sched_builder_node(&builder, recipe->nodes[n].type, recipe->nodes[n].steps,
                           2 * (def->n_outputs + def->n_states));
        build_reads(recipe, &builder, n);
    }
    for (uint32_t n = 0; n < recipe->n_nodes; n++) {
        build_emits(recipe, &builder, n);
    }
    enum base_status status = sched_builder_finish(&builder, &recipe->graph, NULL);
    base_assert(status == BASE_OK);
    for (uint32_t n = 0; recipe->is_shown && n < recipe->n_nodes; n++) {
        status = sched_graph_show(recipe->graph, &recipe->arena, &n, 1);
        base_assert(status == BASE_OK);
    }
}

bool recipe_is_child(const struct recipe *recipe, uint32_t node, uint32_t from)
{
    for (uint32_t i = 0; i < CELL_INPUTS_MAX + CELL_STATES_MAX; i++) {
        const struct recipe_read *read = i < CELL_INPUTS_MAX
                                             ? &recipe->nodes[node].inputs[i]
                                             : &recipe->nodes[node].init[i - CELL_INPUTS_MAX];
        if ((read->kind == RECIPE_VALUE || read->kind == RECIPE_SPILL) && read->node == from) {
            return true;
        }
    }
    return false;
}

/* ---- Evaluating ---- */

/* Zeros as wide as any row of a test. */
static const uint8_t zeros[4096];

static const uint8_t *row_wanted(const struct recipe *recipe, const struct recipe_read *read,
                                 uint32_t step, uint32_t steps, size_t row_bytes)
{
    base_assert(row_bytes <= sizeof(zeros));
    if (read->kind == RECIPE_ZERO) {
        return zeros;
    }
    if (read->kind == RECIPE_HOST) {
        return read->host + (read->backwards ? steps - 1 - step : step) * row_bytes;
    }
    const struct recipe_result *result = result_of(recipe, read);
    uint32_t last = recipe->nodes[read->node].steps - 1;
    if (read->kind == RECIPE_SPILL) {
        return result->want + (read->backwards ? last - step : step) * row_bytes;
    }
    return result->want + last * row_bytes;
}

/* By the id, which may have come before the step that it is taken from. */
static void find_end(struct recipe_node *node)
{
    const struct recipe_result *state = &node->states[node->end.state];
    const enum cell_dtype dtype =
        node->type->def.values[node->type->def.n_inputs + node->end.state].dtype;
    if (node->ends_after > 0) {
        node->end.id =
            cell_integer_at(dtype, state->want + (node->ends_after - 1) * state->row_bytes);
        node->taken = 1;
        while (cell_integer_at(dtype, state->want + (node->taken - 1) * state->row_bytes) !=
               node->end.id) {
            node->taken++;
        }
    }
}

static void evaluate_node(struct recipe *recipe, struct recipe_node *node, graphs_cell cell)
{
    const struct cell_def *def = &node->type->def;
    uint8_t *states[CELL_STATES_MAX] = {NULL};
    for (uint32_t i = 0; i < def->n_states; i++) {
        size_t bytes = node->states[i].row_bytes;
        states[i] = take(recipe, bytes);
        memcpy(states[i], row_wanted(recipe, &node->init[i], 0, 1, bytes), bytes);
    }
    for (uint32_t step = 0; step < node->steps; step++) {
        const void *inputs[CELL_INPUTS_MAX] = {NULL};
        void *states_now[CELL_STATES_MAX] = {NULL};
        void *outputs[CELL_OUTPUTS_MAX] = {NULL};
        for (uint32_t i = 0; i < def->n_inputs; i++) {
            inputs[i] = row_wanted(recipe, &node->inputs[i], step, node->steps,
                                   graphs_row_bytes(&def->values[i]));
        }
        for (uint32_t i = 0; i < def->n_outputs; i++) {
            outputs[i] = node->outputs[i].want + step * node->outputs[i].row_bytes;
        }
        for (uint32_t i = 0; i < def->n_states; i++) {
            states_now[i] = states[i];
        }
        cell(node->type, inputs, states_now, outputs);
        for (uint32_t i = 0; i < def->n_states; i++) {
            size_t bytes = node->states[i].row_bytes;
            base_assert(states[i] != NULL);
            memcpy(node->states[i].want + step * bytes, states[i], bytes);
        }
    }
    find_end(node);
}

void recipe_evaluate(struct recipe *recipe, graphs_cell cell)
{
    for (uint32_t n = 0; n < recipe->n_nodes; n++) {
        evaluate_node(recipe, &recipe->nodes[n], cell);
    }
}

static bool is_close(const uint8_t *got, const uint8_t *want, size_t bytes, double tolerance)
{
    for (size_t at = 0; at < bytes; at += sizeof(float)) {
        float a = 0;
        float b = 0;
        memcpy(&a, got + at, sizeof(a));
        memcpy(&b, want + at, sizeof(b));
        // Written so that a NaN is not close.
        if (!(fabs((double)a - (double)b) <= tolerance + tolerance * fabs((double)b))) {
            return false;
        }
    }
    return true;
}

static bool is_blank(const uint8_t *row, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        if (row[i] != RECIPE_BLANK) {
            return false;
        }
    }
    return true;
}

static uint32_t result_wrong(const struct recipe_node *node, const struct recipe_result *result,
                             const struct cell_value *value, double tolerance, bool is_partial)
{
    uint32_t wrong = 0;
    for (uint32_t step = 0; step < node->steps; step++) {
        const uint8_t *got = result->got + step * result->row_bytes;
        const uint8_t *want = result->want + step * result->row_bytes;
        bool is_each = result->when == CELL_EMIT_EACH;
        if (!result->is_emitted || (!is_each && step > 0) || step >= node->taken) {
            wrong += is_blank(got, result->row_bytes) ? 0 : 1;
            continue;
        }
        want = result->when == CELL_EMIT_LAST ? result->want + (node->steps - 1) * result->row_bytes
                                              : want;
        bool right = memcmp(got, want, result->row_bytes) == 0 ||
                     (value->dtype == CELL_F32 && tolerance > 0 &&
                      is_close(got, want, result->row_bytes, tolerance));
        wrong += right || (is_partial && is_blank(got, result->row_bytes)) ? 0 : 1;
    }
    return wrong;
}

uint32_t recipe_wrong(const struct recipe *recipe, double tolerance, bool is_partial)
{
    uint32_t wrong = 0;
    for (uint32_t n = 0; n < recipe->n_nodes; n++) {
        const struct recipe_node *node = &recipe->nodes[n];
        const struct cell_def *def = &node->type->def;
        for (uint32_t i = 0; i < def->n_outputs; i++) {
            wrong += result_wrong(node, &node->outputs[i], &def->values[def->outputs[i]], tolerance,
                                  is_partial);
        }
        for (uint32_t i = 0; i < def->n_states; i++) {
            wrong += result_wrong(node, &node->states[i], &def->values[def->n_inputs + i],
                                  tolerance, is_partial);
        }
    }
    return wrong;
}
