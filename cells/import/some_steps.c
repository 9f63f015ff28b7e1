/* See some_steps.h. Such a Loop has a number of steps that is an axis's size, less some; what it
 * takes by t + k is steps k to k + that number of a sequence, a Slice before the Loop, taken by t:
 *
 *   Loop(n - 1): Gather(x, t), Gather(x, t + 1)
 *   Loop(the steps of a): Gather(a, t), Gather(b, t)        a = x[:, : -1], b = x[:, 1 :]
 */
#include "cells/import/some_steps.h"

#include "cells/import/loop_body.h"

#include <string.h>

/* Operators between the step's number and what is taken by it. */
#define LOOK_MAX 16u

struct steps {
    struct cell__loop_body body;
    struct cell__sym size; /* of the axis */
    int64_t less;          /* steps of it that the Loop has not; > 0 */
};

/* The number of steps, where it is an axis's size less some. */
static bool read_steps(const struct cell__loop_body *body, const Onnx__NodeProto *loop,
                       struct steps *out)
{
    uint32_t v = 0;
    if (loop->input[0][0] == '\0' || cell__value_named(body->im, loop->input[0], &v) != BASE_OK) {
        return false;
    }
    const struct cell__value *trips = &body->im->values[v];
    const bool is_count = trips->kind == CELL__COUNTER && trips->steps == 0;
    if (trips->dtype != CELL__I64 ||
        (!is_count && (trips->kind != CELL__CONST || trips->tensor.count != 1))) {
        return false;
    }
    *out = (struct steps){.body = *body,
                          .size = is_count ? trips->count : cell__tensor_sym(&trips->tensor, 0)};
    out->less = out->size.add < 0 && out->size.add > INT32_MIN ? -out->size.add : 0;
    out->size.add = 0;
    return out->less > 0 && out->size.factor == 1 && out->size.axis.n > 0;
}

/* Whether a value is the step's number and *more. */
static bool is_of_step(const struct cell__loop_body *body, const char *name, int64_t *more)
{
    *more = 0;
    for (uint32_t n = 0; n < LOOK_MAX && strcmp(name, body->step) != 0; n++) {
        const Onnx__NodeProto *node = cell__body_maker(body, name);
        const bool is_sum = cell__is_op(node, "Add", 2);
        int64_t number = 0;
        if (cell__is_op(node, "Identity", 1)) {
            name = node->input[0];
            continue;
        }
        if (!is_sum && !cell__is_op(node, "Sub", 2) && !cell__is_op(node, "Mul", 2)) {
            return false;
        }
        const bool is_second = cell__body_integer(body, node->input[1], &number);
        if (!is_second && (!is_sum || !cell__body_integer(body, node->input[0], &number))) {
            return false;
        }
        if (cell__is_op(node, "Mul", 2) ? number != 1 : number > INT32_MAX || number < -INT32_MAX) {
            return false;
        }
        *more += is_sum ? number : cell__is_op(node, "Sub", 2) ? -number : 0;
        name = node->input[is_second ? 0 : 1];
    }
    return strcmp(name, body->step) == 0;
}

/* What a Gather takes: a sequence from outside, by the number of the step and so many more. */
struct taken {
    const char *of;
    uint32_t axis; /* of its steps, as long as the one that the Loop goes along */
    int64_t more;
};

static bool is_taken(const struct steps *steps, const Onnx__NodeProto *gather, struct taken *out)
{
    static const char *const same[] = {"Identity", NULL};
    struct cell__import *im = steps->body.im;
    const struct cell__node node = {.proto = gather};
    uint32_t v = 0;
    if (!cell__is_op(gather, "Gather", 2)) {
        return false;
    }
    const Onnx__AttributeProto *attribute = cell__attr(&node, "axis");
    out->of = cell__body_look(&steps->body, gather->input[0], same);
    if (!is_of_step(&steps->body, gather->input[1], &out->more) ||
        cell__body_maker(&steps->body, out->of) != NULL ||
        cell__value_named(im, out->of, &v) != BASE_OK || im->values[v].kind != CELL__ROWS) {
        return false;
    }
    const struct cell__shape *shape = &im->values[v].shape;
    const int64_t at = attribute == NULL ? 0 : attribute->i;
    const int64_t from_front = at < 0 ? at + shape->rank : at;
    if (from_front < 0 || from_front >= shape->rank) {
        return false;
    }
    out->axis = (uint32_t)from_front;
    const struct cell__sym size = cell__sym_of_axis(im, &shape->axes[out->axis]);
    return cell__sym_equal(im, &size, &steps->size) == 1 && out->more >= 0 &&
           out->more <= steps->less;
}

