/* make_model: writes a random-weight LSTM model for load tests and benchmarks.
 *
 *   make_model --input I --hidden H [--classes C] [--layers L] [--embedding N] [--states]
 *              [--seed S] --out PATH
 *
 * The same options give the same bytes. Shapes and names: onnx_add_lstm() in onnx_builder.h. */
#include "tests/onnx_builder.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPSET = 17, SIZE_MAX_OPTION = 1 << 20 };

static const struct option options[] = {
    {"input", required_argument, NULL, 'i'},
    {"hidden", required_argument, NULL, 'h'},
    {"classes", required_argument, NULL, 'c'},
    {"layers", required_argument, NULL, 'l'},
    {"embedding", required_argument, NULL, 'e'},
    {"states", no_argument, NULL, 's'},
    {"seed", required_argument, NULL, 'r'},
    {"out", required_argument, NULL, 'o'},
    {NULL, 0, NULL, 0},
};

static bool read_number(const char *text, uint64_t max, uint64_t *out)
{
    char *end = NULL;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return errno == 0 && end != text && *end == '\0' && text[0] != '-' && *out <= max;
}

/* The field of a numeric size option, or NULL. */
static uint32_t *field_of(struct onnx_lstm *lstm, int option)
{
    return option == 'i'   ? &lstm->input
           : option == 'h' ? &lstm->hidden
           : option == 'c' ? &lstm->classes
           : option == 'l' ? &lstm->layers
           : option == 'e' ? &lstm->embedding
                           : NULL;
}

static bool read_options(int argc, char **argv, struct onnx_lstm *lstm, const char **path)
{
    int option = 0;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        uint32_t *field = field_of(lstm, option);
        uint64_t number = 0;
        if (field != NULL) {
            if (!read_number(optarg, SIZE_MAX_OPTION, &number)) {
                return false;
            }
            *field = (uint32_t)number;
        } else if (option == 's') {
            lstm->has_states = true;
        } else if (option == 'o') {
            *path = optarg;
        } else if (option != 'r' || !read_number(optarg, UINT64_MAX, &lstm->seed)) {
            return false;
        }
    }
    return optind == argc && *path != NULL && lstm->input > 0 && lstm->hidden > 0 &&
           lstm->layers > 0 && !(lstm->has_states && lstm->layers > 1);
}

static bool write_file(const char *path, const uint8_t *bytes, size_t length)
{
    FILE *file = fopen(path, "wb");
    if (file == NULL) {
        return false;
    }
    bool is_written = fwrite(bytes, 1, length, file) == length;
    return fclose(file) == 0 && is_written;
}

int main(int argc, char **argv)
{
    struct onnx_lstm lstm = {.layers = 1, .seed = 1};
    const char *path = NULL;
    struct onnx_builder builder;
    size_t length = 0;
    if (!read_options(argc, argv, &lstm, &path)) {
        fprintf(stderr, "usage: make_model --input I --hidden H [--classes C] [--layers L] "
                        "[--embedding N] [--states] [--seed S] --out PATH\n");
        return 2;
    }
    onnx_init(&builder, OPSET);
    onnx_add_lstm(&builder, &lstm);
    const uint8_t *bytes = onnx_pack(&builder, &length);
    bool is_written = write_file(path, bytes, length);
    if (!is_written) {
        fprintf(stderr, "make_model: cannot write %s: %s\n", path, strerror(errno));
    }
    onnx_release(&builder);
    return is_written ? 0 : 1;
}
