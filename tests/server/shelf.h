/* A model repository in a temporary folder, and an engine and a core without threads to load it
 * into. One at a time. Names are relative to the repository; a failure fails the case. */
#ifndef TESTS_SERVER_SHELF_H
#define TESTS_SERVER_SHELF_H

#include "server/engine.h"
#include "server/repository.h"
#include "tests/util.h"

struct shelf {
    char root[UTIL_PATH_BYTES];
    struct srv_engine *engine;
    struct srv_core *core;
    struct base_error error; /* of the last load */
};
extern struct shelf shelf;

/* A checked fixture: an empty repository, nothing loaded; and its end. */
void shelf_setup(void);
void shelf_teardown(void);

/* The path of a name; valid until the next call. */
const char *shelf_at(const char *name);

void shelf_text(const char *name, const char *text); /* with the folders above it */
void shelf_folder(const char *name);
void shelf_link(const char *name, const char *target);
void shelf_pipe(const char *name);
void shelf_model(const char *name);                                /* a small LSTM that loads */
void shelf_lstm(const char *name, uint32_t hidden, uint64_t seed); /* likewise; it takes states */

/* Loads what lies at path: all of it, or the models of these names. */
enum base_status shelf_load_from(const char *path, bool exit_on_error);
enum base_status shelf_load_names(uint32_t n, const char *const *names, bool exit_on_error);

/* The repository is refused with this status, and the message says both (NULL: no more). */
void shelf_expect_refused(enum base_status status, const char *text, const char *more);

/* Loads what is there beside a good model, without exit_on_error: this model alone is unavailable,
 * and says why. */
void shelf_expect_unavailable(const char *name, const char *version, const char *reason);

#endif
