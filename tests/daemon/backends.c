/* The table of backends of cellbatchd-test: those of cellbatchd, and the tests' reference device
 * (tests/reference_device.h), whose lanes have the CPU device compute. Linked in the place of
 * cells/backend.c.
 *
 * REFERENCE_DEVICE in the environment holds words that say how: `plain` slots instead of tagged
 * ones, and what SIGUSR1 does to the device opened last: `fault`, `deaf`, else its next step stands
 * still. */
#include "cells/backend.h"
#include "cells/cpu/device.h"
#include "tests/reference_device.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static enum reference_hang hang = REFERENCE_HANG_STILL;

static bool is_asked_for(const char *word)
{
    const char *words = getenv("REFERENCE_DEVICE");
    return words != NULL && strstr(words, word) != NULL;
}

/* A thread of its own waits for the signal: of all others it is kept away, by a mask that they
 * inherit from the one that asks for a backend before it starts them. */
static void *wait_for_signal(void *argument)
{
    const sigset_t *set = argument;
    int number = 0;
    while (sigwait(set, &number) == 0) {
        if (reference_last() != NULL) {
            reference_hang(reference_last(), hang);
        }
    }
    return NULL;
}

static void listen_to_signal(void)
{
    static sigset_t set;
    pthread_t thread;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGUSR1);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
    if (pthread_create(&thread, NULL, wait_for_signal, &set) == 0) {
        (void)pthread_detach(thread);
    }
}

static const struct cell_backend *reference(void)
{
    static bool is_configured;
    if (!is_configured) {
        is_configured = true;
        const struct reference_options options = {
            .seed = 1,
            .form = is_asked_for("plain") ? CELL_LANE_FORM_PLAIN : CELL_LANE_FORM_TAGGED,
            .inner = &cell_backend_cpu};
        reference_configure(&options);
        hang = is_asked_for("fault")  ? REFERENCE_HANG_FAULT
               : is_asked_for("deaf") ? REFERENCE_HANG_DEAF
                                      : REFERENCE_HANG_STILL;
        listen_to_signal();
    }
    return reference_backend();
}

const struct cell_backend *cell_backend_at(uint32_t index)
{
    static const struct cell_backend *const backends[] = {&cell_backend_cpu, &cell_backend_blas};
    const uint32_t n = sizeof(backends) / sizeof(backends[0]);
    return index < n ? backends[index] : index == n ? reference() : NULL;
}

const struct cell_backend *cell_backend_find(const char *name)
{
    for (uint32_t i = 0; cell_backend_at(i) != NULL; i++) {
        if (strcmp(cell_backend_at(i)->name, name) == 0) {
            return cell_backend_at(i);
        }
    }
    return NULL;
}
