/* Arguments of the form --name value, read by a table. A wrong one ends the program with status 2. */
#ifndef TARE_ARGUMENTS_H
#define TARE_ARGUMENTS_H

#include <stddef.h>

enum argument_kind {
    ARGUMENT_TEXT,    /* value: const char **; allowed: NULL, or the words allowed, as "one|two" */
    ARGUMENT_INTEGER, /* value: int64_t *; low … high */
    ARGUMENT_NUMBER,  /* value: double *; low … high; finite */
};

/* One argument. The variable that `value` points to holds the default before, and the value after reading. */
struct argument {
    const char *name; /* without the dashes */
    enum argument_kind kind;
    void *value;
    double low, high; /* of a number; whole numbers up to 2^53 */
    const char *allowed;
};

/* Read argv[1 …] into the table's variables; each argument at most once, unknown ones refused. */
void arguments_read(int argc, char **argv, const struct argument *table, size_t count);

#define ARGUMENTS_READ(argc, argv, table) arguments_read(argc, argv, table, sizeof(table) / sizeof(*(table)))

#endif
