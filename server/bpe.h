/* Byte pair encoding: a word is cut into pieces that a vocabulary of thousands holds (Sennrich,
 * Haddow, Birch, ACL 2016), by the merges of a file as subword-nmt writes them, versions 0.1 and
 * 0.2. Immutable after load, so that any thread may split; loading is the loop thread's. */
#ifndef SERVER_BPE_H
#define SERVER_BPE_H

#include "base/status.h"
#include "server/lines.h"

/* A word of more characters is not cut. */
#define SRV_BPE_CHARACTERS_MAX 256u

/* What a vocabulary has behind a piece that others of its word follow. */
#define SRV_BPE_GOES_ON "@@"

struct srv_bpe;

/* Reads path; messages call it name. Two pieces a line, the more frequent pair first, behind a line
 * "#version: 0.2", or without one of version 0.1. INVALID_ARGUMENT names the line; NOT_FOUND,
 * RESOURCE_EXHAUSTED. */
enum base_status srv_bpe_load(const char *path, const char *name, struct srv_bpe **out,
                              struct base_error *error) __attribute__((warn_unused_result));
void srv_bpe_free(struct srv_bpe *bpe); /* NULL is allowed */

/* Where each piece of a word, which is not empty, ends, and how many there are; 0: it is too long.
 * What is no UTF-8 counts as a character a byte. Cost: characters^2 at the most, and a look-up in
 * the table for each. */
uint32_t srv_bpe_split(const struct srv_bpe *bpe, struct srv_word word,
                       uint16_t ends[SRV_BPE_CHARACTERS_MAX]);

#endif
