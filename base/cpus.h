/* What this process may use of the machine: the smaller of its affinity mask and its cgroup's CPU
 * quota (v2 cpu.max, v1 cfs quota, rounded up, at least 1). */
#ifndef BASE_CPUS_H
#define BASE_CPUS_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Never 0. */
uint32_t base_cpus_allowed(void);

/* Pins the calling thread to the index-th CPU of the process's affinity mask as it was at the first
 * call of any function here. UNAVAILABLE when the kernel refuses; the thread then runs unpinned. */
enum base_status base_cpus_pin_self(uint32_t index);

/* The calling thread's number for base_cpus_send_away(). A system call. */
int32_t base_cpus_thread(void);

/* Lets a thread of this process that waits for the caller's CPU run on another one that it may use;
 * one that runs or waits elsewhere stays where it is. Its affinity is the same afterwards. Three
 * system calls. UNAVAILABLE when there is no other CPU, no such thread, or the kernel refuses. */
enum base_status base_cpus_send_away(int32_t thread);

/* Bytes of the data cache of a level, 1 to 3; 0 when the machine does not tell. Level 3 is shared.
 */
size_t base_cpus_cache_bytes(uint32_t level);

/* Bytes of a core's L2; 1 MiB when the machine does not tell. */
size_t base_cpus_l2_bytes(void);

/* Whether the last cache stands beside a few cores and hands lines on nearly as fast as L2 does, as
 * that of AMD's Zen does (some 27 bytes a cycle of each core), and not on a mesh or ring of many
 * cores (some 10). From the processor's vendor, so it is the same at every call and every start. */
bool base_cpus_l3_is_near(void);

/* Whether AVX-512's products of two bf16 do more than multiply-adds of floats in the same time. Zen
 * 4 and 5 begin one or two a cycle; Intel's cores one every other cycle (Emerald Rapids), half of
 * what floats do. From the vendor too. */
bool base_cpus_bf16_is_fast(void);

/* Asks the kernel for AMX's matrix registers, for all threads of the process and for good; whether
 * it has them, and their int8 products. A system call. */
bool base_cpus_may_use_tiles(void);

#define BASE_CPUS_MODEL_BYTES 128

/* The processor's name as the kernel tells it, of one line; "unknown" when it does not. */
void base_cpus_model(char out[BASE_CPUS_MODEL_BYTES]);

/* Name shown by ps and strace, at most 15 bytes. */
void base_thread_name(const char *name);

#endif
