/* The grammar of values: text to field and field to text.
 *
 * Strict on purpose: no signs, blanks, fractions, leading zeros, other words for true. What is
 * printed reads back as the same value. Stateless; memory only for texts, in the caller's arena. */
#include "base/assert.h"
#include "base/checked.h"
#include "config/option.h"

#include <stdio.h>
#include <string.h>

#define TEXT_BYTES_MAX  4095u
#define NAME_BYTES_MAX  127u /* a model's name */
#define NAMES_COUNT_MAX 1024u

struct unit {
    const char *name;
    uint64_t factor;
};

// Smallest first.
static const struct unit size_units[] = {
    {"", 1},          {"B", 1},         {"kB", 1000},     {"MB", 1000000}, {"GB", 1000000000},
    {"KiB", CFG_KIB}, {"MiB", CFG_MIB}, {"GiB", CFG_GIB}, {NULL, 0},
};
static const struct unit time_units[] = {
    {"ms", CFG_MS}, {"", 1000 * CFG_MS}, {"s", 1000 * CFG_MS}, {"min", 60000 * CFG_MS}, {NULL, 0},
};
static const struct unit plain_units[] = {{"", 1}, {NULL, 0}};

static const struct unit *units_of(enum cfg_type type)
{
    return type == CFG_TYPE_SIZE ? size_units : type == CFG_TYPE_TIME ? time_units : plain_units;
}

