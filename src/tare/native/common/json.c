#include "json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "fail.h"

static FILE *out;
static char *text;
static size_t size;
static bool first; /* the next member is the first of its object or array */

static void quote(const char *word)
{
    fputc('"', out);
    for (; *word != '\0'; word++) {
        unsigned char c = (unsigned char)*word;
        if (c == '"' || c == '\\')
            fprintf(out, "\\%c", c);
        else if (c < 0x20 || c > 0x7e)
            fprintf(out, "\\u%04x", c);
        else
            fputc(c, out);
    }
    fputc('"', out);
}

static void member(const char *name)
{
    if (!first)
        fputs(", ", out);
    first = false;
    if (name != NULL) {
        quote(name);
        fputs(": ", out);
    }
}

static void number(double value)
{
    if (isfinite(value))
        fprintf(out, "%.17g", value);
    else
        fputs("null", out);
}

static void open_with(const char *name, char bracket)
{
    member(name);
    fputc(bracket, out);
    first = true;
}

static void close_with(char bracket)
{
    fputc(bracket, out);
    first = false;
}

void json_begin(void)
{
    out = open_memstream(&text, &size);
    if (out == NULL)
        fail("no memory for the result");
    fputc('{', out);
    first = true;
}

void json_number(const char *name, double value)
{
    member(name);
    number(value);
}

void json_integer(const char *name, int64_t value)
{
    member(name);
    fprintf(out, "%" PRId64, value);
}

void json_boolean(const char *name, bool value)
{
    member(name);
    fputs(value ? "true" : "false", out);
}

void json_text(const char *name, const char *value)
{
    member(name);
    quote(value);
}

void json_numbers(const char *name, const double *values, size_t count)
{
    open_with(name, '[');
    for (size_t i = 0; i < count; i++) {
        member(NULL);
        number(values[i]);
    }
    close_with(']');
}

void json_integers(const char *name, const int64_t *values, size_t count)
{
    open_with(name, '[');
    for (size_t i = 0; i < count; i++)
        json_integer(NULL, values[i]);
    close_with(']');
}

void json_open(const char *name)
{
    open_with(name, '{');
}

void json_close(void)
{
    close_with('}');
}

void json_open_array(const char *name)
{
    open_with(name, '[');
}

void json_close_array(void)
{
    close_with(']');
}

void json_end(void)
{
    fputs("}\n", out);
    if (ferror(out) || fclose(out) != 0)
        fail("no memory for the result");
    if (fwrite(text, 1, size, stdout) != size || fflush(stdout) != 0)
        fail("the result cannot be written to standard output");
    free(text);
}
