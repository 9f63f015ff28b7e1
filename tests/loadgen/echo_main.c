/* The echo server as a program, to measure the client against: prints its address, serves until its
 * standard input ends, then prints its own CPU time a request.
 * Usage: echo_main [PORT] [DELAY_US] */
#include "base/clock.h"
#include "tests/loadgen/echo_server.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    struct echo_config config = {0};
    config.port = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 0;
    config.delay_ns = argc > 2 ? strtoull(argv[2], NULL, 10) * BASE_NS_PER_US : 0;
    struct echo_server *server = echo_server_start(&config);
    printf("%s\n", echo_server_target(server));
    (void)fflush(stdout);
    while (getchar() != EOF) {
    }
    struct echo_stats stats;
    uint64_t cpu_ns = base_process_cpu_ns();
    echo_server_stop(server, &stats);
    printf("%" PRIu64 " requests, %.2f us of CPU each\n", stats.requests,
           stats.requests == 0 ? 0 : (double)cpu_ns / 1e3 / (double)stats.requests);
    return 0;
}
