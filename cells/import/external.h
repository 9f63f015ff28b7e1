/* Weights that lie in files beside the model file (ONNX: external data, onnx.proto's
 * TensorProto.external_data): what PyTorch writes by default since 2.9, and every exporter beyond
 * 2 GiB. A tensor names a file below the folder of the model file, and where in it it lies. Each
 * such file is read whole, once, and tensors are used where they lie in it.
 *
 * Owner: one import, on the loading thread. */
#ifndef CELLS_IMPORT_EXTERNAL_H
#define CELLS_IMPORT_EXTERNAL_H

#include "cells/import/graph.h"

/* Exporters write one file, or one for each tensor. */
#define CELL__EXTERNAL_FILES_MAX 1024u

struct cell__external_file {
    const char *location; /* as the model file has it; of the message */
    unsigned char *bytes;
    size_t length;
};

struct cell__external {
    const char *folder; /* of the model file; NULL: the model is in memory, without files */
    size_t factor;      /* the budget of the import's arena grows by so many times what was read */
    size_t room_bytes;  /* that may still be read */
    uint64_t bytes;     /* that were read */
    struct cell__external_file *files; /* of the import's arena */
    uint32_t n_files, files_room;
};

/* Whether the tensor lies elsewhere. */
bool cell__external_has(const Onnx__TensorProto *proto);

/* Its data, `bytes` of them as its shape says, aligned to elements of `element_bytes`: until
 * cell__external_release(), or as long as the import's arena.
 * INVALID_ARGUMENT (what it says of its place, or the place itself), UNAVAILABLE (no such file, or
 * it cannot be read), UNIMPLEMENTED (a model without a folder), RESOURCE_EXHAUSTED. */
enum base_status cell__external_find(struct cell__import *im, const Onnx__TensorProto *proto,
                                     size_t bytes, size_t element_bytes, const void **out);

/* Gives back what was read. */
void cell__external_release(struct cell__external *external);

#endif
