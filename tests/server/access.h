/* Sets of tokens for tests of the front ends. */
#ifndef TESTS_SERVER_ACCESS_H
#define TESTS_SERVER_ACCESS_H

#include "server/tokens.h"

/* Of a file with this text; srv_tokens_free() ends it. */
struct srv_tokens *access_tokens(const char *text);

#endif
