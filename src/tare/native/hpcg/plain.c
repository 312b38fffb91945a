#include "plain.h"

#include <math.h>
#include <string.h>

/* A row's products with x, but for the diagonal's. */
static double beside_diagonal(const struct matrix *matrix, int64_t row, const double *x)
{
    double sum = 0;
    for (int64_t entry = row * SIDE; entry < (row + 1) * SIDE; entry++)
        sum += matrix->lower[entry] * x[matrix->lower_column[entry]];
    for (int64_t entry = row * SIDE; entry < (row + 1) * SIDE; entry++)
        sum += matrix->upper[entry] * x[matrix->upper_column[entry]];
    return sum;
}

static void multiply(const struct matrix *matrix, const double *x, double *y)
{
    for (int64_t row = 0; row < matrix->rows; row++)
        y[row] = matrix->diagonal[row] * x[row] + beside_diagonal(matrix, row, x);
}

static void symmetric_sweep(const struct matrix *matrix, const double *b, double *x)
{
    for (int64_t row = 0; row < matrix->rows; row++)
        x[row] = (b[row] - beside_diagonal(matrix, row, x)) / matrix->diagonal[row];
    for (int64_t row = matrix->rows - 1; row >= 0; row--)
        x[row] = (b[row] - beside_diagonal(matrix, row, x)) / matrix->diagonal[row];
}

static double dot(int64_t rows, const double *x, const double *y)
{
    double sum = 0;
    for (int64_t row = 0; row < rows; row++)
        sum += x[row] * y[row];
    return sum;
}

void plain_precondition(struct problem *problem, int number, const double *r, double *z)
{
    struct level *fine = &problem->levels[number], *coarse = fine + 1;
    memset(z, 0, (size_t)fine->matrix.rows * sizeof *z);
    symmetric_sweep(&fine->matrix, r, z);
    if (number == LEVELS - 1)
        return;
    multiply(&fine->matrix, z, fine->product);
    for (int64_t row = 0; row < coarse->matrix.rows; row++)
        coarse->residual[row] = r[coarse->fine_row[row]] - fine->product[coarse->fine_row[row]];
    plain_precondition(problem, number + 1, coarse->residual, coarse->correction);
    for (int64_t row = 0; row < coarse->matrix.rows; row++)
        z[coarse->fine_row[row]] += coarse->correction[row];
    symmetric_sweep(&fine->matrix, r, z);
}

double plain_solve(struct problem *problem, int iterations)
{
    const struct matrix *matrix = &problem->levels[0].matrix;
    double *x = problem->x, *r = problem->r, *z = problem->z, *p = problem->p, *q = problem->q;
    size_t size = (size_t)matrix->rows * sizeof *x;
    memset(x, 0, size);
    memset(p, 0, size);
    memcpy(r, problem->b, size);
    double first = sqrt(dot(matrix->rows, r, r)), rho = 0;
    for (int done = 0; done < iterations; done++) {
        plain_precondition(problem, 0, r, z);
        double before = rho;
        rho = dot(matrix->rows, r, z);
        double beta = done == 0 ? 0 : rho / before;
        for (int64_t row = 0; row < matrix->rows; row++)
            p[row] = z[row] + beta * p[row];
        multiply(matrix, p, q);
        double alpha = rho / dot(matrix->rows, p, q);
        for (int64_t row = 0; row < matrix->rows; row++) {
            x[row] += alpha * p[row];
            r[row] -= alpha * q[row];
        }
    }
    return sqrt(dot(matrix->rows, r, r)) / first;
}
