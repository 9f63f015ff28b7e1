/* Random requests for any model, and the check of their answers against the plain interpreter
 * (tests/cells/replay.h). */
#ifndef TESTS_SERVER_ASK_H
#define TESTS_SERVER_ASK_H

#include "base/random.h"
#include "server/request.h"

enum ask_extras {
    ASK_PLAIN = 0,
    ASK_OPTIONAL = 1, /* sends the optional inputs too, lengths included */
};

struct ask {
    struct srv_request request; /* first: done() finds the ask by it */
    const struct cell_model *cells;
    uint32_t n_rows;
    uint32_t steps[CELL_SEQUENCES_MAX]; /* of each sequence */
    void *user;
};

/* A good request of n_rows rows and steps steps of every sequence; inputs are random, lengths
 * 1..steps. Everything but done is filled in; the caller changes what he likes. */
void ask_init(struct ask *ask, const struct cell_model *cells, uint32_t n_rows, uint32_t steps,
              struct base_random *random, enum ask_extras extras);
/* The same with steps of each sequence's own, [CELL_SEQUENCES_MAX]. */
void ask_init_sequences(struct ask *ask, const struct cell_model *cells, uint32_t n_rows,
                        const uint32_t *steps, struct base_random *random, enum ask_extras extras);
void ask_release(struct ask *ask);

/* A text as an element of a BYTES tensor, 4 + length bytes; returns how many. */
size_t ask_put_text(uint8_t *to, const char *text, size_t length);

/* By name; NULL when it is not there. */
struct srv_tensor *ask_input(struct ask *ask, const char *name);
const struct srv_tensor *ask_output(const struct ask *ask, const char *name);

/* Largest difference between the outputs of an answered ask and the interpreter's; what stands
 * behind a row's length must be zeros. Fails the case when the ask failed or a shape is wrong. */
double ask_error(const struct ask *ask);

#endif
