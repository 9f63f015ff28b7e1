/* The second byte's range depends on the first; all others are 80..BF. */
#include "base/utf8.h"

size_t base_utf8_expected(char first)
{
    const unsigned lead = (unsigned char)first;
    if (lead < 0xC2 || lead > 0xF4) {
        return 1;
    }
    return lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
}

size_t base_utf8_length(const char *text, size_t left)
{
    const unsigned char *bytes = (const unsigned char *)text;
    const unsigned lead = bytes[0];
    if (lead < 0x80) {
        return 1;
    }
    const size_t length = base_utf8_expected(text[0]);
    if (length == 1 || length > left) {
        return 0;
    }
    const unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (bytes[1] < low || bytes[1] > high) {
        return 0;
    }
    for (size_t i = 2; i < length; i++) {
        if ((bytes[i] & 0xC0u) != 0x80) {
            return 0;
        }
    }
    return length;
}
