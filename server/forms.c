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
    case CELL_FORM_OWN:
        break;
    }
    base_assert(false);
    return 0.0f;
}

void srv_forms_widen(enum cell_form form, const uint8_t *data, size_t n, float *floats)
{
    const size_t bytes = form == CELL_FORM_F16 || form == CELL_FORM_BF16 ? sizeof(uint16_t) : 1;
    for (size_t i = 0; i < n; i++) {
        floats[i] = widen(form, data + i * bytes);
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
