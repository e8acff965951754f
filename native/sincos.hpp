// Cosine and sine of an angle in half turns.
#pragma once

#include "polynomial.hpp"
#include "simd.hpp"

namespace quadfeat::QUADFEAT_ISA {

// Minimax polynomials in f^2 for |f| <= 1/2: sin(pi f) / f (relative error) and cos(pi f) (absolute
// error).
template <class T>
struct HalfTurn;

template <>
struct HalfTurn<float> {
    static constexpr float sine[] = {3.1415926368961182f, -5.1677096848420054f,
                                     2.5500697269350597f, -0.59824212930563712f,
                                     0.077560391389719789f};
    static constexpr float cosine[] = {0.99999999978067233f, -4.9348021372284155f,
                                       4.0587091643413800f,  -1.3352120566825149f,
                                       0.23493755903788272f, -0.024396716605240207f};
    static constexpr float rounder = 12582912.0f;  // 1.5 * 2^23
    static constexpr float largest = 4194304.0f;   // 2^22
};

template <>
struct HalfTurn<double> {
    static constexpr double sine[] = {
        3.1415926535897932377,   -5.1677127800499695287,   2.5501640398772939382,
        -0.5992645293187382163,  0.082145886569892609519,  -0.0073704304787624609946,
        0.0004662996887731735553, -0.000021903185420805376773, 7.6947273283067904961e-7};
    static constexpr double cosine[] = {
        0.99999999999999999609,  -4.9348022005446767737,  4.0587121264164975449,
        -1.3352627688434645931,  0.23533063012980844886,  -0.02580688873935804581,
        0.0019295562836343032185, -0.00010456658087273931286, 4.1495918670635268621e-6};
    static constexpr double rounder = 6755399441055744.0;  // 1.5 * 2^52
    static constexpr double largest = 2251799813685248.0;  // 2^51
};

// Write amplitude * cos(pi t) and amplitude * sin(pi t), for |t| up to `largest`.
//
// Adding and subtracting `rounder` rounds t to the nearest integer number of half turns. The
// remainder is exact. The parity of the integer, which is the lowest bit of the sum, gives the sign
// of both results. This fails beyond `largest`, so the caller must not pass larger angles. A check
// of each angle here would add a twentieth to the total time.
template <class T>
QUADFEAT_HOT void sincos_half_turns(Vector<T> t, Vector<T> amplitude, Vector<T>& cosine,
                              Vector<T>& sine) {
    using Bits = typename Simd<T>::Bits;
    using Constants = HalfTurn<T>;
    const Vector<T> shifted = t + Constants::rounder;
    const Vector<T> f = t - (shifted - Constants::rounder);
    const Vector<T> y = f * f;
    const Bits sign = (Bits)shifted << Simd<T>::sign_shift;
    const Vector<T> signed_amplitude = (Vector<T>)((Bits)amplitude ^ sign);
    cosine = signed_amplitude * polynomial<T>(Constants::cosine, y);
    sine = signed_amplitude * (f * polynomial<T>(Constants::sine, y));
}

}  // namespace quadfeat::QUADFEAT_ISA
