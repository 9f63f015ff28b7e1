/* See roles.h. The batch is one atom, and each time axis another: a recurrent node's X has both. */
#include "cells/import/roles.h"

#include "cells/import/ops.h"

#include <string.h>

/* The atom that is the whole axis, as far as it may have the role; NONE: the axis has size 1. */
static enum base_status lone_atom(struct cell__import *im, const struct cell__axis *axis,
                                  enum cell__role role, uint32_t *out)
{
    *out = CELL__NONE;
    if (axis->n > 1) {
        return cell__refuse(im, "X's %s axis is made of several dimensions",
                            role == CELL__ROLE_BATCH ? "batch" : "time");
    }
    if (axis->n == 0) {
        return BASE_OK;
    }
    const uint32_t root = cell__atom_root(im, axis->atoms[0]);
    if (role == CELL__ROLE_BATCH && im->atoms[root].size == 1) {
        return BASE_OK; // a lone sequence
    }
    if (im->atoms[root].role != CELL__ROLE_FEATURE && im->atoms[root].role != role) {
        return cell__refuse(im, "X's batch axis is also its time axis");
    }
    *out = root;
    return BASE_OK;
}

/* Makes it the batch axis; all recurrent nodes must agree. *batch: its atom, or NONE so far. */
static enum base_status set_batch(struct cell__import *im, const struct cell__axis *axis,
                                  uint32_t *batch)
{
    uint32_t atom = CELL__NONE;
    BASE_TRY(lone_atom(im, axis, CELL__ROLE_BATCH, &atom));
    if (atom == CELL__NONE) {
        return BASE_OK;
    }
    if (*batch != CELL__NONE && cell__atom_root(im, *batch) != atom) {
        // Inputs that no operator has joined yet, such as two texts that are answered apart.
        if (im->atoms[atom].size >= 0 || im->atoms[cell__atom_root(im, *batch)].size >= 0) {
            return cell__refuse(im, "X's batch axis is another one than that of the recurrent node "
                                    "before");
        }
        const struct cell__axis other = {.n = 1, .atoms = {*batch}};
        BASE_TRY(cell__axis_unite(im, axis, &other, "batch axes"));
        atom = cell__atom_root(im, atom);
    }
    *batch = atom;
    im->atoms[atom].role = CELL__ROLE_BATCH;
    return BASE_OK;
}

/* What a sequence's steps are; NULL: it is of one step. */
static const struct cell__atom *atom_of(const struct cell__import *im, uint32_t sequence)
{
    const uint32_t atom = im->sequences[sequence].atom;
    return atom == CELL__NONE ? NULL : &im->atoms[cell__atom_root(im, atom)];
}

/* Of two atoms that no other follows from: whether a size that the file states says that there are
 * as many steps, where no input has one of them, such as a row repeated for each step of another.
 */
static bool is_same_size(const struct cell__import *im, const struct cell__atom *atom,
                         const struct cell__atom *other)
{
    const struct cell__axis axes[2] = {{.n = 1, .atoms = {(uint32_t)(atom - im->atoms)}},
                                       {.n = 1, .atoms = {(uint32_t)(other - im->atoms)}}};
    return atom->source == CELL__NONE && other->source == CELL__NONE && atom->size > 0 &&
           atom->size == other->size &&
           !(cell__is_given(im, &axes[0]) && cell__is_given(im, &axes[1]));
}

/* The sequence that is known to have as many steps as this atom, or NONE. */
static uint32_t same_sequence(const struct cell__import *im, const struct cell__atom *atom)
{
    for (uint32_t s = 0; s < im->n_sequences; s++) {
        const struct cell__atom *other = atom_of(im, s);
        if (other != NULL && is_same_size(im, atom, other)) {
            return s;
        }
    }
    for (uint32_t s = 0; s < im->n_sequences && atom->source != CELL__NONE; s++) {
        const struct cell__atom *other = atom_of(im, s);
        if (other != NULL && other->source != CELL__NONE && other->size == atom->size &&
            cell__atoms_follow_alike(im, other, atom)) {
            return s;
        }
    }
    return CELL__NONE;
}

/* A number of steps that the file states and no input has, such as of a forecast: more or fewer
 * than those of a sequence that is as long in every request. */
