/* Products that are others, written out: of a constant on the left, and by a constant that stands
 * there once for each row of the batch. */
#ifndef CELLS_IMPORT_PRODUCTS_H
#define CELLS_IMPORT_PRODUCTS_H

#include "cells/import/writer.h"

/* As the rules of write_out.c. */
enum base_status cell__write_product(struct cell__writer *w);
enum base_status cell__write_gemm(struct cell__writer *w);

#endif
