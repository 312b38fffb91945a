/* Whether the solver does what it should. Every test is run by the whole team; results are the same in each thread. */
#ifndef HPCG_VALIDITY_H
#define HPCG_VALIDITY_H

#include "solver.h"

/* What was found. The limits are the reader's business (and stand in the adapter). */
struct validity {
    /* |x·A y - y·A x| over 2 |x| |A| |y| ε for random x, y; the same for the preconditioner in A's place. */
    double matrix_asymmetry, preconditioner_asymmetry;
    /* Iterations until the residual has fallen by 1e-12 with a dominating diagonal of few distinct values. */
    int spectral_plain, spectral_preconditioned;
    /* Largest difference from the plain V-cycle's result, over that result's largest value. */
    double preconditioner_difference;
};

struct validity validity_test(struct solver *solver);

/* |b - A x| over |b|, for the x of the last solution. */
double validity_true_residual(struct solver *solver);

#endif
