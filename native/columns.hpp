// From arguments to columns: nonlinearity, weight, and the turn from node-major to row-major.
#pragma once

#include "plan.hpp"
#include "simd.hpp"
#include "sincos.hpp"

namespace quadfeat::QUADFEAT_ISA {

inline constexpr std::size_t line_bytes = 64;  // of caches

// How many columns of a tile are gathered before they are copied out: some lines a row.
template <class T>
inline constexpr std::size_t staged_columns = 8 * line_bytes / sizeof(T);

// A staged row: the line before it, the columns themselves, and room for what a last vector has
// too many; the whole not a power of two, to keep rows from falling on the same cache sets.
template <class T>
inline constexpr std::size_t stage_stride = staged_columns<T> + 3 * line_bytes / sizeof(T);

// Gathers the columns of a tile and writes them to the rows of the output.
template <class T>
class RowWriter {
public:
    // `streams` says to write past the caches: for outputs that they cannot hold. The rows of such
    // an output must be contiguous, aligned to T, and longer than what is staged, so that all but
    // the first flush begin past the line in which the row begins.
    RowWriter(const Matrix<char>& out, std::size_t first_row, std::size_t rows, T* stage,
              bool streams)
        : out_(out), first_row_(first_row), rows_(rows), stage_(stage), streams_(streams) {}

    // Take `count` columns of a square of them, as many as a vector has lanes by default.
    QUADFEAT_HOT void put(Vector<T> (&square)[lanes<T>], std::size_t count = lanes<T>) {
        transpose<T>(square);
        for (std::size_t row = 0; row < lanes<T>; ++row)
            store_unaligned<T>(staged_row(row) + staged_, square[row]);
        staged_ += count;
        if (staged_ >= staged_columns<T>) flush();
    }

    void finish() {
        flush();
        if (streams_) {
            for (std::size_t row = 0; row < rows_; ++row) write_last_line(row);
            end_streams();
        }
    }

private:
    T* staged_row(std::size_t row) { return stage_ + row * stage_stride<T> + line; }

    char* output(std::size_t row, std::size_t column) const {
        return out_.data + static_cast<std::ptrdiff_t>(first_row_ + row) * out_.row_stride +
               static_cast<std::ptrdiff_t>(column) * out_.column_stride;
    }

    QUADFEAT_APART void flush() {
        for (std::size_t row = 0; row < rows_; ++row) {
            const T* from = staged_row(row);
            char* to = output(row, written_);
            if (streams_) {
                stream_lines(row);
            } else if (out_.column_stride == static_cast<std::ptrdiff_t>(sizeof(T))) {
                std::memcpy(to, from, staged_ * sizeof(T));
            } else {
                for (std::size_t j = 0; j < staged_; ++j, to += out_.column_stride)
                    std::memcpy(to, from + j, sizeof(T));
            }
        }
        written_ += staged_;
        staged_ = 0;
    }

    static char* line_of(char* address) {
        return address - reinterpret_cast<std::uintptr_t>(address) % line_bytes;
    }

    // Write the lines that are complete with the staged columns, and keep what they leave, which is
    // less than a line, before the columns to come.
    void stream_lines(std::size_t row) {
        T* const staged = staged_row(row);
        char* const begin = output(row, written_);
        char* const end = begin + staged_ * sizeof(T);
        char* to = line_of(begin);
        if (to < output(row, 0)) {  // the first line of a row has the end of another row
            to += line_bytes;
            std::memcpy(begin, staged, static_cast<std::size_t>((to < end ? to : end) - begin));
        }
        const char* from = reinterpret_cast<const char*>(staged) + (to - begin);
        for (; to < line_of(end); to += line_bytes, from += line_bytes)
            for (std::size_t k = 0; k < line_bytes; k += sizeof(Vector<T>))
                stream<T>(to + k, load_unaligned<T>(from + k));
        std::memmove(staged - line, staged + staged_ - line, line_bytes);
    }

    // Write what stream_lines kept.
    void write_last_line(std::size_t row) {
        char* const end = output(row, written_);
        char* const first = output(row, 0);
        char* const begin = line_of(end) < first ? first : line_of(end);
        const auto bytes = static_cast<std::size_t>(end - begin);
        std::memcpy(begin, reinterpret_cast<const char*>(staged_row(row)) - bytes, bytes);
    }

    static constexpr std::size_t line = line_bytes / sizeof(T);

    const Matrix<char>& out_;
    std::size_t first_row_;
    std::size_t rows_;
    T* stage_;
    bool streams_;
    std::size_t staged_ = 0;   // columns gathered
    std::size_t written_ = 0;  // columns in the output, but for an incomplete line
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

// Takes inner products with directions in the order of the nodes, makes columns of them, and puts
// those into a sink, as many as a vector has lanes at a time: a RowWriter or what has its put().
template <class T, Phi phi, bool reflected, class Sink>
class NodeWriter {
public:
    NodeWriter(const Plan<T>& plan, Sink& sink)
        : plan_(plan), sink_(sink), whole_nodes_(plan.n_nodes - plan.last_is_single) {}

    std::size_t missing() const { return plan_.n_nodes - node_ - pending_; }

    // Take the next `count` inner products: what next() returns, called so many times.
    template <class Next>
    void put(std::size_t count, Next next) {
        for (; count > 0 && pending_ > 0; --count) put_one(next());
        for (; count >= group && node_ + group <= whole_nodes_; count -= group) {
            Vector<T> inner_products[group];
#pragma GCC unroll 16
            for (std::size_t k = 0; k < group; ++k) inner_products[k] = next();
            make_group(inner_products);
        }
        for (; count > 0; --count) put_one(next());
    }

    // Put what is left: an incomplete group, a node with a single column, the origin.
    void finish() {
        for (std::size_t k = 0; k < pending_; ++k) {
            Vector<T> square[lanes<T>] = {};
            const bool single = node_ + k == whole_nodes_;
            make_columns(node_ + k, inner_products_[k], square, single ? Phase::last : Phase::none);
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
            make_group(inner_products_);
            pending_ = 0;
        }
    }

    QUADFEAT_HOT void make_group(const Vector<T>* inner_products) {
        Vector<T> square[lanes<T>];
#pragma GCC unroll 16
        for (std::size_t k = 0; k < group; ++k)
            make_columns(node_ + k, inner_products[k], square + per_node * k, Phase::none);
        sink_.put(square);
        node_ += group;
    }

    // Write the columns of one node, a cosine at this phase.
    QUADFEAT_HOT void make_columns(std::size_t node, Vector<T> inner_product, Vector<T>* columns,
                                   Phase phase) const {
        Vector<T> t = inner_product * plan_.radii[node];
        const T amplitude = plan_.amplitudes[node];
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
    std::size_t whole_nodes_;  // nodes that have all their columns: all but perhaps the last
    Vector<T> inner_products_[group];
    std::size_t pending_ = 0;  // inner products that wait for a whole group
    std::size_t node_ = 0;     // nodes done
};

}  // namespace quadfeat::QUADFEAT_ISA
