/* See external.h. What a model file may open: a regular file in its own folder or below it, by a
 * path without "..". Symbolic links are followed, as they are for the model file: who keeps models
 * makes them (stores that keep a file once, by its hash, do), the model file cannot. */
#include "cells/import/external.h"

#include "base/checked.h"
#include "base/mem.h"
#include "cells/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PATH_BYTES 4096

/* What a tensor says of its place. */
struct place {
    const char *location;
    size_t offset, length;
    bool has_length; /* else all behind the offset */
};

bool cell__external_has(const Onnx__TensorProto *proto)
{
    return proto->has_data_location &&
           proto->data_location != ONNX__TENSOR_PROTO__DATA_LOCATION__DEFAULT;
}

/* ---- What the tensor says ------------------------------------------------------------------- */

/* Decimal digits and nothing else. */
static bool read_number(const char *text, size_t *out)
{
    *out = 0;
    bool is_number = text[0] != '\0';
    for (const char *at = text; *at != '\0' && is_number; at++) {
        is_number = *at >= '0' && *at <= '9' && base_size_mul(*out, 10, out) &&
                    base_size_add(*out, (size_t)(*at - '0'), out);
    }
    return is_number;
}

/* Whether it leads to the folder or below it, as a path. */
static bool stays_below(const char *location)
{
    const char *at = location;
    bool stays = at[0] != '/' && at[0] != '\0';
    while (stays && at != NULL) {
        stays = !(at[0] == '.' && at[1] == '.' && (at[2] == '/' || at[2] == '\0'));
        at = strchr(at, '/');
        at = at == NULL ? NULL : at + 1;
    }
    return stays;
}

enum { LOCATION = 1, OFFSET = 2, LENGTH = 4, CHECKSUM = 8 };

static unsigned key_of(const char *key)
{
    return strcmp(key, "location") == 0   ? LOCATION
           : strcmp(key, "offset") == 0   ? OFFSET
           : strcmp(key, "length") == 0   ? LENGTH
           : strcmp(key, "checksum") == 0 ? CHECKSUM
                                          : 0;
}

static enum base_status read_entry(struct cell__import *im, const char *name,
                                   const Onnx__StringStringEntryProto *entry, unsigned *given,
                                   struct place *out)
{
    char text[CELL__TEXT_BYTES];
    char quoted[CELL__TEXT_BYTES];
    const char *value = entry->value == NULL ? "" : entry->value;
    const unsigned key = key_of(entry->key == NULL ? "" : entry->key);
    if (key == 0 || (*given & key) != 0) {
        return cell__invalid(im, "constant \"%s\" has external data with %s key \"%s\"", name,
                             key == 0 ? "the unknown" : "twice the", cell__quote(text, entry->key));
    }
    *given |= key;
    if (key == LOCATION) {
        out->location = value;
        return stays_below(value)
                   ? BASE_OK
                   : cell__invalid(im,
                                   "constant \"%s\" lies in \"%s\", which is no path below the "
                                   "model's folder",
                                   name, cell__quote(text, value));
    }
    size_t *number = key == OFFSET ? &out->offset : &out->length;
    if (key != CHECKSUM && !read_number(value, number)) {
        return cell__invalid(im, "constant \"%s\" has external data with the %s \"%s\"", name,
                             cell__quote(text, entry->key), cell__quote(quoted, value));
    }
    return BASE_OK;
}

static enum base_status read_place(struct cell__import *im, const char *name,
                                   const Onnx__TensorProto *proto, struct place *out)
{
    unsigned given = 0;
    *out = (struct place){0};
    for (size_t i = 0; i < proto->n_external_data; i++) {
        BASE_TRY(read_entry(im, name, proto->external_data[i], &given, out));
    }
    if (out->location == NULL) {
        return cell__invalid(im, "constant \"%s\" has external data without a location", name);
    }
    if (proto->has_raw_data && proto->raw_data.len > 0) {
        return cell__invalid(im, "constant \"%s\" has data inside and outside", name);
    }
    out->has_length = (given & LENGTH) != 0;
    return BASE_OK;
}

/* ---- Files ---------------------------------------------------------------------------------- */

