/* Paths are cut at their slashes, then matched against a table; names are decoded after the cut, so
 * that %2F cannot make a slash, and have to be of an allowlist that has no slash, no NUL and no dot
 * at the start. No state. */
#include "server/http/route.h"

#include <string.h>

#define SEGMENTS_MAX 8u

/* A piece of the path, still encoded. */
struct segment {
    const char *text;
    size_t length;
};

/* Patterns: segments as they are; * is a model's name or a version. */
static const struct {
    const char *pattern;
    enum srv_http_page page;
} table[] = {
    {"v2", SRV_HTTP_SERVER},
    {"v2/health/live", SRV_HTTP_LIVE},
    {"v2/health/ready", SRV_HTTP_READY},
    {"v2/models/stats", SRV_HTTP_STATS},
    {"v2/models/*", SRV_HTTP_MODEL},
    {"v2/models/*/ready", SRV_HTTP_MODEL_READY},
    {"v2/models/*/config", SRV_HTTP_CONFIG},
    {"v2/models/*/stats", SRV_HTTP_STATS},
    {"v2/models/*/infer", SRV_HTTP_INFER},
    {"v2/models/*/generate", SRV_HTTP_GENERATE},
    {"v2/models/*/generate_stream", SRV_HTTP_GENERATE_STREAM},
    {"v2/models/*/versions/*", SRV_HTTP_MODEL},
    {"v2/models/*/versions/*/ready", SRV_HTTP_MODEL_READY},
    {"v2/models/*/versions/*/config", SRV_HTTP_CONFIG},
    {"v2/models/*/versions/*/stats", SRV_HTTP_STATS},
    {"v2/models/*/versions/*/infer", SRV_HTTP_INFER},
    {"v2/models/*/versions/*/generate", SRV_HTTP_GENERATE},
    {"v2/models/*/versions/*/generate_stream", SRV_HTTP_GENERATE_STREAM},
    {"v2/repository/index", SRV_HTTP_INDEX},
    {"v2/repository/models/*/load", SRV_HTTP_LOAD},
    {"v2/repository/models/*/unload", SRV_HTTP_UNLOAD},
};

/* Paths of the protocol's other extensions, so that their clients learn why. */
static const char *const not_served[] = {
    "v2/models/*/trace/setting",
    "v2/trace/setting",
    "v2/logging",
    "v2/systemsharedmemory/status",
    "v2/systemsharedmemory/region/*/status",
    "v2/systemsharedmemory/region/*/register",
    "v2/systemsharedmemory/region/*/unregister",
    "v2/systemsharedmemory/unregister",
    "v2/cudasharedmemory/status",
    "v2/cudasharedmemory/region/*/status",
    "v2/cudasharedmemory/region/*/register",
    "v2/cudasharedmemory/region/*/unregister",
    "v2/cudasharedmemory/unregister",
};

/* The segments of a path that starts with a slash; 0 when it does not, or has too many. */
static uint32_t cut(const char *path, struct segment segments[SEGMENTS_MAX])
{
    uint32_t n = 0;
    while (*path == '/' && path[1] != '\0') {
        if (n == SEGMENTS_MAX) {
            return 0;
        }
        segments[n].text = path + 1;
        segments[n].length = strcspn(path + 1, "/");
        path = segments[n].text + segments[n].length;
        n++;
    }
    return n;
}

static bool is_match(const char *pattern, const struct segment *segments, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        size_t length = strcspn(pattern, "/");
        bool any = length == 1 && pattern[0] == '*';
        if (length == 0 || (!any && (length != segments[i].length ||
                                     memcmp(pattern, segments[i].text, length) != 0))) {
            return false;
        }
        pattern += length;
        pattern += *pattern == '/' ? 1 : 0;
    }
    return *pattern == '\0';
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Letters, digits, _ - and, not at the start, a dot. */
static bool is_name_byte(int c, bool first)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' ||
           c == '-' || (c == '.' && !first);
}

