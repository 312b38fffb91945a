#include "content.h"

#include <string.h>

uint64_t next_random(uint64_t *state)
{
    uint64_t mixed = *state += UINT64_C(0x9e3779b97f4a7c15);
    mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
    return mixed ^ mixed >> 31;
}

void content_fill(char *buffer, size_t bytes, uint64_t seed, uint64_t number)
{
    /* Streams start far apart: neighbouring numbers must not give shifted copies of each other. */
    uint64_t state = seed;
    state = next_random(&state) ^ number * UINT64_C(0xd1342543de82ef95);
    for (size_t at = 0; at < bytes; at += sizeof(uint64_t)) {
        uint64_t word = next_random(&state);
        memcpy(buffer + at, &word, sizeof word);
    }
}
