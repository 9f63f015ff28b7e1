/* cellbatch-load: see docs/cellbatch-load.md. */
#include "loadgen/program.h"

#include <signal.h>

static _Atomic bool stop;

static void on_signal(int number)
{
    (void)number;
    atomic_store_explicit(&stop, true, memory_order_relaxed);
}

int main(int argc, char **argv)
{
    // Once: the first signal ends the run with its results, the second ends the program.
    struct sigaction once = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    (void)sigaction(SIGINT, &once, NULL);
    (void)sigaction(SIGTERM, &once, NULL);
    return lg_program(argc, argv, stdout, stderr, &stop);
}
