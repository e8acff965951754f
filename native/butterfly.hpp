// Butterfly matrices on a tile: stages of rotations, up to three of them a pass.
#pragma once

#include "simd.hpp"
#include "tangents.hpp"

namespace quadfeat::QUADFEAT_ISA {

template <class T>
QUADFEAT_HOT void rotate(Vector<T>& left, Vector<T>& right, T cosine, T sine) {
    const Vector<T> turned = cosine * left + sine * right;
    right = cosine * right - sine * left;
    left = turned;
}

// A rotation but for a factor that waits; see tangents.hpp.
template <class T>
QUADFEAT_HOT void rotate_unscaled(Vector<T>& left, Vector<T>& right, T to_left, T to_right) {
    const Vector<T> turned = left + to_left * right;
    right = right - to_right * left;
    left = turned;
}

// All stages of a pass on the 2^n_stages coordinates that they mix.
template <class T, std::size_t n_stages>
QUADFEAT_HOT void rotate_all(Vector<T>* v, const T* coefficients) {
    constexpr std::size_t radix = std::size_t(1) << n_stages;
    if constexpr (n_stages == 1) {
        rotate<T>(v[0], v[1], coefficients[0], coefficients[1]);
    } else {
#pragma GCC unroll 8
        for (std::size_t i = 0; i < radix; i += 2) {
            const T tangent = *coefficients++;
            rotate_unscaled<T>(v[i], v[i + 1], tangent, tangent);
        }
#pragma GCC unroll 2
        for (std::size_t step = 2; step < radix; step *= 2) {
#pragma GCC unroll 8
            for (std::size_t i = 0; i < radix; i += 2) {
                if (i & step) continue;
                const T to_left = *coefficients++, to_right = *coefficients++;
                rotate_unscaled<T>(v[i], v[i + step], to_left, to_right);
                rotate_unscaled<T>(v[i + 1], v[i + 1 + step], to_left, to_right);
            }
        }
#pragma GCC unroll 8
        for (std::size_t i = 0; i < radix; i += 2) {
            const T factor = *coefficients++;
            v[i] *= factor;
            v[i + 1] *= factor;
        }
    }
}

// One pass. Reads coordinate i from `from(i)`, which may be elsewhere and in another order, and
// returns where the coefficients of the next pass are.
template <class T, std::size_t n_stages, class From>
inline const T* butterfly_pass(From from, Vector<T>* to, std::size_t d, std::size_t half,
                               const T* __restrict coefficients) {
    constexpr std::size_t radix = std::size_t(1) << n_stages;
    const std::size_t whole = d / (radix * half);
    for (std::size_t run = 0; run < whole; ++run) {
        const std::size_t start = run * radix * half;
        for (std::size_t i = start; i < start + half; ++i) {
            Vector<T> v[radix];
#pragma GCC unroll 8
            for (std::size_t k = 0; k < radix; ++k) v[k] = from(i + k * half);
            rotate_all<T, n_stages>(v, coefficients);
#pragma GCC unroll 8
            for (std::size_t k = 0; k < radix; ++k) to[i + k * half] = v[k];
        }
        coefficients += coefficients_of_run(n_stages);
    }
    // What is left is no whole run; pairs whose partner is past the end stay as they are.
    const std::size_t rest = whole * radix * half;
    for (std::size_t i = rest; i < d; ++i) to[i] = from(i);
    for (std::size_t k = 0; k < n_stages; ++k, half *= 2) {
        for (std::size_t start = rest; start + half < d; start += 2 * half, coefficients += 2) {
            const T c = coefficients[0], s = coefficients[1];
            const std::size_t pairs = start + 2 * half <= d ? half : d - half - start;
            for (std::size_t i = start; i < start + pairs; ++i) rotate<T>(to[i], to[i + half], c, s);
        }
    }
    return coefficients;
}

// Multiply a tile by the butterfly matrix of one round, without its permutation. Coordinate i is
// read from `from(i)` and the result written to `to`.
template <class T, class From>
inline void butterfly_round(From from, Vector<T>* to, std::size_t d, const T* coefficients) {
    const auto pass = [&](auto source, std::size_t half) {
        const std::size_t n_stages = stages_of_pass(d, half);
        if (n_stages == 3)
            coefficients = butterfly_pass<T, 3>(source, to, d, half, coefficients);
        else if (n_stages == 2)
            coefficients = butterfly_pass<T, 2>(source, to, d, half, coefficients);
        else
            coefficients = butterfly_pass<T, 1>(source, to, d, half, coefficients);
        return half << n_stages;
    };
    const auto in_place = [to](std::size_t i) { return to[i]; };
    for (std::size_t half = pass(from, 1); half < d;) half = pass(in_place, half);
}

}  // namespace quadfeat::QUADFEAT_ISA
