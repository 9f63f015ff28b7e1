/* Which build of the program this is. */
#ifndef BASE_BUILD_H
#define BASE_BUILD_H

#define BASE_BUILD_ID_BYTES 65

/* The linker's id of the running program (--build-id: a hash of what it consists of), in
 * hexadecimal, as `readelf -n` shows it; "unknown" when it has none. Any thread. */
void base_build_id(char out[BASE_BUILD_ID_BYTES]);

#endif