const char *cfg__quote(char quoted[CFG_QUOTED_BYTES], const char *text, size_t length)
{
    size_t room = CFG_QUOTED_BYTES - sizeof("\"...\"");
    size_t shown = length < room ? length : room;
    char *at = quoted;
    *at++ = '"';
    for (size_t i = 0; i < shown; i++) {
        bool printable = text[i] >= 0x20 && text[i] < 0x7f;
        *at++ = '?';
        if (printable) {
            at[-1] = text[i];
        }
    }
    (void)snprintf(at, CFG_QUOTED_BYTES - (size_t)(at - quoted), "%s\"",
                   shown < length ? "..." : "");
    return quoted;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Digits at the start of text into *out (saturating), and how many there were. */
static size_t read_digits(const char *text, size_t length, uint64_t *out)
{
    size_t digits = 0;
    *out = 0;
    for (; digits < length && is_digit(text[digits]); digits++) {
        if (__builtin_mul_overflow(*out, 10, out) ||
            __builtin_add_overflow(*out, (uint64_t)(text[digits] - '0'), out)) {
            *out = UINT64_MAX;
        }
    }
    return digits;
}

static enum base_status fail_range(const struct cfg_option *option, const struct cfg_given *given,
                                   struct base_error *error)
{
    struct base_buf range;
    base_buf_init(&range, 256);
    cfg__amount_write(option->type, option->least, &range);
    base_buf_text(&range, " to ");
    cfg__amount_write(option->type, option->most, &range);
    char quoted[CFG_QUOTED_BYTES];
    enum base_status status = base_fail(
        error, BASE_INVALID_ARGUMENT, "%s: %s is not in %s", given->where,
        cfg__quote(quoted, given->text, given->length), range.failed ? "its range" : range.data);
    base_buf_release(&range);
    return status;
}

/* INVALID_ARGUMENT: the value is not what was expected. */
enum base_status cfg__fail_value(const struct cfg_given *given, const char *what,
                                 struct base_error *error)
{
    char quoted[CFG_QUOTED_BYTES];
    return base_fail(error, BASE_INVALID_ARGUMENT, "%s: %s %s", given->where,
                     cfg__quote(quoted, given->text, given->length), what);
}

static enum base_status fail_memory(const struct cfg_given *given, struct base_error *error)
{
    return base_fail(error, BASE_RESOURCE_EXHAUSTED, "%s: out of memory", given->where);
}

/* Is the text exactly this word? It may hold a NUL, a word does not. */
static bool is_word(const struct cfg_given *given, const char *word)
{
    return given->length == strlen(word) && memcmp(given->text, word, given->length) == 0;
}

/* COUNT, SIZE and TIME. */
static enum base_status set_amount(const struct cfg_option *option, void *field,
                                   const struct cfg_given *given, struct base_error *error)
{
    static const char *const refusals[] = {
        [CFG_TYPE_COUNT] = "is not a whole number",
        [CFG_TYPE_SIZE] = "is not a size such as 4096, 512KiB or 64MiB",
        [CFG_TYPE_TIME] = "is not a time such as 30, 30s, 500ms or 2min",
    };
    uint64_t number = 0;
    size_t digits = read_digits(given->text, given->length, &number);
    const struct cfg_given rest = {given->text + digits, given->length - digits, NULL};
    const struct unit *unit = units_of(option->type);
    while (unit->name != NULL && !is_word(&rest, unit->name)) {
        unit++;
    }
    if (digits == 0 || unit->name == NULL) {
        return cfg__fail_value(given, refusals[option->type], error);
    }
    if (given->text[0] == '0' && digits > 1) {
        return cfg__fail_value(given, "starts with a zero", error);
    }
    uint64_t amount;
    if (__builtin_mul_overflow(number, unit->factor, &amount) || amount < option->least ||
        amount > option->most) {
        return fail_range(option, given, error);
    }
    if (option->type == CFG_TYPE_COUNT) {
        base_assert(option->most <= UINT32_MAX);
        *(uint32_t *)field = (uint32_t)amount;
    } else {
        *(uint64_t *)field = amount;
    }
    return BASE_OK;
}

static enum base_status set_id(const struct cfg_option *option, int64_t *field,
                               const struct cfg_given *given, struct base_error *error)
{
    uint64_t number = 0;
    if (is_word(given, "none")) {
        *field = CFG_ID_NONE;
        return BASE_OK;
    }
    if (read_digits(given->text, given->length, &number) < given->length) {
        return cfg__fail_value(given, "is neither an id nor none", error);
    }
    if (given->text[0] == '0' && given->length > 1) {
        return cfg__fail_value(given, "starts with a zero", error);
    }
    if (number < option->least || number > option->most) {
        return fail_range(option, given, error);
    }
    *field = (int64_t)number;
    return BASE_OK;
}

static enum base_status set_decimal(const struct cfg_option *option, double *field,
                                    const struct cfg_given *given, struct base_error *error)
{
    static const double units[] = {1, 10, 100, 1000};
    uint64_t whole = 0;
    uint64_t part = 0;
    const size_t digits = read_digits(given->text, given->length, &whole);
    size_t behind = 0;
    if (digits > 0 && digits < given->length && given->text[digits] == '.') {
        behind = read_digits(given->text + digits + 1, given->length - digits - 1, &part);
    }
    const size_t length = digits + behind + (behind > 0 ? 1 : 0);
    if (digits == 0 || length != given->length || behind > 3) {
        return cfg__fail_value(given, "is not a number such as 2 or 0.75", error);
    }
    if (given->text[0] == '0' && digits > 1) {
        return cfg__fail_value(given, "starts with a zero", error);
    }
    const double value = (double)whole + (double)part / units[behind];
    if (value < (double)option->least || value > (double)option->most) {
        return fail_range(option, given, error);
    }
    *field = value;
    return BASE_OK;
}

static enum base_status set_bool(bool *field, const struct cfg_given *given,
                                 struct base_error *error)
{
    *field = is_word(given, "true");
    if (!*field && !is_word(given, "false")) {
        return cfg__fail_value(given, "is neither true nor false", error);
    }
    return BASE_OK;
}

/* Also C1 controls, the line ends U+2028 and U+2029, byte order marks and their like: none is meant
 * in a path or an address, and not all would come back through a file. */
static bool is_control(const char *text)
{
    const unsigned char *at = (const unsigned char *)text; // a NUL stops each comparison
    if (at[0] == 0xEF) {
        return (at[1] == 0xBB && at[2] == 0xBF) || (at[1] == 0xBF && at[2] >= 0xBE);
    }
    return at[0] < 0x20 || at[0] == 0x7F || (at[0] == 0xC2 && at[1] >= 0x80 && at[1] < 0xA0) ||
           (at[0] == 0xE2 && at[1] == 0x80 && (at[2] == 0xA8 || at[2] == 0xA9));
}

static enum base_status set_text(const char **field, struct base_arena *arena,
                                 const struct cfg_given *given, struct base_error *error)
{
    if (given->length > TEXT_BYTES_MAX) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "%s: longer than %u bytes", given->where,
                         TEXT_BYTES_MAX);
    }
    for (size_t i = 0; i < given->length; i++) {
        if (is_control(given->text + i)) {
            return base_fail(error, BASE_INVALID_ARGUMENT, "%s: holds a control character",
                             given->where);
        }
    }
    char *copy = base_arena_text(arena, given->text, given->length);
    if (copy == NULL) {
        return fail_memory(given, error);
    }
    *field = copy;
    return BASE_OK;
}

