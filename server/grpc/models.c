/* What clients ask about a model: its tensors, its configuration, its statistics.
 *
 * Shapes tell a client which dimensions it chooses (-1). In the configuration, max_batch_size > 0
 * means that the first dimension of every tensor is the batch and is left out of dims:
 * perf_analyzer and tritonclient's tools read it so (server/signature.h says when we do). */
#include "server/grpc/methods.h"

#include "base/clock.h"
#include "proto/inference.pb-c.h"
#include "server/about.h"

#include <stdio.h>
#include <string.h>

typedef Inference__ModelMetadataResponse__TensorMetadata tensor_metadata;
typedef Inference__StatisticDuration statistic;

/* A model whose cells are loaded, for answers made of them. */
static enum base_status find_loaded(struct srv_grpc__ask *ask, const struct srv_model **out)
{
    BASE_TRY(srv_grpc__find_model(ask, out));
    return (*out)->signature != NULL ? BASE_OK : srv_about_not_ready(*out, &ask->error);
}

static enum base_status copy_dims(struct srv_grpc__ask *ask,
                                  const struct srv_signature_tensor *tensor, uint32_t first,
                                  int64_t **out)
{
    int64_t *dims;
    SRV_GRPC__NEW_ARRAY(ask, dims, tensor->rank - first);
    for (uint32_t i = first; i < tensor->rank; i++) {
        dims[i - first] = tensor->dims[i];
    }
    *out = dims;
    return BASE_OK;
}

static enum base_status tensors_metadata(struct srv_grpc__ask *ask,
                                         const struct srv_signature_tensor *tensors, uint32_t count,
                                         tensor_metadata ***out)
{
    tensor_metadata **list;
    SRV_GRPC__NEW_ARRAY(ask, list, count);
    for (uint32_t i = 0; i < count; i++) {
        SRV_GRPC__NEW(ask, list[i], inference__model_metadata_response__tensor_metadata__init);
        BASE_TRY(srv_grpc__copy_text(ask, tensors[i].name, &list[i]->name));
        BASE_TRY(srv_grpc__copy_text(ask, tensors[i].datatype, &list[i]->datatype));
        BASE_TRY(copy_dims(ask, &tensors[i], 0, &list[i]->shape));
        list[i]->n_shape = tensors[i].rank;
    }
    *out = list;
    return BASE_OK;
}

/* All versions that core has of the model. */
static enum base_status copy_versions(struct srv_grpc__ask *ask, const char *name, char ***out,
                                      size_t *count)
{
    char **versions;
    uint32_t models = srv_core_models(ask->core);
    SRV_GRPC__NEW_ARRAY(ask, versions, models);
    for (uint32_t i = 0; i < models; i++) {
        const struct srv_model *model = srv_core_model_at(ask->core, i);
        if (strcmp(model->name, name) != 0) {
            continue;
        }
        BASE_TRY(srv_grpc__copy_text(ask, model->version, &versions[*count]));
        (*count)++;
    }
    *out = versions;
    return BASE_OK;
}

enum base_status srv_grpc__model_metadata(struct srv_grpc__ask *ask)
{
    const struct srv_model *model;
    BASE_TRY(find_loaded(ask, &model));
    Inference__ModelMetadataResponse *answer;
    SRV_GRPC__NEW(ask, answer, inference__model_metadata_response__init);
    BASE_TRY(srv_grpc__copy_text(ask, model->name, &answer->name));
    BASE_TRY(srv_grpc__copy_text(ask, SRV_ABOUT_PLATFORM, &answer->platform));
    BASE_TRY(copy_versions(ask, model->name, &answer->versions, &answer->n_versions));
    const struct srv_signature *signature = model->signature;
    BASE_TRY(tensors_metadata(ask, signature->inputs, signature->n_inputs, &answer->inputs));
    answer->n_inputs = signature->n_inputs;
    BASE_TRY(tensors_metadata(ask, signature->outputs, signature->n_outputs, &answer->outputs));
    answer->n_outputs = signature->n_outputs;
    ask->answer = &answer->base;
    return BASE_OK;
}

