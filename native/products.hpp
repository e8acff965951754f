// Products with the features Z of rows, without storing Z: Z V, Z' U and Z' diag(weights) Z V. V
// and U have few columns, which are called outputs.
#pragma once

#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

#include "plan.hpp"
#include "simd.hpp"
#include "threads.hpp"
#include "tile.hpp"

namespace quadfeat::QUADFEAT_ISA {

// Number of columns of a tile that are used together while they are in the L1 cache.
inline constexpr std::size_t panel_columns = 128;
// Number of independent sums, enough to hide the latency of an addition. The columns of a tile are
// padded with zeros to a multiple of it.
inline constexpr std::size_t n_chains = 8;
template <class T>
inline constexpr std::size_t column_step = lanes<T> > n_chains ? lanes<T> : n_chains;
static_assert(panel_columns % column_step<float> == 0);

// Number of rows whose products are summed in their own dtype. These sums are then added in double.
inline constexpr std::size_t chunk_rows = 256;

template <class T>
std::size_t padded_columns(const Plan<T>& plan) {
    return (plan.n_columns() + column_step<T> - 1) / column_step<T> * column_step<T>;
}

template <class T>
QUADFEAT_HOT T load(const char* where) {
    T value;
    std::memcpy(&value, where, sizeof value);
    return value;
}

// Call use(first, width) for runs of outputs, with each width a compile-time constant.
template <class Use>
QUADFEAT_HOT void for_runs_of_outputs(std::size_t n_outputs, Use use) {
    std::size_t first = 0;
    for (; first + 8 <= n_outputs; first += 8) use(first, std::integral_constant<std::size_t, 8>{});
    if (n_outputs & 4) use(first, std::integral_constant<std::size_t, 4>{});
    first += n_outputs & 4;
    if (n_outputs & 2) use(first, std::integral_constant<std::size_t, 2>{});
    first += n_outputs & 2;
    if (n_outputs & 1) use(first, std::integral_constant<std::size_t, 1>{});
}

// Copy V in the order in which it is read: by panel, then by run of outputs, then by row.
template <class T>
std::vector<T> packed(const Matrix<const char>& V) {
    const std::size_t panels = (V.rows + panel_columns - 1) / panel_columns;
    std::vector<T> result(panels * panel_columns * V.columns);
    for (std::size_t row = 0; row < V.rows; ++row) {
        T* const panel = result.data() + row / panel_columns * panel_columns * V.columns;
        for_runs_of_outputs(V.columns, [&](std::size_t first, auto width) {
            T* const to = panel + panel_columns * first + row % panel_columns * width;
            for (std::size_t k = 0; k < width; ++k) to[k] = load<T>(V.at(row, first + k));
        });
    }
    return result;
}

// Compute sums[k] += sum_j columns[j] * factors[j][k] for k < width.
template <class T, std::size_t width>
QUADFEAT_HOT void add_products(const Vector<T>* columns, std::size_t count, const T* factors,
                               Vector<T>* sums) {
    constexpr std::size_t chains = n_chains / width;
    Vector<T> partial[chains][width] = {};
    for (std::size_t j = 0; j < count; j += chains, factors += chains * width) {
#pragma GCC unroll 8
        for (std::size_t i = 0; i < chains; ++i)
#pragma GCC unroll 8
            for (std::size_t k = 0; k < width; ++k)
                partial[i][k] += columns[j + i] * factors[i * width + k];
    }
    for (std::size_t i = 0; i < chains; ++i)
        for (std::size_t k = 0; k < width; ++k) sums[k] += partial[i][k];
}

// Add the products of a panel and its rows of V to the sums, for all outputs. V is packed and
// starts at the panel.
template <class T>
QUADFEAT_NOINLINE void multiply_panel(const Vector<T>* columns, std::size_t count, const T* V,
                                      std::size_t n_outputs, Vector<T>* sums) {
    for_runs_of_outputs(n_outputs, [&](std::size_t first, auto width) {
        add_products<T, width>(columns, count, V + panel_columns * first, sums + first);
    });
}

// Compute totals += Z' u for these columns of Z. For every square of columns, totals has one vector
// per output, with one lane per column.
template <class T>
QUADFEAT_NOINLINE void add_transposed(const Vector<T>* columns, std::size_t count,
                                      const Vector<T>* u, std::size_t n_outputs, Vector<T>* totals) {
    for (std::size_t j = 0; j < count; j += lanes<T>) {
        Vector<T> rows[lanes<T>];
        for (std::size_t k = 0; k < lanes<T>; ++k) rows[k] = columns[j + k];
        transpose<T>(rows);
        const T* factor = reinterpret_cast<const T*>(u);
        for (std::size_t k = 0; k < n_outputs; ++k, ++totals, factor += lanes<T>) {
            Vector<T> sum = *totals;
#pragma GCC unroll 16
            for (std::size_t row = 0; row < lanes<T>; ++row) sum += rows[row] * factor[row];
            *totals = sum;
        }
    }
}

// Collect the columns of a tile and pass them on, one panel at a time.
template <class T, class User>
class PanelWriter {
public:
    // If `keeps` is true, `memory` has room for all columns and keeps them. Otherwise it has room
    // for one panel.
    PanelWriter(Vector<T>* memory, bool keeps, User& user)
        : memory_(memory), keeps_(keeps), user_(&user) {}

