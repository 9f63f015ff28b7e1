/* From a definition to a program: barriers, weights, memory; see program.h. Runs on the
 * thread that loads types; nothing here runs while a batch does. */
#include "cells/cpu/program.h"

#include "base/mem.h"
#include "cells/batch.h"
#include "cells/cpu/ahead.h"
#include "cells/cpu/apart.h"
#include "cells/cpu/convolve.h"
#include "cells/cpu/lazy.h"
#include "cells/cpu/patches.h"
#include "cells/cpu/places.h"
#include "cells/cpu/taking.h"
#include "cells/cpu/tree.h"

#include <string.h>

/* Scratch of a block of rows should stay in a core's cache, but weights should not be streamed for
 * too few rows either. */
#define BLOCK_BYTES    (1u << 20)
#define BLOCK_ROWS_MIN 16u
_Static_assert(BLOCK_ROWS_MIN >= CELL_BEAM_MAX, "the lanes of a beam are never cut");

static size_t value_bytes(struct cell_value value)
{
    size_t bytes = (size_t)value.width * cell_dtype_bytes(value.dtype);
    return (bytes + BASE_CACHE_LINE - 1) / BASE_CACHE_LINE * BASE_CACHE_LINE;
}

/* ---- Barriers ---------------------------------------------------------------------------------
 */

/* Whether an op that is shared out like this must not read what was written like that. */
static bool needs_barrier(enum cell_share written, enum cell_share share)
{
    return written == CELL_SHARE_PANELS || (written == CELL_SHARE_ROWS && share != CELL_SHARE_ROWS);
}

static void place_barrier_of_chain(struct cell_program_op *op, enum cell_share written[])
{
    const struct cell_pointwise *chain = op->chain;
    bool is_made[CELL_POINTWISE_VALUES_MAX] = {false};
    for (uint32_t o = 0; o < chain->n_ops; o++) {
        for (uint32_t i = 0; i < chain->ops[o].n_in; i++) {
            uint32_t number = chain->ops[o].in[i];
            op->barrier_before |=
                !is_made[number] && needs_barrier(written[op->chain_values[number]], op->share);
        }
        is_made[chain->ops[o].out] = true;
    }
    if (op->barrier_before) {
        memset(written, 0, CELL_PROGRAM_VALUES_MAX * sizeof(written[0]));
    }
    for (uint32_t o = 0; o < chain->n_ops; o++) {
        written[op->chain_values[chain->ops[o].out]] = op->share;
    }
}

/* Barriers: an op needs one before it when an operand was written since the last one by a member
 * other than its reader. Rows are always shared out alike, so what was written by rows may be read
 * by rows. A view is only a pointer: its readers wait for whoever wrote what it points to. */
static void place_barriers(struct cell_program *program)
{
    enum cell_share written[CELL_PROGRAM_VALUES_MAX] = {CELL_SHARE_EACH};
    for (uint32_t o = 0; o < program->n_ops; o++) {
        struct cell_program_op *op = &program->ops[o];
        if (op->chain != NULL) {
            place_barrier_of_chain(op, written);
            continue;
        }
        if (program->values[op->out].place == CELL_PLACE_VIEW) {
            written[op->out] = written[op->in[0]];
            continue;
        }
        for (uint32_t i = 0; i < op->n_in; i++) {
            op->barrier_before |= needs_barrier(written[op->in[i]], op->share);
        }
        if (op->barrier_before) {
            memset(written, 0, sizeof(written));
        }
        written[op->out] = op->share;
        if (op->second != CELL_VALUES_MAX) {
            written[op->second] = op->share;
        }
    }
    for (uint32_t v = 0; v < program->n_values; v++) {
        program->ends_on_panels |= written[v] == CELL_SHARE_PANELS;
    }
}

/* Without a barrier after the emits, the next step may run while a slower member still emits this
 * one. That is safe for what the next step does not write: a next state that is held twice, an
 * input, a weight. (A state that is emitted each step out of one copy is seen by the run.) */
