/* The way of a model through this folder: unpack, or make a graph of layers, read the graph's
 * inputs and constants, walk and infer its nodes (walk.c), give roles to axes (roles.c), lower what
 * the outputs need, build stages, describe inputs and outputs.
 *
 * A node that cannot be imported poisons what it makes; it is an error only when an output needs
 * it, so dead branches and left-overs of training do no harm. All working memory is one arena whose
 * budget follows the size of the file. No recursion anywhere. */
#include "cells/import/import.h"

#include "cells/import/ctc.h"
#include "cells/import/external.h"
#include "cells/import/functions.h"
#include "cells/import/layers.h"
#include "cells/import/ops.h"
#include "cells/import/order.h"
#include "cells/import/roles.h"
#include "cells/import/stages.h"
#include "cells/import/step_number.h"
#include "cells/import/tensors.h"
#include "cells/import/walk.h"
#include "cells/import/wire.h"

#include "base/assert.h"
#include "base/checked.h"

#include <stdio.h>
#include <string.h>

#define ARENA_CHUNK (64u << 10)

/* What protobuf-c may take: four times the message and 16 MiB (docs/model-files.md), since a graph
 * whose weights lie elsewhere is all small parts; and what the import may: weights transposed,
 * sliced and joined again by exporters that do not fold. */
#define UNPACK_FACTOR 4u
#define UNPACK_EXTRA  (16u << 20)
#define IMPORT_FACTOR 6u
#define IMPORT_EXTRA  (16u << 20)

/* What a graph of layers may take, of its weights in float32: gates in another order, and types
 * widened before that. The rest is the graph itself. */
#define LAYERS_FACTOR 4u
#define LAYERS_EXTRA  (1u << 20)

/* ---- Liveness ----------------------------------------------------------------------------- */

/* Marks the nodes that the outputs need; a poisoned value among them is the model's error. */
static enum base_status need_value(struct cell__import *im, uint32_t v)
{
    const struct cell__value *value = &im->values[v];
    if (value->kind == CELL__POISON) {
        return base_fail(im->error, value->poison->status, "%s", value->poison->message);
    }
    if (value->node != CELL__NONE) {
        im->nodes[value->node].is_needed |= value->kind != CELL__CONST;
        im->nodes[value->node].is_asked |= value->kind == CELL__CONST;
    }
    return BASE_OK;
}

/* A constant is made of others. */
static void ask_inputs(struct cell__import *im, const struct cell__node *node)
{
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const struct cell__value *in = cell__has_input(node, i) ? cell__input(im, node, i) : NULL;
        if (in != NULL && in->kind == CELL__CONST && in->node != CELL__NONE) {
            im->nodes[in->node].is_asked = true;
        }
    }
}

static enum base_status need_inputs(struct cell__import *im, const struct cell__node *node)
{
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        if (cell__has_input(node, i)) {
            BASE_TRY(need_value(im, node->inputs[i]));
        }
    }
    return BASE_OK;
}

static enum base_status mark_needed_nodes(struct cell__import *im)
{
    const Onnx__GraphProto *graph = im->model->graph;
    for (size_t i = 0; i < graph->n_output; i++) {
        uint32_t v = 0;
        char text[CELL__TEXT_BYTES];
        const char *name = graph->output[i]->name == NULL ? "" : graph->output[i]->name;
        BASE_TRY(cell__value_named(im, name, &v));
        if (im->values[v].kind == CELL__UNSET) {
            return cell__invalid(im, "output \"%s\" is not computed", cell__quote(text, name));
        }
        if (im->values[v].order != 0) {
            return cell__refuse(im,
                                "output \"%s\" has the rows of a batch in the order of their "
                                "lengths",
                                cell__quote(text, name));
        }
        BASE_TRY(need_value(im, v));
    }
    for (uint32_t n = im->n_nodes; n-- > 0;) {
        if (im->nodes[n].is_needed) {
            BASE_TRY(need_inputs(im, &im->nodes[n]));
        } else if (im->nodes[n].is_asked) {
            ask_inputs(im, &im->nodes[n]);
        }
    }
    return BASE_OK;
}

