/* Whole small files, and their lines: length traces, texts, labels. */
#ifndef LOADGEN_FILE_H
#define LOADGEN_FILE_H

#include "base/buf.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

/* Largest file read, in bytes. */
#define LG_FILE_MAX (256u << 20)

/* Appends the file to *out, which the caller has begun with base_buf_init(). NOT_FOUND when it
 * cannot be opened or read, RESOURCE_EXHAUSTED when it passes the buffer's limit. */
enum base_status lg_file_read(const char *path, struct base_buf *out, struct base_error *error)
    __attribute__((warn_unused_result));

/* What an errno means, in words; static, any thread. */
const char *lg_errno_text(int number);

/* A line without its end (LF or CR LF), inside the buffer it was read from. */
struct lg_line {
    const char *text;
    size_t length;
    size_t number; /* from 1; 0 before the first */
};

/* Moves *line to the next line of contents, the first one when line->number is 0. false at the end;
 * a missing last line end is forgiven. */
bool lg_line_next(const struct base_buf *contents, struct lg_line *line);

#endif
