/* In the place of base/tiles.c: where AVX-512 is emulated AMX is too. */
#include "base/cpus.h"

bool base_cpus_may_use_tiles(void)
{
    return true;
}
