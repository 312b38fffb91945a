#include "region.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "clock.h"
#include "fail.h"

static void advise(const struct region *region, int advice, const char *name)
{
    /* EINVAL: a kernel built without transparent huge pages, where there is nothing to ask for or against. */
    if (madvise(region->start, region->bytes, advice) != 0 && errno != EINVAL)
        fail("madvise(%s): %s", name, strerror(errno));
}

struct region region_map(size_t bytes, size_t huge_bytes, enum advice advice)
{
    struct region region = {.bytes = bytes, .page_bytes = (size_t)sysconf(_SC_PAGESIZE)};
    region.mapping_bytes = bytes + huge_bytes;
    region.mapping = mmap(NULL, region.mapping_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (region.mapping == MAP_FAILED)
        fail("%zu bytes of memory cannot be mapped: %s; ask for less (factor bytes)", bytes, strerror(errno));
    region.start = (char *)(((uintptr_t)region.mapping + huge_bytes - 1) & ~(uintptr_t)(huge_bytes - 1));
    if (advice == ADVICE_BASE)
        advise(&region, MADV_NOHUGEPAGE, "MADV_NOHUGEPAGE");
    if (advice == ADVICE_HUGE)
        advise(&region, MADV_HUGEPAGE, "MADV_HUGEPAGE");
    return region;
}

static uint64_t minor_faults(void)
{
    struct rusage used;
    if (getrusage(RUSAGE_SELF, &used) != 0)
        fail("getrusage: %s", strerror(errno));
    return (uint64_t)used.ru_minflt;
}

struct touch region_touch(const struct region *region)
{
    uint64_t faults = minor_faults(), start = clock_ns();
    for (size_t at = 0; at < region->bytes; at += region->page_bytes)
        *(volatile char *)(region->start + at) = 1;
    uint64_t end = clock_ns();
    return (struct touch){end - start, minor_faults() - faults};
}

int region_intact(const struct region *region)
{
    for (size_t at = 0; at < region->bytes; at += region->page_bytes)
        if (*(volatile char *)(region->start + at) != 1)
            return 0;
    return 1;
}

uint64_t region_unmap(const struct region *region)
{
    uint64_t start = clock_ns();
    if (munmap(region->mapping, region->mapping_bytes) != 0)
        fail("munmap: %s", strerror(errno));
    return clock_ns() - start;
}
