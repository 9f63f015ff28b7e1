/* The contract of a *lane*: what a host and a resident kernel say to each other, word by word.
 *
 * A lane is one launch that stays on its part of a device and runs tasks from a ring. C11 and CUDA
 * C++ both include this header; the tests' reference device speaks the same words from a thread.
 * docs/gpu.md tells it as a story. Everything stands in memory that both sides reach (pinned and
 * mapped, on a GPU); every word and every byte has one side that writes it.
 *
 *   host -> lane   ring of slots, row ids, input, attention, abort
 *   lane -> host   completed, results, outcomes, heartbeat, ended, fault record
 *
 * Sequence numbers count tasks from 1, for ever, over all launches. Slot seq & mask holds task seq.
 *
 * Rules of order, each at its site below and each proved by tests/lane/test_lane_model.c, where the
 * site's order is taken away and the proof must fail:
 *  1. A task's slot, row ids and input are written before its sequence number is published
 *     (release); a lane reads them behind having seen the number (acquire).
 *  2. Tagged words carry their own proof: 32 bits of data and 32 of the number in one 64-bit word,
 *     which no one can see torn, so all 16 may be read at once and in any order. They order nothing
 *     else, so word 0 is written last (release) and read with acquire: behind it the task's memory
 *     outside the slot may be read, and the slot's last result, which the host has read, be
 *     overwritten.
 *  3. A task's result, its rows' outcomes and all that it computed are written before the counter
 *     that says so (release); the host reads them behind the counter (acquire).
 *  4. A slot, its result and its row ids are written anew only behind that counter: the lane has
 *     read what it needed before it completed. So the ring needs no word for "free".
 *  5. A lane's last store of a launch is `ended` (release). The host reads `ended` (acquire) and
 *     then `completed`, never the other way: what was completed in between would run twice.
 *  6. Attention, abort and heartbeat carry no data, so they are relaxed: late is as good as later.
 *  7. A lane that parks and a host that submits may miss each other once. The host looks at `ended`
 *     while tasks are outstanding, not only when it submits, so nothing stays behind.
 * A launch itself orders: what the host wrote before it is visible to the kernel. */
#ifndef CELLS_LANE_CONTRACT_H
#define CELLS_LANE_CONTRACT_H

#include "cells/lane/word.h"

/* ---- Sites: every access to shared memory, with its order ---- */

/* X(NAME, order). The model checker takes each ACQUIRE and RELEASE of this table away in turn. */
#define CELL_LANE_SITES(X)                                                                         \
    X(HOST_WRITES_OUTSIDE, PLAIN)     /* row ids by offset, input rows */                          \
    X(HOST_WRITES_SLOT, PLAIN)        /* payload of a plain slot */                                \
    X(HOST_PUBLISHES_SLOT, RELEASE)   /* its sequence number (rule 1) */                           \
    X(HOST_WRITES_TAGGED, RELAXED)    /* words 15..1 of a tagged slot */                           \
    X(HOST_PUBLISHES_TAGGED, RELEASE) /* word 0 (rule 2) */                                        \
    X(LANE_POLLS_SLOT, ACQUIRE)       /* a plain slot's number (rule 1) */                         \
    X(LANE_READS_SLOT, PLAIN)         /* its payload */                                            \
    X(LANE_READS_TAGGED, RELAXED)     /* words 15..1 of a tagged slot */                           \
    X(LANE_POLLS_TAGGED, ACQUIRE)     /* its word 0 (rule 2) */                                    \
    X(LANE_READS_OUTSIDE, PLAIN)      /* row ids by offset, input rows */                          \
    X(LANE_WRITES_RESULT, PLAIN)      /* status, steps, outcomes, output rows */                   \
    X(LANE_COMPLETES, RELEASE)        /* the counter (rule 3) */                                   \
    X(HOST_READS_COMPLETED, ACQUIRE)  /* the counter (rules 3, 4) */                               \
    X(HOST_READS_RESULT, PLAIN)       /* status, steps, outcomes, output rows */                   \
    X(HOST_RAISES_ATTENTION, RELAXED) /* (rule 6) */                                               \
    X(LANE_READS_ATTENTION, RELAXED)                                                               \
    X(HOST_ABORTS, RELAXED)                                                                        \
    X(LANE_READS_ABORT, RELAXED)                                                                   \
    X(LANE_BEATS, RELAXED)                                                                         \
    X(HOST_READS_HEARTBEAT, RELAXED)                                                               \
    X(LANE_WRITES_FAULT, PLAIN)                                                                    \
    X(LANE_ENDS, RELEASE)        /* the last store of a launch (rule 5) */                         \
    X(HOST_READS_ENDED, ACQUIRE) /* before the counter (rule 5) */                                 \
    X(HOST_READS_FAULT, PLAIN)

