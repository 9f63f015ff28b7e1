#include "loadgen/values.h"

#include "base/assert.h"

#include <string.h>

/* The range, cut to what a signed or unsigned integer type can hold of it. */
static struct lg_range cut(const struct lg_datatype *datatype, const struct lg_range *range)
{
    const bool is_signed = datatype->name[0] != 'U';
    const uint32_t bits = datatype->element_bytes * 8 - (is_signed ? 1 : 0);
    const int64_t most = bits >= 63 ? INT64_MAX : (INT64_C(1) << bits) - 1;
    const int64_t least = !is_signed ? 0 : -most - 1;
    struct lg_range out = *range;
    out.least = out.least < least ? least : out.least > most ? most : out.least;
    out.most = out.most < out.least ? out.least : out.most > most ? most : out.most;
    return out;
}

static int64_t draw(const struct lg_range *range, struct base_random *random)
{
    const uint64_t count = (uint64_t)range->most - (uint64_t)range->least + 1;
    uint64_t value = base_random_u64(random);
    value = count == 0 ? value : value % count; // its bias is far below what a load could show
    return (int64_t)((uint64_t)range->least + value);
}

static void fill_integers(const struct lg_datatype *datatype, const struct lg_range *range,
                          struct base_random *random, uint8_t *out, size_t bytes)
{
    const struct lg_range own = cut(datatype, range);
    for (size_t at = 0; at < bytes; at += datatype->element_bytes) {
        const int64_t value = draw(&own, random);
        memcpy(out + at, &value, datatype->element_bytes);
    }
}

static void fill_floats(const struct lg_datatype *datatype, const struct lg_range *range,
                        struct base_random *random, uint8_t *out, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += datatype->element_bytes) {
        if (datatype->element_bytes == sizeof(float)) {
            float value =
                range != NULL ? (float)draw(range, random) : base_random_f32(random, -1, 1);
            memcpy(out + at, &value, sizeof(value));
        } else {
            double value =
                range != NULL ? (double)draw(range, random) : 2 * base_random_unit(random) - 1;
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

void lg_values_fill(const struct lg_datatype *datatype, const struct lg_range *range,
                    struct base_random *random, uint8_t *out, size_t bytes)
{
    base_assert(bytes % datatype->element_bytes == 0);
    base_assert(range == NULL || range->least <= range->most);
    switch (datatype->fill) {
    case LG_FILL_INTEGER:
        base_assert(range != NULL);
        fill_integers(datatype, range, random, out, bytes);
        break;
    case LG_FILL_FLOAT:
        fill_floats(datatype, range, random, out, bytes);
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
