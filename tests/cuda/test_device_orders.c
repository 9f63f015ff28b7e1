/* The order of a library's weights, over a host's driver: the faster candidate's is kept, the other
 * copy is given back, and answers are right with either. */
#include "base/mem.h"
#include "tests/cells/rig.h"
#include "tests/cuda/choice_host.h"
#include "tests/cuda/driver_host.h"
#include "tests/util.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { INPUTS = 37, HIDDEN = 21, STEPS = 6, QUEUES = 2 };

#define KN CELL_STEP_KN
#define NK CELL_STEP_NK

static const struct choice_host_candidate kn[] = {{KN, CHOICE_HOST_GOOD, 8},
                                                  {NK, CHOICE_HOST_GOOD, 9}};
static const struct choice_host_candidate nk[] = {{KN, CHOICE_HOST_GOOD, 9},
                                                  {NK, CHOICE_HOST_GOOD, 8}};

static void teardown(void)
{
    choice_host_set(NULL, 0);
    cuda_host_fail_at(0);
}

/* ---- A device with a cache ------------------------------------------------------------------ */

static struct {
    char name[128], text[256];
    uint32_t stored;
} kept[4];
static uint32_t n_kept;

static bool load_text(void *context, const char *name, const char *key, char *out, size_t bytes)
{
    (void)context, (void)key;
    for (uint32_t i = 0; i < n_kept; i++) {
        if (strcmp(kept[i].name, name) == 0) {
            snprintf(out, bytes, "%s", kept[i].text);
            return true;
        }
    }
    return false;
}

static void store_text(void *context, const char *name, const char *key, const char *text)
{
    (void)context, (void)key;
    uint32_t i = 0;
    while (i < n_kept && strcmp(kept[i].name, name) != 0) {
        i++;
    }
    ck_assert_uint_lt(i, 4);
    n_kept = i == n_kept ? n_kept + 1 : n_kept;
    snprintf(kept[i].name, sizeof(kept[i].name), "%s", name);
    snprintf(kept[i].text, sizeof(kept[i].text), "%s", text);
    kept[i].stored++;
}

static const struct cell_device_cache cache = {.load = load_text, .store = store_text};

struct bed {
    struct build build;
    struct cell_registry *registry;
    const struct cell_type *type;
    const struct cell_backend *backend;
    struct cell_device *device;
    uint64_t submitted;
};

static void bed_open(struct bed *bed, enum cell_products products,
                     const struct cell_backend *backend)
{
    const struct cell_device_options options = {
        .n_queues = QUEUES, .batches_queued_max = 4, .lanes_off = true, .cache = &cache};
    struct base_error error = {BASE_OK, ""};
    bool is_new = false;
    memset(bed, 0, sizeof(*bed));
    bed->backend = backend;
    build_lstm_cell(&bed->build, INPUTS, HIDDEN, 5);
    bed->build.def.products = products;
    ck_assert_int_eq(cell_registry_create(&bed->registry), BASE_OK);
    ck_assert_int_eq(cell_registry_intern(bed->registry, &bed->build.def, "test/cell", &bed->type,
                                          &is_new, &error),
                     BASE_OK);
    ck_assert_int_eq(backend->open(&options, &bed->device, &error), BASE_OK);
    ck_assert_msg(backend->type_load(bed->device, bed->type, &error) == BASE_OK, "%s",
                  error.message);
    for (uint32_t l = 0; l < cell_registry_layouts(bed->registry); l++) {
        ck_assert_int_eq(backend->rows_open(bed->device, l, cell_registry_layout(bed->registry, l),
                                            RIG_ROWS, &error),
                         BASE_OK);
    }
}

static void bed_close(struct bed *bed)
{
    bed->backend->type_unload(bed->device, bed->type);
    bed->backend->close(bed->device);
    cell_registry_free(bed->registry);
    build_release(&bed->build);
}

/* Three chains of the same numbers each time, on a queue; the first output of each. */
static void answers(struct bed *bed, uint32_t queue, float out[3][STEPS * HIDDEN])
{
    struct rig_chain chains[3];
    struct cell_batch_row rows[3];
    struct base_random random;
    const uint64_t done = atomic_load(bed->backend->completed(bed->device, queue));
    base_random_init(&random, 9);
    for (uint32_t i = 0; i < 3; i++) {
        rig_chain_init(&chains[i], bed->type, i, STEPS, &random);
        rows[i] = rig_chain_row(&chains[i], STEPS);
    }
    struct cell_batch batch = {.type = bed->type, .n_rows = 3, .steps = STEPS, .rows = rows};
    bed->backend->submit(bed->device, queue, &batch);
    while (atomic_load(bed->backend->completed(bed->device, queue)) == done) {
        bed->backend->poll(bed->device, queue, 1);
    }
    ck_assert_int_eq(batch.status, BASE_OK);
    for (uint32_t i = 0; i < 3; i++) {
        memcpy(out[i], chains[i].outputs[0], sizeof(out[i]));
        rig_chain_release(&chains[i]);
    }
}

