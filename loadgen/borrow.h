/* protobuf-c declares string members as char *, and packing only reads them. */
#ifndef LOADGEN_BORROW_H
#define LOADGEN_BORROW_H

/* text as such a member. The message must be packed or dropped while text lives, and never be given
 * to a free_unpacked function. */
static inline char *lg_borrow(const char *text)
{
    union {
        const char *in;
        char *out;
    } both = {.in = text};
    return both.out;
}

#endif
