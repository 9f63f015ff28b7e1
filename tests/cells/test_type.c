/* The registry: equal definitions share one type, different ones do not; ids, layouts, memory. */
#include "cells/type.h"

#include "base/mem.h"
#include "tests/cells/build.h"
#include "tests/util.h"

#include <string.h>

static struct cell_registry *registry;

static void setup(void)
{
    ck_assert_int_eq(cell_registry_create(&registry), BASE_OK);
}

static void teardown(void)
{
    cell_registry_free(registry);
}

static const struct cell_type *intern(const struct cell_def *def, bool wants_new)
{
    const struct cell_type *type = NULL;
    bool is_new = false;
    struct base_error error = {BASE_OK, ""};
    ck_assert_msg(cell_registry_intern(registry, def, "model/cell", &type, &is_new, &error) ==
                      BASE_OK,
                  "%s", error.message);
    ck_assert(is_new == wants_new);
    return type;
}

START_TEST(test_type_equal_definitions_share_one)
{
    struct build a;
    struct build b;
    build_lstm_cell(&a, 7, 5, 3);
    build_lstm_cell(&b, 7, 5, 3);
    const struct cell_type *first = intern(&a.def, true);
    ck_assert_ptr_eq(first, intern(&b.def, false));
    ck_assert_uint_eq(first->refs, 2);
    ck_assert_uint_eq(cell_registry_types(registry), 1);
    ck_assert_str_eq(first->name, "model/cell");
    // Copies: the type does not need the definition's memory.
    ck_assert_ptr_ne(first->def.ops[0].weights[0].data, a.def.ops[0].weights[0].data);
    build_release(&a);
    build_release(&b);
    ck_assert_uint_eq(first->flops, 2u * 4 * 5 * (7 + 5));
    ck_assert_uint_eq(first->weight_bytes, 4u * (4 * 5 * (7 + 5) + 8 * 5));
}
END_TEST

START_TEST(test_type_one_weight_bit_makes_another)
{
    struct build a;
    struct build b;
    build_lstm_cell(&a, 7, 5, 3);
    build_lstm_cell(&b, 7, 5, 3);
    float *weights = build_floats(&b, 20, 7, 1.0f);
    memcpy(weights, b.def.ops[0].weights[0].data, 20 * 7 * sizeof(float));
    weights[139] = weights[139] + 1e-6f;
    b.def.ops[0].weights[0].data = weights;
    const struct cell_type *first = intern(&a.def, true);
    const struct cell_type *second = intern(&b.def, true);
    ck_assert_uint_eq(first->id, 0);
    ck_assert_uint_eq(second->id, 1);
    ck_assert_uint_eq(first->state_layout, second->state_layout);
    build_release(&a);
    build_release(&b);
}
END_TEST

START_TEST(test_type_wiring_of_the_definition_counts)
{
    struct build a;
    build_lstm_cell(&a, 5, 5, 3);
    const struct cell_type *first = intern(&a.def, true);
    a.def.outputs[0]++; // c' instead of h'
    ck_assert_ptr_ne(first, intern(&a.def, true));
    a.def.outputs[0]--;
    a.def.ops[0].start = 77; // means nothing to an LSTM
    ck_assert_ptr_eq(first, intern(&a.def, false));
    build_release(&a);
}
END_TEST

/* Other bits of the results, another type: the same weights held otherwise never share a batch. */
START_TEST(test_type_precision_of_recurrent_weights_counts)
{
    struct build a;
    build_lstm_cell(&a, 5, 5, 3);
    const struct cell_type *types[3];
    for (uint32_t p = 0; p < 3; p++) {
        a.def.ops[0].precision = (enum cell_precision)p;
        types[p] = intern(&a.def, true);
        ck_assert_ptr_eq(types[p], intern(&a.def, false));
    }
    ck_assert_uint_eq(cell_registry_types(registry), 3);
    ck_assert(!base_hash_equal(types[0]->hash, types[1]->hash));
    ck_assert(!base_hash_equal(types[1]->hash, types[2]->hash));
    build_release(&a);
    build_init(&a, 3);
    uint32_t x = build_input(&a, CELL_F32, 5);
    build_output(&a, build_linear(&a, x, 4, true));
    const struct cell_type *linear = intern(&a.def, true);
    a.def.ops[0].precision = CELL_INT8;
    ck_assert(!base_hash_equal(linear->hash, intern(&a.def, true)->hash));
    build_release(&a);
    build_init(&a, 3);
    x = build_input(&a, CELL_F32, 5);
    build_output(&a, build_op(&a, CELL_OP_TANH, x, UINT32_MAX, 5));
    const struct cell_type *tanh = intern(&a.def, true);
    a.def.ops[0].precision = CELL_INT8; // means nothing to what has no weights
    ck_assert_ptr_eq(tanh, intern(&a.def, false));
    build_release(&a);
}
END_TEST

