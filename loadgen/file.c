#include "loadgen/file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

const char *lg_errno_text(int number)
{
    const char *text = strerrordesc_np(number); // strerror() is not thread-safe
    return text == NULL ? "unknown error" : text;
}

static enum base_status read_all(FILE *file, const char *path, struct base_buf *out,
                                 struct base_error *error)
{
    char block[16384];
    for (;;) {
        size_t got = fread(block, 1, sizeof(block), file);
        base_buf_add(out, block, got);
        if (out->failed) {
            return base_fail(error, BASE_RESOURCE_EXHAUSTED, "%s: larger than %zu bytes", path,
                             out->limit);
        }
        if (got < sizeof(block)) {
            break;
        }
    }
    if (ferror(file) != 0) {
        return base_fail(error, BASE_NOT_FOUND, "%s: cannot be read: %s", path,
                         lg_errno_text(errno));
    }
    return BASE_OK;
}

enum base_status lg_file_read(const char *path, struct base_buf *out, struct base_error *error)
{
    FILE *file = fopen(path, "rbe");
    if (file == NULL) {
        return base_fail(error, BASE_NOT_FOUND, "%s: %s", path, lg_errno_text(errno));
    }
    enum base_status status = read_all(file, path, out, error);
    (void)fclose(file);
    return status;
}

bool lg_line_next(const struct base_buf *contents, struct lg_line *line)
{
    size_t start = 0;
    if (line->number > 0) {
        const char *end = line->text + line->length;
        const char *stop = contents->data + contents->length;
        if (end < stop && *end == '\r') {
            end++;
        }
        if (end == stop) {
            return false;
        }
        start = (size_t)(end + 1 - contents->data);
    }
    if (start >= contents->length) {
        return false;
    }
    const char *text = contents->data + start;
    size_t left = contents->length - start;
    const char *newline = memchr(text, '\n', left);
    line->text = text;
    line->length = newline == NULL ? left : (size_t)(newline - text);
    if (newline != NULL && line->length > 0 && text[line->length - 1] == '\r') {
        line->length--;
    }
    line->number++;
    return true;
}
