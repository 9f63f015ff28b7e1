/* A call of ModelStreamInfer, private to stream.c and stream_answer.c.
 *
 * All of it belongs to the loop thread, but for what a batch that reads a message needs: that is a
 * completion thread's from gRPC's event until its message to the loop. */
#ifndef SERVER_GRPC_STREAM_H
#define SERVER_GRPC_STREAM_H

#include "server/grpc/call.h"

/* Each state follows from any before it. */
enum srv_grpc__stream_state {
    SRV_GRPC__READING,
    SRV_GRPC__ENDING,  /* no message is read; ends when all that have been are answered */
    SRV_GRPC__STOPPED, /* nothing is answered either; ends when nothing is being sent */
    SRV_GRPC__ENDED,   /* gRPC has been given the status */
};

/* A request of a stream, until its answer is sent. */
struct srv_grpc__exchange {
    struct srv_grpc__stream *stream;
    struct srv_grpc__exchange *next, *previous; /* in the line; `next` among the spare ones too */
    struct srv_grpc__infer infer;               /* infer.request.error: in the answer */
    bool running;                               /* between srv_request_start() and done */
    bool cancelled;
};

struct srv_grpc__stream {
    struct srv_grpc__call *call;
    struct srv_grpc__stream *next, *previous; /* in the server's list */
    enum srv_grpc__stream_state state;
    enum base_status end; /* from ENDING on; call->status_text has its words */
    bool ends_at_error;   /* the first error is the call's status */
    uint64_t opened_ns;

    /* Read and not answered, oldest first. */
    struct srv_grpc__exchange *first, *last;
    uint32_t length;

    struct srv_grpc__exchange own;    /* so that there always is one */
    struct srv_grpc__exchange *spare; /* for messages to come */
    uint32_t n_spare;

    struct srv_grpc__exchange *reading; /* for the message that gRPC reads; NULL: it reads none */
    grpc_byte_buffer *payload;          /* written by gRPC */
    struct srv_grpc__relay received;

    bool sending;    /* the answer of the first, or */
    bool sends_part; /* a part of it; it may be gone meanwhile */
    bool greeted;    /* initial metadata has gone */
    struct srv_grpc__relay sent;

    struct srv_grpc__relay closed; /* RECV_CLOSE_ON_SERVER */
};

/* ---- stream.c ---- */

/* Takes an answered exchange from the line. The stream may be gone after this. */
void srv_grpc__exchange_drop(struct srv_grpc__exchange *exchange);

/* Reads the next message, when one may be. */
void srv_grpc__stream_read(struct srv_grpc__stream *stream);

/* state := STOPPED; what runs is cancelled, and why. status and text are the call's. */
void srv_grpc__stream_stop(struct srv_grpc__stream *stream, enum base_status status,
                           const char *text, enum base_status why);

/* The client is gone: the same, unless it has stopped already. */
void srv_grpc__stream_gone(struct srv_grpc__stream *stream);

/* ---- stream_answer.c ---- */

void srv_grpc__stream_answer_init(struct srv_grpc__stream *stream);

/* Sends what can be sent now: the first answer of the line, or the end. */
void srv_grpc__stream_advance(struct srv_grpc__stream *stream);

#endif
