/* Every option of cellbatchd, once. Flags, environment, file, --help, the effective configuration
 * and docs/configuration.md are all made from this list (config/option.h says how a row reads).
 *
 * The name is written once, as a C field: grpc_port is --grpc-port, CELLBATCH_GRPC_PORT and the key
 * grpc-port of the file. Spellings are Triton's where the meaning is equal. */
#ifndef CONFIG_OPTIONS_H
#define CONFIG_OPTIONS_H

#include <stdint.h>

/* X(NAME, title), in the order of printing. */
#define CFG_SECTIONS(X)                                                                            \
    X(MODELS, "Models")                                                                            \
    X(INTERFACES, "Interfaces")                                                                    \
    X(TLS, "TLS and tokens")                                                                       \
    X(DEVICES, "Devices and threads")                                                              \
    X(SCHEDULING, "Scheduling")                                                                    \
    X(LIMITS, "Limits")                                                                            \
    X(SHUTDOWN, "Shutdown")                                                                        \
    X(LOGGING, "Log")                                                                              \
    X(GENERAL, "General")

#define CFG_KIB  ((uint64_t)1 << 10)
#define CFG_MIB  ((uint64_t)1 << 20)
#define CFG_GIB  ((uint64_t)1 << 30)
#define CFG_MS   ((uint64_t)1000000) /* in ns */
#define CFG_HOUR (3600000 * CFG_MS)

/* X(TYPE, field, default, least, most, values, section, ways, help); least and most in the unit of
 * the field (bytes, ns), both 0 where the type has no order. Words after `||` are accepted and not
 * listed. */
