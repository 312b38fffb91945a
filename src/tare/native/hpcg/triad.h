/* STREAM's triad a = b + s c, the same loop as in `kernels`: the memory bandwidth beside which the solver is held. */
#ifndef HPCG_TRIAD_H
#define HPCG_TRIAD_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels.h"

/* The best of several passes over three arrays of `length` doubles, in bytes per second (24 bytes an element). */
double triad_bandwidth(struct kernels kernels, int threads, bool pin, int64_t length);

#endif
