/* The table of methods, and those that speak of the server as a whole: live, ready, metadata,
 * index, health. What describes one model stands in models.c.
 *
 * Answers are protobuf-c messages in the call's arena, packed before the loop turns again. None of
 * these methods is on a hot path. */
#include "server/grpc/methods.h"

#include "proto/inference.pb-c.h"
#include "server/about.h"

#include <string.h>

#define SERVICE             "inference.GRPCInferenceService"
#define HEALTH_STATUS(name) GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__##name

enum base_status srv_grpc__no_memory(struct srv_grpc__ask *ask)
{
    return base_fail(&ask->error, BASE_RESOURCE_EXHAUSTED, "no memory left for the answer");
}

enum base_status srv_grpc__copy_text(struct srv_grpc__ask *ask, const char *text, char **out)
{
    *out = base_arena_text(ask->arena, text, strlen(text));
    return *out == NULL ? srv_grpc__no_memory(ask) : BASE_OK;
}

enum base_status srv_grpc__find_model(struct srv_grpc__ask *ask, const struct srv_model **out)
{
    return srv_core_find_model(ask->core, ask->query.first, ask->query.second, out, &ask->error);
}

static enum base_status server_live(struct srv_grpc__ask *ask)
{
    Inference__ServerLiveResponse *answer;
    SRV_GRPC__NEW(ask, answer, inference__server_live_response__init);
    answer->live = true;
    ask->answer = &answer->base;
    return BASE_OK;
}

static enum base_status server_ready(struct srv_grpc__ask *ask)
{
    Inference__ServerReadyResponse *answer;
    SRV_GRPC__NEW(ask, answer, inference__server_ready_response__init);
    answer->ready = srv_core_is_ready(ask->core);
    ask->answer = &answer->base;
    return BASE_OK;
}

/* A model that is not there is not ready: clients poll this before they know that it is there. */
static enum base_status model_ready(struct srv_grpc__ask *ask)
{
    Inference__ModelReadyResponse *answer;
    SRV_GRPC__NEW(ask, answer, inference__model_ready_response__init);
    const struct srv_model *model;
    answer->ready = srv_grpc__find_model(ask, &model) == BASE_OK && model->state == SRV_MODEL_READY;
    ask->answer = &answer->base;
    return BASE_OK;
}

static enum base_status server_metadata(struct srv_grpc__ask *ask)
{
    Inference__ServerMetadataResponse *answer;
    SRV_GRPC__NEW(ask, answer, inference__server_metadata_response__init);
    BASE_TRY(srv_grpc__copy_text(ask, SRV_ABOUT_NAME, &answer->name));
    BASE_TRY(srv_grpc__copy_text(ask, SRV_ABOUT_VERSION, &answer->version));
    uint32_t count;
    const char *const *names = srv_about_extensions(srv_core_has_control(ask->core), &count);
    SRV_GRPC__NEW_ARRAY(ask, answer->extensions, count);
    for (uint32_t i = 0; i < count; i++) {
        BASE_TRY(srv_grpc__copy_text(ask, names[i], &answer->extensions[i]));
    }
    answer->n_extensions = count;
    ask->answer = &answer->base;
    return BASE_OK;
}

static const char *state_text(enum srv_model_state state)
{
    switch (state) {
    case SRV_MODEL_LOADING:
        return "LOADING";
    case SRV_MODEL_READY:
        return "READY";
    case SRV_MODEL_UNAVAILABLE:
        break;
    }
    return "UNAVAILABLE";
}

static enum base_status repository_index(struct srv_grpc__ask *ask)
{
    Inference__RepositoryIndexResponse *answer;
    SRV_GRPC__NEW(ask, answer, inference__repository_index_response__init);
    uint32_t count = srv_core_models(ask->core);
    SRV_GRPC__NEW_ARRAY(ask, answer->models, count);
    for (uint32_t i = 0; i < count; i++) {
        const struct srv_model *model = srv_core_model_at(ask->core, i);
        if (ask->query.flag && model->state != SRV_MODEL_READY) {
            continue;
        }
        Inference__RepositoryIndexResponse__ModelIndex *entry;
        SRV_GRPC__NEW(ask, entry, inference__repository_index_response__model_index__init);
        BASE_TRY(srv_grpc__copy_text(ask, model->name, &entry->name));
        BASE_TRY(srv_grpc__copy_text(ask, model->version, &entry->version));
        BASE_TRY(srv_grpc__copy_text(ask, state_text(model->state), &entry->state));
        BASE_TRY(srv_grpc__copy_text(ask, model->reason, &entry->reason));
        answer->models[answer->n_models++] = entry;
    }
    ask->answer = &answer->base;
    return BASE_OK;
}

