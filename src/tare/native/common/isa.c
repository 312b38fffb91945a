#include "isa.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "fail.h"

static const char *const NAMES[] = {"base", "v3", "v4"};

#if defined(__x86_64__)
#include <cpuid.h>

/*
 * The features of each level beyond base, as bits of CPUID (x86-64 psABI, table of micro-architecture levels).
 * Asked here because the compiler's run-time library answers __builtin_cpu_supports with "no", whatever the CPU.
 */
enum {
    LEAF1_ECX_V3 = 1 << 0 | 1 << 9 | 1 << 12 | 1 << 13 | 1 << 19 | 1 << 20 | 1 << 22 | 1 << 23 /* SSE3 … POPCNT */
                   | 1 << 27 | 1 << 28 | 1 << 29,                                            /* OSXSAVE AVX F16C */
    LEAF81_ECX_V3 = 1 << 0 | 1 << 5,                                                         /* LAHF LZCNT */
    LEAF7_EBX_V3 = 1 << 3 | 1 << 5 | 1 << 8,                                                 /* BMI1 AVX2 BMI2 */
};
static const uint32_t LEAF7_EBX_V4 = 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31; /* AVX-512 F DQ CD BW VL */
/* What the kernel must save for each: SSE and AVX registers, and those of AVX-512 (bits of XCR0). */
enum { SAVED_V3 = 0x06, SAVED_V4 = 0xe6 };

static uint32_t saved_registers(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static bool has(uint32_t value, uint32_t bits)
{
    return (value & bits) == bits;
}

static bool supports(enum isa isa)
{
    uint32_t a, b, c, d, extended, features;
    if (isa == ISA_BASE)
        return true;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !has(c, LEAF1_ECX_V3) || !has(saved_registers(), SAVED_V3))
        return false;
    if (!__get_cpuid(0x80000001, &a, &b, &extended, &d) || !has(extended, LEAF81_ECX_V3))
        return false;
    if (!__get_cpuid_count(7, 0, &a, &features, &c, &d) || !has(features, LEAF7_EBX_V3))
        return false;
    return isa == ISA_V3 || (has(features, LEAF7_EBX_V4) && has(saved_registers(), SAVED_V4));
}

#else

static bool supports(enum isa isa)
{
    return isa == ISA_BASE;
}

#endif

enum isa isa_choose(const char *wanted)
{
    for (int isa = ISA_V4; isa >= ISA_BASE; isa--) {
        bool asked = strcmp(wanted, NAMES[isa]) == 0;
        if (asked && !supports((enum isa)isa))
            fail("--isa: this CPU or kernel has no %s; use --isa auto", wanted);
        if (asked || (strcmp(wanted, "auto") == 0 && supports((enum isa)isa)))
            return (enum isa)isa;
    }
    fail_usage("--isa: \"%s\" is not allowed; allowed: %s", wanted, ISA_CHOICES);
}

const char *isa_name(enum isa isa)
{
    return NAMES[isa];
}
