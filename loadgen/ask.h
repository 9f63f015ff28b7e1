/* --ask: one text, one answer, for people. */
#ifndef LOADGEN_ASK_H
#define LOADGEN_ASK_H

#include "base/buf.h"
#include "base/status.h"
#include "loadgen/client.h"
#include "loadgen/model.h"

#include <stddef.h>
#include <stdint.h>

/* Names of the columns of the model's output, one a line of the file; most LG_LABELS_MAX. */
#define LG_LABELS_MAX 100000u

/* Sends text, as it is to a model of BYTES, else as byte ids, and appends the answer to *out: the
 * texts of the first BYTES output, a line each; or one line a label, the likeliest first:
 * `German  0.9987`. labels holds the label file's contents, perhaps nothing. Takes the first FP32
 * output with as many values as there are labels; values that are no probabilities (negative, or
 * not adding up to 1) go through a softmax first. */
enum base_status lg_ask(struct lg_client *client, const struct lg_model *model, const char *text,
                        const struct base_buf *labels, struct base_buf *out,
                        struct base_error *error) __attribute__((warn_unused_result));

/* The parts of lg_ask() behind the wire, out of an encoded ModelInferResponse. Texts: false when no
 * output is BYTES. Probabilities: *out gets count values, ended with base_free(). */
bool lg_ask_texts(const uint8_t *reply, size_t length, struct base_buf *out);
enum base_status lg_ask_decode(const uint8_t *reply, size_t length, size_t count, double **out,
                               struct base_error *error) __attribute__((warn_unused_result));

#endif
