/* See changed.h. */
#include "tests/cells/changed.h"

#include "base/mem.h"
#include "tests/cells/parse.h"
#include "tests/util.h"

#include <string.h>

static Onnx__ModelProto *model; /* the one at work */
static struct cell_registry *registry;
static struct base_error last_error;

void changed_setup(void)
{
    ck_assert_int_eq(cell_registry_create(&registry), BASE_OK);
}

void changed_teardown(void)
{
    cell_registry_free(registry);
    registry = NULL;
}

Onnx__ModelProto *changed_begin(const char *relative)
{
    char path[UTIL_PATH_BYTES];
    size_t length = 0;
    util_repo_path(path, relative);
    char *bytes = util_read_file(path, &length);
    ck_assert_ptr_nonnull(bytes);
    model = onnx__model_proto__unpack(NULL, length, (const uint8_t *)bytes);
    ck_assert_ptr_nonnull(model);
    base_free(bytes);
    return model;
}

Onnx__ModelProto *changed_model(void)
{
    return model;
}

Onnx__NodeProto *changed_node(const Onnx__GraphProto *graph, const char *op)
{
    for (size_t i = 0; i < graph->n_node; i++) {
        if (strcmp(graph->node[i]->op_type, op) == 0) {
            return graph->node[i];
        }
    }
    ck_abort_msg("no %s", op);
    return NULL;
}

Onnx__AttributeProto *changed_attribute(const Onnx__NodeProto *node, const char *name)
{
    for (size_t i = 0; i < node->n_attribute; i++) {
        if (strcmp(node->attribute[i]->name, name) == 0) {
            return node->attribute[i];
        }
    }
    ck_abort_msg("no attribute %s", name);
    return NULL;
}

Onnx__TensorProto *changed_constant(const Onnx__GraphProto *graph, const char *part)
{
    for (size_t i = 0; i < graph->n_initializer; i++) {
        if (strstr(graph->initializer[i]->name, part) != NULL) {
            return graph->initializer[i];
        }
    }
    ck_abort_msg("no constant %s", part);
    return NULL;
}

/* protobuf-c frees a message with free(). */
static char *owned(const char *text)
{
    char *copy = base_strdup(text);
    ck_assert_ptr_nonnull(copy);
    return copy;
}

void changed_rename(char **text, const char *to)
{
    base_free(*text);
    *text = owned(to);
}

void changed_add_ints(Onnx__NodeProto *node, const char *name, size_t n, const int64_t *ints)
{
    Onnx__AttributeProto *added = base_alloc(sizeof(*added));
    Onnx__AttributeProto **all =
        base_realloc(node->attribute, (node->n_attribute + 1) * sizeof(Onnx__AttributeProto *));
    ck_assert(added != NULL && all != NULL);
    onnx__attribute_proto__init(added);
    added->name = owned(name);
    added->n_ints = n;
    added->ints = base_alloc_array(n, sizeof(*ints));
    ck_assert_ptr_nonnull(added->ints);
    memcpy(added->ints, ints, n * sizeof(*ints));
    node->attribute = all;
    node->attribute[node->n_attribute++] = added;
}

const char *changed_add_int32(const char *name, int32_t value)
{
    Onnx__GraphProto *graph = model->graph;
    Onnx__TensorProto *added = base_alloc(sizeof(*added));
    Onnx__TensorProto **all =
        base_realloc(graph->initializer, (graph->n_initializer + 1) * sizeof(Onnx__TensorProto *));
    ck_assert(added != NULL && all != NULL);
    onnx__tensor_proto__init(added);
    added->name = owned(name);
    added->has_data_type = true;
    added->data_type = ONNX__TENSOR_PROTO__DATA_TYPE__INT32;
    added->n_int32_data = 1;
    added->int32_data = base_alloc(sizeof(value));
    ck_assert_ptr_nonnull(added->int32_data);
    added->int32_data[0] = value;
    graph->initializer = all;
    graph->initializer[graph->n_initializer++] = added;
    return name;
}

void changed_free(struct cell_model *parsed)
{
    cell_model_free(registry, parsed);
}

enum base_status changed_parse(struct cell_model **out)
{
    size_t length = onnx__model_proto__get_packed_size(model);
    uint8_t *bytes = base_alloc(length);
    ck_assert_ptr_nonnull(bytes);
    ck_assert_uint_eq(onnx__model_proto__pack(model, bytes), length);
    last_error = (struct base_error){.message = ""};
    enum base_status status = cell_model_parse(
        registry, (struct cell_model_file){bytes, length, NULL}, "test", NULL, out, &last_error);
    base_free(bytes);
    onnx__model_proto__free_unpacked(model, NULL);
    model = NULL;
    return status;
}

void changed_expect(enum base_status wanted, const char *where, const char *why)
{
    struct cell_model *parsed = NULL;
    enum base_status status = changed_parse(&parsed);
    cell_model_free(registry, parsed);
    expect_error(status, &last_error, wanted, where, why);
}

void changed_expect_ops(uint32_t s, enum cell_stage_kind kind, const char *wanted)
{
    struct cell_model *parsed = NULL;
    char ops[512] = "";
    ck_assert_msg(changed_parse(&parsed) == BASE_OK, "%s", last_error.message);
    ck_assert_uint_lt(s, parsed->n_stages);
    ck_assert_int_eq(parsed->stages[s].kind, kind);
    const struct cell_def *def = &parsed->stages[s].type->def;
    for (uint32_t o = 0; o < def->n_ops; o++) {
        size_t used = strlen(ops);
        snprintf(ops + used, sizeof(ops) - used, "%s ", cell_op_name(def->ops[o].kind));
    }
    ck_assert_str_eq(ops, wanted);
    cell_model_free(registry, parsed);
}
