/* See mutants.h. No mutant: what the others differ from. */
#include "tests/cells/mutants/mutants.h"

#define CELL_TABLE      mutant_none__avx2
#define CELL_TABLE_TEXT "none"

#include "cells/cpu/kernels_body.h"