static void decide_settling(struct cell_program *program)
{
    const struct cell_def *def = &program->type->def;
    program->settles = !program->ends_on_panels;
    for (uint32_t o = 0; o < def->n_outputs; o++) {
        const struct cell_program_value *value = &program->values[def->outputs[o]];
        program->settles |=
            value->place == CELL_PLACE_SCRATCH || value->place == CELL_PLACE_KEPT ||
            value->place == CELL_PLACE_STATE || value->place == CELL_PLACE_VIEW ||
            (value->place == CELL_PLACE_NEXT && cell_state_in_place(def, value->index));
    }
}

/* ---- Weights -------------------------------------------------------------------------------- */

/* The gates of the definition's op that this one computes: all, or a GRU's z and r, or its n. */
static enum base_status load_gated(const struct cell_kernels *kernels, struct cell_program_op *op)
{
    const struct cell_weight *weights = op->op->weights;
    struct cell_gated *gated = &op->gated;
    uint32_t gates = cell_op_gates(op->op->kind);
    uint32_t hidden = weights[0].rows / gates;
    size_t first = gated->kind == CELL_GATED_GRU_NEW ? 2 * (size_t)hidden : 0;
    const float *w = weights[0].data;
    const float *r = weights[1].data;
    gated->precision = op->op->precision;
    gated->inputs = weights[0].cols;
    gated->feedback = weights[1].cols;
    gated->hidden = hidden;
    gated->w = w + first * gated->inputs;
    gated->r = r + first * gated->feedback;
    if (op->op->n_weights > 2) {
        const float *b = weights[2].data;
        gated->b_w = b + first;
        gated->b_r = b + (size_t)gates * hidden + first;
    }
    gated->p = op->op->n_weights > 3 ? weights[3].data : NULL;
    return kernels->gated_load(gated);
}

static enum base_status load_linear(const struct cell_kernels *kernels, struct cell_program_op *op)
{
    const struct cell_weight *weights = op->op->weights;
    op->linear.precision = op->op->precision;
    op->linear.inputs = weights[0].rows;
    op->linear.outputs = weights[0].cols;
    op->linear.w = weights[0].data;
    op->linear.b = op->op->n_weights > 1 ? weights[1].data : NULL;
    return kernels->linear_load(&op->linear);
}

static enum base_status load_weights(struct cell_program *program)
{
    enum base_status status = BASE_OK;
    for (uint32_t o = 0; o < program->n_ops && status == BASE_OK; o++) {
        struct cell_program_op *op = &program->ops[o];
        if (op->is_gated && cell_op_is_tree(op->kind)) {
            status = cell_tree_load(program->kernels, op);
        } else if (op->is_gated) {
            status = load_gated(program->kernels, op);
        } else if (op->kind == CELL_OP_LINEAR) {
            status = load_linear(program->kernels, op);
            status = status == BASE_OK ? cell_convolve_plan(program, op) : status;
        }
    }
    return status;
}

/* ---- Memory --------------------------------------------------------------------------------- */

/* Rows of patches, whose widths do not fill cache lines, stand behind the kernels' own scratch. */
static size_t patch_floats(const struct cell_program *program)
{
    size_t most = 0;
    for (uint32_t o = 0; o < program->n_ops; o++) {
        const struct cell_program_op *op = &program->ops[o];
        const size_t floats = cell_patches_has(op) ? cell_patches_floats(op) : 0;
        most = floats > most ? floats : most;
    }
    return most;
}

