/* See einsum.h. A term is a value and the labels of its axes. Of two terms a label is shared (in
 * both, and wanted still), summed (in both, and not wanted), or of one of them; what only one has
 * and nobody wants is summed before. Terms without summed labels are multiplied element by element;
 * a constant without shared labels is a matrix, one with some a matrix of blocks, each from the
 * rows of a shared place to its columns; others are matrices at each shared place. */
#include "cells/import/einsum.h"

#include "base/assert.h"
#include "cells/import/ops.h"

#include <stdbool.h>
#include <string.h>

#define LABELS_MAX CELL_RANK_MAX

/* Elements of a matrix of blocks, which are mostly zeros. */
#define BLOCKS_MAX ((size_t)1 << 24)

/* Parts of it that are matrices of their own, and what a part costs beside its multiply-adds: a
 * slice and a product more a step, some 50 ns, in multiply-adds. */
#define PARTS_MAX  ((size_t)16)
#define PART_COSTS ((size_t)2750)

static const char wrong[] = "an equation that does not fit its operands";

/* Letters; numbers from 1 on for what an ellipsis stands for, the last of them the same in all. */
struct term {
    const char *value; /* NULL of what is to come out */
    uint32_t n;
    uint8_t labels[LABELS_MAX];
};

struct equation {
    uint32_t n;
    struct term terms[CELL__OPERANDS_MAX];
    struct term out;
};

/* ---- The equation
 * -------------------------------------------------------------------------------- */

static bool has(const struct term *term, uint8_t label)
{
    return memchr(term->labels, label, term->n) != NULL;
}

