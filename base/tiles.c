/* Leave to use the matrix registers of AMX; a file of its own, so that tests can stand in for it.
 */
#include "base/cpus.h"

#if defined(__x86_64__) && defined(__linux__)
#    include <cpuid.h>
#    include <sys/syscall.h>
#    include <unistd.h>

/* Of <asm/prctl.h>, which has them since Linux 5.16. */
#    define REQUEST_PERMISSION 0x1023 /* ARCH_REQ_XCOMP_PERM */
#    define TILE_DATA          18     /* XFEATURE_XTILEDATA */

/* Leaf 7: tiles, and their int8 products. */
#    define HAS_TILES (1u << 24 | 1u << 25)

bool base_cpus_may_use_tiles(void)
{
    unsigned a = 0;
    unsigned b = 0;
    unsigned c = 0;
    unsigned d = 0;
    // Refused by a kernel that does not know tiles, or whose threads' signal stacks are too small.
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & HAS_TILES) == HAS_TILES &&
           syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}

#else

bool base_cpus_may_use_tiles(void)
{
    return false;
}

#endif