static size_t kernel_floats(const struct cell_program *program)
{
    size_t most = 0;
    for (uint32_t o = 0; o < program->n_ops; o++) {
        const struct cell_program_op *op = &program->ops[o];
        size_t floats = 0;
        uint32_t rows = cell_patches_has(op) ? CELL_PATCHES_AT_ONCE : program->block_rows;
        if (op->is_gated) {
            rows *= program->pairs_max > 0 ? program->pairs_max : 1;
            floats = program->kernels->gated_scratch(&op->gated, rows);
        } else if (op->kind == CELL_OP_LINEAR) {
            floats = program->kernels->linear_scratch(&op->linear, rows);
        } else if (op->chain != NULL) {
            floats = CELL_POINTWISE_SCRATCH;
        } else if (op->kind == CELL_OP_ATTEND) {
            floats = (size_t)CELL_ATTEND_QUERIES * op->op->weights[0].cols;
        }
        most = floats > most ? floats : most;
    }
    return most;
}

/* Whether a step that computes nothing ahead writes the value to rows of the program's own. */
static bool is_scratch(const struct cell_program *program, uint32_t value)
{
    enum cell_place place = program->values[value].place;
    return place == CELL_PLACE_SCRATCH || place == CELL_PLACE_KEPT || place == CELL_PLACE_OUT;
}

static bool is_read(const struct cell_program *program, uint32_t value)
{
    bool is = false;
    for (uint32_t o = 0; o < program->n_ops; o++) {
        const struct cell_program_op *op = &program->ops[o];
        const struct cell_pointwise *chain = op->chain;
        for (uint32_t i = 0; i < op->n_in && chain == NULL; i++) {
            is |= op->in[i] == value;
        }
        for (uint32_t p = 0; chain != NULL && p < chain->n_ops; p++) {
            for (uint32_t i = 0; i < chain->ops[p].n_in; i++) {
                is |= op->chain_values[chain->ops[p].in[i]] == value;
            }
        }
    }
    return is;
}

/* Whether who makes the value writes no element beyond it: element-wise ops, and products of whole
 * lines. */
static bool is_made_exactly(const struct cell_program *program, uint32_t value)
{
    bool is = false;
    for (uint32_t o = 0; o < program->n_ops; o++) {
        const struct cell_program_op *op = &program->ops[o];
        const struct cell_pointwise *chain = op->chain;
        is |= op->kind == CELL_OP_LINEAR && op->out == value && op->op->precision == CELL_FP32 &&
              op->op->weights[0].cols % CELL_ROW_LINE == 0;
        for (uint32_t p = 0; chain != NULL && p < chain->n_ops; p++) {
            is |= op->chain_values[chain->ops[p].out] == value;
        }
    }
    return is;
}

/* What is emitted behind each step of a chain is another row each time; a cell without a state is
 * one step, and its outputs mostly go to value rows, or are rows of request memory. */
static void place_outputs(struct cell_program *program)
{
    const struct cell_def *def = &program->type->def;
    for (uint32_t o = 0; o < def->n_outputs && def->n_states == 0; o++) {
        struct cell_program_value *value = &program->values[def->outputs[o]];
        if (value->place == CELL_PLACE_SCRATCH) {
            value->place = CELL_PLACE_OUT;
            value->index = o;
            value->is_exact =
                is_made_exactly(program, def->outputs[o]) && !is_read(program, def->outputs[o]);
        }
    }
}

/* Bytes of the weights of LINEARs: of those over whole rows, and of those over patches of them. */
struct linear_bytes {
    bool has_pictures;
    size_t of_rows, of_patches;
};

static struct linear_bytes count_linear(const struct cell_def *def)
{
    struct linear_bytes bytes = {.has_pictures = false};
    for (uint32_t o = 0; o < def->n_ops; o++) {
        const struct cell_op *op = &def->ops[o];
        const size_t n = op->kind != CELL_OP_LINEAR
                             ? 0
                             : (size_t)op->weights[0].rows * op->weights[0].cols * sizeof(float);
        bytes.has_pictures = bytes.has_pictures || cell_op_has_picture(op);
        *(op->patches > 0 ? &bytes.of_patches : &bytes.of_rows) += n;
    }
    return bytes;
}

/* Rows that a block has at least, so that weights are not read for too few. A picture's places are
 * rows enough for a kernel: where a row's values, row_bytes, are more than the weights of other
 * products, members take cells, and a block is a single row, which stays in L2; or as many as bring
 * reading the weights down to what reading and writing the values costs. */
