/* Paths are kept by name, since tests put them into structs that live as long as a case. */
#include "tests/certificates.h"

#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define NAMES_MAX 64u

static char folder[UTIL_PATH_BYTES];
static char paths[NAMES_MAX][UTIL_PATH_BYTES];

bool certificates_make(void)
{
    char script[UTIL_PATH_BYTES];
    char command[2 * UTIL_PATH_BYTES + 16];
    util_temp_dir(folder);
    util_repo_path(script, "tests/certificates.sh");
    (void)snprintf(command, sizeof command, "bash '%s' '%s'", script, folder);
    int status = system(command); // NOLINT(cert-env33-c): of paths of ours
    if (WIFEXITED(status) && WEXITSTATUS(status) == CERTIFICATES_SKIP) {
        certificates_remove();
        return false;
    }
    base_assert(status == 0);
    return true;
}

const char *certificates_path(const char *name)
{
    char path[UTIL_PATH_BYTES];
    int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    base_assert(length > 0 && (size_t)length < sizeof path);
    for (size_t i = 0; i < NAMES_MAX; i++) {
        if (paths[i][0] == '\0') {
            memcpy(paths[i], path, sizeof path);
        }
        if (strcmp(paths[i], path) == 0) {
            return paths[i];
        }
    }
    base_assert(!"too many names");
    return NULL;
}

void certificates_remove(void)
{
    util_remove_tree(folder);
}
