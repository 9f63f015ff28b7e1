/* Configuration: file, flags, environment, a model's config.yaml and its config.pbtxt, chosen by
 * the first byte.
 *
 * Beside not crashing: an accepted file printed as the effective configuration is accepted again
 * and printed the same. */
#include "base/assert.h"
#include "base/mem.h"
#include "config/internal.h"
#include "config/model_config.h"
#include "config/triton_config.h"

#include <string.h>

enum { TEXTS_MAX = 64 };

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Cuts text at its NULs; the last place is NULL. */
static int split(char *text, size_t length, const char *out[TEXTS_MAX + 1])
{
    int n = 0;
    for (size_t at = 0; at < length && n < TEXTS_MAX; at += strlen(text + at) + 1) {
        out[n++] = text + at;
    }
    out[n] = NULL;
    return n;
}

/* Loads a file and appends its effective configuration; false when it is refused. */
static bool print_file(const void *bytes, size_t length, struct base_buf *out)
{
    static const char *const argv[] = {"cellbatchd"};
    const struct cfg_input input = {1, argv, NULL};
    struct cfg_config *config = NULL;
    struct base_error error;
    if (cfg__load_text(&input, "f", bytes, length, &config, &error) != BASE_OK) {
        base_assert(error.status != BASE_OK && error.message[0] != '\0');
        return false;
    }
    cfg_write_effective(config, out);
    cfg_free(config);
    return true;
}

static void try_file(const uint8_t *data, size_t size)
{
    struct base_buf first;
    struct base_buf second;
    base_buf_init(&first, 1 << 22);
    base_buf_init(&second, 1 << 22);
    if (print_file(data, size, &first)) {
        base_assert(print_file(first.data, first.length, &second));
        // Only the sources may differ, and everything but model-repository may be a default.
        base_buf_clear(&first);
        base_assert(print_file(second.data, second.length, &first));
        base_assert(strcmp(first.data, second.data) == 0);
    }
    base_buf_release(&first);
    base_buf_release(&second);
}

static void try_texts(bool flags, const uint8_t *data, size_t size)
{
    char *text = base_alloc(size + 1);
    if (text == NULL) {
        return;
    }
    if (size > 0) {
        memcpy(text, data, size);
    }
    const char *texts[TEXTS_MAX + 1];
    int n = split(text, size, texts);
    const struct cfg_input input = {flags ? n : 0, texts, flags ? NULL : texts};
    struct cfg_config *config = NULL;
    struct base_error error;
    // An empty file in place of what --config may name.
    if (cfg__load_text(&input, "f", "", 0, &config, &error) == BASE_OK) {
        cfg_free(config);
    }
    base_free(text);
}

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    struct cfg_model_config model;
    struct base_error error;
    switch (data[0]) {
    case 'f':
        try_texts(true, data + 1, size - 1);
        break;
    case 'e':
        try_texts(false, data + 1, size - 1);
        break;
    case 'm':
        (void)cfg_model_config_parse("m", data + 1, size - 1, &model, &error);
        break;
    case 't':
        base_assert(cfg_model_config_parse("m", "", 0, &model, &error) == BASE_OK);
        (void)cfg_triton_config_parse("t", data + 1, size - 1, "m", &model, &error);
        break;
    default:
        try_file(data + 1, size - 1);
        break;
    }
    return 0;
}
