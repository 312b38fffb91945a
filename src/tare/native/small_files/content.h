/* What a test file holds: pseudo-random bytes that follow from the seed and the file's number. */
#ifndef TARE_FILES_CONTENT_H
#define TARE_FILES_CONTENT_H

#include <stddef.h>
#include <stdint.h>

/* The next of a stream of well-mixed numbers (SplitMix64; Steele, Lea and Flood, OOPSLA 2014). */
uint64_t next_random(uint64_t *state);

/* Fill `bytes` bytes (the buffer holds a multiple of 8) with the content of file `number`. */
void content_fill(char *buffer, size_t bytes, uint64_t seed, uint64_t number);

#endif
