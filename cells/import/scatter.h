/* ScatterND as exporters write assignments to a part of a tensor, `cache[:, :, 2:4] = x`: its
 * constant indices are a box, of whose axes one is not whole. Written out by Slice and Concat. */
#ifndef CELLS_IMPORT_SCATTER_H
#define CELLS_IMPORT_SCATTER_H

#include "cells/import/writer.h"

/* As the rules of write_out.c. */
enum base_status cell__write_scatter(struct cell__writer *w);

#endif
