/* NAME/config.yaml through the same table, reader and grammar as the server's options. Memory only
 * during the call. Called by the loop thread while a model loads. */
#include "config/model_config.h"

#include "config/internal.h"
#include "config/sources.h"

#include <string.h>

#define ARENA_CHUNK_BYTES  ((size_t)4 << 10)
#define ARENA_BUDGET_BYTES ((size_t)8 << 20)

static const struct cfg_option rows[] = {
#define ROW(type, field, def, least, most, values, section, ways, help)                            \
    CFG_OPTION_ROW(cfg_model_config, type, field, def, least, most, values, section, ways, help)
    CFG_MODEL_OPTIONS(ROW)
#undef ROW
};

static const struct cfg_table table = {rows, sizeof(rows) / sizeof(rows[0])};

/* A word was read into memory that goes: the same from memory that stays. */
static const char *kept(const char *word, const char *const words[], size_t n)
{
    for (size_t w = 0; w < n; w++) {
        if (strcmp(word, words[w]) == 0) {
            return words[w];
        }
    }
    return words[0];
}

static void keep_words(struct cfg_model_config *config)
{
    static const char *const weights[] = {"fp32", "bf16", "int8"};
    static const char *const products[] = {"fp32", "tf32", "bf16", "bf16x3"};
    static const char *const unfolds[] = {"chain", "tree",   "seq2seq",
                                          "graph", "plugin", "transducer"};
    config->weights = kept(config->weights, weights, sizeof(weights) / sizeof(weights[0]));
    config->linear_weights =
        kept(config->linear_weights, weights, sizeof(weights) / sizeof(weights[0]));
    config->products = kept(config->products, products, sizeof(products) / sizeof(products[0]));
    config->unfold = kept(config->unfold, unfolds, sizeof(unfolds) / sizeof(unfolds[0]));
}

enum base_status cfg_model_config_parse(const char *file, const void *bytes, size_t length,
                                        struct cfg_model_config *out, struct base_error *error)
{
    struct base_arena arena;
    base_arena_init(&arena, ARENA_CHUNK_BYTES, ARENA_BUDGET_BYTES);
    cfg__table_defaults(&table, out);
    const struct cfg_target target = {&table, out, NULL, &arena};
    enum base_status status = cfg__from_text(&target, file, bytes, length, error);
    keep_words(out);
    base_arena_release(&arena);
    return status;
}

enum base_status cfg_model_config_load(const char *path, struct cfg_model_config *out,
                                       struct base_error *error)
{
    struct base_arena arena;
    base_arena_init(&arena, ARENA_CHUNK_BYTES, ARENA_BUDGET_BYTES);
    cfg__table_defaults(&table, out);
    const struct cfg_target target = {&table, out, NULL, &arena};
    enum base_status status = cfg__from_file(&target, path, error);
    keep_words(out);
    base_arena_release(&arena);
    return status == BASE_NOT_FOUND ? BASE_OK : status;
}