static enum base_status open_file(struct cell__import *im, const char *name, const char *location,
                                  int *fd)
{
    char path[PATH_BYTES];
    char text[CELL__TEXT_BYTES];
    char reason[128];
    const char *folder = im->external->folder;
    const int length = snprintf(path, sizeof(path), "%s/%s", folder, location);
    *fd = -1;
    if (length >= 0 && (size_t)length < sizeof(path)) {
        *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    } else {
        errno = ENAMETOOLONG;
    }
    if (*fd < 0) {
        const int number = errno;
        cell__fail(im, BASE_UNAVAILABLE,
                   "constant \"%s\" lies in \"%s\" (external data), which cannot be opened: %s",
                   name, cell__quote(text, location), strerror_r(number, reason, sizeof(reason)));
        return BASE_UNAVAILABLE;
    }
    return BASE_OK;
}

/* What was read may be copied, transposed and joined as the model file's own weights may. */
static void widen_budget(struct cell__import *im, size_t length)
{
    size_t bytes = 0;
    const bool fits = base_size_mul(length, im->external->factor, &bytes) &&
                      base_size_add(im->arena->budget_bytes, bytes, &bytes);
    im->arena->budget_bytes = fits ? bytes : SIZE_MAX;
}

/* A file that no tensor has named before. */
static enum base_status add_file(struct cell__import *im, const char *name, const char *location,
                                 struct cell__external_file **out)
{
    struct cell__external *external = im->external;
    char text[CELL__TEXT_BYTES];
    char what[CELL__TEXT_BYTES + 32];
    struct cell__external_file file = {.location = location};
    int fd = -1;
    void *array = external->files;
    BASE_TRY(cell__grow(im, &array, &external->files_room, external->n_files, sizeof(file),
                        (struct cell__limit){CELL__EXTERNAL_FILES_MAX, "files of external data"}));
    external->files = array;
    BASE_TRY(open_file(im, name, location, &fd));
    (void)snprintf(what, sizeof(what), "external data \"%s\"", cell__quote(text, location));
    const enum base_status status =
        cell_file_read(fd, what, external->room_bytes, &file.bytes, &file.length, im->error);
    (void)close(fd);
    BASE_TRY(status);
    external->room_bytes -= file.length;
    external->bytes += file.length;
    widen_budget(im, file.length);
    *out = &external->files[external->n_files++];
    **out = file;
    return BASE_OK;
}

static enum base_status find_file(struct cell__import *im, const char *name, const char *location,
                                  struct cell__external_file **out)
{
    struct cell__external *external = im->external;
    for (uint32_t f = 0; f < external->n_files; f++) {
        if (strcmp(external->files[f].location, location) == 0) {
            *out = &external->files[f];
            return BASE_OK;
        }
    }
    return add_file(im, name, location, out);
}

enum base_status cell__external_find(struct cell__import *im, const Onnx__TensorProto *proto,
                                     size_t bytes, size_t element_bytes, const void **out)
{
    struct place place;
    char text[CELL__TEXT_BYTES];
    char location[CELL__TEXT_BYTES];
    const char *name = cell__quote(text, proto->name);
    struct cell__external_file *file = NULL;
    if (im->external->folder == NULL) {
        return cell__refuse(im, "constant \"%s\" lies in another file (external data)", name);
    }
    BASE_TRY(read_place(im, name, proto, &place));
    BASE_TRY(find_file(im, name, place.location, &file));
    if (place.offset > file->length ||
        (place.has_length && place.length > file->length - place.offset)) {
        return cell__invalid(im,
                             "constant \"%s\" lies at %zu of \"%s\" and has %zu bytes; the file "
                             "has %zu",
                             name, place.offset, cell__quote(location, place.location),
                             place.has_length ? place.length : bytes, file->length);
    }
    const size_t length = place.has_length ? place.length : file->length - place.offset;
    if (length != bytes) {
        return cell__invalid(im, "constant \"%s\" has %zu bytes of data in \"%s\", its shape %zu",
                             name, length, cell__quote(location, place.location), bytes);
    }
    *out = file->bytes + place.offset;
    if (place.offset % element_bytes != 0) { // file->bytes itself is aligned
        void *copy = base_arena_alloc(im->arena, bytes);
        if (copy == NULL) {
            return cell__no_memory(im);
        }
        memcpy(copy, *out, bytes);
        *out = copy;
    }
    return BASE_OK;
}

void cell__external_release(struct cell__external *external)
{
    for (uint32_t f = 0; f < external->n_files; f++) {
        base_free(external->files[f].bytes);
    }
    *external = (struct cell__external){0};
}
