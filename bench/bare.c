/* See bare.h. */
#include "bench/bare.h"

#include "base/assert.h"
#include "base/mem.h"

struct bench_bare {
    struct bench_bare_options options;
    struct bench_data data; /* the caller's */
    struct cell_gated gated;
    float *state;     /* [rows][state_parts()] */
    const float **in; /* [steps][rows] */
    float **rows[4];  /* [PARTS][rows] pointers to h even, h odd, c, a tree's c odd */
    float *sums;      /* [ahead][rows][columns of all panels] */
    float **windows;  /* [ahead][rows] pointers into them */
    float **scratch;  /* [threads] */
};

static void *must(void *memory)
{
    base_assert(memory != NULL); // a benchmark without memory has nothing to say
    return memory;
}

enum { PARTS = 4 }; // of a row's state

static void open_windows(struct bench_bare *bare)
{
    size_t rows = (size_t)bare->options.ahead * bare->options.shape.rows;
    size_t columns =
        ((size_t)bare->gated.panels + 1) * bare->gated.columns; // as the device pads them
    if (rows > 0) {
        bare->sums = must(base_alloc_aligned(rows * columns * sizeof(float), BASE_CACHE_LINE));
        bare->windows = must(base_alloc_array(rows, sizeof(float *)));
    }
    for (size_t r = 0; r < rows; r++) {
        bare->windows[r] = bare->sums + r * columns;
    }
}

/* Of a row, with room: of an odd number rows of 256 floats lie apart in a core's L1. */
static size_t state_parts(const struct bench_bare *bare)
{
    return bench_cell_is_tree(bare->options.cell) ? PARTS + 1 : PARTS - 1;
}

static void load(struct bench_bare *bare)
{
    const struct bench_shape *s = &bare->options.shape;
    float *const *tensors = bare->data.tensors;
    uint32_t gates = cell_gated_gates(bare->options.cell->gated) * s->hidden;
    bare->gated = (struct cell_gated){.kind = bare->options.cell->gated,
                                      .precision = bare->options.precision,
                                      .inputs = s->inputs,
                                      .feedback = s->hidden,
                                      .hidden = s->hidden,
                                      .w = tensors[BENCH_W],
                                      .r = tensors[BENCH_R],
                                      .b_w = tensors[BENCH_B],
                                      .b_r = tensors[BENCH_B] + gates};
    if (bench_cell_is_tree(bare->options.cell)) {
        bare->gated.right = bare->gated.feedback;
        bare->gated.r_right = bare->gated.r;
        bare->gated.feedback = bare->gated.inputs;
        bare->gated.r = bare->gated.w;
        bare->gated.inputs = 0;
        bare->gated.w = bare->gated.b_r = NULL;
    }
    base_assert(bare->options.kernels->gated_load(&bare->gated) == BASE_OK);
}

static void open_rows(struct bench_bare *bare)
{
    const struct bench_shape *s = &bare->options.shape;
    const size_t width = CELL_ROW_FLOATS((size_t)s->hidden);
    const size_t parts = state_parts(bare);
    bare->state =
        must(base_alloc_aligned(parts * s->rows * width * sizeof(float), BASE_CACHE_LINE));
    bare->in = must(base_alloc_array((size_t)s->steps * s->rows, sizeof(float *)));
    for (size_t i = 0; i < (size_t)s->steps * s->rows; i++) {
        bare->in[i] = bare->data.tensors[BENCH_X] + i * s->inputs;
    }
    for (uint32_t part = 0; part < PARTS && part < parts; part++) {
        bare->rows[part] = must(base_alloc_array(s->rows, sizeof(float *)));
        for (uint32_t r = 0; r < s->rows; r++) {
            bare->rows[part][r] = bare->state + (parts * r + part) * width;
        }
    }
}

/* Windows fill some steps at once. */
static void open_scratch(struct bench_bare *bare)
{
    const uint32_t threads = bare->options.team->members;
    size_t rows = (size_t)bare->options.shape.rows * (bare->options.ahead + 1);
    size_t floats = bare->options.kernels->gated_scratch(&bare->gated, (uint32_t)rows);
    bare->scratch = must(base_alloc_array(threads, sizeof(float *)));
    for (uint32_t t = 0; t < threads; t++) {
        bare->scratch[t] = must(base_alloc_aligned((floats + 1) * sizeof(float), BASE_CACHE_LINE));
    }
}

