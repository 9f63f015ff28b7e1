/* The program behind main(), with its streams given, so that tests run it whole. */
#ifndef LOADGEN_PROGRAM_H
#define LOADGEN_PROGRAM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

/* Exit statuses. */
enum lg_exit {
    LG_EXIT_OK = 0,      /* every run valid, no request failed */
    LG_EXIT_START = 1,   /* could not start: server, model, files, memory */
    LG_EXIT_USAGE = 2,   /* bad arguments */
    LG_EXIT_FAILED = 3,  /* some requests failed */
    LG_EXIT_INVALID = 4, /* a run missed more than 1 % of its sends; wins over FAILED */
};

/* Results go to out, messages to err. *stop may be set at any time, from a signal handler too: the
 * run ends with the results so far. Returns an exit status. */
int lg_program(int argc, char **argv, FILE *out, FILE *err, const _Atomic bool *stop);

#endif
