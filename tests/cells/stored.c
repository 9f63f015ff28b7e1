/* See stored.h. */
#include "tests/cells/stored.h"

#include "base/mem.h"
#include "base/random.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_BYTES_MAX = 64 << 20, LAYERS_MAX = 80, TEXT_BYTES = 192 };

static void write_length(uint8_t bytes[8], size_t length)
{
    for (size_t i = 0; i < 8; i++) {
        bytes[i] = (uint8_t)((uint64_t)length >> (8 * i));
    }
}

uint8_t *stored_raw(const char *header, size_t header_length, size_t data_bytes, size_t *length)
{
    *length = 8 + header_length + data_bytes;
    uint8_t *bytes = base_alloc(*length);
    ck_assert_ptr_nonnull(bytes);
    write_length(bytes, header_length);
    if (header_length > 0) {
        memcpy(bytes + 8, header, header_length);
    }
    return bytes;
}

void stored_init(struct stored_file *file)
{
    base_buf_init(&file->header, FILE_BYTES_MAX);
    base_buf_init(&file->data, FILE_BYTES_MAX);
    base_buf_init(&file->whole, FILE_BYTES_MAX);
}

void stored_release(struct stored_file *file)
{
    base_buf_release(&file->header);
    base_buf_release(&file->data);
    base_buf_release(&file->whole);
}

void stored_add_bytes(struct stored_file *file, const char *name, const char *dtype,
                      const char *shape, const void *bytes, size_t length)
{
    const size_t begin = file->data.length;
    base_buf_printf(&file->header, "%s", file->header.length == 0 ? "{" : ",");
    base_buf_json_string(&file->header, name, strlen(name));
    base_buf_printf(&file->header, ":{\"dtype\":\"%s\",\"shape\":[", dtype);
    for (const char *at = shape; *at != '\0'; at++) {
        base_buf_add(&file->header, *at == ' ' ? "," : at, 1);
    }
    base_buf_printf(&file->header, "],\"data_offsets\":[%zu,%zu]}", begin, begin + length);
    base_buf_add(&file->data, bytes, length);
}

void stored_add(struct stored_file *file, const char *name, const char *shape)
{
    struct base_random random;
    uint64_t seed = 1;
    size_t count = 1;
    for (const char *at = name; *at != '\0'; at++) {
        seed = seed * 31 + (uint8_t)*at;
    }
    for (const char *at = shape; *at != '\0'; at += *at == ' ' ? 1 : 0) {
        char *end = NULL;
        count *= (size_t)strtoull(at, &end, 10);
        at = end;
    }
    base_random_init(&random, seed);
    float *floats = base_alloc_array(count + 1, sizeof(*floats));
    for (size_t i = 0; i < count; i++) {
        floats[i] = base_random_f32(&random, -0.5f, 0.5f);
    }
    stored_add_bytes(file, name, "F32", shape, floats, count * sizeof(*floats));
    base_free(floats);
}

struct cell_model_file stored_file(struct stored_file *file)
{
    uint8_t length[8];
    base_buf_text(&file->header, file->header.length == 0 ? "{" : "");
    write_length(length, file->header.length + 1);
    base_buf_clear(&file->whole);
    base_buf_add(&file->whole, length, sizeof(length));
    base_buf_add(&file->whole, file->header.data, file->header.length);
    base_buf_add(&file->whole, "}", 1);
    base_buf_add(&file->whole, file->data.data, file->data.length);
    ck_assert(!file->header.failed && !file->data.failed && !file->whole.failed);
    return (struct cell_model_file){file->whole.data, file->whole.length, NULL};
}

enum base_status stored_load(struct cell_registry *registry, struct cell_model_file file,
                             const char *layers, struct cell_model **out, struct base_error *error)
{
    static char texts[LAYERS_MAX][TEXT_BYTES];
    struct cell_layer items[LAYERS_MAX];
    uint32_t n = 0;
    while (*layers != '\0') {
        const size_t length = strcspn(layers, ",");
        ck_assert_uint_lt(n, LAYERS_MAX);
        ck_assert_uint_lt(length, TEXT_BYTES);
        memcpy(texts[n], layers, length);
        texts[n][length] = '\0';
        char *colon = strchr(texts[n], ':');
        items[n].kind = texts[n];
        items[n].prefix = colon == NULL ? "" : colon + 1;
        if (colon != NULL) {
            *colon = '\0';
        }
        n++;
        layers += length + (layers[length] == ',' ? 1 : 0);
    }
    const struct cell_layers list = {n, items};
    const struct cell_model_options options = {.layers = &list};
    return cell_model_parse(registry, file, "test", &options, out, error);
}
