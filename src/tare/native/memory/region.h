/* A region of fresh private memory: mapped, touched once a page, unmapped, each step timed. */
#ifndef TARE_MEMORY_REGION_H
#define TARE_MEMORY_REGION_H

#include <stddef.h>
#include <stdint.h>

/* The advice a region is given before it is touched; ADVICE_NONE: what the machine does by itself. */
enum advice { ADVICE_BASE, ADVICE_NONE, ADVICE_HUGE };

struct region {
    char *start; /* aligned to the size of a huge page */
    size_t bytes, page_bytes;
    void *mapping;
    size_t mapping_bytes;
};

/* What touching a region took, and how many page faults the kernel counted meanwhile. */
struct touch {
    uint64_t ns, faults;
};

/* Map `bytes`, aligned to `huge_bytes` (a power of two), and give the advice. */
struct region region_map(size_t bytes, size_t huge_bytes, enum advice advice);

/* Write into every page, in order. */
struct touch region_touch(const struct region *region);

/* Whether every page still holds what region_touch wrote. */
int region_intact(const struct region *region);

/* Unmap; the nanoseconds it took. */
uint64_t region_unmap(const struct region *region);

#endif