/* Decodes a segment into out; false when it is too long or holds what no name can. */
static bool decode_name(const struct segment *segment, char *out, size_t out_bytes)
{
    size_t n = 0;
    size_t i = 0;
    while (i < segment->length) {
        int c = (unsigned char)segment->text[i++];
        if (c == '%') {
            int high = i < segment->length ? hex_digit(segment->text[i++]) : -1;
            int low = i < segment->length ? hex_digit(segment->text[i++]) : -1;
            c = high < 0 || low < 0 ? -1 : high * 16 + low;
        }
        if (n + 1 >= out_bytes || !is_name_byte(c, n == 0)) {
            return false;
        }
        out[n++] = (char)c;
    }
    out[n] = '\0';
    return n > 0;
}

static bool decode_version(const struct segment *segment, char out[24])
{
    return decode_name(segment, out, 24) && strspn(out, "0123456789") == strlen(out);
}

static int refuse(struct base_error *error, int code, enum base_status status, const char *message)
{
    (void)base_fail(error, status, "%s", message);
    return code;
}

/* 200, or 405 with what is allowed. */
static int check_method(const char *method, bool is_post, const char **allow,
                        struct base_error *error)
{
    bool fits = is_post ? strcmp(method, "POST") == 0
                        : strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
    if (fits) {
        return 200;
    }
    *allow = is_post ? "POST" : "GET, HEAD";
    return refuse(error, 405, BASE_UNIMPLEMENTED,
                  is_post ? "this path takes POST" : "this path takes GET");
}

/* Names of a matched path: segments 2 and 4, or 3 of one that begins with v2/repository. */
static int take_names(const struct segment *segments, uint32_t n, struct srv_http_route *out,
                      struct base_error *error)
{
    bool has_model = out->page == SRV_HTTP_MODEL || out->page == SRV_HTTP_MODEL_READY ||
                     out->page == SRV_HTTP_CONFIG || srv_http_is_inference(out->page) ||
                     srv_http_is_order(out->page) || (out->page == SRV_HTTP_STATS && n > 3);
    const struct segment *model = &segments[srv_http_is_order(out->page) ? 3 : 2];
    if (has_model && !decode_name(model, out->model, sizeof out->model)) {
        return refuse(error, 400, BASE_INVALID_ARGUMENT,
                      "a model's name has only letters, digits, '_', '-' and '.', and no '.' at the"
                      " start");
    }
    if (has_model && model == &segments[2] && n > 4 &&
        !decode_version(&segments[4], out->version)) {
        return refuse(error, 400, BASE_INVALID_ARGUMENT, "a model's version is a number");
    }
    return 200;
}

int srv_http_route_read(const char *method, const char *path, bool is_metrics,
                        struct srv_http_route *out, const char **allow, struct base_error *error)
{
    struct segment segments[SEGMENTS_MAX] = {{NULL, 0}};
    uint32_t n = cut(path, segments);
    *out = (struct srv_http_route){.page = SRV_HTTP_METRICS};
    *allow = NULL;
    if (is_metrics) {
        return n > 0 && is_match("metrics", segments, n)
                   ? check_method(method, false, allow, error)
                   : refuse(error, 404, BASE_NOT_FOUND, "no such path; try /metrics");
    }
    for (size_t i = 0; n > 0 && i < sizeof table / sizeof table[0]; i++) {
        if (is_match(table[i].pattern, segments, n)) {
            out->page = table[i].page;
            int code = check_method(method, srv_http_takes_body(out->page), allow, error);
            return code != 200 ? code : take_names(segments, n, out, error);
        }
    }
    for (size_t i = 0; n > 0 && i < sizeof not_served / sizeof not_served[0]; i++) {
        if (is_match(not_served[i], segments, n)) {
            return refuse(error, 501, BASE_UNIMPLEMENTED,
                          "this extension of the protocol is not served here");
        }
    }
    return refuse(error, 404, BASE_NOT_FOUND, "no such path");
}