void bench_bare_open(const struct bench_bare_options *options, const struct bench_data *data,
                     struct bench_bare **out)
{
    struct bench_bare *bare = must(base_alloc(sizeof(*bare)));
    bare->options = *options;
    bare->data = *data;
    load(bare);
    open_rows(bare);
    open_scratch(bare);
    open_windows(bare);
    *out = bare;
}

void bench_bare_close(struct bench_bare *bare)
{
    if (bare == NULL) {
        return;
    }
    for (uint32_t t = 0; t < bare->options.team->members; t++) {
        base_free(bare->scratch[t]);
    }
    for (uint32_t part = 0; part < PARTS; part++) {
        base_free(bare->rows[part]);
    }
    base_free(bare->windows);
    base_free(bare->sums);
    base_free(bare->scratch);
    base_free(bare->in);
    base_free(bare->state);
    cell_gated_release(&bare->gated);
    base_free(bare);
}

/* This member's panels of the sums over x for step t and those behind it. */
static void fill_windows(const struct bench_bare *bare, const struct cell_gated_step *step,
                         uint32_t t)
{
    uint32_t left = bare->options.shape.steps - t;
    uint32_t steps = left < bare->options.ahead ? left : bare->options.ahead;
    struct cell_gated_ahead ahead = {.gated = step->gated,
                                     .n_rows = steps * step->n_rows,
                                     .panel_first = step->panel_first,
                                     .panel_end = step->panel_end,
                                     .x = bare->in + (size_t)t * step->n_rows,
                                     .out = bare->windows,
                                     .scratch = step->scratch};
    bare->options.kernels->gated_ahead(&ahead);
}

/* Step t of a tree: see bench/cell.h. children: room for two. */
static void step_of_tree(const struct bench_bare *bare, uint32_t t, const float *const *children[2],
                         struct cell_gated_step *step)
{
    step->h = step->x;
    step->h_right = (const float *const *)bare->rows[t & 1];
    children[0] = step->x;
    children[1] = (const float *const *)bare->rows[2 + (t & 1)];
    step->n_children = 2;
    step->children = children;
    step->second = bare->rows[2 + ((t + 1) & 1)];
}

static void run_member(void *argument, struct cell_team *team, uint32_t member)
{
    struct bench_bare *bare = argument;
    uint32_t threads = bare->options.team->members;
    struct cell_gated_step step = {
        .gated = &bare->gated,
        .n_rows = bare->options.shape.rows,
        .panel_first = (uint32_t)((uint64_t)bare->gated.panels * member / threads),
        .panel_end = (uint32_t)((uint64_t)bare->gated.panels * (member + 1) / threads),
        .second = bare->rows[2],
        .scratch = bare->scratch[member],
        .products_only = bare->options.products_only,
    };
    const float *const *children[2];
    const uint32_t ahead = bare->options.ahead;
    for (uint32_t t = 0; t < bare->options.shape.steps; t++) {
        if (ahead > 0 && t % ahead == 0) {
            fill_windows(bare, &step, t);
        }
        step.x = bare->in + (size_t)t * bare->options.shape.rows;
        if (ahead > 0) {
            step.ahead = (const float *const *)bare->windows + (size_t)(t % ahead) * step.n_rows;
        }
        step.h = (const float *const *)bare->rows[t & 1];
        step.old =
            bare->gated.kind == CELL_GATED_LSTM ? (const float *const *)bare->rows[2] : step.h;
        step.out = bare->rows[(t + 1) & 1];
        step.backwards = (t & 1) != 0;
        if (bench_cell_is_tree(bare->options.cell)) {
            step_of_tree(bare, t, children, &step);
        }
        bare->options.kernels->gated_step(&step);
        if (threads > 1) {
            team->barrier(team, member);
        }
    }
}

void bench_bare_run(struct bench_bare *bare)
{
    struct cell_team *team = bare->options.team;
    if (team->members > 1) {
        cell_team_run(team, run_member, bare);
    } else {
        run_member(bare, team, 0);
    }
}
