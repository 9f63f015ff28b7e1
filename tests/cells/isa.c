/* See isa.h. */
#include "tests/cells/isa.h"

#include "tests/util.h"

#include <stddef.h>

const char *isa_name(int index)
{
    static const char *const names[ISA_COUNT] = {
        "scalar",
#if defined(__x86_64__)
        "avx2",
        "avx512",
#elif defined(__aarch64__)
        "neon",
#endif
    };
    return names[index];
}

const struct cell_kernels *isa_named(const char *name)
{
    const struct cell_kernels *kernels = NULL;
    struct base_error error;
    if (cell_kernels_choose(name, &kernels, &error) != BASE_OK) {
        util_skip(error.message);
        return NULL;
    }
    return kernels;
}

const struct cell_kernels *isa_at(int index)
{
    return isa_named(isa_name(index));
}