/* The next word of a list between |: its length, and *at moved behind it. Hidden words come last,
 * behind an empty one. */
static size_t next_word(const char **at, const char **word)
{
    *word = *at;
    size_t length = strcspn(*at, "|");
    *at += length + ((*at)[length] == '|');
    return length;
}

static enum base_status set_word(const struct cfg_option *option, const char **field,
                                 struct base_arena *arena, const struct cfg_given *given,
                                 struct base_error *error)
{
    const char *at = option->values;
    while (*at != '\0') {
        const char *word;
        size_t length = next_word(&at, &word);
        if (length > 0 && length == given->length && memcmp(word, given->text, length) == 0) {
            return set_text(field, arena, given, error);
        }
    }
    struct base_buf words;
    base_buf_init(&words, 512);
    base_buf_text(&words, "is not one of ");
    cfg__words_write(option, ", ", &words);
    enum base_status status =
        cfg__fail_value(given, words.failed ? "is not one of its words" : words.data, error);
    base_buf_release(&words);
    return status;
}

/* Letters, digits, `_`, `-`, `.`; not starting with `.` or `-`: a folder of the repository and
 * nothing above it. */
static bool is_model_name(const char *text, size_t length)
{
    if (length == 0 || length > NAME_BYTES_MAX || text[0] == '.' || text[0] == '-') {
        return false;
    }
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!letter && !is_digit(c) && c != '_' && c != '-' && c != '.') {
            return false;
        }
    }
    return true;
}

static enum base_status append_name(struct cfg_names *names, struct base_arena *arena,
                                    const struct cfg_given *given, struct base_error *error)
{
    if (!is_word(given, CFG_NAME_ANY) && !is_model_name(given->text, given->length)) {
        return cfg__fail_value(
            given,
            "is not a model name (letters, digits, _, - and ., not starting with . "
            "or -)",
            error);
    }
    for (uint32_t i = 0; i < names->count; i++) {
        if (is_word(given, names->names[i])) {
            return cfg__fail_value(given, "is named twice", error);
        }
    }
    if (names->count == NAMES_COUNT_MAX) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "%s: more than %u names", given->where,
                         NAMES_COUNT_MAX);
    }
    // Copied as a whole each time: lists are short and read once.
    const char **longer = base_arena_array(arena, names->count + 1, sizeof(*longer));
    char *copy = base_arena_text(arena, given->text, given->length);
    if (longer == NULL || copy == NULL) {
        return fail_memory(given, error);
    }
    for (uint32_t i = 0; i < names->count; i++) {
        longer[i] = names->names[i];
    }
    longer[names->count] = copy;
    *names = (struct cfg_names){names->count + 1, longer};
    return BASE_OK;
}

static const char *const vocabulary_kinds[] = {"bytes", "words", "characters", "bpe",
                                               "sentencepiece"};

const char *cfg_vocabulary_kind_name(enum cfg_vocabulary_kind kind)
{
    return vocabulary_kinds[kind];
}

/* Which kind the text before a colon or the end names; -1: none. */
static int find_kind(const char *text, size_t length)
{
    for (int k = 0; k < (int)(sizeof(vocabulary_kinds) / sizeof(vocabulary_kinds[0])); k++) {
        if (strlen(vocabulary_kinds[k]) == length &&
            memcmp(vocabulary_kinds[k], text, length) == 0) {
            return k;
        }
    }
    return -1;
}

/* The files behind HOW and its colon: of BPE two, with a colon between them. false: they are none.
 */
