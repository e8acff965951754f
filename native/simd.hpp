// Vectors of one register, based on the compiler's vector extensions. The same source serves SSE2,
// AVX2, AVX-512 and NEON. The build sets QUADFEAT_VECTOR_BYTES to the width of a register.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#ifndef QUADFEAT_VECTOR_BYTES
#define QUADFEAT_VECTOR_BYTES 16
#endif

// Every build of the core has its own namespace, so that the linker keeps them separate.
#ifndef QUADFEAT_ISA
#define QUADFEAT_ISA baseline
#endif

// For functions that run once per vector. By default, the compiler would inline only some of them.
#define QUADFEAT_HOT __attribute__((always_inline)) inline
// For functions that run once per tile or block, or rarely. Their machine code then does not depend
// on their callers.
#define QUADFEAT_NOINLINE __attribute__((noinline))

namespace quadfeat::QUADFEAT_ISA {

template <class T>
struct Simd;

template <>
struct Simd<float> {
    typedef float Vector __attribute__((vector_size(QUADFEAT_VECTOR_BYTES)));
    typedef std::int32_t Bits __attribute__((vector_size(QUADFEAT_VECTOR_BYTES)));
    static constexpr int sign_shift = 31;
};

template <>
struct Simd<double> {
    typedef double Vector __attribute__((vector_size(QUADFEAT_VECTOR_BYTES)));
    typedef std::int64_t Bits __attribute__((vector_size(QUADFEAT_VECTOR_BYTES)));
    static constexpr int sign_shift = 63;
};

template <class T>
using Vector = typename Simd<T>::Vector;

// Number of rows that are computed in parallel.
template <class T>
inline constexpr std::size_t lanes = QUADFEAT_VECTOR_BYTES / sizeof(T);

template <class T>
QUADFEAT_HOT Vector<T> broadcast(T value) {
    return value - Vector<T>{};  // the compiler simplifies this, but not a sum with zero
}

template <class T>
QUADFEAT_HOT void store_unaligned(void* where, Vector<T> value) {
    std::memcpy(where, &value, sizeof value);
}

template <class T>
QUADFEAT_HOT Vector<T> load_unaligned(const void* where) {
    Vector<T> value;
    std::memcpy(&value, where, sizeof value);
    return value;
}

// Swap blocks of `Step` lanes between two vectors: the off-diagonal blocks of a 2 x 2 block matrix.
template <class T, std::size_t Step, std::size_t... Lane>
QUADFEAT_HOT void swap_blocks(Vector<T>& a, Vector<T>& b, std::index_sequence<Lane...>) {
    constexpr std::size_t n = sizeof...(Lane);
    const Vector<T> upper =
        __builtin_shufflevector(a, b, ((Lane & Step) ? n + (Lane ^ Step) : Lane)...);
    b = __builtin_shufflevector(a, b, ((Lane & Step) ? n + Lane : (Lane ^ Step))...);
    a = upper;
}

// Interleave the lanes of two vectors within each 16 bytes. The first half goes to a, the second to
// b. This takes one instruction each, whereas swapping single lanes takes more.
template <class T, std::size_t... Lane>
QUADFEAT_HOT void interleave(Vector<T>& a, Vector<T>& b, std::index_sequence<Lane...>) {
    constexpr std::size_t n = sizeof...(Lane);
    const Vector<T> low = __builtin_shufflevector(
        a, b, ((Lane & 1) * n + (Lane & ~std::size_t(3)) + (Lane & 3) / 2)...);
    b = __builtin_shufflevector(
        a, b, ((Lane & 1) * n + (Lane & ~std::size_t(3)) + 2 + (Lane & 3) / 2)...);
    a = low;
}

template <class T, std::size_t Step>
QUADFEAT_HOT void transpose_blocks(Vector<T> (&square)[lanes<T>]) {
    if constexpr (Step < lanes<T>) {
        for (std::size_t i = 0; i < lanes<T>; ++i)
            if (!(i & Step))
                swap_blocks<T, Step>(square[i], square[i + Step],
                                     std::make_index_sequence<lanes<T>>{});
        transpose_blocks<T, 2 * Step>(square);
    }
}

template <class T>
QUADFEAT_HOT void transpose(Vector<T> (&square)[lanes<T>]) {
    if constexpr (sizeof(T) == 8) {
        transpose_blocks<T, 1>(square);
    } else {
        for (std::size_t i = 0; i < lanes<T>; i += 2)
            interleave<T>(square[i], square[i + 1], std::make_index_sequence<lanes<T>>{});
        transpose_blocks<T, 2>(square);
        // Interleaving exchanged the middle two of each four rows.
        for (std::size_t i = 0; i < lanes<T>; i += 4) std::swap(square[i + 1], square[i + 2]);
    }
}

}  // namespace quadfeat::QUADFEAT_ISA