#define CFG_OPTIONS(X)                                                                             \
    X(TEXT, model_repository, "", 0, 0, "DIR", MODELS, ALL,                                        \
      "Folder of models, each NAME/VERSION/model.onnx or model.safetensors. Needed to serve.")     \
    X(NAMES, load_model, "", 0, 0, "NAME", MODELS, ALL,                                            \
      "Load only this model; may be repeated or hold several names between commas. Without it "    \
      "every model of the folder is loaded, with model-control-mode explicit none; * = every "     \
      "model.")                                                                                    \
    X(WORD, model_control_mode, "none", 0, 0, "none|explicit", MODELS, ALL,                        \
      "explicit: clients may load and unload models, and at the start only those that load-model " \
      "names are loaded; none: what is loaded at the start stays as it is.")                       \
    X(BOOL, exit_on_error, "true", 0, 0, "true|false", MODELS, ALL,                                \
      "A model that cannot be loaded ends the server with exit status 1; false: only that model "  \
      "stays unavailable.")                                                                        \
    X(BOOL, strict_readiness, "true", 0, 0, "true|false", MODELS, ALL,                             \
      "Ready only when every model is; false: ready as soon as requests are answered.")            \
    X(BOOL, allow_plugins, "false", 0, 0, "true|false", MODELS, ALL,                               \
      "Load unfold.so of models that have one: code that runs inside the server.")                 \
    X(BOOL, allow_grpc, "true", 0, 0, "true|false", INTERFACES, ALL, "Serve gRPC.")                \
    X(TEXT, grpc_address, "127.0.0.1", 0, 0, "ADDRESS", INTERFACES, ALL,                           \
      "Address that gRPC listens on; 0.0.0.0 for all networks.")                                   \
    X(COUNT, grpc_port, "8001", 0, 65535, "PORT", INTERFACES, ALL, "0 = any free port.")           \
    X(BOOL, allow_http, "true", 0, 0, "true|false", INTERFACES, ALL, "Serve HTTP.")                \
    X(TEXT, http_address, "127.0.0.1", 0, 0, "ADDRESS", INTERFACES, ALL,                           \
      "Address that HTTP listens on.")                                                             \
    X(COUNT, http_port, "8000", 0, 65535, "PORT", INTERFACES, ALL, "0 = any free port.")           \
    X(BOOL, allow_metrics, "true", 0, 0, "true|false", INTERFACES, ALL, "Serve /metrics.")         \
    X(TEXT, metrics_address, "127.0.0.1", 0, 0, "ADDRESS", INTERFACES, ALL,                        \
      "Address that /metrics listens on.")                                                         \
    X(COUNT, metrics_port, "8002", 0, 65535, "PORT", INTERFACES, ALL, "0 = any free port.")        \
    X(TEXT, tls_cert_file, "", 0, 0, "FILE", TLS, ALL,                                             \
      "Certificate of gRPC and HTTP, PEM, with those of its issuers behind it. With it and its "   \
      "key both speak TLS 1.2 and 1.3 only; without, plain text. At SIGHUP this and the other "    \
      "files of this section are read anew.")                                                      \
    X(TEXT, tls_key_file, "", 0, 0, "FILE", TLS, ALL,                                              \
      "Private key of the certificate, PEM, without a password.")                                  \
    X(TEXT, tls_client_ca_file, "", 0, 0, "FILE", TLS, ALL,                                        \
      "Certificates of CAs, PEM: a client must then have a certificate that one of them signed.")  \
    X(BOOL, metrics_tls, "false", 0, 0, "true|false", TLS, ALL,                                    \
      "/metrics over TLS too, on the same terms; false: plain text.")                              \
    X(TEXT, auth_token_file, "", 0, 0, "FILE", TLS, ALL,                                           \
      "Tokens, one a line. Whoever asks over gRPC or HTTP must then send one of them "             \
      "(authorization: Bearer TOKEN); only whether the server lives and is ready everybody is "    \
      "told. /metrics needs none.")                                                                \
    X(TEXT, control_token_file, "", 0, 0, "FILE", TLS, ALL,                                        \
      "Tokens, one a line, of those who may load and unload models; they may ask, too. Without "   \
      "it those of auth-token-file may.")                                                          \
    X(WORD, backend, "cpu", 0, 0, "cpu|blas||reference", DEVICES, ALL,                             \
      "What computes the cells: our own kernels, or OpenBLAS.")                                    \
    X(TEXT, device, "", 0, 0, "NAME[:N]", DEVICES, ALL,                                            \
      "Devices that compute, in the backend's place: N of this name, or of GPUs those with these " \
      "numbers (cuda:0,1). Each has rows and weights of its own, and a request stays on one.")     \
    X(TIME, watchdog, "2s", 0, CFG_HOUR, "TIME", DEVICES, ALL,                                     \
      "A device queue that shows no progress for so long is stopped; what it held fails with "     \
      "UNAVAILABLE. 0 = never. The CPU's queues have no need of it.")                              \
    X(BOOL, lanes, "true", 0, 0, "true|false", DEVICES, ALL,                                       \
      "GPUs: cells that fit one SM run in kernels that stay there. false: everything in streams, " \
      "for comparison, and for a GPU that others use too.")                                        \
    X(WORD, isa, "auto", 0, 0, "auto|scalar|avx2|avx512|neon", DEVICES, ALL,                       \
      "Instruction set of the cpu backend; auto: the best that the processor has.")                \
    X(COUNT, threads, "0", 0, 1024, "N", DEVICES, ALL,                                             \
      "Threads that compute, over all teams; 0 = the allowed CPUs less one, at least one a team.") \
    X(COUNT, teams, "1", 1, 64, "N", DEVICES, ALL,                                                 \
      "Teams that the threads form; each runs one batch at a time.")                               \
    X(BOOL, pin_threads, "false", 0, 0, "true|false", DEVICES, ALL,                                \
      "Bind each computing thread to a CPU. For machines that run nothing else.")                  \
    X(COUNT, spin_us, "20", 0, 10000, "N", DEVICES, ALL,                                           \
      "Microseconds that a waiting thread looks for work before it sleeps; one without any work "  \
      "only where a CPU is to spare.")                                                             \
    X(COUNT, grpc_threads, "1", 1, 64, "N", DEVICES, ALL, "Threads that read gRPC requests.")      \
    X(COUNT, rows, "4096", 1, 1 << 20, "N", DEVICES, ALL,                                          \
      "State rows of each layout: how many chains can be under way at once.")                      \
    X(TEXT, calibration_cache, "", 0, 0, "DIR", SCHEDULING, ALL,                                   \
      "Folder where measured times of cell types are kept from one start to the next; made if "    \
      "only it is missing.")                                                                       \
    X(WORD, calibrate, "auto", 0, 0, "auto|on|off", SCHEDULING, ALL,                               \
      "Measure each cell type at load, 2 seconds at most, to choose windows and the largest "      \
      "batch; auto: only where calibration-cache keeps it.")                                       \
    X(COUNT, max_batch_rows, "64", 1, 1024, "N", SCHEDULING, ALL,                                  \
      "Most rows of a batch; a cell type may have a bound of its own below it, beyond which more " \
      "are hardly faster a row, and steps of cells without state that take next to no time may "   \
      "be more where it is 64 or more.")                                                           \
    X(COUNT, max_tasks_to_submit, "5", 1, 64, "N", SCHEDULING, ALL,                                \
      "Batches that wait at a device queue at most.")                                              \
    X(COUNT, max_run_steps, "0", 0, 1 << 20, "N", SCHEDULING, ALL,                                 \
      "Steps that one batch runs at most before the next is formed; 0 = as many as its rows "      \
      "have left.")                                                                                \
    X(COUNT, queue_max, "4096", 1, 1 << 20, "N", LIMITS, ALL,                                      \
      "Requests of a model that may wait for rows; one more is refused.")                          \
    X(WORD, queue_full_status, "resource_exhausted", 0, 0, "resource_exhausted|unavailable",       \
      LIMITS, ALL,                                                                                 \
      "What a request gets that finds the queue full (HTTP: 429 or 503); some clients repeat a "   \
      "request by themselves only after unavailable.")                                             \
    X(COUNT, max_sequence_length, "4096", 1, 1 << 24, "N", LIMITS, ALL,                            \
      "Steps of the longest sequence; a model may set its own.")                                   \
    X(SIZE, request_memory_max, "256MiB", CFG_MIB, 64 * CFG_GIB, "SIZE", LIMITS, ALL,              \
      "Memory that one request may take, inputs and outputs included.")                            \
    X(SIZE, grpc_max_message_size, "64MiB", CFG_KIB, CFG_GIB, "SIZE", LIMITS, ALL,                 \
      "Largest gRPC message accepted.")                                                            \
    X(SIZE, http_max_input_size, "64MiB", CFG_KIB, CFG_GIB, "SIZE", LIMITS, ALL,                   \
      "Largest HTTP body accepted.")                                                               \
    X(SIZE, http_max_json_size, "8MiB", CFG_KIB, 256 * CFG_MIB, "SIZE", LIMITS, ALL,               \
      "Largest JSON text accepted, alone or before binary tensors, within the HTTP body's limit.") \
    X(SIZE, session_memory_max, "256MiB", CFG_KIB, 64 * CFG_GIB, "SIZE", LIMITS, ALL,              \
      "Memory of the states of all sessions; one more that does not fit is refused.")              \
    X(TIME, session_idle_timeout, "60s", CFG_MS, 24 * CFG_HOUR, "TIME", LIMITS, ALL,               \
      "A session whose client sends nothing for so long ends.")                                    \
    X(TIME, drain_delay, "0", 0, CFG_HOUR, "TIME", SHUTDOWN, ALL,                                  \
      "After SIGTERM new requests are still served for so long, while readiness already says no.") \
    X(TIME, exit_timeout_secs, "30s", 0, CFG_HOUR, "TIME", SHUTDOWN, ALL,                          \
      "Then what is under way may finish for so long; the rest fails with UNAVAILABLE.")           \
    X(WORD, log_level, "info", 0, 0, "error|warn|info|debug", LOGGING, ALL,                        \
      "Least important event that is logged.")                                                     \
    X(WORD, log_format, "text", 0, 0, "text|json", LOGGING, ALL,                                   \
      "One event a line on standard error, as text or as JSON.")                                   \
    X(TEXT, config, "", 0, 0, "FILE", GENERAL, FLAG_ENV,                                           \
      "YAML file of options: the flag names without dashes before them.")                          \
    X(SWITCH, check_config, "false", 0, 0, "", GENERAL, FLAG,                                      \
      "Print the effective configuration as such a file, and where each value came from; exit.")   \
    X(TEXT, check_model, "", 0, 0, "PATH", GENERAL, FLAG,                                          \
      "Load this model file or folder, print its inputs, outputs and cells; exit.")                \
    X(TEXT, explain_model, "", 0, 0, "FILE", GENERAL, FLAG,                                        \
      "Load this model file onto the device, print how each of its cells is computed and how "     \
      "long a step takes; exit.")                                                                  \
    X(SWITCH, version, "false", 0, 0, "", GENERAL, FLAG, "Print the version; exit.")               \
    X(SWITCH, help, "false", 0, 0, "", GENERAL, FLAG, "Print this text; exit.")

#endif