static bool read_files(const char *text, size_t length, struct cfg_vocabulary *out)
{
    const char *colon = out->kind == CFG_VOCABULARY_BPE ? memchr(text, ':', length) : NULL;
    const size_t first = colon == NULL ? length : (size_t)(colon - text);
    const size_t second = colon == NULL ? 0 : length - first - 1;
    if (!is_model_name(text, first) || (colon != NULL && !is_model_name(colon + 1, second))) {
        return false;
    }
    memcpy(out->file, text, first);
    if (colon != NULL) {
        memcpy(out->codes, colon + 1, second);
    }
    return true;
}

static enum base_status append_vocabulary(struct cfg_vocabularies *list,
                                          const struct cfg_given *given, struct base_error *error)
{
    struct cfg_vocabulary made = {.kind = CFG_VOCABULARY_BYTES};
    const char *equals = memchr(given->text, '=', given->length);
    const size_t name_length = equals == NULL ? 0 : (size_t)(equals - given->text);
    const size_t rest = equals == NULL ? 0 : given->length - name_length - 1;
    const char *colon = equals == NULL ? NULL : memchr(equals + 1, ':', rest);
    const size_t kind_length = colon == NULL ? rest : (size_t)(colon - equals - 1);
    const int kind = equals == NULL ? -1 : find_kind(equals + 1, kind_length);
    const size_t files_length = colon == NULL ? 0 : rest - kind_length - 1;
    const bool has_codes = colon != NULL && memchr(colon + 1, ':', files_length) != NULL;
    if (kind < 0 || name_length == 0 || name_length >= sizeof(made.tensor) ||
        (kind == CFG_VOCABULARY_BYTES) != (colon == NULL) ||
        (kind == CFG_VOCABULARY_BPE && !has_codes)) {
        return cfg__fail_value(given,
                               "is not TENSOR=bytes, TENSOR=words:FILE, TENSOR=characters:FILE, "
                               "TENSOR=bpe:FILE:CODES or TENSOR=sentencepiece:FILE",
                               error);
    }
    made.kind = (enum cfg_vocabulary_kind)kind;
    if (colon != NULL && !read_files(colon + 1, files_length, &made)) {
        return cfg__fail_value(given,
                               "names no file beside config.yaml (letters, digits, _, - and ., not "
                               "starting with . or -)",
                               error);
    }
    memcpy(made.tensor, given->text, name_length);
    for (uint32_t i = 0; i < list->count; i++) {
        if (strcmp(list->items[i].tensor, made.tensor) == 0) {
            return cfg__fail_value(given, "is the tensor's second vocabulary", error);
        }
    }
    if (list->count == CFG_VOCABULARIES_MAX) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "%s: more than %u vocabularies",
                         given->where, CFG_VOCABULARIES_MAX);
    }
    list->items[list->count++] = made;
    return BASE_OK;
}

/* A word of small letters and `_`; which words there are is for the importer to say. */
static bool is_kind(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if ((text[i] < 'a' || text[i] > 'z') && text[i] != '_') {
            return false;
        }
    }
    return length > 0 && length < sizeof(((struct cfg_layer *)NULL)->kind);
}

static enum base_status append_layer(struct cfg_layers *list, const struct cfg_given *given,
                                     struct base_error *error)
{
    struct cfg_layer made = {.prefix = ""};
    const char *colon = memchr(given->text, ':', given->length);
    const size_t kind_length = colon == NULL ? given->length : (size_t)(colon - given->text);
    const size_t prefix_length = colon == NULL ? 0 : given->length - kind_length - 1;
    bool is_good = is_kind(given->text, kind_length) && prefix_length < sizeof(made.prefix) &&
                   (prefix_length > 0) == (colon != NULL);
    for (size_t i = 0; i < prefix_length && is_good; i++) {
        is_good = !is_control(colon + 1 + i);
    }
    if (!is_good) {
        return cfg__fail_value(given, "is not KIND or KIND:PREFIX, such as lstm:rnn", error);
    }
    if (list->count == CFG_LAYERS_MAX) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "%s: more than %u layers", given->where,
                         CFG_LAYERS_MAX);
    }
    memcpy(made.kind, given->text, kind_length);
    if (colon != NULL) {
        memcpy(made.prefix, colon + 1, prefix_length);
    }
    list->items[list->count++] = made;
    return BASE_OK;
}

