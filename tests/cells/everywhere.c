/* See everywhere.h. One thread, beside the team's. */
#include "tests/cells/everywhere.h"

#include "tests/cells/isa.h"
#include "tests/cells/oracle_chain.h"
#include "tests/cells/rig.h"
#include "tests/util.h"

#define ROWS 5u

static void check(const struct cell_def *def, const struct everywhere *how, const char *backend,
                  const char *isa)
{
    struct rig rig;
    struct rig_chain chains[ROWS];
    struct cell_batch_row rows[ROWS];
    struct base_random random = util_random(3);
    rig_init(&rig, backend, isa, how->members, def);
    for (uint32_t r = 0; r < ROWS; r++) {
        rig_chain_init(&chains[r], rig.type, r, how->steps, &random);
        rows[r] = rig_chain_row(&chains[r], how->steps);
    }
    struct cell_batch batch = {.n_rows = ROWS, .steps = how->steps, .rows = rows};
    rig_run(&rig, &batch);
    for (uint32_t r = 0; r < ROWS; r++) {
        oracle_check_chain(def, &chains[r], how->tolerance);
        rig_chain_release(&chains[r]);
    }
    rig_release(&rig);
}

void everywhere_check(const struct cell_def *def, const struct everywhere *how)
{
    for (int i = 0; i < ISA_COUNT; i++) {
        const struct cell_kernels *kernels = NULL;
        if (cell_kernels_choose(isa_name(i), &kernels, NULL) == BASE_OK) {
            check(def, how, "cpu", isa_name(i));
        }
    }
    // Of no interest where the CPU's instructions are emulated; for tsan tests/cuda/ has suites.
    if (!util_is_quick()) {
        check(def, how, "blas", NULL);
        check(def, how, "cuda-host-library", NULL);
        check(def, how, "cuda-host", NULL);
    }
}
