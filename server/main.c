/* cellbatchd: reads the configuration, answers the questions that need no server (--help,
 * --version, --check-config, --check-model, --explain-model), else runs the daemon. The only file
 * that exits. */
#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"
#include "config/config.h"
#include "server/about.h"
#include "server/check_model.h"
#include "server/daemon.h"
#include "server/explain.h"
#include "server/secrets.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define TEXT_BYTES_MAX ((size_t)4 << 20)

static int print_text(void (*write_text)(struct base_buf *out))
{
    struct base_buf text;
    base_buf_init(&text, TEXT_BYTES_MAX);
    write_text(&text);
    fputs(text.data != NULL ? text.data : "", stdout);
    base_buf_release(&text);
    return EXIT_SUCCESS;
}

static int print_config(const struct cfg_config *config)
{
    struct base_buf text;
    base_buf_init(&text, TEXT_BYTES_MAX);
    cfg_write_effective(config, &text);
    fputs(text.data != NULL ? text.data : "", stdout);
    base_buf_release(&text);
    return EXIT_SUCCESS;
}

/* --check-config: the files of TLS and tokens too, so that new ones can be tried before they are in
 * force. */
static int check_config(const struct cfg_config *config)
{
    struct srv_secrets secrets;
    struct base_error error = {.status = BASE_OK};
    if (srv_secrets_load(config, &secrets, &error) != BASE_OK) {
        fprintf(stderr, "cellbatchd: %s\n", error.message);
        return EXIT_FAILURE;
    }
    srv_secrets_release(&secrets);
    return print_config(config);
}

static enum base_status check_model(const struct cfg_config *config, struct base_buf *text,
                                    struct base_error *error)
{
    return srv_check_model(config->check_model, text, error);
}

/* What one of the functions that describe a model has to say. */
static int describe(enum base_status (*write_text)(const struct cfg_config *config,
                                                   struct base_buf *text, struct base_error *error),
                    const struct cfg_config *config)
{
    struct base_buf text;
    struct base_error error = {.status = BASE_OK};
    base_buf_init(&text, TEXT_BYTES_MAX);
    enum base_status status = write_text(config, &text, &error);
    if (status == BASE_OK) {
        fputs(text.data != NULL ? text.data : "", stdout);
    } else {
        fprintf(stderr, "cellbatchd: %s\n", error.message);
    }
    base_buf_release(&text);
    return status == BASE_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int run(const struct cfg_config *config)
{
    struct base_error error = {.status = BASE_OK};
    if (config->help) {
        return print_text(cfg_write_help);
    }
    if (config->version) {
        printf("%s %s\n", SRV_ABOUT_NAME, SRV_ABOUT_VERSION);
        return EXIT_SUCCESS;
    }
    if (config->check_config) {
        return check_config(config);
    }
    base_log_configure(cfg_log_level(config), cfg_log_format(config));
    if (config->check_model[0] != '\0') {
        return describe(check_model, config);
    }
    if (config->explain_model[0] != '\0') {
        return describe(srv_explain_model, config);
    }
    if (config->model_repository[0] == '\0') {
        fprintf(stderr,
                "cellbatchd: --model-repository DIR is needed (--help lists the options)\n");
        return EXIT_FAILURE;
    }
    if (srv_daemon_run(config, &error) != BASE_OK) {
        fprintf(stderr, "cellbatchd: %s\n", error.message);
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    struct cfg_input input = {.argc = argc,
                              .argv = (const char *const *)argv,
                              .environment = (const char *const *)environ};
    struct cfg_config *config = NULL;
    struct base_error error = {.status = BASE_OK};
    base_mem_configure();
    if (cfg_load(&input, &config, &error) != BASE_OK) {
        fprintf(stderr, "cellbatchd: %s\n", error.message);
        return EXIT_FAILURE;
    }
    int exit_status = run(config);
    cfg_free(config);
    return exit_status;
}
