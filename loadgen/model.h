/* What the server says about the model, and the shapes that requests to it take. */
#ifndef LOADGEN_MODEL_H
#define LOADGEN_MODEL_H

#include "base/buf.h"
#include "base/status.h"
#include "loadgen/client.h"

#include <stdbool.h>
#include <stdint.h>

#define LG_TENSORS_MAX 32u
#define LG_RANK_MAX    8u
#define LG_NAME_BYTES  256u

/* Ends of a range lie within this. */
#define LG_RANGE_MAX (INT64_C(1) << 62)

/* How the elements of a datatype are drawn. */
enum lg_fill {
    LG_FILL_INTEGER,
    LG_FILL_FLOAT,
    LG_FILL_HALF,
    LG_FILL_BRAIN,
    LG_FILL_BOOL,
    LG_FILL_TEXT, /* BYTES: not drawn, but read from a file */
};

struct lg_datatype {
    const char *name;       /* as on the wire, such as "FP32" */
    uint32_t element_bytes; /* 0: of TEXT */
    enum lg_fill fill;
};

/* A dimension of a tensor: a number > 0, or one of these. */
#define LG_DIM_BATCH  (-1)
#define LG_DIM_LENGTH (-2)

struct lg_tensor {
    char name[LG_NAME_BYTES];
    const struct lg_datatype *datatype;
    uint32_t rank;
    int64_t dims[LG_RANK_MAX];
    /* What the model's configuration says that integers may be: least..most, of numbers of steps
     * counted from a request's length on. */
    bool has_range, is_of_steps;
    int64_t least, most;
};

struct lg_model {
    char name[LG_NAME_BYTES];
    char version[LG_NAME_BYTES]; /* "" = the server's choice */
    struct lg_tensor inputs[LG_TENSORS_MAX];
    uint32_t input_count;
};

/* Which model, and what the user says of its inputs. */
struct lg_model_wish {
    const char *name;
    const char *version;
    const char *const *shapes; /* [shape_count], each "INPUT:D,D,..." with B, L or a number for D */
    uint32_t shape_count;
};

/* Asks ModelMetadata and decides which -1 of an input's shape means what: where any input has two
 * or more, or two inputs have one each at different places (a step and its state), the first of
 * each input is the batch and the others the length; else a single one is the length. Those of
 * BYTES are the batch. A shape of the wish replaces all that for its input. Then asks
 * ModelConfig for the ranges of integers, which other servers do not tell. */
enum base_status lg_model_fetch(struct lg_client *client, const struct lg_model_wish *wish,
                                struct lg_model *out, struct base_error *error)
    __attribute__((warn_unused_result));

/* Takes what cellbatchd's configuration of a model says of an input, such as "0..59", "1..steps" or
 * "-3..steps-4"; false: that is no range. */
bool lg_tensor_take_range(struct lg_tensor *tensor, const char *text);

/* Asks ServerReady and ModelReady every 50 ms until both say yes; UNAVAILABLE with the last reason
 * after timeout_ns. *stop (may become true at any time) ends the wait with CANCELLED. */
enum base_status lg_model_wait_ready(struct lg_client *client, const struct lg_model_wish *wish,
                                     uint64_t timeout_ns, const _Atomic bool *stop,
                                     struct base_error *error) __attribute__((warn_unused_result));

/* The dimensions of a tensor in a request: dims[rank]. Returns its bytes, 0 when that is no valid
 * size (overflow). The length of a text is its bytes on the wire, with those before it. */
uint64_t lg_tensor_dims(const struct lg_tensor *tensor, uint32_t batch, uint32_t length,
                        int64_t *dims);

/* A model like the decoded metadata, for lg_model_fetch() and tests. */
struct lg_metadata_input {
    const char *name;
    const char *datatype;
    const int64_t *shape;
    size_t rank;
};
enum base_status lg_model_init(const struct lg_model_wish *wish,
                               const struct lg_metadata_input *inputs, size_t input_count,
                               struct lg_model *out, struct base_error *error)
    __attribute__((warn_unused_result));

#endif
