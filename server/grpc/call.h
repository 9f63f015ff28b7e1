/* Calls and the server they belong to, private to this folder.
 *
 * A call object goes round: free -> posted (gRPC may fill it) -> open -> free. All steps happen on
 * the loop thread, except that the completion thread begins posted -> open: it owns the object from
 * gRPC's event until its message to the loop. */
#ifndef SERVER_GRPC_CALL_H
#define SERVER_GRPC_CALL_H

#include "base/event.h"
#include "server/grpc/codec.h"
#include "server/grpc/methods.h"
#include "server/grpc/server.h"
#include "server/orders.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <pthread.h>
#include <stddef.h>
#include <uv.h>

/* The object that holds a member. */
#define SRV_GRPC__CONTAINER(pointer, type, member)                                                 \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

/* What gRPC hands back: whoever takes it from its queue calls happened(). */
struct srv_grpc__event {
    void (*happened)(struct srv_grpc__event *event, bool ok);
};

/* What gRPC hands back on a completion thread, on its way to the loop thread. */
struct srv_grpc__relay {
    struct srv_grpc__event event;
    struct base_message message; /* its deliver() is what happens on the loop thread */
    struct srv_grpc__call *call;
    bool ok; /* as gRPC said */
};

/* A ModelInferRequest: its bytes, and what they ask for. */
struct srv_grpc__infer {
    struct srv_grpc_bytes body; /* the message in one piece: in the arena, or */
    grpc_slice body_slice;      /* in this; else empty */
    enum base_status decoded;
    struct base_error error; /* of decoding, or why it was not admitted */
    struct srv_request request;
};

/* Whether gRPC has been asked to tell when the client is gone. */
enum srv_grpc__watch {
    SRV_GRPC__WATCH_OFF,  /* not in the line */
    SRV_GRPC__WATCH_SOON, /* in the line */
    SRV_GRPC__WATCH_ON,
};

struct srv_grpc__call {
    struct srv_grpc *server;
    const struct srv_grpc__method *method; /* what it is posted for; NULL: unknown methods */
    struct srv_grpc__call *next;           /* in the free list */
    struct base_message message;           /* to the loop: arrived */

    /* Written by gRPC. */
    grpc_call *call;
    gpr_timespec deadline;
    grpc_call_details details; /* unknown methods only */
    grpc_metadata_array metadata;
    grpc_byte_buffer *payload;
    int cancelled;

    struct srv_grpc__event arrived;      /* on a completion thread */
    struct srv_grpc__event closed, sent; /* on the loop thread */
    uint32_t holds; /* what keeps it open: the answer until it is sent, the watch until it ends */

    enum srv_grpc__watch watch;
    struct srv_grpc__call *watch_next, *watch_previous; /* in the line */

    bool running; /* core has the request, or the order: until done, or until it is left */
    grpc_byte_buffer *reply;      /* NULL until the first answer; then kept */
    grpc_slice status_text;       /* until sent */
    struct srv_grpc__infer infer; /* its arena serves the other methods too; streams leave it */
    struct srv_order_wait order;  /* of a method that is one */

    struct srv_grpc__stream *stream; /* ModelStreamInfer that was not refused; else NULL */
    struct srv_grpc__dialog *dialog; /* likewise of a method that is a dialog */
    struct srv_grpc__relay ended;    /* of both: the status has been sent */
};

/* Accepts of one method. */
struct srv_grpc__accepts {
    void *registered; /* gRPC's handle of the method; NULL: unknown methods */
    uint32_t missing; /* that are to be posted and found no free object */
};

struct srv_grpc {
    struct srv_loop *loop;
    struct srv_core *core;
    struct srv_grpc_options options;
    uint16_t port;
    grpc_server *server;
    grpc_completion_queue *arrivals; /* polled by the completion threads; batches of streams */
    grpc_completion_queue *ended;    /* other batches; never polled, the loop thread looks in */
    pthread_t *threads;
    uint32_t n_threads;

    /* Loop thread. */
    struct srv_grpc__call *calls; /* all objects */
    struct srv_grpc__call *free;  /* last in, first out: the warmest first */
    struct srv_grpc__accepts methods[SRV_GRPC__METHODS + 1]; /* the last: unknown methods */
    uint32_t missing;                                        /* sum over methods */
    struct srv_grpc_counts counts;
    struct srv_orders orders;

