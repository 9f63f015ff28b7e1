#include "loadgen/program.h"

#include "base/clock.h"
#include "base/mem.h"
#include "loadgen/ask.h"
#include "loadgen/file.h"
#include "loadgen/model.h"
#include "loadgen/options.h"
#include "loadgen/sweep.h"

#include <string.h>
#include <unistd.h>

#define PATH_BYTES 4096u

static int complain(FILE *err, enum lg_exit exit, const struct base_error *error)
{
    fprintf(err, "cellbatch-load: %s\n", error->message);
    return (int)exit;
}

static enum base_status read_labels(const struct lg_options *options, struct base_buf *out,
                                    struct base_error *error)
{
    if (options->labels != NULL) {
        return lg_file_read(options->labels, out, error);
    }
    char path[PATH_BYTES];
    int length = snprintf(path, sizeof(path), "models/%s/labels.txt", options->model);
    if (length < 0 || (size_t)length >= sizeof(path)) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "model name too long");
    }
    const enum base_status status = lg_file_read(path, out, error);
    return status == BASE_NOT_FOUND ? BASE_OK : status; // a model that answers text needs none
}

static int ask_all(struct lg_client *client, const struct lg_model *model,
                   const struct lg_options *options, FILE *out, FILE *err)
{
    struct base_error error;
    struct base_buf labels;
    struct base_buf answer;
    base_buf_init(&labels, LG_FILE_MAX);
    base_buf_init(&answer, LG_FILE_MAX);
    enum base_status status = read_labels(options, &labels, &error);
    for (uint32_t i = 0; i < options->ask_count && status == BASE_OK; i++) {
        base_buf_clear(&answer);
        status = lg_ask(client, model, options->asks[i], &labels, &answer, &error);
        if (status == BASE_OK) {
            const char *gap = i > 0 ? "\n" : "";
            if (options->ask_count > 1) {
                fprintf(out, "%s%s\n", gap, options->asks[i]);
            }
            (void)fwrite(answer.data, 1, answer.length, out);
            (void)fflush(out);
        }
    }
    base_buf_release(&labels);
    base_buf_release(&answer);
    return status == BASE_OK ? LG_EXIT_OK : complain(err, LG_EXIT_START, &error);
}

/* Of "Bearer TOKEN", with the NUL; of a file with tokens. */
#define LG_TOKEN_BYTES      512u
#define LG_TOKENS_BYTES_MAX (1u << 20)

/* Everything that needs the server. */
static int work(struct lg_client *client, const struct lg_options *options, FILE *out, FILE *err,
                const _Atomic bool *stop)
{
    struct base_error error;
    const struct lg_model_wish wish = {.name = options->model,
                                       .version = options->model_version,
                                       .shapes = options->shapes,
                                       .shape_count = options->shape_count};
    if (options->wait_ready_s > 0) {
        uint64_t timeout_ns = (uint64_t)(options->wait_ready_s * (double)BASE_NS_PER_S);
        if (lg_model_wait_ready(client, &wish, timeout_ns, stop, &error) != BASE_OK) {
            return complain(err, LG_EXIT_START, &error);
        }
    }
    if (options->mode == LG_MODE_NONE) {
        return LG_EXIT_OK;
    }
    struct lg_model *model = base_alloc(sizeof(*model));
    if (model == NULL) {
        (void)base_fail(&error, BASE_RESOURCE_EXHAUSTED, "out of memory");
        return complain(err, LG_EXIT_START, &error);
    }
    int exit = LG_EXIT_OK;
    if (lg_model_fetch(client, &wish, model, &error) != BASE_OK) {
        exit = complain(err, LG_EXIT_START, &error);
    } else if (options->mode == LG_MODE_ASK) {
        exit = ask_all(client, model, options, out, err);
    } else {
        exit = lg_sweep(client, model, options, out, err, stop);
    }
    base_free(model);
    return exit;
}

/* out := "Bearer TOKEN", of the first line that is neither blank nor a remark; "" without a file.
 */
static enum base_status read_token(const char *path, char out[LG_TOKEN_BYTES],
                                   struct base_error *error)
{
    static const char scheme[] = "Bearer ";
    struct base_buf contents;
    struct lg_line line = {.number = 0};
    if (path == NULL) {
        return BASE_OK;
    }
    base_buf_init(&contents, LG_TOKENS_BYTES_MAX);
    enum base_status status = lg_file_read(path, &contents, error);
    while (status == BASE_OK && out[0] == '\0' && lg_line_next(&contents, &line)) {
        const size_t start = strspn(line.text, " \t");
        const size_t bytes = start < line.length ? strcspn(line.text + start, " \t\r\n") : 0;
        if (bytes == 0 || line.text[start] == '#') {
            continue;
        }
        if (bytes >= LG_TOKEN_BYTES - sizeof(scheme)) {
            status = base_fail(error, BASE_INVALID_ARGUMENT, "%s: line %zu is longer than a token",
                               path, line.number);
        } else {
            (void)snprintf(out, LG_TOKEN_BYTES, "%s%.*s", scheme, (int)bytes, line.text + start);
        }
    }
    if (status == BASE_OK && out[0] == '\0') {
        status = base_fail(error, BASE_INVALID_ARGUMENT, "%s: holds no token", path);
    }
    base_buf_release(&contents);
    return status;
}

/* *out stays NULL where the server is asked in clear text. */
static enum base_status read_tls(const struct lg_options *options, struct lg_tls **out,
                                 struct base_error *error)
{
    const struct lg_tls_files files = {.ca = options->tls_ca_file,
                                       .certificate = options->tls_cert_file,
                                       .key = options->tls_key_file};
    return options->tls ? lg_tls_load(&files, out, error) : BASE_OK;
}

int lg_program(int argc, char **argv, FILE *out, FILE *err, const _Atomic bool *stop)
{
    struct base_error error;
    struct lg_options options;
    if (lg_options_parse(argc, argv, &options, &error) != BASE_OK) {
        return complain(err, LG_EXIT_USAGE, &error);
    }
    if (options.help) {
        lg_options_usage(out);
        return LG_EXIT_OK;
    }
    if (options.version) {
        fprintf(out, "cellbatch-load %s\n", LG_VERSION);
        return LG_EXIT_OK;
    }
    struct lg_client *client = NULL;
    if (lg_client_create(options.target, (uint32_t)options.connections, &client, &error) !=
        BASE_OK) {
        return complain(err, LG_EXIT_START, &error);
    }
    char authorization[LG_TOKEN_BYTES] = "";
    struct lg_tls *tls = NULL;
    int exit = LG_EXIT_START;
    if (read_token(options.token_file, authorization, &error) != BASE_OK ||
        read_tls(&options, &tls, &error) != BASE_OK) {
        (void)complain(err, LG_EXIT_START, &error);
    } else {
        lg_client_set_tls(client, tls);
        lg_client_set_authorization(client, authorization[0] == '\0' ? NULL : authorization);
        exit = work(client, &options, out, err, stop);
    }
    lg_client_free(client);
    lg_tls_free(tls);
    return exit;
}
