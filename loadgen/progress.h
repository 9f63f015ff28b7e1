/* The bar on stderr while a run goes on. */
#ifndef LOADGEN_PROGRESS_H
#define LOADGEN_PROGRESS_H

#include <stdint.h>
#include <stdio.h>

/* Draws over the last bar: share of the run done (0..1), answers so far, answers a second. */
void lg_progress_draw(FILE *out, double share, uint64_t finished, double per_second);

/* Clears the line. */
void lg_progress_end(FILE *out);

#endif