    /* gRPC asks for it at each handshake, on any of its threads; NULL: it has the last one. */
    pthread_mutex_t certificate_lock;
    grpc_ssl_server_certificate_config *certificate;

    uint32_t batches;              /* started and not taken from the queue */
    struct srv_grpc__turns *turns; /* when to look */

    struct srv_grpc__stream *streams; /* that are open */
    struct srv_grpc__dialog *dialogs;

    /* Calls that run and are not watched yet, oldest first. */
    struct srv_grpc__call *watch_first, *watch_last;

    bool draining;
    bool closing;   /* gRPC shuts down: it is given no more accepts */
    bool shut_down; /* and has reported the end of that */
    bool drained;
    struct srv_grpc__event shutdown;
    struct base_event abandoned; /* a failed start waits here for gRPC's report */
    struct base_message drain_message;
    void (*drain_done)(void *context);
    void *drain_context;
    uint64_t drain_arrived;            /* calls, at the last look for more */
    uint32_t drain_looks, drain_quiet; /* all looks, and the last ones that saw none */
};

/* ---- pool.c; loop thread ---- */

/* Makes the objects; false when out of memory. */
bool srv_grpc__pool_init(struct srv_grpc *server);

/* After drain, or when nothing was posted. */
void srv_grpc__pool_release(struct srv_grpc *server);

/* Posts the first accepts of every method. */
void srv_grpc__pool_start(struct srv_grpc *server);

/* Posts another accept of the method that this call used up. */
void srv_grpc__pool_replace(struct srv_grpc__call *call);

/* Takes back an object that gRPC no longer knows, and looks whether it was the last. */
void srv_grpc__pool_put(struct srv_grpc__call *call);

/* ---- call.c ---- */

/* The object's events and what it keeps for life. */
void srv_grpc__call_init(struct srv_grpc__call *call, struct srv_grpc *server);
void srv_grpc__call_release(struct srv_grpc__call *call);

/* Loop thread. One thing less keeps the call open; with the last it goes back to the pool. */
void srv_grpc__call_drop(struct srv_grpc__call *call);

/* Loop thread. The one answer of a call that is no stream or dialog: a message, or an error. */
void srv_grpc__call_answer(struct srv_grpc__call *call, const ProtobufCMessage *answer);
void srv_grpc__call_fail(struct srv_grpc__call *call, const struct base_error *error);

/* ---- infer.c ---- */

void srv_grpc__infer_init(struct srv_grpc__infer *infer, const struct srv_grpc *server);
void srv_grpc__infer_release(struct srv_grpc__infer *infer);

/* Gives back the message and what was made of it. */
void srv_grpc__infer_reset(struct srv_grpc__infer *infer);

/* A completion thread. Takes the message and sets *payload to NULL; nothing when it is NULL. */
void srv_grpc__infer_take(struct srv_grpc__infer *infer, grpc_byte_buffer **payload);

/* A completion thread. Makes the request of the message: deadline as gRPC gave it, done for later.
 */
void srv_grpc__infer_decode(struct srv_grpc__infer *infer, gpr_timespec deadline,
                            void (*done)(struct srv_request *request));

/* Loop thread. Counts the request, and says whether the loop may start it: else infer->error tells
 * why not, and it has been counted as refused. leave() in either case, when it is answered. */
enum base_status srv_grpc__infer_enter(struct srv_grpc *server, struct srv_grpc__infer *infer);
void srv_grpc__infer_leave(struct srv_grpc *server, const struct srv_grpc__infer *infer);

/* A client that is gone left by its deadline when one is (nearly) over: DEADLINE_EXCEEDED, else
 * CANCELLED. begun_ns: when the call arrived. */
enum base_status srv_grpc__why_closed(uint64_t deadline_ns, uint64_t begun_ns, uint64_t now_ns);

/* gRPC's deadline on our clock; BASE_NEVER for none. */
uint64_t srv_grpc__deadline(gpr_timespec deadline);

/* ---- order.c; loop thread ---- */

/* A call that orders a load or an unload has arrived. */
void srv_grpc__order_start(struct srv_grpc__call *call);

/* Its client is gone: the call is answered, the order goes on. */
void srv_grpc__order_leave(struct srv_grpc__call *call, enum base_status why);

