/* Reads a line, does it, answers. At most one cell is open. */
#include "bench/serve.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "bench/bench.h"
#include "bench/sequence.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PATH_BYTES   4096
#define LINE_BYTES   (PATH_BYTES + 256)
#define RUNS_MAX     1000000u
#define ANSWER_BYTES 1024u

struct serve {
    const struct bench_serve_options *options;
    const struct bench_cell *cell;
    struct bench_shape shape;
    struct bench_data data;
    struct bench_sequence *sequence; /* NULL: nothing is open */
    char folder[PATH_BYTES];
    bool has_run;
    struct base_buf answer;
    struct base_error error;
};

/* ---- Files ---------------------------------------------------------------------------------- */

/* path has room for PATH_BYTES + 16. */
static void tensor_path(const char *folder, enum bench_tensor tensor, char *path)
{
    (void)snprintf(path, PATH_BYTES + 16, "%s/%s.f32", folder, bench_tensor_name(tensor));
}

/* The size is looked at before memory is taken: a wrong shape costs nothing. */
static enum base_status read_tensor(struct serve *serve, enum bench_tensor tensor)
{
    char path[PATH_BYTES + 16];
    struct stat stat;
    tensor_path(serve->folder, tensor, path);
    size_t bytes = bench_tensor_floats(serve->cell, &serve->shape, tensor) * sizeof(float);
    FILE *file = fopen(path, "re");
    if (file == NULL || fstat(fileno(file), &stat) != 0) {
        if (file != NULL) {
            (void)fclose(file);
        }
        return base_fail(&serve->error, BASE_NOT_FOUND, "cannot open %.256s", path);
    }
    enum base_status status = BASE_OK;
    if (!S_ISREG(stat.st_mode) || (size_t)stat.st_size != bytes) {
        status = base_fail(&serve->error, BASE_INVALID_ARGUMENT, "%.256s: %lld bytes, wanted %zu",
                           path, (long long)stat.st_size, bytes);
    } else {
        status = bench_data_add(&serve->data, serve->cell, &serve->shape, tensor, &serve->error);
    }
    if (status == BASE_OK && fread(serve->data.tensors[tensor], 1, bytes, file) != bytes) {
        status = base_fail(&serve->error, BASE_UNAVAILABLE, "cannot read %.256s", path);
    }
    (void)fclose(file);
    return status;
}

static enum base_status write_output(struct serve *serve)
{
    char path[PATH_BYTES + 16];
    tensor_path(serve->folder, BENCH_Y, path);
    size_t floats = bench_tensor_floats(serve->cell, &serve->shape, BENCH_Y);
    FILE *file = fopen(path, "we");
    bool is_whole =
        file != NULL && fwrite(serve->data.tensors[BENCH_Y], sizeof(float), floats, file) == floats;
    if (file != NULL && fclose(file) != 0) {
        is_whole = false;
    }
    return is_whole ? BASE_OK
                    : base_fail(&serve->error, BASE_UNAVAILABLE, "cannot write %.256s", path);
}

/* ---- Commands: each gets the rest of its line, and adds a JSON object to the answer ---------- */

static void close_cell(struct serve *serve)
{
    bench_sequence_close(serve->sequence);
    bench_data_release(&serve->data);
    serve->sequence = NULL;
    serve->has_run = false;
}

static enum base_status load_cell(struct serve *serve)
{
    for (enum bench_tensor t = BENCH_W; t < BENCH_Y; t++) {
        BASE_TRY(read_tensor(serve, t));
    }
    BASE_TRY(bench_data_add(&serve->data, serve->cell, &serve->shape, BENCH_Y, &serve->error));
    struct bench_sequence_options options = {.backend = serve->options->backend,
                                             .isa = serve->options->isa,
                                             .team = serve->options->team,
                                             .cell = serve->cell,
                                             .shape = serve->shape};
    return bench_sequence_open(&options, &serve->data, &serve->sequence, &serve->error);
}

static enum base_status do_open(struct serve *serve, const char *rest)
{
    char name[32];
    char text[64];
    int at = 0;
    struct bench_shape shapes[BENCH_SHAPES_MAX];
    uint32_t n = 0;
    if (serve->sequence != NULL) {
        return base_fail(&serve->error, BASE_FAILED_PRECONDITION, "a cell is open: close it first");
    }
    // NOLINTNEXTLINE(cert-err34-c): no number is converted
    if (sscanf(rest, "%31s %63s %n", name, text, &at) != 2 || at == 0 || rest[at] == '\0' ||
        strlen(rest + at) >= PATH_BYTES) {
        return base_fail(&serve->error, BASE_INVALID_ARGUMENT,
                         "wanted: open CELL INPUTxHIDDENxROWSxSTEPS DIR");
    }
    BASE_TRY(bench_cell_find(name, &serve->cell, &serve->error));
    BASE_TRY(bench_shapes_parse(text, shapes, &n, &serve->error));
    if (n != 1) {
        return base_fail(&serve->error, BASE_INVALID_ARGUMENT, "wanted: one shape");
    }
    serve->shape = shapes[0];
    (void)snprintf(serve->folder, sizeof(serve->folder), "%s", rest + at);
    enum base_status status = load_cell(serve);
    if (status != BASE_OK) {
        close_cell(serve);
        return status;
    }
    base_buf_printf(&serve->answer, "{\"cell\":\"%s\",\"threads\":%u}", serve->cell->name,
                    serve->options->team->members);
    return BASE_OK;
}