static void follow_stated(struct cell__import *im, uint32_t root)
{
    struct cell__atom *atom = &im->atoms[root];
    const struct cell__axis axis = {.n = 1, .atoms = {root}};
    if (atom->size < 1 || atom->source != CELL__NONE || cell__is_given(im, &axis)) {
        return;
    }
    for (uint32_t s = 0; s < im->n_sequences; s++) {
        const struct cell__atom *other = atom_of(im, s);
        if (other == NULL) {
            continue;
        }
        const uint32_t number = (uint32_t)(other - im->atoms);
        const struct cell__axis given = {.n = 1, .atoms = {number}};
        const int64_t size = other->size;
        if (size > 0 && size != atom->size && other->source == CELL__NONE &&
            cell__is_given(im, &given)) {
            atom->source = number;
            atom->add = atom->size - 1 - size;
            atom->stride = 1;
            return;
        }
    }
}

/* Of some steps of a sequence whose number the file states: that they follow from it. An input that
 * has the axis too says itself how many there are. */
static void follow_whole(struct cell__import *im, uint32_t root)
{
    struct cell__atom *atom = &im->atoms[root];
    const struct cell__axis axis = {.n = 1, .atoms = {root}};
    if (atom->source != CELL__NONE || atom->whole == CELL__NONE || cell__is_given(im, &axis)) {
        return;
    }
    const uint32_t whole = cell__atom_root(im, atom->whole);
    if (whole != root && im->atoms[whole].size > 0) {
        atom->source = whole;
        atom->add = atom->size - 1 - im->atoms[whole].size;
        atom->stride = 1;
    }
}

/* A new sequence; atom: NONE for one of one step. */
static enum base_status add_sequence(struct cell__import *im, uint32_t atom, uint32_t *sequence)
{
    if (im->n_sequences == CELL_SEQUENCES_MAX) {
        return cell__refuse(im, "more than %u time axes of different lengths", CELL_SEQUENCES_MAX);
    }
    im->sequences[im->n_sequences].atom = atom;
    *sequence = im->n_sequences++;
    return BASE_OK;
}

/* Makes the atom, whose source has a number if it has a source, one of a sequence. */
static enum base_status number_sequence(struct cell__import *im, uint32_t root)
{
    struct cell__atom *atom = &im->atoms[root];
    follow_stated(im, root);
    const uint32_t same = same_sequence(im, atom);
    if (atom->role == CELL__ROLE_BATCH) {
        return cell__refuse(im, "X's batch axis is also its time axis");
    }
    if (same != CELL__NONE) {
        atom->role = CELL__ROLE_TIME;
        atom->parent = cell__atom_root(im, im->sequences[same].atom);
        return BASE_OK;
    }
    BASE_TRY(add_sequence(im, root, &atom->sequence));
    atom->role = CELL__ROLE_TIME;
    return BASE_OK;
}

/* The sequence of one step: of an axis of size 1, whatever sequences there are beside it. */
static enum base_status find_single(struct cell__import *im, uint32_t *sequence)
{
    *sequence = 0;
    while (*sequence < im->n_sequences && im->sequences[*sequence].atom != CELL__NONE) {
        ++*sequence;
    }
    return *sequence < im->n_sequences ? BASE_OK : add_sequence(im, CELL__NONE, sequence);
}

/* Makes it a time axis: that of the sequence that it belongs to, or of a new one. So are those that
 * its steps follow from, before it. */
static enum base_status set_time(struct cell__import *im, const struct cell__axis *axis,
                                 uint32_t *sequence)
{
    uint32_t atom = CELL__NONE;
    uint32_t open[CELL_SEQUENCES_MAX + 1];
    uint32_t n = 0;
    BASE_TRY(lone_atom(im, axis, CELL__ROLE_TIME, &atom));
    if (atom == CELL__NONE) {
        return find_single(im, sequence);
    }
    for (uint32_t at = atom; at != CELL__NONE && im->atoms[at].role != CELL__ROLE_TIME;) {
        follow_whole(im, at);
        const uint32_t source = im->atoms[at].source;
        if (n == CELL_SEQUENCES_MAX + 1) {
            return cell__refuse(im, "more than %u time axes of different lengths",
                                CELL_SEQUENCES_MAX);
        }
        open[n++] = at;
        at = source == CELL__NONE ? CELL__NONE : cell__atom_root(im, source);
    }
    while (n > 0) {
        BASE_TRY(number_sequence(im, open[--n]));
    }
    *sequence = im->atoms[cell__atom_root(im, atom)].sequence;
    return BASE_OK;
}

