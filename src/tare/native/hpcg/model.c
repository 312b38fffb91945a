#include "model.h"

enum { DOUBLE = 8, INDEX = 4 };

double model_flops(const struct problem *problem, int iterations)
{
    const struct matrix *finest = &problem->levels[0].matrix;
    double rows = (double)finest->rows, cycle = 0;
    for (int number = 0; number < LEVELS; number++) {
        double entries = (double)problem->levels[number].matrix.nonzeros;
        /* before and after, and the residual between them; once on the coarsest level */
        cycle += (number < LEVELS - 1 ? 4 + 2 + 4 : 4) * entries;
    }
    double dots = (3. * iterations + 1) * 2 * rows, sums = (3. * iterations + 1) * 2 * rows;
    double products = (iterations + 1.) * 2 * (double)finest->nonzeros;
    return dots + sums + products + iterations * cycle;
}

/* Bytes of one V-cycle. */
static double cycle_bytes(const struct problem *problem)
{
    double bytes = 0;
    for (int number = 0; number < LEVELS; number++) {
        double rows = (double)problem->levels[number].matrix.rows;
        double up_from_zero = HALF_ROW_BYTES + 2 * DOUBLE; /* read b, write x */
        double sweep = ROW_BYTES + 3 * DOUBLE;             /* read b and x, write x */
        double product = ROW_BYTES + 2 * DOUBLE;           /* read x, write y */
        bytes += rows * (up_from_zero + sweep);
        if (number < LEVELS - 1)
            bytes += rows * (product + 2 * sweep);
        if (number > 0) /* restriction and prolongation at this level's points */
            bytes += rows * ((3 * DOUBLE + INDEX) + (3 * DOUBLE + INDEX));
    }
    return bytes;
}

double model_bytes(const struct problem *problem, int iterations)
{
    double rows = (double)problem->levels[0].matrix.rows;
    double product = rows * (ROW_BYTES + 2 * DOUBLE); /* with the dot product of the two vectors */
    double begin = rows * (2 + 3 + 1) * DOUBLE;       /* zero x and p; r = b - q; r·r */
    double rho = rows * 2 * DOUBLE;                   /* r·z */
    double direction = rows * 3 * DOUBLE;             /* p = z + beta p */
    double advance = rows * 6 * DOUBLE;               /* x and r, with r·r */
    return product + begin + iterations * (cycle_bytes(problem) + rho + direction + product + advance);
}
