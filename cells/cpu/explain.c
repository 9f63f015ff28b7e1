/* A program in words: which ops it has, over which shapes, and when each is computed. For people
 * who ask how a model will be served; nothing here runs while a batch does. */
#include "base/assert.h"
#include "cells/cpu/device.h"
#include "cells/cpu/patches.h"
#include "cells/cpu/program.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#define SHAPE_BYTES 64

/* Where the op stands in time. */
static const char *when_of(const struct cell_program_op *op, bool has_state)
{
    if (op->embedding != NULL) {
        return "at each step; its sums over x are looked up";
    }
    if (op->has_window) {
        return "at each step; its sums over x ahead of the steps, where windows are used";
    }
    if (op->is_only_ahead) {
        return "ahead of the steps, where windows are used";
    }
    if (op->fills_windows) {
        return "at each step, and ahead of the steps for windows";
    }
    return has_state ? "at each step" : "once a row";
}

static uint64_t weight_bytes(const struct cell_program_op *op)
{
    if (op->is_gated) {
        uint64_t inputs = op->embedding == NULL ? op->gated.inputs : 0;
        uint64_t terms = inputs + op->gated.feedback + op->gated.right;
        return terms * op->gated.hidden * cell_gated_gates(op->gated.kind) *
               cell_precision_bytes(op->gated.precision);
    }
    if (op->kind == CELL_OP_GATHER) { // of its embedding, or of sums
        return (uint64_t)op->lookup.rows * op->lookup.cols * cell_dtype_bytes(op->lookup.dtype);
    }
    uint64_t bytes = 0;
    if (op->kind == CELL_OP_LINEAR) {
        bytes = (uint64_t)op->linear.inputs * op->linear.outputs *
                cell_precision_bytes(op->linear.precision);
        return bytes + (op->linear.b != NULL ? op->linear.outputs * sizeof(float) : 0);
    }
    for (uint32_t w = 0; op->op != NULL && w < op->op->n_weights; w++) {
        const struct cell_weight *weight = &op->op->weights[w];
        bytes += (uint64_t)weight->rows * weight->cols * cell_dtype_bytes(weight->dtype);
    }
    return bytes;
}

static void shape_of(const struct cell_program *program, const struct cell_program_op *op,
                     char out[SHAPE_BYTES])
{
    if (op->is_gated && cell_patches_has(op)) {
        (void)snprintf(out, SHAPE_BYTES, "%u x %u + %u -> %u", op->op->patches, op->gated.inputs,
                       op->gated.feedback, op->gated.hidden);
    } else if (op->is_gated) {
        (void)snprintf(out, SHAPE_BYTES, "%u + %u -> %u", op->gated.inputs, op->gated.feedback,
                       op->gated.hidden);
    } else if (op->kind == CELL_OP_LINEAR && op->op->patches > 0) {
        (void)snprintf(out, SHAPE_BYTES, "%u x %u -> %u", op->op->patches, op->linear.inputs,
                       op->linear.outputs);
    } else if (op->kind == CELL_OP_LINEAR) {
        (void)snprintf(out, SHAPE_BYTES, "%u -> %u", op->linear.inputs, op->linear.outputs);
    } else if (op->kind == CELL_OP_GATHER && cell_patches_has(op)) {
        (void)snprintf(out, SHAPE_BYTES, "%u x %u ids -> %u", op->op->patches, op->lookup.rows,
                       op->lookup.cols);
    } else if (op->kind == CELL_OP_GATHER) {
        (void)snprintf(out, SHAPE_BYTES, "%u ids -> %u", op->lookup.rows, op->lookup.cols);
    } else if (op->chain != NULL) {
        (void)snprintf(out, SHAPE_BYTES, "%u", op->chain->width);
    } else {
        (void)snprintf(out, SHAPE_BYTES, "%u", program->values[op->out].shape.width);
    }
}

static void explain_bounds(const struct cell_bounds *bounds, struct base_buf *out)
{
    if (!bounds->are) {
        return;
    }
    if (bounds->least == 0.0f && bounds->most == INFINITY) {
        base_buf_text(out, "; RELU");
    } else {
        base_buf_printf(out, "; from %g to %g", (double)bounds->least, (double)bounds->most);
    }
}

static void explain_op(const struct cell_program *program, const struct cell_program_op *op,
                       struct base_buf *out)
{
    char shape[SHAPE_BYTES];
    char weights[SHAPE_BYTES] = "";
    char name[SHAPE_BYTES];
    uint64_t bytes = weight_bytes(op);
    shape_of(program, op, shape);
    if (bytes > 0) {
        (void)snprintf(
            weights, sizeof(weights), "%s, %" PRIu64 " bytes",
            cell_precision_name(op->is_gated ? op->gated.precision : op->linear.precision), bytes);
    }
    if (op->chain != NULL) {
        (void)snprintf(name, sizeof(name), "%u joined", op->chain->n_ops);
    } else {
        (void)snprintf(name, sizeof(name), "%s", cell_op_name(op->kind));
    }
    bool has_state = program->type->def.n_states > 0;
    base_buf_printf(out, "    %-10s %-18s %-22s %s", name, shape, weights, when_of(op, has_state));
    for (uint32_t o = 0; op->chain != NULL && o < op->chain->n_ops; o++) {
        base_buf_printf(out, "%s%s", o == 0 ? ": " : " ", cell_op_name(op->chain->ops[o].kind));
    }
    explain_bounds(&op->bounds, out);
    base_buf_text(out, op->is_guarded ? "; of rows that need it" : "");
    base_buf_text(out, "\n");
}

void cell_cpu_type_explain(const struct cell_device *device, const struct cell_type *type,
                           struct base_buf *out)
{
    const struct cell_program *program = cell_cpu__program(device, type);
    uint32_t barriers = program->ends_on_panels ? 1 : 0;
    for (uint32_t o = 0; o < program->n_ops; o++) {
        explain_op(program, &program->ops[o], out);
        barriers += program->ops[o].barrier_before ? 1 : 0;
    }
    base_buf_printf(
        out, "    a step has %u barrier%s between threads; %u rows go through it at a time\n",
        barriers, barriers == 1 ? "" : "s", program->block_rows);
}
