/* Zeroed memory for large arrays, on huge pages where the kernel gives them. */
#ifndef HPCG_MEMORY_H
#define HPCG_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/* Room for `count` elements of `size` bytes, aligned to a page, untouched so far; fails when there is none. */
void *memory_take(int64_t count, size_t size);

/* Give it back. */
void memory_release(void *memory, int64_t count, size_t size);

#endif
