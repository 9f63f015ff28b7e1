/* What all front ends and core say about a request in the same way. No state, any thread. */
#include "server/request.h"

#include <inttypes.h>
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

enum base_status srv_request_check_sequence(const struct srv_sequence *sequence,
                                            struct base_error *error)
{
    if (sequence->id == NULL && (sequence->is_start || sequence->is_end || sequence->has_step)) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "parameter '%s' without a 'sequence_id' that is neither 0 nor empty",
                         sequence->is_start ? "sequence_start"
                         : sequence->is_end ? "sequence_end"
                                            : "sequence_step");
    }
    return BASE_OK;
}

enum base_status srv_request_number_id(struct base_arena *arena, uint64_t number, const char **out,
                                       struct base_error *error)
{
    char text[24];
    const int length = snprintf(text, sizeof text, "%" PRIu64, number);
    *out = base_arena_text(arena, text, (size_t)length);
    return *out != NULL
               ? BASE_OK
               : base_fail(error, BASE_RESOURCE_EXHAUSTED, "no memory left for this request");
}
