/* Numbers out of command line words and file fields. The whole text must be the number: no blanks,
 * no sign where none is allowed, nothing behind it. */
#ifndef LOADGEN_NUMBER_H
#define LOADGEN_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decimal digits only, of length bytes. true when *out holds the number and it is <= max. */
bool lg_number_u64(const char *text, size_t length, uint64_t max, uint64_t *out);

/* NUL-terminated; digits with an optional point and exponent. true when finite and within
 * [min, max]. Independent of the locale only as long as the program keeps the "C" one. */
bool lg_number_f64(const char *text, double min, double max, double *out);

#endif
