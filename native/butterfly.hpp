// Multiply a tile by butterfly matrices: stages of rotations, up to three stages per pass.
#pragma once

#include <type_traits>

#include "simd.hpp"
#include "tangents.hpp"

namespace quadfeat::QUADFEAT_ISA {

// Apply a rotation without its factor, which is applied at the end of the pass; see tangents.hpp.
template <class T>
QUADFEAT_HOT void rotate_unscaled(Vector<T>& left, Vector<T>& right, T to_left, T to_right) {
    const Vector<T> turned = left + to_left * right;
    right = right - to_right * left;
    left = turned;
}

// Apply all stages of a pass to one set of coordinates. The pairs are in the order of for_pairs, in
// which append_run stores the coefficients. Return the position after the coefficients.
template <class T, std::size_t n_stages, std::size_t present>
QUADFEAT_HOT const T* rotate_all(Vector<T> (&v)[present], const T* coefficients) {
    constexpr bool twins = has_twins(present);
    T to_left{}, to_right{};
#pragma GCC unroll 3
    for (std::size_t step = 1; step >> n_stages == 0; step *= 2) {
#pragma GCC unroll 8
        for (std::size_t i = 0; i < present; ++i) {
            if ((i & step) || i + step >= present) continue;
            if (!twins || i % 2 == 0) {
                to_left = *coefficients++;
                to_right = twins && step == 1 ? to_left : *coefficients++;
            }
            rotate_unscaled<T>(v[i], v[i + step], to_left, to_right);
        }
    }
    T factor{};
#pragma GCC unroll 8
    for (std::size_t i = 0; i < present; ++i) {
        if (!twins || i % 2 == 0) factor = *coefficients++;
        v[i] *= factor;
    }
    return coefficients;
}

// Mix a set of coordinates that starts at `first`, with a distance of `half`. Read coordinate i
// from `from(i)`.
template <class T, std::size_t n_stages, std::size_t present, class From>
QUADFEAT_HOT const T* mix_set(From from, Vector<T>* to, std::size_t first, std::size_t half,
                              const T* coefficients) {
    Vector<T> v[present];
#pragma GCC unroll 8
    for (std::size_t k = 0; k < present; ++k) v[k] = from(first + k * half);
    coefficients = rotate_all<T, n_stages, present>(v, coefficients);
#pragma GCC unroll 8
    for (std::size_t k = 0; k < present; ++k) to[first + k * half] = v[k];
    return coefficients;
}

// Mix the coordinates of runs of a first pass. Read coordinate i from `from(i)`, which may be
// another array in another order. Return the position of the next coefficients.
template <class T, std::size_t n_stages, std::size_t present, class From>
inline const T* mix_first(const Runs& runs, From from, Vector<T>* to,
                          const T* __restrict coefficients) {
    std::size_t start = runs.start;
    for (std::size_t run = 0; run < runs.n_runs; ++run, start += std::size_t(1) << n_stages)
        coefficients = mix_set<T, n_stages, present>(from, to, start, 1, coefficients);
    return coefficients;
}

// Mix the coordinates of runs of a later pass, in place.
template <class T, std::size_t n_stages, std::size_t present>
inline const T* mix_later(const Runs& runs, Vector<T>* u, const T* __restrict coefficients) {
    const auto from = [u](std::size_t i) { return u[i]; };
    const std::size_t half = runs.half;
    std::size_t start = runs.start;
    for (std::size_t run = 0; run < runs.n_runs; ++run, start += half << n_stages) {
        const T* next = coefficients;
        for (std::size_t i = start; i < start + runs.count; ++i)
            next = mix_set<T, n_stages, present>(from, u, i, half, coefficients);
        coefficients = next;
    }
    return coefficients;
}

// Call use() with the number of coordinates of a set as a compile-time constant.
template <std::size_t most, class Use>
QUADFEAT_HOT auto with_present(std::size_t present, Use use) {
    if constexpr (most > 1)
        if (present < most) return with_present<most - 1>(present, use);
    return use(std::integral_constant<std::size_t, most>{});
}

// Multiply a tile by the butterfly matrix of one round, without its permutation. Read coordinate i
// from `from(i)` and write the result to `to`.
template <class T, class From>
inline void butterfly_round(From from, Vector<T>* to, std::size_t d, const T* coefficients) {
    for_runs(d, [&](const Runs& runs) {
        const auto mix = [&](auto stages) {
            constexpr std::size_t n_stages = decltype(stages)::value;
            return with_present<(1 << n_stages)>(runs.present, [&](auto present) -> const T* {
                if constexpr (present > 1) {
                    if (runs.half > 1) return mix_later<T, n_stages, present>(runs, to, coefficients);
                    return mix_first<T, n_stages, present>(runs, from, to, coefficients);
                }
                if (runs.half == 1) to[runs.start] = from(runs.start);
                return coefficients;
            });
        };
        if (runs.stages == 3)
            coefficients = mix(std::integral_constant<std::size_t, 3>{});
        else if (runs.stages == 2)
            coefficients = mix(std::integral_constant<std::size_t, 2>{});
        else
            coefficients = mix(std::integral_constant<std::size_t, 1>{});
    });
}

}  // namespace quadfeat::QUADFEAT_ISA
