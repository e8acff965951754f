// Cholesky factors of several symmetric matrices at once, one matrix per vector lane.
//
// A lower triangle is stored in panels of `block` rows, from the left to the diagonal. A panel is
// stored column by column. Matrices are padded to whole panels.
#pragma once

#include "exponential.hpp"

namespace quadfeat::QUADFEAT_ISA {

// A block of this many rows and columns, with a row and a column for products, fits into the
// registers: 32 of them with AVX-512 and NEON, 16 otherwise.
#if defined(__AVX512F__) || defined(__aarch64__)
inline constexpr std::size_t block = 4;
#else
inline constexpr std::size_t block = 3;
#endif
inline constexpr std::size_t block_size = block * block;

// The position of a panel, which is also the size of the triangle above it.
constexpr std::size_t panel_start(std::size_t panel) { return block_size * panel * (panel + 1) / 2; }

struct Block {
    Doubles at[block][block];  // row, column

    QUADFEAT_HOT void load(const Doubles* from) {
#pragma GCC unroll 4
        for (std::size_t column = 0; column < block; ++column)
#pragma GCC unroll 4
            for (std::size_t row = 0; row < block; ++row)
                at[row][column] = from[column * block + row];
    }

    QUADFEAT_HOT void store(Doubles* to) const {
#pragma GCC unroll 4
        for (std::size_t column = 0; column < block; ++column)
#pragma GCC unroll 4
            for (std::size_t row = 0; row < block; ++row)
                to[column * block + row] = at[row][column];
    }

    // Subtract A B', where A and B are panels with `count` columns.
    QUADFEAT_HOT void subtract_product(const Doubles* A, const Doubles* B, std::size_t count) {
        for (; count > 0; --count, A += block, B += block) {
#pragma GCC unroll 4
            for (std::size_t row = 0; row < block; ++row)
#pragma GCC unroll 4
                for (std::size_t column = 0; column < block; ++column)
                    at[row][column] -= A[row] * B[column];
        }
    }

    // Multiply by the inverse of L' from the right, for a block L on the diagonal of a factor.
    QUADFEAT_HOT void divide(const Doubles* L, const Doubles* inverses) {
#pragma GCC unroll 4
        for (std::size_t column = 0; column < block; ++column)
#pragma GCC unroll 4
            for (std::size_t row = 0; row < block; ++row) {
#pragma GCC unroll 4
                for (std::size_t before = 0; before < column; ++before)
                    at[row][column] -= at[row][before] * L[before * block + column];
                at[row][column] *= inverses[column];
            }
    }

    // Replace the block by its factor. Write the inverses of the diagonal. Return in which lanes
    // the block is not positive definite.
    QUADFEAT_HOT DoubleBits factor(Doubles* inverses) {
        DoubleBits failed{};
#pragma GCC unroll 4
        for (std::size_t column = 0; column < block; ++column) {
            failed |= ~(DoubleBits)(at[column][column] > Doubles{});
            const Doubles root = square_root(at[column][column]);
            const Doubles inverse = 1.0 / root;
            inverses[column] = inverse;
            at[column][column] = root;
#pragma GCC unroll 4
            for (std::size_t row = column + 1; row < block; ++row) {
                at[column][row] = Doubles{};
                at[row][column] *= inverse;
#pragma GCC unroll 4
                for (std::size_t other = column + 1; other <= row; ++other)
                    at[row][other] -= at[row][column] * at[other][column];
            }
        }
        return failed;
    }
};

// Multiply a panel by the inverse of L' from the right, where L is a factor of `panels` panels.
QUADFEAT_NOINLINE inline void divide_panel(const Doubles* from, const Doubles* L,
                                           const Doubles* inverses, std::size_t panels,
                                           Doubles* to) {
    for (std::size_t J = 0; J < panels; ++J) {
        const Doubles* const row = L + panel_start(J);
        Block part;
        part.load(from + J * block_size);
        part.subtract_product(to, row, J * block);
        part.divide(row + J * block_size, inverses + J * block);
        part.store(to + J * block_size);
    }
}

// Compute the factors L of A + diag(added), and the inverses of their diagonals. Return in which
// lanes A has none. Those lanes of L are not numbers.
QUADFEAT_NOINLINE inline DoubleBits factor_triangle(const Doubles* A, Doubles added,
                                                    std::size_t panels, Doubles* L,
                                                    Doubles* inverses) {
    DoubleBits failed{};
    for (std::size_t I = 0; I < panels; ++I) {
        const Doubles* const from = A + panel_start(I);
        Doubles* const to = L + panel_start(I);
        divide_panel(from, L, inverses, I, to);
        Block corner;
        corner.load(from + I * block_size);
        for (std::size_t row = 0; row < block; ++row) corner.at[row][row] += added;
        corner.subtract_product(to, to, I * block);
        failed |= corner.factor(inverses + I * block);
        corner.store(to + I * block_size);
    }
    return failed;
}

// Multiply two columns, which are interleaved in x, by the inverse of L'.
QUADFEAT_NOINLINE inline void divide_by_transpose(const Doubles* L, const Doubles* inverses,
                                                  std::size_t panels, Doubles* x) {
    for (std::size_t J = panels; J-- > 0;) {
        Doubles part[block][2];
        for (std::size_t column = 0; column < block; ++column)
            for (std::size_t side = 0; side < 2; ++side)
                part[column][side] = x[2 * (J * block + column) + side];
        for (std::size_t I = J + 1; I < panels; ++I) {
            const Doubles* const below = L + panel_start(I) + J * block_size;
            const Doubles* const known = x + 2 * I * block;
#pragma GCC unroll 4
            for (std::size_t column = 0; column < block; ++column)
#pragma GCC unroll 4
                for (std::size_t row = 0; row < block; ++row)
#pragma GCC unroll 2
                    for (std::size_t side = 0; side < 2; ++side)
                        part[column][side] -= below[column * block + row] * known[2 * row + side];
        }
        const Doubles* const corner = L + panel_start(J) + J * block_size;
#pragma GCC unroll 4
        for (std::size_t column = block; column-- > 0;)
#pragma GCC unroll 2
            for (std::size_t side = 0; side < 2; ++side) {
                for (std::size_t row = column + 1; row < block; ++row)
                    part[column][side] -= corner[column * block + row] * part[row][side];
                part[column][side] *= inverses[J * block + column];
                x[2 * (J * block + column) + side] = part[column][side];
            }
    }
}

}  // namespace quadfeat::QUADFEAT_ISA
