/* Private to http2.c (the socket) and http2_session.c (nghttp2): one connection. */
#ifndef LOADGEN_HTTP2_PRIVATE_H
#define LOADGEN_HTTP2_PRIVATE_H

#include "loadgen/http2.h"

#include <nghttp2/nghttp2.h>

/* Frames are gathered until so many bytes wait; the room behind is for one more frame. */
#define LG_OUT_FULL_BYTES (128u << 10)
#define LG_OUT_BYTES      (LG_OUT_FULL_BYTES + (32u << 10))

struct lg_http2 {
    nghttp2_session *session;
    int fd;
    const struct lg_tls *tls; /* NULL: clear text */
    struct lg_tls_link *link; /* from SHAKING on */
    enum lg_http2_state state;
    bool useful;
    uint32_t streams; /* submitted and not closed */
    const char *authority;
    struct lg_rpc_list calls;
    struct lg_rpc_list *ended;
    uint64_t now_ns; /* of the turn */
    char why[LG_WORDS_BYTES];
    bool more; /* FLUSH_BYTES ended the last flush */
    size_t out_start, out_end;
    uint8_t out[LG_OUT_BYTES];
};

/* Makes the session and submits our SETTINGS. false when out of memory; what was made stays in
 * session, perhaps NULL. */
bool lg__http2_begin_session(struct lg_http2 *h) __attribute__((warn_unused_result));

#endif