/* Those steps of it, before the Loop. */
static enum base_status write_part(struct cell__writer *w, const struct steps *steps,
                                   const struct taken *taken, const char **out)
{
    const int64_t left = steps->less - taken->more; // behind them
    const int64_t bounds[] = {taken->more, left > 0 ? -left : INT64_MAX, taken->axis};
    const char *at[3];
    for (uint32_t i = 0; i < 3; i++) {
        BASE_TRY(cell__write_ints(w, &bounds[i], 1, &at[i]));
    }
    return cell__write(w, "Slice", (const char *[]){taken->of, at[0], at[1], at[2], NULL}, out);
}

/* A Gather of a part by the number of the step, in place of one. */
static enum base_status replace(struct cell__writer *w, const struct steps *steps, const char *part,
                                Onnx__NodeProto **at)
{
    Onnx__NodeProto *copy = base_arena_alloc(w->im->arena, sizeof(*copy));
    char **inputs = cell__body_copy_list(&steps->body, (*at)->input, (*at)->n_input, 0);
    if (copy == NULL || inputs == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    *copy = **at;
    copy->input = inputs;
    BASE_TRY(cell__build_text(w->builder, part, &inputs[0]));
    BASE_TRY(cell__build_text(w->builder, steps->body.step, &inputs[1]));
    *at = copy;
    return BASE_OK;
}

/* The steps of a part: how many the Loop has. */
static enum base_status write_count(struct cell__writer *w, const char *part, uint32_t axis,
                                    const char **out)
{
    static const int64_t zero = 0;
    const int64_t at = axis;
    const char *number = NULL;
    const char *first = NULL;
    BASE_TRY(cell__write_ints(w, &at, 1, &number));
    BASE_TRY(cell__write_ints(w, &zero, 1, &first));
    BASE_TRY(cell__write(w, "Shape", (const char *[]){part, NULL}, out));
    BASE_TRY(cell__write(w, "Gather", (const char *[]){*out, number, NULL}, out));
    return cell__write_axes(w, "Squeeze", *out, &zero, 1, out);
}

static enum base_status write_all(struct cell__writer *w, const struct steps *steps)
{
    Onnx__GraphProto *body = base_arena_alloc(w->im->arena, sizeof(*body));
    char **inputs = cell__body_copy_list(&steps->body, w->proto->input, w->proto->n_input, 0);
    const char *count = NULL;
    if (body == NULL || inputs == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    *body = *steps->body.graph;
    body->node = cell__body_copy_list(&steps->body, body->node, body->n_node, 0);
    if (body->node == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    for (size_t i = 0; i < body->n_node; i++) {
        struct taken taken;
        const char *part = NULL;
        if (!is_taken(steps, body->node[i], &taken)) {
            continue;
        }
        BASE_TRY(write_part(w, steps, &taken, &part));
        BASE_TRY(replace(w, steps, part, &body->node[i]));
        BASE_TRY(count == NULL ? write_count(w, part, taken.axis, &count) : BASE_OK);
    }
    if (count == NULL) {
        return cell__unwritten(w, "a number of steps that is not the size of an axis");
    }
    BASE_TRY(cell__build_text(w->builder, count, &inputs[0]));
    return cell__write_loop(w, &steps->body, inputs, w->proto->output, body);
}

const Onnx__GraphProto *cell__write_some_steps(struct cell__import *im, const Onnx__NodeProto *loop)
{
    struct cell__loop_body body;
    struct cell__writer w;
    struct steps steps;
    if (!cell__loop_body(im, loop, &body) || !read_steps(&body, loop, &steps)) {
        return NULL;
    }
    const bool is_written =
        cell__writer_begin(&w, im, loop) == BASE_OK && write_all(&w, &steps) == BASE_OK;
    return is_written ? cell__writer_nodes(&w) : NULL;
}
