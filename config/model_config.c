/* NAME/config.yaml through the same table, reader and grammar as the server's options. Memory only
 * during the call. Called by the loop thread while a model loads. */
#include "config/model_config.h"

#include "config/internal.h"
#include "config/sources.h"

#define ARENA_CHUNK_BYTES  ((size_t)4 << 10)
#define ARENA_BUDGET_BYTES ((size_t)8 << 20)

static const struct cfg_option rows[] = {
#define ROW(type, field, def, least, most, values, section, ways, help)                            \
    CFG_OPTION_ROW(cfg_model_config, type, field, def, least, most, values, section, ways, help)
    CFG_MODEL_OPTIONS(ROW)
#undef ROW
};

static const struct cfg_table table = {rows, sizeof(rows) / sizeof(rows[0])};

enum base_status cfg_model_config_parse(const char *file, const void *bytes, size_t length,
                                        struct cfg_model_config *out, struct base_error *error)
{
    struct base_arena arena;
    base_arena_init(&arena, ARENA_CHUNK_BYTES, ARENA_BUDGET_BYTES);
    cfg__table_defaults(&table, out);
    const struct cfg_target target = {&table, out, NULL, &arena};
    enum base_status status = cfg__from_text(&target, file, bytes, length, error);
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
    base_arena_release(&arena);
    return status == BASE_NOT_FOUND ? BASE_OK : status;
}
