/* A scan for brackets, strings and the keys that lead to `data`.
 *
 *   {"id":"a","inputs":[{"name":"x","data":[1,2,3]}]}     text
 *   {"id":"a","inputs":[{"name":"x","data":0}]}           envelope, spans[0] = [1,2,3]
 *
 * A JSON library takes up to 46 times the memory of the text and recurses; nearly all of a request
 * is the numbers of `data`, which are read straight into tensors (json_data.h) instead. The scan
 * follows the grammar only as far as it needs to: it counts brackets, skips strings, and looks at
 * keys at depth 1 and 3. Text that is not JSON may be cut oddly, but stays bounded in depth and is
 * refused by the library afterwards. Cost: one pass, about 1 ns a byte; no state. */
#include "server/http/json_cut.h"

#include "base/assert.h"

#include <stdbool.h>
#include <string.h>

#define INPUT_DEPTH 3u /* { inputs [ { */

/* A span is replaced by its number, at most two digits. */
#define NUMBER_BYTES 2u
_Static_assert(SRV_HTTP_SPANS_MAX <= 100, "a span's number has two digits");

struct scan {
    const char *text;
    size_t length, at;
    uint32_t depth;
    char open[INPUT_DEPTH + 1]; /* the bracket that opened depth 1..3 */
    bool in_inputs;             /* the last key at depth 1 was "inputs" */
    struct srv_http_cut *cut;
    struct base_error *error;
};

static void skip_space(struct scan *scan)
{
    while (scan->at < scan->length && strchr(" \t\r\n", scan->text[scan->at]) != NULL &&
           scan->text[scan->at] != '\0') {
        scan->at++;
    }
}

/* From a quote to behind its partner, or to the end. */
static void skip_string(struct scan *scan)
{
    scan->at++;
    while (scan->at < scan->length && scan->text[scan->at] != '"') {
        scan->at += scan->text[scan->at] == '\\' ? 2 : 1;
    }
    scan->at = scan->at < scan->length ? scan->at + 1 : scan->length;
}

static enum base_status open_bracket(struct scan *scan)
{
    scan->depth++;
    if (scan->depth > SRV_HTTP_DEPTH_MAX) {
        return base_fail(scan->error, BASE_INVALID_ARGUMENT,
                         "JSON nested deeper than %u levels at byte %zu", SRV_HTTP_DEPTH_MAX,
                         scan->at);
    }
    if (scan->depth <= INPUT_DEPTH) {
        scan->open[scan->depth] = scan->text[scan->at];
    }
    scan->at++;
    return BASE_OK;
}

/* From a [ to behind its ]. */
static enum base_status cut_array(struct scan *scan)
{
    struct srv_http_cut *cut = scan->cut;
    size_t start = scan->at;
    uint32_t outside = scan->depth;
    if (cut->n_spans == SRV_HTTP_SPANS_MAX) {
        return base_fail(scan->error, BASE_INVALID_ARGUMENT, "more than %u inputs with data",
                         SRV_HTTP_SPANS_MAX);
    }
    enum base_status status = BASE_OK;
    do {
        char c = scan->text[scan->at];
        if (c == '[') {
            status = open_bracket(scan);
        } else if (c == '"') {
            skip_string(scan);
        } else {
            scan->depth -= c == ']' ? 1 : 0;
            scan->at++;
        }
    } while (status == BASE_OK && scan->depth > outside && scan->at < scan->length);
    if (status == BASE_OK && scan->depth > outside) {
        return base_fail(scan->error, BASE_INVALID_ARGUMENT,
                         "JSON ends within the data that begins at byte %zu", start);
    }
    cut->spans[cut->n_spans].text = scan->text + start;
    cut->spans[cut->n_spans].length = scan->at - start;
    cut->n_spans++;
    return status;
}

