/* Log lines to stderr: one event a line, text or JSON, ISO-8601 UTC with microseconds.
 *
 * Thread-safe; a line is one write(2). Error and warning lines from the same place are limited to
 * a few a second, with a count of those left out. Who may log: server/ and loadgen/ freely, worker/
 * at start, stop and device faults, cells/ and scheduler/ never. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum base_log_level { BASE_LOG_ERROR, BASE_LOG_WARN, BASE_LOG_INFO, BASE_LOG_DEBUG };
enum base_log_format { BASE_LOG_TEXT, BASE_LOG_JSON };

/* Any thread, any time. */
void base_log_configure(enum base_log_level level, enum base_log_format format);
bool base_log_is_on(enum base_log_level level);

/* One per call site, static; carries the rate limit. */
struct base_log_site {
    _Atomic uint64_t window_start_ns;
    _Atomic uint32_t in_window;
    _Atomic uint32_t left_out;
};

/* subsystem: a short static word, such as "loop". The message reads `text key=value ...`. */
void base_log_write(struct base_log_site *site, enum base_log_level level, const char *subsystem,
                    const char *format, ...) __attribute__((format(printf, 4, 5)));

#define BASE_LOG_AT(level, subsystem, ...)                                                         \
    do {                                                                                           \
        static struct base_log_site base_log_site_;                                                \
        if (base_log_is_on(level)) {                                                               \
            base_log_write(&base_log_site_, level, subsystem, __VA_ARGS__);                        \
        }                                                                                          \
    } while (0)

#define log_error(subsystem, ...) BASE_LOG_AT(BASE_LOG_ERROR, subsystem, __VA_ARGS__)
#define log_warn(subsystem, ...)  BASE_LOG_AT(BASE_LOG_WARN, subsystem, __VA_ARGS__)
#define log_info(subsystem, ...)  BASE_LOG_AT(BASE_LOG_INFO, subsystem, __VA_ARGS__)
#define log_debug(subsystem, ...) BASE_LOG_AT(BASE_LOG_DEBUG, subsystem, __VA_ARGS__)

#endif