enum cell_lane_site {
#define CELL_LANE_SITE_ENUM(name, order) CELL_LANE_SITE_##name,
    CELL_LANE_SITES(CELL_LANE_SITE_ENUM)
#undef CELL_LANE_SITE_ENUM
        CELL_LANE_SITE_COUNT
};

enum {
#define CELL_LANE_ORDER_ENUM(name, order) CELL_LANE_ORDER_##name = CELL_LANE_##order,
    CELL_LANE_SITES(CELL_LANE_ORDER_ENUM)
#undef CELL_LANE_ORDER_ENUM
};

/* A test that defines CELL_LANE_TRACE hears of each access in program order, and compares what the
 * functions below do with what the model checker's programs do. */
#ifdef CELL_LANE_TRACE
void cell_lane_trace(enum cell_lane_site site);
#    define CELL_LANE_NOTE(name) cell_lane_trace(CELL_LANE_SITE_##name)
#else
#    define CELL_LANE_NOTE(name) ((void)0)
#endif
#define CELL_LANE_AT(name) (CELL_LANE_NOTE(name), (enum cell_lane_order)CELL_LANE_ORDER_##name)

/* ---- Tasks ---- */

enum cell_lane_op {
    CELL_LANE_RUN = 1, /* n_rows rows of a cell for up to k_steps steps */
    CELL_LANE_JOIN,    /* rows become active; their states are zeroed first */
    CELL_LANE_LEAVE,   /* rows stop being active */
    CELL_LANE_MOVE,    /* rows' states to or from x_ref */
    CELL_LANE_LOADW,   /* weights of a cell from x_ref */
    CELL_LANE_FENCE,   /* completes when all before it have */
    CELL_LANE_PARK,    /* the launch ends behind it; tasks behind it wait for the next */
    CELL_LANE_EXIT,    /* the same for good */
};
#define CELL_LANE_OPS 8u

enum cell_lane_flags {
    CELL_LANE_INTERRUPTIBLE = 1,  /* RUN: looks at attention before each step but the first */
    CELL_LANE_ROWS_BY_OFFSET = 2, /* row ids stand at rows_off of the lane's row ids */
};

#define CELL_LANE_SLOT_BYTES    128u
#define CELL_LANE_HEADER_WORDS  8u  /* 32-bit words of a task before its inline row ids */
#define CELL_LANE_PLAIN_WORDS   30u /* behind the sequence number */
#define CELL_LANE_TAGGED_WORDS  16u
#define CELL_LANE_PLAIN_INLINE  (CELL_LANE_PLAIN_WORDS - CELL_LANE_HEADER_WORDS)
#define CELL_LANE_TAGGED_INLINE (CELL_LANE_TAGGED_WORDS - CELL_LANE_HEADER_WORDS)
#define CELL_LANE_STEPS_MAX     0xFFFFu

/* A task as both sides think of it; how it stands in a slot is below. */
struct cell_lane_task {
    uint16_t op; /* enum cell_lane_op */
    uint16_t cell;
    uint16_t n_rows;
    uint16_t k_steps;
    uint32_t flags;
    uint32_t rows_off; /* index into the lane's row ids; 0 without ROWS_BY_OFFSET */
    uint64_t x_ref;    /* address of input or references, or 0 */
    uint64_t user_tag; /* the host's, untouched */
    uint32_t rows[CELL_LANE_PLAIN_INLINE]; /* row ids, n_rows of them unless ROWS_BY_OFFSET */
};

/* Two forms of one slot. */
enum cell_lane_form {
    CELL_LANE_FORM_PLAIN, /* number, then payload: two reads over the bus, 22 row ids inline */
    CELL_LANE_FORM_TAGGED /* 16 words of data and number: one read, 8 row ids inline */
};

struct cell_lane_plain_slot {
    cell_word64 seq;
    uint32_t words[CELL_LANE_PLAIN_WORDS];
};

struct cell_lane_tagged_slot {
    cell_word64 words[CELL_LANE_TAGGED_WORDS]; /* data in the low half, number in the high */
};

