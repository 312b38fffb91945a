/* The loops over rows that take the time, once for each instruction set. All work on the rows first … end-1. */
#ifndef HPCG_KERNELS_H
#define HPCG_KERNELS_H

#include <stdint.h>

#include "isa.h"
#include "matrix.h"

struct kernels {
    /* One Gauss-Seidel step for each row, upwards: x[i] = (b[i] - sum of A[i][j] x[j], j ≠ i) / A[i][i]. */
    void (*forward)(const struct matrix *matrix, const double *b, double *x, int64_t first, int64_t end);
    /* The same as if x were zero before: entries above the diagonal are left out, and x is written only. */
    void (*forward_from_zero)(const struct matrix *matrix, const double *b, double *x, int64_t first, int64_t end);
    /* The same as forward, downwards. */
    void (*backward)(const struct matrix *matrix, const double *b, double *x, int64_t first, int64_t end);
    /* y = A x; returns the rows' part of x·y. */
    double (*multiply)(const struct matrix *matrix, const double *x, double *y, int64_t first, int64_t end);
    /* Returns the rows' part of x·y. */
    double (*dot)(const double *x, const double *y, int64_t first, int64_t end);
    /* w = x + factor y; w may be x or y. */
    void (*add)(double *w, const double *x, double factor, const double *y, int64_t first, int64_t end);
    /* x += alpha p, r -= alpha q; returns the rows' part of r·r. */
    double (*advance)(double *x, double *r, double alpha, const double *p, const double *q, int64_t first,
                      int64_t end);
};

/* The kernels of an instruction set. */
struct kernels kernels_of(enum isa isa);

extern const struct kernels kernels_base;
#if ISA_LEVELS > 1
extern const struct kernels kernels_v3, kernels_v4;
#endif

#endif
