/* Keys and certificates for tests, made anew by each program with tests/certificates.sh, whose head
 * lists them. */
#ifndef TESTS_CERTIFICATES_H
#define TESTS_CERTIFICATES_H

#include "tests/util.h"

/* Makes them in a new folder. false, with the reason on standard output, where there is no openssl:
 * main() then returns CERTIFICATES_SKIP. */
bool certificates_make(void);
#define CERTIFICATES_SKIP 77

/* The path of one of them, such as "server.pem"; static, until the program ends. */
const char *certificates_path(const char *name);

void certificates_remove(void);

#endif
