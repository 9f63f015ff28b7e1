/* The three ways in which options are given: file, environment, flags. Each call reads one of them
 * over what object holds already, and notes in sources[] which options it gave. Internal to
 * config/ and its tests. Errors as in config/config.h. */
#ifndef CONFIG_SOURCES_H
#define CONFIG_SOURCES_H

#include "config/config.h"
#include "config/option.h"

/* What is filled: a struct that the table describes, and one source per option (may be NULL). */
struct cfg_target {
    const struct cfg_table *table;
    void *object;
    enum cfg_source *sources;
    struct base_arena *arena;
};

/* The text of a file, of length bytes; file names it in messages. */
enum base_status cfg__from_text(const struct cfg_target *target, const char *file,
                                const void *bytes, size_t length, struct base_error *error);

/* A file. Blocks. */
enum base_status cfg__from_file(const struct cfg_target *target, const char *path,
                                struct base_error *error);

/* `NAME=value` texts, NULL at the end. A name with our prefix that is no option is passed over,
 * since orchestrators and tests use the prefix too, unless it is nearly an option. An empty value
 * is as good as none. */
enum base_status cfg__from_environment(const struct cfg_target *target,
                                       const char *const *environment, struct base_error *error);

/* argv[1..argc-1]: `--name value` or `--name=value`. */
enum base_status cfg__from_flags(const struct cfg_target *target, int argc, const char *const *argv,
                                 struct base_error *error);

#endif
