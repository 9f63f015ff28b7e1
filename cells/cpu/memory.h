/* Rows of a request's memory, as ATTEND, REDUCE and PICK read them. */
#ifndef CELLS_CPU_MEMORY_H
#define CELLS_CPU_MEMORY_H

#include "cells/batch.h"

/* 0 where the request has none. */
static inline uint32_t cell_memory_rows(const struct cell_ref *memory)
{
    return memory->kind == CELL_REF_HOST ? memory->rows : 0;
}

static inline const float *cell_memory_row(const struct cell_ref *memory, uint32_t t)
{
    const uint8_t *row = memory->host + (int64_t)t * memory->stride_bytes;
    return (const float *)(const void *)row;
}

#endif
