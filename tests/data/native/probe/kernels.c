#include "isa.h"

ISA_DECLARE(int, doubled, (int value));

int ISA_NAME(doubled)(int value)
{
    return 2 * value;
}