    // Add the first `count` columns of a square. The next columns overwrite the others.
    QUADFEAT_HOT void put(const Vector<T> (&square)[lanes<T>], std::size_t count = lanes<T>) {
        for (std::size_t k = 0; k < lanes<T>; ++k) memory_[gathered_ + k] = square[k];
        gathered_ += count;
        if (gathered_ == panel_columns) flush();
    }

    void finish() {
        for (; gathered_ % column_step<T>; ++gathered_) memory_[gathered_] = Vector<T>{};
        if (gathered_) flush();
    }

private:
    void flush() {
        user_->use(memory_, first_column_, gathered_);
        if (keeps_) memory_ += gathered_;
        first_column_ += gathered_;
        gathered_ = 0;
    }

    Vector<T>* memory_;
    bool keeps_;
    User* user_;
    std::size_t first_column_ = 0;
    std::size_t gathered_ = 0;
};

// Allocate the memory of a PanelWriter. The last square may extend beyond the columns.
template <class T>
VectorMemory<T> panel_memory(std::size_t columns) {
    return VectorMemory<T>(columns + lanes<T>);
}

enum class Product {
    multiply,    // Z V: each panel adds to the products of the tile's rows
    transposed,  // Z' U: each panel is multiplied by the rows of U
    normal       // Z' diag(weights) Z V: `multiply` with all columns kept, then `transposed`
};

// The state of a thread and the computation of a product for one tile.
template <class T>
class TileProduct {
public:
    // V is packed, or null for the transposed product.
    TileProduct(Product product, const Plan<T>& plan, const Matrix<const char>& X, const T* V,
                std::size_t n_outputs)
        : product_(product),
          plan_(plan),
          X_(X),
          V_(V),
          n_outputs_(n_outputs),
          make_(tile_maker<T, PanelWriter<T, TileProduct>>(plan)),
          work_(plan),
          columns_(panel_memory<T>(keeps() ? padded_columns(plan) : panel_columns)),
          products_(n_outputs),
          totals_(product == Product::multiply ? 0 : padded_columns(plan) / lanes<T> * n_outputs) {}

    // The products of the tile's rows, or their rows of U. Row r of output k is in lane r of vector
    // k.
    T* products() { return reinterpret_cast<T*>(products_.data()); }

    // The totals for every output and every column, including padding; see add_transposed.
    T* totals() { return reinterpret_cast<T*>(totals_.data()); }

    // Compute the columns of a tile and use them, panel by panel.
    void make(Rows rows) {
        if (product_ != Product::transposed)
            std::fill_n(products(), n_outputs_ * lanes<T>, T(0));
        PanelWriter<T, TileProduct> writer(columns_.data(), keeps(), *this);
        make_(plan_, X_, rows, work_, writer);
    }

    void use(const Vector<T>* panel, std::size_t first, std::size_t count) {
        if (product_ == Product::transposed)
            add(panel, first, count);
        else
            multiply_panel<T>(panel, count, V_ + first * n_outputs_, n_outputs_, products_.data());
    }

    // Multiply the kept columns by the products of the rows.
    void use_kept() { add(columns_.data(), 0, padded_columns(plan_)); }

private:
    bool keeps() const { return product_ == Product::normal; }

    void add(const Vector<T>* columns, std::size_t first, std::size_t count) {
        add_transposed<T>(columns, count, products_.data(), n_outputs_,
                          totals_.data() + first / lanes<T> * n_outputs_);
    }

    Product product_;
    const Plan<T>& plan_;
    const Matrix<const char>& X_;
    const T* V_;
    std::size_t n_outputs_;
    MakeTile<T, PanelWriter<T, TileProduct>> make_;
    Workspace<T> work_;
    VectorMemory<T> columns_, products_, totals_;
};

template <class T>
bool multiply(const Plan<T>& plan, const Matrix<const char>& X, const Matrix<const char>& V,
              const Matrix<char>& out, const Bounds<T>& bounds, std::size_t n_threads,
              const ShouldStop& should_stop) {
    const std::vector<T> factors = packed<T>(V);
    return share_tiles(count_tiles<T>(X.rows), n_threads, should_stop, [&] {
        TileProduct<T> made(Product::multiply, plan, X, factors.data(), V.columns);
        return [&, tile_product = std::move(made)](std::size_t tile) mutable {
            const Rows rows = rows_of_tile<T>(tile, X.rows);
            if (!admits<T>(bounds, X, rows)) return;
            tile_product.make(rows);
            const T* product = tile_product.products();
            for (std::size_t k = 0; k < V.columns; ++k, product += lanes<T>)
                for (std::size_t row = 0; row < rows.count; ++row)
                    std::memcpy(out.at(rows.first + row, k), product + row, sizeof(T));
        };
    });
}

// Sum over chunks of rows: in T within a chunk, then in double. The chunks do not depend on the
// number of threads, so the sums do not either.
template <class T, class ComputeTile>
class ChunkSum {
public:
    ChunkSum(TileProduct<T>&& tile_product, const ComputeTile& compute_tile, std::size_t n_rows,
             std::vector<double>& sum)
        : tile_product_(std::move(tile_product)),
          compute_tile_(compute_tile),
          n_rows_(n_rows),
          sum_(sum) {}