Grpc__Health__V1__HealthCheckResponse__ServingStatus
srv_grpc__health_of(const struct srv_core *core, const char *service)
{
    bool serving = srv_core_is_ready(core);
    if (service[0] != 0 && strcmp(service, SERVICE) != 0) {
        const struct srv_model *model;
        if (srv_core_find_model(core, service, "", &model, NULL) != BASE_OK) {
            return HEALTH_STATUS(SERVICE_UNKNOWN);
        }
        serving = model->state == SRV_MODEL_READY && !srv_core_is_draining(core);
    }
    return serving ? HEALTH_STATUS(SERVING) : HEALTH_STATUS(NOT_SERVING);
}

static enum base_status health_check(struct srv_grpc__ask *ask)
{
    Grpc__Health__V1__HealthCheckResponse *answer;
    SRV_GRPC__NEW(ask, answer, grpc__health__v1__health_check_response__init);
    answer->status = srv_grpc__health_of(ask->core, ask->query.first);
    if (answer->status == HEALTH_STATUS(SERVICE_UNKNOWN)) {
        return base_fail(&ask->error, BASE_NOT_FOUND, "service '%s' is not known",
                         ask->query.first);
    }
    ask->answer = &answer->base;
    return BASE_OK;
}

/* 32 accepts carry ModelInfer through the microseconds until the loop asks for more; the objects
 * behind them are used in turn, so more would only spread over more cache. */
const struct srv_grpc__method srv_grpc__methods[SRV_GRPC__METHODS] = {
    {"/" SERVICE "/ModelInfer", SRV_GRPC__INFER, {NULL}, false, 32},
    {"/" SERVICE "/ModelStreamInfer", SRV_GRPC__STREAM, {NULL}, false, 4},
    {"/" SERVICE "/ServerLive", SRV_GRPC__QUERY, {server_live}, true, 2},
    {"/" SERVICE "/ServerReady", SRV_GRPC__QUERY, {server_ready}, true, 2},
    {"/" SERVICE "/ModelReady", SRV_GRPC__QUERY, {model_ready}, false, 2},
    {"/" SERVICE "/ServerMetadata", SRV_GRPC__QUERY, {server_metadata}, false, 2},
    {"/" SERVICE "/ModelMetadata", SRV_GRPC__QUERY, {srv_grpc__model_metadata}, false, 2},
    {"/" SERVICE "/ModelConfig", SRV_GRPC__QUERY, {srv_grpc__model_config}, false, 2},
    {"/" SERVICE "/ModelStatistics", SRV_GRPC__QUERY, {srv_grpc__model_statistics}, false, 2},
    {"/" SERVICE "/RepositoryIndex", SRV_GRPC__QUERY, {repository_index}, false, 2},
    {"/" SERVICE "/RepositoryModelLoad", SRV_GRPC__ORDER, {.order = SRV_CONTROL_LOAD}, false, 2},
    {"/" SERVICE "/RepositoryModelUnload",
     SRV_GRPC__ORDER,
     {.order = SRV_CONTROL_UNLOAD},
     false,
     2},
    {"/grpc.health.v1.Health/Check", SRV_GRPC__QUERY, {health_check}, true, 2},
    {"/grpc.health.v1.Health/Watch", SRV_GRPC__DIALOG, {.talk = &srv_grpc__health_watch}, true, 2},
    {"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
     SRV_GRPC__DIALOG,
     {.talk = &srv_grpc__reflection},
     false,
     2},
    {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
     SRV_GRPC__DIALOG,
     {.talk = &srv_grpc__reflection},
     false,
     2},
};