/* The name of a file without its ending. */
static enum base_status append_part(struct cfg_parts *list, const struct cfg_given *given,
                                    struct base_error *error)
{
    if (!is_model_name(given->text, given->length) || given->length >= CFG_PART_NAME_BYTES) {
        return cfg__fail_value(
            given,
            "is not the name of a part (at most 63 letters, digits, _, - and ., not "
            "starting with . or -)",
            error);
    }
    for (uint32_t i = 0; i < list->count; i++) {
        if (is_word(given, list->names[i])) {
            return cfg__fail_value(given, "is named twice", error);
        }
    }
    if (list->count == CFG_PARTS_MAX) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "%s: more than %u parts", given->where,
                         CFG_PARTS_MAX);
    }
    char *name = list->names[list->count++];
    memcpy(name, given->text, given->length);
    name[given->length] = '\0';
    return BASE_OK;
}

static enum base_status append_one(const struct cfg_option *option, void *field,
                                   struct base_arena *arena, const struct cfg_given *one,
                                   struct base_error *error)
{
    return option->type == CFG_TYPE_NAMES       ? append_name(field, arena, one, error)
           : option->type == CFG_TYPE_LAYERS    ? append_layer(field, one, error)
           : option->type == CFG_TYPE_PARTS     ? append_part(field, one, error)
           : option->type == CFG_TYPE_CONSTANTS ? cfg__append_constant(field, one, error)
           : option->type == CFG_TYPE_SHAPES    ? cfg__append_shape(field, one, error)
           : option->type == CFG_TYPE_STATES    ? cfg__append_state(field, one, error)
                                                : append_vocabulary(field, one, error);
}

/* What stands between commas, one by one. */
static enum base_status append_each(const struct cfg_option *option, void *field,
                                    struct base_arena *arena, const struct cfg_given *given,
                                    struct base_error *error)
{
    size_t start = 0;
    while (start <= given->length) {
        size_t end = start;
        while (end < given->length && given->text[end] != ',') {
            end++;
        }
        size_t last = end; // what is around a comma is room
        while (start < last && given->text[start] == ' ') {
            start++;
        }
        while (last > start && given->text[last - 1] == ' ') {
            last--;
        }
        const struct cfg_given one = {given->text + start, last - start, given->where};
        BASE_TRY(append_one(option, field, arena, &one, error));
        start = end + 1;
    }
    return BASE_OK;
}

enum base_status cfg__value_set(const struct cfg_option *option, void *object,
                                struct base_arena *arena, const struct cfg_given *given,
                                struct base_error *error)
{
    void *field = cfg__field(option, object);
    if (given->length == 0) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "%s: has no value", given->where);
    }
    switch (option->type) {
    case CFG_TYPE_BOOL:
    case CFG_TYPE_SWITCH:
        return set_bool(field, given, error);
    case CFG_TYPE_COUNT:
    case CFG_TYPE_SIZE:
    case CFG_TYPE_TIME:
        return set_amount(option, field, given, error);
    case CFG_TYPE_ID:
        return set_id(option, field, given, error);
    case CFG_TYPE_DECIMAL:
        return set_decimal(option, field, given, error);
    case CFG_TYPE_TEXT:
        return set_text(field, arena, given, error);
    case CFG_TYPE_WORD:
        return set_word(option, field, arena, given, error);
    case CFG_TYPE_NAMES:
    case CFG_TYPE_VOCABULARIES:
    case CFG_TYPE_LAYERS:
    case CFG_TYPE_PARTS:
    case CFG_TYPE_CONSTANTS:
    case CFG_TYPE_SHAPES:
    case CFG_TYPE_STATES:
        return append_each(option, field, arena, given, error);
    case CFG_TYPE_TENSOR:
        return cfg__set_tensor(field, given, error);
    }
    base_assert(false);
    return BASE_INTERNAL;
}

void cfg__amount_write(enum cfg_type type, uint64_t amount, struct base_buf *out)
{
    const struct unit *best = units_of(type); // then the largest that divides
    for (const struct unit *unit = best + 1; unit->name != NULL; unit++) {
        if (amount % unit->factor == 0 && unit->factor >= best->factor) {
            best = unit;
        }
    }
    base_assert(amount % best->factor == 0); // no text gives a part of a millisecond
    base_buf_printf(out, "%llu%s", (unsigned long long)(amount / best->factor),
                    amount == 0 ? "" : best->name);
}

