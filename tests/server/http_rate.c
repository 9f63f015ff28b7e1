/* How many infer requests a second the HTTP front end carries: keep-alive connections in a closed
 * loop against the fake core, client and server in one process, a thread each.
 *
 *   http_rate [connections 32] [seconds 5] [json|binary] [once|later] [tokens 16]
 *
 * once: the core answers inside start; later: from a timer, so that each connection is suspended
 * and resumed. Prints requests/s, latency and CPU time per request of both threads together. */
#include "base/clock.h"
#include "base/hist.h"
#include "tests/server/http_fixture.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

enum { CONNECTIONS_MAX = 512 };

struct slot {
    struct http_client client;
    uint64_t sent_ns;
};

static struct http_fixture fixture;
static struct slot slots[CONNECTIONS_MAX];
static struct base_hist latency_ns;

/* A whole request of model "sum". */
static void build_request(struct base_buf *out, bool binary, unsigned tokens)
{
    struct base_buf body;
    base_buf_init(&body, 1u << 24);
    base_buf_printf(&body,
                    "{\"inputs\":[{\"name\":\"tokens\",\"datatype\":\"INT64\",\"shape\":[1,%u],",
                    tokens);
    if (binary) {
        base_buf_printf(&body,
                        "\"parameters\":{\"binary_data_size\":%u}}],"
                        "\"parameters\":{\"binary_data_output\":true}}",
                        tokens * 8);
    } else {
        for (unsigned i = 0; i < tokens; i++) {
            base_buf_printf(&body, "%s%u", i == 0 ? "\"data\":[" : ",", i % 1000);
        }
        base_buf_text(&body, "]}]}");
    }
    size_t json_bytes = body.length;
    for (unsigned i = 0; binary && i < tokens; i++) {
        int64_t token = i % 1000;
        base_buf_add(&body, &token, sizeof token);
    }
    base_buf_init(out, 1u << 24);
    base_buf_printf(out, "POST /v2/models/sum/infer HTTP/1.1\r\nHost: t\r\nContent-Length: %zu\r\n",
                    body.length);
    if (binary) {
        base_buf_printf(out, "Inference-Header-Content-Length: %zu\r\n", json_bytes);
    }
    base_buf_text(out, "\r\n");
    base_buf_add(out, body.data, body.length);
    base_buf_release(&body);
}

static void send_one(struct slot *slot, const struct base_buf *request)
{
    slot->sent_ns = base_now_ns();
    if (!http_send(&slot->client, request->data, request->length)) {
        (void)fprintf(stderr, "the server closed a connection\n");
        exit(EXIT_FAILURE);
    }
}

static uint64_t drive(int epoll, const struct base_buf *request, uint64_t until_ns)
{
    uint64_t answers = 0;
    struct epoll_event events[64];
    while (base_now_ns() < until_ns) {
        int n = epoll_wait(epoll, events, 64, 100);
        for (int i = 0; i < n; i++) {
            struct slot *slot = events[i].data.ptr;
            struct http_answer answer = http_read(&slot->client, 5000, false);
            if (answer.code != 200) {
                (void)fprintf(stderr, "answer %d %s\n", answer.code, answer.body);
                exit(EXIT_FAILURE);
            }
            base_hist_add(&latency_ns, base_now_ns() - slot->sent_ns);
            answers++;
            send_one(slot, request);
        }
    }
    return answers;
}

int main(int argc, char **argv)
{
    int connections = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 32;
    uint64_t seconds = argc > 2 ? strtoull(argv[2], NULL, 10) : 5;
    bool binary = argc > 3 && strcmp(argv[3], "binary") == 0;
    bool later = argc > 4 && strcmp(argv[4], "later") == 0;
    unsigned tokens = argc > 5 ? (unsigned)strtoul(argv[5], NULL, 10) : 16;
    if (connections < 1 || connections > CONNECTIONS_MAX) {
        return EXIT_FAILURE;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    http_fixture_start(&fixture, NULL);
    http_fixture_pace(&fixture, later ? FAKE_LATER : FAKE_AT_ONCE, 0);
    struct base_buf request;
    build_request(&request, binary, tokens);
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    for (int i = 0; i < connections; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &slots[i]};
        if (!http_connect(&slots[i].client, fixture.port) ||
            epoll_ctl(epoll, EPOLL_CTL_ADD, slots[i].client.fd, &event) != 0) {
            return EXIT_FAILURE;
        }
        send_one(&slots[i], &request);
    }
    (void)drive(epoll, &request, base_now_ns() + BASE_NS_PER_S); // warm
    base_hist_init(&latency_ns);
    uint64_t start_ns = base_now_ns();
    uint64_t start_cpu_ns = base_process_cpu_ns();
    uint64_t answers = drive(epoll, &request, start_ns + seconds * BASE_NS_PER_S);
    double s = (double)(base_now_ns() - start_ns) / 1e9;
    (void)printf("%s %s, %u tokens, %d connections: %.0f requests/s, p50 %.0f us, p99 %.0f us, "
                 "%.1f us CPU each (client and server)\n",
                 binary ? "binary" : "json", later ? "later" : "once", tokens, connections,
                 (double)answers / s, (double)base_hist_quantile(&latency_ns, 0.5) / 1e3,
                 (double)base_hist_quantile(&latency_ns, 0.99) / 1e3,
                 (double)(base_process_cpu_ns() - start_cpu_ns) / 1e3 / (double)answers);
    for (int i = 0; i < connections; i++) {
        http_close(&slots[i].client);
    }
    http_fixture_stop(&fixture);
    base_buf_release(&request);
    return EXIT_SUCCESS;
}
