#include "batches.h"

/* The shortest of a few tries: something that came between must not make every batch too small. */
static uint64_t shortest(const struct operation *operation, uint64_t size)
{
    uint64_t best = UINT64_MAX;
    for (int attempt = 0; attempt < 3; attempt++) {
        uint64_t elapsed = operation->time(size);
        if (elapsed < best)
            best = elapsed;
    }
    return best > 0 ? best : 1;
}

uint64_t batch_size(const struct operation *operation, uint64_t target_ns)
{
    uint64_t size = 2, elapsed = shortest(operation, size);
    while (elapsed < target_ns / 4 && size < UINT64_C(1) << 40) {
        size *= 2;
        elapsed = shortest(operation, size);
    }
    uint64_t wanted = (uint64_t)((double)size * (double)target_ns / (double)elapsed);
    return wanted < 2 ? 2 : wanted + wanted % 2;
}

double batch_seconds(const struct operation *operation, uint64_t size)
{
    return (double)operation->time(size) * 1e-9 / (double)size;
}