/* Whether the axis is what a convolution, a pool or a Slice leaves of a sequence. */
static bool is_of_sequence(const struct cell__import *im, const struct cell__axis *axis)
{
    if (axis->n != 1) {
        return false;
    }
    const struct cell__atom *atom = &im->atoms[cell__atom_root(im, axis->atoms[0])];
    const uint32_t source = atom->source != CELL__NONE ? atom->source : atom->whole;
    return source != CELL__NONE && im->atoms[cell__atom_root(im, source)].role == CELL__ROLE_TIME;
}

/* Makes what is left of a sequence one too, and what has steps of which parts are left. */
static enum base_status set_strided_time(struct cell__import *im, const struct cell__axis *axis)
{
    struct cell__axis whole;
    uint32_t sequence = 0;
    if (cell__axis_whole(im, axis, &whole) && is_of_sequence(im, &whole)) {
        BASE_TRY(set_time(im, &whole, &sequence));
    }
    return is_of_sequence(im, axis) ? set_time(im, axis, &sequence) : BASE_OK;
}

/* Of what the node leaves of sequences. */
static enum base_status set_strided_times(struct cell__import *im, const struct cell__node *node)
{
    for (uint32_t o = 0; o < node->n_outputs; o++) {
        if (!cell__has_output(node, o) || cell__output(im, node, o)->kind != CELL__ROWS) {
            continue;
        }
        const struct cell__shape *shape = &cell__output(im, node, o)->shape;
        for (uint32_t k = 0; k < shape->rank; k++) {
            BASE_TRY(set_strided_time(im, &shape->axes[k]));
        }
    }
    return BASE_OK;
}

static bool is_window(const struct cell__node *node)
{
    return strcmp(node->op->name, "Conv") == 0 || strcmp(node->op->name, "MaxPool") == 0 ||
           strcmp(node->op->name, "AveragePool") == 0;
}

/* Steps that windows leave are made of steps. An axis that two windows leave follows from one of
 * theirs alone, such as of a shortcut past the second one where each has some of before in front.
 */
static enum base_status set_window_times(struct cell__import *im, const struct cell__node *node)
{
    const bool has_rows = is_window(node) && cell__input(im, node, 0)->kind == CELL__ROWS &&
                          cell__output(im, node, 0)->kind == CELL__ROWS;
    for (uint32_t k = 2; has_rows && k < cell__output(im, node, 0)->shape.rank; k++) {
        const struct cell__axis *axis = &cell__input(im, node, 0)->shape.axes[k];
        const struct cell__axis *left = &cell__output(im, node, 0)->shape.axes[k];
        uint32_t sequence = 0;
        if (axis->n == 1 && cell__axis_has(im, axis, CELL__ROLE_FEATURE) && left->n == 1 &&
            cell__axis_has(im, left, CELL__ROLE_TIME)) {
            BASE_TRY(set_time(im, axis, &sequence));
        }
    }
    return BASE_OK;
}

/* Of a decoder's step: inputs [rows, any, features] have a row for each step of a source. */
static enum base_status set_source_roles(struct cell__import *im)
{
    const struct cell__value *first = NULL;
    uint32_t sequence = 0;
    for (uint32_t i = 0; i < im->n_inputs; i++) {
        const struct cell__value *value = &im->values[im->inputs[i]];
        if (value->shape.rank != 3 || cell__axis_size(im, &value->shape.axes[1]) >= 0) {
            continue;
        }
        first = first == NULL ? value : first;
        BASE_TRY(cell__axis_unite(im, &value->shape.axes[1], &first->shape.axes[1], value->name));
        BASE_TRY(set_time(im, &value->shape.axes[1], &sequence));
    }
    return BASE_OK;
}

