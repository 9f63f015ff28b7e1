#include "loadgen/number.h"

#include <math.h>
#include <stdlib.h>

bool lg_number_u64(const char *text, size_t length, uint64_t max, uint64_t *out)
{
    if (length == 0) {
        return false;
    }
    uint64_t value = 0;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return false;
        }
        uint64_t digit = (uint64_t)(text[i] - '0');
        if (value > (UINT64_MAX - digit) / 10) {
            return false;
        }
        value = value * 10 + digit;
    }
    *out = value;
    return value <= max;
}

bool lg_number_f64(const char *text, double min, double max, double *out)
{
    // strtod() would also take blanks, hexadecimal, "inf" and "nan".
    for (const char *c = text; *c != '\0'; c++) {
        bool digit = *c >= '0' && *c <= '9';
        if (!digit && *c != '.' && *c != 'e' && *c != 'E' && *c != '-' && *c != '+') {
            return false;
        }
    }
    char *end = NULL;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(value)) {
        return false;
    }
    *out = value;
    return value >= min && value <= max;
}
