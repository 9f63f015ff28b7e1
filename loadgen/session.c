/* See session.h. */
#include "loadgen/session.h"

#include "base/assert.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Tags: ModelInferRequest.parameters; key and value of an entry; InferParameter's choices. */
enum { PARAMETERS = 4u << 3 | 2u, KEY = 1u << 3 | 2u, VALUE = 2u << 3 | 2u };
enum { BOOL_PARAM = 1u << 3, STRING_PARAM = 3u << 3 | 2u };

/* All lengths here are below 128: a varint of one byte. */
static void put_byte(struct lg_session *session, size_t byte)
{
    base_assert(session->n_bytes < LG_SESSION_BYTES && byte < 128);
    session->bytes[session->n_bytes++] = (uint8_t)byte;
}

static void put_text(struct lg_session *session, const char *text, size_t length)
{
    put_byte(session, length);
    base_assert(session->n_bytes + length <= LG_SESSION_BYTES);
    memcpy(session->bytes + session->n_bytes, text, length);
    session->n_bytes += length;
}

/* The entry's head, before a value of so many bytes. */
static void put_entry(struct lg_session *session, const char *key, size_t value_bytes)
{
    put_byte(session, PARAMETERS);
    put_byte(session, 2 + strlen(key) + 2 + value_bytes);
    put_byte(session, KEY);
    put_text(session, key, strlen(key));
    put_byte(session, VALUE);
    put_byte(session, value_bytes);
}

static void put_true(struct lg_session *session, const char *key)
{
    put_entry(session, key, 2);
    put_byte(session, BOOL_PARAM);
    put_byte(session, 1);
}

void lg_session_next(struct lg_session *session, uint32_t length, uint64_t run, uint64_t *begun)
{
    base_assert(session->at < length);
    if (session->at == 0) {
        session->number = ++*begun;
    }
    char id[48];
    const int id_bytes = snprintf(id, sizeof(id), "%" PRIx64 "-%" PRIu64, run, session->number);
    session->n_bytes = 0;
    put_entry(session, "sequence_id", 2 + (size_t)id_bytes);
    put_byte(session, STRING_PARAM);
    put_text(session, id, (size_t)id_bytes);
    if (session->at == 0) {
        put_true(session, "sequence_start");
    }
    if (session->at + 1 == length) {
        put_true(session, "sequence_end");
    }
}

void lg_session_end(struct lg_session *session, uint32_t length, bool is_ok)
{
    session->at = is_ok && session->at + 1 < length ? session->at + 1 : 0;
}
