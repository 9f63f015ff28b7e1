/* UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing above U+10FFFF. Pure. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stddef.h>

/* Bytes of the character at text, of which `left` > 0 bytes may be looked at; 0 when it is none. */
size_t base_utf8_length(const char *text, size_t left);

/* Bytes of a character that begins so, whatever follows; 1 of a byte that begins none. */
size_t base_utf8_expected(char first);

#endif