/* Of a part of a model: the first axis of every input. */
static enum base_status set_part_roles(struct cell__import *im)
{
    uint32_t batch = CELL__NONE;
    if (im->n_inputs == 0) {
        return cell__refuse(im, "no inputs");
    }
    for (uint32_t i = 0; i < im->n_inputs; i++) {
        const struct cell__value *value = &im->values[im->inputs[i]];
        const struct cell__value *first = &im->values[im->inputs[0]];
        char text[CELL__TEXT_BYTES];
        if (value->shape.rank == 0) {
            return cell__refuse(im, "input \"%s\" has no axis for its rows",
                                cell__quote(text, value->name));
        }
        BASE_TRY(cell__axis_unite(im, &value->shape.axes[0], &first->shape.axes[0], value->name));
        BASE_TRY(set_batch(im, &value->shape.axes[0], &batch));
    }
    im->has_batch = batch != CELL__NONE;
    return im->feeds_back ? set_source_roles(im) : BASE_OK;
}

static bool is_resized(const struct cell__node *node)
{
    return strcmp(node->op->name, "Resize") == 0 || strcmp(node->op->name, "Upsample") == 0;
}

static bool has_atom(struct cell__import *im, const struct cell__axis *axis, uint32_t root)
{
    bool has = false;
    for (uint32_t i = 0; i < axis->n; i++) {
        const uint32_t atom = cell__atom_root(im, axis->atoms[i]);
        has = has || atom == root || cell__atom_follows(im, &im->atoms[atom], root);
    }
    return has;
}

/* Whether the node's windows go along the atom, or along what others have left of it, or several
 * are made of each there. */
static bool has_windows_along(struct cell__import *im, const struct cell__node *node, uint32_t root)
{
    bool has = false;
    const bool is_transposed = strcmp(node->op->name, "ConvTranspose") == 0;
    if (!is_window(node) && !is_transposed && !is_resized(node)) {
        return false;
    }
    const struct cell__value *in = cell__input(im, node, 0);
    const struct cell__value *out = cell__output(im, node, 0);
    for (uint32_t k = 2; in->kind == CELL__ROWS && k < in->shape.rank; k++) {
        const bool is_along =
            !is_resized(node) ||
            (out->kind == CELL__ROWS &&
             !cell__axis_has_same_atoms(im, &in->shape.axes[k], &out->shape.axes[k]));
        has = has || (is_along && has_atom(im, &in->shape.axes[k], root));
    }
    return has;
}

/* Whether an axis is steps by what is done with it: windows go along it, or each of them meets all
 * of them, as attention has it. */
static bool is_steps_by_use(struct cell__import *im, const struct cell__axis *axis)
{
    bool is = false;
    if (axis->n != 1) {
        return false;
    }
    for (uint32_t n = 0; n < im->n_nodes && !is; n++) {
        is = im->nodes[n].is_needed && !im->nodes[n].is_folded &&
             has_windows_along(im, &im->nodes[n], cell__atom_root(im, axis->atoms[0]));
    }
    for (uint32_t a = 0; a < im->n_atoms && !is; a++) {
        const struct cell__axis other = {.n = 1, .atoms = {a}};
        is = cell__axis_is_mirror(im, &other, axis);
    }
    return is;
}

/* Of a model without a recurrent node, such as one step of a cell in small operators whose state
 * the client keeps: rows stand on the first axis of the first input, if a request chooses how many;
 * or on the second one, where the first is steps. */
static enum base_status set_row_roles(struct cell__import *im, uint32_t *batch)
{
    for (uint32_t i = 0; i < im->n_inputs; i++) {
        const struct cell__shape *shape = &im->values[im->inputs[i]].shape;
        if (shape->rank > 0) {
            const uint32_t k = shape->rank > 1 && is_steps_by_use(im, &shape->axes[0]) ? 1 : 0;
            return cell__axis_size(im, &shape->axes[k]) < 0 ? set_batch(im, &shape->axes[k], batch)
                                                            : BASE_OK;
        }
    }
    return BASE_OK;
}

/* ---- Bands ----------------------------------------------------------------------------------
 *
 * Dual-path networks (Luo, Chen, Yoshioka, ICASSP 2020) have recurrent nodes along two axes: over
 * the bands of each step, of which the file states how many, where X's batch axis holds rows and
 * steps, [bands, batch * time, input]; and over the steps of each band, where it holds rows and
 * bands, [time, batch * bands, input]. Bands are features of a step's row, patches of which a gated
 * op takes one after the other, or side by side. */

