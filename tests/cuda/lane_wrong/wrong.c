/* See wrong.h. A word that is none of them ends the program before its suite begins. */
#include "tests/cuda/lane_wrong/wrong.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const words[LANE_WRONG_COUNT] = {
    [LANE_WRONG_NOTHING] = "nothing", [LANE_WRONG_STEPS] = "steps",
    [LANE_WRONG_PARITY] = "parity",   [LANE_WRONG_LAST] = "last",
    [LANE_WRONG_APART] = "apart",     [LANE_WRONG_INIT] = "init",
    [LANE_WRONG_OUT] = "out",         [LANE_WRONG_X] = "x",
    [LANE_WRONG_FIRST] = "first",     [LANE_WRONG_ROWS] = "rows",
    [LANE_WRONG_SLOT] = "slot",       [LANE_WRONG_LENGTH] = "length",
    [LANE_WRONG_OPEN] = "open",       [LANE_WRONG_CLOSED] = "closed",
    [LANE_WRONG_EARLY] = "early",     [LANE_WRONG_ATTENTION] = "attention",
    [LANE_WRONG_DIED] = "died",       [LANE_WRONG_PARK] = "park",
    [LANE_WRONG_FITS] = "fits",
};

static enum lane_wrong chosen;

__attribute__((constructor)) static void choose(void)
{
    const char *word = getenv("CELLBATCH_LANE_WRONG");
    for (uint32_t w = 0; w < LANE_WRONG_COUNT; w++) {
        if (word != NULL && strcmp(word, words[w]) == 0) {
            chosen = (enum lane_wrong)w;
            return;
        }
    }
    (void)fprintf(stderr, "CELLBATCH_LANE_WRONG: there is no '%s'\n", word == NULL ? "" : word);
    _exit(3);
}

bool lane_wrong_is(enum lane_wrong wrong)
{
    return chosen == wrong;
}
