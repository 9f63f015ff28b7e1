/* See batch_rows.h. */
#include "server/batch_rows.h"

/* What a core does in some 50 us, and what a row costs beside its operations: its copies. Zen 4,
 * requests a second with 64 rows and so, medians of three: a Demucs of 48 channels 50 and 56 with
 * one thread, 73 and 88 with two; a codec of strides 338 and 386, 335 and 517; a Conv-TasNet 230
 * and 245, 212 and 325; with 1 and with 20 million operations in place of 5 the same. */
#define STEPS_FLOPS 5000000u
#define ROW_FLOPS   64u

uint32_t srv_batch_rows(const struct cell_type *type, bool recurs, uint32_t knee_rows,
                        const struct cell_device_caps *caps, uint32_t team_threads, uint32_t most)
{
    if (recurs) {
        return knee_rows > 0 && knee_rows < most ? knee_rows : most;
    }
    const uint64_t rows = (uint64_t)STEPS_FLOPS * team_threads / (type->flops + ROW_FLOPS);
    const uint32_t steps = rows < CELL_BATCH_ROWS_MAX ? (uint32_t)rows : CELL_BATCH_ROWS_MAX;
    return caps->spans && most >= SRV_BATCH_ROWS && steps > most ? steps : most;
}