static bool is_in(const struct cell__import *im, const struct cell__axis *axis, uint32_t atom)
{
    bool is = false;
    for (uint32_t i = 0; i < axis->n; i++) {
        is = is || cell__atom_root(im, axis->atoms[i]) == cell__atom_root(im, atom);
    }
    return is;
}

/* Whether it is one of those that say which axes are time. */
static bool says_roles(const struct cell__import *im, uint32_t r)
{
    return im->nodes[im->recurrents[r].node].is_needed && !im->recurrents[r].is_step;
}

/* Whether the atom is time in every node but those over bands: some node goes along it, or it is
 * what a convolution leaves of others. */
static bool is_time_elsewhere(const struct cell__import *im, uint32_t atom)
{
    bool is = im->atoms[cell__atom_root(im, atom)].source != CELL__NONE;
    for (uint32_t r = 0; r < im->n_recurrents; r++) {
        const struct cell__recurrent *other = &im->recurrents[r];
        is = is || (says_roles(im, r) && !other->is_inner && is_in(im, &other->time, atom));
    }
    return is;
}

/* Whether a node along steps that comes later has its time as bands; those are known already. */
static bool has_bands_later(const struct cell__import *im, uint32_t r)
{
    const struct cell__axis *time = &im->recurrents[r].time;
    bool has = false;
    for (uint32_t q = r + 1; q < im->n_recurrents; q++) {
        const bool is_along_steps = says_roles(im, q) && !im->recurrents[q].is_inner;
        for (uint32_t i = 0; i < time->n && is_along_steps; i++) {
            has = has || is_in(im, &im->recurrents[q].batch, time->atoms[i]);
        }
    }
    return has;
}

/* Whether the request gives the node's state, as of a stream that sends one step at a time: that
 * one is along steps, though it has but one. */
static bool is_of_stream(const struct cell__import *im, const struct cell__recurrent *recurrent)
{
    uint32_t v = recurrent->init_values[0];
    while (v != CELL__NONE && im->values[v].kind == CELL__ROWS &&
           im->values[v].node != CELL__NONE) {
        const struct cell__node *maker = &im->nodes[im->values[v].node];
        v = maker->n_inputs > 0 ? maker->inputs[0] : CELL__NONE; // what it cuts, turns or reshapes
    }
    return recurrent->time.n == 0 && v != CELL__NONE && im->values[v].kind == CELL__ROWS;
}

/* Whether another node goes along an atom of the node's batch, and not over the node's own steps:
 * as one over sentences, beside one over the words of each. */
static bool is_within_steps(const struct cell__import *im, uint32_t r, uint32_t atom)
{
    const struct cell__axis *time = &im->recurrents[r].time;
    for (uint32_t q = 0; q < im->n_recurrents; q++) {
        const struct cell__recurrent *other = &im->recurrents[q];
        if (q != r && says_roles(im, q) && !other->is_inner && is_in(im, &other->time, atom)) {
            return time->n == 1 && !is_in(im, &other->batch, time->atoms[0]);
        }
    }
    return false;
}

/* Whether the node goes over bands of each step: those are stated, and its batch axis has steps
 * too, or a later node has the same bands beside its own steps. */
static bool is_over_bands(const struct cell__import *im, uint32_t r)
{
    const struct cell__recurrent *recurrent = &im->recurrents[r];
    const bool takes_stated = recurrent->time.n == 0 && !is_of_stream(im, recurrent);
    uint32_t open = 0;
    bool has_time = false;
    for (uint32_t i = 0; i < recurrent->time.n; i++) {
        if (cell__atom_size(im, recurrent->time.atoms[i]) < 1) {
            return false;
        }
    }
    for (uint32_t i = 0; i < recurrent->batch.n; i++) {
        const uint32_t atom = recurrent->batch.atoms[i];
        const bool is_open = cell__atom_size(im, atom) < 0;
        open += is_open ? 1 : 0;
        has_time = has_time || ((is_open || takes_stated) && is_time_elsewhere(im, atom)) ||
                   (recurrent->batch.n > 1 && is_within_steps(im, r, atom));
    }
    return has_time || open > 1 || has_bands_later(im, r);
}

/* The atoms of a batch axis by what they are: at most one of rows, and one of steps. */
struct batch_parts {
    struct cell__axis rows, time;
    int64_t bands;
};

