/* Operators that ONNX Runtime writes when it optimises a file, of its own domain, com.microsoft:
 * each is some of the standard's in one node, and is written out as these (write_out.h). Those of
 * integers of 8 bits are in fused_integers.c: the floats that they stand for (op_quantize.c). */
#ifndef CELLS_IMPORT_FUSED_H
#define CELLS_IMPORT_FUSED_H

#include "cells/import/writer.h"

/* Whether an operator of this name is com.microsoft's, and written out. */
bool cell__is_fused(const char *name);

/* As cell__write_out(). */
const Onnx__GraphProto *cell__write_fused(struct cell__import *im, const Onnx__NodeProto *proto);

/* Rules of fused_integers.c. The standard has the first two. */
enum base_status cell__write_qlinear_conv(struct cell__writer *w);
enum base_status cell__write_qlinear_matmul(struct cell__writer *w);
enum base_status cell__write_qlinear_pair(struct cell__writer *w);
enum base_status cell__write_qlinear_function(struct cell__writer *w);
enum base_status cell__write_qlinear_softmax(struct cell__writer *w);
enum base_status cell__write_qlinear_concat(struct cell__writer *w);
enum base_status cell__write_quantised_gemm(struct cell__writer *w);
enum base_status cell__write_dynamic_product(struct cell__writer *w);
enum base_status cell__write_product_to_floats(struct cell__writer *w);

#endif
