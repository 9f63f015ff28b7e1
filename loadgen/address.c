#include "loadgen/address.h"

#include <netdb.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* A DNS name has at most 253 bytes, a port 5 digits. */
#define HOST_BYTES 256u
#define PORT_BYTES 8u

static bool copy(const char *text, size_t length, char *out, size_t out_bytes)
{
    if (length == 0 || length >= out_bytes) {
        return false;
    }
    memcpy(out, text, length);
    out[length] = '\0';
    return true;
}

static bool split(const char *target, char host[HOST_BYTES], char port[PORT_BYTES])
{
    const char *colon = strrchr(target, ':');
    if (colon == NULL || !copy(colon + 1, strlen(colon + 1), port, PORT_BYTES) ||
        strspn(port, "0123456789") != strlen(port)) {
        return false;
    }
    size_t length = (size_t)(colon - target);
    if (target[0] == '[') {
        return length > 2 && target[length - 1] == ']' &&
               copy(target + 1, length - 2, host, HOST_BYTES);
    }
    return memchr(target, ':', length) == NULL && copy(target, length, host, HOST_BYTES);
}

enum base_status lg_addresses_find(const char *target, struct lg_addresses *out,
                                   struct base_error *error)
{
    char host[HOST_BYTES];
    char port[PORT_BYTES];
    out->count = 0;
    if (!split(target, host, port)) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "%.128s: want HOST:PORT or [IPV6]:PORT",
                         target);
    }
    const struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    int failed = getaddrinfo(host, port, &hints, &found);
    if (failed != 0) {
        return base_fail(error, BASE_UNAVAILABLE, "%.128s: UNAVAILABLE: %s", target,
                         gai_strerror(failed));
    }
    for (const struct addrinfo *a = found; a != NULL && out->count < LG_ADDRESSES_MAX;
         a = a->ai_next) {
        if (a->ai_addrlen > sizeof(out->list[0].name)) {
            continue; // neither IPv4 nor IPv6
        }
        struct lg_address *address = &out->list[out->count++];
        memcpy(&address->name, a->ai_addr, a->ai_addrlen);
        address->bytes = a->ai_addrlen;
    }
    freeaddrinfo(found);
    return BASE_OK;
}
