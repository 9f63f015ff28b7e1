/* A configuration file as a flat list of keys and values, each with its place.
 *
 * Read is a small, safe part of YAML: one mapping of words to words or to lists of words. Anchors,
 * aliases, tags, directives, further documents and deeper nesting are refused at the event where
 * they appear, so nothing is built from them. Internal to config/ and its tests. */
#ifndef CONFIG_YAML_H
#define CONFIG_YAML_H

#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Most key-value pairs in a file. */
#define CFG_YAML_PAIRS_MAX 4096u

struct cfg_yaml_pair {
    const char *key; /* with a NUL, in the arena, as is value */
    const char *value;
    size_t key_length, value_length;
    uint32_t key_line, key_column; /* counted from 1 */
    uint32_t line, column;         /* of the value */
    bool in_list;                  /* one of several with this key and this place of it */
};

struct cfg_yaml {
    uint32_t n_pairs;
    struct cfg_yaml_pair *pairs; /* in the order of the file */
};

/* Reads length bytes; file is the name for messages. INVALID_ARGUMENT says
 * `FILE:LINE:COLUMN: what`, RESOURCE_EXHAUSTED when the arena is spent. An empty file is an empty
 * list; equal keys are left to the caller. */
enum base_status cfg__yaml_parse(const char *file, const void *bytes, size_t length,
                                 struct base_arena *arena, struct cfg_yaml *out,
                                 struct base_error *error);

/* The bytes of a file of at most CFG_FILE_BYTES_MAX, in the arena. NOT_FOUND, RESOURCE_EXHAUSTED
 * (too long, out of memory), INVALID_ARGUMENT (cannot be read). Blocks. */
enum base_status cfg__file_read(const char *path, struct base_arena *arena, const char **bytes,
                                size_t *length, struct base_error *error);

#endif
