/* What a failed assertion does: one line to stderr, then abort(), so that a core file shows the
 * place. Any thread; never returns. */
#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>

void base_assert_failed(const char *condition, const char *file, int line)
{
    (void)fprintf(stderr, "assertion failed: %s (%s:%d)\n", condition, file, line);
    abort();
}
