#include "tests/loadgen/raw_fixture.h"

#include "base/clock.h"
#include "tests/util.h"

#include <string.h>

struct raw_fixture raw;

void raw_begin(void)
{
    raw = (struct raw_fixture){0};
    base_buf_init(&raw.reply, LG_REPLY_MAX);
}

void raw_end(void)
{
    lg_client_free(raw.client); // first, so that the server does not wait for it
    raw_server_stop(raw.server);
    base_buf_release(&raw.reply);
}

void raw_connect(const char *target)
{
    lg_client_free(raw.client);
    ck_assert_int_eq(lg_client_create(target, 1, &raw.client, &raw.error), BASE_OK);
}

void raw_serve(const struct raw_script *script)
{
    raw.server = raw_server_start(script);
    ck_assert_ptr_nonnull(raw.server);
    raw_connect(raw_server_target(raw.server));
}

enum base_status raw_call_for(uint64_t timeout_ns)
{
    const struct base_buf request = {0};
    base_buf_clear(&raw.reply);
    raw.error = (struct base_error){0};
    return lg_client_call(raw.client, "M", &request, timeout_ns, &raw.reply, &raw.error);
}

enum base_status raw_call(void)
{
    return raw_call_for(10 * BASE_NS_PER_S);
}

void raw_assert_ends(const char *code, const char *part)
{
    ck_assert_int_ne(raw_call(), BASE_OK);
    const char *message = raw.error.message;
    ck_assert_msg(strstr(message, code) != NULL && strstr(message, part) != NULL,
                  "%s: has no %s or no %s", message, code, part);
}

void raw_wait_for_resets(unsigned count)
{
    for (uint32_t i = 0; i < 2000 && raw_server_resets(raw.server) < count; i++) {
        uint64_t now_ns = base_now_ns();
        (void)lg_client_turn(raw.client, now_ns, now_ns + BASE_NS_PER_MS);
    }
    ck_assert_uint_ge(raw_server_resets(raw.server), count);
}