/* Of a node over bands: steps are what other nodes go along, else the inner one of two of open
 * size; there are no bands beside them. */
static enum base_status split_over_bands(struct cell__import *im,
                                         const struct cell__recurrent *recurrent,
                                         struct batch_parts *parts)
{
    const struct cell__axis *batch = &recurrent->batch;
    *parts = (struct batch_parts){.bands = 1};
    for (uint32_t i = 0; i < batch->n; i++) {
        const bool is_last = i + 1 == batch->n && parts->time.n == 0 && parts->rows.n > 0;
        struct cell__axis *part =
            is_time_elsewhere(im, batch->atoms[i]) || is_last ? &parts->time : &parts->rows;
        part->atoms[part->n++] = batch->atoms[i];
    }
    return parts->rows.n > 1 || parts->time.n > 1
               ? cell__refuse(im, "X's batch axis is made of several dimensions beside steps")
               : BASE_OK;
}

/* Of a node along steps: what the file states, beside rows or where another node goes over it, are
 * bands. */
static enum base_status split_along_steps(struct cell__import *im,
                                          const struct cell__recurrent *recurrent,
                                          struct batch_parts *parts)
{
    const struct cell__axis *batch = &recurrent->batch;
    *parts = (struct batch_parts){.bands = 1};
    for (uint32_t i = 0; i < batch->n; i++) {
        const int64_t size = cell__atom_size(im, batch->atoms[i]);
        bool is_of_inner = false;
        for (uint32_t r = 0; r < im->n_recurrents; r++) {
            is_of_inner = is_of_inner || (im->recurrents[r].is_inner &&
                                          is_in(im, &im->recurrents[r].time, batch->atoms[i]));
        }
        if (size > 0 && (is_of_inner || batch->n > 1)) {
            parts->bands *= size < CELL_WIDTH_MAX ? size : CELL_WIDTH_MAX;
            parts->bands = parts->bands < CELL_WIDTH_MAX ? parts->bands : CELL_WIDTH_MAX;
        } else {
            parts->rows.atoms[parts->rows.n++] = batch->atoms[i];
        }
    }
    return BASE_OK;
}

/* Gives the node its bands, of which its states have each their own where it goes along steps. */
static enum base_status set_bands(struct cell__import *im, struct cell__recurrent *recurrent,
                                  int64_t bands)
{
    const uint32_t units =
        recurrent->hidden > recurrent->width ? recurrent->hidden : recurrent->width;
    if (recurrent->is_scan || recurrent->is_written_out) {
        return cell__refuse(im, "a cell of small operators over bands: a batch axis of several "
                                "dimensions, or steps of a row");
    }
    if (recurrent->is_inner && recurrent->op.kind == CELL_OP_GRU &&
        recurrent->op.variant == CELL_GRU_RESET_BEFORE) {
        return cell__refuse(im, "over bands of each step, and resets before the product");
    }
    if (recurrent->lengths_value != CELL__NONE) {
        return cell__refuse(im, "sequence_lens of bands");
    }
    if (bands > CELL_WIDTH_MAX / units) {
        return cell__refuse(im, "%lld bands of %u elements", (long long)bands, units);
    }
    recurrent->op.patches = (uint32_t)bands;
    recurrent->op.order = !recurrent->is_inner    ? CELL_PATCHES_APART
                          : recurrent->is_reverse ? CELL_PATCHES_BACKWARD
                                                  : CELL_PATCHES_FORWARD;
    for (uint32_t s = 0; s < recurrent->n_states && !recurrent->is_inner; s++) {
        recurrent->states[s].width *= recurrent->op.patches;
    }
    return BASE_OK;
}

/* Whether the model is one step of a stream: it has nodes over bands, and none along steps has more
 * than one. The axes of one element that a convolution has left are no time then. */
static bool is_one_step(const struct cell__import *im)
{
    bool has_inner = false;
    bool has_steps = false;
    for (uint32_t r = 0; r < im->n_recurrents; r++) {
        const struct cell__recurrent *recurrent = &im->recurrents[r];
        has_inner = has_inner || recurrent->is_inner;
        has_steps = has_steps || (says_roles(im, r) && !recurrent->is_inner &&
                                  cell__axis_size(im, &recurrent->time) != 1);
    }
    return has_inner && !has_steps;
}

