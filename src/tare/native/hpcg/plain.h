/* The same algorithm in its plainest form: one thread, textbook loops, no shortcut. What the fast one is held to. */
#ifndef HPCG_PLAIN_H
#define HPCG_PLAIN_H

#include "problem.h"

/* z = an approximation of A⁻¹ r by one V-cycle on a level; uses that level's and the coarser ones' vectors. */
void plain_precondition(struct problem *problem, int number, const double *r, double *z);

/* Solve A x = b from x = 0 by `iterations` steps; returns the last residual over the first. */
double plain_solve(struct problem *problem, int iterations);

#endif
