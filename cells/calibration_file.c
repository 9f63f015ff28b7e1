/* See calibration_file.h. The text is lines of a word and what belongs to it:
 *
 *   cellbatch-calibration 5          format
 *   program, processor, caches, device, threads, type, own, rows      the key
 *   plain, ahead, solo, apart, ahead-8, ahead-16, ahead-32             ns a step at 1, 2, 4 ...
 * rows hash                             of all lines above
 *
 * Reading is strict by writing: what was read is written again, and must be the same bytes. */
#include "cells/calibration_file.h"

#include "base/buf.h"
#include "base/hash.h"
#include "cells/cache_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_BYTES 4096

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
    base_buf_text(out, "cellbatch-calibration 5\n");
    base_buf_printf(out, "program %s, build %s\n", key->version, key->build);
    base_buf_printf(out, "processor %s\n", key->processor);
    base_buf_printf(out, "caches %zu %zu %zu\n", key->cache_bytes[0], key->cache_bytes[1],
                    key->cache_bytes[2]);
    base_buf_printf(out, "device %s\n", key->device);
    base_buf_printf(out, "threads %u in %u teams, %s\n", key->team_threads, key->teams,
                    key->is_pinned ? "pinned" : "not pinned");
    base_buf_printf(out, "type %016" PRIx64 "%016" PRIx64 "\n", type->hash.high, type->hash.low);
    base_buf_printf(
        out, "own %u %u %u %u %u %u, %s, %s, %s, %s\n", calibration->own.ahead_rows,
        calibration->own.fill_steps, calibration->own.solo_rows, calibration->own.apart_rows,
        calibration->own.beside_rows, calibration->own.knee_rows,
        cell_calibration_has(calibration, CELL_TUNABLE_WINDOWS) ? "windows" : "no windows",
        cell_calibration_has(calibration, CELL_TUNABLE_TEAM) ? "team" : "no team",
        cell_calibration_has(calibration, CELL_TUNABLE_APART) ? "apart" : "not apart",
        cell_calibration_has(calibration, CELL_TUNABLE_BESIDE) ? "beside" : "not beside");
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

/* ---- Reading -------------------------------------------------------------------------------- */

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
    BASE_TRY(cell_cache_file_check(path, text, key->data, error));
    struct cell_calibration read = *calibration;
    struct base_buf again;
    parse_times(text + key->length, &read);
    base_buf_init(&again, CELL_CACHE_FILE_BYTES);
    write_times(&read, &again);
    bool is_same = !again.failed && strcmp(text + key->length, again.data) == 0;
    base_buf_release(&again);
    if (!is_same) {
        return base_fail(error, BASE_FAILED_PRECONDITION,
                         "%.200s: its times are not numbers as we write them", path);
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
    char text[CELL_CACHE_FILE_BYTES];
    if (!path_of(folder, key, type, calibration->rows_limit, path)) {
        return base_fail(error, BASE_FAILED_PRECONDITION, "%.200s: path too long", folder);
    }
    BASE_TRY(cell_cache_file_read(path, text, error));
    struct base_buf wanted;
    base_buf_init(&wanted, CELL_CACHE_FILE_BYTES);
    write_key(key, type, calibration, &wanted);
    enum base_status status = wanted.failed
                                  ? base_fail(error, BASE_RESOURCE_EXHAUSTED, "out of memory")
                                  : parse(path, text, &wanted, calibration, error);
    base_buf_release(&wanted);
    return status;
}

/* ---- Writing -------------------------------------------------------------------------------- */

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
    base_buf_init(&text, CELL_CACHE_FILE_BYTES - 1);
    write_key(key, type, calibration, &text);
    write_times(calibration, &text);
    enum base_status status = cell_cache_file_write(folder, path, &text, error);
    base_buf_release(&text);
    return status;
}