static enum base_status set_recurrent_roles(struct cell__import *im,
                                            struct cell__recurrent *recurrent, uint32_t *batch)
{
    struct batch_parts parts;
    if (recurrent->is_inner) {
        BASE_TRY(split_over_bands(im, recurrent, &parts));
        BASE_TRY(parts.time.n > 0 ? set_time(im, &parts.time, &recurrent->sequence) : BASE_OK);
        BASE_TRY(set_bands(im, recurrent, cell__axis_size(im, &recurrent->time)));
        return set_batch(im, &parts.rows, batch);
    }
    BASE_TRY(cell__axis_join(im, &recurrent->time));
    BASE_TRY(split_along_steps(im, recurrent, &parts));
    BASE_TRY(is_one_step(im) ? BASE_OK : set_time(im, &recurrent->time, &recurrent->sequence));
    if (parts.bands > 1) {
        BASE_TRY(set_bands(im, recurrent, parts.bands));
    }
    if (recurrent->lengths_value != CELL__NONE) {
        im->sequences[recurrent->sequence].uses_lengths = true;
        cell__recurrent_find_lengths(im, recurrent);
    }
    return set_batch(im, &parts.rows, batch);
}

/* ---- Axes by their names ----------------------------------------------------------------------
 *
 * ONNX: dimensions of one name are equal. Exporters give two sequences one name that are not of one
 * length, so names say nothing where the graph does; but of an axis that nothing else is known of
 * they do. */

static const char *name_of(const struct cell__import *im, const struct cell__value *value,
                           uint32_t k)
{
    const Onnx__GraphProto *graph = im->model->graph;
    for (size_t i = 0; i < graph->n_input; i++) {
        const Onnx__ValueInfoProto *info = graph->input[i];
        if (info->name == NULL || strcmp(info->name, value->name) != 0) {
            continue;
        }
        const Onnx__TensorShapeProto *shape = info->type->tensor_type->shape;
        const bool has =
            k < shape->n_dim &&
            shape->dim[k]->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
        return has ? shape->dim[k]->dim_param : "";
    }
    return "";
}

/* The name of the dimension of an input that is this axis, or "". */
static const char *name_of_axis(const struct cell__import *im, const struct cell__axis *axis)
{
    for (uint32_t i = 0; i < im->n_inputs; i++) {
        const struct cell__value *value = &im->values[im->inputs[i]];
        for (uint32_t k = 0; k < value->shape.rank; k++) {
            if (value->shape.axes[k].n == 1 && axis->n == 1 &&
                cell__axis_is_same(im, &value->shape.axes[k], axis)) {
                return name_of(im, value, k);
            }
        }
    }
    return "";
}

bool cell__axis_is_namesake(const struct cell__import *im, const struct cell__axis *a,
                            const struct cell__axis *b)
{
    const char *name = name_of_axis(im, a);
    return name[0] != '\0' && strcmp(name, name_of_axis(im, b)) == 0;
}

/* An axis of another input that has the name, and is batch or time; NULL: there is none. */
static const struct cell__axis *find_named(const struct cell__import *im, const char *name)
{
    for (uint32_t i = 0; i < im->n_inputs; i++) {
        const struct cell__value *value = &im->values[im->inputs[i]];
        for (uint32_t k = 0; k < value->shape.rank; k++) {
            const struct cell__axis *axis = &value->shape.axes[k];
            if (axis->n == 1 && cell__axis_size(im, axis) < 0 &&
                !cell__axis_has(im, axis, CELL__ROLE_FEATURE) &&
                strcmp(name_of(im, value, k), name) == 0) {
                return axis;
            }
        }
    }
    return NULL;
}

static enum base_status unite_axis(struct cell__import *im, const struct cell__value *value,
                                   uint32_t k)
{
    const struct cell__axis *axis = &value->shape.axes[k];
    const char *name = name_of(im, value, k);
    if (axis->n != 1 || cell__axis_size(im, axis) >= 0 || name[0] == '\0' ||
        !cell__axis_has(im, axis, CELL__ROLE_FEATURE)) {
        return BASE_OK;
    }
    const struct cell__axis *named = find_named(im, name);
    return named == NULL ? BASE_OK : cell__axis_unite(im, axis, named, value->name);
}

typedef enum base_status axis_fn(struct cell__import *im, const struct cell__value *value,
                                 uint32_t k);

