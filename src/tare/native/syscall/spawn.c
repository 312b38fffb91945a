/* fork, exec and wait: what it costs to have a small process, from this one, which is small and static too. */
#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "fail.h"
#include "operations.h"

static char *program; /* "./name": a path of one step, however deep the run's folder lies in this runtime */

void spawn_open(const char *file)
{
    char *folder = strdup(file), *name = strdup(file);
    if (folder == NULL || name == NULL || asprintf(&program, "./%s", basename(name)) < 0)
        fail("no memory for the program's path");
    if (chdir(dirname(folder)) != 0 || access(program, X_OK) != 0)
        fail("%s: the program's own file cannot be started again: %s; start it by its path", file, strerror(errno));
    free(folder);
    free(name);
}

static void spawn(uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        int status;
        pid_t child = fork();
        if (child == 0) {
            execve(program, (char *const[]){program, SPAWNED, NULL}, (char *const[]){NULL});
            _exit(1);
        }
        if (child < 0 || waitpid(child, &status, 0) != child)
            fail("fork and wait: %s", strerror(errno));
        if (status != 0)
            fail("exec: the new process ended with wait status %d", status);
    }
}

uint64_t time_spawn(uint64_t count)
{
    spawn(count / 8 + 1);
    uint64_t start = clock_ns();
    spawn(count);
    return clock_ns() - start;
}
