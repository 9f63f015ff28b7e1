/* See access.h. */
#include "tests/server/access.h"

#include "tests/util.h"

#include <stdio.h>

struct srv_tokens *access_tokens(const char *text)
{
    char folder[UTIL_PATH_BYTES];
    char path[UTIL_PATH_BYTES + 16];
    struct srv_tokens *tokens = NULL;
    util_temp_dir(folder);
    (void)snprintf(path, sizeof path, "%s/tokens", folder);
    util_write_file(path, text);
    ck_assert_int_eq(srv_tokens_load(path, &tokens, NULL), BASE_OK);
    util_remove_tree(folder);
    return tokens;
}
