/* The four loops of STREAM over one thread's part of the arrays; defined in kernels.c for every instruction set. */
#ifndef TARE_STREAM_KERNELS_H
#define TARE_STREAM_KERNELS_H

#include <stddef.h>

#include "isa.h"

/* c = a; b = s c; c = a + b; a = b + s c, of `count` elements; the arrays do not overlap. */
ISA_DECLARE(void, stream_copy, (double *restrict c, const double *restrict a, size_t count));
ISA_DECLARE(void, stream_scale, (double *restrict b, const double *restrict c, double s, size_t count));
ISA_DECLARE(void, stream_add, (double *restrict c, const double *restrict a, const double *restrict b, size_t count));
ISA_DECLARE(void, stream_triad,
            (double *restrict a, const double *restrict b, const double *restrict c, double s, size_t count));

#endif