static size_t least_rows(struct cell_program *program, size_t row_bytes)
{
    const struct linear_bytes bytes = count_linear(&program->type->def);
    program->takes_cells =
        bytes.has_pictures && program->type->def.n_states == 0 && bytes.of_rows < row_bytes;
    if (!program->takes_cells) {
        return BLOCK_ROWS_MIN;
    }
    size_t rows = 1; // a power of two, so that members' shares are blocks of as many more often
    while (rows < BLOCK_ROWS_MIN && rows * 2 * row_bytes < bytes.of_patches) {
        rows *= 2;
    }
    return rows;
}

static void choose_block(struct cell_program *program)
{
    size_t row_bytes = 0;
    for (uint32_t v = 0; v < program->n_values; v++) {
        if (is_scratch(program, v)) {
            row_bytes += value_bytes(program->values[v].shape);
        }
    }
    program->rows_least = (uint32_t)least_rows(program, row_bytes);
    size_t rows = row_bytes == 0 ? CELL_BATCH_ROWS_MAX : BLOCK_BYTES / row_bytes;
    rows = rows < program->rows_least ? program->rows_least : rows;
    rows = rows > CELL_BATCH_ROWS_MAX ? CELL_BATCH_ROWS_MAX : rows;
    program->block_rows = (uint32_t)rows;
}

/* Where the rows of a CONST or scratch value stand never changes: their pointers are filled here.
 * The others get room for pointers, filled at each step. NULL when out of memory. */
static uint8_t **make_pointers(struct cell_program *program, uint32_t value,
                               const struct cell_op *constant)
{
    uint32_t rows = program->block_rows;
    uint8_t **pointers = base_arena_array(&program->arena, rows, sizeof(*pointers));
    if (pointers == NULL) {
        return NULL;
    }
    size_t stride = value_bytes(program->values[value].shape);
    uint8_t *data = NULL;
    if (constant != NULL) {
        stride = 0;
        data =
            base_arena_alloc_aligned64(&program->arena, value_bytes(program->values[value].shape));
        if (data != NULL) {
            memcpy(data, constant->weights[0].data,
                   (size_t)constant->weights[0].cols *
                       cell_dtype_bytes(constant->weights[0].dtype));
        }
    } else if (is_scratch(program, value)) {
        data = base_arena_alloc_aligned64(&program->arena, rows * stride);
    } else {
        return pointers;
    }
    for (uint32_t r = 0; r < rows && data != NULL; r++) {
        pointers[r] = data + r * stride;
    }
    return data == NULL ? NULL : pointers;
}

static const struct cell_op *constant_of(const struct cell_program *program, uint32_t value)
{
    const struct cell_def *def = &program->type->def;
    for (uint32_t o = 0; o < def->n_ops; o++) {
        if (def->ops[o].kind == CELL_OP_CONST && def->ops[o].result == value) {
            return &def->ops[o];
        }
    }
    return NULL;
}

/* Members share the rows of scratch and constants, and have their own of everything else. What is
 * kept, or perhaps written where it is emitted, has both: shared rows, and pointers of each
 * member's own, to those or to elsewhere. */
static enum base_status make_rows(struct cell_program *program, struct cell_space *spaces,
                                  uint32_t member, uint32_t value)
{
    enum cell_place place = program->values[value].place;
    const struct cell_op *constant = constant_of(program, value);
    struct cell_space *space = &spaces[member];
    bool is_first = member == 0;
    if (place == CELL_PLACE_NONE) {
        return BASE_OK;
    }
    if (place == CELL_PLACE_KEPT || place == CELL_PLACE_OUT) {
        const uint32_t i = program->values[value].index;
        uint8_t ***shared = place == CELL_PLACE_KEPT ? &space->kept[i] : &space->outs[i];
        uint8_t **first = place == CELL_PLACE_KEPT ? spaces[0].kept[i] : spaces[0].outs[i];
        *shared = is_first ? make_pointers(program, value, constant) : first;
        space->rows[value] =
            base_arena_array(&program->arena, program->block_rows, sizeof(uint8_t *));
        return *shared == NULL || space->rows[value] == NULL ? BASE_RESOURCE_EXHAUSTED : BASE_OK;
    }
    bool is_shared = place == CELL_PLACE_SCRATCH || place == CELL_PLACE_CONST;
    space->rows[value] =
        is_shared && !is_first ? spaces[0].rows[value] : make_pointers(program, value, constant);
    return space->rows[value] == NULL ? BASE_RESOURCE_EXHAUSTED : BASE_OK;
}

