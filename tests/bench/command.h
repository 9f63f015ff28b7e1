/* Runs a subcommand of cellbatch-bench in the test's own process. */
#ifndef TESTS_BENCH_COMMAND_H
#define TESTS_BENCH_COMMAND_H

#include <jansson.h>
#include <stdint.h>

/* words: the subcommand's name, then its arguments, with blanks between. Returns what it wrote to
 * its standard output, to be freed with base_free(); *result is what it returned. */
char *command_run(int (*run)(int argc, char **argv), const char *words, int *result);

/* The object on a line of such output, from 0 on; the test fails where it is none. */
json_t *command_json(const char *text, uint32_t line);

/* Of an object; the test fails where it is none. */
double command_number(const json_t *object, const char *key);

#endif
