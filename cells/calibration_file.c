/* See calibration_file.h. The text is lines of a word and what belongs to it:
 *
 *   cellbatch-calibration 2          format
 *   program, processor, caches, device, threads, type, own, rows      the key
 *   plain, ahead, solo, ahead-8, ahead-16, ahead-32                    ns a step at 1, 2, 4 ...
 * rows hash                             of all lines above
 *
 * Reading is strict by writing: what was read is written again, and must be the same bytes. */
#include "cells/calibration_file.h"

#include "base/buf.h"
#include "base/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_BYTES_MAX 8192u
#define PATH_BYTES     4096
#define HASH_MARK      "\nhash "

/* The largest time that is believed: a quarter of an hour. */
#define STEP_NS_MAX ((uint64_t)900 * 1000 * 1000 * 1000)

void cell_calibration_key_init(struct cell_calibration_key *key)
{
    base_build_id(key->build);
    base_cpus_model(key->processor);
    for (uint32_t level = 1; level <= 3; level++) {
        key->cache_bytes[level - 1] = base_cpus_cache_bytes(level);
    }
}

/* ---- Text ----------------------------------------------------------------------------------- */

/* The format, and what the times depend on. */
static void write_key(const struct cell_calibration_key *key, const struct cell_type *type,
                      const struct cell_calibration *calibration, struct base_buf *out)
{
    base_buf_text(out, "cellbatch-calibration 2\n");
    base_buf_printf(out, "program %s, build %s\n", key->version, key->build);
    base_buf_printf(out, "processor %s\n", key->processor);
    base_buf_printf(out, "caches %zu %zu %zu\n", key->cache_bytes[0], key->cache_bytes[1],
                    key->cache_bytes[2]);
    base_buf_printf(out, "device %s\n", key->device);
    base_buf_printf(out, "threads %u in %u teams, %s\n", key->team_threads, key->teams,
                    key->is_pinned ? "pinned" : "not pinned");
    base_buf_printf(out, "type %016" PRIx64 "%016" PRIx64 "\n", type->hash.high, type->hash.low);
    base_buf_printf(out, "own %u %u %u, %s, %s\n", calibration->own.ahead_rows,
                    calibration->own.fill_steps, calibration->own.solo_rows,
                    cell_calibration_has(calibration, CELL_TUNABLE_WINDOWS) ? "windows"
                                                                            : "no windows",
                    cell_calibration_has(calibration, CELL_TUNABLE_TEAM) ? "team" : "no team");
    base_buf_printf(out, "rows %u:", calibration->rows_limit);
    for (uint32_t p = 0; p < CELL_CALIBRATION_POINTS; p++) {
        base_buf_printf(out, " %u", cell_calibration_rows[p]);
    }
    base_buf_text(out, "\n");
}

static void write_times(const struct cell_calibration *calibration, struct base_buf *out)
{
    for (enum cell_variant v = CELL_VARIANT_PLAIN; v < CELL_VARIANTS; v++) {
        base_buf_text(out, cell_variant_name(v));
        for (uint32_t p = 0; p < CELL_CALIBRATION_POINTS; p++) {
            base_buf_printf(out, " %" PRIu64, calibration->step_ns[v][p]);
        }
        base_buf_text(out, "\n");
    }
}

static void write_hash(struct base_buf *out)
{
    struct base_hash hash = base_hash_bytes(out->data, out->length);
    base_buf_printf(out, "hash %016" PRIx64 "%016" PRIx64 "\n", hash.high, hash.low);
}

/* ---- Files ---------------------------------------------------------------------------------- */

/* The name holds the type and the set-up, so that two set-ups of a machine do not chase each other.
 * What only another machine or program would change is found in the file and said. */
static bool path_of(const char *folder, const struct cell_calibration_key *key,
                    const struct cell_type *type, uint32_t rows_limit, char out[PATH_BYTES])
{
    char setup[256];
    int length = snprintf(setup, sizeof(setup), "%s %u %u %d %u", key->device, key->teams,
                          key->team_threads, key->is_pinned, rows_limit);
    size_t bytes = length < (int)sizeof(setup) ? (size_t)length : sizeof(setup) - 1;
    struct base_hash hash = base_hash_bytes(setup, bytes);
    length = snprintf(out, PATH_BYTES, "%s/%016" PRIx64 "%016" PRIx64 "-%08" PRIx32 ".calibration",
                      folder, type->hash.high, type->hash.low, (uint32_t)hash.low);
    return length > 0 && length < PATH_BYTES;
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
static enum base_status load_text(const char *path, char out[FILE_BYTES_MAX], size_t *length,
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
        got = read_all(fd, out, FILE_BYTES_MAX);
    }
    if (got < 0) {
        status = unusable(path, errno_text(), error);
    } else if (got == FILE_BYTES_MAX) {
        status = unusable(path, "too long for a calibration", error);
    }
    (void)close(fd);
    *length = status == BASE_OK ? (size_t)got : 0;
    out[*length] = '\0';
    return status;
}

