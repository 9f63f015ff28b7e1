/* A backend: how one kind of device loads cell types, keeps rows and runs batches.
 *
 * The scheduler and the worker see devices only through this table. A *device* is one memory (a
 * host's, a GPU's); it has one or more in-order *queues* (CPU team, CUDA stream, GPU lane), each
 * with a monotonic counter of completed batches. After the ggml backend interface: one struct of
 * function pointers, capabilities asked and not guessed.
 *
 * Threads: open, close, type_load, type_unload and rows_open are called while no batch is
 * outstanding on the memory they touch, and of devices that are not `live` (their caps say it)
 * while none is at all; submit by the pool thread; pump by the one thread that drives the queue;
 * completed() may be read by any thread. */
#ifndef CELLS_BACKEND_H
#define CELLS_BACKEND_H

#include "base/buf.h"
#include "cells/batch.h"

#include <stddef.h>

struct cell_device;

/* Threads that compute together. Given to a CPU device by the worker, one per queue. */
struct cell_team {
    void *context;
    uint32_t members; /* >= 1 */
    /* A run: work(argument, team, member) once for each member 0..members-1. start() lets members
     * 1.. begin and returns at once; finish(), by the same thread, is member 0's part, and returns
     * when all are done. In between the caller may do something else. Never nested. */
    void (*start)(struct cell_team *team,
                  void (*work)(void *argument, struct cell_team *team, uint32_t member),
                  void *argument);
    void (*finish)(struct cell_team *team);
    /* Inside a run only, by every member the same number of times: nobody returns before all have
     * called; what was written before is visible to all after. */
    void (*barrier)(struct cell_team *team, uint32_t member);
    /* Inside a run only: returns when is_over(argument), which another member makes true. */
    void (*wait)(struct cell_team *team, uint32_t member, bool (*is_over)(void *argument),
                 void *argument);
    /* The first (members + 1) / 2 members and the others, each counted from 0: teams whose members
     * may meet and wait inside a run of the whole, which they all begin and end together. A team
     * of one has none (NULL). */
    struct cell_team *halves[2];
};

/* Of a team of so many, the members of its first half. */
static inline uint32_t cell_team_first_half(uint32_t members)
{
    return (members + 1) / 2;
}

static inline void
cell_team_run(struct cell_team *team,
              void (*work)(void *argument, struct cell_team *team, uint32_t member), void *argument)
{
    team->start(team, work, argument);
    team->finish(team);
}

/* What a device has measured and would measure again at the next start, kept by who opens it.
 * Loading thread. */
struct cell_device_cache {
    void *context;
    /* The text that was kept under that name with the same key, and a NUL; key: lines that end, of
     * what the text depends on beside its name. False: there is none of at most `bytes`. */
    bool (*load)(void *context, const char *name, const char *key, char *out, size_t bytes);
    /* text: lines that end. Failing is no concern of the device. */
    void (*store)(void *context, const char *name, const char *key, const char *text);
};

struct cell_device_options {
    uint32_t n_queues;           /* CPU: teams */
    struct cell_team **teams;    /* n_queues of them; NULL for devices that need none */
    const char *isa;             /* CPU: "auto", "scalar", "avx2", "avx512", "neon" */
    uint32_t batches_queued_max; /* outstanding batches per queue, >= 1 */
    uint32_t card;               /* of backends whose devices are numbered: which */
    /* Devices with threads of their own call it after a completion counter moved, so that whoever
     * waits may sleep; from any thread. NULL: the counters are polled. */
    void (*wake)(void *context);
    void *wake_context;
    /* A queue that has work and shows no progress for so long is stopped, and what it held fails
     * with UNAVAILABLE; 0: it is waited for. Of devices that poll() has. */
    uint64_t watchdog_ns;
    const struct cell_device_cache *cache; /* outlives the device; NULL: nothing is kept */
    bool lanes_off; /* GPUs: everything in streams, no kernel stays on its SM */
};

struct cell_device_caps {
    bool pumped; /* true: batches run inside pump() on the caller's thread */
    bool wakes;  /* calls options.wake after completions; else they must be polled */
    bool beside; /* two batches of a queue at once (cell_batch); it has type_tuning */
    bool spans;  /* takes several steps of a row side by side (cell_batch_row) */
    bool live;   /* types and rows of others may come and go while batches run, by another thread */
    bool label_beams;        /* takes beams of a transducer (struct cell_beam_labels) */
    bool invariant_bits;     /* results do not depend on batch composition, threads or ISA */
    const char *description; /* such as "cpu avx512, 2 threads"; lives as long as the device */
};

/* What may be chosen freely about how a device computes a type: no bit depends on it. */
struct cell_tuning {
    uint32_t
        ahead_rows; /* batches of up to so many rows use windows (cells/cpu/ahead.h); 0: none */
    uint32_t fill_steps; /* computed ahead for a row at a time, at most; 0: as the device reckons */
    uint32_t solo_rows;  /* batches of up to so many rows are one member's, whom the others help
                            where there is much to compute ahead; 0: all are the team's */
    uint32_t apart_rows; /* of so many rows and more each member runs some alone; 0: never */
    /* Batches of up to so many rows are best run by half of the team, beside one of another type.
     * Whoever forms batches keeps to it. */
    uint32_t beside_rows;
    uint32_t follow_rows; /* of up to so many also beside one whose steps it reads, or which reads
                             its (cell_batch.follows) */
    uint32_t knee_rows;   /* batches of more rows are hardly faster a row; 0: more may always be.
                             Likewise kept to by whoever forms them */
};

