/* LSTM, GRU and RNN over bands of each step (roles.c), such as of a spectrum, or over the letters
 * of each word: patches of a row, which one op takes one after the other (cells/op.h). Those along
 * steps whose rows have bands are chains as others are, op_recurrent.c. */
#include "cells/import/ops.h"
#include "cells/import/rows.h"

#include <string.h>

/* Whether anything that is needed reads the value. */
static bool is_read(const struct cell__import *im, uint32_t v)
{
    const Onnx__GraphProto *graph = im->model->graph;
    bool is = false;
    for (uint32_t n = 0; n < im->n_nodes; n++) {
        for (uint32_t i = 0; i < im->nodes[n].n_inputs && im->nodes[n].is_needed; i++) {
            is = is || im->nodes[n].inputs[i] == v;
        }
    }
    for (size_t i = 0; i < graph->n_output; i++) {
        const char *name = graph->output[i]->name;
        is = is || (name != NULL && strcmp(name, im->values[v].name) == 0);
    }
    return is;
}

/* h and c before the first band. */
static enum base_status band_state(struct cell__import *im, const struct cell__node *node,
                                   uint32_t direction, uint32_t s, uint32_t *out)
{
    struct cell__recurrent *recurrent = &im->recurrents[node->recurrent + direction];
    BASE_TRY(cell__recurrent_state(im, node, direction, s));
    *out = recurrent->init_rows[s];
    if (*out != CELL__NONE) {
        return BASE_OK;
    }
    const float *zeros = base_arena_array(im->arena, recurrent->hidden, sizeof(*zeros));
    return zeros == NULL ? cell__no_memory(im)
                         : cell__row_const(im, recurrent->states[s], zeros, out);
}

/* h of every band, [bands][hidden], in one direction. */
static enum base_status lower_bands_of(struct cell__import *im, const struct cell__node *node,
                                       uint32_t direction, uint32_t *out)
{
    const struct cell__recurrent *recurrent = &im->recurrents[node->recurrent + direction];
    struct cell_op op = recurrent->op;
    op.operands[op.n_operands++] = im->values[recurrent->x_value].row;
    for (uint32_t s = 0; s < recurrent->n_states; s++) {
        BASE_TRY(band_state(im, node, direction, s, &op.operands[op.n_operands++]));
    }
    if (im->rows[op.operands[0]].value.width != op.patches * recurrent->width) {
        return cell__refuse(im, "X is no row of bands");
    }
    return cell__row_op(im, &op, (struct cell_value){CELL_F32, op.patches * recurrent->hidden},
                        out);
}

/* Y is [bands][directions][hidden], Y_h what each direction has left of the last band that it
 * takes. What an LSTM leaves of c no row has. */
enum base_status cell__lower_bands(struct cell__import *im, const struct cell__node *node)
{
    const struct cell__recurrent *first = &im->recurrents[node->recurrent];
    const uint32_t directions = first->directions;
    const uint32_t bands = first->op.patches;
    uint32_t rows[2] = {CELL__NONE, CELL__NONE};
    uint32_t last[2] = {CELL__NONE, CELL__NONE};
    uint32_t whole = CELL__NONE;
    if (cell__has_output(node, CELL__OUT_C) && is_read(im, node->outputs[CELL__OUT_C])) {
        return cell__refuse(im, "Y_c of bands");
    }
    for (uint32_t d = 0; d < directions; d++) {
        const struct cell__recurrent *recurrent = &im->recurrents[node->recurrent + d];
        const bool is_backward = recurrent->op.order == CELL_PATCHES_BACKWARD;
        const uint32_t at = is_backward ? 0 : (bands - 1) * first->hidden;
        BASE_TRY(lower_bands_of(im, node, d, &rows[d]));
        BASE_TRY(cell__row_slice(im, rows[d], at, first->hidden, &last[d]));
    }
    BASE_TRY(cell__row_concat(im, rows, directions, &whole));
    if (directions > 1) {
        BASE_TRY(cell__row_transpose(im, whole, (const uint32_t[3]){1, directions, bands}, &whole));
    }
    cell__set_row(im, node, CELL__OUT_Y, whole);
    BASE_TRY(cell__row_concat(im, last, directions, &whole));
    cell__set_row(im, node, CELL__OUT_H, whole);
    return BASE_OK;
}