/* Of the body of a Scan, or what comes before it: there each value is one step's. */
static bool is_of_body(const struct cell__node *node)
{
    return node->scan != CELL__NONE || node->op->lower == cell__lower_scan;
}

/* A value from outside must not be a whole sequence: inside, its rows would be those of the step.
 */
static enum base_status check_body_inputs(struct cell__import *im, const struct cell__node *node)
{
    if (node->op->lower == cell__lower_element ||
        (cell__has_input(node, 1) && cell__input(im, node, 1)->kind == CELL__COUNTER)) {
        return BASE_OK; // takes the step's element
    }
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const struct cell__value *in = cell__has_input(node, i) ? cell__input(im, node, i) : NULL;
        const bool is_tensor =
            in != NULL && (in->kind == CELL__ROWS ||
                           (in->kind == CELL__LIST && node->op->lower == cell__lower_list_at));
        if (is_tensor && cell__shape_has(im, &in->shape, CELL__ROLE_TIME)) {
            return cell__refuse(im, "uses a whole sequence inside the body of a Scan");
        }
    }
    return BASE_OK;
}

/* What all later steps rely on: a row is as wide as its value's shape says, and has steps only
 * where the shape has a time axis. A reshape that splits batch or time into what looks like
 * features breaks this. */
static enum base_status check_rows(struct cell__import *im, const struct cell__node *node)
{
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        uint32_t width = 0;
        if (!cell__has_output(node, i) || cell__output(im, node, i)->row == CELL__NONE) {
            continue;
        }
        const struct cell__value *value = cell__output(im, node, i);
        const struct cell__row *row = &im->rows[value->row];
        const uint32_t times = cell__shape_times(im, &value->shape);
        const bool has_time = times != 0;
        bool is_inside = is_of_body(node);
        BASE_TRY(cell__shape_width(im, &value->shape, &width));
        if (row->value.width != width || ((row->times & ~times) != 0 && !is_inside)) {
            return cell__refuse(im, "splits the batch or time axis");
        }
        if (cell__shape_has_twice(im, &value->shape)) {
            return cell__refuse(im, "a value for each pair of steps of a sequence");
        }
        if (has_time && is_inside) {
            return cell__refuse(im, "a whole sequence inside the body of a Scan");
        }
    }
    return BASE_OK;
}

static enum base_status lower_node(struct cell__import *im, struct cell__node *node)
{
    base_assert(node->op->lower != NULL);
    if (node->hands_on && node->scan != CELL__NONE) { // as x[:, t] of a whole sequence has it
        cell__set_row(im, node, 0, cell__input(im, node, 0)->row);
        return BASE_OK;
    }
    if (node->scan != CELL__NONE || node->op->lower == cell__lower_scan_end) {
        BASE_TRY(check_body_inputs(im, node));
    }
    BASE_TRY(cell__lower_number_inputs(im, node));
    BASE_TRY(node->takes_straight ? cell__lower_straight(im, node) : node->op->lower(im, node));
    return check_rows(im, node);
}

static enum base_status lower_nodes(struct cell__import *im)
{
    for (uint32_t n = 0; n < im->n_nodes; n++) {
        struct cell__node *node = &im->nodes[n];
        if (!node->is_needed || node->is_folded) {
            continue;
        }
        im->current = n;
        im->scan = node->scan;
        BASE_TRY(lower_node(im, node));
        im->scan = CELL__NONE;
        im->current = CELL__NONE;
    }
    return BASE_OK;
}

/* ---- The whole ---------------------------------------------------------------------------- */

