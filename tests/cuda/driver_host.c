/* See driver_host.h. A stream is a ring of commands under a lock; its thread takes one at a time.
 */
#include "tests/cuda/driver_host.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/event.h"
#include "base/mem.h"
#include "base/random.h"
#include "tests/cuda/choice_host.h"
#include "tests/cuda/kernels_host.h"
#include "tests/cuda/lane_host.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#define CARDS    2u
#define SMS      24u
#define COMMANDS 256u
#define ALIGN    ((size_t)256) /* of memory */

enum command_kind { COPY, LAUNCH, PRODUCT, REPLAY, WRITE64 };

struct command {
    enum command_kind kind;
    void *to;
    const void *from;
    size_t bytes;
    struct cell_step step;
    uint32_t n_items;
    const struct cell_cuda_graph *graph;
    uint64_t value;
};

struct cell_cuda_graph {
    struct cell_cuda_graph *next;
    uint32_t n, capacity;
    struct command *commands;
};

/* Memory of the card, or pinned. */
struct block {
    struct block *next;
    void *memory;
    uint8_t *data; /* in it, aligned */
    size_t bytes;
};

struct cell_cuda {
    uint32_t n_streams;
    struct cell_cuda_stream *streams; /* lists */
    struct cell_cuda_graph *graphs;
    struct block *card, *pinned;
    const struct cell_device_cache *cache;
    struct lane_host_card lanes;
};

struct cell_cuda_stream {
    struct cell_cuda *cuda;
    struct cell_cuda_stream *next;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct command commands[COMMANDS];
    uint64_t appended, done; /* under the lock */
    bool is_ended;
    struct cell_cuda_graph *recording;
    struct base_random random;
    bool is_backwards; /* its thread's */
};

static struct {
    _Atomic uint64_t fail_at;
    _Atomic bool is_failed, is_faulting, is_hung, has_no_words;
    _Atomic uint64_t pause_ns;
    _Atomic uint64_t calls, launches, replays, allocs, unsound, card_bytes;
} knobs;

void cuda_host_fail_at(uint64_t n)
{
    atomic_store(&knobs.is_failed, false);
    atomic_store(&knobs.fail_at, n);
}

void cuda_host_fault(void)
{
    atomic_store(&knobs.is_failed, false);
    atomic_store(&knobs.is_faulting, true);
}

void cuda_host_hang(bool is_hung)
{
    atomic_store(&knobs.is_hung, is_hung);
}

void cuda_host_refuse_words(bool is_refused)
{
    atomic_store(&knobs.has_no_words, is_refused);
}

void cuda_host_pause(uint64_t ns)
{
    atomic_store(&knobs.pause_ns, ns);
}

struct cuda_host_counts cuda_host_counts(void)
{
    return (struct cuda_host_counts){.calls = atomic_load(&knobs.calls),
                                     .launches = atomic_load(&knobs.launches),
                                     .replays = atomic_load(&knobs.replays),
                                     .allocs = atomic_load(&knobs.allocs),
                                     .unsound = atomic_load(&knobs.unsound),
                                     .card_bytes = atomic_load(&knobs.card_bytes)};
}

/* Whether this call fails. */
static bool fails(void)
{
    atomic_fetch_add(&knobs.calls, 1);
    uint64_t left = atomic_load(&knobs.fail_at);
    while (left > 0 && !atomic_compare_exchange_weak(&knobs.fail_at, &left, left - 1)) {
    }
    if (left == 1) {
        atomic_store(&knobs.is_failed, true);
    }
    return atomic_load(&knobs.is_failed);
}

/* ---- The stream's thread -------------------------------------------------------------------- */

static void run_one(struct cell_cuda_stream *stream, const struct command *command)
{
    switch (command->kind) {
    case COPY:
        memcpy(command->to, command->from, command->bytes);
        break;
    case LAUNCH:
        kernels_host_run(&command->step, command->n_items, stream->is_backwards);
        stream->is_backwards = !stream->is_backwards;
        break;
    case PRODUCT:
        kernels_host_product(&command->step.product);
        break;
    case REPLAY:
        base_assert(false); // a graph holds none
        break;
    case WRITE64:
        atomic_store_explicit((_Atomic uint64_t *)command->to, command->value,
                              memory_order_release);
        break;
    }
}

static void run_command(struct cell_cuda_stream *stream, const struct command *command)
{
    if (command->kind != REPLAY) {
        run_one(stream, command);
        return;
    }
    for (uint32_t i = 0; i < command->graph->n; i++) {
        run_one(stream, &command->graph->commands[i]);
    }
}

