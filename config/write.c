/* What is printed from the table: --help, the effective configuration, the reference document.
 * Appends to a buffer whose failure the caller sees; stateless. */
#include "config/internal.h"

#include "base/assert.h"

#include <string.h>

#define HELP_COLUMNS 80u
#define HELP_INDENT  30u /* where the meaning starts */

/* Appends text, broken at blanks, in lines indented by HELP_INDENT; the first continues a line of
 * `column` letters. */
static void write_wrapped(struct base_buf *out, size_t column, const char *text)
{
    bool new_line = column + 2 > HELP_INDENT;
    while (*text != '\0') {
        size_t word = strcspn(text, " ");
        if (new_line || column + 1 + word > HELP_COLUMNS) {
            base_buf_text(out, "\n");
            column = 0;
            new_line = false;
        }
        size_t blanks = column < HELP_INDENT ? HELP_INDENT - column : 1;
        base_buf_printf(out, "%*s%.*s", (int)blanks, "", (int)word, text);
        column += blanks + word;
        text += word + (text[word] == ' ');
    }
    base_buf_text(out, "\n");
}

/* `PORT`, `a|b`: what stands for the value. */
static void write_placeholder(const struct cfg_option *option, struct base_buf *out)
{
    if (option->type == CFG_TYPE_WORD) {
        cfg__words_write(option, "|", out);
    } else {
        base_buf_text(out, option->values);
    }
}

static void write_help_option(const struct cfg_option *option, struct base_buf *out)
{
    char key[CFG_NAME_BYTES];
    cfg__option_key(option, key);
    size_t start = out->length;
    base_buf_printf(out, "  --%s ", key);
    write_placeholder(option, out);
    size_t column = out->length - start;
    struct base_buf meaning;
    base_buf_init(&meaning, 1024);
    base_buf_text(&meaning, option->help);
    if (option->type != CFG_TYPE_SWITCH && option->default_text[0] != '\0') {
        base_buf_printf(&meaning, " [%s]", option->default_text);
    }
    write_wrapped(out, column, meaning.failed ? option->help : meaning.data);
    base_buf_release(&meaning);
}

void cfg_write_help(struct base_buf *out)
{
    base_buf_text(out,
                  "Usage: cellbatchd --model-repository DIR [--OPTION VALUE]...\n"
                  "\n"
                  "Serves recurrent neural networks over gRPC and HTTP (Open Inference Protocol),\n"
                  "batching single cells of all requests. Defaults stand in [brackets].\n");
    for (unsigned section = 0; section < CFG_SECTION_COUNT; section++) {
        base_buf_printf(out, "\n%s\n", cfg__section_title((enum cfg_section)section));
        for (uint32_t i = 0; i < cfg__table.n_options; i++) {
            if (cfg__table.options[i].section == section) {
                write_help_option(&cfg__table.options[i], out);
            }
        }
    }
    base_buf_printf(
        out,
        "\nEvery option is also a variable, CELLBATCH_GRPC_PORT=8001, and a line of the\n"
        "file, grpc-port: 8001. Flags win over the environment, that over the file.\n"
        "SIZE: %s.\nTIME: %s.\n",
        cfg__type_grammar(CFG_TYPE_SIZE), cfg__type_grammar(CFG_TYPE_TIME));
}

/* Options that a file may hold and that have a value; an empty text is none. */
static bool belongs_in_file(const struct cfg_option *option, const struct cfg_config *config)
{
    const void *field = cfg__field_const(option, config);
    if (option->ways != CFG_WAYS_ALL) {
        return false;
    }
    if (option->type == CFG_TYPE_TEXT) {
        const char *const *text = field;
        return (*text)[0] != '\0';
    }
    if (option->type == CFG_TYPE_NAMES) {
        const struct cfg_names *names = field;
        return names->count > 0;
    }
    return true;
}

void cfg_write_effective(const struct cfg_config *config, struct base_buf *out)
{
    static const char *const sources[] = {
        [CFG_SOURCE_DEFAULT] = "default",
        [CFG_SOURCE_FILE] = "file",
        [CFG_SOURCE_ENVIRONMENT] = "environment",
        [CFG_SOURCE_FLAG] = "flag",
    };
    for (uint32_t i = 0; i < cfg__table.n_options; i++) {
        const struct cfg_option *option = &cfg__table.options[i];
        if (belongs_in_file(option, config)) {
            char key[CFG_NAME_BYTES];
            cfg__option_key(option, key);
            base_buf_printf(out, "%s: ", key);
            cfg__value_write(option, config, out);
            base_buf_printf(out, " # %s\n", sources[config->sources[i]]);
        }
    }
}

/* Appends text as Markdown inside a table: | would end the cell. */
static void write_cell(struct base_buf *out, const char *text)
{
    while (*text != '\0') {
        size_t length = strcspn(text, "|");
        base_buf_add(out, text, length);
        text += length;
        if (*text == '|') {
            base_buf_text(out, "\\|");
            text++;
        }
    }
}

/* The values that are allowed, and the default. */
static void write_reference_value(const struct cfg_option *option, struct base_buf *out)
{
    switch (option->type) {
    case CFG_TYPE_ID:
    case CFG_TYPE_DECIMAL:
    case CFG_TYPE_COUNT:
    case CFG_TYPE_SIZE:
    case CFG_TYPE_TIME:
        cfg__amount_write(option->type, option->least, out);
        base_buf_text(out, " to ");
        cfg__amount_write(option->type, option->most, out);
        base_buf_text(out, option->type == CFG_TYPE_ID ? ", none" : "");
        break;
    case CFG_TYPE_BOOL:
        base_buf_text(out, "true, false");
        break;
    case CFG_TYPE_WORD:
        cfg__words_write(option, ", ", out);
        break;
    case CFG_TYPE_TEXT:
    case CFG_TYPE_NAMES:
    case CFG_TYPE_VOCABULARIES:
    case CFG_TYPE_LAYERS:
    case CFG_TYPE_PARTS:
    case CFG_TYPE_CONSTANTS:
    case CFG_TYPE_SHAPES:
    case CFG_TYPE_STATES:
    case CFG_TYPE_TENSOR:
    case CFG_TYPE_SWITCH:
        write_cell(out, option->values);
        break;
    }
    bool has_default = option->type != CFG_TYPE_SWITCH && option->default_text[0] != '\0';
    base_buf_printf(out, has_default ? " | `%s` | " : " | %s | ",
                    has_default ? option->default_text : "");
}

static void write_reference_row(const struct cfg_option *option, struct base_buf *out)
{
    char name[CFG_NAME_BYTES];
    cfg__option_key(option, name);
    base_buf_printf(out, "| `--%s` | ", name);
    cfg__option_env(option, name);
    base_buf_printf(out, option->ways == CFG_WAYS_FLAG ? "flag only | " : "`%s` | ", name);
    write_reference_value(option, out);
    write_cell(out, option->help);
    base_buf_text(out, " |\n");
}

void cfg_write_reference(struct base_buf *out)
{
    for (unsigned section = 0; section < CFG_SECTION_COUNT; section++) {
        base_buf_printf(out,
                        "\n### %s\n\n| flag | variable | values | default | meaning |\n"
                        "|---|---|---|---|---|\n",
                        cfg__section_title((enum cfg_section)section));
        for (uint32_t i = 0; i < cfg__table.n_options; i++) {
            if (cfg__table.options[i].section == section) {
                write_reference_row(&cfg__table.options[i], out);
            }
        }
    }
}
