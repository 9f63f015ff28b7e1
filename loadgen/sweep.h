/* The runs that the flags ask for, one after the other, and their reports. */
#ifndef LOADGEN_SWEEP_H
#define LOADGEN_SWEEP_H

#include "loadgen/client.h"
#include "loadgen/model.h"
#include "loadgen/options.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

/* options->mode is OPEN or CLOSED. Prints as it goes; writes --csv after every run and --png at the
 * end. Returns an exit status (program.h). */
int lg_sweep(struct lg_client *client, const struct lg_model *model,
             const struct lg_options *options, FILE *out, FILE *err, const _Atomic bool *stop);

#endif
