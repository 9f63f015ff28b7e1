/* The server's table, shared by the files of config/ and its tests. */
#ifndef CONFIG_INTERNAL_H
#define CONFIG_INTERNAL_H

#include "config/option.h"

/* CFG_OPTION_COUNT rows over struct cfg_config; static. */
extern const struct cfg_table cfg__table;

/* Title of a section; never NULL. */
const char *cfg__section_title(enum cfg_section section);

/* Number, time, ... as in CFG_TYPES; never NULL. */
const char *cfg__type_grammar(enum cfg_type type);

/* Like cfg_load() with the text of a file in place of --config: for tests and fuzzing. */
enum base_status cfg__load_text(const struct cfg_input *input, const char *file, const void *bytes,
                                size_t length, struct cfg_config **out, struct base_error *error);

#endif
