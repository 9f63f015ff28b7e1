#include "loadgen/values.h"

#include "base/assert.h"

#include <string.h>

/* Largest value of a signed or unsigned integer type; BOOL and floats do not come here. */
static uint64_t integer_max(const struct lg_datatype *datatype)
{
    uint32_t bits = datatype->element_bytes * 8;
    if (datatype->name[0] != 'U') {
        bits--;
    }
    return bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
}

static void fill_integers(const struct lg_datatype *datatype, uint64_t vocab,
                          struct base_random *random, uint8_t *out, size_t bytes)
{
    uint64_t max = integer_max(datatype);
    max = vocab < max ? vocab : max;
    for (size_t at = 0; at < bytes; at += datatype->element_bytes) {
        uint64_t value = base_random_u64(random);
        if (max < UINT64_MAX) {
            value %= max + 1; // its bias is far below what a load could show
        }
        memcpy(out + at, &value, datatype->element_bytes);
    }
}

static void fill_floats(const struct lg_datatype *datatype, struct base_random *random,
                        uint8_t *out, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += datatype->element_bytes) {
        if (datatype->element_bytes == sizeof(float)) {
            float value = base_random_f32(random, -1, 1);
            memcpy(out + at, &value, sizeof(value));
        } else {
            double value = 2 * base_random_unit(random) - 1;
            memcpy(out + at, &value, sizeof(value));
        }
    }
}

/* 16-bit floats: sign, the exponent of [0.5, 1), and a random mantissa. */
static void fill_short_floats(uint16_t exponent, uint16_t mantissa, struct base_random *random,
                              uint8_t *out, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += sizeof(uint16_t)) {
        uint64_t draw = base_random_u64(random);
        uint16_t value = (uint16_t)((draw & (0x8000u | mantissa)) | exponent);
        memcpy(out + at, &value, sizeof(value));
    }
}

void lg_values_fill(const struct lg_datatype *datatype, uint64_t vocab, struct base_random *random,
                    uint8_t *out, size_t bytes)
{
    base_assert(bytes % datatype->element_bytes == 0);
    switch (datatype->fill) {
    case LG_FILL_INTEGER:
        fill_integers(datatype, vocab, random, out, bytes);
        break;
    case LG_FILL_FLOAT:
        fill_floats(datatype, random, out, bytes);
        break;
    case LG_FILL_HALF:
        fill_short_floats(0x3800u, 0x03ffu, random, out, bytes);
        break;
    case LG_FILL_BRAIN:
        fill_short_floats(0x3f00u, 0x007fu, random, out, bytes);
        break;
    case LG_FILL_TEXT:
        base_assert(false); // comes from a file
        break;
    case LG_FILL_BOOL:
        for (size_t i = 0; i < bytes; i++) {
            out[i] = (uint8_t)(base_random_u64(random) >> 63);
        }
        break;
    }
}