static void pause_a_while(struct cell_cuda_stream *stream)
{
    const uint64_t most_ns = atomic_load(&knobs.pause_ns);
    if (most_ns > 0) {
        const uint64_t until_ns =
            base_now_ns() + (uint64_t)(base_random_unit(&stream->random) * (double)most_ns);
        while (base_now_ns() < until_ns) {
            base_cpu_relax();
        }
    }
}

static bool is_ended(struct cell_cuda_stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    const bool ended = stream->is_ended;
    pthread_mutex_unlock(&stream->lock);
    return ended;
}

/* Nothing is run behind a fault, and while it hangs. */
static bool may_run(struct cell_cuda_stream *stream, const struct command *command)
{
    while (atomic_load(&knobs.is_hung) && !is_ended(stream)) {
        (void)usleep(100);
    }
    if (command->kind != COPY && atomic_exchange(&knobs.is_faulting, false)) {
        atomic_store(&knobs.is_failed, true);
    }
    return !atomic_load(&knobs.is_hung) && !atomic_load(&knobs.is_failed);
}

static void *stream_main(void *argument)
{
    struct cell_cuda_stream *stream = argument;
    pthread_mutex_lock(&stream->lock);
    for (;;) {
        while (stream->appended == stream->done && !stream->is_ended) {
            pthread_cond_wait(&stream->changed, &stream->lock);
        }
        if (stream->appended == stream->done) {
            pthread_mutex_unlock(&stream->lock);
            return NULL;
        }
        const struct command *command = &stream->commands[stream->done % COMMANDS];
        pthread_mutex_unlock(&stream->lock);
        pause_a_while(stream);
        if (may_run(stream, command)) {
            run_command(stream, command);
        }
        pthread_mutex_lock(&stream->lock);
        stream->done++;
    }
}

