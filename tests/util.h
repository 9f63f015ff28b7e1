/* What the test programs share: the runner, seeds, paths, float comparison, files.
 *
 * A suite's main() ends with `return util_run(suite);`. Cases run in a process of their own unless
 * CK_FORK=no, which tests/run.sh sets for sanitizer builds. */
#ifndef TESTS_UTIL_H
#define TESTS_UTIL_H

#include "base/random.h"
#include "tests/seed.h"

#include <check.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Runs the suite, frees it, prints the seed when something failed. Returns main()'s result. */
int util_run(Suite *suite);

/* Ends the current case as skipped; tests/run.sh counts and prints the reason. Use it as
 * `if (cannot) { util_skip("no AVX-512 here"); return; }`. */
void util_skip(const char *reason);

/* CELLBATCH_SEED, or 1. Every random test takes its numbers from it. */
uint64_t util_seed(void);

/* Of many cases that are alike, few: CELLBATCH_QUICK is set where an emulator runs them, or tsan.
 */
bool util_is_quick(void);

/* Folder of large test data (CELLBATCH_DATA), NULL when not given. */
const char *util_data_path(void);

/* true when function(argument), called in a process of its own, ends by abort(). */
bool util_aborts(void (*function)(void *argument), void *argument);

#define UTIL_PATH_BYTES 4096

/* path := the root of the source tree and relative, such as "tests/golden/x.json". */
void util_repo_path(char path[UTIL_PATH_BYTES], const char *relative);

/* path := a new empty directory; end it with util_remove_tree(). */
void util_temp_dir(char path[UTIL_PATH_BYTES]);
void util_remove_tree(const char *path);

/* Writes a small file, with the directories above it; fails the case when it cannot. */
void util_write_file(const char *path, const char *text);

/* The whole file and a NUL behind it, to be ended with base_free(); NULL when it cannot be read.
 * length may be NULL. */
char *util_read_file(const char *path, size_t *length);

/* That the document (such as "docs/configuration.md") has made between its marks, `<!-- NAME: begin
 * -->` and
 * `<!-- NAME: end -->`. With CELLBATCH_UPDATE_DOCS=1 it is written there. */
void util_expect_made(const char *document, const char *name, const char *made);

/* A JSON file below the root of the tree; fails the case when it is missing or malformed. */
json_t *util_load_json(const char *relative);

/* |got - want| <= absolute + relative * |want|; equal infinities and two NaN are close. */
bool util_is_close(double got, double want, double absolute, double relative);

/* The same as an assertion that prints both. Floats are widened by the call. */
#define util_assert_close(got, want, absolute, relative)                                           \
    ck_assert_msg(util_is_close((double)(got), (double)(want), absolute, relative),                \
                  "%s is %.9g, wanted %s = %.9g", #got, (double)(got), #want, (double)(want))

#endif
