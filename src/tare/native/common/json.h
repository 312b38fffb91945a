/* One JSON object on standard output: collected in memory and printed at the end, so that a failure prints none. */
#ifndef TARE_JSON_H
#define TARE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Begin the object. Every function below adds a member to it; a program writes one object. */
void json_begin(void);

/* A number with 17 significant digits; null when it is not finite. */
void json_number(const char *name, double value);
void json_integer(const char *name, int64_t value);
void json_boolean(const char *name, bool value);
/* A text; anything but printable ASCII is escaped byte by byte. */
void json_text(const char *name, const char *value);
void json_numbers(const char *name, const double *values, size_t count);
void json_integers(const char *name, const int64_t *values, size_t count);

/* An object inside: members until json_close belong to it. Inside an array the name is NULL. */
void json_open(const char *name);
void json_close(void);
/* An array of objects: each is json_open(NULL) … json_close(). */
void json_open_array(const char *name);
void json_close_array(void);

/* Print the object and a line feed; fails when standard output cannot take it. */
void json_end(void);

#endif
