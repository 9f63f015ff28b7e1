/* The process's own numbers move when the process does. */
#include "base/process.h"

#include "base/mem.h"
#include "tests/util.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

START_TEST(test_resident_bytes_grow_with_touched_memory)
{
    const size_t bytes = (size_t)64 << 20;
    uint64_t before = base_process_resident_bytes();
    ck_assert_uint_gt(before, 0);
    char *memory = base_alloc(bytes);
    ck_assert_ptr_nonnull(memory);
    memset(memory, 1, bytes);
    uint64_t after = base_process_resident_bytes();
    ck_assert_uint_gt(after, before + bytes / 2);
    base_free(memory);
}
END_TEST

START_TEST(test_open_fds_count_a_new_one)
{
    uint64_t before = base_process_open_fds();
    ck_assert_uint_gt(before, 0);
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_uint_eq(base_process_open_fds(), before + 1);
    close(fd);
    ck_assert_uint_eq(base_process_open_fds(), before);
}
END_TEST

START_TEST(test_start_time_is_remembered)
{
    double first = base_process_start_s();
    ck_assert_double_gt(first, 1.6e9);
    usleep(2000);
    ck_assert_double_eq(base_process_start_s(), first);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("process");
    TCase *tcase = tcase_create("process");
    tcase_add_test(tcase, test_resident_bytes_grow_with_touched_memory);
    tcase_add_test(tcase, test_open_fds_count_a_new_one);
    tcase_add_test(tcase, test_start_time_is_remembered);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