static enum base_status each_input_axis(struct cell__import *im, axis_fn *visit)
{
    for (uint32_t i = 0; i < im->n_inputs; i++) {
        const struct cell__value *value = &im->values[im->inputs[i]];
        for (uint32_t k = 0; k < value->shape.rank; k++) {
            BASE_TRY(visit(im, value, k));
        }
    }
    return BASE_OK;
}

/* ---- Sequences that no recurrent node goes along ----------------------------------------------
 *
 * Such as the memory that a decoder's step attends to: of an input's axes the request chooses the
 * size of one that is not the batch, and nothing else says what it is. Of two such axes none is
 * (a picture's height beside its width). */

static enum base_status set_open_time(struct cell__import *im, const struct cell__value *value,
                                      uint32_t k)
{
    const struct cell__axis *axis = &value->shape.axes[k];
    uint32_t sequence = 0;
    BASE_TRY(unite_axis(im, value, k));
    return axis->n == 1 && cell__axis_size(im, axis) < 0 &&
                   cell__axis_has(im, axis, CELL__ROLE_FEATURE) &&
                   cell__shape_times(im, &value->shape) == 0
               ? set_time(im, axis, &sequence)
               : BASE_OK;
}

/* ---- Parts of steps that are answered as steps ----------------------------------------------- */

/* Such as the samples of each frame, flattened. */
static enum base_status join_answer(struct cell__import *im, uint32_t v)
{
    uint32_t sequence = 0;
    for (uint32_t k = 0; im->values[v].kind == CELL__ROWS && k < im->values[v].shape.rank; k++) {
        struct cell__axis axis = im->values[v].shape.axes[k];
        const struct cell__axis first = {.n = axis.n > 1 ? 1 : 0, .atoms = {axis.atoms[0]}};
        if (axis.n < 2 || !cell__axis_has(im, &first, CELL__ROLE_TIME)) {
            continue;
        }
        BASE_TRY(cell__axis_join(im, &axis));
        BASE_TRY(axis.n == 1 ? set_time(im, &axis, &sequence) : BASE_OK);
    }
    return BASE_OK;
}

/* ---- The roles of a model ------------------------------------------------------------------- */

static enum base_status set_model_roles(struct cell__import *im)
{
    uint32_t batch = CELL__NONE;
    bool is_recurrent = false;
    for (uint32_t r = im->n_recurrents; r-- > 0;) {
        im->recurrents[r].is_inner = says_roles(im, r) && is_over_bands(im, r);
    }
    for (uint32_t r = 0; r < im->n_recurrents; r++) {
        if (!says_roles(im, r)) {
            continue;
        }
        is_recurrent = true;
        im->current = im->recurrents[r].node;
        BASE_TRY(set_recurrent_roles(im, &im->recurrents[r], &batch));
        im->current = CELL__NONE;
    }
    BASE_TRY(each_input_axis(im, unite_axis));
    BASE_TRY(is_recurrent ? BASE_OK : set_row_roles(im, &batch));
    BASE_TRY(each_input_axis(im, set_open_time));
    for (uint32_t n = im->n_nodes; n-- > 0;) {
        im->current = n;
        if (im->nodes[n].is_needed && !im->nodes[n].is_folded) {
            BASE_TRY(set_window_times(im, &im->nodes[n]));
        }
        im->current = CELL__NONE;
    }
    for (uint32_t n = 0; n < im->n_nodes; n++) {
        im->current = n;
        if (im->nodes[n].is_needed && !im->nodes[n].is_folded) {
            BASE_TRY(set_strided_times(im, &im->nodes[n]));
        }
        im->current = CELL__NONE;
    }
    for (size_t i = 0; i < im->model->graph->n_output; i++) {
        uint32_t v = CELL__NONE;
        BASE_TRY(cell__value_named(im, im->model->graph->output[i]->name, &v));
        BASE_TRY(join_answer(im, v));
    }
    im->has_batch = batch != CELL__NONE;
    if (im->n_sequences == 0) { // of one step
        im->sequences[im->n_sequences++].atom = CELL__NONE;
    }
    return BASE_OK;
}

enum base_status cell__set_roles(struct cell__import *im)
{
    return im->is_part ? set_part_roles(im) : set_model_roles(im);
}
