/* What all front ends and core say about a request in the same way. No state, any thread. */
#include "server/request.h"

#include <stdio.h>

void srv_request_name_error(const char *id, struct base_error *error)
{
    if (error->status == BASE_OK || id == NULL || id[0] == '\0') {
        return;
    }
    char message[BASE_ERROR_BYTES];
    snprintf(message, sizeof message, "%s", error->message);
    // A long id is cut, so that the reason stays.
    snprintf(error->message, sizeof error->message, "[request id: %.64s] %.296s", id, message);
}
