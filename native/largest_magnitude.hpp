// Find the largest magnitude in a matrix, and detect entries that are not finite, in one pass.
#pragma once

#include <cstdlib>
#include <limits>
#include <type_traits>
#include <utility>

#include "plan.hpp"
#include "simd.hpp"

namespace quadfeat::QUADFEAT_ISA {

// Without the sign bit, floating-point numbers are ordered like their bits as integers. Infinity is
// above all finite numbers, and NaN is above infinity.
template <class T>
class LargestMagnitude {
public:
    void take(const char* values, std::size_t count, std::ptrdiff_t stride) {
        if (stride == static_cast<std::ptrdiff_t>(sizeof(T)))
            for (; count >= 4 * lanes<T>; count -= 4 * lanes<T>)
                for (std::size_t k = 0; k < 4; ++k, values += sizeof(Vector<T>))
                    largest_[k] = larger(largest_[k], (Bits)load_unaligned<T>(values) & magnitude);
        for (; count > 0; --count, values += stride) {
            T value;
            std::memcpy(&value, values, sizeof value);
            largest_[0] = larger(largest_[0], (Bits)broadcast<T>(value) & magnitude);
        }
    }

    T result() const {
        const Bits all = larger(larger(largest_[0], largest_[1]), larger(largest_[2], largest_[3]));
        auto largest = all[0];
        for (std::size_t k = 1; k < lanes<T>; ++k)
            if (all[k] > largest) largest = all[k];
        T value;
        std::memcpy(&value, &largest, sizeof value);
        return value;
    }

private:
    using Bits = typename Simd<T>::Bits;
    static constexpr auto magnitude = std::numeric_limits<std::decay_t<decltype(Bits{}[0])>>::max();

    static Bits larger(Bits a, Bits b) { return a > b ? a : b; }

    Bits largest_[4] = {};
};

template <class T>
T largest_magnitude(Matrix<const char> X) {
    if (std::abs(X.row_stride) < std::abs(X.column_stride)) {
        std::swap(X.rows, X.columns);
        std::swap(X.row_stride, X.column_stride);
    }
    if (X.row_stride == static_cast<std::ptrdiff_t>(X.columns) * X.column_stride) {
        X.columns *= X.rows;
        X.rows = 1;
    }
    LargestMagnitude<T> largest;
    for (std::size_t row = 0; row < X.rows; ++row)
        largest.take(X.data + static_cast<std::ptrdiff_t>(row) * X.row_stride, X.columns,
                     X.column_stride);
    return largest.result();
}

}  // namespace quadfeat::QUADFEAT_ISA
