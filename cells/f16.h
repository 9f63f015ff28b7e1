/* binary16 of IEEE 754, in which model files and requests may have floats: 5 bits of exponent, 10
 * of fraction. Cells never compute in it; bf16.h has the other kind of half. Pure functions. */
#ifndef CELLS_F16_H
#define CELLS_F16_H

#include <stdint.h>
#include <string.h>

/* Exact: each of them is a float. A NaN keeps its payload. */
static inline float cell_f16_widen(uint16_t f16)
{
    const uint32_t sign = (uint32_t)(f16 & 0x8000u) << 16;
    const uint32_t exponent = f16 & 0x7C00u;
    uint32_t bits = (uint32_t)(f16 & 0x7FFFu) << 13; // exponent and fraction in a float's places
    float x;
    if (exponent == 0x7C00u) { // infinity or NaN
        bits |= 0x7F800000u;
    } else if (exponent > 0) {
        bits += 112u << 23; // the exponents' biases are 127 and 15
    } else {
        x = (float)(f16 & 0x03FFu) * 0x1p-24f;
        memcpy(&bits, &x, sizeof(bits));
    }
    bits |= sign;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

/* The nearest, ties to even; from 65520 on, infinity. A NaN stays one, quiet. */
static inline uint16_t cell_f16_round(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    const uint32_t sign = bits >> 16 & 0x8000u;
    bits &= 0x7FFFFFFFu;
    if (bits > 0x7F800000u) {
        return (uint16_t)(sign | 0x7E00u | (bits >> 13 & 0x1FFu));
    }
    if (bits >= 0x477FF000u) { // 65520, half way from the largest to what would be the next
        return (uint16_t)(sign | 0x7C00u);
    }
    if (bits < 0x38800000u) { // below 2^-14: whole multiples of 2^-24, to which a sum rounds
        float least;
        memcpy(&least, &bits, sizeof(least));
        least += 0.5f; // whose last bit is 2^-24
        memcpy(&bits, &least, sizeof(bits));
        return (uint16_t)(sign | (bits - 0x3F000000u));
    }
    bits += 0xFFFu + (bits >> 13 & 1u);
    return (uint16_t)(sign | (bits - 0x38000000u) >> 13);
}

#endif
