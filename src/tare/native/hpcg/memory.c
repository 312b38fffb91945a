#include "memory.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "fail.h"

void *memory_take(int64_t count, size_t size)
{
    size_t bytes = (size_t)count * size;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        fail("%zu bytes of memory cannot be had (%s); use a smaller --nx, --ny or --nz", bytes, strerror(errno));
    madvise(memory, bytes, MADV_HUGEPAGE); /* a wish: without huge pages all is well, too */
    return memory;
}

void memory_release(void *memory, int64_t count, size_t size)
{
    munmap(memory, (size_t)count * size);
}
