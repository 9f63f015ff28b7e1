#include "server/lines.h"

#include "base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define CHUNK_BYTES ((size_t)64 << 10)

static enum base_status fail_errno(const char *name, int number, struct base_error *error)
{
    char reason[128];
    return base_fail(error, number == ENOENT ? BASE_NOT_FOUND : BASE_INVALID_ARGUMENT, "%s: %s",
                     name, strerror_r(number, reason, sizeof(reason)));
}

static enum base_status read_open(FILE *file, const char *name, struct srv_lines *out,
                                  struct base_error *error)
{
    size_t room = 0;
    do {
        room = room == 0 ? CHUNK_BYTES : room * 2;
        char *longer = base_realloc(out->text, room);
        if (longer == NULL) {
            return base_fail(error, BASE_RESOURCE_EXHAUSTED, "%s: out of memory", name);
        }
        out->text = longer;
        errno = 0;
        out->length += fread(longer + out->length, 1, room - out->length, file);
    } while (out->length == room && room < 2 * SRV_LINES_BYTES_MAX);
    if (ferror(file)) {
        return fail_errno(name, errno, error);
    }
    if (out->length > SRV_LINES_BYTES_MAX) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "%s: longer than %zu MiB", name,
                         SRV_LINES_BYTES_MAX >> 20);
    }
    return BASE_OK;
}

static uint32_t count_lines(const struct srv_lines *lines)
{
    const size_t length = lines->length;
    size_t count = length > 0 && lines->text[length - 1] != '\n' ? 1 : 0;
    for (size_t i = 0; i < length; i++) {
        count += lines->text[i] == '\n' ? 1 : 0;
    }
    return count < UINT32_MAX ? (uint32_t)count : UINT32_MAX;
}

enum base_status srv_lines_read(const char *path, const char *name, struct srv_lines *out,
                                struct base_error *error)
{
    *out = (struct srv_lines){0};
    FILE *file = fopen(path, "rbe");
    if (file == NULL) {
        return fail_errno(name, errno, error);
    }
    const enum base_status status = read_open(file, name, out, error);
    (void)fclose(file);
    if (status != BASE_OK) {
        return status;
    }
    out->count = count_lines(out);
    return out->count > 0 && out->count <= SRV_LINES_MAX
               ? BASE_OK
               : base_fail(error, BASE_INVALID_ARGUMENT, "%s: %u lines, expected 1 to %u", name,
                           out->count, SRV_LINES_MAX);
}

bool srv_lines_next(const struct srv_lines *lines, size_t *at, struct srv_word *out)
{
    if (*at >= lines->length) {
        return false;
    }
    const char *begin = lines->text + *at;
    const size_t left = lines->length - *at;
    const char *feed = memchr(begin, '\n', left);
    size_t length = feed == NULL ? left : (size_t)(feed - begin);
    *at += feed == NULL ? length : length + 1;
    length -= feed != NULL && length > 0 && begin[length - 1] == '\r' ? 1 : 0;
    *out = (struct srv_word){.text = begin, .length = length};
    return true;
}

uint32_t srv_lines_slots(uint32_t n)
{
    uint32_t slots = 2;
    while (slots < 2 * n) {
        slots *= 2;
    }
    return slots;
}