static enum base_status do_run(struct serve *serve, const char *rest)
{
    char *end = NULL;
    unsigned long runs = strtoul(rest, &end, 10);
    if (*rest < '0' || *rest > '9' || *end != '\0' || runs == 0 || runs > RUNS_MAX) {
        return base_fail(&serve->error, BASE_INVALID_ARGUMENT, "wanted: run 1..%u", RUNS_MAX);
    }
    double *ms = base_alloc_array(runs, sizeof(*ms));
    if (ms == NULL) {
        return base_fail(&serve->error, BASE_RESOURCE_EXHAUSTED, "out of memory for %lu times",
                         runs);
    }
    for (unsigned long i = 0; i < runs; i++) {
        uint64_t start_ns = base_now_ns();
        bench_sequence_run(serve->sequence);
        ms[i] = (double)(base_now_ns() - start_ns) / 1e6;
    }
    double median_ms = bench_quantile(ms, (uint32_t)runs, 0.5);
    base_buf_printf(&serve->answer, "{\"runs\":%lu,\"ms_p50\":%.6f,\"ms_min\":%.6f}", runs,
                    median_ms, ms[0]); // sorted
    base_free(ms);
    serve->has_run = true;
    return BASE_OK;
}

static enum base_status do_write(struct serve *serve, const char *rest)
{
    (void)rest;
    if (!serve->has_run) {
        return base_fail(&serve->error, BASE_FAILED_PRECONDITION, "nothing has run");
    }
    BASE_TRY(write_output(serve));
    base_buf_printf(&serve->answer, "{\"floats\":%zu}",
                    bench_tensor_floats(serve->cell, &serve->shape, BENCH_Y));
    return BASE_OK;
}

static enum base_status do_close(struct serve *serve, const char *rest)
{
    (void)rest;
    close_cell(serve);
    base_buf_text(&serve->answer, "{}");
    return BASE_OK;
}

static enum base_status do_round_trip(struct serve *serve, const char *rest)
{
    (void)rest;
    base_buf_printf(&serve->answer, "{\"round_trip_ns\":%.0f}", bench_round_trip_ns());
    return BASE_OK;
}

struct command {
    const char *name;
    bool has_argument, needs_cell;
    enum base_status (*run)(struct serve *serve, const char *rest);
};

static const struct command commands[] = {
    {"open", true, false, do_open},
    {"run", true, true, do_run},
    {"write", false, true, do_write},
    {"close", false, true, do_close},
    {"round_trip", false, false, do_round_trip},
};
enum { COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static enum base_status execute(struct serve *serve, const char *line)
{
    size_t length = strcspn(line, " ");
    const char *rest = line + length + (line[length] == ' ');
    for (int i = 0; i < COMMANDS; i++) {
        const struct command *command = &commands[i];
        if (strlen(command->name) != length || strncmp(command->name, line, length) != 0) {
            continue;
        }
        if (command->needs_cell && serve->sequence == NULL) {
            return base_fail(&serve->error, BASE_FAILED_PRECONDITION, "%s: no cell is open",
                             command->name);
        }
        if ((*rest != '\0') != command->has_argument) {
            return base_fail(&serve->error, BASE_INVALID_ARGUMENT, "%s: %s", command->name,
                             command->has_argument ? "an argument is missing"
                                                   : "takes no argument");
        }
        return command->run(serve, rest);
    }
    return base_fail(&serve->error, BASE_INVALID_ARGUMENT,
                     "\"%.64s\": wanted open, run, write, close or round_trip", line);
}

/* ---- Lines ---------------------------------------------------------------------------------- */

/* false at the end of `in`. A line that does not fit becomes an empty one. */
static bool read_line(FILE *in, char line[LINE_BYTES])
{
    if (fgets(line, LINE_BYTES, in) == NULL) {
        return false;
    }
    size_t length = strcspn(line, "\n");
    bool is_whole = line[length] == '\n' || feof(in) != 0;
    line[length] = '\0';
    for (int c = 0; !is_whole && c != '\n' && c != EOF;) {
        c = fgetc(in);
        line[0] = '\0';
    }
    return true;
}

void bench_serve(FILE *in, FILE *out, const struct bench_serve_options *options)
{
    static const struct serve closed;
    struct serve serve = closed;
    char line[LINE_BYTES];
    bool is_read = true;
    serve.options = options;
    base_buf_init(&serve.answer, ANSWER_BYTES);
    while (is_read && read_line(in, line)) {
        base_buf_clear(&serve.answer);
        if (execute(&serve, line) != BASE_OK) {
            base_buf_clear(&serve.answer);
            base_buf_printf(&serve.answer, "error: %s", serve.error.message);
        }
        is_read =
            !serve.answer.failed && fprintf(out, "%s\n", serve.answer.data) > 0 && fflush(out) == 0;
    }
    close_cell(&serve);
    base_buf_release(&serve.answer);
}
