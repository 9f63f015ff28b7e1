/* The registry of cell types: finds the equal type or copies the definition into a new one.
 *
 * A type is one block of memory: the struct and, behind it, its weights, each on a cache line.
 * Layouts are interned too and never given back: there are few, and rows are opened by their
 * number. Cost of an intern: one pass over the weights to check, one to hash, one to
 * compare or copy. */
#include "cells/type.h"

#include "base/assert.h"
#include "base/checked.h"
#include "base/mem.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

struct cell_registry {
    uint32_t n_types;
    uint32_t n_layouts;
    struct cell_type *types[CELL_TYPES_MAX]; /* NULL: free id */
    struct cell_layout layouts[CELL_LAYOUTS_MAX];
};

static size_t weight_bytes(const struct cell_weight *weight)
{
    return (size_t)weight->rows * weight->cols * cell_dtype_bytes(weight->dtype);
}

/* ---- Identity ------------------------------------------------------------------------------- */

static void hash_u32(struct base_hasher *hasher, uint32_t value)
{
    base_hasher_add(hasher, &value, sizeof(value));
}

static bool has_variants(enum cell_op_kind kind)
{
    return kind == CELL_OP_GRU || kind == CELL_OP_RNN || kind == CELL_OP_ATTEND ||
           kind == CELL_OP_REDUCE || kind == CELL_OP_TOP || kind == CELL_OP_FILTER;
}

/* What means nothing to an op does not make it another. */
static enum cell_precision precision_of(const struct cell_op *op)
{
    const bool has_one = cell_op_gates(op->kind) > 0 || op->kind == CELL_OP_LINEAR;
    return has_one ? op->precision : CELL_FP32;
}

/* Elements that are taken together; 0: all. */
static uint32_t group_of(const struct cell_op *op)
{
    return cell_op_has_groups(op->kind) || op->kind == CELL_OP_SUM || op->kind == CELL_OP_MEAN
               ? op->group
               : 0;
}

static bool nan_is_zero(const struct cell_op *op)
{
    return op->kind == CELL_OP_ATTEND && op->nan_is_zero;
}

/* How patches lie, or in which order they are taken. */
static uint32_t manner_of(const struct cell_op *op)
{
    return op->patches == 0             ? 0
           : cell_op_has_picture(op)    ? 0
           : op->kind == CELL_OP_LINEAR ? op->step
           : op->kind == CELL_OP_GATHER ? 0
                                        : (uint32_t)op->order;
}

static bool has_dims(enum cell_op_kind kind)
{
    return kind == CELL_OP_TRANSPOSE || kind == CELL_OP_SPREAD;
}

static void hash_op(struct base_hasher *hasher, const struct cell_op *op)
{
    hash_u32(hasher, (uint32_t)op->kind);
    hash_u32(hasher, op->n_operands);
    base_hasher_add(hasher, op->operands, op->n_operands * sizeof(op->operands[0]));
    hash_u32(hasher, op->kind == CELL_OP_SLICE ? op->start : 0);
    if (cell_op_may_have_patches(op->kind) && op->patches > 0) {
        hash_u32(hasher, op->patches);
        hash_u32(hasher, manner_of(op));
    }
    if (cell_op_has_picture(op)) {
        base_hasher_add(hasher, &op->picture, sizeof(op->picture));
    }
    if (has_dims(op->kind)) {
        base_hasher_add(hasher, op->dims, sizeof(op->dims));
    }
    hash_u32(hasher, group_of(op));
    hash_u32(hasher, has_variants(op->kind) ? op->variant : 0);
    if (nan_is_zero(op)) {
        hash_u32(hasher, 1);
    }
    hash_u32(hasher, (uint32_t)precision_of(op));
    hash_u32(hasher, op->n_weights);
    for (uint32_t w = 0; w < op->n_weights; w++) {
        hash_u32(hasher, (uint32_t)op->weights[w].dtype);
        hash_u32(hasher, op->weights[w].rows);
        hash_u32(hasher, op->weights[w].cols);
        base_hasher_add(hasher, op->weights[w].data, weight_bytes(&op->weights[w]));
    }
}

