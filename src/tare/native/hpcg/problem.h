/*
 * The problem: a hierarchy of 27-point matrices (26 on the diagonal, -1 beside it), each on a grid of half the points
 * in every direction, and the order in which their rows may be swept by several threads.
 */
#ifndef HPCG_PROBLEM_H
#define HPCG_PROBLEM_H

#include <stdatomic.h>
#include <stdint.h>

#include "matrix.h"
#include "team.h"

enum { LEVELS = 4 };

/* How far a plane has been swept: chunks done since the beginning. A cache line of its own. */
struct progress {
    _Alignas(64) atomic_llong done;
};

struct level {
    int64_t nx, ny, nz;
    struct matrix matrix;
    /*
     * Rows are swept in chunks (a grid line each), chunks in planes. A chunk's rows have entries in their own plane
     * and the two beside it only; forward_wait counts the chunks of the plane before that must be done first,
     * backward_wait those of the plane after, both read off the matrix.
     */
    int64_t planes, plane_chunks, chunk_rows;
    int32_t *forward_wait, *backward_wait;
    struct progress *progress;
    double *product;                /* A z, for the residual; all levels but the coarsest */
    int32_t *fine_row;              /* of a coarse row: the row of the finer level at the same point; NULL on level 0 */
    double *residual, *correction;  /* right-hand side and solution of this level; NULL on level 0 */
};

struct problem {
    struct level levels[LEVELS];
    int64_t bytes; /* memory of all arrays together */
    double *b, *x, *r, *z, *p, *q;
};

/* Take the memory for a grid; dimensions are multiples of 8. Called once, before the team starts. */
void problem_allocate(struct problem *problem, int64_t nx, int64_t ny, int64_t nz);

/* Fill in matrices, order and right-hand side (whose solution is 1 everywhere); called by the whole team. */
void problem_build(struct problem *problem, struct member *member);

/* Chunks of a level. */
static inline int64_t level_chunks(const struct level *level)
{
    return level->planes * level->plane_chunks;
}

/* The rows of this thread's share of a level's chunks. */
struct range level_rows(const struct level *level, const struct member *member);

#endif
