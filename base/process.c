/* /proc/self, read anew at each call; the start time is remembered at the first. */
#include "base/process.h"

#include "base/clock.h"

#include <dirent.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

uint64_t base_process_resident_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    if (file == NULL) {
        return 0;
    }
    // "size resident shared ..." in pages.
    char line[128];
    uint64_t pages = 0;
    if (fgets(line, sizeof(line), file) != NULL) {
        char *end = NULL;
        (void)strtoull(line, &end, 10);
        pages = strtoull(end, NULL, 10);
    }
    fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

uint64_t base_process_open_fds(void)
{
    DIR *folder = opendir("/proc/self/fd");
    if (folder == NULL) {
        return 0;
    }
    uint64_t count = 0;
    // NOLINTNEXTLINE(concurrency-mt-unsafe): the stream is this call's own
    for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        count += entry->d_name[0] != '.' ? 1 : 0;
    }
    closedir(folder);
    return count > 0 ? count - 1 : 0; // the folder itself was open
}

double base_process_start_s(void)
{
    static _Atomic uint64_t start_ns;
    uint64_t none = 0;
    (void)atomic_compare_exchange_strong(&start_ns, &none, base_wall_ns());
    return (double)atomic_load(&start_ns) * 1e-9;
}
