/* Chooses the kernels for weights in fewer bits, when a cell is loaded. Any thread. */
#include "cells/cpu/reduced.h"

#include "base/cpus.h"

#ifdef __aarch64__
#    include <sys/auxv.h>
#endif

#ifdef __x86_64__

const struct cell_reduced_kernels *cell_reduced__avx2(enum cell_precision precision)
{
    return precision == CELL_BF16   ? &cell_bf16__avx2
           : precision == CELL_INT8 ? &cell_int8__avx2
                                    : NULL;
}

/* With VNNI a product of int8 is one instruction, without it three, and with AMX one is 16 rows';
 * with BF16 one of two bf16 is one, without it, or where that is slow, four. The bits are the same.
 */
const struct cell_reduced_kernels *cell_reduced__avx512(enum cell_precision precision)
{
    bool has_vnni = __builtin_cpu_supports("avx512vnni");
    bool has_bf16 = __builtin_cpu_supports("avx512bf16") && base_cpus_bf16_is_fast();
    return precision == CELL_BF16      ? (has_bf16 ? &cell_bf16__avx512bf16 : &cell_bf16__avx512)
           : precision != CELL_INT8    ? NULL
           : !has_vnni                 ? &cell_int8__avx512
           : base_cpus_may_use_tiles() ? &cell_int8__avx512amx
                                       : &cell_int8__avx512vnni;
}

#endif

#ifdef __aarch64__

/* With dot products a product of int8 is one instruction, without them four; the bits are the
 * same. */
const struct cell_reduced_kernels *cell_reduced__neon(enum cell_precision precision)
{
    bool has_dot = (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
    return precision == CELL_BF16   ? &cell_bf16__neon
           : precision == CELL_INT8 ? (has_dot ? &cell_int8__neondot : &cell_int8__neon)
                                    : NULL;
}

#endif
