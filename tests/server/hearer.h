/* Transducers of a few units, written as ONNX; the same models' parts as models of their own, to be
 * asked frame by frame and label by label; and rows of an answer against what such a search has
 * found. One test at a time. */
#ifndef TESTS_SERVER_HEARER_H
#define TESTS_SERVER_HEARER_H

#include "tests/server/frames.h"
#include "tests/server/parts.h"

#define HEARER_FRAMES  8 /* features of what the encoder makes */
#define HEARER_HIDDEN  6 /* of the predictor's state */
#define HEARER_JOINED  7
#define HEARER_LABELS  5
#define HEARER_CONTEXT 2
#define HEARER_STEPS   14
#define HEARER_LONGEST (10 * HEARER_STEPS)
#define HEARER_PARTS   3

struct hearer_form {
    bool is_stateless; /* the predictor reads the last labels alone */
    bool knows_none;   /* is_stateless: an id below 0 stands for no label, as in icefall's */
    bool is_direct;    /* the joiner adds what both make, and no part of it is a frame's alone */
    bool is_bidirectional;
    bool has_lengths;
    bool has_state; /* what the encoder's layer begins with, and ends with, are tensors */
    bool has_ends;  /* is_bidirectional: what both directions end with is answered, [2, n, batch] */
    uint32_t symbols_max;
    int64_t start; /* with is_direct; else the blank */
    int64_t blank;
    float favour; /* how much the blank's logit has more */
};

struct hearer_model {
    const char *name, *config;
    struct hearer_form form;
};

/* What models are written with. */
extern struct onnx_builder hearer_builder;
extern struct base_random hearer_numbers;
extern void (*const hearer_writers[HEARER_PARTS])(const struct hearer_form *form,
                                                  const char *version, const char *name);
extern const char *const hearer_part_names[HEARER_PARTS];
void hearer_constant(const char *name, int64_t rows, int64_t cols, float scale);

/* The model into texts_folder, and each of its parts as a model. */
void hearer_write(const struct hearer_model *model);

/* What the predictor reads before the first label. */
void hearer_start(const struct hearer_form *form, int64_t labels[HEARER_CONTEXT]);

/* What the predictor makes of the last HEARER_CONTEXT labels; its state goes on. out:
 * [HEARER_FRAMES
 * + HEARER_JOINED]. */
void hearer_predict(const struct hearer_model *model, const int64_t *labels, float *h, float *out);

/* logits: [HEARER_LABELS]. */
void hearer_look(const struct hearer_model *model, const float *frame, const float *predicted,
                 float *logits);

/* What a search has found, and of how many looks. */
struct hearer_path {
    uint32_t n, steps;
    int64_t token[HEARER_LONGEST], frame[HEARER_LONGEST];
    float score[HEARER_LONGEST];
};

/* frames: [n][HEARER_FRAMES]; path: zeros. */
typedef void hearer_search(const struct hearer_model *model, const float *frames, uint32_t n,
                           struct hearer_path *path);

/* Of each row, in what the encoder makes, as a model of its own. */
void hearer_search_rows(const struct hearer_model *model, const struct frames *frames,
                        hearer_search *search, struct hearer_path *paths);

uint32_t hearer_used_of(const struct hearer_form *form, const struct frames *frames, uint32_t row);

const uint8_t *hearer_label_at(const struct visit *visit, const char *name, uint32_t row,
                               uint32_t i, size_t bytes);

/* One row of an answer against its path. */
void hearer_expect_row(const struct visit *visit, uint32_t row, const struct hearer_path *path,
                       int64_t blank);

/* Asks for many at once, so that rows join and leave each other's batches, and then for each alone:
 * the same bits. */
void hearer_check_company(const char *model);

#endif