/* What of it there is to choose, as a set of bits. */
enum cell_tunable {
    CELL_TUNABLE_WINDOWS = 1,
    CELL_TUNABLE_TEAM = 2,
    CELL_TUNABLE_APART = 4,
    CELL_TUNABLE_BESIDE = 8, /* and half of the team is one member */
};

struct cell_backend {
    const char *name; /* "cpu", "blas", "reference", "cuda" */
    /* Its devices are cards of this machine, with numbers from 0 on: NAME:0,2 says which, not how
     * many. */
    bool is_numbered;

    enum base_status (*open)(const struct cell_device_options *options, struct cell_device **out,
                             struct base_error *error);
    void (*close)(struct cell_device *device);
    void (*caps)(const struct cell_device *device, struct cell_device_caps *out);

    /* Packs the weights and chooses kernels. UNIMPLEMENTED names the op that the backend lacks. */
    enum base_status (*type_load)(struct cell_device *device, const struct cell_type *type,
                                  struct base_error *error);
    void (*type_unload)(struct cell_device *device, const struct cell_type *type);

    /* (optional, both or none) type_tuning: what is in force, at first the device's own rule;
     * returns what there is to choose about how the device computes this type, or 0. type_tune:
     * from the next batch on; more than the device can do is as much as it can; NULL: its own rule
     * again. While no batch of the type is outstanding. */
    uint32_t (*type_tuning)(const struct cell_device *device, const struct cell_type *type,
                            struct cell_tuning *out);
    void (*type_tune)(struct cell_device *device, const struct cell_type *type,
                      const struct cell_tuning *tuning);

    /* (optional) Appends how a loaded type is computed, in lines for people. */
    void (*type_explain)(const struct cell_device *device, const struct cell_type *type,
                         struct base_buf *out);

    /* Bytes of one row; and memory for rows 0..count-1 of a layout (once per layout). */
    size_t (*row_bytes)(const struct cell_device *device, const struct cell_layout *layout);
    enum base_status (*rows_open)(struct cell_device *device, uint32_t layout_id,
                                  const struct cell_layout *layout, uint32_t count,
                                  struct base_error *error);

    /* (optional) Whether a row with this wiring can be computed at all, whoever else is in its
     * batch: RESOURCE_EXHAUSTED says how much too large it is. Any thread; of a loaded type. */
    enum base_status (*wiring_check)(const struct cell_device *device, const struct cell_type *type,
                                     const struct cell_wiring *wiring, struct base_error *error);

    /* Appends a batch to a queue, and the one beside it; it belongs to the device until completed()
     * passes it. Never blocks; the caller keeps at most batches_queued_max outstanding. */
    void (*submit)(struct cell_device *device, uint32_t queue, struct cell_batch *batch);

    /* The queue's counter: batches completed since open, each release-stored after the batch's
     * results, status and steps_done. */
    const _Atomic uint64_t *(*completed)(struct cell_device *device, uint32_t queue);

    /* (optional) The pool thread, in each of its turns, before it reads the counter: takes over
     * what the device has written since the last call (results, status and steps_done of batches,
     * then the counter), lets the watchdog judge, and starts anew what has ended while it has work.
     * Never blocks. A queue that waits for a device is polled several times per watchdog_ns. */
    void (*poll)(struct cell_device *device, uint32_t queue, uint64_t now_ns);

    /* (optional) Whether something on the device could not be stopped, so that nobody knows what it
     * still writes. What that queue holds, and is given from then on, fails with UNAVAILABLE; the
     * process should end. Pool thread. */
    bool (*is_lost)(const struct cell_device *device);

    /* (optional) Of a lost device: why, in words; lives as long as it. Pool thread. */
    const char *(*why_lost)(const struct cell_device *device);

    /* (optional) The queue's attention word, in memory that the device reaches, 0 at first; lives
     * as long as the device. NULL: the pool's own memory will do. */
    _Atomic uint32_t *(*attention)(struct cell_device *device, uint32_t queue);

    /* Pumped devices: runs the oldest submitted batch of the queue to its end; false when there
     * was none. NULL for others. */
    bool (*pump)(struct cell_device *device, uint32_t queue);

    /* (optional) Pumped devices: the queue's other threads begin the oldest submitted batch, if
     * they have not yet; the caller's part follows in pump(), which is next. Same thread as pump().
     */
    void (*begin)(struct cell_device *device, uint32_t queue);

    /* Tests and state moves, nothing outstanding: copies part `part` of a row to or from host
     * memory, parts as in the layout; state part as after `step` steps (parity). */
    void (*row_read)(struct cell_device *device, uint32_t layout_id, uint32_t row, uint32_t part,
                     uint32_t step, void *out);
    void (*row_write)(struct cell_device *device, uint32_t layout_id, uint32_t row, uint32_t part,
                      uint32_t step, const void *in);
};

/* By name, or NULL. Names are listed by cell_backend_at(0..) until NULL. */
const struct cell_backend *cell_backend_find(const char *name);
const struct cell_backend *cell_backend_at(uint32_t index);

#endif
