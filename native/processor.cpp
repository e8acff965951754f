// Use the cpuid instruction directly: __builtin_cpu_supports knows few names in older Clang, and on
// Windows it needs a library that Clang does not link. This is a separate file, since <cpuid.h>
// conflicts with names from other headers on Windows.
#include "processor.hpp"

#include <cpuid.h>

namespace quadfeat {
namespace {

struct Registers {
    unsigned a = 0, b = 0, c = 0, d = 0;
};

// Return the registers of a leaf, or zeros if the processor does not have it.
Registers cpuid(unsigned leaf) {
    Registers found;
    __get_cpuid_count(leaf, 0, &found.a, &found.b, &found.c, &found.d);
    return found;
}

bool has_all(unsigned found, unsigned wanted) { return (found & wanted) == wanted; }

// Return whether the operating system saves these parts of the registers when it switches threads.
// Call it only if the OSXSAVE bit is set, since the processor lacks xgetbv otherwise.
bool os_saves(unsigned wanted) {
    unsigned low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return has_all(low, wanted);
}

constexpr unsigned vectors_of_32_bytes = 0x06;  // SSE, AVX
constexpr unsigned vectors_of_64_bytes = 0xe6;  // also masks, upper halves and upper registers

}  // namespace

bool has_x86_64_v3() {
    return has_all(cpuid(1).c, bit_AVX | bit_F16C | bit_FMA | bit_MOVBE | bit_OSXSAVE | bit_POPCNT) &&
           has_all(cpuid(7).b, bit_AVX2 | bit_BMI | bit_BMI2) &&
           has_all(cpuid(0x80000001).c, bit_LZCNT) && os_saves(vectors_of_32_bytes);
}

bool has_x86_64_v4() {
    return has_x86_64_v3() &&
           has_all(cpuid(7).b,
                   bit_AVX512F | bit_AVX512BW | bit_AVX512CD | bit_AVX512DQ | bit_AVX512VL) &&
           os_saves(vectors_of_64_bytes);
}

}  // namespace quadfeat