static bool add_label(struct term *term, uint8_t label)
{
    if (term->n == LABELS_MAX) {
        return false;
    }
    term->labels[term->n++] = label;
    return true;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* The labels of a term up to a comma, an arrow or the end; at: where it begins, and then ends.
 * dots: dimensions that an ellipsis stands for. */
static bool read_term(const char **at, const char *end, uint32_t dots, struct term *term)
{
    bool has_dots = false;
    for (; *at < end && **at != ',' && **at != '-'; ++*at) {
        if (**at == ' ') {
            continue;
        }
        if (is_letter(**at)) {
            if (!add_label(term, (uint8_t) * *at)) {
                return false;
            }
            continue;
        }
        if (has_dots || end - *at < 3 || memcmp(*at, "...", 3) != 0) {
            return false;
        }
        has_dots = true;
        *at += 2;
        for (uint32_t i = dots; i > 0; i--) {
            if (!add_label(term, (uint8_t)i)) {
                return false;
            }
        }
    }
    return true;
}

/* Letters of a term. */
static uint32_t letters_of(const char *at, const char *end)
{
    uint32_t n = 0;
    for (; at < end && *at != ',' && *at != '-'; at++) {
        n += is_letter(*at) ? 1 : 0;
    }
    return n;
}

/* Without an arrow: what stands once, in order, behind what ellipses stand for. */
static bool derive_out(struct equation *e, uint32_t dots)
{
    bool fits = true;
    for (uint32_t i = dots; i > 0; i--) {
        fits = fits && add_label(&e->out, (uint8_t)i);
    }
    for (int c = 'A'; c <= 'z'; c++) {
        uint32_t times = 0;
        for (uint32_t t = 0; t < e->n; t++) {
            times += has(&e->terms[t], (uint8_t)c) ? 1 : 0;
        }
        fits = fits && (times != 1 || add_label(&e->out, (uint8_t)c));
    }
    return fits;
}

static bool repeats(const struct term *term)
{
    for (uint32_t i = 1; i < term->n; i++) {
        if (memchr(term->labels, term->labels[i], i) != NULL) {
            return true;
        }
    }
    return false;
}

/* Axes of one label are as long as each other, or of one element. */
static enum base_status check_sizes(struct cell__writer *w, const struct equation *e)
{
    int64_t sizes[UINT8_MAX + 1] = {0}; // of each label; 0: not known yet
    for (uint32_t t = 0; t < e->n; t++) {
        const struct term *term = &e->terms[t];
        const struct cell__value *value = NULL;
        struct cell__shape shape;
        BASE_TRY(cell__writer_value(w, term->value, &value));
        BASE_TRY(cell__shape_of(w->im, value, &shape));
        for (uint32_t k = 0; k < term->n; k++) {
            int64_t *size = &sizes[term->labels[k]];
            const int64_t own = cell__axis_size(w->im, &shape.axes[k]);
            if (own > 1 && *size > 1 && own != *size) {
                return cell__unwritten(w, "operands whose sizes do not fit");
            }
            *size = own > 1 ? own : *size;
        }
    }
    return BASE_OK;
}

/* What the node says, up to *end; of no letters there is no memory. */
static const char *text_of(const struct cell__writer *w, const char **end)
{
    const struct cell__node node = {.proto = w->proto};
    const Onnx__AttributeProto *text = cell__attr(&node, "equation");
    if (text == NULL || text->s.len == 0) {
        *end = "";
        return *end;
    }
    *end = (const char *)text->s.data + text->s.len;
    return (const char *)text->s.data;
}

static enum base_status read_equation(struct cell__writer *w, struct equation *e)
{
    const char *end = NULL;
    const char *at = text_of(w, &end);
    uint32_t most = 0;
    *e = (struct equation){.n = (uint32_t)w->proto->n_input};
    for (uint32_t t = 0; t < e->n; t++) {
        uint32_t rank = 0;
        struct term *term = &e->terms[t];
        term->value = w->proto->input[t];
        BASE_TRY(cell__writer_rank(w, term->value, &rank));
        const bool is_next = t == 0 || (at < end && *at++ == ',');
        const uint32_t letters = letters_of(at, end);
        const uint32_t dots = rank > letters ? rank - letters : 0;
        if (!is_next || !read_term(&at, end, dots, term) || term->n != rank) {
            return cell__unwritten(w, wrong);
        }
        if (repeats(term)) {
            return cell__unwritten(w, "a label that stands twice in an operand: a diagonal");
        }
        most = dots > most ? dots : most;
    }
    if (at == end) {
        return derive_out(e, most) ? BASE_OK : cell__unwritten(w, wrong);
    }
    if (end - at < 2 || memcmp(at, "->", 2) != 0) {
        return cell__unwritten(w, wrong);
    }
    at += 2;
    bool fits = read_term(&at, end, most, &e->out) && at == end && !repeats(&e->out);
    for (uint32_t i = 0; fits && i < e->out.n; i++) {
        bool is_there = false;
        for (uint32_t t = 0; t < e->n; t++) {
            is_there = is_there || has(&e->terms[t], e->out.labels[i]);
        }
        fits = is_there;
    }
    return fits ? BASE_OK : cell__unwritten(w, wrong);
}

/* ---- One term
 * ------------------------------------------------------------------------------------ */

/* Whether the result or a term behind number t has the label. */
static bool is_wanted(const struct equation *e, uint32_t t, uint8_t label)
{
    bool is = has(&e->out, label);
    for (uint32_t i = t + 1; i < e->n; i++) {
        is = is || has(&e->terms[i], label);
    }
    return is;
}

/* Axes in the order of these labels, all of which it has, and no others. */
static enum base_status order(struct cell__writer *w, struct term *term, const struct term *as)
{
    int64_t perm[LABELS_MAX];
    for (uint32_t k = 0; k < as->n; k++) {
        const uint8_t *at = memchr(term->labels, as->labels[k], term->n);
        if (at == NULL || term->n != as->n) {
            return cell__unwritten(w, wrong);
        }
        perm[k] = at - term->labels;
    }
    BASE_TRY(cell__write_transpose(w, term->value, perm, term->n, &term->value));
    memcpy(term->labels, as->labels, sizeof(term->labels));
    return BASE_OK;
}

/* Sums what nobody wants and `other` (or NULL) does not have. */
static enum base_status drop(struct cell__writer *w, const struct equation *e, uint32_t t,
                             struct term *term, const struct term *other)
{
    struct cell__list axes = {.n = 0};
    struct term left = {.n = 0};
    for (uint32_t k = 0; k < term->n; k++) {
        const uint8_t label = term->labels[k];
        if (is_wanted(e, t, label) || (other != NULL && has(other, label))) {
            left.labels[left.n++] = label;
        } else {
            axes.at[axes.n++] = k;
        }
    }
    if (axes.n == 0) {
        return BASE_OK;
    }
    BASE_TRY(cell__write_reduce(w, "ReduceSum", term->value, &axes, false, &left.value));
    *term = left;
    return BASE_OK;
}

/* ---- Two terms
 * ----------------------------------------------------------------------------------- */

/* Labels of both, by what becomes of them. */
struct parts {
    struct term shared, summed, of_a, of_b;
};

static struct parts parts_of(const struct equation *e, uint32_t t, const struct term *a,
                             const struct term *b)
{
    struct parts parts = {.shared = {.n = 0}};
    for (uint32_t k = 0; k < a->n; k++) {
        const uint8_t label = a->labels[k];
        struct term *to = !has(b, label)           ? &parts.of_a
                          : is_wanted(e, t, label) ? &parts.shared
                                                   : &parts.summed;
        to->labels[to->n++] = label;
    }
    for (uint32_t k = 0; k < b->n; k++) {
        if (!has(a, b->labels[k])) {
            parts.of_b.labels[parts.of_b.n++] = b->labels[k];
        }
    }
    return parts;
}

static void append(struct term *to, const struct term *labels)
{
    for (uint32_t k = 0; k < labels->n && to->n < LABELS_MAX; k++) {
        to->labels[to->n++] = labels->labels[k];
    }
}

static struct term joined(const struct term *a, const struct term *b, const struct term *c)
{
    struct term all = {.n = 0};
    append(&all, a);
    append(&all, b);
    append(&all, c);
    return all;
}

/* n axes of one element, before axis `at`. */
static enum base_status widen(struct cell__writer *w, struct term *term, uint32_t at, uint32_t n)
{
    int64_t axes[LABELS_MAX];
    for (uint32_t k = 0; k < n && k < LABELS_MAX; k++) {
        axes[k] = at + k;
    }
    return cell__write_axes(w, "Unsqueeze", term->value, axes, n, &term->value);
}

/* Element by element: [shared, of a, 1 ..] * [shared, 1 .., of b]. */
static enum base_status multiply(struct cell__writer *w, const struct parts *parts, struct term *a,
                                 struct term *b, struct term *out)
{
    static const struct term none = {.n = 0};
    const struct term as_a = joined(&parts->shared, &parts->of_a, &none);
    const struct term as_b = joined(&parts->shared, &parts->of_b, &none);
    *out = joined(&parts->shared, &parts->of_a, &parts->of_b);
    BASE_TRY(order(w, a, &as_a));
    BASE_TRY(order(w, b, &as_b));
    BASE_TRY(widen(w, a, as_a.n, parts->of_b.n));
    BASE_TRY(widen(w, b, parts->shared.n, parts->of_a.n));
    return cell__write(w, "Mul", (const char *[]){a->value, b->value, NULL}, &out->value);
}

/* Of the last n axes one, of their product; the others stay. Of a constant their sizes are known,
 * and so is the matrix of all of it. */
static enum base_status flatten(struct cell__writer *w, struct term *term, uint32_t n,
                                const char **out)
{
    int64_t dims[LABELS_MAX + 1] = {0};
    const char *shape = NULL;
    *out = term->value;
    if (n == 1) {
        return BASE_OK;
    }
    dims[term->n - n] = -1;
    BASE_TRY(cell__write_ints(w, dims, term->n - n + 1, &shape));
    return cell__write(w, "Reshape", (const char *[]){term->value, shape, NULL}, out);
}

/* A constant b without shared labels: [.., summed] times [summed, of b]. */
static enum base_status multiply_matrix(struct cell__writer *w, const struct parts *parts,
                                        struct term *a, struct term *b, struct term *out)
{
    static const struct term none = {.n = 0};
    const struct term as_a = joined(&parts->of_a, &parts->summed, &none);
    const struct term as_b = joined(&parts->summed, &parts->of_b, &none);
    const struct cell__value *matrix = NULL;
    const char *shape = NULL;
    const char *values[2];
    int64_t dims[LABELS_MAX] = {0};
    int64_t sizes[2] = {1, 1};
    BASE_TRY(cell__writer_value(w, b->value, &matrix));
    for (uint32_t k = 0; k < b->n; k++) { // in the order that it has now
        const uint8_t *at = memchr(as_b.labels, b->labels[k], as_b.n);
        const uint32_t place = (uint32_t)(at - as_b.labels);
        sizes[place < parts->summed.n ? 0 : 1] *= matrix->tensor.dims[k];
        if (place >= parts->summed.n) {
            dims[parts->of_a.n + place - parts->summed.n] = matrix->tensor.dims[k];
        }
    }
    BASE_TRY(order(w, a, &as_a));
    BASE_TRY(order(w, b, &as_b));
    BASE_TRY(flatten(w, a, parts->summed.n, &values[0]));
    BASE_TRY(cell__write_ints(w, sizes, 2, &shape));
    BASE_TRY(cell__write(w, "Reshape", (const char *[]){b->value, shape, NULL}, &values[1]));
    BASE_TRY(cell__write(w, "MatMul", (const char *[]){values[0], values[1], NULL}, &values[0]));
    *out = joined(&parts->of_a, &parts->of_b, &none);
    out->value = values[0];
    if (parts->of_b.n == 1) {
        return BASE_OK;
    }
    BASE_TRY(cell__write_ints(w, dims, out->n, &shape));
    return cell__write(w, "Reshape", (const char *[]){out->value, shape, NULL}, &out->value);
}

/* Elements of the axes that have these labels. */
static size_t size_of(const struct term *term, const struct cell__tensor *tensor,
                      const struct term *labels)
{
    size_t size = 1;
    for (uint32_t k = 0; k < term->n; k++) {
        size *= has(labels, term->labels[k]) ? (size_t)tensor->dims[k] : 1;
    }
    return size;
}

/* Where an element stands among those of the axes that have these labels, in their order. */
static size_t place_of(const struct term *term, const struct cell__tensor *tensor,
                       const int64_t *at, const struct term *labels)
{
    size_t place = 0;
    for (uint32_t l = 0; l < labels->n; l++) {
        const uint8_t *found = memchr(term->labels, labels->labels[l], term->n);
        const size_t k = (size_t)(found - term->labels);
        place = place * (size_t)tensor->dims[k] + (size_t)at[k];
    }
    return place;
}

/* A constant with shared labels: a block for each shared place, from its own rows to its own
 * columns. Some places behind each other are a part: a matrix with zeros between its blocks. */
struct blocks {
    const struct cell__tensor *tensor;
    size_t n_parts, rows, columns; /* of a part */
    float *data;                   /* [n_parts, rows, columns] */
};

/* Into how many parts to divide them: few zeros, few parts. */
static size_t choose_parts(size_t places, size_t elements)
{
    size_t best = 1;
    size_t least = SIZE_MAX;
    for (size_t n = 1; n <= PARTS_MAX; n++) {
        const size_t costs = places * places * elements / n + n * PART_COSTS;
        if (places % n == 0 && costs < least) {
            best = n;
            least = costs;
        }
    }
    return best;
}

static enum base_status make_blocks(struct cell__writer *w, const struct parts *parts,
                                    const struct term *b, struct blocks *out)
{
    const struct cell__value *value = NULL;
    BASE_TRY(cell__writer_value(w, b->value, &value));
    const struct cell__tensor *tensor = &value->tensor;
    const size_t places = size_of(b, tensor, &parts->shared);
    const size_t rows = size_of(b, tensor, &parts->summed);
    const size_t columns = size_of(b, tensor, &parts->of_b);
    if (tensor->dtype != CELL__F32 || tensor->count == 0 || tensor->count > BLOCKS_MAX / places) {
        return cell__unwritten(w, "of a constant that is too large as a matrix of blocks");
    }
    const size_t n_parts = choose_parts(places, rows * columns);
    const size_t together = places / n_parts; // places of a part
    *out = (struct blocks){.tensor = tensor,
                           .n_parts = n_parts,
                           .rows = together * rows,
                           .columns = together * columns};
    out->data = base_arena_alloc(w->im->arena, tensor->count * together * sizeof(*out->data));
    if (out->data == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    memset(out->data, 0, tensor->count * together * sizeof(*out->data));
    int64_t at[LABELS_MAX] = {0};
    for (size_t i = 0; i < tensor->count; i++) {
        const size_t place = place_of(b, tensor, at, &parts->shared);
        const size_t row = place * rows + place_of(b, tensor, at, &parts->summed);
        const size_t column = place % together * columns + place_of(b, tensor, at, &parts->of_b);
        out->data[row * out->columns + column] = ((const float *)tensor->data)[i];
        for (uint32_t k = b->n; k-- > 0 && ++at[k] == tensor->dims[k];) {
            at[k] = 0;
        }
    }
    return BASE_OK;
}

/* Part p as a matrix. */
static enum base_status write_part(struct cell__writer *w, const struct blocks *blocks, size_t p,
                                   const char **out)
{
    const struct cell__constant part = {.data = blocks->data + p * blocks->rows * blocks->columns,
                                        .rank = 2,
                                        .dims = {(int64_t)blocks->rows, (int64_t)blocks->columns}};
    return cell__build_floats(w->builder, &part, out);
}

/* [.., rows of all parts], this axis the last, times the parts. */
static enum base_status multiply_parts(struct cell__writer *w, const struct blocks *blocks,
                                       uint32_t axis, const char *a, const char **out)
{
    const char *products[PARTS_MAX + 1] = {NULL};
    for (size_t p = 0; p < blocks->n_parts; p++) {
        const int64_t first = (int64_t)(p * blocks->rows);
        const int64_t range[3] = {first, first + (int64_t)blocks->rows, axis};
        const char *slice[5] = {a};
        const char *operands[3] = {a};
        for (size_t i = 0; i < 3 && blocks->n_parts > 1; i++) {
            BASE_TRY(cell__write_ints(w, &range[i], 1, &slice[1 + i]));
        }
        if (blocks->n_parts > 1) {
            BASE_TRY(cell__write(w, "Slice", slice, &operands[0]));
        }
        BASE_TRY(write_part(w, blocks, p, &operands[1]));
        BASE_TRY(cell__write(w, "MatMul", operands, &products[p]));
    }
    *out = products[0];
    return blocks->n_parts == 1 ? BASE_OK : cell__write_concat(w, products, axis, out);
}

/* A constant b with shared labels: [of a, shared, summed] times its blocks. */
static enum base_status multiply_blocks(struct cell__writer *w, const struct parts *parts,
                                        struct term *a, struct term *b, struct term *out)
{
    const struct term as_a = joined(&parts->of_a, &parts->shared, &parts->summed);
    const char *shape = NULL;
    const char *flat = NULL;
    int64_t dims[LABELS_MAX] = {0};
    struct blocks blocks = {.n_parts = 0};
    *out = joined(&parts->of_a, &parts->shared, &parts->of_b);
    BASE_TRY(make_blocks(w, parts, b, &blocks));
    for (uint32_t k = parts->of_a.n; k < out->n; k++) {
        const uint8_t *at = memchr(b->labels, out->labels[k], b->n);
        dims[k] = blocks.tensor->dims[at - b->labels];
    }
    BASE_TRY(order(w, a, &as_a));
    BASE_TRY(flatten(w, a, parts->shared.n + parts->summed.n, &flat));
    BASE_TRY(multiply_parts(w, &blocks, parts->of_a.n, flat, &out->value));
    if (out->n == parts->of_a.n + 1) {
        return BASE_OK;
    }
    BASE_TRY(cell__write_ints(w, dims, out->n, &shape));
    return cell__write(w, "Reshape", (const char *[]){out->value, shape, NULL}, &out->value);
}

/* At each shared place [of a, summed] times [summed, of b], one label each, or none; of a may have
 * more, such as heads beside steps: at each of them b is the same. */
static enum base_status multiply_rows(struct cell__writer *w, const struct parts *parts,
                                      struct term *a, struct term *b, struct term *out)
{
    const struct term as_a = joined(&parts->shared, &parts->of_a, &parts->summed);
    const struct term as_b = joined(&parts->shared, &parts->summed, &parts->of_b);
    const uint32_t n = parts->shared.n;
    int64_t lone[2];
    size_t n_lone = 0;
    const uint32_t more = parts->of_a.n > 1 ? parts->of_a.n - 1 : 0;
    if (parts->summed.n > 1 || parts->of_b.n > 1) {
        return cell__unwritten(w, "of operands that both depend on the request, with more than one "
                                  "label of a kind");
    }
    BASE_TRY(order(w, a, &as_a));
    BASE_TRY(order(w, b, &as_b));
    BASE_TRY(widen(w, a, n, parts->of_a.n == 0 ? 1 : 0));
    BASE_TRY(widen(w, b, n + 1, parts->of_b.n == 0 ? 1 : 0));
    BASE_TRY(widen(w, b, n, more));
    *out = joined(&parts->shared, &parts->of_a, &parts->of_b);
    BASE_TRY(cell__write(w, "MatMul", (const char *[]){a->value, b->value, NULL}, &out->value));
    if (parts->of_a.n == 0) {
        lone[n_lone++] = n;
    }
    if (parts->of_b.n == 0) {
        lone[n_lone++] = n + 1 + more;
    }
    return cell__write_axes(w, "Squeeze", out->value, lone, n_lone, &out->value);
}

/* [shared, summed] of both, element by element, then summed: neither has anything of its own. */
static enum base_status multiply_and_sum(struct cell__writer *w, const struct parts *parts,
                                         struct term *a, struct term *b, struct term *out)
{
    const struct parts all = {.shared = joined(&parts->shared, &parts->summed, &parts->of_a)};
    struct cell__list axes = {.n = 0};
    BASE_TRY(multiply(w, &all, a, b, out));
    for (uint32_t k = parts->shared.n; k < out->n; k++) {
        axes.at[axes.n++] = k;
    }
    BASE_TRY(cell__write_reduce(w, "ReduceSum", out->value, &axes, false, &out->value));
    out->n = parts->shared.n;
    return BASE_OK;
}

static bool is_constant(struct cell__writer *w, const struct term *term)
{
    const struct cell__value *value = NULL;
    return cell__writer_value(w, term->value, &value) == BASE_OK && value->kind == CELL__CONST;
}

/* a becomes what it and term t make together. */
static enum base_status contract(struct cell__writer *w, struct equation *e, uint32_t t,
                                 bool is_first, struct term *a)
{
    struct term *b = &e->terms[t];
    struct term out = {.n = 0};
    const bool a_is_constant = is_first && is_constant(w, a);
    const bool b_is_constant = is_constant(w, b);
    BASE_TRY(drop(w, e, t, a, b));
    BASE_TRY(drop(w, e, t, b, a));
    struct parts parts = parts_of(e, t, a, b);
    if (parts.shared.n + parts.summed.n + parts.of_a.n + parts.of_b.n > LABELS_MAX) {
        return cell__unwritten(w, "of more labels than a tensor has axes");
    }
    if (parts.summed.n == 0) {
        BASE_TRY(multiply(w, &parts, a, b, &out));
    } else if (parts.of_a.n == 0 && parts.of_b.n == 0) {
        BASE_TRY(multiply_and_sum(w, &parts, a, b, &out));
    } else if (b_is_constant && b->value == w->proto->input[t]) {
        BASE_TRY((parts.shared.n == 0 ? multiply_matrix : multiply_blocks)(w, &parts, a, b, &out));
    } else if (a_is_constant && a->value == w->proto->input[0]) {
        const struct parts turned = {
            .shared = parts.shared, .summed = parts.summed, .of_a = parts.of_b, .of_b = parts.of_a};
        BASE_TRY((parts.shared.n == 0 ? multiply_matrix : multiply_blocks)(w, &turned, b, a, &out));
    } else if (parts.of_b.n > 1) {
        const struct parts turned = {
            .shared = parts.shared, .summed = parts.summed, .of_a = parts.of_b, .of_b = parts.of_a};
        BASE_TRY(multiply_rows(w, &turned, b, a, &out));
    } else {
        BASE_TRY(multiply_rows(w, &parts, a, b, &out));
    }
    *a = out;
    return BASE_OK;
}

enum base_status cell__write_einsum(struct cell__writer *w)
{
    struct equation e;
    BASE_TRY(read_equation(w, &e));
    BASE_TRY(check_sizes(w, &e));
    struct term all = e.terms[0];
    for (uint32_t t = 1; t < e.n; t++) {
        BASE_TRY(contract(w, &e, t, t == 1, &all));
    }
    BASE_TRY(drop(w, &e, e.n, &all, NULL));
    BASE_TRY(order(w, &all, &e.out));
    w->out = all.value;
    return w->builder->graph.n_node > 0
               ? BASE_OK
               : cell__write(w, "Identity", (const char *[]){w->out, NULL}, &w->out);
}
