/* The loop thread: one libuv loop with an inbox, through which all other threads reach it. */
#ifndef SERVER_LOOP_H
#define SERVER_LOOP_H

#include "base/inbox.h"
#include "base/status.h"

#include <stdint.h>
#include <uv.h>

struct srv_loop {
    uv_loop_t uv;
    uv_async_t async;
    struct base_inbox inbox;
    uint64_t now_ns; /* monotonic; read once per turn, and again after each wake of the inbox */
};

enum base_status srv_loop_init(struct srv_loop *loop);

/* Any thread. deliver() runs on the loop thread. Wake-ups coalesce. */
void srv_loop_post(struct srv_loop *loop, struct base_message *message);

/* Runs until srv_loop_stop() and every handle is closed. */
void srv_loop_run(struct srv_loop *loop);
void srv_loop_stop(struct srv_loop *loop); /* loop thread; closes the async handle */
void srv_loop_release(struct srv_loop *loop);

#endif
