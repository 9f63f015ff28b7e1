/* What the kernel says of this process (Linux /proc), for metrics and memory checks. Any thread;
 * a few system calls each, so not for inner loops. */
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

#include <stdint.h>

uint64_t base_process_resident_bytes(void); /* 0 when /proc cannot be read */
uint64_t base_process_open_fds(void);       /* 0 when /proc cannot be read */
double base_process_start_s(void); /* Unix time of the first call of this function: early in main */

#endif
