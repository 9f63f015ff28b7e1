/* Flags are rows of one table: name, what its value is, where it goes, its help. Parsing, range
 * checks and --help all read that table. */
#include "loadgen/options.h"

#include "base/assert.h"
#include "loadgen/number.h"
#include "loadgen/payload.h"

#include <stddef.h>
#include <string.h>

/* Upper bounds that only keep arithmetic and memory sane. */
#define RATE_MAX    1e7
#define SECONDS_MAX 1e6
#define MS_MAX      1e9

enum kind {
    KIND_TEXT,
    KIND_F64,
    KIND_U64,
    KIND_BOOL,
    KIND_RATES,
    KIND_SWEEP,
    KIND_ASK,
    KIND_SHAPE
};

struct flag {
    const char *name;
    enum kind kind;
    size_t offset; /* of the field; unused by the kinds with a place of their own */
    double min, max;
    const char *value; /* as shown by --help; NULL = takes none */
    const char *help;
};

#define AT(field) offsetof(struct lg_options, field)

static const struct flag flags[] = {
    {"target", KIND_TEXT, AT(target), 0, 0, "HOST:PORT", "gRPC address (127.0.0.1:8001)"},
    {"tls", KIND_BOOL, AT(tls), 0, 0, NULL, "over TLS, with the system's CAs"},
    {"tls-ca-file", KIND_TEXT, AT(tls_ca_file), 0, 0, "FILE",
     "over TLS, with the CAs of FILE (PEM)"},
    {"tls-cert-file", KIND_TEXT, AT(tls_cert_file), 0, 0, "FILE",
     "over TLS, with this certificate of the client's own (PEM)"},
    {"tls-key-file", KIND_TEXT, AT(tls_key_file), 0, 0, "FILE", "the certificate's key (PEM)"},
    {"model", KIND_TEXT, AT(model), 0, 0, "NAME", "model to ask (langid)"},
    {"model-version", KIND_TEXT, AT(model_version), 0, 0, "N", "its version (the server's choice)"},
    {"token-file", KIND_TEXT, AT(token_file), 0, 0, "FILE",
     "send the first token of FILE (authorization: Bearer ...)"},
    {"connections", KIND_U64, AT(connections), 1, 256, "N", "TCP connections, used in turn (1)"},
    {"wait-ready", KIND_F64, AT(wait_ready_s), 0, SECONDS_MAX, "SECONDS",
     "first wait until server and model are ready (0)"},
    {"rate", KIND_RATES, 0, 0, 0, "R", "open loop, Poisson arrivals, R requests/s"},
    {"rates", KIND_RATES, 0, 0, 0, "R,R,...", "open loop, one run for each rate"},
    {"sweep", KIND_SWEEP, 0, 0, 0, "LO:HI:STEPS", "open loop, STEPS rates evenly from LO to HI"},
    {"concurrency", KIND_U64, AT(concurrency), 1, 65536, "N", "closed loop, N requests in flight"},
    {"sequence-length", KIND_U64, AT(session_requests), 1, 1e6, "N",
     "closed loop: N requests are a sequence whose states the server keeps (none)"},
    {"stream", KIND_BOOL, AT(in_parts), 0, 0, NULL,
     "ask for answers while they are made, and time their first parts"},
    {"duration", KIND_F64, AT(duration_s), 0.001, SECONDS_MAX, "SECONDS",
     "length of the measured window (10)"},
    {"requests", KIND_U64, AT(requests), 1, 1e8, "N", "measure N requests instead of a duration"},
    {"warmup", KIND_F64, AT(warmup_s), 0, SECONDS_MAX, "SECONDS", "load before measuring (1)"},
    {"cooldown", KIND_F64, AT(cooldown_s), 0, SECONDS_MAX, "SECONDS", "load after measuring (0.5)"},
    {"drain", KIND_F64, AT(drain_s), 0.001, SECONDS_MAX, "SECONDS",
     "wait for the last answers, then cancel (5)"},
    {"give-up", KIND_F64, AT(give_up_s), 0.1, SECONDS_MAX, "SECONDS",
     "end a run when the server is unreachable so long (3)"},
    {"seed", KIND_U64, AT(seed), 0, 1.8e19, "N", "seed of schedule, lengths and inputs (1)"},
    {"max-in-flight", KIND_U64, AT(in_flight_max), 1, 1048576, "N",
     "open loop: most requests in flight (16384)"},
    {"lengths", KIND_TEXT, AT(lengths), 0, 0, "SPEC",
     "fixed:N, uniform:A:B or trace:FILE.tsv[:source|target|N] (fixed:32)"},
    {"text", KIND_TEXT, AT(text), 0, 0, "FILE", "send each line of FILE, as text or as its bytes"},
    {"shape", KIND_SHAPE, 0, 0, 0, "INPUT:D,D,...",
     "shape of an input; B = batch, L = length (from metadata)"},
    {"batch", KIND_U64, AT(batch), 1, 65536, "N", "sequences in one request (1)"},
    {"vocab", KIND_U64, AT(vocab), 0, 9e18, "N",
     "integer inputs are drawn from 0..N (what the model says, or 255)"},
    {"deadline-ms", KIND_F64, AT(deadline_ms), 0.001, MS_MAX, "MS",
     "deadline, from the planned send (none)"},
    {"cancel-fraction", KIND_F64, AT(cancel_fraction), 0, 1, "F",
     "share of requests that the client cancels (0)"},
    {"cancel-after-ms", KIND_F64, AT(cancel_after_ms), 0, MS_MAX, "MS",
     "at a random time up to MS after the send (10)"},
    {"json", KIND_BOOL, AT(json), 0, 0, NULL, "one JSON object a line for each run, no text"},
    {"csv", KIND_TEXT, AT(csv), 0, 0, "FILE", "write a table of the runs"},
    {"png", KIND_TEXT, AT(png), 0, 0, "FILE", "draw latency against load (needs gnuplot)"},
    {"ask", KIND_ASK, 0, 0, 0, "TEXT", "ask once and print the answer; may be repeated"},
    {"labels", KIND_TEXT, AT(labels), 0, 0, "FILE",
     "names of the output's columns (models/MODEL/labels.txt)"},
    {"help", KIND_BOOL, AT(help), 0, 0, NULL, "print this"},
    {"version", KIND_BOOL, AT(version), 0, 0, NULL, "print the version"},
};