static enum base_status append(struct cell_cuda_stream *stream, const struct command *command)
{
    if (fails()) {
        return BASE_UNAVAILABLE;
    }
    if (stream->recording != NULL) {
        struct cell_cuda_graph *graph = stream->recording;
        if (graph->n == graph->capacity) {
            const uint32_t capacity = graph->capacity == 0 ? 16 : 2 * graph->capacity;
            struct command *commands = base_realloc(graph->commands, capacity * sizeof(*commands));
            if (commands == NULL) {
                return BASE_RESOURCE_EXHAUSTED;
            }
            graph->commands = commands;
            graph->capacity = capacity;
        }
        graph->commands[graph->n++] = *command;
        return BASE_OK;
    }
    pthread_mutex_lock(&stream->lock);
    base_assert(stream->appended - stream->done < COMMANDS);
    stream->commands[stream->appended++ % COMMANDS] = *command;
    pthread_cond_signal(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
    return BASE_OK;
}

/* ---- Memory --------------------------------------------------------------------------------- */

static bool is_busy(struct cell_cuda *cuda)
{
    bool is_busy = false;
    for (struct cell_cuda_stream *stream = cuda->streams; stream != NULL; stream = stream->next) {
        pthread_mutex_lock(&stream->lock);
        is_busy |= stream->appended != stream->done;
        pthread_mutex_unlock(&stream->lock);
    }
    return is_busy;
}

/* Of a card that still runs: what is appended behind an error does not count. */
static bool has_failed(void)
{
    if (atomic_exchange(&knobs.is_faulting, false)) {
        atomic_store(&knobs.is_failed, true);
    }
    return atomic_load(&knobs.is_failed);
}

static void note_alloc(struct cell_cuda *cuda)
{
    atomic_fetch_add(&knobs.allocs, 1);
    if (is_busy(cuda) || lane_host_lives(&cuda->lanes)) { // a card would wait for it
        atomic_fetch_add(&knobs.unsound, 1);
    }
}

static uint8_t *pointer_of(cell_step_address at)
{
    return cell_step_pointer(at);
}

static cell_step_address address_of(const void *pointer)
{
    return (uint64_t)(uintptr_t)pointer + CELL_STEP_HOST_BIAS;
}

/* Fails without memory, as the caller's allocations do. */
static struct block *block_add(struct block **list, size_t bytes, bool is_poisoned)
{
    struct block *block = base_alloc(sizeof(*block));
    // Pages of zeros that nobody touches cost nothing, which base_alloc_aligned() would.
    void *memory = block == NULL ? NULL : base_alloc(bytes + ALIGN);
    if (memory == NULL) {
        base_free(block);
        return NULL;
    }
    uint8_t *data = (uint8_t *)memory + (ALIGN - (uintptr_t)memory % ALIGN);
    if (is_poisoned) {
        memset(data, 0xFF, bytes);
    }
    *block = (struct block){.next = *list, .memory = memory, .data = data, .bytes = bytes};
    *list = block;
    return block;
}

/* Returns its bytes. */
static size_t block_remove(struct block **list, const uint8_t *data)
{
    while (*list != NULL && (*list)->data != data) {
        list = &(*list)->next;
    }
    struct block *block = *list;
    base_assert(block != NULL); // given back twice, or never taken
    *list = block->next;
    const size_t bytes = block->bytes;
    base_free(block->memory);
    base_free(block);
    return bytes;
}

static void check_inside(const struct block *list, const uint8_t *from, size_t bytes)
{
    for (; list != NULL; list = list->next) {
        if (from >= list->data && from + bytes <= list->data + list->bytes) {
            return;
        }
    }
    atomic_fetch_add(&knobs.unsound, 1);
}

static enum base_status card_alloc(struct cell_cuda *cuda, size_t bytes, cell_step_address *out)
{
    note_alloc(cuda);
    struct block *block = fails() ? NULL : block_add(&cuda->card, bytes, true);
    if (block == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    atomic_fetch_add(&knobs.card_bytes, bytes);
    *out = address_of(block->data);
    return BASE_OK;
}

static void card_free(struct cell_cuda *cuda, cell_step_address memory)
{
    if (memory != 0) {
        note_alloc(cuda);
        atomic_fetch_sub(&knobs.card_bytes, block_remove(&cuda->card, pointer_of(memory)));
    }
}

static enum base_status pin(struct cell_cuda *cuda, size_t bytes, struct cell_cuda_pinned *out)
{
    note_alloc(cuda);
    struct block *block = fails() ? NULL : block_add(&cuda->pinned, bytes, false);
    if (block == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    *out = (struct cell_cuda_pinned){.host = block->data, .at = address_of(block->data)};
    return BASE_OK;
}

static void unpin(struct cell_cuda *cuda, const struct cell_cuda_pinned *pinned)
{
    note_alloc(cuda);
    (void)block_remove(&cuda->pinned, pinned->host);
}

static enum base_status write_now(struct cell_cuda *cuda, cell_step_address to, const void *from,
                                  size_t bytes)
{
    check_inside(cuda->card, pointer_of(to), bytes);
    memcpy(pointer_of(to), from, bytes);
    return fails() ? BASE_UNAVAILABLE : BASE_OK;
}

static enum base_status read_now(struct cell_cuda *cuda, void *to, cell_step_address from,
                                 size_t bytes)
{
    check_inside(cuda->card, pointer_of(from), bytes);
    memcpy(to, pointer_of(from), bytes);
    return fails() ? BASE_UNAVAILABLE : BASE_OK;
}

/* ---- Life ----------------------------------------------------------------------------------- */

static enum base_status host_open(const struct cell_device_options *options, struct cell_cuda **out,
                                  struct base_error *error)
{
    const uint32_t card = options->card;
    if (card >= CARDS) {
        return base_fail(error, BASE_UNAVAILABLE, "cuda-host: no card %u, there are %u", card,
                         CARDS);
    }
    *out = fails() ? NULL : base_alloc(sizeof(**out));
    if (*out == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "cuda-host: out of memory");
    }
    (*out)->cache = options->cache;
    return BASE_OK;
}

static void stream_close(struct cell_cuda_stream *stream)
{
    struct cell_cuda_stream **at = &stream->cuda->streams;
    pthread_mutex_lock(&stream->lock);
    stream->is_ended = true;
    pthread_cond_signal(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
    pthread_join(stream->thread, NULL);
    pthread_cond_destroy(&stream->changed);
    pthread_mutex_destroy(&stream->lock);
    while (*at != stream) {
        at = &(*at)->next;
    }
    *at = stream->next;
    base_free(stream);
}

/* Returns their bytes. */
static size_t blocks_free(struct block *list)
{
    size_t bytes = 0;
    while (list != NULL) {
        struct block *next = list->next;
        bytes += list->bytes;
        base_free(list->memory);
        base_free(list);
        list = next;
    }
    return bytes;
}

static enum base_status record(struct cell_cuda_stream *stream)
{
    base_assert(stream->recording == NULL);
    struct cell_cuda_graph *graph = fails() ? NULL : base_alloc(sizeof(*graph));
    if (graph == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    graph->next = stream->cuda->graphs;
    stream->cuda->graphs = graph;
    stream->recording = graph;
    return BASE_OK;
}

static enum base_status recorded(struct cell_cuda_stream *stream, struct cell_cuda_graph **out)
{
    *out = stream->recording;
    stream->recording = NULL;
    return fails() ? BASE_UNAVAILABLE : BASE_OK;
}

static void graph_free(struct cell_cuda *cuda, struct cell_cuda_graph *graph)
{
    struct cell_cuda_graph **at = &cuda->graphs;
    while (graph != NULL && *at != graph) {
        at = &(*at)->next;
    }
    if (graph != NULL) {
        *at = graph->next;
        base_free(graph->commands);
        base_free(graph);
    }
}

/* Of a lost card what is left is given back here: the tests' process goes on. */
static void host_close(struct cell_cuda *cuda, bool is_lost)
{
    base_assert(is_lost || (cuda->lanes.lanes == NULL && cuda->streams == NULL &&
                            cuda->graphs == NULL && cuda->card == NULL && cuda->pinned == NULL));
    lane_host_close_all(&cuda->lanes);
    while (cuda->streams != NULL) {
        stream_close(cuda->streams);
    }
    while (cuda->graphs != NULL) {
        graph_free(cuda, cuda->graphs);
    }
    atomic_fetch_sub(&knobs.card_bytes, blocks_free(cuda->card));
    (void)blocks_free(cuda->pinned);
    base_free(cuda);
}

static const char *description(const struct cell_cuda *cuda)
{
    (void)cuda;
    return "a thread of this host";
}

static enum base_status stream_open(struct cell_cuda *cuda, struct cell_cuda_stream **out)
{
    struct cell_cuda_stream *stream = fails() ? NULL : base_alloc(sizeof(*stream));
    if (stream == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    stream->cuda = cuda;
    base_random_init(&stream->random, ++cuda->n_streams);
    pthread_mutex_init(&stream->lock, NULL);
    pthread_cond_init(&stream->changed, NULL);
    const int failed = pthread_create(&stream->thread, NULL, stream_main, stream);
    base_assert(failed == 0);
    stream->next = cuda->streams;
    cuda->streams = stream;
    *out = stream;
    return BASE_OK;
}

static enum base_status wait_for(struct cell_cuda_stream *stream)
{
    while (is_busy(stream->cuda)) {
        (void)usleep(20);
    }
    return fails() ? BASE_UNAVAILABLE : BASE_OK;
}

static enum base_status product_prepare(struct cell_cuda *cuda, struct cell_step_product *product,
                                        cell_step_address turned, struct base_error *error)
{
    const size_t factor = product->products == CELL_PRODUCTS_BF16 ? 2 : sizeof(float);
    const size_t bytes = (size_t)product->inputs * product->outputs * factor;
    check_inside(cuda->card, pointer_of(product->weights), bytes);
    check_inside(cuda->card, pointer_of(turned), bytes);
    if (fails()) {
        return base_fail(error, BASE_UNAVAILABLE, "cuda-host: told to fail");
    }
    const enum base_status status = choice_host(product, turned, cuda->cache);
    return status == BASE_OK ? BASE_OK
                             : base_fail(error, status, "cuda-host: no product %u x %u",
                                         product->inputs, product->outputs);
}

/* ---- Appending ------------------------------------------------------------------------------ */

static enum base_status copy_in(struct cell_cuda_stream *stream, cell_step_address to,
                                const struct cell_cuda_pinned *from, size_t bytes)
{
    check_inside(stream->cuda->card, pointer_of(to), bytes);
    check_inside(stream->cuda->pinned, from->host, bytes);
    return append(
        stream,
        &(struct command){.kind = COPY, .to = pointer_of(to), .from = from->host, .bytes = bytes});
}

static enum base_status copy_out(struct cell_cuda_stream *stream, const struct cell_cuda_pinned *to,
                                 cell_step_address from, size_t bytes)
{
    check_inside(stream->cuda->card, pointer_of(from), bytes);
    check_inside(stream->cuda->pinned, to->host, bytes);
    return append(
        stream,
        &(struct command){.kind = COPY, .to = to->host, .from = pointer_of(from), .bytes = bytes});
}

static enum base_status launch(struct cell_cuda_stream *stream, const struct cell_step *step,
                               uint32_t n_items)
{
    atomic_fetch_add(&knobs.launches, 1);
    return append(stream, &(struct command){.kind = LAUNCH, .step = *step, .n_items = n_items});
}

static enum base_status product(struct cell_cuda_stream *stream,
                                const struct cell_step_product *product)
{
    struct command command = {.kind = PRODUCT};
    command.step.product = *product;
    return append(stream, &command);
}

static enum base_status replay(struct cell_cuda_stream *stream, const struct cell_cuda_graph *graph)
{
    atomic_fetch_add(&knobs.replays, 1);
    return append(stream, &(struct command){.kind = REPLAY, .graph = graph});
}

static enum base_status write64(struct cell_cuda_stream *stream,
                                const struct cell_cuda_pinned *word, uint64_t value)
{
    check_inside(stream->cuda->pinned, word->host, sizeof(value));
    if (atomic_load(&knobs.has_no_words)) {
        return BASE_UNAVAILABLE;
    }
    return append(stream, &(struct command){.kind = WRITE64, .to = word->host, .value = value});
}

static enum base_status error_of(struct cell_cuda *cuda, struct cell_cuda_stream *stream,
                                 struct base_error *error)
{
    (void)cuda;
    (void)stream;
    return fails() ? base_fail(error, BASE_UNAVAILABLE, "cuda-host: told to fail") : BASE_OK;
}

/* ---- Lanes ---------------------------------------------------------------------------------- */

static void room(const struct cell_cuda *cuda, struct cell_cuda_room *out)
{
    (void)cuda;
    // As many SMs as leave some for a few lanes; memory as on sm_90.
    *out = (struct cell_cuda_room){
        .sms = lane_host_can() ? SMS : 0, .shared_block = 227 << 10, .shared_sm = 228 << 10};
}

static enum base_status lane_open(struct cell_cuda *cuda,
                                  const struct cell_cuda_lane_kernel *kernel,
                                  struct cell_cuda_lane **out, struct base_error *error)
{
    note_alloc(cuda);
    return fails() ? base_fail(error, BASE_UNAVAILABLE, "cuda-host: told to fail")
                   : lane_host_open(&cuda->lanes, kernel, has_failed, out);
}

static enum base_status lane_launch(struct cell_cuda_lane *lane, const struct cell_sm_args *args)
{
    if (fails()) {
        return BASE_UNAVAILABLE;
    }
    lane_host_launch(lane, args);
    return BASE_OK;
}

static enum base_status lane_wait(struct cell_cuda_lane *lane, uint64_t most_ns)
{
    const enum base_status status = lane_host_wait(lane, most_ns);
    return fails() ? BASE_UNAVAILABLE : status;
}

const struct cell_cuda_driver cuda_host_driver = {
    .name = "cuda-host",
    .open = host_open,
    .close = host_close,
    .description = description,
    .alloc = card_alloc,
    .free = card_free,
    .pin = pin,
    .unpin = unpin,
    .write = write_now,
    .read = read_now,
    .stream_open = stream_open,
    .stream_close = stream_close,
    .wait = wait_for,
    .record = record,
    .recorded = recorded,
    .graph_free = graph_free,
    .product_prepare = product_prepare,
    .copy_in = copy_in,
    .copy_out = copy_out,
    .launch = launch,
    .product = product,
    .replay = replay,
    .write64 = write64,
    .room = room,
    .lane_open = lane_open,
    .lane_close = lane_host_close,
    .lane_launch = lane_launch,
    .lane_wait = lane_wait,
    .error = error_of,
};

static enum base_status open_own(const struct cell_device_options *options,
                                 struct cell_device **out, struct base_error *error)
{
    return cell_cuda_open(&cuda_host_driver, CELL_CUDA_OWN, options, out, error);
}

static enum base_status open_library(const struct cell_device_options *options,
                                     struct cell_device **out, struct base_error *error)
{
    return cell_cuda_open(&cuda_host_driver, CELL_CUDA_LIBRARY, options, out, error);
}

const struct cell_backend *cuda_host_backend(void)
{
    static const struct cell_backend backend = CELL_CUDA_BACKEND("cuda-host", open_own);
    return &backend;
}

const struct cell_backend *cuda_host_library_backend(void)
{
    static const struct cell_backend backend = CELL_CUDA_BACKEND("cuda-host-library", open_library);
    return &backend;
}
