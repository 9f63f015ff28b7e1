/* Sequences in several requests: which part of which one the next request of a call is, as bytes
 * behind its message. The worker's. */
#ifndef LOADGEN_SESSION_H
#define LOADGEN_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LG_SESSION_BYTES 128u

/* Zeros: it has not begun. */
struct lg_session {
    uint64_t number;                 /* of the session, among all of the run */
    uint32_t at;                     /* its next request; 0: a new session */
    uint8_t bytes[LG_SESSION_BYTES]; /* parameters of a ModelInferRequest, which of equal fields */
    size_t n_bytes;                  /* takes all, wherever they stand in the message */
};

/* Fills bytes for the next of `length` requests of the session, or for the first of a new one,
 * which is then the *begun-th. run: tells the ids of one run from those of another. */
void lg_session_next(struct lg_session *session, uint32_t length, uint64_t run, uint64_t *begun);

/* The request has ended. After a failure a new session begins: where the old one stands is not
 * known. */
void lg_session_end(struct lg_session *session, uint32_t length, bool is_ok);

#endif