/* ---- Reading -------------------------------------------------------------------------------- */

/* Whether the last line is the hash of all before it. */
static bool is_whole(const char *text, size_t length)
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
    base_buf_init(&wanted, (size_t)2 * FILE_BYTES_MAX);
    base_buf_add(&wanted, text, hashed);
    write_hash(&wanted);
    bool is_same =
        !wanted.failed && wanted.length == length && memcmp(wanted.data, text, length) == 0;
    base_buf_release(&wanted);
    return is_same;
}

/* Names the first line of the key that another program or machine has written. */
static enum base_status check_key(const char *path, const char *text, const char *wanted,
                                  struct base_error *error)
{
    while (*wanted != '\0') {
        size_t has = strcspn(text, "\n");
        size_t wants = strcspn(wanted, "\n");
        if (has != wants || memcmp(text, wanted, has) != 0) {
            return base_fail(error, BASE_FAILED_PRECONDITION,
                             "%.160s: measured elsewhere: it has \"%.*s\", here \"%.*s\"", path,
                             (int)(has < 80 ? has : 80), text, (int)(wants < 80 ? wants : 80),
                             wanted);
        }
        text += has + (text[has] == '\n');
        wanted += wants + 1;
    }
    return BASE_OK;
}

static void parse_times(const char *text, struct cell_calibration *calibration)
{
    for (enum cell_variant v = CELL_VARIANT_PLAIN; v < CELL_VARIANTS; v++) {
        text += strcspn(text, " \n");
        for (uint32_t p = 0; p < CELL_CALIBRATION_POINTS; p++) {
            char *end = NULL;
            uint64_t ns = strtoull(text, &end, 10);
            calibration->step_ns[v][p] = ns <= STEP_NS_MAX ? ns : 0;
            text = end;
        }
        text += *text == '\n' ? 1 : 0;
    }
}

/* text: a whole file. */
static enum base_status parse(const char *path, const char *text, const struct base_buf *key,
                              struct cell_calibration *calibration, struct base_error *error)
{
    BASE_TRY(check_key(path, text, key->data, error));
    struct cell_calibration read = *calibration;
    struct base_buf again;
    parse_times(text + key->length, &read);
    base_buf_init(&again, FILE_BYTES_MAX);
    write_times(&read, &again);
    bool is_same =
        !again.failed && strncmp(text + key->length, again.data, again.length) == 0 &&
        strncmp(text + key->length + again.length, &HASH_MARK[1], strlen(HASH_MARK) - 1) == 0;
    base_buf_release(&again);
    if (!is_same) {
        return unusable(path, "its times are not numbers as we write them", error);
    }
    *calibration = read;
    return BASE_OK;
}

enum base_status cell_calibration_read(const char *folder, const struct cell_calibration_key *key,
                                       const struct cell_type *type,
                                       struct cell_calibration *calibration,
                                       struct base_error *error)
{
    char path[PATH_BYTES];
    char text[FILE_BYTES_MAX];
    size_t length = 0;
    if (!path_of(folder, key, type, calibration->rows_limit, path)) {
        return base_fail(error, BASE_FAILED_PRECONDITION, "%.200s: path too long", folder);
    }
    BASE_TRY(load_text(path, text, &length, error));
    if (!is_whole(text, length)) {
        return unusable(path, "damaged: it does not end with the hash of its lines", error);
    }
    struct base_buf wanted;
    base_buf_init(&wanted, FILE_BYTES_MAX);
    write_key(key, type, calibration, &wanted);
    enum base_status status = wanted.failed
                                  ? base_fail(error, BASE_RESOURCE_EXHAUSTED, "out of memory")
                                  : parse(path, text, &wanted, calibration, error);
    base_buf_release(&wanted);
    return status;
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

enum base_status cell_calibration_write(const char *folder, const struct cell_calibration_key *key,
                                        const struct cell_type *type,
                                        const struct cell_calibration *calibration,
                                        struct base_error *error)
{
    char path[PATH_BYTES];
    struct base_buf text;
    if (!path_of(folder, key, type, calibration->rows_limit, path)) {
        return base_fail(error, BASE_UNAVAILABLE, "%.200s: path too long", folder);
    }
    if (mkdir(folder, 0755) != 0 && errno != EEXIST) {
        return failed(folder, error);
    }
    base_buf_init(&text, FILE_BYTES_MAX - 1);
    write_key(key, type, calibration, &text);
    write_times(calibration, &text);
    write_hash(&text);
    enum base_status status =
        text.failed ? base_fail(error, BASE_UNAVAILABLE, "%.200s: no memory for its text", path)
                    : replace(path, &text, error);
    base_buf_release(&text);
    return status;
}