union cell_lane_slot {
    alignas(CELL_LANE_SLOT_BYTES) struct cell_lane_plain_slot plain;
    struct cell_lane_tagged_slot tagged;
};

CELL_LANE_STATIC_ASSERT(sizeof(struct cell_lane_plain_slot) == CELL_LANE_SLOT_BYTES, "one line");
CELL_LANE_STATIC_ASSERT(sizeof(struct cell_lane_tagged_slot) == CELL_LANE_SLOT_BYTES, "one line");
CELL_LANE_STATIC_ASSERT(sizeof(union cell_lane_slot) == CELL_LANE_SLOT_BYTES, "one line");
CELL_LANE_STATIC_ASSERT(offsetof(struct cell_lane_plain_slot, words) == 8, "no gap");

/* What a lane says of a task; one a slot, written before the counter. */
struct cell_lane_result {
    uint32_t status;     /* 0, or an enum base_status by its number */
    uint32_t steps_done; /* of RUN */
};

/* Of one row of RUN: steps done, and whether its chain has ended by itself. */
#define CELL_LANE_ROW_ENDED 0x80000000u

/* ---- Control words ---- */

#define CELL_LANE_LINE_BYTES 128u

/* Where a lane waits, for the fault record. */
enum cell_lane_wait_site {
    CELL_LANE_WAIT_NONE,
    CELL_LANE_WAIT_SLOT,     /* the dispatcher, for the next task */
    CELL_LANE_WAIT_TASK,     /* a block, for the dispatcher */
    CELL_LANE_WAIT_EXCHANGE, /* a block, for the others' h of this step */
    CELL_LANE_WAIT_ROW,      /* a row's version, written by another lane */
};

struct cell_lane_fault {
    uint32_t lane;
    uint32_t block;
    uint32_t site; /* enum cell_lane_wait_site */
    uint32_t reserved;
    uint64_t epoch; /* task or step that never came */
};

/* Why a launch ended. */
enum cell_lane_end {
    CELL_LANE_END_PARKED = 1, /* idle for its time, or op PARK */
    CELL_LANE_END_EXITED,     /* op EXIT */
    CELL_LANE_END_LIMIT,      /* it has run as many tasks as it was launched for */
    CELL_LANE_END_ABORTED,    /* saw the abort word */
    CELL_LANE_END_FAULT,      /* a wait took too long: see the fault record */
};

/* 128-byte lines, so that no poll of one side slows a store of the other. Zeroed before the first
 * launch and by nobody after it. */
struct cell_lane_control {
    /* The host's. */
    alignas(CELL_LANE_LINE_BYTES) cell_word64 abort; /* number of the launch that is to end */
    cell_word32 attention;                           /* not 0: end the run after this step */
    /* The lane's. */
    alignas(CELL_LANE_LINE_BYTES) cell_word64 completed; /* tasks; never falls */
    alignas(CELL_LANE_LINE_BYTES) cell_word64 heartbeat; /* grows while steps or idle polls go on */
    cell_word64 ended; /* launch << 8 | enum cell_lane_end, of the last launch that ended */
    alignas(CELL_LANE_LINE_BYTES) struct cell_lane_fault fault; /* of END_FAULT */
};

CELL_LANE_STATIC_ASSERT(sizeof(struct cell_lane_control) == 512, "4 lines");
CELL_LANE_STATIC_ASSERT(offsetof(struct cell_lane_control, attention) == 8, "one read has both");
CELL_LANE_STATIC_ASSERT(offsetof(struct cell_lane_control, completed) == 128, "its own line");
CELL_LANE_STATIC_ASSERT(offsetof(struct cell_lane_control, heartbeat) == 256, "its own line");
CELL_LANE_STATIC_ASSERT(offsetof(struct cell_lane_control, ended) == 264, "beside heartbeat");
CELL_LANE_STATIC_ASSERT(offsetof(struct cell_lane_control, fault) == 384, "its own line");
CELL_LANE_STATIC_ASSERT(sizeof(struct cell_lane_fault) == 24, "no gap");
CELL_LANE_STATIC_ASSERT(sizeof(struct cell_lane_result) == 8, "no gap");

/* All of one lane. The arrays are of n_slots, which is a power of two. */
struct cell_lane {
    struct cell_lane_control *control;
    union cell_lane_slot *slots;
    struct cell_lane_result *results;
    uint32_t *row_ids;  /* [n_slots][rows_max], the host's */
    uint32_t *outcomes; /* [n_slots][rows_max], the lane's */
    uint32_t n_slots;
    uint32_t rows_max; /* of a task */
    enum cell_lane_form form;
};

