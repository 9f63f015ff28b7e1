/* Names and numbers that both protocols report. Kept in one place so that a client sees the same
 * server through either; an extension enters the list with the change that makes it work. */
#include "server/about.h"

#include "base/assert.h"
#include "server/core.h"

#include <string.h>

/* The last of them only of a server whose clients may load and unload models: the index alone is
 * not what the extension promises. */
static const char *const extensions[] = {"binary_tensor_data", "model_configuration",
                                         "sequence",           "sequence(string_id)",
                                         "statistics",         "model_repository"};

const char *const *srv_about_extensions(bool has_control, uint32_t *count)
{
    *count = sizeof extensions / sizeof extensions[0] - (has_control ? 0 : 1);
    return extensions;
}

static const struct srv_datatype datatypes[] = {
    {"FP32", CELL_F32, CELL_FORM_OWN, 4},  {"INT64", CELL_I64, CELL_FORM_OWN, 8},
    {"INT32", CELL_I32, CELL_FORM_OWN, 4}, {"BOOL", CELL_F32, CELL_FORM_BOOL, 1},
    {"UINT8", CELL_F32, CELL_FORM_U8, 1},  {"INT8", CELL_F32, CELL_FORM_I8, 1},
    {"FP16", CELL_F32, CELL_FORM_F16, 2},  {"BF16", CELL_F32, CELL_FORM_BF16, 2},
    {"FP64", CELL_F32, CELL_FORM_F64, 8},
};
enum { DATATYPES = sizeof datatypes / sizeof datatypes[0] };

static const struct srv_datatype *find(enum cell_dtype dtype, enum cell_form form)
{
    uint32_t i = 0;
    while (i < DATATYPES && (datatypes[i].dtype != dtype || datatypes[i].form != form)) {
        i++;
    }
    base_assert(i < DATATYPES);
    return &datatypes[i];
}

const struct srv_datatype *srv_about_datatype_named(const char *name)
{
    for (uint32_t i = 0; i < DATATYPES; i++) {
        if (strcmp(datatypes[i].name, name) == 0) {
            return &datatypes[i];
        }
    }
    return NULL;
}

const struct srv_datatype *srv_about_datatype_of(const struct cell_tensor *tensor)
{
    return find(tensor->dtype, tensor->form);
}

const char *srv_about_datatype(enum cell_dtype dtype)
{
    return find(dtype, CELL_FORM_OWN)->name;
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
