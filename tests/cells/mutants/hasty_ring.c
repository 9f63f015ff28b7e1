/* The device's windows (cells/cpu/ahead.c) with one thing wrong, linked in the place of the right
 * ones: sums of a single row's later steps are made before those have been read whose place they
 * take. */
#include "cells/cpu/ahead.h"

static void right_windows_fill(struct cell_view *view);
#define cell_windows_fill right_windows_fill
// NOLINTNEXTLINE(bugprone-suspicious-include): to be changed from outside
#include "cells/cpu/ahead.c"
#undef cell_windows_fill

void cell_windows_fill(struct cell_view *view)
{
    struct cell_windows *windows = view->run->windows;
    right_windows_fill(view);
    if (windows != NULL && is_open(&windows->ring)) {
        struct ring *ring = &windows->ring;
        atomic_store(&ring->done, view->step + ring->piece_steps);
        while (cell_windows_has_work(windows)) {
            cell_windows_help(view);
        }
    }
}
