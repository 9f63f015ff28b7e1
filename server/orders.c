/* Orders under way, in a list of their front end, so that one that stops can take itself off them.
 *
 * Each is one allocation; it is given back when core says that it has ended. */
#include "server/orders.h"

#include "base/assert.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

/* Of a parameter's name in a message. */
#define PARAMETER_BYTES_MAX 128u

struct srv_order {
    struct srv_control control;
    struct srv_orders *orders;   /* NULL: the front end has ended */
    struct srv_order_wait *wait; /* NULL: nobody waits */
    struct srv_order *next, *previous;
};

static struct srv_order *order_of(struct srv_control *control)
{
    _Static_assert(offsetof(struct srv_order, control) == 0, "an order begins with its control");
    return (struct srv_order *)(void *)control;
}

static void unlink_order(struct srv_order *order)
{
    struct srv_orders *orders = order->orders;
    *(order->previous == NULL ? &orders->first : &order->previous->next) = order->next;
    if (order->next != NULL) {
        order->next->previous = order->previous;
    }
    orders->count--;
}

static void done_cb(struct srv_control *control)
{
    struct srv_order *order = order_of(control);
    struct srv_order_wait *wait = order->wait;
    if (order->orders != NULL) {
        unlink_order(order);
    }
    if (wait != NULL) {
        wait->order = NULL;
        wait->done(wait, &control->error);
    }
    base_free(order);
}

static void refuse(struct srv_order_wait *wait, const char *why)
{
    struct base_error error;
    (void)base_fail(&error, BASE_RESOURCE_EXHAUSTED, "%s", why);
    wait->done(wait, &error);
}

void srv_orders_begin(struct srv_orders *orders, enum srv_control_kind kind, const char *name,
                      struct srv_order_wait *wait)
{
    base_assert(wait->done != NULL && strlen(name) < CELL_NAME_BYTES);
    wait->order = NULL;
    if (orders->count >= SRV_ORDERS_MAX) {
        refuse(wait, "the server is busy: too many models are being loaded or unloaded");
        return;
    }
    struct srv_order *order = base_alloc(sizeof *order);
    if (order == NULL) {
        refuse(wait, "no memory left to load or unload a model");
        return;
    }
    order->control.kind = kind;
    order->control.done = done_cb;
    (void)snprintf(order->control.name, sizeof order->control.name, "%s", name);
    order->orders = orders;
    order->wait = wait;
    order->next = orders->first;
    if (order->next != NULL) {
        order->next->previous = order;
    }
    orders->first = order;
    orders->count++;
    wait->order = order;
    srv_core_control(orders->core, &order->control); // may free it
}

void srv_order_leave(struct srv_order_wait *wait)
{
    base_assert(wait->order != NULL && wait->order->wait == wait);
    wait->order->wait = NULL;
    wait->order = NULL;
}

void srv_orders_release(struct srv_orders *orders)
{
    for (struct srv_order *order = orders->first; order != NULL; order = order->next) {
        base_assert(order->wait == NULL);
        order->orders = NULL;
    }
    orders->first = NULL;
    orders->count = 0;
}

/* As Triton does: a load that would not be what was asked for is refused, an unload does not look.
 * `unload_dependents` has nothing to say here: no model is made of others. */
enum base_status srv_order_check_parameter(enum srv_control_kind kind, const char *name,
                                           size_t length, struct base_error *error)
{
    static const char config[] = "config";
    static const char file[] = "file:";
    if (kind == SRV_CONTROL_UNLOAD) {
        return BASE_OK;
    }
    bool is_known = (length == sizeof config - 1 && memcmp(name, config, sizeof config - 1) == 0) ||
                    (length >= sizeof file - 1 && memcmp(name, file, sizeof file - 1) == 0);
    int shown = (int)(length < PARAMETER_BYTES_MAX ? length : PARAMETER_BYTES_MAX);
    return is_known ? base_fail(error, BASE_INVALID_ARGUMENT,
                                "load parameter '%.*s' is not implemented: a model is loaded as it"
                                " lies in the repository",
                                shown, name)
                    : base_fail(error, BASE_INVALID_ARGUMENT, "unrecognized load parameter '%.*s'",
                                shown, name);
}
