#include "arguments.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fail.h"

static bool among(const char *word, const char *allowed)
{
    size_t length = strlen(word);
    for (const char *start = allowed; *start != '\0';) {
        size_t size = strcspn(start, "|");
        if (size == length && memcmp(start, word, size) == 0)
            return true;
        start += size + (start[size] == '|');
    }
    return false;
}

static void read_text(const struct argument *entry, const char *text)
{
    if (entry->allowed != NULL && !among(text, entry->allowed))
        fail_usage("--%s: \"%s\" is not allowed; allowed: %s", entry->name, text, entry->allowed);
    *(const char **)entry->value = text;
}

static void check_range(const struct argument *entry, const char *text, double value)
{
    if (!(value >= entry->low && value <= entry->high))
        fail_usage("--%s: %s is out of range; allowed: %.15g to %.15g", entry->name, text, entry->low, entry->high);
}

static void read_integer(const struct argument *entry, const char *text)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0')
        fail_usage("--%s: \"%s\" is no whole number; allowed: %.15g to %.15g", entry->name, text, entry->low, entry->high);
    check_range(entry, text, (double)value);
    *(int64_t *)entry->value = value;
}

static void read_number(const struct argument *entry, const char *text)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(value))
        fail_usage("--%s: \"%s\" is no number; allowed: %.15g to %.15g", entry->name, text, entry->low, entry->high);
    check_range(entry, text, value);
    *(double *)entry->value = value;
}

static void read_value(const struct argument *entry, const char *text)
{
    switch (entry->kind) {
    case ARGUMENT_TEXT:
        read_text(entry, text);
        break;
    case ARGUMENT_INTEGER:
        read_integer(entry, text);
        break;
    case ARGUMENT_NUMBER:
        read_number(entry, text);
        break;
    }
}

/* The names of a table, for a message: "--a, --b"; cut when the space does not do. */
static const char *names(const struct argument *table, size_t count)
{
    static char text[1024];
    text[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        size_t used = strlen(text);
        if (used + strlen(table[i].name) + 5 > sizeof text)
            break;
        strcat(text, i == 0 ? "--" : ", --");
        strcat(text, table[i].name);
    }
    return text;
}

static const struct argument *find(const char *word, const struct argument *table, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strncmp(word, "--", 2) == 0 && strcmp(word + 2, table[i].name) == 0)
            return &table[i];
    fail_usage("\"%s\" is no argument; allowed: %s, each followed by its value", word, names(table, count));
}

void arguments_read(int argc, char **argv, const struct argument *table, size_t count)
{
    bool *seen = calloc(count + 1, sizeof *seen);
    if (seen == NULL)
        fail("no memory for reading the arguments");
    for (int i = 1; i < argc; i += 2) {
        const struct argument *entry = find(argv[i], table, count);
        if (i + 1 == argc)
            fail_usage("%s: the value is missing", argv[i]);
        if (seen[entry - table])
            fail_usage("%s is given twice; give it once", argv[i]);
        seen[entry - table] = true;
        read_value(entry, argv[i + 1]);
    }
    free(seen);
}
