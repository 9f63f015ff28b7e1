/* Conformance cases of others, as models that take their weights from the file and requests that
 * ask them: the ONNX backend's node tests, ONNX Runtime's vectors of LSTM, GRU and RNN, and
 * PyTorch exports around them (docs/model-files.md). A case that cannot be read ends the program.
 */
#ifndef TESTS_CONFORMANCE_CASES_H
#define TESTS_CONFORMANCE_CASES_H

#include "base/arena.h"

#include <stdbool.h>
#include <stdint.h>

#define CASES_MAX         256u
#define CASES_TENSORS_MAX 8u
#define CASES_RANK_MAX    4u
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
    char name[CASES_NAME_BYTES]; /* of the model, unique */
    const uint8_t *model;        /* the file */
    size_t model_bytes;
    uint32_t n_inputs, n_outputs;
    struct case_tensor inputs[CASES_TENSORS_MAX];
    struct case_tensor outputs[CASES_TENSORS_MAX];
    bool is_refused;           /* the request must be; outputs are not looked at */
    double absolute, relative; /* what an element may differ by */
};

struct conformance_cases {
    struct base_arena arena;
    uint32_t n;
    struct conformance_case at[CASES_MAX];
};

/* All that lie under folder. */
void cases_read(struct conformance_cases *cases, const char *folder);
void cases_release(struct conformance_cases *cases);

/* The case cannot be read: says so and ends the program. */
_Noreturn void cases_fail(const char *where, const char *why);

#endif
