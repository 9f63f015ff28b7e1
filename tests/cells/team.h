/* A team of threads for the device tests: as little as the seam asks for. Members sleep in a
 * pthread barrier; the real team (worker/) spins. */
#ifndef TESTS_CELLS_TEAM_H
#define TESTS_CELLS_TEAM_H

#include "cells/backend.h"

/* members >= 1, the caller of run() included. Ended with team_free(). */
struct cell_team *team_create(uint32_t members);
/* From now on this member waits so many microseconds behind each start of a run and each barrier,
 * so that the others meet what it has not done yet; nobody else does. 0: nobody. Not during a run.
 */
void team_delay(struct cell_team *self, uint32_t member, uint32_t us);
void team_free(struct cell_team *self);

/* Lets all members of the device's teams compute the loaded type together: cells of tests are
 * small, and small cells are otherwise computed by one member alone. */
void team_share_small(const struct cell_backend *backend, struct cell_device *device,
                      const struct cell_type *type);

#endif
