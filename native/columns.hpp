// From arguments to columns: nonlinearity, weight, and the turn from node-major to row-major.
#pragma once

#include "plan.hpp"
#include "simd.hpp"
#include "sincos.hpp"

namespace quadfeat::QUADFEAT_ISA {

// How many columns of a tile are gathered before they are copied out: a few kilobytes a row.
inline constexpr std::size_t staged_columns = 1024;
// With room for one more vector, which also keeps rows from falling on the same cache sets.
template <class T>
inline constexpr std::size_t stage_stride = staged_columns + 2 * lanes<T>;

// Gathers the columns of a tile and writes them to the rows of the output.
template <class T>
class RowWriter {
public:
    RowWriter(const Matrix<char>& out, std::size_t first_row, std::size_t rows, T* stage)
        : out_(out), first_row_(first_row), rows_(rows), stage_(stage) {}

    // Take `count` columns of a square of them, as many as a vector has lanes by default.
    void put(Vector<T> (&square)[lanes<T>], std::size_t count = lanes<T>) {
        transpose<T>(square);
        for (std::size_t row = 0; row < lanes<T>; ++row)
            store_unaligned<T>(stage_ + row * stage_stride<T> + staged_, square[row]);
        staged_ += count;
        if (staged_ >= staged_columns) flush();
    }

    void flush() {
        for (std::size_t row = 0; row < rows_; ++row) {
            const T* from = stage_ + row * stage_stride<T>;
            char* to = out_.data + static_cast<std::ptrdiff_t>(first_row_ + row) * out_.row_stride +
                       static_cast<std::ptrdiff_t>(written_) * out_.column_stride;
            if (out_.column_stride == static_cast<std::ptrdiff_t>(sizeof(T))) {
                // Not past the caches: measured, that gains nothing.
                std::memcpy(to, from, staged_ * sizeof(T));
            } else {
                for (std::size_t j = 0; j < staged_; ++j, to += out_.column_stride)
                    std::memcpy(to, from + j, sizeof(T));
            }
        }
        written_ += staged_;
        staged_ = 0;
    }

private:
    const Matrix<char>& out_;
    std::size_t first_row_;
    std::size_t rows_;
    T* stage_;
    std::size_t staged_ = 0;   // columns gathered
    std::size_t written_ = 0;  // columns in the output
};

template <class T, Phi phi>
inline Vector<T> nonlinearity(Vector<T> t) {
    using Bits = typename Simd<T>::Bits;
    const Vector<T> zero{};
    if constexpr (phi == Phi::step) {
        const Vector<T> half = broadcast<T>(T(0.5)), one = broadcast<T>(T(1));
        const Bits above = t > zero, at = t == zero;
        return (Vector<T>)(((Bits)one & above) | ((Bits)half & at));
    } else if constexpr (phi == Phi::ramp) {
        const Bits above = t > zero;
        return (Vector<T>)((Bits)t & above);
    } else if constexpr (phi == Phi::squared_ramp) {
        const Vector<T> ramp = nonlinearity<T, Phi::ramp>(t);
        return ramp * ramp;
    } else {
        return t;
    }
}

// Takes inner products with directions in the order of the nodes and makes columns of them.
template <class T, Phi phi, bool reflected>
class NodeWriter {
public:
    NodeWriter(const Plan<T>& plan, RowWriter<T>& rows) : plan_(plan), rows_(rows) {}

    std::size_t missing() const { return plan_.n_nodes - node_ - pending_; }

    void put(Vector<T> inner_product) {
        inner_products_[pending_++] = inner_product;
        if (pending_ == group && node_ + group + plan_.last_is_single <= plan_.n_nodes) {
            Vector<T> square[lanes<T>];
#pragma GCC unroll 16
            for (std::size_t k = 0; k < group; ++k) make_columns(k, square + per_node * k, T(0));
            rows_.put(square);
            node_ += group;
            pending_ = 0;
        }
    }

    // Write what is left: an incomplete group, a node with a single column, the origin.
    void finish() {
        for (std::size_t k = 0; k < pending_; ++k) {
            Vector<T> square[lanes<T>] = {};
            const bool single = plan_.last_is_single && node_ + k + 1 == plan_.n_nodes;
            make_columns(k, square, single ? plan_.phase : T(0));
            rows_.put(square, single ? 1 : per_node);
        }
        if (plan_.has_origin) {
            Vector<T> square[lanes<T>] = {broadcast<T>(plan_.origin)};
            rows_.put(square, 1);
        }
        rows_.flush();
    }

private:
    static constexpr std::size_t per_node = phi == Phi::fourier || reflected ? 2 : 1;
    static constexpr std::size_t group = lanes<T> / per_node;

    // Write the columns of pending node k, a cosine at this phase.
    void make_columns(std::size_t k, Vector<T>* columns, T phase) const {
        const Vector<T> t = inner_products_[k] * plan_.radii[node_ + k];
        const T amplitude = plan_.amplitudes[node_ + k];
        if constexpr (phi == Phi::fourier) {
            sincos_half_turns<T>(t + phase, broadcast<T>(amplitude), columns[0], columns[1]);
        } else {
            columns[0] = amplitude * nonlinearity<T, phi>(t);
            if constexpr (reflected) columns[1] = amplitude * nonlinearity<T, phi>(-t);
        }
    }

    const Plan<T>& plan_;
    RowWriter<T>& rows_;
    Vector<T> inner_products_[group];
    std::size_t pending_ = 0;  // inner products that wait for a whole group
    std::size_t node_ = 0;     // nodes done
};

}  // namespace quadfeat::QUADFEAT_ISA
