/* A plug-in for cellbatch: a recurrent network over two dimensions. A request is an image [height,
 * width, features]; the cell at (i, j) reads its features, and the state of the cells above, (i -
 * 1, j), and to the left, (i, j - 1), zeros beyond the edges. So all cells of a diagonal can run at
 * once. Answered are the states of all cells, and what the head makes of the last one.
 *
 * Build: cc -shared -fPIC -Iinclude unfold.c -o unfold.so. How to serve it: README.md. */
#include <cellbatch/unfold.h>
#include <stddef.h>

/* As config.yaml and the ONNX files number them: grid(x, above, left) -> h; head(h) -> scores. */
enum { CELL_GRID, CELL_HEAD };
enum { GRID_X, GRID_ABOVE, GRID_LEFT };

enum { FEATURES = 3, HIDDEN = 16, CLASSES = 4 };
enum { IN_IMAGE };
enum { OUT_STATES, OUT_SCORES };

static const struct cellbatch_tensor inputs[] = {
    {.name = "image", .datatype = CELLBATCH_FP32, .rank = 3, .dims = {-1, -1, FEATURES}}};

static const struct cellbatch_tensor outputs[] = {
    {.name = "states", .datatype = CELLBATCH_FP32, .rank = 3, .dims = {-1, -1, HIDDEN}},
    {.name = "scores", .datatype = CELLBATCH_FP32, .rank = 1, .dims = {CLASSES}}};

/* The cell at a place; cells are added row by row, so that its number is its place. */
static void add_cell(struct cellbatch_graph *graph, int64_t row, int64_t column, int64_t width)
{
    const struct cellbatch_calls *calls = graph->calls;
    const int64_t place = row * width + column;
    const int64_t node = calls->add_node(graph, CELL_GRID);
    (void)calls->feed(graph, node, GRID_X, IN_IMAGE, (uint64_t)place * FEATURES);
    if (row > 0) {
        (void)calls->connect(graph, place - width, 0, node, GRID_ABOVE);
    }
    if (column > 0) {
        (void)calls->connect(graph, place - 1, 0, node, GRID_LEFT);
    }
    (void)calls->answer(graph, node, 0, OUT_STATES, (uint64_t)place * HIDDEN);
}

static const char *unfold(const struct cellbatch_request *request, struct cellbatch_graph *graph)
{
    const int64_t height = request->inputs[IN_IMAGE].dims[0];
    const int64_t width = request->inputs[IN_IMAGE].dims[1];
    const int64_t shape[] = {height, width, HIDDEN};
    if (request->inputs[IN_IMAGE].count == 0) {
        return "an image of no pixels";
    }
    (void)graph->calls->set_shape(graph, OUT_STATES, shape);
    for (int64_t row = 0; row < height; row++) {
        for (int64_t column = 0; column < width; column++) {
            add_cell(graph, row, column, width);
        }
    }
    const int64_t head = graph->calls->add_node(graph, CELL_HEAD);
    if (head < 0) {
        return NULL; // the server knows already: an image of too many pixels
    }
    (void)graph->calls->connect(graph, head - 1, 0, head, 0);
    (void)graph->calls->answer(graph, head, 0, OUT_SCORES, 0);
    return NULL;
}

const struct cellbatch_unfold cellbatch_unfold = {.abi = CELLBATCH_UNFOLD_ABI,
                                                  .n_inputs = 1,
                                                  .n_outputs = 2,
                                                  .inputs = inputs,
                                                  .outputs = outputs,
                                                  .unfold = unfold};
