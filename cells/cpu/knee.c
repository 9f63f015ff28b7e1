/* See knee.h. A step takes some time whatever it holds, and then so much a row: with s and c of
 * either, r rows a step are at the 97 % of the most that calibration asks for once
 *
 *   r >= 62 s / (s + 2 c)
 *
 * (of 64 rows, r / (s + r c) against 64 / (s + 64 c)). Rows that wait beyond that gain nothing and
 * are answered later (docs/performance.md, beside other ways of batching). */
#include "cells/cpu/knee.h"

#include "base/cpus.h"

/* Of a step beside its rows: kernel, scheduler, and of teams the members' meetings. Zen 4, knees as
 * calibrated and by this rule, LSTMs in fp32: one thread, 16 units 32 and 56, 32 20 and 40, 64 16
 * to 20 and 24, 128 and 256 8 and 8; two threads, 32 32 and 64, 64 24 and 48, 128 24 and 32, 256 12
 * to 24 and 16, 512 16 and 16. Of 256 units and two threads in bf16 24 and 24, in int8 24 to 32 and
 * 32. */
#define STEP_NS      500.0
#define STEP_TEAM_NS 2000.0

/* A cell without state is formed, handed out and taken back anew at every step; others do some
 * steps at a time. Zen 4, binary TreeLSTM of 168 units, SST's trees, 64 present, as many a second
 * as with 64 rows: one thread, 8 rows 0.98; two, 16 rows 0.89, 24 rows 0.91, 32 rows 0.97. */
#define STATELESS_STEPS 4.0

/* What a core does in fp32; of weights in two bytes twice as much, in one four times. More than is
 * true of most cells and processors, and then more rows are asked for than are needed. */
#define FLOPS_PER_NS 100u

/* Fewer for each member no kernel is fast with: they come in tiles of so many. */
#define MEMBER_ROWS 8u

/* Weights that come from a cache which others share, or from memory, take a time of their own, the
 * longer the less of it is left to them. Zen 4 (L2 1 MiB), one thread, requests of 5 to 50 steps,
 * 64 and 1,024 present, as many a second with 8 and with 16 rows as with 64: LSTMs of 256 units
 * (2 MiB) 0.99 and 0.98, 0.97 and 0.99; 384 units (4.5 MiB) 0.96 and 0.97, 0.99 and 0.99; 512 units
 * (8 MiB) 0.94 and 0.91, 0.99 and 0.97; 1024 units (32 MiB) 0.98 and 0.90, 1.01 and 0.92. Two
 * threads, all of 24 steps: 1024 units 1.06 and 1.10, 0.97 and 1.00. */
#define NEAR_L2S  3u
#define NEAR_ROWS 16u
#define FAR_L2S   64u
#define FAR_ROWS  24u

/* Where AMX multiplies: its tiles are as high, and what a core's L2 does not hold is read for so
 * many rows at once; between the two its products are hardly anything. Emerald Rapids, LSTMs in
 * int8, one thread, as many a second with 8, 16 and 32 rows as with 64: 256 units (0.5 MiB, L2
 * 2 MiB) 0.79, 1.00 and 1.01; 512 units (2 MiB) 0.78, 0.94 and 1.04; 1024 units (8 MiB) 0.62, 0.69
 * and 0.87. */
#define TILES_MEMBER_ROWS 16u
#define TILES_FAR_ROWS    64u

/* Whether most of its weights are int8, and tiles are there for them. */
static bool is_by_tiles(uint64_t held, uint64_t exact)
{
    return held * 3 < exact && base_cpus_may_use_tiles();
}

uint32_t cell_knee_rows(const struct cell_program *program)
{
    if (!program->kernels->invariant) {
        return 0; // a library's products, of which nothing is known here
    }
    const uint64_t members = cell_program_most_members(program);
    const double some_ns = members > 1 ? STEP_TEAM_NS : STEP_NS;
    const double step_ns = program->type->def.n_states > 0 ? some_ns : STATELESS_STEPS * some_ns;
    const uint64_t held = cell_program_held_bytes(program);
    const uint64_t exact = program->type->weight_bytes;
    const double flops =
        (double)program->type->flops * (exact > 0 ? (double)held / (double)exact : 1.0);
    const double row_ns = flops / (double)(FLOPS_PER_NS * members);
    uint64_t rows = (uint64_t)(62.0 * step_ns / (step_ns + 2.0 * row_ns));
    const bool by_tiles = is_by_tiles(held, exact);
    const uint64_t some_rows = (by_tiles ? TILES_MEMBER_ROWS : MEMBER_ROWS) * members;
    rows = rows > some_rows ? rows : some_rows;
    const uint64_t l2 = base_cpus_l2_bytes();
    const uint64_t least = by_tiles && held > l2  ? TILES_FAR_ROWS
                           : held > FAR_L2S * l2  ? FAR_ROWS
                           : held > NEAR_L2S * l2 ? NEAR_ROWS
                                                  : 0;
    rows = rows > least ? rows : least;
    rows = (rows + MEMBER_ROWS - 1) / MEMBER_ROWS * MEMBER_ROWS;
    return rows < CELL_BATCH_ROWS_MAX ? (uint32_t)rows : CELL_BATCH_ROWS_MAX;
}
