/*
 * Which instruction set a program's kernels use. A file named kernels.c is compiled once for each set, with ISA
 * defined as base, v3 or v4 (the x86-64 levels of the psABI; base alone on other architectures). It names its
 * functions ISA_NAME(function), and the program calls function_base, function_v3 or function_v4 by isa_choose.
 */
#ifndef TARE_ISA_H
#define TARE_ISA_H

enum isa { ISA_BASE, ISA_V3, ISA_V4 };

#define ISA_CHOICES "auto|base|v3|v4"
#define ISA_JOIN_(name, isa) name##_##isa
#define ISA_JOIN(name, isa) ISA_JOIN_(name, isa)
#define ISA_NAME(name) ISA_JOIN(name, ISA)

#if defined(__x86_64__)
#define ISA_LEVELS 3
/* The variant of a function for the instruction set `isa`. */
#define ISA_SELECT(isa, name) ((isa) == ISA_V4 ? name##_v4 : (isa) == ISA_V3 ? name##_v3 : name##_base)
/* Declare every variant: ISA_DECLARE(double, dot, (const double *, const double *, size_t)); */
#define ISA_DECLARE(type, name, parameters) type name##_base parameters; type name##_v3 parameters; type name##_v4 parameters
#else
#define ISA_LEVELS 1
#define ISA_SELECT(isa, name) ((void)(isa), name##_base)
#define ISA_DECLARE(type, name, parameters) type name##_base parameters
#endif

/* The best set that CPU and kernel support (wanted "auto"), or the one asked for; one they lack fails. */
enum isa isa_choose(const char *wanted);

/* Its name, as in ISA_CHOICES. */
const char *isa_name(enum isa isa);

#endif
