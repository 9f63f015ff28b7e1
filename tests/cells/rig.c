/* See rig.h. One thread, beside the team's. */
#include "tests/cells/rig.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "cells/backend_library.h"
#include "tests/cells/team.h"
#include "tests/cuda/driver_host.h"
#include "tests/util.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* By how much a late member of a team comes late behind each start and barrier. */
#define LATE_US 5u

/* CELLBATCH_CARD: the suites' device over a host's driver is a real card. */
static const struct cell_backend *find_card(const char *name)
{
    const struct cell_backend *backend = NULL;
    struct base_error error = {BASE_OK, ""};
    ck_assert_msg(cell_backend_load(name, &backend, &error) == BASE_OK, "%s", error.message);
    return backend;
}

/* By its name in this program, or one of the tests' own. */
static const struct cell_backend *find_backend(const char *name)
{
    const bool is_card = getenv("CELLBATCH_CARD") != NULL;
    if (strcmp(name, "cuda-host") == 0 || strcmp(name, "cuda-host-stream") == 0) {
        return is_card ? find_card("cuda-exact") : cuda_host_backend();
    }
    if (strcmp(name, "cuda-host-library") == 0) {
        return is_card ? find_card("cuda") : cuda_host_library_backend();
    }
    return cell_backend_find(name);
}

void rig_init(struct rig *rig, const char *backend, const char *isa, uint32_t members,
              const struct cell_def *def)
{
    struct base_error error = {BASE_OK, ""};
    memset(rig, 0, sizeof(*rig));
    rig->backend = find_backend(backend);
    rig->team = members == 0 ? NULL : team_create(members);
    struct cell_device_options options = {.n_queues = 1,
                                          .teams = rig->team == NULL ? NULL : &rig->team,
                                          .isa = isa,
                                          .batches_queued_max = 4,
                                          .lanes_off = strcmp(backend, "cuda-host-stream") == 0};
    ck_assert_msg(rig->backend->open(&options, &rig->device, &error) == BASE_OK, "%s",
                  error.message);
    ck_assert_int_eq(cell_registry_create(&rig->registry), BASE_OK);
    rig->type = rig_add(rig, def);
}

const struct cell_type *rig_add(struct rig *rig, const struct cell_def *def)
{
    struct base_error error = {BASE_OK, ""};
    const struct cell_type *type = NULL;
    bool is_new = false;
    ck_assert_msg(cell_registry_intern(rig->registry, def, "test/cell", &type, &is_new, &error) ==
                      BASE_OK,
                  "%s", error.message);
    ck_assert(is_new);
    ck_assert_msg(rig->backend->type_load(rig->device, type, &error) == BASE_OK, "%s",
                  error.message);
    team_share_small(rig->backend, rig->device, type);
    for (; rig->n_layouts < cell_registry_layouts(rig->registry); rig->n_layouts++) {
        const uint32_t l = rig->n_layouts;
        ck_assert_int_eq(rig->backend->rows_open(rig->device, l,
                                                 cell_registry_layout(rig->registry, l), RIG_ROWS,
                                                 &error),
                         BASE_OK);
    }
    return type;
}

void rig_release(struct rig *rig)
{
    rig->backend->type_unload(rig->device, rig->type);
    rig->backend->close(rig->device);
    cell_registry_free(rig->registry);
    if (rig->team != NULL) {
        team_free(rig->team);
    }
}

/* Of each fifth batch one member is late, by turns: what it has not made yet must not be read. */
static void let_one_be_late(const struct rig *rig)
{
    if (rig->team != NULL && rig->team->members > 1 && !util_is_quick()) {
        const uint64_t fifth = rig->submitted / 5;
        team_delay(rig->team, (uint32_t)(fifth % rig->team->members),
                   rig->submitted % 5 == 0 ? LATE_US : 0);
    }
}

void rig_run(struct rig *rig, struct cell_batch *batch)
{
    let_one_be_late(rig);
    batch->type = rig->type;
    batch->status = BASE_INTERNAL;
    rig->backend->submit(rig->device, 0, batch);
    rig->submitted++;
    if (rig->backend->pump != NULL) {
        ck_assert(rig->backend->pump(rig->device, 0));
    }
    while (rig->backend->poll != NULL &&
           atomic_load(rig->backend->completed(rig->device, 0)) < rig->submitted) {
        rig->backend->poll(rig->device, 0, base_now_ns());
        sched_yield();
    }
    ck_assert_uint_eq(atomic_load(rig->backend->completed(rig->device, 0)), rig->submitted);
    ck_assert_int_eq(batch->status, BASE_OK);
}
