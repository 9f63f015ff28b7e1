/* Texts of the status enum and the filling of an error. Stateless; any thread. */
#include "base/status.h"

#include "base/assert.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const char *const texts[] = {
#define STATUS_TEXT(name, text) [BASE_##name] = (text),
    BASE_STATUS_MAP(STATUS_TEXT)
#undef STATUS_TEXT
};

static const char *const names[] = {
#define STATUS_NAME(name, text) [BASE_##name] = #name,
    BASE_STATUS_MAP(STATUS_NAME)
#undef STATUS_NAME
};

const char *base_status_text(enum base_status status)
{
    return (unsigned)status < BASE_STATUS_COUNT ? texts[status] : "unknown status";
}

const char *base_status_name(enum base_status status)
{
    return (unsigned)status < BASE_STATUS_COUNT ? names[status] : "UNKNOWN";
}

/* Removes a UTF-8 sequence that the cut at the end of message left incomplete: a message goes into
 * protocols that demand valid UTF-8. */
static void trim_cut_sequence(char *message)
{
    size_t end = strlen(message);
    size_t tail = 0; // continuation bytes (10xxxxxx) at the end
    while (tail < 3 && tail < end && ((unsigned char)message[end - 1 - tail] & 0xC0u) == 0x80u) {
        tail++;
    }
    if (tail == end) {
        return;
    }
    unsigned char lead = (unsigned char)message[end - 1 - tail];
    size_t wanted = lead >= 0xF0u ? 3 : lead >= 0xE0u ? 2 : lead >= 0xC0u ? 1 : 0;
    if (tail < wanted) {
        message[end - 1 - tail] = '\0';
    }
}

enum base_status base_fail(struct base_error *error, enum base_status status, const char *format,
                           ...)
{
    base_assert(status != BASE_OK && (unsigned)status < BASE_STATUS_COUNT);
    if (error == NULL) {
        return status;
    }
    error->status = status;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(error->message, sizeof(error->message), format, arguments);
    va_end(arguments);
    if (length < 0) {
        error->message[0] = '\0';
    } else if ((size_t)length >= sizeof(error->message)) {
        trim_cut_sequence(error->message);
    }
    return status;
}
