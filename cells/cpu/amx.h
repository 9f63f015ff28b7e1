/* The eight matrix registers of AMX, "tiles" of up to 16 rows of 64 bytes (Intel, "Architecture
 * Instruction Set Extensions and Future Features", chapter 3). A thread's tiles are its own; the
 * process has to have asked for them (base_cpus_may_use_tiles()).
 *
 * The intrinsics are bare instructions: compilers do not know that they read memory, so what is
 * written for them comes before amx_begin(). */
#ifndef CELLS_CPU_AMX_H
#define CELLS_CPU_AMX_H

#include <immintrin.h>
#include <stdint.h>

#define AMX_TILES     8u
#define AMX_ROWS      16u
#define AMX_ROW_BYTES 64u

/* Words of 4 terms in a row of a tile. */
#define AMX_WORDS 16u

/* The operand of LDTILECFG: palette 1, and what each tile holds. */
struct amx_tiles {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

/* Tiles 0 to 5 have so many rows, 1 to 16, and 6 and 7 all; all rows are whole. What they hold is
 * zero then. */
static inline void amx_begin(uint32_t rows)
{
    struct amx_tiles tiles = {.palette = 1};
    for (uint32_t i = 0; i < AMX_TILES; i++) {
        tiles.row_bytes[i] = AMX_ROW_BYTES;
        tiles.rows[i] = (uint8_t)(i < 6 ? rows : AMX_ROWS);
    }
    __asm__("" ::: "memory");
    _tile_loadconfig(&tiles);
}

/* What tiles hold is lost: the kernel need not keep it when another thread runs. */
static inline void amx_end(void)
{
    _tile_release();
}

#endif
