/* Plug-ins that are refused when they are loaded, one for each VARIANT, which the Makefile sets. */
#include <cellbatch/unfold.h>
#include <stddef.h>

#ifndef VARIANT
#    define VARIANT 1
#endif

static const char *unfold(const struct cellbatch_request *request, struct cellbatch_graph *graph)
{
    (void)request;
    (void)graph;
    return NULL;
}

#if VARIANT == 1
#    define ABI 99u
#else
#    define ABI CELLBATCH_UNFOLD_ABI
#endif

static const struct cellbatch_tensor tensors[] = {
    {.name = VARIANT == 3 ? "" : "a",
     .datatype = VARIANT == 4 ? 9 : CELLBATCH_FP32,
     .rank = 1,
     .dims = {VARIANT == 5 ? 0 : -1}},
    {.name = VARIANT == 6 ? "a" : "b", .datatype = CELLBATCH_FP32, .rank = 1, .dims = {2}}};

#if VARIANT == 2 // the symbol has another name
extern const struct cellbatch_unfold cellbatch_other;
#    define EXPORTED cellbatch_other
#else
#    define EXPORTED cellbatch_unfold
#endif

const struct cellbatch_unfold EXPORTED = {.abi = ABI,
                                          .n_inputs = VARIANT == 7 ? 0 : 2,
                                          .n_outputs = 2,
                                          .inputs = tensors,
                                          .outputs = tensors,
                                          .unfold = VARIANT == 8 ? NULL : unfold};
