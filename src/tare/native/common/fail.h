/* The one way in which a program gives up: a sentence on standard error, nothing on standard output. */
#ifndef TARE_FAIL_H
#define TARE_FAIL_H

enum { STATUS_FAILED = 1, STATUS_USAGE = 2 };

/* Print a sentence (what, the value, the remedy) on standard error and end with status 1; printf's format. */
_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same with status 2: the arguments are wrong. */
_Noreturn void fail_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