#define FLAG_COUNT (sizeof(flags) / sizeof(flags[0]))

static enum base_status bad_value(const struct flag *flag, const char *value,
                                  struct base_error *error)
{
    return base_fail(error, BASE_INVALID_ARGUMENT, "--%s: '%s' is not a valid %s", flag->name,
                     value, flag->value);
}

static bool add_rate(struct lg_options *options, double rate)
{
    if (options->rate_count == LG_RATES_MAX) {
        return false;
    }
    options->rates[options->rate_count++] = rate;
    return true;
}

/* One word of a list, cut at the separator or the end; returns where the next begins or NULL. */
static const char *next_word(const char *text, char separator, char *word, size_t word_bytes)
{
    const char *end = strchr(text, separator);
    size_t length = end == NULL ? strlen(text) : (size_t)(end - text);
    if (length >= word_bytes) {
        length = word_bytes - 1; // cut: too long for any number, so refused by its parser
        memset(word, '?', length);
    } else {
        memcpy(word, text, length);
    }
    word[length] = '\0';
    return end == NULL ? NULL : end + 1;
}

static bool parse_rates(const char *value, struct lg_options *options)
{
    options->rate_count = 0;
    for (const char *rest = value; rest != NULL;) {
        char word[64];
        double rate = 0;
        rest = next_word(rest, ',', word, sizeof(word));
        if (!lg_number_f64(word, 0.001, RATE_MAX, &rate) || !add_rate(options, rate)) {
            return false;
        }
    }
    return true;
}

