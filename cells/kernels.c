/* Chooses a kernel table, once, when a device is opened; and cuts steps for all of them. */
#include "cells/kernels.h"

#include <string.h>

struct choice {
    const char *name;
    const struct cell_kernels *kernels; /* NULL: not on this machine */
};

enum { CHOICES = 4 };

/* Best first, those of other machines too. __builtin_cpu_supports() also asks whether the operating
 * system saves the vector registers; on AArch64 they belong to the calling convention. */
static void list_choices(struct choice choices[CHOICES])
{
    const struct cell_kernels *avx512 = NULL;
    const struct cell_kernels *avx2 = NULL;
    const struct cell_kernels *neon = NULL;
#ifdef __x86_64__
    __builtin_cpu_init();
    bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
    avx512 = has_avx512 ? &cell_kernels__avx512 : NULL;
    avx2 = has_avx2 ? &cell_kernels__avx2 : NULL;
#endif
#ifdef __aarch64__
    neon = &cell_kernels__neon;
#endif
    choices[0] = (struct choice){"avx512", avx512};
    choices[1] = (struct choice){"avx2", avx2};
    choices[2] = (struct choice){"neon", neon};
    choices[3] = (struct choice){"scalar", &cell_kernels__scalar};
}

enum base_status cell_kernels_choose(const char *isa, const struct cell_kernels **out,
                                     struct base_error *error)
{
    struct choice choices[CHOICES];
    list_choices(choices);
    bool is_auto = isa == NULL || strcmp(isa, "auto") == 0;
    for (uint32_t i = 0; i < CHOICES; i++) {
        if (!is_auto && strcmp(choices[i].name, isa) != 0) {
            continue;
        }
        if (choices[i].kernels != NULL) {
            *out = choices[i].kernels;
            return BASE_OK;
        }
        if (!is_auto) {
            return base_fail(error, BASE_UNAVAILABLE, "isa %s: this machine does not have it", isa);
        }
    }
    return base_fail(error, BASE_INVALID_ARGUMENT,
                     "isa %s: must be auto, scalar, avx2, avx512 or neon", isa);
}

static const float *const *rows_from(const float *const *rows, uint32_t first)
{
    return rows == NULL ? NULL : rows + first;
}

struct cell_gated_step cell_gated_step_of_rows(const struct cell_gated_step *whole, uint32_t first,
                                               uint32_t end, const float *const **children)
{
    struct cell_gated_step step = *whole;
    step.n_rows = end - first;
    step.x = rows_from(whole->x, first);
    step.ahead = rows_from(whole->ahead, first);
    step.h = rows_from(whole->h, first);
    step.h_right = rows_from(whole->h_right, first);
    step.old = rows_from(whole->old, first);
    step.z = rows_from(whole->z, first);
    step.forget = rows_from(whole->forget, first);
    step.out = whole->out == NULL ? NULL : whole->out + first;
    step.second = whole->second == NULL ? NULL : whole->second + first;
    for (uint32_t k = 0; k < whole->n_children; k++) {
        children[k] = whole->children[k] + first;
    }
    step.children = children;
    return step;
}
