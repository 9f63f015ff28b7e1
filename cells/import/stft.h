/* STFT of a real signal along the steps is a convolution: at each frame the products of its
 * samples, times the window, with a cosine and a sine of each frequency. (Of 512 samples 0.26
 * million multiply-adds a frame; an FFT would take a twentieth of the operations, and a pass of its
 * own.) */
#ifndef CELLS_IMPORT_STFT_H
#define CELLS_IMPORT_STFT_H

#include "cells/import/writer.h"

/* As the rules of write_out.c. */
enum base_status cell__write_stft(struct cell__writer *w);

#endif
