/* Models and what they must answer: this tree's exports (tests/data/onnx), and the suites of
 * others: the ONNX backend's node tests, ONNX Runtime's vectors of LSTM, GRU and RNN, PyTorch
 * exports around them. Models take their weights from the file. A case that cannot be read ends the
 * program. */
#ifndef TESTS_CONFORMANCE_CASES_H
#define TESTS_CONFORMANCE_CASES_H

#include "base/arena.h"

#include <stdbool.h>
#include <stdint.h>

#define CASES_MAX         4096u
#define CASES_TENSORS_MAX 8u
#define CASES_RANK_MAX    8u
#define CASES_NAME_BYTES  64u

/* Dense, row-major. */
struct case_tensor {
    const char *name;
    const char *datatype; /* "FP32", "INT32", "INT64" */
    uint32_t rank;
    int64_t dims[CASES_RANK_MAX];
    size_t count, bytes;
    const void *data;
};

struct conformance_case {
    char name[CASES_NAME_BYTES];
    char model_name[CASES_NAME_BYTES];
    const uint8_t *model; /* the file; NULL: that of the case before */
    size_t model_bytes;
    const uint8_t *data; /* model.onnx.data, where its weights are; NULL: they are in the file */
    size_t data_bytes;
    uint32_t n_inputs, n_outputs;
    struct case_tensor inputs[CASES_TENSORS_MAX];
    struct case_tensor outputs[CASES_TENSORS_MAX];
    bool is_refused;           /* the request must be; outputs are not looked at */
    bool has_lengths;          /* what lies behind a row's length may be zeros instead */
    double absolute, relative; /* what an element may differ by */
};

struct conformance_cases {
    struct base_arena arena;
    uint32_t n;
    struct conformance_case at[CASES_MAX];
};

/* This tree's, and those of others under `folder` unless it is empty. */
void cases_read(struct conformance_cases *cases, const char *folder);
void cases_release(struct conformance_cases *cases);

/* The case cannot be read: says so and ends the program. */
_Noreturn void cases_fail(const char *where, const char *why);

#endif
