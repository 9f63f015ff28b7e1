/* The text format's rules, checked line by line with one family open at a time.
 *
 * The page is split in place in a copy. Series already seen are kept as a list of pointers to
 * their text and compared one by one: pages in tests are small. */
#include "tests/server/exposition.h"

#include "base/assert.h"
#include "base/mem.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SERIES_MAX 8192u
#define NAMES_MAX  512u

struct page {
    char *error;
    size_t line;
    const char *family; /* the open one, NULL at the start */
    char type[16];      /* "" until its TYPE line */
    size_t samples;     /* of the open family */
    const char *names[NAMES_MAX];
    size_t n_names;
    const char *series[SERIES_MAX];
    size_t n_series;
    /* The histogram series being read. */
    char labels[1024]; /* its labels without le */
    double le, cumulative;
    bool in_buckets, saw_inf;
};

__attribute__((format(printf, 2, 3))) static bool fail(struct page *page, const char *format, ...)
{
    char what[EXPOSITION_ERROR_BYTES - 32];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    (void)snprintf(page->error, EXPOSITION_ERROR_BYTES, "line %zu: %s", page->line, what);
    return false;
}

/* Length of the metric (colons allowed) or label name at text, 0 when there is none. */
static size_t name_length(const char *text, bool colons)
{
    size_t i = 0;
    while (isalpha((unsigned char)text[i]) || text[i] == '_' || (colons && text[i] == ':') ||
           (i > 0 && isdigit((unsigned char)text[i]))) {
        i++;
    }
    return i;
}

static bool open_family(struct page *page, const char *name)
{
    for (size_t i = 0; i < page->n_names; i++) {
        if (strcmp(page->names[i], name) == 0) {
            return fail(page, "family %s again", name);
        }
    }
    base_assert(page->n_names < NAMES_MAX);
    if (page->family != NULL && page->samples == 0) {
        return fail(page, "family %s has no sample", page->family);
    }
    if (page->in_buckets) {
        return fail(page, "histogram %s ends within its buckets", page->family);
    }
    page->names[page->n_names++] = name;
    page->family = name;
    page->type[0] = '\0';
    page->samples = 0;
    return true;
}

/* `# HELP name text` or `# TYPE name type`. */
static bool read_comment(struct page *page, char *line)
{
    bool help = strncmp(line, "# HELP ", 7) == 0;
    if (!help && strncmp(line, "# TYPE ", 7) != 0) {
        return fail(page, "a comment that is neither HELP nor TYPE");
    }
    char *name = line + 7;
    size_t length = name_length(name, true);
    if (length == 0 || name[length] != ' ') {
        return fail(page, "no name after HELP or TYPE");
    }
    name[length] = '\0';
    const char *rest = name + length + 1;
    if (help) {
        for (const char *at = rest; *at != '\0'; at++) {
            if (*at == '\\' && *++at != '\\' && *at != 'n') {
                return fail(page, "a bad escape in HELP");
            }
        }
        return open_family(page, name);
    }
    if (page->family == NULL || strcmp(page->family, name) != 0 || page->samples > 0 ||
        page->type[0] != '\0') {
        return fail(page, "TYPE %s does not follow its HELP", name);
    }
    if (strcmp(rest, "counter") != 0 && strcmp(rest, "gauge") != 0 &&
        strcmp(rest, "histogram") != 0) {
        return fail(page, "type %s", rest);
    }
    size_t name_bytes = strlen(name);
    if (strcmp(rest, "counter") == 0 &&
        (name_bytes < 7 || strcmp(name + name_bytes - 6, "_total") != 0)) {
        return fail(page, "counter %s does not end in _total", name);
    }
    (void)snprintf(page->type, sizeof page->type, "%s", rest);
    return true;
}

/* Reads {key="value",...} at *at: le's value goes to le, the other pairs to others. */
static bool read_labels(struct page *page, const char **at, char others[1024], char le[64])
{
    size_t used = 0;
    const char *p = *at + 1;
    for (bool first = true; first || *p == ','; first = false) {
        p += first ? 0 : 1;
        size_t key = name_length(p, false);
        if (key == 0 || p[key] != '=' || p[key + 1] != '"') {
            return fail(page, "a bad label at %.20s", p);
        }
        const char *value = p + key + 2;
        const char *end = value;
        while (*end != '"') {
            if (*end == '\0' || (*end == '\\' && strchr("\\\"n", *++end) == NULL)) {
                return fail(page, "a bad label value at %.20s", value);
            }
            end++;
        }
        if (key == 2 && strncmp(p, "le", 2) == 0) {
            (void)snprintf(le, 64, "%.*s", (int)(end - value), value);
        } else {
            used += (size_t)snprintf(others + used, 1024 - used, "%.*s,", (int)(end + 1 - p), p);
            base_assert(used < 1024);
        }
        p = end + 1;
    }
    if (*p != '}') {
        return fail(page, "labels not closed at %.20s", p);
    }
    *at = p + 1;
    return true;
}

