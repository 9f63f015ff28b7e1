/* Shared by the test programs; see util.h. One thread. */
#include "tests/util.h"

#include "base/assert.h"
#include "base/buf.h"
#include "base/mem.h"

#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

int util_run(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    if (failed > 0) {
        (void)fprintf(stderr, "CELLBATCH_SEED=%llu\n", (unsigned long long)util_seed());
    }
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* A case that loops over what is not there has been skipped once. Where cases share a process
 * nobody says which of them this is, and run.sh counts no more than there are. */
void util_skip(const char *reason)
{
    static bool has_skipped; // of the process, which is a case's own
    const char *forks = getenv("CK_FORK");
    if (!has_skipped || (forks != NULL && strcmp(forks, "no") == 0)) {
        (void)fprintf(stderr, "SKIP: %s\n", reason);
    }
    has_skipped = true;
}

uint64_t util_seed(void)
{
    const char *text = getenv("CELLBATCH_SEED");
    return text == NULL ? 1 : strtoull(text, NULL, 0);
}

struct base_random util_random(uint64_t salt)
{
    struct base_random random;
    base_random_init(&random, util_seed() * 0x100000001B3u ^ salt);
    return random;
}

bool util_is_quick(void)
{
    return getenv("CELLBATCH_QUICK") != NULL;
}

const char *util_data_path(void)
{
    const char *path = getenv("CELLBATCH_DATA");
    return path == NULL || *path == '\0' ? NULL : path;
}

bool util_aborts(void (*function)(void *argument), void *argument)
{
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        // Keep the report of the assertion out of the test's own output, and leave no core file.
        (void)dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO);
        struct rlimit none = {0, 0};
        (void)setrlimit(RLIMIT_CORE, &none);
        function(argument);
        _exit(0);
    }
    int status = 0;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

void util_repo_path(char path[UTIL_PATH_BYTES], const char *relative)
{
#ifdef CELLBATCH_SOURCE_DIR
    const char *root = CELLBATCH_SOURCE_DIR;
#else
    const char *root = ".";
#endif
    int length = snprintf(path, UTIL_PATH_BYTES, "%s/%s", root, relative);
    base_assert(length > 0 && length < UTIL_PATH_BYTES); // also outside of a case
}

void util_temp_dir(char path[UTIL_PATH_BYTES])
{
    const char *parent = getenv("TMPDIR");
    (void)snprintf(path, UTIL_PATH_BYTES, "%s/cellbatch-test-XXXXXX",
                   parent == NULL ? "/tmp" : parent);
    const char *made = mkdtemp(path);
    base_assert(made != NULL);
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *place)
{
    (void)info;
    (void)type;
    (void)place;
    return remove(path);
}

void util_remove_tree(const char *path)
{
    int removed = nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    base_assert(removed == 0);
}

void util_write_file(const char *path, const char *text)
{
    char parent[UTIL_PATH_BYTES];
    (void)snprintf(parent, sizeof(parent), "%s", path);
    for (char *slash = strchr(parent + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(parent, 0700); // most of them exist
        *slash = '/';
    }
    FILE *file = fopen(path, "we");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
}

/* Reads the rest of the file in steps, since a pipe or /proc file does not tell its size. */
static char *read_all(FILE *file, size_t *length)
{
    char *text = NULL;
    size_t used = 0;
    size_t capacity = 4096;
    for (;;) {
        char *larger = base_realloc(text, capacity + 1);
        if (larger == NULL) {
            break;
        }
        text = larger;
        used += fread(text + used, 1, capacity - used, file);
        if (used < capacity) {
            text[used] = '\0';
            *length = used;
            return text;
        }
        capacity *= 2;
    }
    base_free(text);
    return NULL;
}

char *util_read_file(const char *path, size_t *length)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return NULL;
    }
    size_t used = 0;
    char *text = read_all(file, &used);
    bool is_bad = ferror(file) != 0;
    (void)fclose(file);
    if (is_bad) {
        base_free(text);
        return NULL;
    }
    if (length != NULL) {
        *length = used;
    }
    return text;
}

void util_expect_made(const char *document, const char *name, const char *made)
{
    char path[UTIL_PATH_BYTES];
    char begin_mark[64];
    char end_mark[64];
    struct base_buf wanted;
    util_repo_path(path, document);
    char *text = util_read_file(path, NULL);
    ck_assert_ptr_nonnull(text);
    (void)snprintf(begin_mark, sizeof(begin_mark), "<!-- %s: begin -->\n", name);
    (void)snprintf(end_mark, sizeof(end_mark), "<!-- %s: end -->\n", name);
    const char *begin = strstr(text, begin_mark);
    ck_assert_ptr_nonnull(begin);
    begin += strlen(begin_mark);
    const char *end = strstr(begin, end_mark);
    ck_assert_ptr_nonnull(end);
    base_buf_init(&wanted, 1 << 20);
    base_buf_add(&wanted, text, (size_t)(begin - text));
    base_buf_text(&wanted, made);
    base_buf_text(&wanted, end);
    ck_assert(!wanted.failed);
    if (getenv("CELLBATCH_UPDATE_DOCS") != NULL) {
        util_write_file(path, wanted.data);
    } else {
        ck_assert_msg(strcmp(text, wanted.data) == 0,
                      "%s is behind; CELLBATCH_UPDATE_DOCS=1 make test writes it", document);
    }
    base_buf_release(&wanted);
    base_free(text);
}

json_t *util_load_json(const char *relative)
{
    char path[UTIL_PATH_BYTES];
    util_repo_path(path, relative);
    json_error_t error;
    json_t *root = json_load_file(path, 0, &error);
    ck_assert_msg(root != NULL, "%s:%d: %s", path, error.line, error.text);
    return root;
}

bool util_is_close(double got, double want, double absolute, double relative)
{
    if (isnan(got) || isnan(want)) {
        return isnan(got) && isnan(want);
    }
    if (isinf(got) || isinf(want)) {
        return got == want;
    }
    return fabs(got - want) <= absolute + relative * fabs(want);
}