static Inference__DataType config_type(const char *datatype)
{
    static const struct {
        const char *name;
        Inference__DataType type;
    } types[] = {
        {"FP32", INFERENCE__DATA_TYPE__TYPE_FP32},   {"INT64", INFERENCE__DATA_TYPE__TYPE_INT64},
        {"INT32", INFERENCE__DATA_TYPE__TYPE_INT32}, {"BOOL", INFERENCE__DATA_TYPE__TYPE_BOOL},
        {"UINT8", INFERENCE__DATA_TYPE__TYPE_UINT8}, {"INT8", INFERENCE__DATA_TYPE__TYPE_INT8},
        {"FP16", INFERENCE__DATA_TYPE__TYPE_FP16},   {"BF16", INFERENCE__DATA_TYPE__TYPE_BF16},
        {"FP64", INFERENCE__DATA_TYPE__TYPE_FP64},
    };
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (strcmp(types[i].name, datatype) == 0) {
            return types[i].type;
        }
    }
    return INFERENCE__DATA_TYPE__TYPE_STRING;
}

static enum base_status config_inputs(struct srv_grpc__ask *ask,
                                      const struct srv_signature *signature, uint32_t first_dim,
                                      Inference__ModelConfig *config)
{
    SRV_GRPC__NEW_ARRAY(ask, config->input, signature->n_inputs);
    for (uint32_t i = 0; i < signature->n_inputs; i++) {
        const struct srv_signature_tensor *tensor = &signature->inputs[i];
        Inference__ModelInput *input;
        SRV_GRPC__NEW(ask, input, inference__model_input__init);
        BASE_TRY(srv_grpc__copy_text(ask, tensor->name, &input->name));
        BASE_TRY(copy_dims(ask, tensor, first_dim, &input->dims));
        input->n_dims = tensor->rank - first_dim;
        input->data_type = config_type(tensor->datatype);
        input->optional = tensor->optional;
        config->input[i] = input;
    }
    config->n_input = signature->n_inputs;
    return BASE_OK;
}

static enum base_status config_outputs(struct srv_grpc__ask *ask,
                                       const struct srv_signature *signature, uint32_t first_dim,
                                       Inference__ModelConfig *config)
{
    SRV_GRPC__NEW_ARRAY(ask, config->output, signature->n_outputs);
    for (uint32_t i = 0; i < signature->n_outputs; i++) {
        const struct srv_signature_tensor *tensor = &signature->outputs[i];
        Inference__ModelOutput *output;
        SRV_GRPC__NEW(ask, output, inference__model_output__init);
        BASE_TRY(srv_grpc__copy_text(ask, tensor->name, &output->name));
        BASE_TRY(copy_dims(ask, tensor, first_dim, &output->dims));
        output->n_dims = tensor->rank - first_dim;
        output->data_type = config_type(tensor->datatype);
        config->output[i] = output;
    }
    config->n_output = signature->n_outputs;
    return BASE_OK;
}

/* What inputs of integers may hold, for who makes some up. */
static enum base_status config_ranges(struct srv_grpc__ask *ask,
                                      const struct srv_signature *signature,
                                      Inference__ModelConfig *config)
{
    SRV_GRPC__NEW_ARRAY(ask, config->parameters, signature->n_inputs);
    for (uint32_t i = 0; i < signature->n_inputs; i++) {
        const struct srv_signature_tensor *tensor = &signature->inputs[i];
        char range[SRV_RANGE_BYTES];
        char key[sizeof(SRV_ABOUT_RANGE) + CELL_NAME_BYTES];
        if (!tensor->has_range) {
            continue;
        }
        Inference__ModelConfig__ParametersEntry *entry;
        SRV_GRPC__NEW(ask, entry, inference__model_config__parameters_entry__init);
        SRV_GRPC__NEW(ask, entry->value, inference__model_parameter__init);
        (void)snprintf(key, sizeof key, "%s%s", SRV_ABOUT_RANGE, tensor->name);
        BASE_TRY(srv_grpc__copy_text(ask, key, &entry->key));
        BASE_TRY(srv_grpc__copy_text(ask, srv_signature_range(tensor, range),
                                     &entry->value->string_value));
        config->parameters[config->n_parameters++] = entry;
    }
    return BASE_OK;
}