/* What a launch is told: arguments of the kernel. */
struct cell_lane_launch {
    uint64_t number;    /* from 1 */
    uint64_t first;     /* the task it begins with; all before it are settled */
    uint64_t tasks_max; /* ends with END_LIMIT after so many; 0: no limit */
};

CELL_LANE_FN uint32_t cell_lane_index(const struct cell_lane *lane, uint64_t seq)
{
    return (uint32_t)(seq & (lane->n_slots - 1));
}

CELL_LANE_FN uint32_t cell_lane_inline_max(const struct cell_lane *lane)
{
    return lane->form == CELL_LANE_FORM_PLAIN ? CELL_LANE_PLAIN_INLINE : CELL_LANE_TAGGED_INLINE;
}

/* ---- A task's words ---- */

CELL_LANE_FN uint32_t cell_lane_task_word(const struct cell_lane_task *task, uint32_t i)
{
    switch (i) {
    case 0:
        return (uint32_t)task->op | (uint32_t)task->cell << 16;
    case 1:
        return (uint32_t)task->n_rows | (uint32_t)task->k_steps << 16;
    case 2:
        return task->flags;
    case 3:
        return task->rows_off;
    case 4:
        return (uint32_t)task->x_ref;
    case 5:
        return (uint32_t)(task->x_ref >> 32);
    case 6:
        return (uint32_t)task->user_tag;
    case 7:
        return (uint32_t)(task->user_tag >> 32);
    default:
        return task->rows[i - CELL_LANE_HEADER_WORDS];
    }
}

CELL_LANE_FN void cell_lane_task_from(const uint32_t *words, uint32_t n, struct cell_lane_task *out)
{
    out->op = (uint16_t)words[0];
    out->cell = (uint16_t)(words[0] >> 16);
    out->n_rows = (uint16_t)words[1];
    out->k_steps = (uint16_t)(words[1] >> 16);
    out->flags = words[2];
    out->rows_off = words[3];
    out->x_ref = (uint64_t)words[4] | (uint64_t)words[5] << 32;
    out->user_tag = (uint64_t)words[6] | (uint64_t)words[7] << 32;
    for (uint32_t i = CELL_LANE_HEADER_WORDS; i < n; i++) {
        out->rows[i - CELL_LANE_HEADER_WORDS] = words[i];
    }
}

/* ---- The host's side ---- */

/* Writes task seq into its slot and publishes it. The slot is free: task seq - n_slots is settled
 * (rule 4). What it names outside the slot is written already. */
CELL_LANE_FN void cell_lane_publish(const struct cell_lane *lane, uint64_t seq,
                                    const struct cell_lane_task *task)
{
    union cell_lane_slot *slot = &lane->slots[cell_lane_index(lane, seq)];
    if (lane->form == CELL_LANE_FORM_PLAIN) {
        CELL_LANE_NOTE(HOST_WRITES_SLOT);
        for (uint32_t i = 0; i < CELL_LANE_PLAIN_WORDS; i++) {
            slot->plain.words[i] = cell_lane_task_word(task, i);
        }
        cell_word64_store(&slot->plain.seq, seq, CELL_LANE_AT(HOST_PUBLISHES_SLOT));
        return;
    }
    const uint64_t tag = (seq & 0xFFFFFFFFu) << 32;
    for (uint32_t i = CELL_LANE_TAGGED_WORDS - 1; i > 0; i--) {
        cell_word64_store(&slot->tagged.words[i], tag | cell_lane_task_word(task, i),
                          CELL_LANE_AT(HOST_WRITES_TAGGED));
    }
    cell_word64_store(&slot->tagged.words[0], tag | cell_lane_task_word(task, 0),
                      CELL_LANE_AT(HOST_PUBLISHES_TAGGED));
}

CELL_LANE_FN void cell_lane_abort(const struct cell_lane *lane, uint64_t launch)
{
    cell_word64_store(&lane->control->abort, launch, CELL_LANE_AT(HOST_ABORTS));
}

CELL_LANE_FN void cell_lane_attend(const struct cell_lane *lane, uint32_t value)
{
    cell_word32_store(&lane->control->attention, value, CELL_LANE_AT(HOST_RAISES_ATTENTION));
}

