/* The model's memory: views instead of values; see model.h. */
#include "base/assert.h"
#include "tests/lane/model_state.h"

#include <string.h>

static void join(uint8_t *view, const uint8_t *other)
{
    for (uint32_t i = 0; i < MODEL_VIEW; i++) {
        view[i] = other[i] > view[i] ? other[i] : view[i];
    }
}

static void reach(struct model_step *step, enum cell_lane_site site)
{
    step->site = (uint8_t)site;
}

bool model_load(struct model_step *step, enum model_thread thread, enum cell_lane_site site,
                uint8_t place, uint8_t *out)
{
    struct model_memory *memory = &step->state->memory;
    const enum cell_lane_order order = step->options->orders[site];
    uint8_t *seen = memory->seen[thread];
    const uint8_t last = (uint8_t)(memory->n[place] - 1);
    reach(step, site);
    if (order == CELL_LANE_PLAIN) {
        if (seen[place] != last) {
            step->violation = "memory is read while it is written";
        }
        memory->read[place] = last;
        seen[MODEL_PLACES + place] = last;
        *out = memory->value[place][last];
        return step->choice == 0;
    }
    const uint8_t at = (uint8_t)(seen[place] + step->choice);
    if (at > last) {
        return false;
    }
    *out = memory->value[place][at];
    seen[place] = at;
    if (order == CELL_LANE_ACQUIRE && memory->has_view[place][at] != 0) {
        join(seen, memory->view[place][at]);
    }
    return true;
}

void model_store(struct model_step *step, enum model_thread thread, enum cell_lane_site site,
                 uint8_t place, uint8_t value)
{
    struct model_memory *memory = &step->state->memory;
    const enum cell_lane_order order = step->options->orders[site];
    uint8_t *seen = memory->seen[thread];
    const uint8_t at = memory->n[place];
    base_assert(at < MODEL_STORES);
    reach(step, site);
    if (seen[place] + 1 != at) {
        step->violation = "two write one word, and neither knows of the other";
    }
    if (order == CELL_LANE_PLAIN && seen[MODEL_PLACES + place] < memory->read[place]) {
        step->violation = "memory is written while it is read";
    }
    memory->n[place]++;
    memory->value[place][at] = value;
    seen[place] = at;
    memory->has_view[place][at] = order == CELL_LANE_RELEASE;
    if (order == CELL_LANE_RELEASE) {
        memcpy(memory->view[place][at], seen, MODEL_VIEW);
    }
}

void model_memory_launch(struct model_memory *memory)
{
    memcpy(memory->seen[MODEL_LANE], memory->seen[MODEL_HOST], MODEL_VIEW);
}

void model_memory_forget(struct model_memory *memory, uint32_t n_threads)
{
    for (uint32_t place = 0; place < MODEL_PLACES; place++) {
        uint8_t oldest = memory->seen[MODEL_HOST][place];
        for (uint32_t thread = 1; thread < n_threads; thread++) {
            const uint8_t seen = memory->seen[thread][place];
            oldest = seen < oldest ? seen : oldest;
        }
        for (uint32_t at = 0; at < oldest; at++) {
            memory->value[place][at] = 0;
            memory->has_view[place][at] = 0;
            memset(memory->view[place][at], 0, MODEL_VIEW);
        }
    }
}
