/* The heap of deadlines against a plain search of all that is inside. */
#include "server/deadline.h"

#include "base/mem.h"
#include "tests/util.h"

#define ITEMS 300u

static struct srv_deadlines deadlines;
static struct srv_deadline items[ITEMS];

static void setup(void)
{
    srv_deadlines_init(&deadlines);
    for (uint32_t i = 0; i < ITEMS; i++) {
        items[i] = (struct srv_deadline){.index = SRV_DEADLINE_OUT};
    }
}

static void teardown(void)
{
    srv_deadlines_release(&deadlines);
}

static void add(struct srv_deadline *item, uint64_t at_ns)
{
    item->at_ns = at_ns;
    ck_assert_int_eq(srv_deadlines_add(&deadlines, item), BASE_OK);
}

/* The earliest time inside, by looking at every item; UINT64_MAX when there is none. */
static uint64_t earliest(uint32_t *inside)
{
    uint64_t least = UINT64_MAX;
    *inside = 0;
    for (uint32_t i = 0; i < ITEMS; i++) {
        if (items[i].index != SRV_DEADLINE_OUT) {
            least = items[i].at_ns < least ? items[i].at_ns : least;
            ++*inside;
        }
    }
    return least;
}

START_TEST(test_empty_heap_has_no_first)
{
    ck_assert_ptr_null(srv_deadlines_first(&deadlines));
}
END_TEST

START_TEST(test_first_is_the_earliest)
{
    add(&items[0], 30);
    ck_assert_ptr_eq(srv_deadlines_first(&deadlines), &items[0]);
    add(&items[1], 10);
    add(&items[2], 20);
    ck_assert_ptr_eq(srv_deadlines_first(&deadlines), &items[1]);
    srv_deadlines_remove(&deadlines, &items[1]);
    ck_assert_ptr_eq(srv_deadlines_first(&deadlines), &items[2]);
    srv_deadlines_remove(&deadlines, &items[2]);
    srv_deadlines_remove(&deadlines, &items[0]);
    ck_assert_ptr_null(srv_deadlines_first(&deadlines));
}
END_TEST

START_TEST(test_removing_what_is_not_inside_changes_nothing)
{
    srv_deadlines_remove(&deadlines, &items[0]);
    add(&items[0], 1);
    srv_deadlines_remove(&deadlines, &items[1]);
    srv_deadlines_remove(&deadlines, &items[0]);
    srv_deadlines_remove(&deadlines, &items[0]);
    ck_assert_uint_eq(deadlines.count, 0);
}
END_TEST

START_TEST(test_random_additions_and_removals_keep_the_order)
{
    struct base_random random = util_random(1);
    uint32_t wrong = 0;
    for (int i = 0; i < 20000; i++) {
        struct srv_deadline *item = &items[base_random_below(&random, ITEMS)];
        if (item->index == SRV_DEADLINE_OUT) {
            // Few different times, so that equal ones meet too.
            add(item, base_random_below(&random, 50));
        } else {
            srv_deadlines_remove(&deadlines, item);
        }
        uint32_t inside = 0;
        uint64_t least = earliest(&inside);
        const struct srv_deadline *first = srv_deadlines_first(&deadlines);
        wrong += inside != deadlines.count;
        wrong += (first == NULL ? UINT64_MAX : first->at_ns) != least;
    }
    ck_assert_uint_eq(wrong, 0);
    uint64_t before = 0;
    for (struct srv_deadline *at; (at = srv_deadlines_first(&deadlines)) != NULL;) {
        ck_assert_uint_ge(at->at_ns, before);
        before = at->at_ns;
        srv_deadlines_remove(&deadlines, at);
    }
}
END_TEST

START_TEST(test_out_of_memory_leaves_the_heap_as_it_was)
{
    base_alloc_fail_at(1);
    items[0].at_ns = 5;
    ck_assert_int_eq(srv_deadlines_add(&deadlines, &items[0]), BASE_RESOURCE_EXHAUSTED);
    ck_assert_uint_eq(items[0].index, SRV_DEADLINE_OUT);
    base_alloc_fail_at(0);
    for (uint32_t i = 0; i < 64; i++) {
        add(&items[i], 100 - i);
    }
    base_alloc_fail_at(1);
    ck_assert_int_eq(srv_deadlines_add(&deadlines, &items[64]), BASE_RESOURCE_EXHAUSTED);
    base_alloc_fail_at(0);
    ck_assert_uint_eq(deadlines.count, 64);
    ck_assert_ptr_eq(srv_deadlines_first(&deadlines), &items[63]);
    for (uint32_t i = 0; i < 64; i++) {
        srv_deadlines_remove(&deadlines, &items[i]);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("deadline");
    TCase *tcase = tcase_create("deadline");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_empty_heap_has_no_first);
    tcase_add_test(tcase, test_first_is_the_earliest);
    tcase_add_test(tcase, test_removing_what_is_not_inside_changes_nothing);
    tcase_add_test(tcase, test_random_additions_and_removals_keep_the_order);
    tcase_add_test(tcase, test_out_of_memory_leaves_the_heap_as_it_was);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
