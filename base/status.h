/* The one status enum that crosses every seam, and an error that carries a message.
 *
 * Functions that can fail return enum base_status and hand results out by pointer. Functions whose
 * failure a user will read also take a struct base_error and fill it through base_fail(). A status
 * is turned into a gRPC or HTTP code in one place only (server/status.h). */
#ifndef BASE_STATUS_H
#define BASE_STATUS_H

/* X(name, text). Names follow the gRPC canonical codes, so that the mapping stays one to one. */
#define BASE_STATUS_MAP(X)                                                                         \
    X(OK, "ok")                                                                                    \
    X(CANCELLED, "cancelled")                                                                      \
    X(INVALID_ARGUMENT, "invalid argument")                                                        \
    X(DEADLINE_EXCEEDED, "deadline exceeded")                                                      \
    X(NOT_FOUND, "not found")                                                                      \
    X(ALREADY_EXISTS, "already exists")                                                            \
    X(RESOURCE_EXHAUSTED, "resource exhausted")                                                    \
    X(FAILED_PRECONDITION, "failed precondition")                                                  \
    X(UNIMPLEMENTED, "unimplemented")                                                              \
    X(INTERNAL, "internal error")                                                                  \
    X(UNAVAILABLE, "unavailable")                                                                  \
    X(UNAUTHENTICATED, "unauthenticated")                                                          \
    X(PERMISSION_DENIED, "permission denied")

enum base_status {
#define BASE_STATUS_ENUM(name, text) BASE_##name,
    BASE_STATUS_MAP(BASE_STATUS_ENUM)
#undef BASE_STATUS_ENUM
        BASE_STATUS_COUNT
};

/* Longest message, with its final NUL; a longer one is cut. */
#define BASE_ERROR_BYTES 384

struct base_error {
    enum base_status status;
    char message[BASE_ERROR_BYTES];
};

/* Static text of a status, never NULL. */
const char *base_status_text(enum base_status status);

/* Upper-case name as in the enum without its prefix, such as "NOT_FOUND"; never NULL. */
const char *base_status_name(enum base_status status);

/* Sets *error (may be NULL) to status and the formatted message, and returns status, so that a
 * caller writes `return base_fail(error, BASE_NOT_FOUND, "model %s", name);`. */
enum base_status base_fail(struct base_error *error, enum base_status status, const char *format,
                           ...) __attribute__((format(printf, 3, 4)));

/* Returns from the calling function when expr is not BASE_OK. */
#define BASE_TRY(expr)                                                                             \
    do {                                                                                           \
        enum base_status base_try_status_ = (expr);                                                \
        if (base_try_status_ != BASE_OK)                                                           \
            return base_try_status_;                                                               \
    } while (0)

#endif
