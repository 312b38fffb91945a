/* fork of a process that holds memory. */
#ifndef TARE_MEMORY_FORK_H
#define TARE_MEMORY_FORK_H

#include "region.h"

/*
 * The nanoseconds until fork has returned here, while the child waits. The child then looks at all of the region: a
 * page that is not there ends the program.
 */
uint64_t time_fork(const struct region *region);

#endif
