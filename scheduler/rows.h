/* Row ids of one device: a free list per layout.
 *
 * Pure bookkeeping: ids are plain indices into memory that the backend keeps (cells/backend.h). The
 * pool thread alone hands ids out; because admission reserved them before (scheduler/admission.h),
 * taking one never fails. Every row carries a generation, raised when it is given back, so that a
 * stale id is found out. O(1), no allocation after creation. */
#ifndef SCHEDULER_ROWS_H
#define SCHEDULER_ROWS_H

#include "base/status.h"
#include "cells/type.h"

struct sched_rows;

enum base_status sched_rows_create(struct sched_rows **out);
void sched_rows_free(struct sched_rows *rows);

/* Adds ids 0..capacity-1 for a layout; once per layout, at model load. */
enum base_status sched_rows_open(struct sched_rows *rows, uint32_t layout, uint32_t capacity);

/* An id of the layout; asserts that one is free. The row last given back is taken first (its memory
 * is the warmest). */
uint32_t sched_rows_take(struct sched_rows *rows, uint32_t layout);
/* Asserts that the row is taken. */
void sched_rows_give(struct sched_rows *rows, uint32_t layout, uint32_t row);

uint32_t sched_rows_capacity(const struct sched_rows *rows, uint32_t layout);
/* Any thread; a moment's view. */
uint32_t sched_rows_in_use(const struct sched_rows *rows, uint32_t layout);
uint32_t sched_rows_generation(const struct sched_rows *rows, uint32_t layout, uint32_t row);

#endif
