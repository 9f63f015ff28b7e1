/* See cache_file.h. */
#include "cells/cache_file.h"

#include "base/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_BYTES 4096
#define HASH_MARK  "\nhash "

static void write_hash(struct base_buf *out)
{
    struct base_hash hash = base_hash_bytes(out->data, out->length);
    base_buf_printf(out, "hash %016" PRIx64 "%016" PRIx64 "\n", hash.high, hash.low);
}

/* Bytes read, or -1 with errno. */
static ssize_t read_all(int fd, char *out, size_t most)
{
    size_t n = 0;
    while (n < most) {
        ssize_t got = read(fd, out + n, most - n);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return -1;
        }
        if (got == 0) {
            break;
        }
        n += (size_t)got;
    }
    return (ssize_t)n;
}

static bool write_all(int fd, const char *bytes, size_t length)
{
    size_t n = 0;
    while (n < length) {
        ssize_t put = write(fd, bytes + n, length - n);
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put <= 0) {
            return false;
        }
        n += (size_t)put;
    }
    return true;
}

static enum base_status unusable(const char *path, const char *why, struct base_error *error)
{
    return base_fail(error, BASE_FAILED_PRECONDITION, "%.200s: %s", path, why);
}

static const char *errno_text(void)
{
    return strerror(errno); // NOLINT(concurrency-mt-unsafe): of an errno, a static text in glibc
}

/* The file's bytes and a NUL behind them. */
static enum base_status load_text(const char *path, char out[CELL_CACHE_FILE_BYTES], size_t *length,
                                  struct base_error *error)
{
    struct stat info;
    *length = 0;
    out[0] = '\0';
    // Nothing that reading could wait for.
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT) {
        return base_fail(error, BASE_NOT_FOUND, "%.200s: not there", path);
    }
    if (fd < 0) {
        return unusable(path, errno_text(), error);
    }
    enum base_status status = BASE_OK;
    ssize_t got = 0;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        status = unusable(path, "not a regular file", error);
    } else {
        got = read_all(fd, out, CELL_CACHE_FILE_BYTES);
    }
    if (got < 0) {
        status = unusable(path, errno_text(), error);
    } else if (got == CELL_CACHE_FILE_BYTES) {
        status = unusable(path, "too long", error);
    }
    (void)close(fd);
    *length = status == BASE_OK ? (size_t)got : 0;
    out[*length] = '\0';
    return status;
}

/* ---- Reading -------------------------------------------------------------------------------- */

/* Whether the last line is the hash of all before it. */
static bool is_whole(const char *text, size_t length, size_t *hashed_bytes)
{
    const char *mark = NULL;
    for (const char *at = text; (at = strstr(at, HASH_MARK)) != NULL; at++) {
        mark = at;
    }
    if (mark == NULL) {
        return false;
    }
    size_t hashed = (size_t)(mark - text) + 1;
    struct base_buf wanted;
    base_buf_init(&wanted, (size_t)2 * CELL_CACHE_FILE_BYTES);
    base_buf_add(&wanted, text, hashed);
    write_hash(&wanted);
    bool is_same =
        !wanted.failed && wanted.length == length && memcmp(wanted.data, text, length) == 0;
    base_buf_release(&wanted);
    *hashed_bytes = hashed;
    return is_same;
}

enum base_status cell_cache_file_read(const char *path, char out[CELL_CACHE_FILE_BYTES],
                                      struct base_error *error)
{
    size_t length = 0;
    size_t hashed = 0;
    BASE_TRY(load_text(path, out, &length, error));
    if (!is_whole(out, length, &hashed)) {
        return unusable(path, "damaged: it does not end with the hash of its lines", error);
    }
    out[hashed] = '\0';
    return BASE_OK;
}

/* Names the first line of the key that another program or machine has written. */
enum base_status cell_cache_file_check(const char *path, const char *text, const char *key,
                                       struct base_error *error)
{
    while (*key != '\0') {
        size_t has = strcspn(text, "\n");
        size_t wants = strcspn(key, "\n");
        if (has != wants || memcmp(text, key, has) != 0) {
            return base_fail(error, BASE_FAILED_PRECONDITION,
                             "%.160s: measured elsewhere: it has \"%.*s\", here \"%.*s\"", path,
                             (int)(has < 80 ? has : 80), text, (int)(wants < 80 ? wants : 80), key);
        }
        text += has + (text[has] == '\n');
        key += wants + 1;
    }
    return BASE_OK;
}

/* ---- Writing -------------------------------------------------------------------------------- */

static enum base_status failed(const char *path, struct base_error *error)
{
    return base_fail(error, BASE_UNAVAILABLE, "%.200s: %s", path, errno_text());
}

/* Into a file of this process beside the one that is meant, which then takes its place. */
static enum base_status replace(const char *path, const struct base_buf *text,
                                struct base_error *error)
{
    char beside[PATH_BYTES + 32];
    (void)snprintf(beside, sizeof(beside), "%s.%ld", path, (long)getpid());
    (void)unlink(beside); // of an earlier process of this number
    int fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0) {
        return failed(beside, error);
    }
    bool is_written = write_all(fd, text->data, text->length);
    is_written = close(fd) == 0 && is_written;
    if (!is_written || rename(beside, path) != 0) {
        enum base_status status = failed(path, error);
        (void)unlink(beside);
        return status;
    }
    return BASE_OK;
}

enum base_status cell_cache_file_write(const char *folder, const char *path, struct base_buf *text,
                                       struct base_error *error)
{
    if (mkdir(folder, 0755) != 0 && errno != EEXIST) {
        return failed(folder, error);
    }
    write_hash(text);
    return text->failed ? base_fail(error, BASE_UNAVAILABLE, "%.200s: no memory for its text", path)
                        : replace(path, text, error);
}
