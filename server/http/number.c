/* Fast paths over doubles, which have 29 bits more than a float.
 *
 * Reading: up to 19 digits w and a power of ten within 10^22 give w * 10^e in double with an error
 * of at most 2 units in its last place. Rounding that to float is right unless it lies that close
 * to the middle between two floats, and there, as for longer or very small numbers, strtof()
 * decides. Printing: the value is scaled to 9 digits before the point; of its roundings to 6, 7, 8
 * digits the first that stays nearer to the value than half the distance to the next float is
 * taken, 9 digits are always enough. About 20 ns each way. No state. */
#include "server/http/number.h"

#include "base/assert.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXACT_POWER_MAX 22 /* 10^22 is the largest power of ten that is a double */
#define DIGITS_MAX      19 /* of a decimal that always fits uint64_t */
#define F32_DIGITS      9
#define MIDDLE_MARGIN   8 /* units in the last place of a double; the error is at most 2 */

static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/* A number's text: sign, its first 19 digits, power of ten. */
struct decimal {
    bool negative;
    uint64_t w;
    int exponent;
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Takes the digits at *at into d; those of a fraction lower the exponent. Returns how many. */
static size_t take_digits(const char **at, const char *end, bool fraction, int *n_digits,
                          struct decimal *d)
{
    const char *start = *at;
    const char *p = start;
    for (; p < end && is_digit(*p); p++) {
        if (*n_digits < DIGITS_MAX) {
            d->w = d->w * 10 + (uint64_t)(*p - '0');
            *n_digits += d->w != 0 ? 1 : 0;
            d->exponent -= fraction ? 1 : 0;
        } else {
            // Beyond any exponent of interest already; do not overflow on megabytes of digits.
            d->exponent += !fraction && d->exponent < 1000000 ? 1 : 0;
        }
    }
    *at = p;
    return (size_t)(p - start);
}

/* [eE] [+-]? [0-9]+ at *at, added to the exponent. */
static bool take_power(const char **at, const char *end, struct decimal *d)
{
    const char *p = *at + 1;
    bool down = p < end && *p == '-';
    p += p < end && (*p == '-' || *p == '+') ? 1 : 0;
    const char *digits = p;
    int power = 0;
    for (; p < end && is_digit(*p); p++) {
        power = power < 100000000 ? power * 10 + (*p - '0') : power;
    }
    d->exponent += down ? -power : power;
    *at = p;
    return p > digits;
}

/* JSON's grammar: -? (0 | [1-9][0-9]*) (. [0-9]+)? ([eE] [+-]? [0-9]+)? */
static bool take_decimal(const char **at, const char *end, struct decimal *d)
{
    const char *p = *at;
    int n_digits = 0;
    *d = (struct decimal){0};
    d->negative = p < end && *p == '-';
    p += d->negative ? 1 : 0;
    bool zero = p < end && *p == '0';
    size_t whole = take_digits(&p, end, false, &n_digits, d);
    if (whole == 0 || (zero && whole > 1)) {
        return false;
    }
    if (p < end && *p == '.') {
        p++;
        if (take_digits(&p, end, true, &n_digits, d) == 0) {
            return false;
        }
    }
    if (p < end && (*p == 'e' || *p == 'E') && !take_power(&p, end, d)) {
        return false;
    }
    *at = p;
    return true;
}

/* true when *out is certainly the nearest float. */
static bool fast_f32(const struct decimal *d, float *out)
{
    if (d->exponent < -EXACT_POWER_MAX || d->exponent > EXACT_POWER_MAX) {
        return false;
    }
    double value = (double)d->w;
    value = d->exponent < 0 ? value / powers[-d->exponent] : value * powers[d->exponent];
    if (value != 0 && (value < (double)FLT_MIN || value >= (double)FLT_MAX)) {
        return false;
    }
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    int64_t from_middle = (int64_t)(bits & 0x1FFFFFFF) - 0x10000000;
    if (from_middle >= -MIDDLE_MARGIN && from_middle <= MIDDLE_MARGIN) {
        return false;
    }
    *out = (float)(d->negative ? -value : value);
    return true;
}

static bool take_word(const char **at, const char *end, const char *word)
{
    size_t length = strlen(word);
    if ((size_t)(end - *at) < length || memcmp(*at, word, length) != 0) {
        return false;
    }
    *at += length;
    return true;
}

static bool read_special(const char **at, const char *end, float *out)
{
    if (take_word(at, end, "NaN")) {
        *out = NAN;
    } else if (take_word(at, end, "Infinity")) {
        *out = INFINITY;
    } else if (take_word(at, end, "-Infinity")) {
        *out = -INFINITY;
    } else {
        return false;
    }
    return true;
}

const char *srv_http_read_f32(const char **at, const char *end, float *out)
{
    struct decimal d;
    const char *p = *at;
    if (!take_decimal(&p, end, &d)) {
        return read_special(at, end, out) ? NULL : "is not a number";
    }
    base_assert(p < end);
    if (!fast_f32(&d, out)) {
        // It stops where we did, or at a byte that our caller refuses after a number.
        *out = strtof(*at, NULL);
        if (isinf(*out)) {
            return "is too large for FP32";
        }
    }
    *at = p;
    return NULL;
}

const char *srv_http_read_i64(const char **at, const char *end, int64_t *out)
{
    const char *p = *at;
    bool negative = p < end && *p == '-';
    p += negative ? 1 : 0;
    const char *digits = p;
    int64_t value = 0;
    bool fits = true;
    for (; p < end && is_digit(*p); p++) {
        // Downwards, since INT64_MIN has no positive twin.
        fits = fits && !__builtin_mul_overflow(value, 10, &value) &&
               !__builtin_sub_overflow(value, *p - '0', &value);
    }
    if (p == digits || (*digits == '0' && p - digits > 1)) {
        return "is not an integer";
    }
    if (p < end && (*p == '.' || *p == 'e' || *p == 'E')) {
        return "has a fraction or an exponent, and the tensor holds integers";
    }
    fits = fits && (negative || !__builtin_sub_overflow(0, value, &value));
    if (!fits) {
        return "does not fit 64 bits";
    }
    *out = value;
    *at = p;
    return NULL;
}

/* Copies text without its NUL; returns its length. */
static size_t print_text(char *out, const char *text)
{
    size_t n = 0;
    for (; text[n] != '\0'; n++) {
        out[n] = text[n];
    }
    return n;
}

static size_t print_u64(char *out, uint64_t value)
{
    char reversed[20];
    size_t n = 0;
    do {
        reversed[n++] = (char)('0' + value % 10);
        value /= 10;
    } while (value != 0);
    for (size_t i = 0; i < n; i++) {
        out[i] = reversed[n - 1 - i];
    }
    return n;
}

size_t srv_http_print_i64(char out[SRV_HTTP_NUMBER_BYTES], int64_t value)
{
    size_t sign = value < 0 ? 1 : 0;
    out[0] = '-';
    return sign + print_u64(out + sign, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

/* 10^exponent within 2 units in the last place, for -45..53. */
static double power_of_ten(int exponent)
{
    int size = exponent < 0 ? -exponent : exponent;
    double power = 1;
    for (; size > EXACT_POWER_MAX; size -= EXACT_POWER_MAX) {
        power *= powers[EXACT_POWER_MAX];
    }
    power *= powers[size];
    return exponent < 0 ? 1 / power : power;
}

/* value > 0 as digits * 10^exponent, the digits without trailing zeros. */
static uint64_t shorten(float value, int *exponent)
{
    int binary;
    double x = (double)value;
    (void)frexp(x, &binary);
    // 10^power <= x < 10^(power + 1), or one too low, which only costs a digit's place.
    int power = (int)floor((binary - 1) * 0.30102999566398120);
    double scale = power_of_ten(F32_DIGITS - 1 - power);
    double scaled = x * scale;
    if (scaled >= 1e9) {
        power++;
        scale = power_of_ten(F32_DIGITS - 1 - power);
        scaled = x * scale;
    }
    // Half way to the neighbours, less a margin for the errors here. Below a power of two they
    // stand twice as close.
    double down = (x - (double)nextafterf(value, 0)) * scale * 0.4999999;
    double up =
        value < FLT_MAX ? ((double)nextafterf(value, INFINITY) - x) * scale * 0.4999999 : down;
    uint64_t unit = 1000;
    uint64_t digits;
    for (;; unit /= 10) {
        digits = (uint64_t)(scaled / (double)unit + 0.5);
        double off = (double)(digits * unit) - scaled;
        if (unit == 1 || (off > -down && off < up)) {
            break;
        }
    }
    *exponent = power - (F32_DIGITS - 1);
    for (; unit > 1; unit /= 10) {
        *exponent += 1;
    }
    while (digits % 10 == 0) {
        digits /= 10;
        *exponent += 1;
    }
    return digits;
}

/* d.ddde-12 */
static size_t place_scientific(char *out, const char *digits, size_t n, int top)
{
    size_t at = 0;
    out[at++] = digits[0];
    if (n > 1) {
        out[at++] = '.';
        memcpy(out + at, digits + 1, n - 1);
        at += n - 1;
    }
    out[at++] = 'e';
    if (top < 0) {
        out[at++] = '-';
    }
    return at + print_u64(out + at, (uint64_t)(top < 0 ? -top : top));
}

/* 0.000ddd, dd.d or ddd00.0; the first digit counts 10^top, -5 <= top <= 9. */
static size_t place_fixed(char *out, const char *digits, size_t n, int top)
{
    size_t at = 0;
    if (top < 0) {
        (void)print_text(out, "0.0000");
        at = (size_t)(1 - top);
        memcpy(out + at, digits, n);
        return at + n;
    }
    size_t whole = (size_t)top + 1;
    size_t copied = n < whole ? n : whole;
    memcpy(out, digits, copied);
    memset(out + copied, '0', whole - copied);
    at = whole;
    out[at++] = '.';
    if (n > whole) {
        memcpy(out + at, digits + whole, n - whole);
        return at + n - whole;
    }
    out[at++] = '0';
    return at;
}

size_t srv_http_print_f32(char out[SRV_HTTP_NUMBER_BYTES], float value)
{
    if (isnan(value)) {
        return print_text(out, "NaN");
    }
    size_t sign = signbit(value) ? 1 : 0;
    out[0] = '-';
    if (isinf(value)) {
        return sign + print_text(out + sign, "Infinity");
    }
    if (value == 0) {
        return sign + print_text(out + sign, "0.0");
    }
    int exponent;
    char digits[20];
    size_t n = print_u64(digits, shorten(fabsf(value), &exponent));
    int top = exponent + (int)n - 1;
    return sign + (top < -5 || top > 9 ? place_scientific(out + sign, digits, n, top)
                                       : place_fixed(out + sign, digits, n, top));
}

size_t srv_http_print_f64(char out[SRV_HTTP_NUMBER_BYTES], double value)
{
    char text[SRV_HTTP_NUMBER_BYTES + 8];
    if (!isfinite(value)) {
        return srv_http_print_f32(out, (float)value);
    }
    int length = snprintf(text, sizeof(text), "%.17g", value);
    if (strpbrk(text, ".e") == NULL) {
        length += snprintf(text + length, sizeof(text) - (size_t)length, ".0");
    }
    base_assert(length > 0 && (size_t)length <= SRV_HTTP_NUMBER_BYTES);
    memcpy(out, text, (size_t)length);
    return (size_t)length;
}
