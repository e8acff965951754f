// One tile: as many rows as a vector has lanes, from the input to the output.
#pragma once

#include <vector>

#include "butterfly.hpp"
#include "columns.hpp"
#include "hadamard.hpp"
#include "plan.hpp"

namespace quadfeat::QUADFEAT_ISA {

// Memory that a thread reuses from tile to tile. Aligned to vectors.
template <class T>
class Workspace {
public:
    explicit Workspace(const Plan<T>& plan) : width_(plan.size) {
        const std::size_t vectors = 3 * width_ + stage_stride<T>;
        memory_.resize((vectors + 1) * lanes<T>);
    }

    Vector<T>* rows() { return base(); }
    Vector<T>* here() { return base() + width_; }
    Vector<T>* there() { return base() + 2 * width_; }
    T* stage() { return reinterpret_cast<T*>(base() + 3 * width_); }

private:
    Vector<T>* base() {
        const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
        const std::uintptr_t aligned = (address + sizeof(Vector<T>) - 1) & ~(sizeof(Vector<T>) - 1);
        return reinterpret_cast<Vector<T>*>(aligned);
    }

    std::size_t width_;
    std::vector<T> memory_;
};

// Read a tile of scaled rows, column by column. Rows past the end, and columns past d, are zeros.
template <class T>
QUADFEAT_APART void load_rows(const Plan<T>& plan, const Matrix<const char>& X, std::size_t first_row,
                      std::size_t rows, Vector<T>* u) {
    const bool contiguous = X.column_stride == static_cast<std::ptrdiff_t>(sizeof(T));
    const char* const top = X.data + static_cast<std::ptrdiff_t>(first_row) * X.row_stride;
    std::size_t column = 0;
    if (contiguous && rows == lanes<T>) {
        for (; column + lanes<T> <= plan.d; column += lanes<T>) {
            Vector<T> square[lanes<T>];
            for (std::size_t row = 0; row < lanes<T>; ++row)
                square[row] = load_unaligned<T>(top + static_cast<std::ptrdiff_t>(row) * X.row_stride +
                                                static_cast<std::ptrdiff_t>(column * sizeof(T)));
            transpose<T>(square);
            for (std::size_t k = 0; k < lanes<T>; ++k)
                u[column + k] = square[k] * plan.factors[column + k];
        }
    }
    for (; column < plan.d; ++column) {
        T values[lanes<T>] = {};
        for (std::size_t row = 0; row < rows; ++row)
            std::memcpy(&values[row],
                        top + static_cast<std::ptrdiff_t>(row) * X.row_stride +
                            static_cast<std::ptrdiff_t>(column) * X.column_stride,
                        sizeof(T));
        Vector<T> packed;
        std::memcpy(&packed, values, sizeof packed);
        u[column] = packed * plan.factors[column];
    }
    for (; column < plan.size; ++column) u[column] = Vector<T>{};
}

// Turn the rows by the matrix of one block and return where the result is.
template <class T>
QUADFEAT_APART const Vector<T>* turn(const Plan<T>& plan, std::size_t block, Workspace<T>& work) {
    const std::size_t size = plan.size;
    const Vector<T>* from = work.rows();
    Vector<T>* to = work.here();
    for (std::size_t k = 0; k < plan.rounds; ++k) {
        const std::size_t round = block * plan.rounds + k;
        const std::int32_t* order = plan.permutations ? plan.permutations + round * size : nullptr;
        if (plan.structure == Structure::butterfly) {
            // The permutation costs nothing: it is where the first pass reads.
            butterfly_round<T>([=](std::size_t i) { return from[order[i]]; }, to, size,
                               plan.tangents + round * plan.n_tangents);
        } else {
            const T* diagonal = plan.diagonals + round * size;
            if (order)
                for (std::size_t i = 0; i < size; ++i) to[i] = from[order[i]] * diagonal[i];
            else
                for (std::size_t i = 0; i < size; ++i) to[i] = from[i] * diagonal[i];
            hadamard<T>(to, size);
        }
        from = to;
        to = from == work.here() ? work.there() : work.here();
    }
    return from;
}

// Inner products with the vertices of one block, in order, until there are enough nodes.
template <class T, class Writer>
QUADFEAT_APART void put_vertices(const Plan<T>& plan, const Vector<T>* u, Writer& nodes) {
    const std::size_t missing = nodes.missing();
    const std::size_t count = missing < plan.size ? missing : plan.size;
    if (!plan.simplex) {
        nodes.put(count, [&u] { return *u++; });
        return;
    }
    const T *on = plan.on, *below = plan.below;
    Vector<T> running{};
    nodes.put(count, [&] {
        const Vector<T> value = *u++;
        const Vector<T> inner_product = value * *on++ + running;
        running -= value * *below++;
        return inner_product;
    });
    if (missing > plan.size) nodes.put(1, [&] { return running; });
}

// Inner products with a dense matrix, a few nodes at a time.
template <class T, class Writer>
QUADFEAT_APART void put_dense(const Plan<T>& plan, const Vector<T>* u, Writer& nodes) {
    const T* column = plan.matrix;
    while (const std::size_t missing = nodes.missing()) {
        Vector<T> sums[dense_group] = {};
        for (std::size_t i = 0; i < plan.d; ++i, column += dense_group)
#pragma GCC unroll 8
            for (std::size_t k = 0; k < dense_group; ++k) sums[k] += u[i] * column[k];
        const Vector<T>* sum = sums;
        nodes.put(missing < dense_group ? missing : dense_group, [&sum] { return *sum++; });
    }
}

template <class T, Phi phi, bool reflected>
inline void transform_tile(const Plan<T>& plan, const Matrix<const char>& X,
                           const Matrix<char>& out, std::size_t tile, bool streams,
                           Workspace<T>& work) {
    const std::size_t first_row = tile * lanes<T>;
    const std::size_t rows = X.rows - first_row < lanes<T> ? X.rows - first_row : lanes<T>;
    load_rows<T>(plan, X, first_row, rows, work.rows());
    RowWriter<T> row_writer(out, first_row, rows, work.stage(), streams);
    NodeWriter<T, phi, reflected> nodes(plan, row_writer);
    if (plan.structure == Structure::given) {
        const Vector<T>* u = work.rows();
        nodes.put(plan.n_nodes, [&u] { return *u++; });
    } else if (plan.structure == Structure::dense) {
        put_dense<T>(plan, work.rows(), nodes);
    } else {
        for (std::size_t block = 0; block < plan.n_blocks; ++block)
            put_vertices<T>(plan, turn<T>(plan, block, work), nodes);
    }
    nodes.finish();
}

}  // namespace quadfeat::QUADFEAT_ISA
