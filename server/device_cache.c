/* See device_cache.h. The text of a file is
 *
 *   cellbatch-device 2               format
 *   program ..., name, key lines     the key
 *   what the device has kept
 *   hash                             cells/cache_file.h's */
#include "server/device_cache.h"

#include "base/hash.h"
#include "base/log.h"
#include "cells/cache_file.h"
#include "server/about.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PATH_BYTES 4096

static bool path_of(const struct srv_device_cache *cache, const char *name, char out[PATH_BYTES])
{
    const struct base_hash hash = base_hash_bytes(name, strlen(name));
    const int length = snprintf(out, PATH_BYTES, "%s/%016" PRIx64 "%016" PRIx64 ".device",
                                cache->folder, hash.high, hash.low);
    return length > 0 && length < PATH_BYTES;
}

static void write_key(const struct srv_device_cache *cache, const char *name, const char *key,
                      struct base_buf *out)
{
    base_buf_text(out, "cellbatch-device 2\n");
    base_buf_printf(out, "program %s, build %s\n", SRV_ABOUT_VERSION, cache->build);
    base_buf_printf(out, "name %s\n", name);
    base_buf_text(out, key);
}

static enum base_status read_file(const char *path, const struct base_buf *wanted, char *out,
                                  size_t bytes, struct base_error *error)
{
    char text[CELL_CACHE_FILE_BYTES];
    if (wanted->failed) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "out of memory");
    }
    BASE_TRY(cell_cache_file_read(path, text, error));
    BASE_TRY(cell_cache_file_check(path, text, wanted->data, error));
    const size_t length = strlen(text + wanted->length) + 1;
    if (length > bytes) {
        return base_fail(error, BASE_FAILED_PRECONDITION, "%.200s: too long", path);
    }
    memcpy(out, text + wanted->length, length);
    return BASE_OK;
}

static bool load(void *context, const char *name, const char *key, char *out, size_t bytes)
{
    const struct srv_device_cache *cache = context;
    struct base_error error = {.status = BASE_OK};
    struct base_buf wanted;
    char path[PATH_BYTES];
    if (!path_of(cache, name, path)) {
        return false; // store() says so
    }
    base_buf_init(&wanted, CELL_CACHE_FILE_BYTES);
    write_key(cache, name, key, &wanted);
    const enum base_status status = read_file(path, &wanted, out, bytes, &error);
    base_buf_release(&wanted);
    if (status != BASE_OK && status != BASE_NOT_FOUND) {
        log_warn("device", "measuring again: %s", error.message);
    }
    return status == BASE_OK;
}

static void store(void *context, const char *name, const char *key, const char *text)
{
    struct srv_device_cache *cache = context;
    struct base_error error = {.status = BASE_OK};
    struct base_buf all;
    char path[PATH_BYTES];
    if (cache->cannot_write) {
        return;
    }
    enum base_status status =
        path_of(cache, name, path)
            ? BASE_OK
            : base_fail(&error, BASE_UNAVAILABLE, "%.200s: path too long", cache->folder);
    if (status == BASE_OK) {
        base_buf_init(&all, CELL_CACHE_FILE_BYTES - 1);
        write_key(cache, name, key, &all);
        base_buf_text(&all, text);
        status = cell_cache_file_write(cache->folder, path, &all, &error);
        base_buf_release(&all);
    }
    if (status != BASE_OK) {
        log_warn("device", "not kept, each start will measure: %s", error.message);
        cache->cannot_write = true;
    }
}

void srv_device_cache_init(struct srv_device_cache *cache, const char *folder)
{
    *cache = (struct srv_device_cache){.table = {.context = cache, .load = load, .store = store},
                                       .folder = folder};
    base_build_id(cache->build);
}

const struct cell_device_cache *srv_device_cache_of(const struct srv_device_cache *cache)
{
    return cache->folder[0] == '\0' ? NULL : &cache->table;
}