static enum base_status check_model(struct cell__import *im)
{
    const Onnx__ModelProto *model = im->model;
    if (model->graph == NULL) {
        return cell__invalid(im, "not an ONNX model: it has no graph");
    }
    im->opset = 0;
    for (size_t i = 0; i < model->n_opset_import; i++) {
        const Onnx__OperatorSetIdProto *set = model->opset_import[i];
        if (set->domain == NULL || set->domain[0] == '\0' || strcmp(set->domain, "ai.onnx") == 0) {
            im->opset = set->version;
        }
    }
    if (im->opset < CELL__OPSET_MIN || im->opset > CELL__OPSET_MAX) {
        return cell__refuse(im, "opset %lld; supported: %d to %d", (long long)im->opset,
                            CELL__OPSET_MIN, CELL__OPSET_MAX);
    }
    return BASE_OK;
}

static void set_source(const struct cell__import *im, uint32_t s, struct cell_sequence *out)
{
    const uint32_t number = im->sequences[s].atom;
    const struct cell__atom *atom =
        number == CELL__NONE ? NULL : &im->atoms[cell__atom_root(im, number)];
    if (atom != NULL && atom->source != CELL__NONE) {
        *out = (struct cell_sequence){
            .stride = (uint32_t)atom->stride,
            .add = (int32_t)atom->add,
            .source = im->atoms[cell__atom_root(im, atom->source)].sequence,
            .parts = atom->parts > 1 ? (uint32_t)atom->parts : 0,
            .kept = atom->is_kept ? (uint32_t)atom->size : 0,
        };
    } else if (atom == NULL) {
        out->stated = 1;
    } else if (atom->size > 0 && atom->size <= UINT32_MAX) {
        out->stated = (uint32_t)atom->size;
    }
}

/* What needed nodes ask for. */
static void set_bounds(struct cell__import *im)
{
    for (uint32_t i = 0; i < im->n_bounds; i++) {
        const struct cell__bound *bound = &im->bounds[i];
        struct cell__atom *atom = &im->atoms[cell__atom_root(im, bound->atom)];
        if (bound->node == CELL__NONE || !im->nodes[bound->node].is_asked) {
            continue;
        }
        atom->least = bound->least > atom->least ? bound->least : atom->least;
        if (bound->most > 0 && (atom->most == 0 || bound->most < atom->most)) {
            atom->most = bound->most;
        }
    }
}

/* That shapes which were computed for requests of some length have only asked for steps: how many
 * rows a batch has is nobody's to say. */
static enum base_status check_least(struct cell__import *im)
{
    set_bounds(im);
    for (uint32_t i = 0; i < im->n_atoms; i++) {
        const struct cell__atom *atom = &im->atoms[i];
        const bool is_steps = atom->role == CELL__ROLE_TIME;
        if (atom->parent != i) {
            continue;
        }
        if (atom->least > 1 && (atom->size < 0 ? !is_steps : atom->size < atom->least)) {
            return base_fail(im->error, BASE_UNIMPLEMENTED,
                             "the model computes with at least %lld rows of the batch, or elements "
                             "of an axis that is not the time of a recurrent node",
                             (long long)atom->least);
        }
        if (atom->most > 0 && (atom->size < 0 ? !is_steps : atom->size > atom->most)) {
            return base_fail(im->error, BASE_UNIMPLEMENTED,
                             "the model computes with at most %lld rows of the batch, or elements "
                             "of an axis that is not the time of a recurrent node",
                             (long long)atom->most);
        }
    }
    return BASE_OK;
}

/* How long sequences are, and which inputs say how long their rows are. */
static void set_lengths(const struct cell__import *im, struct cell_model *model)
{
    model->n_sequences = im->n_sequences;
    for (uint32_t s = 0; s < im->n_sequences; s++) {
        const struct cell__sequence *sequence = &im->sequences[s];
        const struct cell__atom *atom =
            sequence->atom == CELL__NONE ? NULL : &im->atoms[cell__atom_root(im, sequence->atom)];
        const uint32_t least = atom == NULL ? 0 : (uint32_t)atom->least;
        const uint32_t most = atom == NULL ? 0 : (uint32_t)atom->most;
        set_source(im, s, &model->sequences[s]);
        model->sequences[s].steps_max =
            sequence->steps_max == 0 || (most > 0 && most < sequence->steps_max)
                ? most
                : sequence->steps_max;
        model->sequences[s].multiple = atom == NULL ? 0 : (uint32_t)atom->multiple;
        model->sequences[s].steps_min = sequence->steps_min > least ? sequence->steps_min : least;
        if (sequence->has_lengths && sequence->lengths_input >= 0) {
            model->inputs[sequence->lengths_input].is_lengths = true;
            model->inputs[sequence->lengths_input].sequence = s;
            model->inputs[sequence->lengths_input].told = sequence->told;
        }
    }
}

