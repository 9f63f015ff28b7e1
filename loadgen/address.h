/* Where the server is: "HOST:PORT" with a name, an IPv4 address, or an IPv6 address in brackets. */
#ifndef LOADGEN_ADDRESS_H
#define LOADGEN_ADDRESS_H

#include "base/status.h"

#include <netinet/in.h>
#include <stdint.h>
#include <sys/socket.h>

#define LG_ADDRESSES_MAX 8u

struct lg_address {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } name;
    socklen_t bytes;
};

struct lg_addresses {
    struct lg_address list[LG_ADDRESSES_MAX]; /* [count], to be tried in this order */
    uint32_t count;
};

/* Looks a name up, and blocks for that. INVALID_ARGUMENT when target has another form, UNAVAILABLE
 * when the name is not known; *out is empty then. */
enum base_status lg_addresses_find(const char *target, struct lg_addresses *out,
                                   struct base_error *error) __attribute__((warn_unused_result));

#endif
