/* Devices over a host's driver, so that card.c and its siblings are tested without a card; and
 * those that they must find something wrong with. */
#include "tests/cuda/card.h"
#include "tests/cuda/driver_host.h"

#include <string.h>

/* Calls of the driver until the device is lost: beyond loading, in the middle of the first cases.
 */
#define CALLS_UNTIL_LOST 4000u

/* Multiplies by another weight than it was told. */
static enum base_status load_wrong(struct cell_device *device, const struct cell_type *type,
                                   struct base_error *error)
{
    const struct cell_op *op = type->def.ops;
    while (op->n_weights == 0) {
        op++;
    }
    union {
        const void *told;
        float *changed;
    } weight = {.told = op->weights[0].data};
    const float kept = *weight.changed;
    *weight.changed += 1.0f;
    const enum base_status status = cuda_host_backend()->type_load(device, type, error);
    *weight.changed = kept;
    return status;
}

static enum base_status open_hung(const struct cell_device_options *options,
                                  struct cell_device **out, struct base_error *error)
{
    cuda_host_hang(false);
    return cuda_host_backend()->open(options, out, error);
}

/* From here on nothing of a stream is run. */
static void submit_hung(struct cell_device *device, uint32_t queue, struct cell_batch *batch)
{
    cuda_host_hang(true);
    cuda_host_backend()->submit(device, queue, batch);
}

const struct cell_backend *card_backend(const char *name)
{
    static struct cell_backend wrong;
    if (strcmp(name, "cuda-host-wrong") == 0) {
        wrong = *cuda_host_backend();
        wrong.type_load = load_wrong;
        return &wrong;
    }
    if (strcmp(name, "cuda-host-hung") == 0) {
        wrong = *cuda_host_backend();
        wrong.open = open_hung;
        wrong.submit = submit_hung;
        return &wrong;
    }
    if (strcmp(name, "cuda-host-lost") == 0) {
        cuda_host_fail_at(CALLS_UNTIL_LOST);
        return cuda_host_backend();
    }
    return strcmp(name, "cuda-host") == 0           ? cuda_host_backend()
           : strcmp(name, "cuda-host-library") == 0 ? cuda_host_library_backend()
                                                    : NULL;
}

/* Begins all memory that is written with something else: weights are among it. */
static enum base_status write_wrong(struct cell_cuda *cuda, cell_step_address to, const void *from,
                                    size_t bytes)
{
    const uint8_t other[4] = {0x40, 0x40, 0x40, 0x40};
    const enum base_status status = cuda_host_driver.write(cuda, to, from, bytes);
    return status == BASE_OK ? cuda_host_driver.write(cuda, to, other, sizeof(other)) : status;
}

const struct cell_cuda_driver *card_driver(const char *name)
{
    static struct cell_cuda_driver wrong;
    wrong = cuda_host_driver;
    wrong.write = write_wrong;
    return strcmp(name, "cuda-host") == 0         ? &cuda_host_driver
           : strcmp(name, "cuda-host-wrong") == 0 ? &wrong
                                                  : NULL;
}
