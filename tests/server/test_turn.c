/* Tensors whose features stand before their time or batch axis, turned to rows and back, against
 * where each element belongs by its place. */
#include "server/turn.h"

#include "base/mem.h"
#include "tests/util.h"

#include <string.h>

enum { ROUNDS = 200, LONGEST = 5 };

/* Element i of the tensor, row-major: where it stands among rows [batch][time][width]. */
static size_t place_in_rows(const struct cell_tensor *shape, const int64_t *dims, size_t i)
{
    const size_t steps = shape->time_axis < 0 ? 1 : (size_t)dims[shape->time_axis];
    size_t b = 0;
    size_t t = 0;
    size_t feature = 0;
    size_t weight = 1;
    for (uint32_t k = shape->rank; k-- > 0; i /= (size_t)dims[k]) {
        const size_t at = i % (size_t)dims[k];
        if ((int32_t)k == shape->batch_axis) {
            b = at;
        } else if ((int32_t)k == shape->time_axis) {
            t = at;
        } else {
            feature += weight * at;
            weight *= (size_t)dims[k];
        }
    }
    return (b * steps + t) * shape->width + feature;
}

static void check(const struct cell_tensor *shape, const int64_t *dims, size_t count)
{
    const size_t element = cell_dtype_bytes(shape->dtype);
    uint8_t *tensor = base_alloc_array(count + 1, element);
    uint8_t *rows = base_alloc_array(count, element);
    uint8_t *back = base_alloc_array(count, element);
    ck_assert(tensor != NULL && rows != NULL && back != NULL);
    uint8_t *from = tensor + 1; // inputs stand anywhere in a message
    for (size_t i = 0; i < count; i++) {
        const int64_t number = (int64_t)i + 1;
        memcpy(from + i * element, &number, element); // little-endian: the low half too
    }
    srv_turn_to_rows(shape, dims, from, rows);
    for (size_t i = 0; i < count; i++) {
        const size_t to = place_in_rows(shape, dims, i);
        ck_assert_uint_lt(to, count);
        ck_assert_int_eq(memcmp(from + i * element, rows + to * element, element), 0);
    }
    srv_turn_from_rows(shape, dims, rows, back);
    ck_assert_int_eq(memcmp(from, back, count * element), 0);
    base_free(tensor);
    base_free(rows);
    base_free(back);
}

/* Any rank, any of the axes batch and time, or none of them. */
START_TEST(test_turned_and_back)
{
    static const enum cell_dtype dtypes[] = {CELL_F32, CELL_I64, CELL_I32};
    struct base_random random = util_random((uint64_t)_i);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        struct cell_tensor shape = {.dtype = dtypes[round % 3], .is_turned = true, .width = 1};
        int64_t dims[CELL_RANK_MAX] = {0};
        size_t count = 1;
        shape.rank = 1 + base_random_below(&random, CELL_RANK_MAX < 5 ? CELL_RANK_MAX : 5);
        shape.batch_axis = (int32_t)base_random_below(&random, shape.rank + 1) - 1;
        do {
            shape.time_axis = (int32_t)base_random_below(&random, shape.rank + 1) - 1;
        } while (shape.time_axis >= 0 && shape.time_axis == shape.batch_axis);
        for (uint32_t k = 0; k < shape.rank; k++) {
            dims[k] = 1 + base_random_below(&random, LONGEST);
            count *= (size_t)dims[k];
            if ((int32_t)k != shape.batch_axis && (int32_t)k != shape.time_axis) {
                shape.width *= (uint32_t)dims[k];
            }
        }
        check(&shape, dims, count);
    }
}
END_TEST

/* A spectrogram and a picture, as they come. */
START_TEST(test_channels_before_the_steps)
{
    const int64_t spectrogram[] = {3, 80, 101};
    const int64_t picture[] = {2, 3, 32, 100};
    const struct cell_tensor of_spectrogram = {.dtype = CELL_F32,
                                               .rank = 3,
                                               .batch_axis = 0,
                                               .time_axis = 2,
                                               .width = 80,
                                               .is_turned = true};
    const struct cell_tensor of_picture = {.dtype = CELL_F32,
                                           .rank = 4,
                                           .batch_axis = 0,
                                           .time_axis = 3,
                                           .width = 96,
                                           .is_turned = true};
    check(&of_spectrogram, spectrogram, (size_t)3 * 80 * 101);
    check(&of_picture, picture, (size_t)2 * 3 * 32 * 100);
}
END_TEST

/* No rows, or no steps: nothing is read or written. */
START_TEST(test_nothing_to_turn)
{
    const struct cell_tensor shape = {
        .dtype = CELL_F32, .rank = 3, .batch_axis = 0, .time_axis = 2, .width = 4};
    const int64_t none[][3] = {{0, 4, 3}, {2, 4, 0}};
    for (size_t i = 0; i < 2; i++) {
        srv_turn_to_rows(&shape, none[i], NULL, NULL);
        srv_turn_from_rows(&shape, none[i], NULL, NULL);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("turn");
    TCase *tcase = tcase_create("turn");
    tcase_add_loop_test(tcase, test_turned_and_back, 0, 3);
    tcase_add_test(tcase, test_channels_before_the_steps);
    tcase_add_test(tcase, test_nothing_to_turn);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
