/* A call that stays open and is answered from what the loop thread knows: one message at a time is
 * read, and one is sent. Private to dialog.c and to those that speak.
 *
 * All of it belongs to the loop thread, but for what a batch that reads a message needs: that is a
 * completion thread's from gRPC's event until its message to the loop. */
#ifndef SERVER_GRPC_DIALOG_H
#define SERVER_GRPC_DIALOG_H

#include "server/grpc/call.h"

struct srv_grpc__dialog;

/* Who speaks. */
struct srv_grpc__talk {
    /* A message has come. Says one thing, or nothing; an error is the status of the call. The
     * message lies in the arena of the call until this returns. */
    enum base_status (*hear)(struct srv_grpc__dialog *dialog, struct srv_grpc_bytes message,
                             struct base_error *error);

    /* NULL, or: the first message is the only one, and from then on this comes by the clock, and
     * when what was said has gone: says one thing, or nothing. */
    void (*look)(struct srv_grpc__dialog *dialog);
};

/* Each state follows from any before it. */
enum srv_grpc__dialog_state {
    SRV_GRPC__HEARING,
    SRV_GRPC__LOOKING,
    SRV_GRPC__CLOSING, /* ends when nothing is being sent */
    SRV_GRPC__CLOSED,  /* gRPC has been given the status */
};

struct srv_grpc__dialog {
    struct srv_grpc__call *call;
    const struct srv_grpc__talk *talk;
    struct srv_grpc__dialog *next, *previous; /* in the server's list */
    enum srv_grpc__dialog_state state;
    enum base_status end; /* from CLOSING on; call->status_text has its words */
    uint64_t opened_ns;

    bool reading;
    grpc_byte_buffer *payload; /* written by gRPC */
    struct srv_grpc__relay received;

    bool sending;
    bool greeted; /* initial metadata has gone */
    struct srv_grpc__relay sent;

    struct srv_grpc__relay closed; /* RECV_CLOSE_ON_SERVER */

    /* Of Health/Watch. */
    char service[CELL_NAME_BYTES];
    int32_t status; /* as said last; 0: nothing yet */
};

/* Sends this message, which is gRPC's from now on. Only from inside hear() and look(), once. */
void srv_grpc__dialog_say(struct srv_grpc__dialog *dialog, grpc_slice message);

#endif
