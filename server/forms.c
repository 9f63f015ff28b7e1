/* See forms.h. */
#include "server/forms.h"

#include "base/assert.h"
#include "cells/bf16.h"
#include "cells/f16.h"

#include <math.h>
#include <string.h>

static float widen(enum cell_form form, const uint8_t *element)
{
    uint16_t half = 0;
    double wide = 0.0;
    switch (form) {
    case CELL_FORM_BOOL:
        return *element != 0 ? 1.0f : 0.0f;
    case CELL_FORM_U8:
        return *element;
    case CELL_FORM_I8:
        return (float)(int8_t)*element;
    case CELL_FORM_F16:
        memcpy(&half, element, sizeof(half));
        return cell_f16_widen(half);
    case CELL_FORM_BF16:
        memcpy(&half, element, sizeof(half));
        return cell_bf16_widen(half);
    case CELL_FORM_F64:
        memcpy(&wide, element, sizeof(wide));
        return (float)wide;
    case CELL_FORM_OWN:
        break;
    }
    base_assert(false);
    return 0.0f;
}

static size_t bytes_of(enum cell_form form)
{
    return form == CELL_FORM_F64                             ? sizeof(double)
           : form == CELL_FORM_F16 || form == CELL_FORM_BF16 ? sizeof(uint16_t)
                                                             : 1;
}

size_t srv_forms_widen(enum cell_form form, const uint8_t *data, size_t n, float *floats)
{
    const size_t bytes = bytes_of(form);
    size_t first = n;
    for (size_t i = 0; i < n; i++) {
        floats[i] = widen(form, data + i * bytes);
        if (form == CELL_FORM_F64 && isinf(floats[i]) && first == n) {
            double wide;
            memcpy(&wide, data + i * bytes, sizeof(wide));
            first = isinf(wide) ? n : i;
        }
    }
    return first;
}

size_t srv_forms_room(enum cell_form form)
{
    return form == CELL_FORM_F64 ? sizeof(double) : sizeof(float);
}

/* From the last to the first: each is longer than its float. */
static void make_doubles(uint8_t *data, size_t n)
{
    for (size_t i = n; i-- > 0;) {
        float number;
        memcpy(&number, data + i * sizeof(number), sizeof(number));
        const double wide = (double)number;
        memcpy(data + i * sizeof(wide), &wide, sizeof(wide));
    }
}

static uint8_t byte_of(float number, float least, float most)
{
    const float rounded = isnan(number) ? 0.0f : rintf(number);
    return (uint8_t)(int32_t)(rounded < least ? least : rounded > most ? most : rounded);
}

void srv_forms_narrow(enum cell_form form, uint8_t *data, size_t n)
{
    base_assert(form != CELL_FORM_OWN);
    if (form == CELL_FORM_F64) {
        make_doubles(data, n);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        float number;
        memcpy(&number, data + i * sizeof(number), sizeof(number));
        if (form == CELL_FORM_F16 || form == CELL_FORM_BF16) {
            const uint16_t half =
                form == CELL_FORM_F16 ? cell_f16_round(number) : cell_bf16_round(number);
            memcpy(data + i * sizeof(half), &half, sizeof(half));
        } else {
            data[i] = form == CELL_FORM_BOOL ? number != 0.0f
                      : form == CELL_FORM_I8 ? byte_of(number, INT8_MIN, INT8_MAX)
                                             : byte_of(number, 0.0f, UINT8_MAX);
        }
    }
}
