/* Unbounded intrusive queue of messages from any thread to one: how everything crosses between
 * threads here. A message is embedded in what it concerns, so posting never allocates and never
 * fails. Messages of one poster are delivered in their order.
 *
 * A post onto an empty inbox returns true: only then must the owner be woken (wake-ups coalesce).
 * Everything written before the post is visible to deliver() (release / acquire). */
#ifndef BASE_INBOX_H
#define BASE_INBOX_H

#include <stdbool.h>
#include <stdint.h>

struct base_message {
    struct base_message *next; /* the inbox's while posted */
    /* Called once on the owner's thread; the message is the callee's again and may be posted anew.
     */
    void (*deliver)(struct base_message *message);
};

struct base_inbox {
    _Atomic(struct base_message *) head; /* newest first; reversed by the owner */
};

void base_inbox_init(struct base_inbox *inbox);

/* Any thread. The message must not be posted already. true: it was empty, wake the owner. */
bool base_inbox_post(struct base_inbox *inbox, struct base_message *message);

/* Owner only: takes all messages posted so far and delivers each, oldest first. Returns how many;
 * messages posted meanwhile wait for the next call. */
uint32_t base_inbox_deliver(struct base_inbox *inbox);

/* Any thread; a moment's view. */
bool base_inbox_is_empty(const struct base_inbox *inbox);

#endif
