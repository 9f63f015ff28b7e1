/* Reserving rows for requests: all or nothing. */
#include "scheduler/admission.h"
#include "tests/util.h"

static struct sched_need needs_small[] = {{.layout = 0, .rows = 1}, {.layout = 7, .rows = 3}};
static struct sched_need needs_large[] = {{.layout = 0, .rows = 2}, {.layout = 7, .rows = 8}};
static struct sched_need needs_huge[] = {{.layout = 0, .rows = 1}, {.layout = 7, .rows = 9}};
static struct sched_need needs_unknown[] = {{.layout = 1, .rows = 1}};

static const struct sched_graph small = {.n_needs = 2, .needs = needs_small};
static const struct sched_graph large = {.n_needs = 2, .needs = needs_large};
static const struct sched_graph huge = {.n_needs = 2, .needs = needs_huge};
static const struct sched_graph unknown = {.n_needs = 1, .needs = needs_unknown};
static const struct sched_graph none = {.n_needs = 0};

static struct sched_admission admission;

static void setup(void)
{
    admission = (struct sched_admission){.capacity = {[0] = 4, [7] = 8}};
}

static void check_reserved(uint32_t of_0, uint32_t of_7)
{
    ck_assert_uint_eq(admission.reserved[0], of_0);
    ck_assert_uint_eq(admission.reserved[7], of_7);
}

START_TEST(test_needs_beyond_the_capacity_never_fit)
{
    ck_assert(sched_admission_fits(&admission, &none));
    ck_assert(sched_admission_fits(&admission, &large));
    ck_assert(!sched_admission_fits(&admission, &huge));
    ck_assert(!sched_admission_fits(&admission, &unknown));
    ck_assert(!sched_admission_reserve(&admission, &huge));
    ck_assert(!sched_admission_reserve(&admission, &unknown));
    check_reserved(0, 0);
}
END_TEST

START_TEST(test_what_is_inside_does_not_change_what_fits)
{
    ck_assert(sched_admission_reserve(&admission, &large));
    ck_assert(sched_admission_fits(&admission, &large));
}
END_TEST

START_TEST(test_refusal_changes_nothing)
{
    ck_assert(sched_admission_reserve(&admission, &small));
    // There are rows enough of layout 0, but not of layout 7, which is looked at after it.
    ck_assert(!sched_admission_reserve(&admission, &large));
    check_reserved(1, 3);
}
END_TEST

START_TEST(test_reserves_to_the_last_row_and_takes_credit_back)
{
    ck_assert(sched_admission_reserve(&admission, &small));
    ck_assert(sched_admission_reserve(&admission, &small));
    ck_assert(!sched_admission_reserve(&admission, &small));
    sched_admission_credit(&admission, &small);
    check_reserved(1, 3);
    ck_assert(sched_admission_reserve(&admission, &small));
    sched_admission_credit(&admission, &small);
    sched_admission_credit(&admission, &small);
    ck_assert(sched_admission_reserve(&admission, &large));
    ck_assert(sched_admission_reserve(&admission, &none));
    check_reserved(2, 8);
}
END_TEST

static void credit_what_was_not_reserved(void *unused)
{
    (void)unused;
    sched_admission_credit(&admission, &small);
}

START_TEST(test_credit_without_reservation_is_asserted)
{
    ck_assert(util_aborts(credit_what_was_not_reserved, NULL));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("admission");
    TCase *tcase = tcase_create("admission");
    tcase_add_checked_fixture(tcase, setup, NULL);
    tcase_add_test(tcase, test_needs_beyond_the_capacity_never_fit);
    tcase_add_test(tcase, test_what_is_inside_does_not_change_what_fits);
    tcase_add_test(tcase, test_refusal_changes_nothing);
    tcase_add_test(tcase, test_reserves_to_the_last_row_and_takes_credit_back);
    tcase_add_test(tcase, test_credit_without_reservation_is_asserted);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