static enum base_status hash_def(const struct cell_def *def, struct base_hash *out)
{
    struct base_hasher *hasher = base_hasher_create();
    if (hasher == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    const uint32_t counts[] = {
        def->n_inputs,  def->n_states,           def->n_values,          def->n_ops,
        def->n_outputs, def->as_written ? 1 : 0, (uint32_t)def->products};
    base_hasher_add(hasher, counts, sizeof(counts));
    for (uint32_t v = 0; v < def->n_values; v++) {
        hash_u32(hasher, (uint32_t)def->values[v].dtype);
        hash_u32(hasher, def->values[v].width);
    }
    for (uint32_t o = 0; o < def->n_ops; o++) {
        hash_op(hasher, &def->ops[o]);
    }
    base_hasher_add(hasher, def->state_next, def->n_states * sizeof(def->state_next[0]));
    base_hasher_add(hasher, def->outputs, def->n_outputs * sizeof(def->outputs[0]));
    *out = base_hasher_digest(hasher);
    base_hasher_free(hasher);
    return BASE_OK;
}

static bool is_value_equal(struct cell_value a, struct cell_value b)
{
    return a.dtype == b.dtype && a.width == b.width;
}

static bool has_same_patches(const struct cell_op *a, const struct cell_op *b)
{
    if (cell_op_has_picture(a) != cell_op_has_picture(b) ||
        (cell_op_has_picture(a) && memcmp(&a->picture, &b->picture, sizeof(a->picture)) != 0)) {
        return false;
    }
    if (cell_op_may_have_patches(a->kind)) {
        return a->patches == b->patches && manner_of(a) == manner_of(b);
    }
    return !has_dims(a->kind) || memcmp(a->dims, b->dims, sizeof(a->dims)) == 0;
}

static bool is_op_equal(const struct cell_op *a, const struct cell_op *b)
{
    if (a->kind != b->kind || a->n_operands != b->n_operands || a->n_weights != b->n_weights ||
        (a->kind == CELL_OP_SLICE && a->start != b->start) || !has_same_patches(a, b) ||
        group_of(a) != group_of(b) || (has_variants(a->kind) && a->variant != b->variant) ||
        nan_is_zero(a) != nan_is_zero(b) || precision_of(a) != precision_of(b) ||
        memcmp(a->operands, b->operands, a->n_operands * sizeof(a->operands[0])) != 0) {
        return false;
    }
    for (uint32_t w = 0; w < a->n_weights; w++) {
        const struct cell_weight *x = &a->weights[w];
        const struct cell_weight *y = &b->weights[w];
        if (x->dtype != y->dtype || x->rows != y->rows || x->cols != y->cols ||
            memcmp(x->data, y->data, weight_bytes(x)) != 0) {
            return false;
        }
    }
    return true;
}

static bool is_def_equal(const struct cell_def *a, const struct cell_def *b)
{
    if (a->n_inputs != b->n_inputs || a->n_states != b->n_states || a->n_values != b->n_values ||
        a->n_ops != b->n_ops || a->n_outputs != b->n_outputs || a->as_written != b->as_written ||
        a->products != b->products ||
        memcmp(a->state_next, b->state_next, a->n_states * sizeof(a->state_next[0])) != 0 ||
        memcmp(a->outputs, b->outputs, a->n_outputs * sizeof(a->outputs[0])) != 0) {
        return false;
    }
    for (uint32_t v = 0; v < a->n_values; v++) {
        if (!is_value_equal(a->values[v], b->values[v])) {
            return false;
        }
    }
    for (uint32_t o = 0; o < a->n_ops; o++) {
        if (!is_op_equal(&a->ops[o], &b->ops[o])) {
            return false;
        }
    }
    return true;
}

/* ---- Layouts -------------------------------------------------------------------------------- */

static bool is_layout_equal(const struct cell_layout *a, const struct cell_layout *b)
{
    if (a->kind != b->kind || a->n_parts != b->n_parts) {
        return false;
    }
    for (uint32_t p = 0; p < a->n_parts; p++) {
        if (!is_value_equal(a->parts[p], b->parts[p]) || a->twice[p] != b->twice[p]) {
            return false;
        }
    }
    return true;
}

static enum base_status intern_layout(struct cell_registry *registry,
                                      const struct cell_layout *layout, uint32_t *out)
{
    for (uint32_t i = 0; i < registry->n_layouts; i++) {
        if (is_layout_equal(&registry->layouts[i], layout)) {
            *out = i;
            return BASE_OK;
        }
    }
    if (registry->n_layouts == CELL_LAYOUTS_MAX) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    registry->layouts[registry->n_layouts] = *layout;
    *out = registry->n_layouts++;
    return BASE_OK;
}

static enum base_status intern_value_layout(struct cell_registry *registry, struct cell_value value,
                                            uint32_t *out)
{
    struct cell_layout layout = {.kind = CELL_LAYOUT_VALUE, .n_parts = 1, .parts = {value}};
    return intern_layout(registry, &layout, out);
}

/* How often a value is read: as an operand, as a next state, as an output. */
static uint32_t count_readers(const struct cell_def *def, uint32_t value)
{
    uint32_t readers = 0;
    for (uint32_t o = 0; o < def->n_ops; o++) {
        for (uint32_t i = 0; i < def->ops[o].n_operands; i++) {
            readers += def->ops[o].operands[i] == value;
        }
    }
    for (uint32_t s = 0; s < def->n_states; s++) {
        readers += def->state_next[s] == value;
    }
    for (uint32_t o = 0; o < def->n_outputs; o++) {
        readers += def->outputs[o] == value;
    }
    return readers;
}

bool cell_state_in_place(const struct cell_def *def, uint32_t state)
{
    uint32_t value = def->n_inputs + state;
    for (uint32_t o = 0; o < def->n_ops; o++) {
        const struct cell_op *op = &def->ops[o];
        if (op->kind == CELL_OP_LSTM && op->operands[2] == value) {
            return def->state_next[state] == op->result + 1 && count_readers(def, value) == 1;
        }
    }
    return false;
}

static enum base_status intern_layouts(struct cell_registry *registry, struct cell_type *type)
{
    const struct cell_def *def = &type->def;
    struct cell_layout state = {.kind = CELL_LAYOUT_STATE, .n_parts = def->n_states};
    for (uint32_t i = 0; i < def->n_inputs; i++) {
        BASE_TRY(intern_value_layout(registry, def->values[i], &type->input_layouts[i]));
    }
    for (uint32_t o = 0; o < def->n_outputs; o++) {
        BASE_TRY(
            intern_value_layout(registry, def->values[def->outputs[o]], &type->output_layouts[o]));
    }
    for (uint32_t s = 0; s < def->n_states; s++) {
        state.parts[s] = def->values[def->n_inputs + s];
        state.twice[s] = !cell_state_in_place(def, s);
        BASE_TRY(intern_value_layout(registry, state.parts[s], &type->state_layouts[s]));
    }
    type->state_layout = CELL_LAYOUT_NONE;
    return def->n_states == 0 ? BASE_OK : intern_layout(registry, &state, &type->state_layout);
}

/* ---- Making a type -------------------------------------------------------------------------- */

static size_t round_up_line(size_t bytes)
{
    return (bytes + BASE_CACHE_LINE - 1) / BASE_CACHE_LINE * BASE_CACHE_LINE;
}

/* Operations of one element. */
static uint64_t pointwise_flops(enum cell_op_kind kind)
{
    bool is_activation = kind == CELL_OP_SIGMOID || kind == CELL_OP_TANH || kind == CELL_OP_EXP ||
                         kind == CELL_OP_LOG || kind == CELL_OP_SIN || kind == CELL_OP_COS ||
                         kind == CELL_OP_ATAN;
    return !cell_op_is_pointwise(kind) ? 0 : kind == CELL_OP_POW ? 50 : is_activation ? 20 : 1;
}

/* Operations of a matrix of an op. A child-sum cell multiplies its rows of f for each child. */
static uint64_t matrix_flops(const struct cell_op *op, const struct cell_weight *weight)
{
    uint64_t rows = weight->rows;
    if (op->kind == CELL_OP_TREE_SUM) {
        rows += rows / cell_op_gates(op->kind) * (cell_op_children(op) - 1);
    }
    return 2 * rows * weight->cols;
}

/* A multiplication and an addition, or a comparison, of each tap. */
static uint64_t filter_flops(const struct cell_def *def, const struct cell_op *op)
{
    if (op->kind != CELL_OP_FILTER) {
        return 0;
    }
    const uint64_t taps = (uint64_t)op->picture.taps[0] * op->picture.taps[1];
    return (op->variant == CELL_FILTER_SUM ? 2 : 1) * taps * def->values[op->result].width;
}

static void count_work(struct cell_type *type)
{
    const struct cell_def *def = &type->def;
    for (uint32_t o = 0; o < def->n_ops; o++) {
        const struct cell_op *op = &def->ops[o];
        type->flops += pointwise_flops(op->kind) * def->values[op->result].width;
        type->flops += filter_flops(def, op);
        for (uint32_t w = 0; w < op->n_weights; w++) {
            const struct cell_weight *weight = &op->weights[w];
            bool is_matrix = w < (op->kind == CELL_OP_LINEAR ? 1 : cell_op_matrices(op));
            type->flops += is_matrix ? cell_op_patches(op) * matrix_flops(op, weight) : 0;
            type->weight_bytes += weight_bytes(weight);
        }
    }
}

/* The struct and copies of all weights in one block; NULL when out of memory. */
static struct cell_type *copy_type(const struct cell_def *def, const char *name)
{
    size_t bytes = round_up_line(sizeof(struct cell_type));
    for (uint32_t o = 0; o < def->n_ops; o++) {
        for (uint32_t w = 0; w < def->ops[o].n_weights; w++) {
            size_t weight = weight_bytes(&def->ops[o].weights[w]);
            if (!base_size_add(bytes, weight, &bytes) ||
                !base_size_add(bytes, BASE_CACHE_LINE, &bytes)) {
                return NULL;
            }
        }
    }
    uint8_t *block = base_alloc_aligned(bytes, BASE_CACHE_LINE);
    if (block == NULL) {
        return NULL;
    }
    struct cell_type *type = (struct cell_type *)(void *)block;
    uint8_t *next = block + round_up_line(sizeof(*type));
    type->def = *def;
    for (uint32_t o = 0; o < def->n_ops; o++) {
        for (uint32_t w = 0; w < def->ops[o].n_weights; w++) {
            struct cell_weight *weight = &type->def.ops[o].weights[w];
            memcpy(next, weight->data, weight_bytes(weight));
            weight->data = next;
            next += round_up_line(weight_bytes(weight));
        }
    }
    (void)snprintf(type->name, sizeof(type->name), "%s", name);
    count_work(type);
    return type;
}

/* Puts a new type under the first free id. */
static enum base_status add_type(struct cell_registry *registry, const struct cell_def *def,
                                 const char *name, struct base_hash hash, struct cell_type **out)
{
    cell_type_id id = 0;
    while (id < registry->n_types && registry->types[id] != NULL) {
        id++;
    }
    if (id == CELL_TYPES_MAX) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    struct cell_type *type = copy_type(def, name);
    if (type == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    type->id = id;
    type->hash = hash;
    enum base_status status = intern_layouts(registry, type);
    if (status != BASE_OK) {
        base_free(type);
        return status;
    }
    registry->types[id] = type;
    registry->n_types = id == registry->n_types ? id + 1 : registry->n_types;
    *out = type;
    return BASE_OK;
}

/* ---- The registry --------------------------------------------------------------------------- */

enum base_status cell_registry_create(struct cell_registry **out)
{
    *out = base_alloc(sizeof(**out));
    return *out == NULL ? BASE_RESOURCE_EXHAUSTED : BASE_OK;
}

void cell_registry_free(struct cell_registry *registry)
{
    if (registry == NULL) {
        return;
    }
    for (uint32_t i = 0; i < registry->n_types; i++) {
        base_free(registry->types[i]);
    }
    base_free(registry);
}

enum base_status cell_registry_intern(struct cell_registry *registry, const struct cell_def *def,
                                      const char *name, const struct cell_type **out, bool *is_new,
                                      struct base_error *error)
{
    BASE_TRY(cell_def_check(def, error));
    struct base_hash hash;
    if (hash_def(def, &hash) != BASE_OK) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "out of memory");
    }
    struct cell_type *type = NULL;
    for (uint32_t i = 0; i < registry->n_types && type == NULL; i++) {
        struct cell_type *known = registry->types[i];
        if (known != NULL && base_hash_equal(known->hash, hash) && is_def_equal(&known->def, def)) {
            type = known;
        }
    }
    *is_new = type == NULL;
    if (type == NULL && add_type(registry, def, name, hash, &type) != BASE_OK) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED,
                         "out of memory, or more than %u cell types or %u row layouts",
                         CELL_TYPES_MAX, CELL_LAYOUTS_MAX);
    }
    type->refs++;
    *out = type;
    return BASE_OK;
}

/* The registry's own, writable view of a type it gave out. */
static struct cell_type *own_type(struct cell_registry *registry, const struct cell_type *type)
{
    base_assert(type->id < registry->n_types && registry->types[type->id] == type);
    base_assert(type->refs > 0);
    return registry->types[type->id];
}

void cell_type_ref(struct cell_registry *registry, const struct cell_type *type)
{
    own_type(registry, type)->refs++;
}

void cell_type_unref(struct cell_registry *registry, const struct cell_type *type)
{
    struct cell_type *own = own_type(registry, type);
    own->refs--;
    if (own->refs == 0) {
        registry->types[own->id] = NULL;
        base_free(own);
    }
}

uint32_t cell_registry_types(const struct cell_registry *registry)
{
    return registry->n_types;
}

const struct cell_type *cell_registry_type(const struct cell_registry *registry, cell_type_id id)
{
    base_assert(id < registry->n_types);
    return registry->types[id];
}

uint32_t cell_registry_layouts(const struct cell_registry *registry)
{
    return registry->n_layouts;
}

const struct cell_layout *cell_registry_layout(const struct cell_registry *registry,
                                               uint32_t layout)
{
    base_assert(layout < registry->n_layouts);
    return &registry->layouts[layout];
}