static bool parse_sweep(const char *value, struct lg_options *options)
{
    char low_word[64];
    char high_word[64];
    char steps_word[64];
    double low = 0;
    double high = 0;
    uint64_t steps = 0;
    const char *rest = next_word(value, ':', low_word, sizeof(low_word));
    if (rest == NULL) {
        return false;
    }
    rest = next_word(rest, ':', high_word, sizeof(high_word));
    if (rest == NULL || next_word(rest, ':', steps_word, sizeof(steps_word)) != NULL) {
        return false;
    }
    if (!lg_number_f64(low_word, 0.001, RATE_MAX, &low) ||
        !lg_number_f64(high_word, low, RATE_MAX, &high) ||
        !lg_number_u64(steps_word, strlen(steps_word), LG_RATES_MAX, &steps) || steps < 2) {
        return false;
    }
    options->rate_count = 0;
    for (uint64_t i = 0; i < steps; i++) {
        double share = (double)i / (double)(steps - 1);
        base_assert(add_rate(options, low + (high - low) * share));
    }
    return true;
}

static bool add_text(const char **list, uint32_t *count, uint32_t max, const char *value)
{
    if (*count == max) {
        return false;
    }
    list[(*count)++] = value;
    return true;
}

static bool parse_f64(const struct flag *flag, const char *value, double *out)
{
    return lg_number_f64(value, flag->min, flag->max, out);
}

static bool parse_u64(const struct flag *flag, const char *value, uint64_t *out)
{
    return lg_number_u64(value, strlen(value), (uint64_t)flag->max, out) &&
           *out >= (uint64_t)flag->min;
}

static bool apply(const struct flag *flag, const char *value, struct lg_options *options)
{
    void *field = (char *)options + flag->offset;
    switch (flag->kind) {
    case KIND_TEXT:
        *(const char **)field = value;
        return value[0] != '\0';
    case KIND_F64:
        return parse_f64(flag, value, field);
    case KIND_U64:
        return parse_u64(flag, value, field);
    case KIND_BOOL:
        *(bool *)field = true;
        return true;
    case KIND_RATES:
        return parse_rates(value, options);
    case KIND_SWEEP:
        return parse_sweep(value, options);
    case KIND_ASK:
        return value[0] != '\0' && add_text(options->asks, &options->ask_count, LG_ASKS_MAX, value);
    case KIND_SHAPE:
        return add_text(options->shapes, &options->shape_count, LG_SHAPES_MAX, value);
    }
    return false;
}

static const struct flag *find_flag(const char *name, size_t length)
{
    for (size_t i = 0; i < FLAG_COUNT; i++) {
        if (strlen(flags[i].name) == length && memcmp(flags[i].name, name, length) == 0) {
            return &flags[i];
        }
    }
    return NULL;
}

/* Takes argv[*at] and, when it wants one, the value behind it. */
static enum base_status take_flag(int argc, char **argv, int *at, uint64_t *seen,
                                  struct lg_options *options, struct base_error *error)
{
    const char *word = argv[*at];
    if (strncmp(word, "--", 2) != 0) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "'%s' is not a flag; see --help", word);
    }
    const char *equals = strchr(word, '=');
    size_t length = equals == NULL ? strlen(word + 2) : (size_t)(equals - word) - 2;
    const struct flag *flag = find_flag(word + 2, length);
    if (flag == NULL) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "unknown flag '%s'; see --help", word);
    }
    const char *value = "";
    if (flag->value == NULL && equals != NULL) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "--%s takes no value", flag->name);
    }
    if (equals != NULL) {
        value = equals + 1;
    } else if (flag->value != NULL) {
        *at += 1;
        if (*at == argc) {
            return base_fail(error, BASE_INVALID_ARGUMENT, "--%s: %s is missing", flag->name,
                             flag->value);
        }
        value = argv[*at];
    }
    uint64_t bit = UINT64_C(1) << (flag - flags);
    if ((*seen & bit) != 0 && flag->kind != KIND_ASK && flag->kind != KIND_SHAPE) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "--%s is given twice", flag->name);
    }
    *seen |= bit;
    return apply(flag, value, options) ? BASE_OK : bad_value(flag, value, error);
}

