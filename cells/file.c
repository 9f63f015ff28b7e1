/* See file.h. */
#include "cells/file.h"

#include "base/mem.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

static bool read_all(int fd, unsigned char *bytes, size_t length)
{
    size_t done = 0;
    while (done < length) {
        ssize_t n = read(fd, bytes + done, length - done);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return false;
        }
        done += (size_t)n;
    }
    return true;
}

enum base_status cell_file_read(int fd, const char *what, size_t bytes_max, unsigned char **out,
                                size_t *length, struct base_error *error)
{
    struct stat info;
    *out = NULL;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "%.200s is not a regular file", what);
    }
    if (info.st_size <= 0) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "%.200s is empty", what);
    }
    if ((uintmax_t)info.st_size > bytes_max) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "%.200s has %jd bytes; at most %zu", what,
                         (intmax_t)info.st_size, bytes_max);
    }
    *length = (size_t)info.st_size;
    *out = base_alloc(*length);
    if (*out == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "%.200s: no memory for its %zu bytes",
                         what, *length);
    }
    if (!read_all(fd, *out, *length)) {
        base_free(*out);
        *out = NULL;
        return base_fail(error, BASE_UNAVAILABLE, "%.200s cannot be read to its end", what);
    }
    return BASE_OK;
}
