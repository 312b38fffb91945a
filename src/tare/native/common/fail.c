#include "fail.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static void say(const char *format, va_list values)
{
    vfprintf(stderr, format, values);
    fputc('\n', stderr);
}

_Noreturn void fail(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    say(format, values);
    va_end(values);
    exit(STATUS_FAILED);
}

_Noreturn void fail_usage(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    say(format, values);
    va_end(values);
    exit(STATUS_USAGE);
}
