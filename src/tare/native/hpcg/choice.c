#include "kernels.h"

struct kernels kernels_of(enum isa isa)
{
    return ISA_SELECT(isa, kernels);
}
