#include "bench/weights.h"

#include <math.h>

#define SEED 1u

#define CHUNK_BYTES  ((size_t)1 << 20)
#define BUDGET_BYTES ((size_t)4 << 30)

void bench_weights_init(struct bench_weights *weights, uint32_t hidden)
{
    *weights = (struct bench_weights){.scale = 1.0f / sqrtf((float)hidden)};
    base_arena_init(&weights->arena, CHUNK_BYTES, BUDGET_BYTES);
    base_random_init(&weights->random, SEED);
}

void bench_weights_release(struct bench_weights *weights)
{
    base_arena_release(&weights->arena);
}

struct cell_weight bench_weights_draw(struct bench_weights *weights, uint32_t rows, uint32_t cols)
{
    float *data = base_arena_array(&weights->arena, (size_t)rows * cols, sizeof(*data));
    weights->failed = weights->failed || data == NULL;
    for (size_t i = 0; data != NULL && i < (size_t)rows * cols; i++) {
        data[i] = base_random_f32(&weights->random, -weights->scale, weights->scale);
    }
    return (struct cell_weight){CELL_F32, rows, cols, data};
}

enum base_status bench_weights_intern(const struct bench_weights *weights,
                                      struct cell_registry *registry, struct cell_def *defs,
                                      const char *const *names, struct cell_model *model,
                                      struct base_error *error)
{
    if (weights->failed) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "no memory for a model's weights");
    }
    for (uint32_t s = 0; s < model->n_stages; s++) {
        bool is_new = false;
        BASE_TRY(cell_registry_intern(registry, &defs[s], names[s], &model->stages[s].type, &is_new,
                                      error));
    }
    return BASE_OK;
}
