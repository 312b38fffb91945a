/*
 * Plain loops, ordinary stores: a written line is first read, which STREAM does not count. The compiler must not make
 * a call of memcpy out of copy: the library's would store in its own way, and copy would no longer be like the others.
 */
#include "kernels.h"

__attribute__((no_builtin("memcpy", "memmove")))
void ISA_NAME(stream_copy)(double *restrict c, const double *restrict a, size_t count)
{
    for (size_t i = 0; i < count; i++)
        c[i] = a[i];
}

void ISA_NAME(stream_scale)(double *restrict b, const double *restrict c, double s, size_t count)
{
    for (size_t i = 0; i < count; i++)
        b[i] = s * c[i];
}

void ISA_NAME(stream_add)(double *restrict c, const double *restrict a, const double *restrict b, size_t count)
{
    for (size_t i = 0; i < count; i++)
        c[i] = a[i] + b[i];
}

void ISA_NAME(stream_triad)(double *restrict a, const double *restrict b, const double *restrict c, double s,
                            size_t count)
{
    for (size_t i = 0; i < count; i++)
        a[i] = b[i] + s * c[i];
}
