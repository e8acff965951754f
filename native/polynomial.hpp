// Polynomials of a vector, by Horner's rule.
#pragma once

#include "simd.hpp"

namespace quadfeat::QUADFEAT_ISA {

template <class T, std::size_t N>
QUADFEAT_HOT Vector<T> polynomial(const T (&coefficients)[N], Vector<T> y) {
    Vector<T> value = broadcast<T>(coefficients[N - 1]);
    for (std::size_t k = N - 1; k-- > 0;) value = value * y + coefficients[k];
    return value;
}

}  // namespace quadfeat::QUADFEAT_ISA
