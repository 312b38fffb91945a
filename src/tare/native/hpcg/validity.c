#include "validity.h"

#include <float.h>
#include <math.h>

#include "plain.h"

/* Bound of |A|: every row has 26 on its diagonal and at most 26 ones beside it. */
static const double MATRIX_NORM = 52;
/* What replaces the diagonal in the spectral test: nine rows with a value each, one value for all others. */
enum { DISTINCT_ROWS = 9, SPECTRAL_LIMIT = 50 };
static const double DOMINATING = 1e6, SPECTRAL_TOLERANCE = 1e-12;

/* A number in [0, 1) that depends on row and seed only, not on the thread (splitmix64's finaliser). */
static double noise(uint64_t row, uint64_t seed)
{
    uint64_t bits = (row + seed * UINT64_C(0x100000001b3) + 1) * UINT64_C(0x9e3779b97f4a7c15);
    bits = (bits ^ (bits >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    bits = (bits ^ (bits >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (double)((bits ^ (bits >> 31)) >> 11) * 0x1p-53;
}

static struct range own_rows(const struct solver *solver)
{
    return level_rows(&solver->problem->levels[0], &solver->member);
}

static void fill_with_noise(struct solver *solver, double *x, uint64_t seed)
{
    struct range rows = own_rows(solver);
    for (int64_t row = rows.first; row < rows.end; row++)
        x[row] = noise((uint64_t)row, seed);
    member_meet(&solver->member);
}

/* Both departures from symmetry, for x and y in r and p; the products go to z. */
static void test_symmetry(struct solver *solver, struct validity *found)
{
    double *x = solver->problem->r, *y = solver->problem->p, *product = solver->problem->z;
    fill_with_noise(solver, x, 1);
    fill_with_noise(solver, y, 2);
    double scale = 2 * MATRIX_NORM * sqrt(solver_dot(solver, x, x) * solver_dot(solver, y, y)) * DBL_EPSILON;
    solver_multiply(solver, y, product);
    double forth = solver_dot(solver, x, product);
    solver_multiply(solver, x, product);
    double back = solver_dot(solver, y, product);
    found->matrix_asymmetry = fabs(forth - back) / scale;
    solver_precondition(solver, y, product);
    forth = solver_dot(solver, x, product);
    solver_precondition(solver, x, product);
    back = solver_dot(solver, y, product);
    found->preconditioner_asymmetry = fabs(forth - back) / scale;
}

/* The fast V-cycle against the plain one, for the noise in r; the results are in z and q. */
static void test_preconditioner(struct solver *solver, struct validity *found)
{
    struct problem *all = solver->problem;
    solver_precondition(solver, all->r, all->z);
    if (solver->member.rank == 0)
        plain_precondition(all, 0, all->r, all->q);
    member_meet(&solver->member);
    double difference = 0, largest = 0;
    for (int64_t row = 0; row < all->levels[0].matrix.rows; row++) {
        difference = fmax(difference, fabs(all->z[row] - all->q[row]));
        largest = fmax(largest, fabs(all->q[row]));
        if (isnan(all->z[row]))
            difference = INFINITY; /* fmax passes over it */
    }
    found->preconditioner_difference = difference / largest;
    member_meet(&solver->member);
}

/* Multiply diagonal and right-hand side as the spectral test wants it, or set them back. */
static void scale_diagonal(struct solver *solver, bool dominating)
{
    struct problem *all = solver->problem;
    struct matrix *matrix = &all->levels[0].matrix;
    struct range rows = own_rows(solver);
    for (int64_t row = rows.first; row < rows.end; row++) {
        double factor = row < DISTINCT_ROWS ? DOMINATING * (double)(row + 2) : DOMINATING;
        matrix->diagonal[row] = dominating ? matrix->diagonal[row] * factor : matrix->diagonal[row] / factor;
        all->b[row] = dominating ? all->b[row] * factor : all->b[row] / factor;
        matrix->inverse[row] = 1 / matrix->diagonal[row];
    }
    member_meet(&solver->member);
}

static void test_spectrum(struct solver *solver, struct validity *found)
{
    scale_diagonal(solver, true);
    found->spectral_plain = solver_solve(solver, SPECTRAL_LIMIT, SPECTRAL_TOLERANCE, false).iterations;
    found->spectral_preconditioned = solver_solve(solver, SPECTRAL_LIMIT, SPECTRAL_TOLERANCE, true).iterations;
    scale_diagonal(solver, false);
}

struct validity validity_test(struct solver *solver)
{
    struct validity found = {0};
    test_symmetry(solver, &found);
    test_preconditioner(solver, &found);
    test_spectrum(solver, &found);
    return found;
}

double validity_true_residual(struct solver *solver)
{
    struct problem *all = solver->problem;
    struct range rows = own_rows(solver);
    member_meet(&solver->member);
    solver_multiply(solver, all->x, all->q);
    solver->kernels.add(all->z, all->b, -1, all->q, rows.first, rows.end);
    return sqrt(solver_dot(solver, all->z, all->z) / solver_dot(solver, all->b, all->b));
}
