// Compute the columns of one tile, which has as many rows as a vector has lanes.
#pragma once

#include <limits>
#include <stdexcept>
#include <vector>

#include "butterfly.hpp"
#include "columns.hpp"
#include "core.hpp"
#include "hadamard.hpp"
#include "largest_magnitude.hpp"
#include "plan.hpp"

namespace quadfeat::QUADFEAT_ISA {

// Memory that is aligned to vectors and filled with zeros.
template <class T>
class VectorMemory {
public:
    explicit VectorMemory(std::size_t vectors) : memory_((vectors + 1) * lanes<T>) {}

    Vector<T>* data() {
        const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
        const std::uintptr_t aligned = (address + sizeof(Vector<T>) - 1) & ~(sizeof(Vector<T>) - 1);
        return reinterpret_cast<Vector<T>*>(aligned);
    }

private:
    std::vector<T> memory_;
};

// Memory that a thread reuses from tile to tile.
template <class T>
class Workspace {
public:
    explicit Workspace(const Plan<T>& plan)
        : width_(plan.size), memory_(3 * width_) {}

    Vector<T>* rows() { return memory_.data(); }
    Vector<T>* first_buffer() { return memory_.data() + width_; }
    Vector<T>* second_buffer() { return memory_.data() + 2 * width_; }

private:
    std::size_t width_;
    VectorMemory<T> memory_;
};

// The rows of a tile. Only the last tile may have fewer rows than a vector has lanes.
struct Rows {
    std::size_t first, count;
};

template <class T>
std::size_t count_tiles(std::size_t n_rows) {
    return (n_rows + lanes<T> - 1) / lanes<T>;
}

template <class T>
Rows rows_of_tile(std::size_t tile, std::size_t n_rows) {
    const std::size_t first = tile * lanes<T>;
    return {first, n_rows - first < lanes<T> ? n_rows - first : lanes<T>};
}

// Return whether to compute these rows: whether all rows so far are within the limit.
template <class T>
bool admits(const Bounds<T>& bounds, const Matrix<const char>& X, Rows rows) {
    if (bounds.limit == std::numeric_limits<T>::infinity()) return true;
    if (bounds.beyond) return false;
    if (largest_magnitude<T>(X.some_rows(rows.first, rows.count)) <= bounds.limit) return true;
    bounds.beyond = true;
    return false;
}

// Read a tile of scaled rows, column by column. Rows past the end and columns past d are zeros.
template <class T>
QUADFEAT_NOINLINE void load_rows(const Plan<T>& plan, const Matrix<const char>& X,
                                 std::size_t first_row, std::size_t rows, Vector<T>* u) {
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

// Multiply the rows by the matrix of one block and return a pointer to the result.
template <class T>
QUADFEAT_NOINLINE const Vector<T>* rotate_rows(const Plan<T>& plan, std::size_t block,
                                               Workspace<T>& work) {
    const std::size_t size = plan.size;
    const Vector<T>* from = work.rows();
    Vector<T>* to = work.first_buffer();
    for (std::size_t k = 0; k < plan.rounds; ++k) {
        const std::size_t round = block * plan.rounds + k;
        const std::int32_t* order = plan.permutations ? plan.permutations + round * size : nullptr;
        if (plan.structure == Structure::butterfly) {
            // The permutation is free, since the first pass reads in permuted order.
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
        to = from == work.first_buffer() ? work.second_buffer() : work.first_buffer();
    }
    return from;
}

// Inner products that are already computed.
template <class T>
struct GivenProducts {
    const Vector<T>* values;

    QUADFEAT_HOT Vector<T> next() { return *values++; }
};

// Inner products of u with the vertices of a simplex. After all others, `running` is the inner
// product with the last vertex.
template <class T>
struct SimplexProducts {
    const Vector<T>* u;
    const T* on;
    const T* below;
    Vector<T> running;

    QUADFEAT_HOT Vector<T> next() {
        const Vector<T> value = *u++;
        const Vector<T> inner_product = value * *on++ + running;
        running -= value * *below++;
        return inner_product;
    }
};

// Pass on the inner products with the vertices of one block, in order, until there are enough
// nodes.
template <class T, class Writer>
QUADFEAT_NOINLINE void put_vertices(const Plan<T>& plan, const Vector<T>* u, Writer& nodes) {
    const std::size_t missing = nodes.missing();
    const std::size_t count = missing < plan.size ? missing : plan.size;
    if (plan.simplex) {
        SimplexProducts<T> products{u, plan.on, plan.below, {}};
        nodes.put(count, products);
        GivenProducts<T> last{&products.running};
        if (missing > plan.size) nodes.put(1, last);
    } else {
        GivenProducts<T> products{u};
        nodes.put(count, products);
    }
}

// Compute inner products with a dense matrix, a few nodes at a time.
template <class T, class Writer>
QUADFEAT_NOINLINE void put_dense(const Plan<T>& plan, const Vector<T>* u, Writer& nodes) {
    constexpr std::size_t together = 2 * dense_group;  // gives complete squares of columns
    Vector<T> products[together];
    const T* column = plan.matrix;
    while (const std::size_t missing = nodes.missing()) {
        const std::size_t count = missing < together ? missing : together;
        for (std::size_t first = 0; first < count; first += dense_group) {
            Vector<T> sums[dense_group] = {};
            for (std::size_t i = 0; i < plan.d; ++i, column += dense_group)
#pragma GCC unroll 12
                for (std::size_t k = 0; k < dense_group; ++k) sums[k] += u[i] * column[k];
            for (std::size_t k = 0; k < dense_group; ++k) products[first + k] = sums[k];
        }
        GivenProducts<T> source{products};
        nodes.put(count, source);
    }
}

// Compute all columns of a tile and pass them to a sink.
template <class T, Phi phi, bool reflected, class Sink>
inline void make_tile(const Plan<T>& plan, const Matrix<const char>& X, Rows rows,
                      Workspace<T>& work, Sink& sink) {
    load_rows<T>(plan, X, rows.first, rows.count, work.rows());
    NodeWriter<T, phi, reflected, Sink> nodes(plan, sink);
    if (plan.structure == Structure::given) {
        GivenProducts<T> products{work.rows()};
        nodes.put(plan.n_nodes, products);
    } else if (plan.structure == Structure::dense) {
        put_dense<T>(plan, work.rows(), nodes);
    } else {
        for (std::size_t block = 0; block < plan.n_blocks; ++block)
            put_vertices<T>(plan, rotate_rows<T>(plan, block, work), nodes);
    }
    nodes.finish();
}

template <class T, class Sink>
using MakeTile = void (*)(const Plan<T>&, const Matrix<const char>&, Rows, Workspace<T>&, Sink&);

// Return the instance of make_tile for the nonlinearity of the plan.
template <class T, class Sink>
MakeTile<T, Sink> tile_maker(const Plan<T>& plan) {
    const bool reflected = plan.reflected;
    switch (plan.phi) {
        case Phi::fourier:
            return make_tile<T, Phi::fourier, false, Sink>;
        case Phi::step:
            return reflected ? make_tile<T, Phi::step, true, Sink>
                             : make_tile<T, Phi::step, false, Sink>;
        case Phi::ramp:
            return reflected ? make_tile<T, Phi::ramp, true, Sink>
                             : make_tile<T, Phi::ramp, false, Sink>;
        case Phi::squared_ramp:
            return reflected ? make_tile<T, Phi::squared_ramp, true, Sink>
                             : make_tile<T, Phi::squared_ramp, false, Sink>;
        case Phi::identity:
            return make_tile<T, Phi::identity, false, Sink>;
    }
    throw std::logic_error("tile_maker has no case for this nonlinearity");
}

}  // namespace quadfeat::QUADFEAT_ISA
