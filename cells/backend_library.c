/* Loading libraries of backends; see backend_library.h. */
#include "cells/backend_library.h"

#include "base/assert.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FILE_NAME  "libcellbatch_cuda.so"
#define PATH_BYTES 4096

/* What it has; asked for before it is loaded, which may take a second. */
static const char *const names[] = {"cuda", "cuda-exact"};

/* path := the program's folder and what follows, or "" when that is not known. */
static void beside_program(char path[PATH_BYTES], const char *relative)
{
    char program[PATH_BYTES];
    const ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
    path[0] = '\0';
    if (length > 0) {
        program[length] = '\0';
        char *slash = strrchr(program, '/');
        base_assert(slash != NULL);
        *slash = '\0';
        const int n = snprintf(path, PATH_BYTES, "%.3900s/%s", program, relative);
        base_assert(n > 0 && n < PATH_BYTES);
    }
}

/* The first of the places that has a file; else the system's search. */
static void *open_library(struct base_error *error)
{
    static const char *const places[] = {FILE_NAME, "../lib/" FILE_NAME};
    char path[PATH_BYTES];
    for (uint32_t p = 0; p < sizeof(places) / sizeof(places[0]); p++) {
        beside_program(path, places[p]);
        if (path[0] != '\0' && access(path, F_OK) == 0) {
            void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
            if (library == NULL) {
                const char *why = dlerror(); // NOLINT(concurrency-mt-unsafe): of this thread
                (void)base_fail(error, BASE_UNAVAILABLE, "cannot load %s", why);
            }
            return library;
        }
    }
    void *library = dlopen(FILE_NAME, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        const char *why = dlerror(); // NOLINT(concurrency-mt-unsafe): of this thread
        (void)base_fail(error, BASE_UNAVAILABLE,
                        "no " FILE_NAME
                        " beside the program, in ../lib or on the library path; it is "
                        "built by `make CUDA=1` (%s)",
                        why);
    }
    return library;
}

static bool is_of_this_program(const struct cell_backend_library *library)
{
    static const uint32_t sizes[] = CELL_LIBRARY_SIZES;
    _Static_assert(sizeof(sizes) == sizeof(library->sizes), "all of them");
    return memcmp(library->sizes, sizes, sizeof(sizes)) == 0;
}

static const struct cell_backend *find_in(const struct cell_backend_library *library,
                                          const char *name)
{
    for (uint32_t i = 0; library->backends[i] != NULL; i++) {
        if (strcmp(library->backends[i]->name, name) == 0) {
            return library->backends[i];
        }
    }
    return NULL;
}

static enum base_status find_outside(const char *name, const struct cell_backend **out,
                                     struct base_error *error)
{
    void *object = open_library(error);
    if (object == NULL) {
        return BASE_UNAVAILABLE;
    }
    const struct cell_backend_library *library = dlsym(object, CELL_LIBRARY_SYMBOL);
    if (library == NULL || !is_of_this_program(library)) {
        (void)dlclose(object);
        return base_fail(error, BASE_UNAVAILABLE, FILE_NAME " is of another version of cellbatch");
    }
    *out = find_in(library, name);
    return *out != NULL
               ? BASE_OK
               : base_fail(error, BASE_INVALID_ARGUMENT, "no backend '%s' in " FILE_NAME, name);
}

enum base_status cell_backend_load(const char *name, const struct cell_backend **out,
                                   struct base_error *error)
{
    *out = cell_backend_find(name);
    for (uint32_t i = 0; i < sizeof(names) / sizeof(names[0]) && *out == NULL; i++) {
        if (strcmp(names[i], name) == 0) {
            return find_outside(name, out, error);
        }
    }
    return *out != NULL
               ? BASE_OK
               : base_fail(error, BASE_INVALID_ARGUMENT, "no backend '%s' in this program", name);
}
