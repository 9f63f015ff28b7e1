/* A strict reader of the Prometheus text format 0.0.4, for tests of whatever writes it. */
#ifndef TESTS_SERVER_EXPOSITION_H
#define TESTS_SERVER_EXPOSITION_H

#include <stdbool.h>
#include <stddef.h>

#define EXPOSITION_ERROR_BYTES 256

/* Checks a whole page: every line well-formed and ended by a line feed, HELP and TYPE once and
 * before a family's samples, families not interleaved, no series twice, a counter's name in _total
 * and its value not negative, a histogram's bounds rising, its counts cumulative and ending in
 * +Inf = _count. On false, error says what and in which line. */
bool exposition_check(const char *text, size_t length, char error[EXPOSITION_ERROR_BYTES]);

/* The value of a series written exactly so, such as `up{job="x"}`; false when there is none. */
bool exposition_find(const char *text, const char *series, double *out);

#endif
