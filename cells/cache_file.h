/* Small texts on disk that are measured once and read at later starts: files that count only when
 * they are whole, in one folder that several processes may share. Blocks on the disk; any thread.
 */
#ifndef CELLS_CACHE_FILE_H
#define CELLS_CACHE_FILE_H

#include "base/buf.h"
#include "base/status.h"

#define CELL_CACHE_FILE_BYTES 8192u

/* The text that was written, and a NUL. NOT_FOUND: there is no file. FAILED_PRECONDITION: it cannot
 * be read, or does not end with the hash of itself; the message names it and says why. */
enum base_status cell_cache_file_read(const char *path, char out[CELL_CACHE_FILE_BYTES],
                                      struct base_error *error);

/* Whether a text that was read begins with `key`, lines that end; else FAILED_PRECONDITION, with
 * the first line that another program or machine has written. */
enum base_status cell_cache_file_check(const char *path, const char *text, const char *key,
                                       struct base_error *error);

/* Whoever reads meanwhile sees the old file or the new one. The folder is made if only it is
 * missing. UNAVAILABLE with file and reason; then nothing has changed. text: what has failed counts
 * as no memory; its hash is added to it. */
enum base_status cell_cache_file_write(const char *folder, const char *path, struct base_buf *text,
                                       struct base_error *error);

#endif
