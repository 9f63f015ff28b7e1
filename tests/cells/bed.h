/* Two types on one device of a team, chains of both, and what each gives alone: what the tests of
 * batches side by side share. */
#ifndef TESTS_CELLS_BED_H
#define TESTS_CELLS_BED_H

#include "tests/cells/rig.h"

enum { BED_CHAINS = 12, BED_STEPS_MAX = 40 };

/* The chains of one of the two types, and what each gives alone. */
struct side {
    struct build build;
    const struct cell_type *type;
    struct rig_chain chains[BED_CHAINS];
    uint8_t *outputs[BED_CHAINS][CELL_OUTPUTS_MAX];
    uint8_t *finals[BED_CHAINS][CELL_STATES_MAX];
    struct cell_batch_row rows[BED_CHAINS];
    struct cell_batch batch;
    uint32_t of_row[BED_CHAINS]; /* chains of the batch */
};

struct bed {
    struct rig rig;
    struct side sides[2];
};

/* Of two cells that are built. has_layers: input 0 of each chain of the second reads output 0 of
 * the same chain of the first, step by step; they have as many steps. */
void bed_open(struct bed *bed, const char *isa, uint32_t members, bool has_layers, uint64_t salt);
void bed_close(struct bed *bed);

/* A batch of the side, without rows; and one more row, of what is left of a chain. */
struct cell_batch *bed_batch(struct side *side, uint32_t steps);
void bed_add_row(struct side *side, uint32_t chain);

/* Both, or the first alone. */
void bed_run(struct bed *bed, struct cell_batch *first, struct cell_batch *second);

/* The rows of a batch that is back. */
void bed_take_back(struct side *side);

/* Of a chain. */
bool bed_is_done(const struct side *side, uint32_t chain);

/* All chains at their start, and nothing of what they have written left. */
void bed_begin_again(struct bed *bed);

/* Some tuning of both types, which changes no bit. */
void bed_draw_tuning(const struct bed *bed, struct base_random *random);

/* All chains are done, with the bits that each has alone. */
void bed_check(const struct bed *bed);

#endif
