/* See turn.h. What is behind the last of batch and time lies together in both forms, and is moved
 * as a block; most often it is one element, and the axis before it the time. */
#include "server/turn.h"

#include "base/assert.h"

#include <stdbool.h>
#include <string.h>

/* An axis: how long it is, and bytes from one element to the next. */
struct axis {
    size_t size, bytes;
};

struct turn {
    struct axis batch, time;
    struct axis features[CELL_RANK_MAX]; /* before the blocks, outermost first */
    uint32_t n_features;
    size_t parts, block; /* blocks of a row; bytes of one */
    bool is_back;
};

static struct turn turn_of(const struct cell_tensor *shape, const int64_t *dims)
{
    const int32_t last =
        shape->batch_axis > shape->time_axis ? shape->batch_axis : shape->time_axis;
    struct turn turn = {.batch = {1, 0}, .time = {1, 0}, .parts = 1};
    size_t bytes = cell_dtype_bytes(shape->dtype);
    base_assert(shape->rank <= CELL_RANK_MAX);
    for (int32_t k = (int32_t)shape->rank - 1; k >= 0; k--) {
        const struct axis axis = {(size_t)dims[k], bytes};
        turn.block = k == last ? bytes : turn.block;
        if (k == shape->batch_axis) {
            turn.batch = axis;
        } else if (k == shape->time_axis) {
            turn.time = axis;
        } else if (k < last) {
            memmove(&turn.features[1], &turn.features[0], turn.n_features * sizeof(axis));
            turn.features[0] = axis;
            turn.n_features++;
            turn.parts *= axis.size;
        }
        bytes *= axis.size;
    }
    turn.block = last < 0 ? bytes : turn.block;
    return turn;
}

/* Most blocks are one float, which is one move where its size is known. */
static inline void move(const uint8_t *from, size_t bytes, uint8_t *to)
{
    if (bytes == sizeof(float)) {
        memcpy(to, from, sizeof(float));
    } else {
        memcpy(to, from, bytes);
    }
}

/* One block of all rows; at: where it stands in the first of them, in the tensor. */
static void turn_part(const struct turn *turn, size_t part, size_t at, const uint8_t *from,
                      uint8_t *to)
{
    const size_t row_bytes = turn->parts * turn->block;
    for (size_t b = 0; b < turn->batch.size; b++) {
        for (size_t t = 0; t < turn->time.size; t++) {
            const size_t tensor = at + b * turn->batch.bytes + t * turn->time.bytes;
            const size_t rows = (b * turn->time.size + t) * row_bytes + part * turn->block;
            move(from + (turn->is_back ? rows : tensor), turn->block,
                 to + (turn->is_back ? tensor : rows));
        }
    }
}

static void turn_all(const struct turn *turn, const uint8_t *from, uint8_t *to)
{
    size_t place[CELL_RANK_MAX] = {0};
    size_t at = 0;
    for (size_t part = 0; part < turn->parts; part++) {
        turn_part(turn, part, at, from, to);
        for (uint32_t k = turn->n_features; k-- > 0;) {
            at += turn->features[k].bytes;
            if (++place[k] < turn->features[k].size) {
                break;
            }
            at -= place[k] * turn->features[k].bytes;
            place[k] = 0;
        }
    }
}

void srv_turn_to_rows(const struct cell_tensor *shape, const int64_t *dims, const uint8_t *tensor,
                      uint8_t *rows)
{
    const struct turn turn = turn_of(shape, dims);
    turn_all(&turn, tensor, rows);
}

void srv_turn_from_rows(const struct cell_tensor *shape, const int64_t *dims, const uint8_t *rows,
                        uint8_t *tensor)
{
    struct turn turn = turn_of(shape, dims);
    turn.is_back = true;
    turn_all(&turn, rows, tensor);
}