void cfg__words_write(const struct cfg_option *option, const char *separator, struct base_buf *out)
{
    const char *at = option->values;
    const char *word;
    size_t length = next_word(&at, &word);
    for (bool first = true; length > 0; first = false) {
        base_buf_text(out, first ? "" : separator);
        base_buf_add(out, word, length);
        length = next_word(&at, &word);
    }
}

static void write_names(const struct cfg_names *names, struct base_buf *out)
{
    base_buf_text(out, "[");
    for (uint32_t i = 0; i < names->count; i++) {
        base_buf_text(out, i == 0 ? "" : ", ");
        base_buf_json_string(out, names->names[i], strlen(names->names[i]));
    }
    base_buf_text(out, "]");
}

static void write_vocabularies(const struct cfg_vocabularies *list, struct base_buf *out)
{
    base_buf_text(out, "[");
    for (uint32_t i = 0; i < list->count; i++) {
        const struct cfg_vocabulary *item = &list->items[i];
        base_buf_printf(out, "%s%s=%s%s%s%s%s", i == 0 ? "" : ", ", item->tensor,
                        cfg_vocabulary_kind_name(item->kind), item->file[0] == '\0' ? "" : ":",
                        item->file, item->codes[0] == '\0' ? "" : ":", item->codes);
    }
    base_buf_text(out, "]");
}

static void write_layers(const struct cfg_layers *list, struct base_buf *out)
{
    base_buf_text(out, "[");
    for (uint32_t i = 0; i < list->count; i++) {
        const struct cfg_layer *item = &list->items[i];
        base_buf_printf(out, "%s%s%s%s", i == 0 ? "" : ", ", item->kind,
                        item->prefix[0] == '\0' ? "" : ":", item->prefix);
    }
    base_buf_text(out, "]");
}

static void write_parts(const struct cfg_parts *list, struct base_buf *out)
{
    base_buf_text(out, "[");
    for (uint32_t i = 0; i < list->count; i++) {
        base_buf_printf(out, "%s%s", i == 0 ? "" : ", ", list->names[i]);
    }
    base_buf_text(out, "]");
}

static void write_id(int64_t id, struct base_buf *out)
{
    if (id == CFG_ID_NONE) {
        base_buf_text(out, "none");
    } else {
        base_buf_printf(out, "%lld", (long long)id);
    }
}

void cfg__value_write(const struct cfg_option *option, const void *object, struct base_buf *out)
{
    const void *field = cfg__field_const(option, object);
    switch (option->type) {
    case CFG_TYPE_BOOL:
    case CFG_TYPE_SWITCH:
        base_buf_text(out, *(const bool *)field ? "true" : "false");
        break;
    case CFG_TYPE_COUNT:
        cfg__amount_write(option->type, *(const uint32_t *)field, out);
        break;
    case CFG_TYPE_ID:
        write_id(*(const int64_t *)field, out);
        break;
    case CFG_TYPE_DECIMAL:
        base_buf_printf(out, "%.3g", *(const double *)field);
        break;
    case CFG_TYPE_SIZE:
    case CFG_TYPE_TIME:
        cfg__amount_write(option->type, *(const uint64_t *)field, out);
        break;
    case CFG_TYPE_TEXT: {
        const char *text = *(const char *const *)field;
        base_buf_json_string(out, text, strlen(text));
        break;
    }
    case CFG_TYPE_WORD:
        base_buf_text(out, *(const char *const *)field);
        break;
    case CFG_TYPE_NAMES:
        write_names(field, out);
        break;
    case CFG_TYPE_VOCABULARIES:
        write_vocabularies(field, out);
        break;
    case CFG_TYPE_LAYERS:
        write_layers(field, out);
        break;
    case CFG_TYPE_PARTS:
        write_parts(field, out);
        break;
    case CFG_TYPE_CONSTANTS:
        cfg__write_constants(field, out);
        break;
    case CFG_TYPE_SHAPES:
        cfg__write_shapes(field, out);
        break;
    case CFG_TYPE_STATES:
        cfg__write_states(field, out);
        break;
    case CFG_TYPE_TENSOR: {
        const struct cfg_tensor *tensor = field;
        base_buf_json_string(out, tensor->name, strlen(tensor->name));
        break;
    }
    }
}
