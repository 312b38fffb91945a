/*
 * Compiled once for each instruction set. The vectors are the compiler's own: four doubles, whatever the machine makes
 * of them. A row's neighbours are fetched one by one, which was faster here than gather instructions.
 */
#include "kernels.h"

#include <string.h>

typedef double four __attribute__((vector_size(32)));

static inline four values4(const double *values)
{
    four found;
    memcpy(&found, values, sizeof found);
    return found;
}

static inline four fetch4(const double *x, const int32_t *columns)
{
    return (four){x[columns[0]], x[columns[1]], x[columns[2]], x[columns[3]]};
}

static inline double sum4(four terms)
{
    return (terms[0] + terms[2]) + (terms[1] + terms[3]);
}

/* Twelve products, summed into four. */
static inline four products12(const double *values, const int32_t *columns, const double *x)
{
    four sum = values4(values) * fetch4(x, columns);
    sum += values4(values + 4) * fetch4(x, columns + 4);
    sum += values4(values + 8) * fetch4(x, columns + 8);
    return sum;
}

/* The entries of one row. */
struct row {
    const double *lower, *upper;
    const int32_t *lower_column, *upper_column;
};

static inline struct row row_of(const struct matrix *matrix, int64_t i)
{
    return (struct row){matrix->lower + i * SIDE, matrix->upper + i * SIDE, matrix->lower_column + i * SIDE,
                        matrix->upper_column + i * SIDE};
}

/* All products of a row but the one nearest to the diagonal on one side, which comes last in the sum: it waits for
 * the row before. */
static void forward(const struct matrix *matrix, const double *b, double *x, int64_t first, int64_t end)
{
    const int near = SIDE - 1;
    for (int64_t i = first; i < end; i++) {
        struct row row = row_of(matrix, i);
        four far = products12(row.lower, row.lower_column, x) + products12(row.upper + 1, row.upper_column + 1, x);
        double rest = b[i] - (sum4(far) + row.upper[0] * x[row.upper_column[0]]);
        x[i] = (rest - row.lower[near] * x[row.lower_column[near]]) * matrix->inverse[i];
    }
}

static void forward_from_zero(const struct matrix *matrix, const double *b, double *x, int64_t first, int64_t end)
{
    const int near = SIDE - 1;
    for (int64_t i = first; i < end; i++) {
        struct row row = row_of(matrix, i);
        double rest = b[i] - sum4(products12(row.lower, row.lower_column, x));
        x[i] = (rest - row.lower[near] * x[row.lower_column[near]]) * matrix->inverse[i];
    }
}

static void backward(const struct matrix *matrix, const double *b, double *x, int64_t first, int64_t end)
{
    const int near = SIDE - 1;
    for (int64_t i = end - 1; i >= first; i--) {
        struct row row = row_of(matrix, i);
        four far = products12(row.lower, row.lower_column, x) + products12(row.upper + 1, row.upper_column + 1, x);
        double rest = b[i] - (sum4(far) + row.lower[near] * x[row.lower_column[near]]);
        x[i] = (rest - row.upper[0] * x[row.upper_column[0]]) * matrix->inverse[i];
    }
}

static double multiply(const struct matrix *matrix, const double *x, double *y, int64_t first, int64_t end)
{
    const int near = SIDE - 1;
    double sum = 0;
    for (int64_t i = first; i < end; i++) {
        struct row row = row_of(matrix, i);
        four far = products12(row.lower, row.lower_column, x) + products12(row.upper + 1, row.upper_column + 1, x);
        double middle = row.lower[near] * x[row.lower_column[near]] + row.upper[0] * x[row.upper_column[0]];
        y[i] = sum4(far) + (middle + matrix->diagonal[i] * x[i]);
        sum += x[i] * y[i];
    }
    return sum;
}

/* Two sums of four, for the latency of additions. */
static double dot(const double *x, const double *y, int64_t first, int64_t end)
{
    four even = {0}, odd = {0};
    int64_t i = first;
    for (; i + 8 <= end; i += 8) {
        even += values4(x + i) * values4(y + i);
        odd += values4(x + i + 4) * values4(y + i + 4);
    }
    double sum = sum4(even + odd);
    for (; i < end; i++)
        sum += x[i] * y[i];
    return sum;
}

static void add(double *w, const double *x, double factor, const double *y, int64_t first, int64_t end)
{
    for (int64_t i = first; i < end; i++)
        w[i] = x[i] + factor * y[i];
}

static double advance(double *restrict x, double *restrict r, double alpha, const double *restrict p,
                      const double *restrict q, int64_t first, int64_t end)
{
    for (int64_t i = first; i < end; i++) {
        x[i] += alpha * p[i];
        r[i] -= alpha * q[i];
    }
    return dot(r, r, first, end); /* of a few rows: still in the cache */
}

const struct kernels ISA_NAME(kernels) = {forward, forward_from_zero, backward, multiply, dot, add, advance};