static bool is_seen(uint64_t seen, const char *name)
{
    const struct flag *flag = find_flag(name, strlen(name));
    base_assert(flag != NULL);
    return (seen >> (flag - flags) & 1) != 0;
}

/* What the flags mean together. */
static enum base_status settle(uint64_t seen, struct lg_options *options, struct base_error *error)
{
    int loads = is_seen(seen, "rate") + is_seen(seen, "rates") + is_seen(seen, "sweep") +
                is_seen(seen, "concurrency") + is_seen(seen, "ask");
    if (loads > 1) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "take one of --rate, --rates, --sweep, --concurrency and --ask");
    }
    if (is_seen(seen, "duration") && is_seen(seen, "requests")) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "take one of --duration and --requests");
    }
    if (is_seen(seen, "lengths") && is_seen(seen, "text")) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "take one of --lengths and --text");
    }
    if (is_seen(seen, "text") && options->batch != 1) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "--text sends one line a request: no --batch");
    }
    if (options->ask_count > 0) {
        options->mode = LG_MODE_ASK;
    } else if (is_seen(seen, "concurrency")) {
        options->mode = LG_MODE_CLOSED;
    } else if (options->rate_count > 0) {
        options->mode = LG_MODE_OPEN;
    } else if (!options->help && !options->version && !is_seen(seen, "wait-ready")) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "nothing to do: give --rate, --concurrency or --ask; see --help");
    }
    if (is_seen(seen, "sequence-length") && options->mode != LG_MODE_CLOSED) {
        return base_fail(
            error, BASE_INVALID_ARGUMENT,
            "--sequence-length needs --concurrency: a request waits for the one before");
    }
    if (is_seen(seen, "tls-cert-file") != is_seen(seen, "tls-key-file")) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "--tls-cert-file and --tls-key-file need each other");
    }
    options->tls = options->tls || options->tls_ca_file != NULL || options->tls_cert_file != NULL;
    if (is_seen(seen, "sequence-length") && options->in_parts) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "--stream and --sequence-length cannot both be");
    }
    if (is_seen(seen, "rate") && options->rate_count != 1) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "--rate takes one rate; see --rates");
    }
    return BASE_OK;
}

enum base_status lg_options_parse(int argc, char **argv, struct lg_options *out,
                                  struct base_error *error)
{
    _Static_assert(FLAG_COUNT <= 64, "flags seen are kept in one word");
    *out = (struct lg_options){
        .target = "127.0.0.1:8001",
        .model = "langid",
        .model_version = "",
        .connections = 1,
        .seed = 1,
        .warmup_s = 1,
        .duration_s = 10,
        .cooldown_s = 0.5,
        .drain_s = 5,
        .give_up_s = 3,
        .in_flight_max = 16384,
        .lengths = "fixed:32",
        .batch = 1,
        .vocab = LG_VOCAB_OF_MODEL,
        .cancel_after_ms = 10,
    };
    uint64_t seen = 0;
    for (int at = 1; at < argc; at++) {
        BASE_TRY(take_flag(argc, argv, &at, &seen, out, error));
    }
    return settle(seen, out, error);
}

void lg_options_usage(FILE *out)
{
    fputs("cellbatch-load: load for, and questions to, an Open Inference Protocol server\n\n"
          "  cellbatch-load --rate R [flags]          open loop\n"
          "  cellbatch-load --sweep LO:HI:STEPS ...   open loop, a curve\n"
          "  cellbatch-load --concurrency N [flags]   closed loop\n"
          "  cellbatch-load --ask TEXT [--ask ...]    one answer a text\n\n",
          out);
    for (size_t i = 0; i < FLAG_COUNT; i++) {
        char left[64];
        const char *value = flags[i].value == NULL ? "" : flags[i].value;
        (void)snprintf(left, sizeof(left), "--%s %s", flags[i].name, value);
        fprintf(out, "  %-28s %s\n", left, flags[i].help);
    }
    fputs("\nExit status: 0 valid and no request failed, 1 the run could not start, 2 bad "
          "arguments,\n"
          "3 some requests failed, 4 INVALID: more than 1 % of the sends were late.\n",
          out);
}
