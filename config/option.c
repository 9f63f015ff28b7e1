/* Names of options: their spellings, how they are found, and what a misspelt one was meant to be.
 * Stateless. A look-up is a scan of some forty names, done once per option given at start. */
#include "config/option.h"

#include "base/assert.h"

#include <stdio.h>
#include <string.h>

#define ENV_PREFIX "CELLBATCH_"

static char lower(char c)
{
    if (c >= 'A' && c <= 'Z') {
        return (char)(c - 'A' + 'a');
    }
    return c;
}

static char upper(char c)
{
    if (c >= 'a' && c <= 'z') {
        return (char)(c - 'a' + 'A');
    }
    return c;
}

static char dashed(char c)
{
    if (c == '_') {
        return '-';
    }
    return c;
}

void cfg__option_key(const struct cfg_option *option, char name[CFG_NAME_BYTES])
{
    size_t length = strlen(option->field);
    base_assert(length < CFG_NAME_BYTES);
    for (size_t i = 0; i <= length; i++) {
        name[i] = dashed(option->field[i]);
    }
}

void cfg__option_env(const struct cfg_option *option, char name[CFG_NAME_BYTES])
{
    int length = snprintf(name, CFG_NAME_BYTES, ENV_PREFIX "%s", option->field);
    base_assert(length > 0 && length < (int)CFG_NAME_BYTES);
    for (int i = 0; i < length; i++) {
        name[i] = upper(name[i]);
    }
}

int cfg__table_find(const struct cfg_table *table, const char *key, size_t length, bool loose)
{
    for (uint32_t i = 0; i < table->n_options; i++) {
        char name[CFG_NAME_BYTES];
        cfg__option_key(&table->options[i], name);
        size_t same = 0;
        while (same < length && name[same] != '\0' &&
               (key[same] == name[same] || (loose && dashed(key[same]) == name[same]))) {
            same++;
        }
        if (same == length && name[same] == '\0') {
            return (int)i;
        }
    }
    return -1;
}

/* Letters as compared by distance(). */
static char folded(char c)
{
    return dashed(lower(c));
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Slips from a to b: letters inserted, dropped, replaced, or swapped with their neighbour (optimal
 * string alignment). Both shorter than CFG_NAME_BYTES. Three rows of the usual table. */
static uint32_t distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
    base_assert(a_length < CFG_NAME_BYTES && b_length < CFG_NAME_BYTES);
    uint32_t rows[3][CFG_NAME_BYTES] = {{0}};
    for (size_t j = 0; j <= b_length; j++) {
        rows[0][j] = (uint32_t)j;
    }
    for (size_t i = 1; i <= a_length; i++) {
        uint32_t *row = rows[i % 3];
        const uint32_t *above = rows[(i + 2) % 3];
        const uint32_t *two_above = rows[(i + 1) % 3];
        row[0] = (uint32_t)i;
        for (size_t j = 1; j <= b_length; j++) {
            char x = folded(a[i - 1]);
            char y = folded(b[j - 1]);
            row[j] = smaller(smaller(above[j], row[j - 1]) + 1, above[j - 1] + (x != y));
            if (i > 1 && j > 1 && x == folded(b[j - 2]) && folded(a[i - 2]) == y) {
                row[j] = smaller(row[j], two_above[j - 2] + 1);
            }
        }
    }
    return rows[a_length % 3][b_length];
}

int cfg__table_nearest(const struct cfg_table *table, const char *key, size_t length)
{
    int nearest = -1;
    uint32_t least = 3; // at most two slips
    for (uint32_t i = 0; i < table->n_options && length < CFG_NAME_BYTES; i++) {
        char name[CFG_NAME_BYTES] = "";
        cfg__option_key(&table->options[i], name);
        uint32_t slips = distance(key, length, name, strlen(name));
        if (slips < least && (size_t)slips * 3 < strlen(name)) {
            nearest = (int)i;
            least = slips;
        }
    }
    return nearest;
}

void cfg__table_defaults(const struct cfg_table *table, void *object)
{
    for (uint32_t i = 0; i < table->n_options; i++) {
        const struct cfg_option *option = &table->options[i];
        void *field = cfg__field(option, object);
        if (option->type == CFG_TYPE_NAMES) {
            *(struct cfg_names *)field = (struct cfg_names){0};
        } else if (option->type == CFG_TYPE_VOCABULARIES) {
            *(struct cfg_vocabularies *)field = (struct cfg_vocabularies){0};
        } else if (option->type == CFG_TYPE_LAYERS) {
            *(struct cfg_layers *)field = (struct cfg_layers){0};
        } else if (option->type == CFG_TYPE_CONSTANTS) {
            *(struct cfg_constants *)field = (struct cfg_constants){0};
        } else if (option->type == CFG_TYPE_SHAPES) {
            *(struct cfg_shapes *)field = (struct cfg_shapes){0};
        } else if (option->type == CFG_TYPE_STATES) {
            *(struct cfg_states *)field = (struct cfg_states){0};
        } else if (option->type == CFG_TYPE_TENSOR) {
            *(struct cfg_tensor *)field = (struct cfg_tensor){.name = ""};
        } else if (option->type == CFG_TYPE_PARTS) {
            *(struct cfg_parts *)field = (struct cfg_parts){0};
        } else if (option->type == CFG_TYPE_TEXT || option->type == CFG_TYPE_WORD) {
            *(const char **)field = option->default_text; // static, needs no copy
        } else {
            const struct cfg_given given = {option->default_text, strlen(option->default_text),
                                            option->field};
            enum base_status status = cfg__value_set(option, object, NULL, &given, NULL);
            base_assert(status == BASE_OK); // a wrong default is a bug of the table
        }
    }
}
