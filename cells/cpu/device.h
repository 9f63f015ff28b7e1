/* The CPU device behind both backends that compute on the host, `cpu` and `blas`: they differ in
 * the kernel table only. */
#ifndef CELLS_CPU_DEVICE_H
#define CELLS_CPU_DEVICE_H

#include "cells/backend.h"
#include "cells/kernels.h"

/* description: "NAME, 2 threads" is made from kernels->name. */
enum base_status cell_cpu_open(const struct cell_device_options *options,
                               const struct cell_kernels *kernels, const char *name,
                               struct cell_device **out, struct base_error *error);

struct cell_program;

/* The table's other functions, all of them; name and open are each backend's own. */
void cell_cpu_close(struct cell_device *device);
void cell_cpu_caps(const struct cell_device *device, struct cell_device_caps *out);
enum base_status cell_cpu_type_load(struct cell_device *device, const struct cell_type *type,
                                    struct base_error *error);
void cell_cpu_type_unload(struct cell_device *device, const struct cell_type *type);
uint32_t cell_cpu_type_tuning(const struct cell_device *device, const struct cell_type *type,
                              struct cell_tuning *out);
void cell_cpu_type_tune(struct cell_device *device, const struct cell_type *type,
                        const struct cell_tuning *tuning);
void cell_cpu_type_explain(const struct cell_device *device, const struct cell_type *type,
                           struct base_buf *out); /* explain.c */
size_t cell_cpu_row_bytes(const struct cell_device *device, const struct cell_layout *layout);
enum base_status cell_cpu_rows_open(struct cell_device *device, uint32_t layout_id,
                                    const struct cell_layout *layout, uint32_t count,
                                    struct base_error *error);
void cell_cpu_submit(struct cell_device *device, uint32_t queue, struct cell_batch *batch);
const _Atomic uint64_t *cell_cpu_completed(struct cell_device *device, uint32_t queue);
bool cell_cpu_pump(struct cell_device *device, uint32_t queue);
void cell_cpu_begin(struct cell_device *device, uint32_t queue);
void cell_cpu_row_read(struct cell_device *device, uint32_t layout_id, uint32_t row, uint32_t part,
                       uint32_t step, void *out);
void cell_cpu_row_write(struct cell_device *device, uint32_t layout_id, uint32_t row, uint32_t part,
                        uint32_t step, const void *in);

/* The loaded type's program; for explain.c. */
const struct cell_program *cell_cpu__program(const struct cell_device *device,
                                             const struct cell_type *type);

#define CELL_CPU_BACKEND(backend_name, backend_open)                                               \
    {                                                                                              \
        .name = (backend_name), .open = (backend_open), .close = cell_cpu_close,                   \
        .caps = cell_cpu_caps, .type_load = cell_cpu_type_load,                                    \
        .type_unload = cell_cpu_type_unload, .type_tuning = cell_cpu_type_tuning,                  \
        .type_tune = cell_cpu_type_tune, .type_explain = cell_cpu_type_explain,                    \
        .row_bytes = cell_cpu_row_bytes, .rows_open = cell_cpu_rows_open,                          \
        .submit = cell_cpu_submit, .completed = cell_cpu_completed, .pump = cell_cpu_pump,         \
        .begin = cell_cpu_begin, .row_read = cell_cpu_row_read, .row_write = cell_cpu_row_write,   \
    }

extern const struct cell_backend cell_backend_cpu;
extern const struct cell_backend cell_backend_blas;

#endif
