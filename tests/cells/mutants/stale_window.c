/* The device's windows (cells/cpu/ahead.c) with one thing wrong, linked in the place of the right
 * ones: a row takes any window that holds its step, whoever's it was, so also one whose chain has
 * ended. */
#include "cells/cpu/ahead.h"

static void right_windows_fill(struct cell_view *view);
#define cell_windows_fill right_windows_fill
// NOLINTNEXTLINE(bugprone-suspicious-include): to be changed from outside
#include "cells/cpu/ahead.c"
#undef cell_windows_fill

void cell_windows_fill(struct cell_view *view)
{
    struct cell_windows *windows = view->run->windows;
    for (uint32_t r = 0; windows != NULL && view->member == 0 && r < view->n_rows; r++) {
        uint32_t step = cell_view_step(view, r);
        uint32_t w = r % CELL_WINDOWS;
        if (windows->windows[w].first <= step && step < windows->windows[w].end) {
            windows->windows[w].chain = cell_view_row(view, r)->wiring->chain;
        }
    }
    right_windows_fill(view);
}
