/* Replays a fuzz target's corpus without libFuzzer, in `make test`: every file of
 * tests/fuzz/corpus/NAME for the program fuzz_NAME (run from the root of the tree), whole and cut
 * at seven places. The last line counts for tests/run.sh; a crash shows the file it happened in.
 * Crashers found by fuzzing go into the corpus and become unit tests. */
#include "base/mem.h"
#include "tests/util.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CUTS = 8, FILES_MAX = 4096 };

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A copy of exactly `size` bytes, so that a sanitizer sees every step beyond. */
static void try_bytes(const char *bytes, size_t size)
{
    uint8_t *copy = base_alloc(size > 0 ? size : 1);
    if (copy == NULL) {
        abort();
    }
    memcpy(copy, bytes, size);
    (void)LLVMFuzzerTestOneInput(copy, size);
    base_free(copy);
}

static void try_file(const char *path)
{
    size_t size = 0;
    char *bytes = util_read_file(path, &size);
    printf("%s: %zu bytes\n", path, size);
    (void)fflush(stdout);
    if (bytes == NULL) {
        abort();
    }
    for (size_t cut = 1; cut <= CUTS; cut++) {
        try_bytes(bytes, size * cut / CUTS);
    }
    base_free(bytes);
}

int main(int argc, char **argv)
{
    char folder[256];
    char path[1024];
    const char *slash = strrchr(argv[0], '/');
    const char *name = strstr(slash == NULL ? argv[0] : slash, "fuzz_");
    struct dirent **entries = NULL;
    int tried = 0;
    if (argc != 1 || name == NULL) {
        fprintf(stderr, "usage: fuzz_NAME\n");
        return 2;
    }
    snprintf(folder, sizeof(folder), "tests/fuzz/corpus/%s", name + strlen("fuzz_"));
    int n = scandir(folder, &entries, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        if (entries[i]->d_name[0] != '.') {
            snprintf(path, sizeof(path), "%s/%s", folder, entries[i]->d_name);
            try_file(path);
            tried++;
        }
        free(entries[i]);
    }
    free(entries);
    printf("%d passed, 0 failed\n", tried);
    return tried > 0 ? 0 : 1;
}
