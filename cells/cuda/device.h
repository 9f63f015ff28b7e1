/* The CUDA device without lanes: batches as kernels and products in a stream (docs/cuda.md).
 *
 * All of it but the driver (driver.h) is C11 that knows no CUDA: plans of kernels, rows by index,
 * staging of what requests' memory holds, pieces of batches in flight, ends, errors. The device
 * never writes a request's memory: results come to pinned staging, and poll() copies them, on the
 * pool thread, before the counter moves. So a device that is lost is forgotten, with what it may
 * still write. */
#ifndef CELLS_CUDA_DEVICE_H
#define CELLS_CUDA_DEVICE_H

#include "cells/backend.h"
#include "cells/cuda/driver.h"

/* Who multiplies. */
enum cell_cuda_products {
    CELL_CUDA_OWN,     /* a kernel with the CPU's bits, whatever the batch */
    CELL_CUDA_LIBRARY, /* the driver's library: faster, and its bits are its own */
};

/* options->card of this driver. */
enum base_status cell_cuda_open(const struct cell_cuda_driver *driver,
                                enum cell_cuda_products products,
                                const struct cell_device_options *options, struct cell_device **out,
                                struct base_error *error);

/* The table's other functions, all of them; name and open are each backend's own. */
void cell_cuda_close(struct cell_device *device);
void cell_cuda_caps(const struct cell_device *device, struct cell_device_caps *out);
enum base_status cell_cuda_type_load(struct cell_device *device, const struct cell_type *type,
                                     struct base_error *error);
void cell_cuda_type_unload(struct cell_device *device, const struct cell_type *type);
void cell_cuda_type_explain(const struct cell_device *device, const struct cell_type *type,
                            struct base_buf *out);
size_t cell_cuda_row_bytes(const struct cell_device *device, const struct cell_layout *layout);
enum base_status cell_cuda_rows_open(struct cell_device *device, uint32_t layout_id,
                                     const struct cell_layout *layout, uint32_t count,
                                     struct base_error *error);
enum base_status cell_cuda_wiring_check(const struct cell_device *device,
                                        const struct cell_type *type,
                                        const struct cell_wiring *wiring, struct base_error *error);
void cell_cuda_submit(struct cell_device *device, uint32_t queue_index, struct cell_batch *batch);
const _Atomic uint64_t *cell_cuda_completed(struct cell_device *device, uint32_t queue);
void cell_cuda_poll(struct cell_device *device, uint32_t queue_index, uint64_t now_ns);
bool cell_cuda_is_lost(const struct cell_device *device);
const char *cell_cuda_why_lost(const struct cell_device *device);
_Atomic uint32_t *cell_cuda_attention(struct cell_device *device, uint32_t queue);
void cell_cuda_row_read(struct cell_device *device, uint32_t layout_id, uint32_t row, uint32_t part,
                        uint32_t step, void *out);
void cell_cuda_row_write(struct cell_device *device, uint32_t layout_id, uint32_t row,
                         uint32_t part, uint32_t step, const void *in);

#define CELL_CUDA_BACKEND(backend_name, backend_open)                                              \
    {                                                                                              \
        .name = (backend_name), .is_numbered = true, .open = (backend_open),                       \
        .close = cell_cuda_close, .caps = cell_cuda_caps, .type_load = cell_cuda_type_load,        \
        .type_unload = cell_cuda_type_unload, .type_explain = cell_cuda_type_explain,              \
        .row_bytes = cell_cuda_row_bytes, .rows_open = cell_cuda_rows_open,                        \
        .wiring_check = cell_cuda_wiring_check, .submit = cell_cuda_submit,                        \
        .completed = cell_cuda_completed, .poll = cell_cuda_poll, .is_lost = cell_cuda_is_lost,    \
        .why_lost = cell_cuda_why_lost, .attention = cell_cuda_attention,                          \
        .row_read = cell_cuda_row_read, .row_write = cell_cuda_row_write,                          \
    }

#endif
