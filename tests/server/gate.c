/* See gate.h. The pool thread submits and pumps; the test's threads turn the knobs. */
#include "tests/server/gate.h"

#include "base/assert.h"
#include "cells/cpu/device.h"

#include <pthread.h>

#define OPEN     UINT32_MAX
#define HELD_MAX 64u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t may_pass = OPEN;
static uint32_t fail_in; /* 0: none */
static enum base_status fail_status;
static uint64_t passed;

static void (*wake)(void *context);
static void *wake_context;

/* Submitted and not yet passed, oldest first; pool thread. */
static uint32_t steps_max = UINT32_MAX;
static struct cell_batch *held[HELD_MAX];
static uint64_t n_submitted, n_passed;

static void set(uint32_t batches)
{
    pthread_mutex_lock(&lock);
    may_pass = batches;
    pthread_mutex_unlock(&lock);
    if (wake != NULL) {
        wake(wake_context);
    }
}

void gate_open(void)
{
    set(OPEN);
}

void gate_close(void)
{
    set(0);
}

void gate_let(uint32_t batches)
{
    set(batches);
}

void gate_fail(uint32_t n, enum base_status status)
{
    pthread_mutex_lock(&lock);
    fail_status = status;
    fail_in = n;
    pthread_mutex_unlock(&lock);
}

uint64_t gate_passed(void)
{
    pthread_mutex_lock(&lock);
    uint64_t now = passed;
    pthread_mutex_unlock(&lock);
    return now;
}

/* One batch has passed; the status it ends with. */
static enum base_status count_passed(void)
{
    enum base_status status = BASE_OK;
    pthread_mutex_lock(&lock);
    passed++;
    if (may_pass != OPEN && may_pass > 0) {
        may_pass--;
    }
    if (fail_in > 0 && --fail_in == 0) {
        status = fail_status;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

static bool is_closed(void)
{
    pthread_mutex_lock(&lock);
    bool closed = may_pass == 0;
    pthread_mutex_unlock(&lock);
    return closed;
}

static enum base_status gate_device_open(const struct cell_device_options *options,
                                         struct cell_device **out, struct base_error *error)
{
    base_assert(options->n_queues == 1);
    wake = options->wake;
    wake_context = options->wake_context;
    n_submitted = n_passed = 0;
    passed = 0;
    may_pass = OPEN;
    fail_in = 0;
    return cell_backend_cpu.open(options, out, error);
}

static void gate_device_close(struct cell_device *device)
{
    wake = NULL;
    cell_cpu_close(device);
}

/* It counts and holds one batch at a time. */
static void gate_caps(const struct cell_device *device, struct cell_device_caps *out)
{
    cell_cpu_caps(device, out);
    out->beside = false;
}

static void gate_submit(struct cell_device *device, uint32_t queue, struct cell_batch *batch)
{
    base_assert(n_submitted - n_passed < HELD_MAX);
    held[n_submitted++ % HELD_MAX] = batch;
    cell_cpu_submit(device, queue, batch);
}

static bool gate_pump(struct cell_device *device, uint32_t queue)
{
    if (is_closed() || !cell_cpu_pump(device, queue)) {
        return false;
    }
    // The counter has moved already, but its reader is this very thread.
    held[n_passed++ % HELD_MAX]->status = count_passed();
    return true;
}

static enum base_status gate_wiring_check(const struct cell_device *device,
                                          const struct cell_type *type,
                                          const struct cell_wiring *wiring,
                                          struct base_error *error)
{
    (void)device, (void)type;
    return wiring->steps <= steps_max
               ? BASE_OK
               : base_fail(error, BASE_RESOURCE_EXHAUSTED, "a chain of %u steps, %u are the most",
                           wiring->steps, steps_max);
}

void gate_steps_max(uint32_t steps)
{
    steps_max = steps;
}

const struct cell_backend gate_backend = {.name = "gate",
                                          .open = gate_device_open,
                                          .close = gate_device_close,
                                          .caps = gate_caps,
                                          .type_load = cell_cpu_type_load,
                                          .type_unload = cell_cpu_type_unload,
                                          .row_bytes = cell_cpu_row_bytes,
                                          .rows_open = cell_cpu_rows_open,
                                          .wiring_check = gate_wiring_check,
                                          .submit = gate_submit,
                                          .completed = cell_cpu_completed,
                                          .pump = gate_pump,
                                          .row_read = cell_cpu_row_read,
                                          .row_write = cell_cpu_row_write};