static bool read_value(const char *text, double *out)
{
    if (strcmp(text, "+Inf") == 0 || strcmp(text, "-Inf") == 0) {
        *out = text[0] == '+' ? (double)INFINITY : -(double)INFINITY;
        return true;
    }
    if (strcmp(text, "NaN") == 0) {
        *out = (double)NAN;
        return true;
    }
    char *end;
    *out = strtod(text, &end);
    return end != text && *end == '\0' && (isdigit((unsigned char)text[0]) || text[0] == '-');
}

static bool check_bucket(struct page *page, const char *others, const char *le_text, double value)
{
    double le;
    if (!read_value(le_text, &le)) {
        return fail(page, "a bucket without a good le");
    }
    if (page->in_buckets && strcmp(page->labels, others) != 0) {
        return fail(page, "buckets of two series interleaved");
    }
    if (page->in_buckets && (le <= page->le || value < page->cumulative)) {
        return fail(page, "bounds or counts of a histogram do not rise");
    }
    (void)snprintf(page->labels, sizeof page->labels, "%s", others);
    page->in_buckets = true;
    page->saw_inf = isinf(le) != 0;
    page->le = le;
    page->cumulative = value;
    return true;
}

static bool check_histogram(struct page *page, const char *suffix, const char *others,
                            const char *le, double value)
{
    if (strcmp(suffix, "_bucket") == 0) {
        return check_bucket(page, others, le, value);
    }
    if (!page->in_buckets || !page->saw_inf || strcmp(page->labels, others) != 0) {
        return fail(page, "%s without all its buckets", suffix);
    }
    if (strcmp(suffix, "_count") == 0) {
        page->in_buckets = false;
        return value == page->cumulative || fail(page, "count differs from the +Inf bucket");
    }
    return strcmp(suffix, "_sum") == 0 || fail(page, "suffix %s", suffix);
}

static bool read_sample(struct page *page, char *line)
{
    size_t name = name_length(line, true);
    const char *at = line + name;
    char others[1024] = "";
    char le[64] = "";
    if (name == 0 || (*at == '{' && !read_labels(page, &at, others, le))) {
        return name > 0 || fail(page, "no name");
    }
    double value;
    if (*at != ' ' || !read_value(at + 1, &value)) {
        return fail(page, "a bad value at %.20s", at);
    }
    size_t family = page->family == NULL ? 0 : strlen(page->family);
    if (family == 0 || page->type[0] == '\0' || strncmp(line, page->family, family) != 0) {
        return fail(page, "a sample outside of its family");
    }
    line[at - line] = '\0';
    for (size_t i = 0; i < page->n_series; i++) {
        if (strcmp(page->series[i], line) == 0) {
            return fail(page, "%s again", line);
        }
    }
    base_assert(page->n_series < SERIES_MAX);
    page->series[page->n_series++] = line;
    page->samples++;
    if (strcmp(page->type, "histogram") == 0) {
        char suffix[16];
        (void)snprintf(suffix, sizeof suffix, "%.*s", (int)(name - family), line + family);
        return check_histogram(page, suffix, others, le, value);
    }
    if (name != family || le[0] != '\0') {
        return fail(page, "a sample outside of its family");
    }
    return strcmp(page->type, "counter") != 0 || value >= 0 || fail(page, "a negative counter");
}

bool exposition_check(const char *text, size_t length, char error[EXPOSITION_ERROR_BYTES])
{
    struct page *page = base_alloc(sizeof *page);
    char *copy = base_alloc(length + 1);
    base_assert(page != NULL && copy != NULL);
    page->error = error;
    error[0] = '\0';
    memcpy(copy, text, length);
    bool good = memchr(text, '\0', length) == NULL || fail(page, "a NUL");
    char *line = copy;
    while (good && *line != '\0') {
        page->line++;
        char *end = strchr(line, '\n');
        if (end == NULL) {
            good = fail(page, "no line feed at the end");
            break;
        }
        *end = '\0';
        good = line[0] == '#' ? read_comment(page, line) : read_sample(page, line);
        line = end + 1;
    }
    if (good && page->in_buckets) {
        good = fail(page, "the page ends within a histogram");
    }
    if (good && page->family != NULL && page->samples == 0) {
        good = fail(page, "family %s has no sample", page->family);
    }
    base_free(copy);
    base_free(page);
    return good;
}

bool exposition_find(const char *text, const char *series, double *out)
{
    size_t length = strlen(series);
    for (const char *line = text; line != NULL && *line != '\0'; line = strchr(line, '\n')) {
        line += *line == '\n' ? 1 : 0;
        if (strncmp(line, series, length) == 0 && line[length] == ' ') {
            char value[64];
            (void)snprintf(value, sizeof value, "%.*s", (int)strcspn(line + length + 1, "\n"),
                           line + length + 1);
            return read_value(value, out);
        }
    }
    return false;
}
