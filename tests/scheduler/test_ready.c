/* Sorted lists of ready subgraphs, and the ready nodes in each. */
#include "base/clock.h"
#include "base/mem.h"
#include "scheduler/ready.h"
#include "tests/util.h"

#define N 200u

static struct cell_type with_state = {.state_layout = 0};
static struct cell_type without_state = {.state_layout = CELL_LAYOUT_NONE};

static struct sched_node nodes[N];
static struct sched_graph graphs[N];
static struct sched_subgraph subgraphs[N];
static struct sched__ready list;

static void setup(void)
{
    list = (struct sched__ready){.n_rows = 0};
    for (uint32_t i = 0; i < N; i++) {
        nodes[i] = (struct sched_node){.type = &with_state, .wiring = {.steps = 5}, .lanes = 1};
        graphs[i] = (struct sched_graph){.finish_tag = i / 2}; // in twos: then order counts
        subgraphs[i] = (struct sched_subgraph){.graph = &graphs[i], .order = i};
        sched__subgraph_push(&subgraphs[i], &nodes[i], false);
    }
}

/* Links both ways, order and the sum of rows; returns how many are listed. */
static uint32_t check(void)
{
    uint32_t n = 0;
    uint32_t rows = 0;
    uint32_t wrong = 0;
    const struct sched_subgraph *previous = NULL;
    for (const struct sched_subgraph *at = list.first; at != NULL; at = at->next) {
        wrong += at->listed && at->previous == previous ? 0 : 1;
        wrong += previous == NULL || previous->order < at->order ? 0 : 1;
        rows += at->n_ready;
        previous = at;
        n++;
    }
    ck_assert_uint_eq(wrong, 0);
    ck_assert_ptr_eq(list.last, previous);
    ck_assert_uint_eq(list.n_rows, rows);
    return n;
}

START_TEST(test_node_of_a_chain_is_one_row)
{
    ck_assert_uint_eq(sched__node_rows(&nodes[0]), 1);
    nodes[0].steps_submitted = 4;
    ck_assert_uint_eq(sched__node_rows(&nodes[0]), 1);
}
END_TEST

START_TEST(test_node_of_a_beam_is_as_many_rows_as_it_is_wide)
{
    nodes[0].lanes = 6;
    ck_assert_uint_eq(sched__node_rows(&nodes[0]), 6);
}
END_TEST

START_TEST(test_node_without_state_is_as_many_rows_as_steps_left)
{
    struct sched_node node = {.type = &without_state, .wiring = {.steps = 5}, .lanes = 1};
    struct sched_subgraph subgraph = {.graph = &graphs[0]};
    sched__subgraph_push(&subgraph, &node, false);
    ck_assert_uint_eq(subgraph.n_ready, 5);
    ck_assert_ptr_eq(sched__subgraph_pop(&subgraph), &node);
    ck_assert_uint_eq(subgraph.n_ready, 0);
    node.steps_submitted = 3;
    sched__subgraph_push(&subgraph, &node, true);
    ck_assert_uint_eq(subgraph.n_ready, 2);
}
END_TEST

START_TEST(test_nodes_leave_a_subgraph_in_order_but_for_one_put_in_front)
{
    struct sched_subgraph *subgraph = &subgraphs[0];
    struct sched_node more[3];
    for (uint32_t i = 0; i < 3; i++) {
        more[i] = nodes[0];
        sched__subgraph_push(subgraph, &more[i], i == 2);
    }
    struct sched_node *want[] = {&more[2], &nodes[0], &more[0], &more[1]};
    for (uint32_t i = 0; i < 4; i++) {
        ck_assert_uint_eq(subgraph->n_ready, 4 - i);
        ck_assert_ptr_eq(sched__subgraph_pop(subgraph), want[i]);
    }
    sched__subgraph_push(subgraph, &more[0], false);
    ck_assert_ptr_eq(sched__subgraph_pop(subgraph), &more[0]);
}
END_TEST

