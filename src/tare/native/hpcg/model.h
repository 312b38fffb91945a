/* How much work a set of iterations is, by formula: for the rates that are reported. */
#ifndef HPCG_MODEL_H
#define HPCG_MODEL_H

#include "problem.h"

/* Operations as the benchmark counts them: 2 per entry for each product, 4 per entry for each symmetric sweep. */
double model_flops(const struct problem *problem, int iterations);

/*
 * Bytes that must come from or go to memory: every matrix row that a loop passes (values, columns, diagonal; the first
 * sweep up passes half of it) and every vector once per loop, on all levels. What a loop reads a second time counts
 * as cached, and a write as one transfer, as in STREAM.
 */
double model_bytes(const struct problem *problem, int iterations);

#endif
