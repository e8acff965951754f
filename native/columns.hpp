// Turn arguments into columns: apply the nonlinearity and the weight, then transpose to row-major.
#pragma once

#include "plan.hpp"
#include "simd.hpp"
#include "sincos.hpp"

namespace quadfeat::QUADFEAT_ISA {

// Write the columns of a tile to the rows of the output.
//
// It uses ordinary stores of one vector per row, aligned or not. Streaming whole cache lines past
// the caches would avoid reading the output first. But gathering the lines takes longer than it
// saves, because the computations do not use up the memory bandwidth.
template <class T>
class RowWriter {
public:
    RowWriter(const Matrix<char>& out, std::size_t first_row, std::size_t rows)
        : to_(out.at(first_row, 0)),
          rows_(rows),
          row_stride_(out.row_stride),
          column_stride_(out.column_stride),
          in_vectors_(rows == lanes<T> && column_stride_ == static_cast<std::ptrdiff_t>(sizeof(T))) {}

    // Write a square of columns.
    QUADFEAT_HOT void put(Vector<T> (&square)[lanes<T>]) {
        if (!in_vectors_) {
            // Pass copies, so that the compiler can keep the originals in registers.
            RowWriter slow = *this;
            Vector<T> columns[lanes<T>];
            for (std::size_t k = 0; k < lanes<T>; ++k) columns[k] = square[k];
            slow.put(columns, lanes<T>);
            *this = slow;
            return;
        }
        transpose<T>(square);
        char* to = to_;
        for (std::size_t row = 0; row < lanes<T>; ++row, to += row_stride_)
            store_unaligned<T>(to, square[row]);
        to_ += sizeof(Vector<T>);
    }

    // Write the first `count` columns of a square.
    QUADFEAT_NOINLINE void put(const Vector<T> (&square)[lanes<T>], std::size_t count) {
        for (std::size_t k = 0; k < count; ++k, to_ += column_stride_) {
            char* to = to_;
            for (std::size_t row = 0; row < rows_; ++row, to += row_stride_) {
                const T value = square[k][row];
                std::memcpy(to, &value, sizeof value);
            }
        }
    }

    void finish() {}  // only other sinks need it

private:
    char* to_;  // position of the next column in the first row
    std::size_t rows_;
    std::ptrdiff_t row_stride_;
    std::ptrdiff_t column_stride_;
    bool in_vectors_;  // whether a whole vector is contiguous in the output
};

template <class T, Phi phi>
QUADFEAT_HOT Vector<T> nonlinearity(Vector<T> t) {
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

// Turn inner products with directions, in the order of the nodes, into columns and pass these to a
// sink. Except at the end, the sink gets as many columns at a time as a vector has lanes. A sink is
// a RowWriter or any class with its put() and finish().
template <class T, Phi phi, bool reflected, class Sink>
class NodeWriter {
public:
    NodeWriter(const Plan<T>& plan, Sink& sink)
        : plan_(plan), sink_(sink), whole_nodes_(plan.n_nodes - plan.last_is_single) {}

    std::size_t missing() const { return plan_.n_nodes - node_ - pending_; }

    // Process the next `count` inner products, one per call of source.next().
    template <class Source>
    void put(std::size_t count, Source& source) {
        for (; count > 0 && pending_ > 0; --count) put_one(source.next());
        // Local copies stay in registers. The compiler cannot rule out that storing columns
        // overwrites the members.
        Source here = source;
        Sink sink = sink_;
        std::size_t node = node_;
        const std::size_t whole_nodes = whole_nodes_;
        const T* const radii = plan_.radii;
        const T* const amplitudes = plan_.amplitudes;
        for (; count >= group && node + group <= whole_nodes; count -= group, node += group) {
            Vector<T> inner_products[group];
#pragma GCC unroll 16
            for (std::size_t k = 0; k < group; ++k) inner_products[k] = here.next();
            make_group(radii + node, amplitudes + node, inner_products, sink);
        }
        node_ = node;
        sink_ = sink;
        source = here;
        for (; count > 0; --count) put_one(source.next());
    }

    // Write the rest: an incomplete group, a node with a single column, and the origin.
    void finish() {
        for (std::size_t k = 0; k < pending_; ++k) {
            Vector<T> square[lanes<T>] = {};
            const bool single = node_ + k == whole_nodes_;
            make_columns(plan_.radii[node_ + k], plan_.amplitudes[node_ + k], inner_products_[k],
                         square, single ? Phase::last : Phase::none);
            sink_.put(square, single ? 1 : per_node);
        }
        if (plan_.has_origin) {
            Vector<T> square[lanes<T>] = {broadcast<T>(plan_.origin)};
            sink_.put(square, 1);
        }
        sink_.finish();
    }

private:
    enum class Phase { none, last };

    static constexpr std::size_t per_node = phi == Phi::fourier || reflected ? 2 : 1;
    static constexpr std::size_t group = lanes<T> / per_node;

    void put_one(Vector<T> inner_product) {
        inner_products_[pending_++] = inner_product;
        if (pending_ == group && node_ + group <= whole_nodes_) {
            make_group(plan_.radii + node_, plan_.amplitudes + node_, inner_products_, sink_);
            node_ += group;
            pending_ = 0;
        }
    }

    // Write the columns of a group of nodes.
    QUADFEAT_HOT void make_group(const T* radii, const T* amplitudes,
                                 const Vector<T>* inner_products, Sink& sink) const {
        Vector<T> square[lanes<T>];
#pragma GCC unroll 16
        for (std::size_t k = 0; k < group; ++k)
            make_columns(radii[k], amplitudes[k], inner_products[k], square + per_node * k,
                         Phase::none);
        sink.put(square);
    }

    // Compute the columns of one node. `phase` selects a phase shift of the cosine.
    QUADFEAT_HOT void make_columns(T radius, T amplitude, Vector<T> inner_product,
                                   Vector<T>* columns, Phase phase) const {
        Vector<T> t = inner_product * radius;
        if constexpr (phi == Phi::fourier) {
            if (phase == Phase::last) t += plan_.phase;
            sincos_half_turns<T>(t, broadcast<T>(amplitude), columns[0], columns[1]);
        } else {
            columns[0] = amplitude * nonlinearity<T, phi>(t);
            if constexpr (reflected) columns[1] = amplitude * nonlinearity<T, phi>(-t);
        }
    }

    const Plan<T>& plan_;
    Sink& sink_;
    std::size_t whole_nodes_;  // number of nodes with all their columns: all except maybe the last
    Vector<T> inner_products_[group];
    std::size_t pending_ = 0;  // number of inner products that wait for a complete group
    std::size_t node_ = 0;     // number of finished nodes
};

}  // namespace quadfeat::QUADFEAT_ISA
