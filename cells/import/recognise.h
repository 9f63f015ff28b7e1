/* Cells written out in small operators, as exporters decompose them, become the one op that they
 * are. Private to cells/import. */
#ifndef CELLS_IMPORT_RECOGNISE_H
#define CELLS_IMPORT_RECOGNISE_H

#include "cells/import/graph.h"

/* Replaces every LSTM, GRU (either form) and RNN that the definition holds in small operators, and
 * drops what is not used any more. What is no such cell, or is one whose inner values are read by
 * others, too, stays as it is. New weights are in the import's arena. RESOURCE_EXHAUSTED. */
enum base_status cell__recognise(struct cell__import *im, struct cell_def *def);

#endif