/* A string at depth 1 or 3 of the path to `data`; does nothing more when it is not a key. */
static enum base_status take_string(struct scan *scan)
{
    const char *key = scan->text + scan->at + 1;
    skip_string(scan);
    size_t bytes = (size_t)(scan->text + scan->at - key);
    bytes -= bytes > 0 ? 1 : 0; // the closing quote
    skip_space(scan);
    if (scan->at == scan->length || scan->text[scan->at] != ':') {
        return BASE_OK;
    }
    scan->at++;
    if (scan->depth == 1) {
        scan->in_inputs = bytes == 6 && memcmp(key, "inputs", 6) == 0;
        return BASE_OK;
    }
    if (memchr(key, '\\', bytes) != NULL) {
        return base_fail(scan->error, BASE_INVALID_ARGUMENT,
                         "a key of an input contains an escape at byte %zu",
                         (size_t)(key - scan->text));
    }
    if (bytes != 4 || memcmp(key, "data", 4) != 0) {
        return BASE_OK;
    }
    skip_space(scan);
    if (scan->at == scan->length || scan->text[scan->at] != '[') {
        return base_fail(scan->error, BASE_INVALID_ARGUMENT,
                         "data of an input has to be an array, at byte %zu", scan->at);
    }
    return cut_array(scan);
}

static bool is_key_place(const struct scan *scan)
{
    return (scan->depth == 1 && scan->open[1] == '{') ||
           (scan->depth == INPUT_DEPTH && scan->in_inputs && scan->open[1] == '{' &&
            scan->open[2] == '[' && scan->open[INPUT_DEPTH] == '{');
}

/* The text without its spans, in scratch. */
static enum base_status build_envelope(const struct scan *scan, struct base_arena *scratch)
{
    struct srv_http_cut *cut = scan->cut;
    char *envelope = base_arena_alloc(scratch, scan->length);
    if (envelope == NULL) {
        return base_fail(scan->error, BASE_RESOURCE_EXHAUSTED, "JSON around the data is too large");
    }
    const char *from = scan->text;
    size_t length = 0;
    for (uint32_t i = 0; i < cut->n_spans; i++) {
        const struct srv_http_span *span = &cut->spans[i];
        size_t bytes = (size_t)(span->text - from);
        memcpy(envelope + length, from, bytes);
        length += bytes;
        if (i >= 10) {
            envelope[length++] = (char)('0' + i / 10);
        }
        envelope[length++] = (char)('0' + i % 10);
        from = span->text + span->length;
    }
    size_t rest = (size_t)(scan->text + scan->length - from);
    memcpy(envelope + length, from, rest);
    cut->envelope.text = envelope;
    cut->envelope.length = length + rest;
    base_assert(cut->envelope.length <= scan->length);
    return BASE_OK;
}

enum base_status srv_http_json_cut(const char *text, size_t length, struct base_arena *scratch,
                                   struct srv_http_cut *out, struct base_error *error)
{
    struct scan scan = {.text = text, .length = length, .cut = out, .error = error};
    *out = (struct srv_http_cut){.envelope = {text, length}};
    enum base_status status = BASE_OK;
    while (status == BASE_OK && scan.at < length) {
        switch (text[scan.at]) {
        case '"':
            if (is_key_place(&scan)) {
                status = take_string(&scan);
            } else {
                skip_string(&scan);
            }
            break;
        case '{':
        case '[':
            status = open_bracket(&scan);
            break;
        case '}':
        case ']':
            scan.depth -= scan.depth > 0 ? 1 : 0;
            scan.at++;
            break;
        default:
            scan.at++;
        }
    }
    return status != BASE_OK || out->n_spans == 0 ? status : build_envelope(&scan, scratch);
}

size_t srv_http_cut_origin(const struct srv_http_cut *cut, const char *text, size_t position)
{
    size_t added = 0;
    for (uint32_t i = 0; i < cut->n_spans; i++) {
        size_t number = i < 10 ? 1 : NUMBER_BYTES;
        size_t start = (size_t)(cut->spans[i].text - text); // in the text
        if (position + added < start + number) {
            break;
        }
        added += cut->spans[i].length - number;
    }
    return position + added;
}
