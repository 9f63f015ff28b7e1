/* The loop thread: one libuv loop with an inbox, through which all other threads reach it. */
#ifndef SERVER_LOOP_H
#define SERVER_LOOP_H

#include "base/inbox.h"
#include "base/status.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct srv_loop {
    uv_loop_t uv;
    uv_async_t async;
    uv_check_t turn;
    struct base_inbox inbox;
    uint64_t now_ns; /* monotonic; read once per turn, and again after each wake of the inbox */
    _Atomic pthread_t
        owner; /* who called srv_loop_init(), from srv_loop_run() on who called that */
    bool stopped;
};

/* Life cycle: init, run, release. RESOURCE_EXHAUSTED when the kernel gives no descriptors; nothing
 * is then left to release. */
enum base_status srv_loop_init(struct srv_loop *loop) __attribute__((warn_unused_result));

/* Runs until srv_loop_stop() and every handle is closed; the calling thread is the loop thread.
 * Messages still posted at the end are delivered before it returns. */
void srv_loop_run(struct srv_loop *loop);
void srv_loop_stop(struct srv_loop *loop); /* loop thread, once; closes the async handle */

/* After srv_loop_run(), or after srv_loop_init() alone; every handle of others is closed. */
void srv_loop_release(struct srv_loop *loop);

/* Any thread, until srv_loop_release(). deliver() runs on the loop thread. Wake-ups coalesce. */
void srv_loop_post(struct srv_loop *loop, struct base_message *message);

/* Loop thread. Reads the clock into now_ns and returns it: for a callback of an I/O handle, since
 * the loop may have slept between the last reading and the event. */
uint64_t srv_loop_update(struct srv_loop *loop);

/* Any thread: am I the loop thread? For assertions. */
bool srv_loop_is_owner(const struct srv_loop *loop);

/* Any libuv handle as its base type; a plain cast trips gcc's -Wstrict-aliasing=2. */
static inline uv_handle_t *srv_uv_handle(void *handle)
{
    return handle;
}

#endif
