/* Einsum by Transpose, MatMul, Mul and ReduceSum, two operands at a time. */
#ifndef CELLS_IMPORT_EINSUM_H
#define CELLS_IMPORT_EINSUM_H

#include "cells/import/writer.h"

enum base_status cell__write_einsum(struct cell__writer *w);

#endif