static enum base_status import_graph(struct cell__import *im, struct cell_registry *registry,
                                     struct cell_model *model)
{
    uint32_t output_rows[CELL_TENSORS_MAX][CELL_PIECES_MAX];
    BASE_TRY(check_model(im));
    BASE_TRY(cell__walk_constants(im, im->model->graph));
    BASE_TRY(cell__tensors_declare(im));
    BASE_TRY(cell__walk(im));
    BASE_TRY(mark_needed_nodes(im));
    BASE_TRY(cell__set_roles(im));
    BASE_TRY(cell__tensors_inputs(im, model));
    BASE_TRY(lower_nodes(im));
    BASE_TRY(check_least(im));
    set_lengths(im, model);
    BASE_TRY(cell__tensors_outputs(im, model, output_rows));
    const struct cell_ctc_of *ctc = model->options.ctc;
    BASE_TRY(ctc == NULL ? BASE_OK : cell__ctc_choose(im, ctc, model, output_rows));
    BASE_TRY(cell__stages_build(im, registry, output_rows, model));
    base_assert(!im->is_part || model->n_stages <= 1);
    if (ctc != NULL) {
        cell__ctc_finish(model);
    }
    return BASE_OK;
}

/* factor * length + extra, or as much as can be. */
static size_t budget(size_t length, size_t factor, size_t extra)
{
    size_t bytes = 0;
    bool fits = base_size_mul(length, factor, &bytes) && base_size_add(bytes, extra, &bytes);
    return fits ? bytes : SIZE_MAX;
}

/* Unpacked, or made of layers: what messages it was no longer matters. */
struct unpacked {
    const Onnx__ModelProto *proto;
    size_t length;      /* of what the model's weights take, which the budget follows, */
    const char *folder; /* without those that lie in files below it; NULL: there are none */
    const struct cell_known_inputs *known;
};

/* How what may be read in two ways is read; set where there is such. */
struct ways {
    bool turns; /* an axis of a stated size that a Slice turns round lies within a row, in place of
                   being the time */
    bool lengths; /* what has lengths has steps of its own, so that what is before it has not */
};

static enum base_status try_proto(struct cell_registry *registry, const struct unpacked *unpacked,
                                  const char *label, struct ways *ways, struct cell_model *model,
                                  struct base_error *error)
{
    const Onnx__ModelProto *proto = unpacked->proto;
    struct base_arena work;
    base_arena_init(&work, ARENA_CHUNK, budget(unpacked->length, IMPORT_FACTOR, IMPORT_EXTRA));
    struct cell__external external = {
        .folder = unpacked->folder,
        .factor = IMPORT_FACTOR,
        .room_bytes =
            unpacked->length < CELL_MODEL_BYTES_MAX ? CELL_MODEL_BYTES_MAX - unpacked->length : 0,
    };
    struct cell__import im = {.model = proto,
                              .arena = &work,
                              .external = &external,
                              .weights_bytes = unpacked->length,
                              .error = error,
                              .label = label,
                              .known = unpacked->known,
                              .is_part = model->options.is_part,
                              .feeds_back = model->options.feeds_back,
                              .turns_rows = ways->turns,
                              .parts_lengths = ways->lengths,
                              .scan = CELL__NONE,
                              .current = CELL__NONE};
    const enum base_status status = import_graph(&im, registry, model);
    if (status == BASE_OK) {
        snprintf(model->producer, sizeof(model->producer), "%s%s%s",
                 cell__quote((char[CELL__TEXT_BYTES]){0}, proto->producer_name),
                 proto->producer_version == NULL ? "" : " ",
                 cell__quote((char[CELL__TEXT_BYTES]){0}, proto->producer_version));
        model->file_bytes += external.bytes;
    }
    *ways = (struct ways){.turns = im.has_turns, .lengths = im.has_lengths};
    cell__external_release(&external);
    base_arena_release(&work);
    return status;
}

