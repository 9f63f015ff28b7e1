/* Orders: loads and unloads of models that clients ask for through a front end.
 *
 * core carries each out to its end, which may come minutes later, when the client has left or the
 * front end has stopped. So an order has memory of its own, and whoever waits for its end may leave
 * at any time. Loop thread only. */
#ifndef SERVER_ORDERS_H
#define SERVER_ORDERS_H

#include "base/status.h"
#include "server/core.h"

#include <stdint.h>

/* At a time, of one front end. One more is refused: clients that ask and leave must not fill
 * memory. */
#define SRV_ORDERS_MAX 64u

struct srv_order;

/* Of one front end; set core, leave the rest zero. */
struct srv_orders {
    struct srv_core *core;
    struct srv_order *first;
    uint32_t count; /* that have not ended, whether somebody waits or not */
};

/* Embedded in what waits for an order. */
struct srv_order_wait {
    struct srv_order *order; /* NULL: for none */
    /* Once, perhaps before srv_orders_begin() returns, unless srv_order_leave() came first. */
    void (*done)(struct srv_order_wait *wait, const struct base_error *error);
};

/* Gives core the order; wait->done is set. RESOURCE_EXHAUSTED: too many, or no memory; else done
 * says what core does. */
void srv_orders_begin(struct srv_orders *orders, enum srv_control_kind kind, const char *name,
                      struct srv_order_wait *wait);

/* Nobody waits any more; the order goes on. */
void srv_order_leave(struct srv_order_wait *wait);

/* The front end ends, and nobody waits. Orders that have not ended go on without it. */
void srv_orders_release(struct srv_orders *orders);

/* Whether such an order may have a parameter of that name, whatever its value: INVALID_ARGUMENT and
 * why not. */
enum base_status srv_order_check_parameter(enum srv_control_kind kind, const char *name,
                                           size_t length, struct base_error *error);

#endif
