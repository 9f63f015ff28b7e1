/* Chooses a kernel table, once, when a device is opened. */
#include "cells/kernels.h"

#include <string.h>

struct choice {
    const struct cell_kernels *kernels;
    bool is_here;
};

/* Best first. __builtin_cpu_supports() also asks whether the operating system saves the vector
 * registers. */
static uint32_t list_choices(struct choice choices[3])
{
    uint32_t n = 0;
#ifdef __x86_64__
    __builtin_cpu_init();
    bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
    choices[n++] = (struct choice){&cell_kernels__avx512, has_avx512};
    choices[n++] = (struct choice){&cell_kernels__avx2, has_avx2};
#endif
    choices[n++] = (struct choice){&cell_kernels__scalar, true};
    return n;
}

enum base_status cell_kernels_choose(const char *isa, const struct cell_kernels **out,
                                     struct base_error *error)
{
    struct choice choices[3];
    uint32_t n = list_choices(choices);
    bool is_auto = isa == NULL || strcmp(isa, "auto") == 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!is_auto && strcmp(choices[i].kernels->name, isa) != 0) {
            continue;
        }
        if (choices[i].is_here) {
            *out = choices[i].kernels;
            return BASE_OK;
        }
        if (!is_auto) {
            return base_fail(error, BASE_UNAVAILABLE, "isa %s: this machine does not have it", isa);
        }
    }
    return base_fail(error, BASE_INVALID_ARGUMENT, "isa %s: must be auto, scalar, avx2 or avx512",
                     isa);
}
