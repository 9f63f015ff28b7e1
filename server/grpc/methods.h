/* The table of methods, and those of them that answer from core at once: pure but for core; no gRPC
 * in here. Loop thread. */
#ifndef SERVER_GRPC_METHODS_H
#define SERVER_GRPC_METHODS_H

#include "proto/health.pb-c.h"
#include "server/core.h"
#include "server/grpc/codec.h"

#include <protobuf-c/protobuf-c.h>

/* One call of a method: what it may read, and where its answer goes. */
struct srv_grpc__ask {
    const struct srv_core *core;
    struct srv_grpc_query query;
    struct base_arena *arena; /* holds the answer */
    ProtobufCMessage *answer; /* set on BASE_OK */
    struct base_error error;
};

enum srv_grpc__kind {
    SRV_GRPC__QUERY, /* answered at once, by `answer` */
    SRV_GRPC__INFER,
    SRV_GRPC__STREAM, /* any number of requests, and their answers */
    SRV_GRPC__DIALOG, /* `talk` speaks */
    SRV_GRPC__ORDER,  /* of that kind; answered when it has ended */
};

struct srv_grpc__talk; /* dialog.h */

struct srv_grpc__method {
    const char *path;
    enum srv_grpc__kind kind;
    union {
        enum base_status (*answer)(struct srv_grpc__ask *ask); /* QUERY */
        const struct srv_grpc__talk *talk;                     /* DIALOG */
        enum srv_control_kind order;                           /* ORDER */
    };
    bool is_free;     /* asked without a token (server/tokens.h): whether the server lives */
    uint32_t accepts; /* how many calls gRPC may hand over before the loop comes to ask for more */
};

#define SRV_GRPC__METHODS 16u

extern const struct srv_grpc__method srv_grpc__methods[SRV_GRPC__METHODS];

/* Whether a call of it stays open while messages go to and fro; NULL, unknown methods: no. */
static inline bool srv_grpc__stays_open(const struct srv_grpc__method *method)
{
    return method != NULL && (method->kind == SRV_GRPC__STREAM || method->kind == SRV_GRPC__DIALOG);
}

extern const struct srv_grpc__talk srv_grpc__health_watch; /* health.c */
extern const struct srv_grpc__talk srv_grpc__reflection;   /* reflection.c */

/* The services are the server ("" and its gRPC name) and each model by its name; SERVICE_UNKNOWN
 * for any other. */
Grpc__Health__V1__HealthCheckResponse__ServingStatus
srv_grpc__health_of(const struct srv_core *core, const char *service);

/* ---- Building answers ---- */

enum base_status srv_grpc__no_memory(struct srv_grpc__ask *ask);

/* variable := a new initialised message of its type in the arena; returns from the calling function
 * when there is no memory. init is protobuf-c's function for the type. */
#define SRV_GRPC__NEW(ask, variable, init)                                                         \
    do {                                                                                           \
        (variable) = base_arena_alloc((ask)->arena, sizeof *(variable));                           \
        if ((variable) == NULL) {                                                                  \
            return srv_grpc__no_memory(ask);                                                       \
        }                                                                                          \
        init(variable);                                                                            \
    } while (0)

/* variable := a new array of count zeroed elements, often pointers. */
#define SRV_GRPC__NEW_ARRAY(ask, variable, count)                                                  \
    do {                                                                                           \
        size_t element_bytes_ = sizeof *(variable); /* NOLINT(bugprone-sizeof-expression) */       \
        (variable) = base_arena_array((ask)->arena, (count), element_bytes_);                      \
        if ((variable) == NULL) {                                                                  \
            return srv_grpc__no_memory(ask);                                                       \
        }                                                                                          \
    } while (0)

/* protobuf-c's strings are not const, so each is a copy. */
enum base_status srv_grpc__copy_text(struct srv_grpc__ask *ask, const char *text, char **out);

/* The model that query.first and query.second name; NOT_FOUND and the message otherwise. */
enum base_status srv_grpc__find_model(struct srv_grpc__ask *ask, const struct srv_model **out);

/* ---- Methods about one model, in models.c ---- */

enum base_status srv_grpc__model_metadata(struct srv_grpc__ask *ask);
enum base_status srv_grpc__model_config(struct srv_grpc__ask *ask);
enum base_status srv_grpc__model_statistics(struct srv_grpc__ask *ask);

#endif