/* ---- relay.c; loop thread, for calls that stay open: `arrivals` has their batches ---- */

/* deliver() comes on the loop thread when the relay's batch has ended, and finds the relay in its
 * message. A relay carries one batch at a time. */
void srv_grpc__relay_init(struct srv_grpc__relay *relay, struct srv_grpc__call *call,
                          void (*deliver)(struct base_message *message));

/* A completion thread. What relay->event does unless it is given something else to do first. */
void srv_grpc__relay_happened(struct srv_grpc__event *event, bool ok);

/* Each of these three holds the call once more; deliver() drops it. To read the next message, or
 * NULL at the end; to send one, along with initial metadata when it has not gone yet (*greeted), by
 * call->reply, to be emptied when it has gone; and RECV_CLOSE_ON_SERVER. */
void srv_grpc__relay_read(struct srv_grpc__call *call, grpc_byte_buffer **payload,
                          struct srv_grpc__relay *relay);
void srv_grpc__relay_send(struct srv_grpc__call *call, grpc_slice message, bool *greeted,
                          struct srv_grpc__relay *relay);
void srv_grpc__relay_watch(struct srv_grpc__call *call, struct srv_grpc__relay *relay);

/* Counts the call as an open stream. false: there are too many, and it has been refused. */
bool srv_grpc__relay_admit(struct srv_grpc__call *call);

/* Ends a call that nothing has been asked for yet. */
void srv_grpc__relay_refuse(struct srv_grpc__call *call, enum base_status status, const char *text);

/* Ends a call that is watched, and to which nothing is being sent, with its text, and drops it when
 * the status has gone. */
void srv_grpc__relay_set_text(struct srv_grpc__call *call, const char *text);
void srv_grpc__relay_end(struct srv_grpc__call *call, enum base_status status, bool *greeted);

/* ---- stream.c; loop thread ---- */

/* A ModelStreamInfer call has arrived: begins it, or refuses it. */
void srv_grpc__stream_open(struct srv_grpc__call *call);

/* Nothing keeps the call open any more. */
void srv_grpc__stream_close(struct srv_grpc__call *call);

/* The server drains: no stream reads on, and each ends when what it has read is answered. */
void srv_grpc__streams_drain(struct srv_grpc *server);

/* ---- dialog.c; loop thread ---- */

/* A call of such a method has arrived: begins it, or refuses it. */
void srv_grpc__dialog_open(struct srv_grpc__call *call);

/* Nothing keeps the call open any more. */
void srv_grpc__dialog_close(struct srv_grpc__call *call);

/* The server drains: each dialog ends, when what is being sent has gone or cannot go. */
void srv_grpc__dialogs_drain(struct srv_grpc *server);

/* ---- batches.c; loop thread ---- */

/* The handles of the loop; false when out of memory. Close them while the loop turns, or before it
 * first does; they may be missing. */
bool srv_grpc__batches_init(struct srv_grpc *server);
void srv_grpc__batches_close(struct srv_grpc *server);

/* A call is open, whose batches are to be looked for. */
void srv_grpc__batches_expect(struct srv_grpc *server);

/* A timer of the loop for dialogs; its data is the server. */
uv_timer_t *srv_grpc__batches_timer(struct srv_grpc *server);
/* Likewise for the drain. */
uv_timer_t *srv_grpc__batches_drain_timer(struct srv_grpc *server);

/* Starts a batch; ended->happened() comes on the loop thread, never from inside this call. */
void srv_grpc__batch_start(struct srv_grpc__call *call, const grpc_op *ops, size_t count,
                           struct srv_grpc__event *ended);

/* ---- watch.c; loop thread ---- */

/* The call runs from now on: it will be watched if it still does in a while. */
void srv_grpc__watch_begin(struct srv_grpc__call *call);

/* The call is about to be answered. true when it is not watched: RECV_CLOSE goes with the answer.
 */
bool srv_grpc__watch_end(struct srv_grpc__call *call);

/* Watches those that have been running for a while; comes by the clock. */
void srv_grpc__watch_old(struct srv_grpc *server);

/* Watches all that run. */
void srv_grpc__watch_all(struct srv_grpc *server);

/* ---- server.c; loop thread ---- */

/* Reports the end of the drain when nothing is left. */
void srv_grpc__check_drained(struct srv_grpc *server);

#endif
