// The unnormalized Hadamard transform of a tile, with three stages per pass.
#pragma once

#include "simd.hpp"

namespace quadfeat::QUADFEAT_ISA {

template <class T>
QUADFEAT_HOT void sum_and_difference(Vector<T>& left, Vector<T>& right) {
    const Vector<T> sum = left + right;
    right = left - right;
    left = sum;
}

template <class T>
inline void hadamard(Vector<T>* u, std::size_t size) {
    std::size_t half = 1;
    for (; 4 * half < size; half *= 8) {
        for (std::size_t start = 0; start < size; start += 8 * half) {
            for (std::size_t i = start; i < start + half; ++i) {
                Vector<T> v[8];
                for (std::size_t k = 0; k < 8; ++k) v[k] = u[i + k * half];
                for (std::size_t step = 1; step < 8; step *= 2)
                    for (std::size_t k = 0; k < 8; ++k)
                        if (!(k & step)) sum_and_difference<T>(v[k], v[k + step]);
                for (std::size_t k = 0; k < 8; ++k) u[i + k * half] = v[k];
            }
        }
    }
    for (; half < size; half *= 2)
        for (std::size_t start = 0; start < size; start += 2 * half)
            for (std::size_t i = start; i < start + half; ++i)
                sum_and_difference<T>(u[i], u[i + half]);
}

}  // namespace quadfeat::QUADFEAT_ISA