/* Whether all of a text stands in what the device tells of the type. */
static bool tells(const struct bed *bed, const char *text)
{
    struct base_buf told;
    base_buf_init(&told, 4096);
    bed->backend->type_explain(bed->device, bed->type, &told);
    base_buf_add(&told, "", 1);
    const bool is_there = strstr(told.data, text) != NULL;
    base_buf_release(&told);
    return is_there;
}

/* By so much at most. */
static bool is_near(float a[3][STEPS * HIDDEN], float b[3][STEPS * HIDDEN], float most)
{
    float worst = 0.0f;
    for (uint32_t i = 0; i < 3 * STEPS * HIDDEN; i++) {
        const float off = fabsf(a[i / (STEPS * HIDDEN)][i % (STEPS * HIDDEN)] -
                                b[i / (STEPS * HIDDEN)][i % (STEPS * HIDDEN)]);
        worst = off <= worst ? worst : off;
    }
    return worst <= most;
}

/* ---- Tests ---------------------------------------------------------------------------------- */

static float wanted[3][STEPS * HIDDEN], got[3][STEPS * HIDDEN], first[3][STEPS * HIDDEN];

/* In all products, on each queue: near our own kernels' (a sum in another order may round h to the
 * other side), and the same bits in both orders, whose sums are the same; the second copy is gone.
 */
START_TEST(test_answers_are_right_in_either_order)
{
    static const struct choice_host_candidate *const scripts[] = {kn, nk};
    static const float gates[CELL_PRODUCTS_COUNT] = {2e-6f, 4e-3f, 2e-2f, 1e-4f};
    const enum cell_products products = (enum cell_products)_i;
    struct bed bed;
    const uint32_t untrue = choice_host_counts().untrue;
    bed_open(&bed, products, cuda_host_backend());
    answers(&bed, 0, wanted);
    const uint64_t bytes = cuda_host_counts().card_bytes;
    ck_assert(tells(&bed, "own kernel, weights [k, n]"));
    bed_close(&bed);
    for (uint32_t s = 0; s < 2; s++) {
        choice_host_set(scripts[s], 2);
        n_kept = 0;
        bed_open(&bed, products, cuda_host_library_backend());
        ck_assert_uint_eq(cuda_host_counts().card_bytes, bytes);
        ck_assert(tells(&bed, s == 0 ? "by the library, weights [k, n]"
                                     : "by the library, weights [n, k]"));
        for (uint32_t queue = 0; queue < QUEUES; queue++) {
            answers(&bed, queue, got);
            ck_assert(is_near(got, wanted, gates[products]));
            if (s == 0 && queue == 0) {
                memcpy(first, got, sizeof(first));
            }
            ck_assert_mem_eq(got, first, sizeof(first));
        }
        bed_close(&bed);
    }
    ck_assert_uint_eq(choice_host_counts().untrue, untrue);
    ck_assert_uint_eq(cuda_host_counts().unsound, 0);
    ck_assert_uint_eq(cuda_host_counts().card_bytes, 0);
}
END_TEST

/* Of either order some that are faster and vary, or fail: the other order's is taken; and our own
 * kernel, where none is left. */
START_TEST(test_candidates_that_vary_or_fail)
{
    static const struct {
        struct choice_host_candidate candidates[3];
        const char *told;
    } cases[] = {
        {{{KN, CHOICE_HOST_GOOD, 9}, {NK, CHOICE_HOST_VARIES, 1}, {NK, CHOICE_HOST_CANNOT, 1}},
         "by the library, weights [k, n]"},
        {{{KN, CHOICE_HOST_VARIES, 1}, {KN, CHOICE_HOST_CANNOT, 1}, {NK, CHOICE_HOST_GOOD, 9}},
         "by the library, weights [n, k]"},
        {{{KN, CHOICE_HOST_VARIES, 1}, {NK, CHOICE_HOST_VARIES, 1}, {NK, CHOICE_HOST_CANNOT, 1}},
         "own kernel, weights [k, n]"},
    };
    struct bed bed;
    bed_open(&bed, CELL_PRODUCTS_FP32, cuda_host_backend());
    answers(&bed, 0, wanted);
    const uint64_t bytes = cuda_host_counts().card_bytes;
    bed_close(&bed);
    choice_host_set(cases[_i].candidates, 3);
    n_kept = 0;
    bed_open(&bed, CELL_PRODUCTS_FP32, cuda_host_library_backend());
    ck_assert(tells(&bed, cases[_i].told));
    ck_assert_uint_eq(cuda_host_counts().card_bytes, bytes);
    answers(&bed, 1, got);
    ck_assert(is_near(got, wanted, 2e-6f));
    bed_close(&bed);
}
END_TEST

/* At the next start: as it was kept, though the other would be the faster now; what is no text of
 * ours, an older program's for one, is measured again. */
