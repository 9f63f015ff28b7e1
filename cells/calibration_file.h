/* Calibrations on disk: a small text file for each type and set-up in one folder, so that a start
 * measures only what is new.
 *
 * A file counts only when it is whole (it ends with a hash of itself) and was measured by the same
 * program on the same kind of processor with the same threads; else it is as good as none, with the
 * reason. Blocks on the disk; any thread; several processes may share a folder. */
#ifndef CELLS_CALIBRATION_FILE_H
#define CELLS_CALIBRATION_FILE_H

#include "base/build.h"
#include "base/cpus.h"
#include "cells/calibration.h"

/* What the times depend on, beside the type and what stands in its calibration. */
struct cell_calibration_key {
    char processor[BASE_CPUS_MODEL_BYTES];
    size_t cache_bytes[3];
    char build[BASE_BUILD_ID_BYTES];
    const char *version; /* of the program */
    const char *device;  /* as it describes itself: backend, instruction set, threads */
    uint32_t teams, team_threads;
    bool is_pinned;
};

/* This machine's processor and caches, and this program's build; the rest is left to the caller. */
void cell_calibration_key_init(struct cell_calibration_key *key);

/* Fills the times of *calibration, whose other fields stand already and belong to the key.
 * NOT_FOUND: there is none. FAILED_PRECONDITION: there is one, but damaged or another's; the
 * message names the file and why. */
enum base_status cell_calibration_read(const char *folder, const struct cell_calibration_key *key,
                                       const struct cell_type *type,
                                       struct cell_calibration *calibration,
                                       struct base_error *error);

/* Whoever reads meanwhile sees the old file or the new one. The folder is made if only it is
 * missing. UNAVAILABLE with file and reason; then nothing has changed. */
enum base_status cell_calibration_write(const char *folder, const struct cell_calibration_key *key,
                                        const struct cell_type *type,
                                        const struct cell_calibration *calibration,
                                        struct base_error *error);

#endif