enum base_status cell_program_make_spaces(struct cell_program *program, uint32_t members,
                                          struct cell_space **out)
{
    program->patches_at = CELL_ROW_FLOATS(kernel_floats(program));
    const size_t floats = program->patches_at + patch_floats(program);
    struct cell_space *spaces = base_arena_array(&program->arena, members, sizeof(*spaces));
    if (spaces == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    *out = spaces;
    for (uint32_t m = 0; m < members; m++) {
        spaces[m].active =
            base_arena_array(&program->arena, CELL_BATCH_ROWS_MAX, sizeof(spaces[m].active[0]));
        spaces[m].steps =
            base_arena_array(&program->arena, CELL_BATCH_ROWS_MAX, sizeof(spaces[m].steps[0]));
        spaces[m].scratch = base_arena_alloc_aligned64(&program->arena, floats * sizeof(float));
        spaces[m].share = base_arena_alloc_aligned64(&program->arena, BASE_CACHE_LINE);
        spaces[m].offsets =
            base_arena_array(&program->arena, CELL_BATCH_ROWS_MAX, sizeof(spaces[m].offsets[0]));
        if (spaces[m].active == NULL || spaces[m].steps == NULL || spaces[m].offsets == NULL ||
            spaces[m].scratch == NULL || spaces[m].share == NULL) {
            return BASE_RESOURCE_EXHAUSTED;
        }
        BASE_TRY(cell_tree_make_space(program, &spaces[m]));
        BASE_TRY(cell_lazy_make_space(program, &spaces[m]));
        for (uint32_t v = 0; v < program->n_values; v++) {
            BASE_TRY(make_rows(program, spaces, m, v));
        }
    }
    return BASE_OK;
}

static enum base_status make_memory(struct cell_program *program,
                                    const struct cell_program_queues *queues)
{
    const uint32_t n_queues = queues->n;
    const struct cell_def *def = &program->type->def;
    size_t widest = BASE_CACHE_LINE;
    for (uint32_t v = 0; v < def->n_inputs + def->n_states; v++) {
        size_t bytes = value_bytes(def->values[v]);
        widest = bytes > widest ? bytes : widest;
    }
    program->n_queues = n_queues;
    program->zeros = base_arena_alloc_aligned64(&program->arena, widest);
    program->n_members = base_arena_array(&program->arena, n_queues, sizeof(uint32_t));
    program->spaces = base_arena_array(&program->arena, n_queues, sizeof(struct cell_space *));
    if (program->zeros == NULL || program->n_members == NULL || program->spaces == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    memcpy(program->n_members, queues->n_members, n_queues * sizeof(uint32_t));
    for (uint32_t q = 0; q < n_queues; q++) {
        BASE_TRY(cell_program_make_spaces(program, program->n_members[q], &program->spaces[q]));
    }
    BASE_TRY(cell_apart_create(program));
    BASE_TRY(cell_taking_create(program));
    BASE_TRY(cell_places_make(program, queues->batches));
    if (program->window_floats > 0) {
        return cell_windows_create(program);
    }
    return BASE_OK;
}

/* A library multiplies what it is given: weights held in fewer bits are our own kernels'. */
static enum base_status check_precision(const struct cell_type *type,
                                        const struct cell_kernels *kernels,
                                        struct base_error *error)
{
    for (uint32_t o = 0; o < type->def.n_ops; o++) {
        enum cell_precision precision = type->def.ops[o].precision;
        if (precision != CELL_FP32 && !kernels->has_reduced) {
            return base_fail(error, BASE_UNIMPLEMENTED,
                             "cell type %s: %s: %s in the model's config.yaml, but %s kernels "
                             "hold them as fp32 only",
                             type->name,
                             type->def.ops[o].kind == CELL_OP_LINEAR ? "linear-weights" : "weights",
                             cell_precision_name(precision), kernels->name);
        }
    }
    return BASE_OK;
}

/* ---- What others ask ------------------------------------------------------------------------ */

uint32_t cell_program_most_members(const struct cell_program *program)
{
    uint32_t most = 1;
    for (uint32_t q = 0; q < program->n_queues; q++) {
        most = program->n_members[q] > most ? program->n_members[q] : most;
    }
    return most;
}

uint64_t cell_program_held_bytes(const struct cell_program *program)
{
    uint64_t bytes = program->type->weight_bytes;
    for (uint32_t o = 0; o < program->n_ops; o++) {
        const struct cell_gated *gated = &program->ops[o].gated;
        if (program->ops[o].is_gated) {
            uint64_t terms = (uint64_t)gated->inputs + gated->feedback + gated->right;
            uint64_t weights = terms * gated->hidden * cell_gated_gates(gated->kind);
            bytes -= weights *
                     (cell_precision_bytes(CELL_FP32) - cell_precision_bytes(gated->precision));
        } else if (program->ops[o].kind == CELL_OP_LINEAR) {
            const struct cell_linear *linear = &program->ops[o].linear;
            bytes -= (uint64_t)linear->inputs * linear->outputs *
                     (cell_precision_bytes(CELL_FP32) - cell_precision_bytes(linear->precision));
        }
    }
    return bytes;
}

/* ---- Life cycle ----------------------------------------------------------------------------- */

enum base_status cell_program_create(const struct cell_type *type,
                                     const struct cell_kernels *kernels,
                                     const struct cell_program_queues *queues,
                                     struct cell_program **out, struct base_error *error)
{
    BASE_TRY(check_precision(type, kernels, error));
    struct cell_program *program = base_alloc(sizeof(*program));
    if (program == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "cell type %s: out of memory", type->name);
    }
    base_arena_init(&program->arena, 1u << 16, PTRDIFF_MAX);
    program->type = type;
    program->kernels = kernels;
    enum base_status status = cell_program_list(program);
    if (status == BASE_OK) {
        status = cell_program_plan_tables(program);
    }
    if (status == BASE_OK) {
        cell_program_find_repeats(program);
        cell_program_find_phases(program);
        cell_program_find_lazy(program);
        status = cell_program_fuse(program);
    }
    if (status == BASE_OK) {
        place_barriers(program);
        decide_settling(program);
        place_outputs(program);
        choose_block(program);
        status = load_weights(program);
    }
    if (status == BASE_OK) {
        cell_program_find_waves(program);
        cell_program_size_windows(program);
        status = make_memory(program, queues);
    }
    if (status == BASE_OK) {
        status = cell_program_fill_tables(program);
    }
    if (status != BASE_OK) {
        cell_program_free(program);
        return base_fail(error, status, "cell type %s: out of memory", type->name);
    }
    *out = program;
    return BASE_OK;
}

void cell_program_free(struct cell_program *program)
{
    if (program == NULL) {
        return;
    }
    for (uint32_t o = 0; o < program->n_ops; o++) {
        cell_gated_release(&program->ops[o].gated);
        base_free(program->ops[o].table);
        cell_linear_release(&program->ops[o].linear);
    }
    for (uint32_t i = 0; i < program->n_leaves; i++) {
        cell_gated_release(&program->leaves[i].gated);
        base_free(program->leaves[i].table);
    }
    base_arena_release(&program->arena);
    base_free(program);
}
