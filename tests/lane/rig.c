/* A lane's memory; see rig.h. */
#include "tests/lane/rig.h"

#include "base/mem.h"

static void *lines(size_t bytes)
{
    return base_alloc_aligned(bytes, CELL_LANE_LINE_BYTES);
}

bool lane_rig_init(struct cell_lane *lane, uint32_t n_slots, uint32_t rows_max,
                   enum cell_lane_form form)
{
    const size_t n_rows = (size_t)n_slots * rows_max;
    *lane = (struct cell_lane){.control = lines(sizeof(*lane->control)),
                               .slots = lines(n_slots * sizeof(*lane->slots)),
                               .results = lines(n_slots * sizeof(*lane->results)),
                               .row_ids = lines(n_rows * sizeof(uint32_t)),
                               .outcomes = lines(n_rows * sizeof(uint32_t)),
                               .n_slots = n_slots,
                               .rows_max = rows_max,
                               .form = form};
    return lane->control != NULL && lane->slots != NULL && lane->results != NULL &&
           lane->row_ids != NULL && lane->outcomes != NULL;
}

void lane_rig_release(struct cell_lane *lane)
{
    base_free(lane->control);
    base_free(lane->slots);
    base_free(lane->results);
    base_free(lane->row_ids);
    base_free(lane->outcomes);
}
