/* See course.h. Chains are wired when they are drawn, so that a run does no more than a device's
 * user must: it names rows and steps, and gives every chain a number of its own. */
#include "bench/course.h"

#include "base/assert.h"
#include "base/mem.h"
#include "base/random.h"

#include <math.h>

struct chain {
    struct cell_wiring wiring;
    struct cell_refs refs;
    struct cell_emit emit;
};

struct bench_course {
    struct bench_sequence *sequence;
    struct bench_shape shape;
    double residence;
    struct base_random random;
    uint32_t joins, batches;
    struct chain *chains;        /* [rows][steps], of each row as many as were drawn */
    struct chain **present;      /* [rows]: its chain at hand */
    struct cell_batch_row *rows; /* [rows] */
};

/* ---- Drawing -------------------------------------------------------------------------------- */

/* At least one step, at most `left`. */
static uint32_t draw_stay(struct bench_course *course, uint32_t left)
{
    if (course->residence <= 1.0) {
        return 1;
    }
    double chance = 1.0 - base_random_unit(&course->random); // not 0
    double stay = 1.0 + floor(log(chance) / log(1.0 - 1.0 / course->residence));
    return stay < (double)left ? (uint32_t)stay : left;
}

static struct chain *first_of(const struct bench_course *course, uint32_t row)
{
    return course->chains + (size_t)row * course->shape.steps;
}

void bench_course_draw(struct bench_course *course)
{
    const uint32_t steps = course->shape.steps;
    course->joins = 0;
    for (uint32_t r = 0; r < course->shape.rows; r++) {
        struct chain *chain = first_of(course, r);
        for (uint32_t t = 0; t < steps; t += chain->wiring.steps, chain++) {
            bench_sequence_wire(course->sequence, r, t, &chain->emit, &chain->refs, &chain->wiring);
            chain->wiring.steps = draw_stay(course, steps - t);
            course->joins += t > 0 ? 1 : 0;
        }
    }
}

/* ---- Running -------------------------------------------------------------------------------- */

static void join(struct bench_course *course, uint32_t r, struct chain *chain)
{
    chain->wiring.chain = bench_sequence_next_chain(course->sequence);
    course->present[r] = chain;
    course->rows[r] = (struct cell_batch_row){.wiring = &chain->wiring};
}

static uint32_t steps_to_leave(const struct bench_course *course)
{
    uint32_t steps = UINT32_MAX;
    for (uint32_t r = 0; r < course->shape.rows; r++) {
        uint32_t left = course->rows[r].wiring->steps - course->rows[r].first_step;
        steps = left < steps ? left : steps;
    }
    return steps;
}

void bench_course_run(struct bench_course *course)
{
    const struct bench_shape shape = course->shape;
    struct cell_batch batch = {.n_rows = shape.rows, .rows = course->rows};
    course->batches = 0;
    for (uint32_t r = 0; r < shape.rows; r++) {
        join(course, r, first_of(course, r));
    }
    for (uint32_t t = 0; t < shape.steps; t += batch.steps) {
        batch.steps = steps_to_leave(course);
        for (uint32_t r = 0; r < shape.rows; r++) {
            course->rows[r].steps = batch.steps;
        }
        bench_sequence_run_batch(course->sequence, &batch);
        base_assert(batch.steps_done == batch.steps);
        course->batches++;
        for (uint32_t r = 0; r < shape.rows; r++) {
            struct cell_batch_row *row = &course->rows[r];
            row->first_step += batch.steps;
            if (row->first_step == row->wiring->steps && t + batch.steps < shape.steps) {
                join(course, r, course->present[r] + 1);
            }
        }
    }
}

uint32_t bench_course_joins(const struct bench_course *course)
{
    return course->joins;
}

uint32_t bench_course_batches(const struct bench_course *course)
{
    return course->batches;
}

uint32_t bench_course_first_stay(const struct bench_course *course, uint32_t row)
{
    return first_of(course, row)->wiring.steps;
}

/* ---- Life cycle ----------------------------------------------------------------------------- */

enum base_status bench_course_open(struct bench_sequence *sequence, const struct bench_shape *shape,
                                   double residence, uint64_t seed, struct bench_course **out,
                                   struct base_error *error)
{
    struct bench_course *course = base_alloc(sizeof(*course));
    if (course == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "out of memory");
    }
    course->sequence = sequence;
    course->shape = *shape;
    course->residence = residence;
    base_random_init(&course->random, seed);
    course->chains = base_alloc_array((size_t)shape->rows * shape->steps, sizeof(struct chain));
    course->present = base_alloc_array(shape->rows, sizeof(struct chain *));
    course->rows = base_alloc_array(shape->rows, sizeof(struct cell_batch_row));
    if (course->chains == NULL || course->present == NULL || course->rows == NULL) {
        bench_course_close(course);
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "out of memory for %u rows, %u steps",
                         shape->rows, shape->steps);
    }
    bench_course_draw(course);
    *out = course;
    return BASE_OK;
}

void bench_course_close(struct bench_course *course)
{
    if (course == NULL) {
        return;
    }
    base_free(course->rows);
    base_free((void *)course->present);
    base_free(course->chains);
    base_free(course);
}
