/* A plug-in that does what the request tells it to: for tests/server/test_plugin.c. Over the cells
 * of tests/server/graphs.h a good request becomes a line of sums: y[k] = {100, 200} + 2 (x[0] + ..
 * + x[k]). */
#include "tests/plugins/steered.h"

#include <cellbatch/unfold.h>
#include <stdatomic.h>
#include <stddef.h>
#include <unistd.h>

enum { IN_MODE, IN_X, IN_HOLD };
enum { OUT_Y, OUT_IDS };
enum { CELL_SOURCE, CELL_JOIN, CELL_WORD, CELL_WIDE };
enum { WIDTH = 2 };

static const struct cellbatch_tensor inputs[] = {
    {.name = "mode", .datatype = CELLBATCH_INT64, .rank = 1, .dims = {1}},
    {.name = "x", .datatype = CELLBATCH_FP32, .rank = 2, .dims = {-1, WIDTH}},
    {.name = "hold", .datatype = CELLBATCH_INT64, .rank = 1, .dims = {1}, .is_optional = 1}};

static const struct cellbatch_tensor outputs[] = {
    {.name = "y", .datatype = CELLBATCH_FP32, .rank = 2, .dims = {-1, WIDTH}},
    {.name = "ids", .datatype = CELLBATCH_INT64, .rank = 1, .dims = {1}}};

static const char *line(const struct cellbatch_request *request, struct cellbatch_graph *graph)
{
    static const float first[WIDTH] = {100, 200};
    const struct cellbatch_calls *calls = graph->calls;
    const int64_t n = request->inputs[IN_X].dims[0];
    int64_t before = -1;
    (void)calls->set_shape(graph, OUT_Y, request->inputs[IN_X].dims);
    for (int64_t k = 0; k < n; k++) {
        const int64_t join = calls->add_node(graph, CELL_JOIN);
        const int64_t source = calls->add_node(graph, CELL_SOURCE);
        (void)calls->feed(graph, source, 0, IN_X, (uint64_t)(k * WIDTH));
        (void)calls->connect(graph, source, 0, join, 1);
        if (k == 0) {
            (void)calls->feed_values(graph, join, 0, first, sizeof(first));
        } else {
            (void)calls->connect(graph, before, 0, join, 0);
        }
        (void)calls->answer(graph, join, 0, OUT_Y, (uint64_t)(k * WIDTH));
        before = join;
    }
    return NULL;
}

/* One thing wrong with a good line. */
static void spoil(int64_t mode, struct cellbatch_graph *graph)
{
    static const int64_t id = 9;
    static const int64_t shape[] = {1, WIDTH + 1};
    const struct cellbatch_calls *calls = graph->calls;
    switch (mode) {
    case STEERED_CYCLE:
        (void)calls->connect(graph, calls->add_node(graph, CELL_JOIN), 0, 7, 0);
        (void)calls->connect(graph, calls->add_node(graph, CELL_JOIN), 0, 6, 0);
        break;
    case STEERED_NODE:
        (void)calls->connect(graph, 0, 0, 77, 0);
        break;
    case STEERED_CELL:
        (void)calls->add_node(graph, 7);
        break;
    case STEERED_FIT:
        (void)calls->connect(graph, 1, 0, calls->add_node(graph, CELL_WIDE), 0);
        break;
    case STEERED_TOO_MANY:
        while (calls->add_node(graph, CELL_JOIN) >= 0) {
        }
        break;
    case STEERED_WIDTH:
        (void)calls->feed_values(graph, calls->add_node(graph, CELL_SOURCE), 0, &id, 4);
        break;
    case STEERED_ID:
        (void)calls->feed_values(graph, calls->add_node(graph, CELL_WORD), 0, &id, sizeof(id));
        break;
    case STEERED_BEYOND:
        (void)calls->feed(graph, calls->add_node(graph, CELL_SOURCE), 0, IN_X, UINT64_MAX);
        break;
    case STEERED_DATATYPE:
        (void)calls->feed(graph, calls->add_node(graph, CELL_SOURCE), 0, IN_MODE, 0);
        break;
    case STEERED_INPUT:
        (void)calls->feed(graph, 0, 5, IN_X, 0);
        break;
    case STEERED_FED_TWICE:
        (void)calls->feed(graph, 1, 0, IN_X, 0);
        break;
    case STEERED_ANSWER_BEYOND:
        (void)calls->answer(graph, 1, 0, OUT_Y, 1u << 20);
        break;
    case STEERED_ANSWER_TWICE:
        (void)calls->answer(graph, 0, 0, OUT_Y, 0);
        break;
    case STEERED_ANSWER_DATATYPE:
        (void)calls->answer(graph, 0, 1, OUT_IDS, 0);
        break;
    case STEERED_SHAPE:
        (void)calls->set_shape(graph, OUT_Y, shape);
        break;
    case STEERED_NO_OUTPUT:
        (void)calls->set_shape(graph, 2, shape);
        break;
    default:
        break;
    }
}

/* Tells that it is here, and waits until it is let go. */
static void hold(const struct cellbatch_request *request)
{
    const int64_t *address = request->inputs[IN_HOLD].data;
    // The test, in the same process, sends where it is.
    struct steered_hold *held = (struct steered_hold *)(uintptr_t)*address; // NOLINT
    atomic_store(&held->is_inside, 1);
    while (atomic_load(&held->is_released) == 0) {
        (void)usleep(500);
    }
    atomic_store(&held->is_inside, 0);
}

static const char *unfold(const struct cellbatch_request *request, struct cellbatch_graph *graph)
{
    const int64_t mode = *(const int64_t *)request->inputs[IN_MODE].data;
    if (mode == STEERED_MESSAGE) {
        return "x is not to my liking";
    }
    if (mode == STEERED_FAIL) {
        (void)graph->calls->fail(graph, "x has failed");
    }
    if (mode == STEERED_EMPTY) {
        return NULL;
    }
    if (mode == STEERED_HOLD) {
        hold(request);
    }
    const char *why = line(request, graph);
    spoil(mode, graph);
    return why;
}

const struct cellbatch_unfold cellbatch_unfold = {.abi = CELLBATCH_UNFOLD_ABI,
                                                  .n_inputs = 3,
                                                  .n_outputs = 2,
                                                  .inputs = inputs,
                                                  .outputs = outputs,
                                                  .unfold = unfold};