/* Which axes are time is known when all nodes have been read; one that is turned round has to be
 * known before. So what cannot be served as a sequence that is turned is tried again as a row. And
 * what reads steps beside those that have lengths, such as a convolution before a packed layer,
 * with these as steps of their own. */
static enum base_status import_proto(struct cell_registry *registry,
                                     const struct unpacked *unpacked, const char *label,
                                     struct cell_model *model, struct base_error *error)
{
    const struct cell_model_options options = model->options;
    struct ways found = {.turns = false};
    enum base_status status = try_proto(registry, unpacked, label, &found, model, error);
    const struct ways others[] = {{.turns = found.turns}, {.lengths = found.lengths}};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        struct base_error again = {.status = BASE_OK};
        struct ways ways = others[i];
        if (status != BASE_UNIMPLEMENTED || (!ways.turns && !ways.lengths)) {
            continue;
        }
        memset(model, 0, sizeof(*model));
        model->options = options;
        status = try_proto(registry, unpacked, label, &ways, model, &again) == BASE_OK
                     ? BASE_OK
                     : BASE_UNIMPLEMENTED;
    }
    return status;
}

enum base_status cell__import_onnx(struct cell_registry *registry, struct cell_model_file file,
                                   const struct cell_known_inputs *known, const char *label,
                                   struct cell_model *model, struct base_error *error)
{
    struct base_error own = {.status = BASE_OK};
    struct base_error *why = error == NULL ? &own : error;
    struct base_arena message;
    Onnx__ModelProto *proto = NULL;
    base_arena_init(&message, ARENA_CHUNK, budget(file.length, UNPACK_FACTOR, UNPACK_EXTRA));
    Onnx__ModelProto *inlined = NULL;
    enum base_status status = cell__wire_unpack(&message, file.bytes, file.length, &proto, why);
    if (status == BASE_OK) {
        status = cell__functions_inline(&message, proto, &inlined, why);
    }
    if (status == BASE_OK && inlined->graph != NULL) {
        status = cell__order_nodes(&message, inlined->graph, why);
    }
    if (status == BASE_OK) {
        const struct unpacked unpacked = {inlined, file.length, file.folder, known};
        status = import_proto(registry, &unpacked, label, model, why);
    }
    base_arena_release(&message);
    return status;
}

enum base_status cell__import_layers(struct cell_registry *registry, struct cell_model_file file,
                                     const struct cell_layers *layers, const char *label,
                                     struct cell_model *model, struct base_error *error)
{
    struct base_error own = {.status = BASE_OK};
    struct base_error *why = error == NULL ? &own : error;
    struct base_arena header;
    struct base_arena message;
    struct cell__store store;
    Onnx__ModelProto *proto = NULL;
    const size_t header_bytes =
        file.length < CELL__HEADER_BYTES_MAX ? file.length : CELL__HEADER_BYTES_MAX;
    base_arena_init(&header, ARENA_CHUNK,
                    budget(header_bytes, CELL__HEADER_FACTOR, CELL__HEADER_EXTRA));
    enum base_status status = cell__safetensors_read(&header, file, &store, why);
    const size_t length = status == BASE_OK ? store.float_bytes : 0;
    base_arena_init(&message, ARENA_CHUNK, budget(length, LAYERS_FACTOR, LAYERS_EXTRA));
    if (status == BASE_OK) {
        status = cell__layers_build(&message, &store, layers, &proto, why);
    }
    if (status == BASE_OK) {
        const struct unpacked unpacked = {proto, length, NULL, NULL};
        status = import_proto(registry, &unpacked, label, model, why);
    }
    base_arena_release(&message);
    base_arena_release(&header);
    return status;
}
