/*
 * A sparse matrix in a general format: nothing in it, nor in what works on it, knows that its rows are alike.
 * Every entry has a value and a column of its own; a row has room for SIDE entries below and SIDE above the diagonal.
 */
#ifndef HPCG_MATRIX_H
#define HPCG_MATRIX_H

#include <stdint.h>

enum { SIDE = 13 };

/* Bytes that reading one row takes: all of it, or the entries on one side only; with the diagonal (or its inverse). */
enum { ENTRY_BYTES = 12, ROW_BYTES = 2 * SIDE * ENTRY_BYTES + 8, HALF_ROW_BYTES = SIDE * ENTRY_BYTES + 8 };

struct matrix {
    int64_t rows, nonzeros;
    /*
     * rows × SIDE entries each, ascending by column within a row. What is missing has value 0 in the row's own
     * column: in `lower` the first places, in `upper` the last. So the entry nearest to the diagonal, the only one
     * that a sweep has just changed, is always lower[SIDE - 1] and upper[0].
     */
    double *lower, *upper;
    int32_t *lower_column, *upper_column;
    double *diagonal, *inverse; /* inverse: 1 / diagonal */
};

#endif
