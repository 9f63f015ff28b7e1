#include "loadgen/plot.h"

#include "loadgen/file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* A gnuplot string: in single quotes, where only the quote itself needs care. */
static void quote(const char *text, struct base_buf *out)
{
    base_buf_text(out, "'");
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '\'') {
            base_buf_text(out, "''");
        } else if ((unsigned char)*c >= ' ') {
            base_buf_add(out, c, 1);
        }
    }
    base_buf_text(out, "'");
}

/* The points with answers, and how many of them were valid and not. */
static void put_points(const struct lg_point *points, size_t count, size_t seen[2],
                       struct base_buf *out)
{
    base_buf_text(out, "$runs << END\n");
    for (size_t i = 0; i < count; i++) {
        const struct lg_point *p = &points[i];
        if (p->p50_ms > 0) {
            seen[p->valid ? 1 : 0]++;
            base_buf_printf(out, "%.9g %.6f %.6f %.6f %.6f %d\n", p->rate, p->p50_ms, p->p90_ms,
                            p->p99_ms, p->p999_ms, p->valid);
        }
    }
    base_buf_text(out, "END\n");
}

bool lg_plot_script(const char *path, const char *title, const struct lg_point *points,
                    size_t count, struct base_buf *out)
{
    size_t seen[2] = {0}; // INVALID, valid
    base_buf_text(out, "set terminal pngcairo size 960,600 noenhanced\nset output ");
    quote(path, out);
    base_buf_text(out, "\nset title ");
    quote(title, out);
    base_buf_text(out, "\nset xlabel 'load, requests/s'\n"
                       "set ylabel 'latency from the planned send, ms'\n"
                       "set logscale y\nset grid\nset key outside right\n"
                       "set xrange [0:*]\nset datafile missing 'NaN'\n");
    put_points(points, count, seen, out);
    static const char *const names[] = {"p50", "p90", "p99", "p99.9"};
    const char *lead = "plot ";
    for (size_t i = 0; i < 4 && seen[1] > 0; i++) {
        base_buf_printf(out, "%s$runs using 1:($6==1?$%zu:NaN) with linespoints title '%s'", lead,
                        i + 2, names[i]);
        lead = ", \\\n     ";
    }
    if (seen[0] > 0) {
        base_buf_printf(out,
                        "%s$runs using 1:($6==0?$4:NaN) with points pt 2 lc black title "
                        "'p99 of INVALID runs'",
                        lead);
    }
    base_buf_text(out, "\n");
    return seen[0] + seen[1] > 0;
}

/* Writes all of it; false when the reader is gone. SIGPIPE is ignored by the caller. */
static bool write_all(int fd, const char *bytes, size_t length)
{
    size_t at = 0;
    while (at < length) {
        ssize_t put = write(fd, bytes + at, length - at);
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put <= 0) {
            return false;
        }
        at += (size_t)put;
    }
    return true;
}

/* Starts a program with its standard input at the read end of a new pipe; *input is the write end.
 * Returns 0 or an errno. */
static int start(const char *const argv[], int *input, pid_t *child)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return errno;
    }
    // Only read; posix_spawnp()'s type is older than const.
    union {
        const char *const *in;
        char *const *out;
    } words = {.in = argv};
    posix_spawn_file_actions_t actions;
    int failed = posix_spawn_file_actions_init(&actions);
    if (failed == 0) {
        failed = posix_spawn_file_actions_adddup2(&actions, ends[0], STDIN_FILENO);
        if (failed == 0) {
            failed = posix_spawnp(child, argv[0], &actions, NULL, words.out, environ);
        }
        (void)posix_spawn_file_actions_destroy(&actions);
    }
    (void)close(ends[0]);
    if (failed != 0) {
        (void)close(ends[1]);
        return failed;
    }
    *input = ends[1];
    return 0;
}

enum base_status lg_plot_run(const char *const argv[], const struct base_buf *script,
                             struct base_error *error)
{
    const char *program = argv[0];
    int input = -1;
    pid_t child = 0;
    int failed = start(argv, &input, &child);
    if (failed == ENOENT) {
        return base_fail(error, BASE_NOT_FOUND,
                         "no picture: the program %s is not installed (make deps)", program);
    }
    if (failed != 0) {
        return base_fail(error, BASE_INTERNAL, "no picture: %s: %s", program,
                         lg_errno_text(failed));
    }
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct sigaction before;
    (void)sigaction(SIGPIPE, &ignore, &before);
    bool written = write_all(input, script->data, script->length);
    (void)close(input);
    (void)sigaction(SIGPIPE, &before, NULL);
    int state = 0;
    while (waitpid(child, &state, 0) < 0 && errno == EINTR) {
    }
    if (!written || !WIFEXITED(state) || WEXITSTATUS(state) != 0) {
        return base_fail(error, BASE_INTERNAL, "no picture: %s failed", program);
    }
    return BASE_OK;
}
