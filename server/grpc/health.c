/* grpc.health.v1.Health/Watch: the status of a service at once, and again when it changes. */
#include "server/grpc/dialog.h"

#include <string.h>

typedef Grpc__Health__V1__HealthCheckResponse health_response;

static void look(struct srv_grpc__dialog *dialog)
{
    health_response answer;
    grpc__health__v1__health_check_response__init(&answer);
    answer.status = srv_grpc__health_of(dialog->call->server->core, dialog->service);
    if ((int32_t)answer.status == dialog->status) {
        return;
    }
    dialog->status = (int32_t)answer.status;
    grpc_slice slice =
        grpc_slice_malloc(grpc__health__v1__health_check_response__get_packed_size(&answer));
    grpc__health__v1__health_check_response__pack(&answer, GRPC_SLICE_START_PTR(slice));
    srv_grpc__dialog_say(dialog, slice);
}

static enum base_status hear(struct srv_grpc__dialog *dialog, struct srv_grpc_bytes message,
                             struct base_error *error)
{
    struct srv_grpc_query query;
    BASE_TRY(srv_grpc_decode_query(message, &query, error));
    _Static_assert(sizeof dialog->service == sizeof query.first, "names of one length");
    memcpy(dialog->service, query.first, sizeof dialog->service);
    look(dialog);
    return BASE_OK;
}

const struct srv_grpc__talk srv_grpc__health_watch = {.hear = hear, .look = look};
