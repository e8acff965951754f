// A fitted map in the form that the core uses: plain pointers, owned by the caller.
#pragma once

#include <cstddef>
#include <cstdint>

namespace quadfeat {

enum class Structure { given, dense, butterfly, hadamard };
// To add a nonlinearity, also add a case in columns.hpp and tile.hpp, and a name in bindings.cpp.
enum class Phi { fourier, step, ramp, squared_ramp, identity };

// Number of nodes of a dense matrix whose inner products are computed together. It is large enough
// to hide the latency of an addition. The last group is padded with zeros.
inline constexpr std::size_t dense_group = 12;

template <class T>
struct Plan {
    Structure structure;  // how inner products with the directions are computed
    Phi phi;              // the nonlinearity
    bool simplex;         // whether blocks are simplices (d + 1 directions) or orthoplexes
    bool reflected;       // whether each node has a second column, phi(-argument)
    bool last_is_single;  // whether the last node lacks its second column

    std::size_t d;        // number of columns of X
    std::size_t size;     // size of the matrices: d, or the next power of two
    std::size_t n_blocks;
    std::size_t rounds;
    std::size_t n_nodes;

    const T* matrix;                   // dense: (n_nodes / dense_group, d, dense_group)
    const T* tangents;                 // butterfly: (n_blocks, rounds, n_tangents)
    std::size_t n_tangents;            // number of coefficients of a round
    const T* diagonals;                // hadamard: (n_blocks, rounds, size)
    const std::int32_t* permutations;  // both: (n_blocks, rounds, size), or null for none
    const T* below;                    // simplex: (size,)
    const T* on;                       // simplex: (size,)

    const T* factors;     // (d,): the factors of the columns of X
    const T* radii;       // (n_nodes,): the factors of inner products; in half turns for fourier
    const T* amplitudes;  // (n_nodes,)
    T phase;              // phase shift of a single last cosine, in half turns
    bool has_origin;
    T origin;  // value of the last column, if has_origin

    std::size_t n_columns() const {
        const bool pairs = phi == Phi::fourier || reflected;
        return n_nodes * (pairs ? 2 : 1) - last_is_single + has_origin;
    }
};

// A strided matrix. Strides are in bytes, since rows may not be aligned to their dtype.
template <class Byte>
struct Matrix {
    Byte* data;
    std::size_t rows;
    std::size_t columns;
    std::ptrdiff_t row_stride;
    std::ptrdiff_t column_stride;

    Byte* at(std::size_t row, std::size_t column) const {
        return data + static_cast<std::ptrdiff_t>(row) * row_stride +
               static_cast<std::ptrdiff_t>(column) * column_stride;
    }

    Matrix some_rows(std::size_t first, std::size_t count) const {
        return {at(first, 0), count, columns, row_stride, column_stride};
    }
};

}  // namespace quadfeat
