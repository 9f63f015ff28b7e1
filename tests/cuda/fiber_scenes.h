/* What a one-SM lane meets in its life, each as a scene that goes well or says why not: under any
 * schedule, and with something taken away. */
#ifndef TESTS_CUDA_FIBER_SCENES_H
#define TESTS_CUDA_FIBER_SCENES_H

#include "tests/cuda/fiber_lane.h"

#define FIBER_SCENE_TEXT 320u

enum fiber_scene_kind {
    FIBER_SCENE_BUSY,   /* chains join and leave, attention, rows by offset, tasks behind tasks */
    FIBER_SCENE_SINGLE, /* one chain */
    FIBER_SCENE_JOIN,   /* states zeroed by JOIN */
    FIBER_SCENE_ABORT,  /* the memory of requests is used again behind the launch's end */
    FIBER_SCENE_FAULT,  /* a thread does not come to a barrier */
    FIBER_SCENES
};

/* Plays it on a kernel of 16 units in fp32; false and why, if something was wrong. */
bool fiber_scene(uint32_t scene, const struct fiber_lane_kernel *kernel,
                 const struct fiber_options *options, char text[FIBER_SCENE_TEXT]);

#endif
