// Exponentials, logarithms and square roots of vectors of doubles.
#pragma once

#include <cmath>

#include "polynomial.hpp"
#include "simd.hpp"

namespace quadfeat::QUADFEAT_ISA {

using Doubles = Vector<double>;
using DoubleBits = Simd<double>::Bits;

QUADFEAT_HOT Doubles square_root(Doubles x) {
#if defined(__has_builtin) && __has_builtin(__builtin_elementwise_sqrt)
    return __builtin_elementwise_sqrt(x);
#else
    for (std::size_t lane = 0; lane < lanes<double>; ++lane) x[lane] = std::sqrt(x[lane]);
    return x;
#endif
}

// log(2) in two parts. The first one has few digits, so that its multiples are exact.
inline constexpr double log2_high = 0x1.62e42feep-1;
inline constexpr double log2_low = 0x1.a39ef35793c76p-33;

// Return exp(x) for x <= 0, and 0 where the result would be subnormal.
//
// x = n log(2) + r with |r| <= log(2) / 2, and exp(r) = 1 + r + r^2 p(r) with a minimax polynomial.
QUADFEAT_HOT Doubles exp_of_negative(Doubles x) {
    constexpr double coefficients[] = {
        0.50000000000000010221,  0.16666666666666667453,  0.041666666666624127873,
        0.0083333333333300618325, 0.0013888888917213716901, 0.00019841269863053616878,
        0.000024801521295954375131, 2.7557268459997064772e-6, 2.7620088445409748161e-7,
        2.5100385495510319078e-8};
    constexpr double rounder = 6755399441055744.0;  // 1.5 * 2^52
    constexpr double least = -708.0;                // its exponential is a normal number
    const Doubles clipped = x > least ? x : broadcast(least);
    const Doubles shifted = clipped * 1.4426950408889634074 + rounder;
    const Doubles n = shifted - rounder;
    const Doubles r = (clipped - n * log2_high) - n * log2_low;
    const Doubles value = 1.0 + (r + r * r * polynomial<double>(coefficients, r));
    // The lowest bits of `shifted` are n. Add them to the exponent.
    const Doubles scaled = (Doubles)((DoubleBits)value + ((DoubleBits)shifted << 52));
    return x > least ? scaled : Doubles{};
}

// Return log(1 + x) for x >= 0.
//
// 1 + x = 2^e m with m between sqrt(1/2) and sqrt(2), and log(m) = 2 atanh(s), s = (m - 1) / (m + 1).
QUADFEAT_HOT Doubles log_of_one_plus(Doubles x) {
    constexpr double coefficients[] = {0.66666666666666696905, 0.39999999999899381939,
                                       0.28571428626031066765, 0.22222211125722808938,
                                       0.18182889786191042483, 0.15331699633543858719,
                                       0.14616721179861815749};
    constexpr std::int64_t root_of_half = 0x3fe6a09e667f3bcd;  // the bits of sqrt(1/2)
    constexpr std::int64_t mantissa = (std::int64_t(1) << 52) - 1;
    constexpr double two_52 = 4503599627370496.0;
    const Doubles sum = 1.0 + x;
    // What the sum lost to rounding. Large sums lose less than their last digit.
    const Doubles lost = (x - (sum - 1.0)) / sum;
    const DoubleBits shifted = (DoubleBits)sum - root_of_half;
    const DoubleBits exponent = shifted >> 52;
    const Doubles m = (Doubles)((shifted & mantissa) + root_of_half);
    // Convert the exponent, which is small and not negative, without an instruction for it.
    const Doubles e =
        (Doubles)(exponent | (DoubleBits)broadcast(two_52)) - two_52;
    const Doubles s = (m - 1.0) / (m + 1.0);
    const Doubles z = s * s;
    const Doubles log_m = 2.0 * s + s * z * polynomial<double>(coefficients, z);
    return e * log2_high + (log_m + (e * log2_low + lost));
}

}  // namespace quadfeat::QUADFEAT_ISA
