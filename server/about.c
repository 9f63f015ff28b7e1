/* Names and numbers that both protocols report. Kept in one place so that a client sees the same
 * server through either; an extension enters the list with the change that makes it work. */
#include "server/about.h"

#include "base/assert.h"
#include "server/core.h"

static const char *const extensions[] = {"binary_tensor_data", "model_configuration", "statistics"};

const char *const *srv_about_extensions(uint32_t *count)
{
    *count = sizeof extensions / sizeof extensions[0];
    return extensions;
}

const char *srv_about_datatype(enum cell_dtype dtype)
{
    static const char *const names[] = {
        [CELL_F32] = "FP32",
        [CELL_I64] = "INT64",
        [CELL_I32] = "INT32",
    };
    base_assert((unsigned)dtype < sizeof names / sizeof names[0]);
    return names[dtype];
}

enum base_status srv_about_not_ready(const struct srv_model *model, struct base_error *error)
{
    base_assert(model->state != SRV_MODEL_READY);
    bool is_loading = model->state == SRV_MODEL_LOADING;
    bool has_version = model->version[0] != '\0';
    return base_fail(error, BASE_UNAVAILABLE, "model '%s'%s%s is %s%s", model->name,
                     has_version ? " version " : "", model->version,
                     is_loading ? "loading" : "unavailable: ", is_loading ? "" : model->reason);
}
