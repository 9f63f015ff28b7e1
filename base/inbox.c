/* The inbox is a lock-free stack: a push is one compare-and-swap, the owner takes the whole stack
 * with one exchange and turns it around. Because nodes are only ever removed all at once there is
 * no ABA problem. Cost: a few nanoseconds a message uncontended. */
#include "base/inbox.h"

#include "base/assert.h"

#include <stdatomic.h>
#include <stddef.h>

void base_inbox_init(struct base_inbox *inbox)
{
    atomic_init(&inbox->head, NULL);
}

bool base_inbox_post(struct base_inbox *inbox, struct base_message *message)
{
    base_assert(message->deliver != NULL);
    struct base_message *head = atomic_load_explicit(&inbox->head, memory_order_relaxed);
    do {
        message->next = head;
        // Release: the owner, who acquires the head, sees all that was written before the post.
    } while (!atomic_compare_exchange_weak_explicit(&inbox->head, &head, message,
                                                    memory_order_release, memory_order_relaxed));
    return head == NULL;
}

static struct base_message *reverse(struct base_message *newest)
{
    struct base_message *oldest = NULL;
    while (newest != NULL) {
        struct base_message *next = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    return oldest;
}

uint32_t base_inbox_deliver(struct base_inbox *inbox)
{
    struct base_message *message =
        reverse(atomic_exchange_explicit(&inbox->head, NULL, memory_order_acquire));
    uint32_t delivered = 0;
    while (message != NULL) {
        // deliver() may post the message again or free it, so its link is read before.
        struct base_message *next = message->next;
        message->next = NULL;
        message->deliver(message);
        message = next;
        delivered++;
    }
    return delivered;
}

bool base_inbox_is_empty(const struct base_inbox *inbox)
{
    return atomic_load_explicit(&inbox->head, memory_order_acquire) == NULL;
}
