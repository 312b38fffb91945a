/*
 * Conjugate gradients with one multigrid V-cycle as preconditioner (Dongarra, Heroux and Luszczek, "High-performance
 * conjugate-gradient benchmark", 2016), run by the whole team. Gauss-Seidel keeps the natural order of rows exactly,
 * however many threads there are: their results agree bit by bit.
 */
#ifndef HPCG_SOLVER_H
#define HPCG_SOLVER_H

#include <stdbool.h>

#include "kernels.h"
#include "problem.h"
#include "team.h"

struct solver {
    struct problem *problem;
    struct kernels kernels;
    struct member member;
    long long swept[LEVELS]; /* chunks of each plane swept since the beginning: the same in every thread */
};

/* The result of one solution, the same in every thread. */
struct outcome {
    int iterations;
    double residual, first_residual; /* 2-norms of b - A x, as the recurrence gives them: at the end, for x = 0 */
};

/* y = A x on the finest level; returns x·y. */
double solver_multiply(struct solver *solver, const double *x, double *y);

/* Returns x·y on the finest level. */
double solver_dot(struct solver *solver, const double *x, const double *y);

/* z = an approximation of A⁻¹ r: one V-cycle, a symmetric Gauss-Seidel sweep before and after each coarser level. */
void solver_precondition(struct solver *solver, const double *r, double *z);

/*
 * Solve A x = b from x = 0, until the residual has fallen to `tolerance` of the first or `limit` iterations are done.
 * b, x, r, z, p and q of the problem are used.
 */
struct outcome solver_solve(struct solver *solver, int limit, double tolerance, bool preconditioned);

#endif