START_TEST(test_a_choice_is_kept_with_its_order)
{
    struct bed bed;
    n_kept = 0;
    choice_host_set(nk, 2);
    bed_open(&bed, CELL_PRODUCTS_FP32, cuda_host_library_backend());
    answers(&bed, 0, wanted);
    bed_close(&bed);
    ck_assert_uint_eq(n_kept, 1);
    ck_assert_int_eq(strncmp(kept[0].text, "nk ", 3), 0);
    const struct choice_host_counts before = choice_host_counts();
    static const struct choice_host_candidate later[] = {{KN, CHOICE_HOST_GOOD, 1},
                                                         {NK, CHOICE_HOST_GOOD, 9}};
    choice_host_set(later, 2);
    bed_open(&bed, CELL_PRODUCTS_FP32, cuda_host_library_backend());
    ck_assert(tells(&bed, "weights [n, k]"));
    answers(&bed, 1, got);
    ck_assert_mem_eq(got, wanted, sizeof(got));
    bed_close(&bed);
    ck_assert_uint_eq(choice_host_counts().timed, before.timed);
    ck_assert_uint_eq(choice_host_counts().probed, before.probed + 1);
    memcpy(kept[0].text, "algo", 4);
    bed_open(&bed, CELL_PRODUCTS_FP32, cuda_host_library_backend());
    ck_assert(tells(&bed, "weights [k, n]"));
    ck_assert_int_eq(strncmp(kept[0].text, "kn ", 3), 0);
    bed_close(&bed);
}
END_TEST

/* Each call that fails while it is loaded: told, and nothing is left. */
START_TEST(test_faults_while_weights_are_turned)
{
    struct bed bed;
    struct base_error error;
    uint64_t n = 1;
    choice_host_set(nk, 2);
    n_kept = 0;
    bed_open(&bed, CELL_PRODUCTS_BF16, cuda_host_library_backend());
    bed.backend->type_unload(bed.device, bed.type);
    const uint64_t bytes = cuda_host_counts().card_bytes;
    for (enum base_status status = BASE_UNAVAILABLE; status != BASE_OK; n++) {
        if (_i == 0) {
            cuda_host_fail_at(n);
        } else {
            base_alloc_fail_at(n);
        }
        error = (struct base_error){BASE_OK, ""};
        status = bed.backend->type_load(bed.device, bed.type, &error);
        cuda_host_fail_at(0);
        base_alloc_fail_at(0);
        ck_assert(status == BASE_OK || (error.status == status && error.message[0] != '\0'));
        ck_assert(status == BASE_OK || cuda_host_counts().card_bytes == bytes);
        n += n < 40 ? 0 : 36; // recording what is known by now
    }
    ck_assert_uint_gt(n, 8);
    answers(&bed, 0, got);
    bed_close(&bed);
}
END_TEST

/* ---- One thing wrong ------------------------------------------------------------------------ */

static struct cell_cuda_driver wrong;

/* The device leaves weights as they were. */
static enum base_status says_other(struct cell_cuda *cuda, struct cell_step_product *product,
                                   cell_step_address turned, struct base_error *error)
{
    const enum base_status status = cuda_host_driver.product_prepare(cuda, product, turned, error);
    product->order = KN;
    return status;
}

/* The library multiplies by the other order. */
static enum base_status multiplies_other(struct cell_cuda_stream *stream,
                                         const struct cell_step_product *product)
{
    struct cell_step_product other = *product;
    other.order = other.order == NK ? KN : NK;
    return cuda_host_driver.product(stream, &other);
}

static enum base_status says_and_multiplies(struct cell_cuda_stream *stream,
                                            const struct cell_step_product *product)
{
    struct cell_step_product other = *product;
    other.order = NK;
    return cuda_host_driver.product(stream, &other);
}

static enum base_status open_wrong(const struct cell_device_options *options,
                                   struct cell_device **out, struct base_error *error)
{
    return cell_cuda_open(&wrong, CELL_CUDA_LIBRARY, options, out, error);
}

START_TEST(test_a_wrong_order_is_noticed)
{
    static const struct cell_backend backend = CELL_CUDA_BACKEND("cuda-host-wrong", open_wrong);
    struct bed bed;
    bed_open(&bed, CELL_PRODUCTS_FP32, cuda_host_backend());
    answers(&bed, 0, wanted);
    bed_close(&bed);
    choice_host_set(nk, 2);
    n_kept = 0;
    wrong = cuda_host_driver;
    if (_i == 0) {
        wrong.product_prepare = says_other;
        wrong.product = says_and_multiplies;
    } else {
        wrong.product = multiplies_other;
    }
    bed_open(&bed, CELL_PRODUCTS_FP32, &backend);
    answers(&bed, 0, got);
    ck_assert(!is_near(got, wanted, 2e-6f));
    bed_close(&bed);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device_orders");
    TCase *tcase = tcase_create("cuda-host");
    tcase_set_timeout(tcase, 120);
    tcase_add_checked_fixture(tcase, NULL, teardown);
    tcase_add_loop_test(tcase, test_answers_are_right_in_either_order, 0, CELL_PRODUCTS_COUNT);
    tcase_add_loop_test(tcase, test_candidates_that_vary_or_fail, 0, 3);
    tcase_add_test(tcase, test_a_choice_is_kept_with_its_order);
    tcase_add_loop_test(tcase, test_faults_while_weights_are_turned, 0, 2);
    tcase_add_loop_test(tcase, test_a_wrong_order_is_noticed, 0, 2);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
