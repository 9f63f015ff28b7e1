/* See isa.h. */
#include "tests/cells/isa.h"

#include "tests/util.h"

#include <stddef.h>

const char *isa_name(int index)
{
    static const char *const names[ISA_COUNT] = {"scalar", "avx2", "avx512"};
    return names[index];
}

const struct cell_kernels *isa_at(int index)
{
    const struct cell_kernels *kernels = NULL;
    struct base_error error;
    if (cell_kernels_choose(isa_name(index), &kernels, &error) != BASE_OK) {
        util_skip(error.message);
        return NULL;
    }
    return kernels;
}
