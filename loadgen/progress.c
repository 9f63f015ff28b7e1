#include "loadgen/progress.h"

#include <inttypes.h>

#define BAR_CELLS 30

void lg_progress_draw(FILE *out, double share, uint64_t finished, double per_second)
{
    char bar[BAR_CELLS + 1];
    double bounded = share < 0 ? 0 : share > 1 ? 1 : share;
    int full = (int)(bounded * BAR_CELLS);
    for (int i = 0; i < BAR_CELLS; i++) {
        bar[i] = i < full ? '#' : '.';
    }
    bar[BAR_CELLS] = '\0';
    fprintf(out, "\r[%s] %3.0f %%  %" PRIu64 " answers  %.0f/s\033[K", bar, 100 * bounded, finished,
            per_second);
    (void)fflush(out);
}

void lg_progress_end(FILE *out)
{
    fputs("\r\033[K", out);
    (void)fflush(out);
}
