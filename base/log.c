/* Formats one event on the stack and hands it to the kernel in one write(2), so that lines of
 * several threads never mix and logging never allocates.
 *
 * Process-wide state: level and format, two relaxed atomics. A call site carries its own rate
 * limit: LINES_PER_WINDOW errors or warnings a second, the rest are counted, and the count goes
 * with the next line that is let through. A line costs a few microseconds, most of it the write; a
 * level that is off costs one load. */
#include "base/log.h"

#include "base/assert.h"
#include "base/buf.h"
#include "base/clock.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LINES_PER_WINDOW 5u
#define WINDOW_NS        BASE_NS_PER_S

/* A longer message is cut. A byte of it takes at most 6 in JSON; 256 hold the rest of the line. */
#define MESSAGE_BYTES 1024u
#define LINE_BYTES    (6u * MESSAGE_BYTES + 256u)

static _Atomic int current_level = BASE_LOG_INFO;
static _Atomic int current_format = BASE_LOG_TEXT;

void base_log_configure(enum base_log_level level, enum base_log_format format)
{
    atomic_store_explicit(&current_level, (int)level, memory_order_relaxed);
    atomic_store_explicit(&current_format, (int)format, memory_order_relaxed);
}

bool base_log_is_on(enum base_log_level level)
{
    return (int)level <= atomic_load_explicit(&current_level, memory_order_relaxed);
}

/* true when the site may write now; *left_out is then the number of lines withheld before. Two
 * threads that meet at the turn of a window may let a line or two more through. */
static bool site_admits(struct base_log_site *site, uint64_t now_ns, uint32_t *left_out)
{
    uint64_t start_ns = atomic_load_explicit(&site->window_start_ns, memory_order_relaxed);
    bool is_over = start_ns == 0 || now_ns - start_ns >= WINDOW_NS;
    if (is_over &&
        atomic_compare_exchange_strong_explicit(&site->window_start_ns, &start_ns, now_ns,
                                                memory_order_relaxed, memory_order_relaxed)) {
        atomic_store_explicit(&site->in_window, 0, memory_order_relaxed);
    }
    if (atomic_fetch_add_explicit(&site->in_window, 1, memory_order_relaxed) < LINES_PER_WINDOW) {
        *left_out = atomic_exchange_explicit(&site->left_out, 0, memory_order_relaxed);
        return true;
    }
    atomic_fetch_add_explicit(&site->left_out, 1, memory_order_relaxed);
    return false;
}

static void add_time(struct base_buf *line, uint64_t wall_ns)
{
    time_t seconds = (time_t)(wall_ns / BASE_NS_PER_S);
    struct tm utc;
    char text[32] = "";
    if (gmtime_r(&seconds, &utc) != NULL) {
        (void)strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &utc);
    }
    base_buf_printf(line, "%s.%06uZ", text, (unsigned)(wall_ns % BASE_NS_PER_S / BASE_NS_PER_US));
}

/* Text, with control characters written out: what a client sent can never forge a line. */
static void add_printable(struct base_buf *line, const char *text)
{
    for (const unsigned char *c = (const unsigned char *)text; *c != '\0'; c++) {
        if (*c < 0x20 || *c == 0x7F) {
            base_buf_printf(line, "\\x%02x", *c);
        } else {
            base_buf_add(line, c, 1);
        }
    }
}

static void add_text_line(struct base_buf *line, enum base_log_level level, const char *subsystem,
                          const char *message, uint32_t left_out)
{
    static const char *const labels[] = {"ERROR", "WARN ", "INFO ", "DEBUG"};
    add_time(line, base_wall_ns());
    base_buf_printf(line, " %s %s: ", labels[level], subsystem);
    add_printable(line, message);
    if (left_out > 0) {
        base_buf_printf(line, " left_out=%u", left_out);
    }
    base_buf_add(line, "\n", 1);
}

static void add_json_line(struct base_buf *line, enum base_log_level level, const char *subsystem,
                          const char *message, uint32_t left_out)
{
    static const char *const labels[] = {"error", "warn", "info", "debug"};
    base_buf_text(line, "{\"time\":\"");
    add_time(line, base_wall_ns());
    base_buf_printf(line, "\",\"level\":\"%s\",\"subsystem\":", labels[level]);
    base_buf_json_string(line, subsystem, strlen(subsystem));
    base_buf_text(line, ",\"message\":");
    base_buf_json_string(line, message, strlen(message));
    if (left_out > 0) {
        base_buf_printf(line, ",\"left_out\":%u", left_out);
    }
    base_buf_text(line, "}\n");
}

static void write_all(const char *bytes, size_t length)
{
    size_t done = 0;
    while (done < length) {
        ssize_t n = write(STDERR_FILENO, bytes + done, length - done);
        if (n > 0) {
            done += (size_t)n;
        } else if (n == 0 || errno != EINTR) {
            return; // nobody to tell
        }
    }
}

void base_log_write(struct base_log_site *site, enum base_log_level level, const char *subsystem,
                    const char *format, ...)
{
    base_assert(strlen(subsystem) < 32);
    uint32_t left_out = 0;
    if (level <= BASE_LOG_WARN && !site_admits(site, base_now_ns(), &left_out)) {
        return;
    }
    char message[MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    if (vsnprintf(message, sizeof(message), format, arguments) < 0) {
        message[0] = '\0';
    }
    va_end(arguments);

    // A buffer over memory on the stack: its limit is its capacity, so it never grows.
    char storage[LINE_BYTES];
    struct base_buf line = {
        .data = storage, .capacity = sizeof(storage) - 1, .limit = sizeof(storage) - 1};
    int chosen = atomic_load_explicit(&current_format, memory_order_relaxed);
    if (chosen == (int)BASE_LOG_JSON) {
        add_json_line(&line, level, subsystem, message, left_out);
    } else {
        add_text_line(&line, level, subsystem, message, left_out);
    }
    base_assert(!line.failed);
    write_all(line.data, line.length);
}
