/* The tensors of a safetensors file, without trusting its bytes.
 *
 *     8 bytes    length of the header, little-endian
 *     header     JSON: {"NAME": {"dtype": "F32", "shape": [4, 8], "data_offsets": [0, 128]}, ..}
 *     data       of all tensors, back to back
 *
 * As strict as the format's own implementation: the offsets cover the data from its first byte to
 * its last, without holes and overlaps, and each tensor has the bytes that its shape asks for. */
#ifndef CELLS_IMPORT_SAFETENSORS_H
#define CELLS_IMPORT_SAFETENSORS_H

#include "base/arena.h"
#include "cells/model.h"

/* The format allows 100 MB. A tensor takes about 100 bytes of it, and jansson up to 46 times as
 * much memory as text. */
#define CELL__HEADER_BYTES_MAX ((size_t)4 << 20)

/* What the reader takes from the arena at most, for a header of that many bytes. */
#define CELL__HEADER_FACTOR 48u
#define CELL__HEADER_EXTRA  ((size_t)64 << 10)

enum cell__encoding {
    CELL__ENCODING_F32,
    CELL__ENCODING_F16,
    CELL__ENCODING_BF16,
    CELL__ENCODING_OTHER, /* of the format, but no floats that we read */
};

struct cell__stored {
    const char *name, *dtype; /* as the header has them; UTF-8 without NUL */
    enum cell__encoding encoding;
    uint32_t rank;
    int64_t dims[CELL_RANK_MAX];
    size_t count;         /* elements */
    size_t begin, end;    /* in the data */
    const uint8_t *bytes; /* in the file, aligned to nothing */
    bool is_used;         /* by a layer */
};

struct cell__store {
    uint32_t n;
    struct cell__stored *tensors; /* in the order of the data */
    const char *format;           /* of the metadata, such as "pt"; "" without */
    size_t float_bytes;           /* of all elements as float32 */
};

/* Fills *out; its texts and tables live in the arena, its bytes in the file. INVALID_ARGUMENT says
 * what and where; UNIMPLEMENTED: a rank over CELL_RANK_MAX; RESOURCE_EXHAUSTED. On the thread that
 * is the only one to use jansson: its allocation functions are exchanged for the time of the call.
 */
enum base_status cell__safetensors_read(struct base_arena *arena, struct cell_model_file file,
                                        struct cell__store *out, struct base_error *error);

#endif
