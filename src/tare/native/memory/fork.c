#include "fork.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "fail.h"

/* The child does nothing before the parent has read the clock: its own work is no part of the time. */
static _Noreturn void look(int from, const struct region *region)
{
    char byte;
    _exit(read(from, &byte, 1) == 1 && region_intact(region) ? 0 : 1);
}

uint64_t time_fork(const struct region *region)
{
    int go[2], status;
    const char byte = 1;
    if (pipe(go) != 0)
        fail("pipe: %s", strerror(errno));
    uint64_t start = clock_ns();
    pid_t child = fork();
    if (child == 0)
        look(go[0], region);
    uint64_t elapsed = clock_ns() - start;
    if (child < 0)
        fail("fork with %zu bytes: %s; ask for less (factor bytes)", region->bytes, strerror(errno));
    if (write(go[1], &byte, 1) != 1 || waitpid(child, &status, 0) != child)
        fail("the forked process cannot be reached: %s", strerror(errno));
    if (status != 0)
        fail("the forked process did not find its memory as it was: wait status %d", status);
    close(go[0]);
    close(go[1]);
    return elapsed;
}
