/* Attention (opset 23) by Transpose, MatMul, Add, Softmax: as exporters write it out for opsets
 * before, so that both forms become one op (op_attend.c). */
#ifndef CELLS_IMPORT_ATTENTION_H
#define CELLS_IMPORT_ATTENTION_H

#include "cells/import/writer.h"

/* As the rules of write_out.c. */
enum base_status cell__write_attention(struct cell__writer *w);

#endif