enum base_status srv_grpc__model_config(struct srv_grpc__ask *ask)
{
    const struct srv_model *model;
    BASE_TRY(find_loaded(ask, &model));
    Inference__ModelConfigResponse *answer;
    SRV_GRPC__NEW(ask, answer, inference__model_config_response__init);
    Inference__ModelConfig *config;
    SRV_GRPC__NEW(ask, config, inference__model_config__init);
    BASE_TRY(srv_grpc__copy_text(ask, model->name, &config->name));
    BASE_TRY(srv_grpc__copy_text(ask, SRV_ABOUT_PLATFORM, &config->platform));
    BASE_TRY(srv_grpc__copy_text(ask, SRV_ABOUT_BACKEND, &config->backend));
    uint32_t max_batch_size = model->signature->max_batch_size;
    config->max_batch_size = (int32_t)max_batch_size;
    uint32_t first_dim = max_batch_size > 0 ? 1 : 0;
    BASE_TRY(config_inputs(ask, model->signature, first_dim, config));
    BASE_TRY(config_outputs(ask, model->signature, first_dim, config));
    BASE_TRY(config_ranges(ask, model->signature, config));
    if (model->signature->has_sessions) {
        Inference__ModelSequenceBatching *sequences;
        SRV_GRPC__NEW(ask, sequences, inference__model_sequence_batching__init);
        sequences->max_sequence_idle_microseconds =
            srv_core_session_idle_ns(ask->core) / BASE_NS_PER_US;
        config->sequence_batching = sequences;
        config->scheduling_choice_case =
            INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_SEQUENCE_BATCHING;
    }
    answer->config = config;
    ask->answer = &answer->base;
    return BASE_OK;
}

static enum base_status copy_statistic(struct srv_grpc__ask *ask, struct srv_stat from,
                                       statistic **out)
{
    SRV_GRPC__NEW(ask, *out, inference__statistic_duration__init);
    (*out)->count = from.count;
    (*out)->ns = from.ns;
    return BASE_OK;
}

static enum base_status copy_statistics(struct srv_grpc__ask *ask, const struct srv_model *model,
                                        Inference__ModelStatistics **out)
{
    const struct srv_model_stats *stats = &model->stats;
    Inference__ModelStatistics *entry;
    SRV_GRPC__NEW(ask, entry, inference__model_statistics__init);
    BASE_TRY(srv_grpc__copy_text(ask, model->name, &entry->name));
    BASE_TRY(srv_grpc__copy_text(ask, model->version, &entry->version));
    entry->last_inference = stats->last_inference_ms;
    entry->inference_count = stats->inference_count;
    entry->execution_count = stats->execution_count;
    Inference__InferStatistics *infer;
    SRV_GRPC__NEW(ask, infer, inference__infer_statistics__init);
    BASE_TRY(copy_statistic(ask, stats->success, &infer->success));
    BASE_TRY(copy_statistic(ask, stats->fail, &infer->fail));
    BASE_TRY(copy_statistic(ask, stats->queue, &infer->queue));
    BASE_TRY(copy_statistic(ask, stats->compute_input, &infer->compute_input));
    BASE_TRY(copy_statistic(ask, stats->compute_infer, &infer->compute_infer));
    BASE_TRY(copy_statistic(ask, stats->compute_output, &infer->compute_output));
    // There is no response cache; clients want to read its zeros.
    BASE_TRY(copy_statistic(ask, (struct srv_stat){0, 0}, &infer->cache_hit));
    BASE_TRY(copy_statistic(ask, (struct srv_stat){0, 0}, &infer->cache_miss));
    entry->inference_stats = infer;
    *out = entry;
    return BASE_OK;
}

/* No name: all models. A name alone: all its versions. Models that are not loaded have none. */
enum base_status srv_grpc__model_statistics(struct srv_grpc__ask *ask)
{
    const struct srv_grpc_query *query = &ask->query;
    if (query->first[0] != 0) {
        const struct srv_model *model;
        BASE_TRY(srv_grpc__find_model(ask, &model));
    }
    Inference__ModelStatisticsResponse *answer;
    SRV_GRPC__NEW(ask, answer, inference__model_statistics_response__init);
    uint32_t count = srv_core_models(ask->core);
    SRV_GRPC__NEW_ARRAY(ask, answer->model_stats, count);
    for (uint32_t i = 0; i < count; i++) {
        const struct srv_model *model = srv_core_model_at(ask->core, i);
        if (model->state != SRV_MODEL_READY ||
            (query->first[0] != 0 && strcmp(query->first, model->name) != 0) ||
            (query->second[0] != 0 && strcmp(query->second, model->version) != 0)) {
            continue;
        }
        BASE_TRY(copy_statistics(ask, model, &answer->model_stats[answer->n_model_stats]));
        answer->n_model_stats++;
    }
    ask->answer = &answer->base;
    return BASE_OK;
}
