/* The daemon's life: everything that main() wires, from the configuration to the drained exit.
 *
 *   start: loop, signals, engine, models, front ends, warm-up, ready
 *   SIGTERM: not ready -> still serving for drain_delay -> refuse new -> finish what is inside, at
 *            most exit_timeout -> the rest fails with UNAVAILABLE -> front ends closed -> exit 0
 *   SIGINT: the same without drain_delay. A second signal: no more waiting. */
#ifndef SERVER_DAEMON_H
#define SERVER_DAEMON_H

#include "base/status.h"
#include "config/config.h"

/* Runs until a signal has drained the server. BASE_OK: a clean end; else why it could not start.
 * Blocks; the calling thread is the loop thread. */
enum base_status srv_daemon_run(const struct cfg_config *config, struct base_error *error);

#endif
