/* Tensors whose features stand before their time or batch axis, as [batch, channels, steps] does
 * (struct cell_tensor, is_turned): cells read and write rows, so they are turned when they come,
 * and turned back before they go. Pure; loop thread. Cost: a copy of the tensor. */
#ifndef SERVER_TURN_H
#define SERVER_TURN_H

#include "cells/model.h"

#include <stddef.h>
#include <stdint.h>

/* dims: [rank] of the tensor at hand. tensor: as the model's users see it; rows:
 * [batch][time][width], as many elements. They must not overlap; tensor need not be aligned. */
void srv_turn_to_rows(const struct cell_tensor *shape, const int64_t *dims, const uint8_t *tensor,
                      uint8_t *rows);
void srv_turn_from_rows(const struct cell_tensor *shape, const int64_t *dims, const uint8_t *rows,
                        uint8_t *tensor);

#endif
