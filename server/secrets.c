#include "server/secrets.h"

#include <time.h>

static enum base_status load_tls(const struct cfg_config *config, struct srv_tls **out,
                                 struct base_error *error)
{
    const struct srv_tls_files files = {.certificate = config->tls_cert_file,
                                        .key = config->tls_key_file,
                                        .client_ca = config->tls_client_ca_file};
    return files.certificate[0] == '\0' ? BASE_OK : srv_tls_load(&files, out, error);
}

static enum base_status load_tokens(const char *path, struct srv_tokens **out,
                                    struct base_error *error)
{
    return path[0] == '\0' ? BASE_OK : srv_tokens_load(path, out, error);
}

enum base_status srv_secrets_load(const struct cfg_config *config, struct srv_secrets *out,
                                  struct base_error *error)
{
    *out = (struct srv_secrets){0};
    enum base_status status = load_tls(config, &out->tls, error);
    if (status == BASE_OK) {
        status = load_tokens(config->auth_token_file, &out->access.use, error);
    }
    if (status == BASE_OK) {
        status = load_tokens(config->control_token_file, &out->access.control, error);
    }
    if (status != BASE_OK) {
        srv_secrets_release(out);
    }
    return status;
}

void srv_secrets_release(struct srv_secrets *secrets)
{
    srv_tls_free(secrets->tls);
    srv_tokens_free(secrets->access.use);
    srv_tokens_free(secrets->access.control);
    *secrets = (struct srv_secrets){0};
}

void srv_secrets_until(const struct srv_secrets *secrets, char out[SRV_SECRETS_UNTIL_BYTES])
{
    out[0] = '\0';
    if (secrets->tls != NULL) {
        const time_t until = (time_t)secrets->tls->until_wall_s;
        struct tm parts;
        if (gmtime_r(&until, &parts) == NULL ||
            strftime(out, SRV_SECRETS_UNTIL_BYTES, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0) {
            out[0] = '\0';
        }
    }
}
