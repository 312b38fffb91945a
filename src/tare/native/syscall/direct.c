/*
 * Operations of one thread. The calls go through syscall(), so that no C library answers from a cache of its own, adds
 * a cancellation point, or takes the vDSO where the call is meant.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "fail.h"
#include "operations.h"

static int zero = -1, null = -1;
static pid_t self;
static size_t page_bytes;

static int open_device(const char *path, int flags)
{
    int file = open(path, flags | O_CLOEXEC);
    if (file < 0)
        fail("%s cannot be opened: %s; a runtime must have this device", path, strerror(errno));
    return file;
}

void direct_open(void)
{
    zero = open_device("/dev/zero", O_RDONLY);
    null = open_device("/dev/null", O_WRONLY);
    self = getpid();
    page_bytes = (size_t)sysconf(_SC_PAGESIZE);
}

typedef void repeat_function(uint64_t count);

static uint64_t time_repeated(repeat_function *repeat, uint64_t count)
{
    repeat(count / 8 + 1);
    uint64_t start = clock_ns();
    repeat(count);
    return clock_ns() - start;
}

static void repeat_loop(uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        __asm__ volatile("" ::: "memory");
}

static void repeat_getpid(uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        if (syscall(SYS_getpid) != self)
            fail("getpid: the kernel gave another number than before");
}

static void repeat_read(uint64_t count)
{
    char byte = 1;
    for (uint64_t i = 0; i < count; i++)
        if (syscall(SYS_read, zero, &byte, 1) != 1)
            fail("read: /dev/zero gave no byte: %s", strerror(errno));
    if (byte != 0)
        fail("read: /dev/zero gave another byte than 0");
}

static void repeat_write(uint64_t count)
{
    const char byte = 1;
    for (uint64_t i = 0; i < count; i++)
        if (syscall(SYS_write, null, &byte, 1) != 1)
            fail("write: /dev/null took no byte: %s", strerror(errno));
}

static void repeat_map(uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        char *page = mmap(NULL, page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (page == MAP_FAILED)
            fail("mmap: no page: %s", strerror(errno));
        *(volatile char *)page = 1;
        if (munmap(page, page_bytes) != 0)
            fail("munmap: %s", strerror(errno));
    }
}

static void repeat_clock(uint64_t count)
{
    struct timespec now;
    for (uint64_t i = 0; i < count; i++)
        if (clock_gettime(CLOCK_MONOTONIC, &now) != 0)
            fail("clock_gettime: %s", strerror(errno));
}

static void repeat_clock_call(uint64_t count)
{
    struct timespec now;
    for (uint64_t i = 0; i < count; i++)
        if (syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now) != 0)
            fail("clock_gettime as a call: %s", strerror(errno));
}

static uint64_t minor_faults(void)
{
    struct rusage used;
    if (getrusage(RUSAGE_SELF, &used) != 0)
        fail("getrusage: %s", strerror(errno));
    return (uint64_t)used.ru_minflt;
}

uint64_t time_loop(uint64_t count)
{
    return time_repeated(repeat_loop, count);
}

uint64_t time_getpid(uint64_t count)
{
    return time_repeated(repeat_getpid, count);
}

uint64_t time_read(uint64_t count)
{
    return time_repeated(repeat_read, count);
}

uint64_t time_write(uint64_t count)
{
    return time_repeated(repeat_write, count);
}

uint64_t time_map(uint64_t count)
{
    uint64_t before = minor_faults();
    uint64_t elapsed = time_repeated(repeat_map, count);
    uint64_t faults = minor_faults() - before;
    if (faults < count)
        fail("mmap: %llu page faults for %llu pages; they were not new", (unsigned long long)faults,
             (unsigned long long)count);
    return elapsed;
}

uint64_t time_clock(uint64_t count)
{
    return time_repeated(repeat_clock, count);
}

uint64_t time_clock_call(uint64_t count)
{
    return time_repeated(repeat_clock_call, count);
}
