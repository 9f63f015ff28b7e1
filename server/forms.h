/* Elements as requests and answers have them, where cells see floats of them (enum cell_form):
 * bytes, halves of IEEE 754, brain floats, doubles. Pure functions; loop thread. Cost: one pass. */
#ifndef SERVER_FORMS_H
#define SERVER_FORMS_H

#include "cells/model.h"

#include <stddef.h>
#include <stdint.h>

/* form: not OWN; n elements, data of any alignment, floats of their own memory. Of doubles the
 * nearest floats. Returns the first that is a number and whose float would be none; n: none is. */
size_t srv_forms_widen(enum cell_form form, const uint8_t *data, size_t n, float *floats);

/* The nearest number of that form, ties to even; beyond the largest of halves infinity, of bytes
 * the largest or least, and 0 for what is no number. BOOL: whether it is not 0. data: n floats,
 * which become n elements from the same address on, where there is room for them. */
void srv_forms_narrow(enum cell_form form, uint8_t *data, size_t n);

/* Bytes that each needs for that: of whichever is the longer. Of OWN that of a float. */
size_t srv_forms_room(enum cell_form form);

#endif
