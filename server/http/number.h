/* Numbers as JSON writes them, read into tensor elements and printed from them. Pure; any thread;
 * independent of the locale as long as the process never calls setlocale(). */
#ifndef SERVER_HTTP_NUMBER_H
#define SERVER_HTTP_NUMBER_H

#include <stddef.h>
#include <stdint.h>

/* Reads the number at *at and moves *at behind it. Some byte that cannot continue a number, such as
 * `]`, has to stand before end. Returns NULL, or a static text of what is wrong ("is not a number",
 * ...); *at then stays.
 *
 * f32: the nearest float, ties to even; NaN, Infinity and -Infinity are read too; what rounds
 * beyond the largest float is refused. i64: no fraction, no exponent. */
const char *srv_http_read_f32(const char **at, const char *end, float *out);
const char *srv_http_read_i64(const char **at, const char *end, int64_t *out);

/* Room for any number printed below, without a NUL. */
#define SRV_HTTP_NUMBER_BYTES 24u

/* Print without a NUL and return the bytes written. A float reads back as the same float (-0 too)
 * and always has a point or an exponent; 6 digits where they do, up to 9 otherwise. NaN, Infinity
 * and -Infinity are printed so. */
size_t srv_http_print_f32(char out[SRV_HTTP_NUMBER_BYTES], float value);
/* The same of a double, with 17 digits where it needs them. */
size_t srv_http_print_f64(char out[SRV_HTTP_NUMBER_BYTES], double value);
size_t srv_http_print_i64(char out[SRV_HTTP_NUMBER_BYTES], int64_t value);

#endif