    void compute(std::size_t chunk) {
        std::fill_n(tile_product_.totals(), sum_.size(), T(0));
        const std::size_t first = chunk * chunk_rows;
        const std::size_t rows = n_rows_ - first < chunk_rows ? n_rows_ - first : chunk_rows;
        for (std::size_t tile = 0; tile < count_tiles<T>(rows); ++tile)
            compute_tile_(tile_product_, rows_of_tile<T>(first / lanes<T> + tile, n_rows_));
    }

    void add() {
        const T* totals = tile_product_.totals();
        for (std::size_t i = 0; i < sum_.size(); ++i) sum_[i] += static_cast<double>(totals[i]);
    }

private:
    TileProduct<T> tile_product_;
    const ComputeTile& compute_tile_;
    std::size_t n_rows_;
    std::vector<double>& sum_;
};

// Call compute_tile(tile_product, rows) for all rows and add the totals to `out`. If stopped early,
// or if a row is beyond the bounds, leave `out` unchanged.
template <class T, class ComputeTile>
bool sum_over_rows(Product product, const Plan<T>& plan, const Matrix<const char>& X, const T* V,
                   const Matrix<char>& out, const Bounds<T>& bounds, std::size_t n_threads,
                   const ShouldStop& should_stop, const ComputeTile& compute_tile) {
    const std::size_t n_outputs = out.columns;
    std::vector<double> sum(padded_columns(plan) * n_outputs);
    const std::size_t n_chunks = (X.rows + chunk_rows - 1) / chunk_rows;
    const auto compute_admitted = [&](TileProduct<T>& tile_product, Rows rows) {
        if (admits<T>(bounds, X, rows)) compute_tile(tile_product, rows);
    };
    const bool finished = share_chunks(n_chunks, n_threads, should_stop, [&] {
        return ChunkSum(TileProduct<T>(product, plan, X, V, n_outputs), compute_admitted, X.rows,
                        sum);
    });
    if (!finished) return false;
    if (bounds.beyond) return true;
    for (std::size_t column = 0; column < out.rows; ++column)
        for (std::size_t k = 0; k < n_outputs; ++k) {
            const std::size_t square = column / lanes<T>;
            char* const to = out.at(column, k);
            const double total =
                load<double>(to) + sum[(square * n_outputs + k) * lanes<T> + column % lanes<T>];
            std::memcpy(to, &total, sizeof total);
        }
    return true;
}

template <class T>
bool normal_multiply(const Plan<T>& plan, const Matrix<const char>& X,
                     const Matrix<const char>& weights, const Matrix<const char>& V,
                     const Matrix<char>& out, const Bounds<T>& bounds, std::size_t n_threads,
                     const ShouldStop& should_stop) {
    const std::vector<T> factors = packed<T>(V);
    const auto compute_tile = [&](TileProduct<T>& tile_product, Rows rows) {
        tile_product.make(rows);
        T* product = tile_product.products();
        for (std::size_t row = 0; row < lanes<T>; ++row) {
            // Rows past the end also have features. Give them the weight 0.
            const bool exists = row < rows.count;
            const T weight = exists ? load<T>(weights.at(rows.first + row, 0)) : T(0);
            for (std::size_t k = 0; k < V.columns; ++k) {
                T& value = product[k * lanes<T> + row];
                value = exists ? weight * value : T(0);
            }
        }
        tile_product.use_kept();
    };
    return sum_over_rows<T>(Product::normal, plan, X, factors.data(), out, bounds, n_threads,
                            should_stop, compute_tile);
}

template <class T>
bool transposed_multiply(const Plan<T>& plan, const Matrix<const char>& X,
                         const Matrix<const char>& U, const Matrix<char>& out,
                         const Bounds<T>& bounds, std::size_t n_threads,
                         const ShouldStop& should_stop) {
    const auto compute_tile = [&](TileProduct<T>& tile_product, Rows rows) {
        T* product = tile_product.products();
        for (std::size_t k = 0; k < U.columns; ++k)
            for (std::size_t row = 0; row < lanes<T>; ++row)
                *product++ = row < rows.count ? load<T>(U.at(rows.first + row, k)) : T(0);
        tile_product.make(rows);
    };
    return sum_over_rows<T>(Product::transposed, plan, X, nullptr, out, bounds, n_threads,
                            should_stop, compute_tile);
}

}  // namespace quadfeat::QUADFEAT_ISA
