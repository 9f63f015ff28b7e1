/* See kernels_host.h. */
#include "tests/cuda/kernels_host.h"

#include "cells/cuda/step_attend.h"
#include "cells/cuda/step_cells.h"
#include "cells/cuda/step_ops.h"
#include "cells/cuda/step_reduce.h"
#include "cells/cuda/step_round.h"
#include "cells/cuda/step_rows.h"
#include "cells/cuda/step_search.h"
#include "cells/cuda/step_top.h"

#include <string.h>

static uint32_t turned(uint32_t i, uint32_t n, bool is_backwards)
{
    return is_backwards ? n - 1 - i : i;
}

#define RUN_KERNEL(NAME, name, n_lanes, n_phases)                                                  \
    static void run_##name(const struct cell_step *step, uint32_t n_items, bool is_backwards)      \
    {                                                                                              \
        float room[CELL_STEP_ROOM * (n_lanes)];                                                    \
        for (uint32_t i = 0; i < n_items; i++) {                                                   \
            memset(room, 0xFF, sizeof(room));                                                      \
            struct cell_step_at at = {                                                             \
                .item = turned(i, n_items, is_backwards), .n_items = n_items, .room = room};       \
            for (at.phase = 0; at.phase < (n_phases); at.phase++) {                                \
                for (uint32_t lane = 0; lane < (n_lanes); lane++) {                                \
                    at.lane = turned(lane, (n_lanes), is_backwards);                               \
                    cell_step_##name(&step->name, at);                                             \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }
CELL_STEP_MAP(RUN_KERNEL)
#undef RUN_KERNEL

#ifdef __x86_64__
/* The same with the machine's own fused multiply-add, which the baseline calls a library for. */
__attribute__((target("avx2,fma"))) static void
run_product_fma(const struct cell_step_product *product, uint32_t n_items)
{
    for (uint32_t item = 0; item < n_items; item++) {
        cell_step_product(product, (struct cell_step_at){.item = item, .n_items = n_items});
    }
}

static bool has_fma(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#else
static void run_product_fma(const struct cell_step_product *product, uint32_t n_items)
{
    (void)product;
    (void)n_items;
}

static bool has_fma(void)
{
    return false;
}
#endif

static kernels_host_fn *replaced[CELL_STEP_COUNT];

void kernels_host_replace(enum cell_step_kernel kernel, kernels_host_fn *run)
{
    replaced[kernel] = run;
}

void kernels_host_run(const struct cell_step *step, uint32_t n_items, bool is_backwards)
{
    static kernels_host_fn *const kernels[] = {
#define KERNEL_OF(NAME, name, lanes, phases) run_##name,
        CELL_STEP_MAP(KERNEL_OF)
#undef KERNEL_OF
    };
    if (replaced[step->kernel] != NULL) {
        replaced[step->kernel](step, n_items, is_backwards);
    } else if (step->kernel == CELL_STEP_PRODUCT && has_fma()) {
        run_product_fma(&step->product, n_items);
    } else {
        kernels[step->kernel](step, n_items, is_backwards);
    }
}

static float factor(const void *row, size_t k, uint32_t products)
{
    return products == CELL_PRODUCTS_BF16 ? cell_bf16_widen(((const uint16_t *)row)[k])
                                          : ((const float *)row)[k];
}

void kernels_host_product(const struct cell_step_product *product)
{
    const struct cell_step_product *p = product;
    const void *weights = cell_step_pointer(p->weights);
    const bool is_nk = p->order == CELL_STEP_NK;
    const size_t next_k = is_nk ? 1 : p->outputs;
    const size_t next_column = is_nk ? p->inputs : 1;
    for (uint32_t r = 0; r < p->n_rows; r++) {
        const void *a = cell_step_f32(p->a, r);
        for (uint32_t c = 0; c < p->outputs; c++) {
            float sum = 0.0f;
            for (uint32_t k = p->inputs; k-- > 0;) {
                sum += factor(a, k, p->products) *
                       factor(weights, k * next_k + c * next_column, p->products);
            }
            sum += p->has_start != 0 ? cell_step_f32(p->start, r)[c]
                   : p->bias != 0    ? cell_step_floats(p->bias)[c]
                                     : 0.0f;
            cell_step_f32(p->out, r)[c] = sum;
        }
    }
}
