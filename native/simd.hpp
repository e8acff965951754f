// Vectors of one register, by the compiler's vector extensions: the same source for SSE2, AVX2,
// AVX-512 and NEON. QUADFEAT_VECTOR_BYTES is the width of a register, set by the build.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#ifndef QUADFEAT_VECTOR_BYTES
#define QUADFEAT_VECTOR_BYTES 16
#endif

// Every build of the core lives in a namespace of its own, so that the linker keeps them apart.
#ifndef QUADFEAT_ISA
#define QUADFEAT_ISA baseline
#endif

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

// Rows of data that are computed side by side.
template <class T>
inline constexpr std::size_t lanes = QUADFEAT_VECTOR_BYTES / sizeof(T);

template <class T>
inline Vector<T> broadcast(T value) {
    return Vector<T>{} + value;
}

template <class T>
inline void store_unaligned(T* where, Vector<T> value) {
    std::memcpy(where, &value, sizeof value);
}

// Swap blocks of `Step` lanes between two vectors: what is off the diagonal of a 2 x 2 block matrix.
template <class T, std::size_t Step, std::size_t... Lane>
inline void swap_blocks(Vector<T>& a, Vector<T>& b, std::index_sequence<Lane...>) {
    constexpr std::size_t n = sizeof...(Lane);
    const Vector<T> upper =
        __builtin_shufflevector(a, b, ((Lane & Step) ? n + (Lane ^ Step) : Lane)...);
    b = __builtin_shufflevector(a, b, ((Lane & Step) ? n + Lane : (Lane ^ Step))...);
    a = upper;
}

template <class T, std::size_t Step = 1>
inline void transpose(Vector<T> (&square)[lanes<T>]) {
    if constexpr (Step < lanes<T>) {
        for (std::size_t i = 0; i < lanes<T>; ++i)
            if (!(i & Step))
                swap_blocks<T, Step>(square[i], square[i + Step],
                                     std::make_index_sequence<lanes<T>>{});
        transpose<T, 2 * Step>(square);
    }
}

}  // namespace quadfeat::QUADFEAT_ISA
