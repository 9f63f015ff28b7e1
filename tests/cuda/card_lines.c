/* Lines of JSON as bench/gpu/table.py reads them; see card.h. */
#include "tests/cuda/card.h"

#include <stdio.h>
#include <stdlib.h>

/* Messages are ours, and have neither quotes nor backslashes but where a name is quoted. */
void card_end_line(const char *wrong)
{
    if (wrong == NULL) {
        (void)printf(",\"checked\":true,\"status\":\"ok\"}\n");
    } else {
        (void)printf(",\"status\":\"failed\",\"reason\":\"");
        for (; *wrong != '\0'; wrong++) {
            (void)putchar(*wrong == '"' || *wrong == '\\' ? '\'' : *wrong);
        }
        (void)printf("\"}\n");
    }
    (void)fflush(stdout);
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return x < y ? -1 : x > y;
}

void card_quantiles(const char *name, double *numbers, uint32_t n)
{
    qsort(numbers, n, sizeof(numbers[0]), by_size);
    (void)printf(",\"%s\":{\"p50\":%.3f,\"p99\":%.3f,\"min\":%.3f,\"n\":%u}", name, numbers[n / 2],
                 numbers[n * 99 / 100], numbers[0], n);
}
