/* `cellbatch-bench engine` for a machine that has a card and none of the tests' or the server's
 * libraries (scripts/gpu/engine.sh): a card's devices alone, and no importer, so that models come
 * as
 * --cells FILE or as --lstm, --tree. */
#include "bench/bench.h"
#include "cells/backend_library.h"
#include "cells/import/import.h"
#include "tests/cuda/card.h"

enum base_status cell_backend_load(const char *name, const struct cell_backend **out,
                                   struct base_error *error)
{
    *out = card_backend(name);
    return *out != NULL
               ? BASE_OK
               : base_fail(error, BASE_INVALID_ARGUMENT, "no device '%s' in this program", name);
}

/* The engine's default, before a device is asked for. */
const struct cell_backend *cell_backend_find(const char *name)
{
    return card_backend(name);
}

enum base_status cell__import_onnx(struct cell_registry *registry, struct cell_model_file file,
                                   const struct cell_known_inputs *known, const char *label,
                                   struct cell_model *model, struct base_error *error)
{
    (void)registry, (void)file, (void)known, (void)label, (void)model;
    return base_fail(error, BASE_UNIMPLEMENTED, "built without the importer: want --cells FILE");
}

enum base_status cell__import_layers(struct cell_registry *registry, struct cell_model_file file,
                                     const struct cell_layers *layers, const char *label,
                                     struct cell_model *model, struct base_error *error)
{
    (void)layers;
    return cell__import_onnx(registry, file, NULL, label, model, error);
}

int main(int argc, char **argv)
{
    return bench_engine(argc, argv);
}