CELL_LANE_FN uint64_t cell_lane_completed(const struct cell_lane *lane)
{
    return cell_word64_load(&lane->control->completed, CELL_LANE_AT(HOST_READS_COMPLETED));
}

CELL_LANE_FN uint64_t cell_lane_heartbeat(const struct cell_lane *lane)
{
    return cell_word64_load(&lane->control->heartbeat, CELL_LANE_AT(HOST_READS_HEARTBEAT));
}

/* Why launch `number` ended, or 0: it has not. */
CELL_LANE_FN uint32_t cell_lane_ended(const struct cell_lane *lane, uint64_t number)
{
    uint64_t word = cell_word64_load(&lane->control->ended, CELL_LANE_AT(HOST_READS_ENDED));
    return word >> 8 == number ? (uint32_t)(word & 0xFF) : 0;
}

/* ---- The lane's side ---- */

/* Task seq, or false: it is not there yet. Behind true, what the task names outside its slot may be
 * read. */
CELL_LANE_FN bool cell_lane_take(const struct cell_lane *lane, uint64_t seq,
                                 struct cell_lane_task *out)
{
    const union cell_lane_slot *slot = &lane->slots[cell_lane_index(lane, seq)];
    uint32_t words[CELL_LANE_TAGGED_WORDS];
    if (lane->form == CELL_LANE_FORM_PLAIN) {
        if (cell_word64_load(&slot->plain.seq, CELL_LANE_AT(LANE_POLLS_SLOT)) != seq) {
            return false;
        }
        CELL_LANE_NOTE(LANE_READS_SLOT);
        cell_lane_task_from(slot->plain.words, CELL_LANE_PLAIN_WORDS, out);
        return true;
    }
    for (uint32_t i = CELL_LANE_TAGGED_WORDS; i-- > 0;) {
        const uint64_t word =
            i > 0 ? cell_word64_load(&slot->tagged.words[i], CELL_LANE_AT(LANE_READS_TAGGED))
                  : cell_word64_load(&slot->tagged.words[i], CELL_LANE_AT(LANE_POLLS_TAGGED));
        if (word >> 32 != (seq & 0xFFFFFFFFu)) {
            return false;
        }
        words[i] = (uint32_t)word;
    }
    cell_lane_task_from(words, CELL_LANE_TAGGED_WORDS, out);
    return true;
}

/* The same by a warp, of a lane with tagged slots: thread i < CELL_LANE_TAGGED_WORDS reads word i.
 * All are one load, so that all acquire. The task is there when it is true of every one of them;
 * behind a barrier of the warp all its threads may read what the task names. */
CELL_LANE_FN bool cell_lane_take_word(const struct cell_lane *lane, uint64_t seq, uint32_t i,
                                      uint32_t *out)
{
    const union cell_lane_slot *slot = &lane->slots[cell_lane_index(lane, seq)];
    const uint64_t word = cell_word64_load(&slot->tagged.words[i], CELL_LANE_AT(LANE_POLLS_TAGGED));
    *out = (uint32_t)word;
    return word >> 32 == (seq & 0xFFFFFFFFu);
}

/* Results and outcomes of task seq are written. */
CELL_LANE_FN void cell_lane_complete(const struct cell_lane *lane, uint64_t seq)
{
    cell_word64_store(&lane->control->completed, seq, CELL_LANE_AT(LANE_COMPLETES));
}

/* Once a step and once an idle poll; beats: how often, over all launches of the lane. */
CELL_LANE_FN void cell_lane_beat(const struct cell_lane *lane, uint64_t beats)
{
    cell_word64_store(&lane->control->heartbeat, beats, CELL_LANE_AT(LANE_BEATS));
}

CELL_LANE_FN bool cell_lane_is_aborted(const struct cell_lane *lane, uint64_t launch)
{
    return cell_word64_load(&lane->control->abort, CELL_LANE_AT(LANE_READS_ABORT)) == launch;
}

CELL_LANE_FN bool cell_lane_has_attention(const struct cell_lane *lane)
{
    return cell_word32_load(&lane->control->attention, CELL_LANE_AT(LANE_READS_ATTENTION)) != 0;
}

/* The launch touches nothing of the lane behind this. */
CELL_LANE_FN void cell_lane_end(const struct cell_lane *lane, uint64_t launch,
                                enum cell_lane_end why)
{
    cell_word64_store(&lane->control->ended, launch << 8 | (uint64_t)why, CELL_LANE_AT(LANE_ENDS));
}

#endif