START_TEST(test_type_products_count)
{
    struct build a;
    build_init(&a, 3);
    build_output(&a, build_linear(&a, build_input(&a, CELL_F32, 5), 4, true));
    const struct cell_type *types[CELL_PRODUCTS_COUNT];
    for (uint32_t p = 0; p < CELL_PRODUCTS_COUNT; p++) {
        a.def.products = (enum cell_products)p;
        types[p] = intern(&a.def, true);
        ck_assert_ptr_eq(types[p], intern(&a.def, false));
        ck_assert(p == 0 || !base_hash_equal(types[p]->hash, types[p - 1]->hash));
    }
    build_release(&a);
}
END_TEST

START_TEST(test_type_id_is_free_after_the_last_reference)
{
    struct build a;
    struct build b;
    build_lstm_cell(&a, 7, 5, 3);
    build_lstm_cell(&b, 6, 5, 3);
    const struct cell_type *first = intern(&a.def, true);
    const struct cell_type *second = intern(&b.def, true);
    (void)intern(&a.def, false);
    cell_type_unref(registry, first);
    ck_assert_ptr_eq(cell_registry_type(registry, 0), first);
    cell_type_unref(registry, first);
    ck_assert_ptr_null(cell_registry_type(registry, 0));
    ck_assert_ptr_eq(cell_registry_type(registry, 1), second);
    ck_assert_uint_eq(intern(&a.def, true)->id, 0);
    build_release(&a);
    build_release(&b);
}
END_TEST

START_TEST(test_type_layouts_of_an_lstm)
{
    struct build a;
    build_lstm_cell(&a, 7, 5, 3);
    const struct cell_type *type = intern(&a.def, true);
    const struct cell_layout *state = cell_registry_layout(registry, type->state_layout);
    ck_assert_int_eq(state->kind, CELL_LAYOUT_STATE);
    ck_assert_uint_eq(state->n_parts, 2);
    ck_assert(state->twice[0]);
    ck_assert(!state->twice[1]); // c advances in place
    const struct cell_layout *input = cell_registry_layout(registry, type->input_layouts[0]);
    ck_assert_int_eq(input->kind, CELL_LAYOUT_VALUE);
    ck_assert_uint_eq(input->parts[0].width, 7);
    // A value row of 5 floats is one layout, whoever keeps it.
    ck_assert_uint_eq(type->output_layouts[0], type->state_layouts[0]);
    ck_assert_uint_eq(type->output_layouts[0], type->state_layouts[1]);
    ck_assert_uint_eq(cell_registry_layouts(registry), 3);
    build_release(&a);
}
END_TEST

START_TEST(test_type_c_read_elsewhere_is_held_twice)
{
    struct build a;
    build_lstm_cell(&a, 5, 5, 3);
    (void)build_op(&a, CELL_OP_TANH, 2, UINT32_MAX, 5); // reads c as it came in
    ck_assert(!cell_state_in_place(&a.def, 1));
    build_release(&a);
    build_lstm_cell(&a, 5, 5, 3);
    ck_assert(cell_state_in_place(&a.def, 1));
    ck_assert(!cell_state_in_place(&a.def, 0));
    build_output(&a, 2);
    ck_assert(!cell_state_in_place(&a.def, 1));
    build_release(&a);
}
END_TEST

START_TEST(test_type_invalid_definition_is_refused)
{
    struct build a;
    build_lstm_cell(&a, 5, 5, 3);
    a.def.outputs[0] = 99;
    const struct cell_type *type = NULL;
    bool is_new = false;
    ck_assert_int_eq(cell_registry_intern(registry, &a.def, "x", &type, &is_new, NULL),
                     BASE_INVALID_ARGUMENT);
    ck_assert_uint_eq(cell_registry_types(registry), 0);
    build_release(&a);
}
END_TEST

START_TEST(test_type_every_failed_allocation_is_reported)
{
    struct build a;
    build_lstm_cell(&a, 5, 5, 3);
    const struct cell_type *type = NULL;
    bool is_new = false;
    enum base_status status = BASE_RESOURCE_EXHAUSTED;
    for (uint64_t n = 1; status != BASE_OK; n++) {
        base_alloc_fail_at(n);
        status = cell_registry_intern(registry, &a.def, "x", &type, &is_new, NULL);
        ck_assert(status == BASE_OK || status == BASE_RESOURCE_EXHAUSTED);
        ck_assert_uint_lt(n, 10);
    }
    base_alloc_fail_at(0);
    build_release(&a);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("type");
    TCase *tcase = tcase_create("registry");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_type_equal_definitions_share_one);
    tcase_add_test(tcase, test_type_one_weight_bit_makes_another);
    tcase_add_test(tcase, test_type_wiring_of_the_definition_counts);
    tcase_add_test(tcase, test_type_precision_of_recurrent_weights_counts);
    tcase_add_test(tcase, test_type_products_count);
    tcase_add_test(tcase, test_type_id_is_free_after_the_last_reference);
    tcase_add_test(tcase, test_type_layouts_of_an_lstm);
    tcase_add_test(tcase, test_type_c_read_elsewhere_is_held_twice);
    tcase_add_test(tcase, test_type_invalid_definition_is_refused);
    tcase_add_test(tcase, test_type_every_failed_allocation_is_reported);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
