/* The table of backends of cellbatchd-test: those of cellbatchd, the CUDA device over the host's
 * driver (tests/cuda/driver_host.h), and the tests' reference device (tests/reference_device.h),
 * whose lanes have the CPU device compute. Linked in the place of cells/backend.c.
 *
 * REFERENCE_DEVICE in the environment holds words that say how: `plain` slots instead of tagged
 * ones, and what SIGUSR1 does to the device opened last: `fault`, `deaf`, else its next step stands
 * still. With `card` it stops all cards of the CUDA device. */
#include "cells/backend.h"
#include "cells/cpu/device.h"
#include "tests/cuda/driver_host.h"
#include "tests/reference_device.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static enum reference_hang hang = REFERENCE_HANG_STILL;

static bool is_asked_for(const char *word)
{
    const char *words = getenv("REFERENCE_DEVICE");
    return words != NULL && strstr(words, word) != NULL;
}

static sem_t signals;

/* On whichever thread: libraries start some before main(), which no mask of ours reaches. */
static void note_signal(int number)
{
    (void)number;
    (void)sem_post(&signals);
}

/* What a signal asks for is done on a thread of its own, where locks may be taken. */
static void *wait_for_signal(void *argument)
{
    (void)argument;
    for (;;) {
        if (sem_wait(&signals) != 0) {
            continue;
        }
        if (is_asked_for("card")) {
            cuda_host_hang(true);
        } else if (reference_last() != NULL) {
            reference_hang(reference_last(), hang);
        }
    }
    return NULL;
}

static void listen_to_signal(void)
{
    const struct sigaction action = {.sa_handler = note_signal, .sa_flags = SA_RESTART};
    pthread_t thread;
    if (sem_init(&signals, 0, 0) == 0 &&
        pthread_create(&thread, NULL, wait_for_signal, NULL) == 0) {
        (void)pthread_detach(thread);
        (void)sigaction(SIGUSR1, &action, NULL);
    }
}

/* Once: as the environment says. */
static void configure(void)
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
}

const struct cell_backend *cell_backend_at(uint32_t index)
{
    const struct cell_backend *const backends[] = {&cell_backend_cpu, &cell_backend_blas,
                                                   cuda_host_backend(), cuda_host_library_backend(),
                                                   reference_backend()};
    configure();
    return index < sizeof(backends) / sizeof(backends[0]) ? backends[index] : NULL;
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