START_TEST(test_list_is_sorted_whatever_the_order_of_insertion_and_the_hint)
{
    struct base_random random = util_random(2);
    uint32_t listed = 0;
    for (uint32_t i = 0; i < 5000; i++) {
        struct sched_subgraph *subgraph = &subgraphs[base_random_below(&random, N)];
        struct sched_subgraph *hint = &subgraphs[base_random_below(&random, N)];
        if (subgraph->listed) {
            sched__ready_remove(&list, subgraph);
            listed--;
        } else {
            sched__ready_insert(&list, subgraph, base_random_below(&random, 2) == 0 ? hint : NULL);
            listed++;
        }
        if (i % 50 == 0) {
            ck_assert_uint_eq(check(), listed);
        }
    }
}
END_TEST

static void insert_twice(void *unused)
{
    (void)unused;
    sched__ready_insert(&list, &subgraphs[0], NULL);
    sched__ready_insert(&list, &subgraphs[0], NULL);
}

static void insert_without_rows(void *unused)
{
    (void)unused;
    (void)sched__subgraph_pop(&subgraphs[0]);
    sched__ready_insert(&list, &subgraphs[0], NULL);
}

static void remove_unlisted(void *unused)
{
    (void)unused;
    sched__ready_remove(&list, &subgraphs[0]);
}

static void pop_from_none(void *unused)
{
    (void)unused;
    (void)sched__subgraph_pop(&subgraphs[0]);
    (void)sched__subgraph_pop(&subgraphs[0]);
}

START_TEST(test_misuse_is_asserted)
{
    ck_assert(util_aborts(insert_twice, NULL));
    ck_assert(util_aborts(insert_without_rows, NULL));
    ck_assert(util_aborts(remove_unlisted, NULL));
    ck_assert(util_aborts(pop_from_none, NULL));
}
END_TEST

#define CROWD  100000u
#define BUSY   64u
#define ROUNDS 50u

/* Two batches retire in one turn while a crowd waits behind them: the second one's subgraphs go
 * behind the first one's, in front of the crowd, and must not walk through it. */
static uint64_t busy_rounds_ns(struct sched_subgraph *crowd, uint32_t n)
{
    struct sched__ready busy = {.n_rows = 0};
    for (uint32_t i = 0; i < n; i++) {
        sched__ready_insert(&busy, &crowd[i], i == 0 ? NULL : &crowd[i - 1]);
    }
    uint64_t start_ns = base_thread_cpu_ns();
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (uint32_t i = 0; i < 2 * BUSY; i++) {
            sched__ready_remove(&busy, &crowd[i]);
        }
        for (uint32_t i = 0; i < 2 * BUSY; i++) {
            sched__ready_insert(&busy, &crowd[i], i % BUSY == 0 ? NULL : &crowd[i - 1]);
        }
    }
    uint64_t spent_ns = base_thread_cpu_ns() - start_ns;
    for (uint32_t i = 0; i < n; i++) {
        sched__ready_remove(&busy, &crowd[i]);
    }
    return spent_ns;
}

START_TEST(test_insertion_near_the_front_does_not_pay_for_a_crowd_behind)
{
    struct sched_subgraph *crowd = base_alloc_array(CROWD, sizeof(*crowd));
    ck_assert_ptr_nonnull(crowd);
    for (uint32_t i = 0; i < CROWD; i++) {
        crowd[i] = (struct sched_subgraph){.graph = &graphs[0], .order = i, .n_ready = 1};
    }
    uint64_t alone_ns = busy_rounds_ns(crowd, 4 * BUSY);
    uint64_t crowded_ns = busy_rounds_ns(crowd, CROWD);
    base_free(crowd);
    // A walk through the crowd would cost a hundred times as much.
    ck_assert_uint_lt(crowded_ns, 10 * alone_ns + 1000000);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ready");
    TCase *tcase = tcase_create("ready");
    tcase_add_checked_fixture(tcase, setup, NULL);
    tcase_add_test(tcase, test_node_of_a_chain_is_one_row);
    tcase_add_test(tcase, test_node_of_a_beam_is_as_many_rows_as_it_is_wide);
    tcase_add_test(tcase, test_node_without_state_is_as_many_rows_as_steps_left);
    tcase_add_test(tcase, test_nodes_leave_a_subgraph_in_order_but_for_one_put_in_front);
    tcase_add_test(tcase, test_list_is_sorted_whatever_the_order_of_insertion_and_the_hint);
    tcase_add_test(tcase, test_misuse_is_asserted);
    tcase_add_test(tcase, test_insertion_near_the_front_does_not_pay_for_a_crowd_behind);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
