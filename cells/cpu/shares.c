/* See shares.h. Cost: of a border some nanoseconds a member, of learning some ten. */
#include "cells/cpu/shares.h"

#include "base/assert.h"

#include <math.h>

/* What one batch changes is an eighth of what it asks for, and it asks for no more than a quarter
 * of an even share: a member that was not running for a while says little about the next batch. */
#define PART_LEARNED 0.125F
#define PART_MOST    0.25F

/* A border moves when it is so far, in rows, from where it should be. More than half a row, or it
 * would go to and fro. */
#define FAR_OFF 0.75F

enum base_status cell_shares_init(struct cell_shares *shares, struct base_arena *arena,
                                  uint32_t members)
{
    base_assert(members > 0);
    *shares = (struct cell_shares){.members = members,
                                   .more = base_arena_array(arena, members, sizeof(float)),
                                   .moved = base_arena_array(arena, members, sizeof(int32_t))};
    return shares->more == NULL || shares->moved == NULL ? BASE_RESOURCE_EXHAUSTED : BASE_OK;
}

uint32_t cell_shares_even(uint32_t members, uint32_t n_rows, uint32_t member)
{
    return (uint32_t)(((uint64_t)n_rows * member + members - 1) / members);
}

/* The border before member m, behind the one before. */
static uint32_t next_border(const struct cell_shares *shares, uint32_t n_rows, uint32_t m,
                            uint32_t before)
{
    const uint32_t least = before + 1;
    const uint32_t most = n_rows - (shares->members - m);
    const int64_t at = (int64_t)cell_shares_even(shares->members, n_rows, m) + shares->moved[m];
    return at < least ? least : at > most ? most : (uint32_t)at;
}

uint32_t cell_shares_border(const struct cell_shares *shares, uint32_t n_rows, uint32_t member)
{
    if (n_rows < shares->members || member == shares->members) {
        return cell_shares_even(shares->members, n_rows, member);
    }
    uint32_t border = 0;
    for (uint32_t m = 1; m <= member; m++) {
        border = next_border(shares, n_rows, m, border);
    }
    return border;
}

static void move_borders(struct cell_shares *shares)
{
    float at = 0;
    for (uint32_t m = 1; m < shares->members; m++) {
        at += shares->more[m - 1];
        if (fabsf(at - (float)shares->moved[m]) > FAR_OFF) {
            shares->moved[m] = (int32_t)lrintf(at);
        }
    }
}

static float clamp(float value, float most)
{
    return fminf(fmaxf(value, -most), most);
}

void cell_shares_learn(struct cell_shares *shares, uint32_t n_rows, const uint64_t *ns)
{
    const uint32_t members = shares->members;
    if (n_rows < members) {
        return;
    }
    // Of one row: as the member that was the least late, or is the fastest, has it.
    float row_ns = INFINITY;
    float mean_ns = 0;
    for (uint32_t m = 0, first = 0; m < members; m++) {
        const uint32_t end = cell_shares_border(shares, n_rows, m + 1);
        row_ns = fminf(row_ns, (float)(ns[m] + 1) / (float)(end - first));
        mean_ns += (float)ns[m] / (float)members;
        first = end;
    }
    const float even = (float)n_rows / (float)members;
    const float most = fmaxf(1, even * PART_MOST);
    for (uint32_t m = 0, first = 0; m < members; m++) {
        const uint32_t end = cell_shares_border(shares, n_rows, m + 1);
        const float asked = clamp((mean_ns - (float)ns[m]) / row_ns, most);
        const float more = (float)(end - first) + asked - even;
        shares->more[m] += (more - shares->more[m]) * PART_LEARNED;
        first = end;
    }
    move_borders(shares);
}
