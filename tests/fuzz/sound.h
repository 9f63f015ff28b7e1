/* What must be so for any model that was accepted: of what fuzzers make, and of the exports. */
#ifndef TESTS_FUZZ_SOUND_H
#define TESTS_FUZZ_SOUND_H

#include "cells/model.h"

/* Asserts that what each stage and output reads is made before it, and is as wide as it is read. */
void sound_model(const struct cell_model *model);

#endif
