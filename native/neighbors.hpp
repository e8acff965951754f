// Gaussian processes on the nearest rows of queries, one query per vector lane. The formulas are
// those of quadfeat/neighbors/conditional.py.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <string>

#include "hoods.hpp"
#include "products.hpp"
#include "profiles.hpp"
#include "threads.hpp"
#include "tile.hpp"
#include "triangle.hpp"

namespace quadfeat::QUADFEAT_ISA {

// The linear systems of as many queries as a vector has lanes. Lanes past the last query repeat it.
//
// A is the kernel matrix of the neighbors, with the noise on its diagonal, and L its factor. The
// right-hand sides are ones, the kernel values with the query, and the targets. They are rows of
// panels. `halves` are the right-hand sides divided by L, so inner products of halves are those with
// the inverse of A.
class HoodSolver {
public:
    HoodSolver(const Hoods& hoods, bool wants_slopes)
        : hoods_(hoods),
          wants_slopes_(wants_slopes),
          k_(hoods.neighbors.columns),
          d_(hoods.points.columns),
          n_outputs_(hoods.targets.columns),
          panels_((k_ + block - 1) / block),
          size_(panels_ * block),
          // Differences of so many columns fit into the cache next to the matrices.
          width_(std::min(d_, std::max(std::size_t(8), std::size_t(4096) / size_))),
          sides_((n_outputs_ + 2 + block - 1) / block),
          indices_(k_ * lanes<double>),
          offsets_(size_ * width_),
          query_(width_),
          matrix_(panel_start(panels_)),
          slopes_(wants_slopes ? panel_start(panels_) : 0),
          query_slopes_(size_),
          lower_(panel_start(panels_)),
          inverses_(size_),
          noise_(size_),
          right_(sides_ * block * size_),
          halves_(sides_ * block * size_),
          intercepts_(n_outputs_),
          means_(n_outputs_),
          squares_(n_outputs_),
          pair_(2 * size_),
          sums_(width_) {}

    // Compute the distributions for the queries of a tile.
    void solve(Rows tile) {
        tile_ = tile;
        read_indices();
        read_rows();
        for (std::size_t first = 0; first < d_; first += width_) {
            gather(first);
            add_distances(first == 0);
        }
        apply_kernel();
        factor();
        for (std::size_t side = 0; side < sides_; ++side)
            divide_panel(right_.data() + side * block * size_, lower_.data(), inverses_.data(),
                         panels_, halves_.data() + side * block * size_);
        reduce();
    }

    void write(const Conditionals& out) {
        const Doubles variance = variance_ > 0.0 ? variance_ : Doubles{};
        for (std::size_t lane = 0; lane < tile_.count; ++lane) {
            const std::size_t query = tile_.first + lane;
            for (std::size_t output = 0; output < n_outputs_; ++output) {
                put(out.mean.at(query, output), means_.data()[output][lane]);
                put(out.squares.at(query, output), squares_.data()[output][lane]);
            }
            put(out.variance.at(query, 0), variance[lane]);
            put(out.jitter.at(query, 0), jitter_[lane]);
        }
    }

    // Write the gradient in the logarithms of the factors and of alpha. Call it after solve().
    void pull_back(const Derivatives& derivatives) {
        const Doubles by_variance =
            each_lane([&](std::size_t query) { return derivatives.by_variance.at(query, 0); });
        Doubles* const pair = pair_.data();
        // The weights of the prediction, and the derivative in the targets that they multiply.
        for (std::size_t row = 0; row < size_; ++row) {
            pair[2 * row] = half(1, row) + half(0, row) * (rest_ / of_ones_);
            pair[2 * row + 1] = Doubles{};
        }
        for (std::size_t output = 0; output < n_outputs_; ++output) {
            const Doubles by_mean =
                each_lane([&](std::size_t query) { return derivatives.by_mean.at(query, output); });
            for (std::size_t row = 0; row < size_; ++row)
                pair[2 * row + 1] +=
                    by_mean * (half(2 + output, row) - half(0, row) * intercepts_.data()[output]);
        }
        divide_by_transpose(lower_.data(), inverses_.data(), panels_, pair);
        // The derivative in A is the product of the first column, now (by_variance w - p), and the
        // weights w. The one in the kernel values with the query is p - 2 by_variance w.
        Doubles by_alpha{};
        for (std::size_t row = 0; row < size_; ++row) {
            const Doubles weight = pair[2 * row], pull = pair[2 * row + 1];
            const Doubles left = by_variance * weight - pull;
            query_slopes_.data()[row] *= pull - 2.0 * by_variance * weight;
            pair[2 * row + 1] = left;
            by_alpha += left * weight * noise_.data()[row];
        }
        for (std::size_t first = 0; first < d_; first += width_) {
            if (width_ < d_) gather(first);
            sum_by_columns();
            write_row(derivatives.by_logarithms, first, std::min(width_, d_ - first),
                      sums_.data());
        }
        const Doubles scaled = by_alpha * hoods_.alpha;
        write_row(derivatives.by_logarithms, d_, 1, &scaled);
    }

private:
    static void put(char* to, double value) { std::memcpy(to, &value, sizeof value); }

    std::size_t query_of(std::size_t lane) const {
        return tile_.first + std::min(lane, tile_.count - 1);
    }

    template <class Where>
    Doubles each_lane(Where where) const {
        Doubles values;
        for (std::size_t lane = 0; lane < lanes<double>; ++lane)
            values[lane] = load<double>(where(query_of(lane)));
        return values;
    }

    void write_row(const Matrix<char>& out, std::size_t first, std::size_t count,
                   const Doubles* values) const {
        for (std::size_t lane = 0; lane < tile_.count; ++lane)
            for (std::size_t column = 0; column < count; ++column)
                put(out.at(tile_.first + lane, first + column), values[column][lane]);
    }

    Doubles& right(std::size_t side, std::size_t row) {
        return right_.data()[(side / block * size_ + row) * block + side % block];
    }

    Doubles half(std::size_t side, std::size_t row) {
        return halves_.data()[(side / block * size_ + row) * block + side % block];
    }

    std::size_t index(std::size_t lane, std::size_t row) const {
        return indices_[lane * k_ + row];
    }

    void read_indices() {
        for (std::size_t lane = 0; lane < lanes<double>; ++lane)
            for (std::size_t row = 0; row < k_; ++row) {
                const auto found = load<std::int64_t>(hoods_.neighbors.at(query_of(lane), row));
                const auto index = static_cast<std::uint64_t>(found);  // large if negative
                if (index >= hoods_.points.rows)
                    throw std::out_of_range("neighbors contains " + std::to_string(found) +
                                            ", but there are " +
                                            std::to_string(hoods_.points.rows) + " points");
                indices_[lane * k_ + row] = static_cast<std::size_t>(index);
            }
    }

    // Read the noise and the targets of the neighbors. Those of padded rows stay zero.
    void read_rows() {
        for (std::size_t row = 0; row < k_; ++row) {
            right(0, row) = broadcast(1.0);
            for (std::size_t lane = 0; lane < lanes<double>; ++lane) {
                const std::size_t point = index(lane, row);
                noise_.data()[row][lane] = 1.0 / load<double>(hoods_.weights.at(point, 0));
                for (std::size_t output = 0; output < n_outputs_; ++output)
                    right(2 + output, row)[lane] = load<double>(hoods_.targets.at(point, output));
            }
        }
    }

    // Read some columns of the neighbors and of the query, relative to the nearest neighbor.
    QUADFEAT_NOINLINE void gather(std::size_t first) {
        const std::size_t count = std::min(width_, d_ - first);
        double* const offsets = reinterpret_cast<double*>(offsets_.data());
        double* const query = reinterpret_cast<double*>(query_.data());
        const Matrix<const char>& points = hoods_.points;
        for (std::size_t lane = 0; lane < lanes<double>; ++lane) {
            const char* const nearest = points.at(index(lane, 0), first);
            for (std::size_t column = 0; column < width_; ++column) {
                const bool exists = column < count;
                const auto step = static_cast<std::ptrdiff_t>(exists ? column : 0);
                // Columns past the end are zero.
                const double factor =
                    exists ? load<double>(hoods_.factors.at(0, first + column)) : 0.0;
                const double origin = load<double>(nearest + step * points.column_stride);
                const double given =
                    load<double>(hoods_.queries.at(query_of(lane), first) +
                                 step * hoods_.queries.column_stride);
                query[column * lanes<double> + lane] = (given - origin) * factor;
                origins_[column] = origin;
                factors_[column] = factor;
            }
            for (std::size_t row = 0; row < k_; ++row) {
                const char* from = points.at(index(lane, row), first);
                double* to =
                    offsets + (row / block * width_ * block + row % block) * lanes<double> + lane;
                for (std::size_t column = 0; column < count; ++column) {
                    *to = (load<double>(from) - origins_[column]) * factors_[column];
                    from += points.column_stride;
                    to += block * lanes<double>;
                }
                for (std::size_t column = count; column < width_; ++column) {
                    *to = 0.0;
                    to += block * lanes<double>;
                }
            }
        }
    }

    // Add the squared differences of the gathered columns, for all pairs of rows and for the query.
    // Rounding errors of the distances of close rows would show in rough kernels, so do not expand
    // the squares.
    QUADFEAT_NOINLINE void add_distances(bool is_first) {
        for (std::size_t I = 0; I < panels_; ++I) {
            const Doubles* const upper = offsets_.data() + I * width_ * block;
            for (std::size_t J = 0; J <= I; ++J) {
                const Doubles* a = upper;
                const Doubles* b = offsets_.data() + J * width_ * block;
                Doubles* const to = matrix_.data() + panel_start(I) + J * block_size;
                Block part{};
                if (!is_first) part.load(to);
                for (std::size_t column = 0; column < width_; ++column, a += block, b += block) {
#pragma GCC unroll 4
                    for (std::size_t i = 0; i < block; ++i)
#pragma GCC unroll 4
                        for (std::size_t j = 0; j < block; ++j) {
                            const Doubles difference = a[i] - b[j];
                            part.at[i][j] += difference * difference;
                        }
                }
                part.store(to);
            }
            const Doubles* a = upper;
            Doubles squares[block] = {};
            for (std::size_t column = 0; column < width_; ++column, a += block)
                for (std::size_t i = 0; i < block; ++i) {
                    const Doubles difference = a[i] - query_.data()[column];
                    squares[i] += difference * difference;
                }
            for (std::size_t i = 0; i < block; ++i) {
                Doubles& square = right(1, I * block + i);
                square = is_first ? squares[i] : square + squares[i];
            }
        }
    }

    // Replace squared distances by kernel values, and add the noise.
    QUADFEAT_NOINLINE void apply_kernel() {
        const double shape = hoods_.kernel.shape;
        const std::size_t count = panel_start(panels_);
        Doubles* const matrix = matrix_.data();
        with_profile(hoods_.kernel.profile, [&](auto profile) {
            if (wants_slopes_) {
                Doubles* const slopes = slopes_.data();
                for (std::size_t i = 0; i < count; ++i) {
                    const ValueAndSlope found = profile(matrix[i], shape);
                    matrix[i] = found.value;
                    slopes[i] = found.slope;
                }
            } else {
                for (std::size_t i = 0; i < count; ++i) matrix[i] = profile(matrix[i], shape).value;
            }
            for (std::size_t row = 0; row < k_; ++row) {
                const ValueAndSlope found = profile(right(1, row), shape);
                right(1, row) = found.value;
                query_slopes_.data()[row] = found.slope;
            }
        });
        for (std::size_t row = 0; row < k_; ++row) entry(row, row) += hoods_.alpha * noise_.data()[row];
        // Padded rows are those of the identity matrix.
        for (std::size_t row = k_; row < size_; ++row) {
            right(1, row) = query_slopes_.data()[row] = Doubles{};
            for (std::size_t column = 0; column < size_; ++column)
                if (column / block <= row / block) entry(row, column) = Doubles{};
            for (std::size_t other = row / block * block; other < row; ++other)
                entry(other, row) = Doubles{};
            entry(row, row) = broadcast(1.0);
        }
    }

    Doubles& entry(std::size_t row, std::size_t column) {
        return matrix_.data()[panel_start(row / block) + column * block + row % block];
    }

    // Factor with the smallest jitter that each matrix needs.
    void factor() {
        Doubles noise{};
        for (std::size_t row = 0; row < k_; ++row) noise += noise_.data()[row];
        const Doubles mean_diagonal = 1.0 + hoods_.alpha * noise / static_cast<double>(k_);
        std::size_t tried[lanes<double>] = {};
        for (bool again = true; again;) {
            for (std::size_t lane = 0; lane < lanes<double>; ++lane)
                jitter_[lane] = jitters[tried[lane]];
            const DoubleBits failed = factor_triangle(matrix_.data(), jitter_ * mean_diagonal,
                                                      panels_, lower_.data(), inverses_.data());
            again = false;
            for (std::size_t lane = 0; lane < lanes<double>; ++lane) {
                if (!failed[lane]) continue;
                again = true;
                if (++tried[lane] == n_jitters)
                    throw std::domain_error("the kernel matrix of " + std::to_string(k_) +
                                            " neighbors has no Cholesky factor, even with a jitter. "
                                            "Check that all inputs are finite.");
            }
        }
    }

    // Compute means, variances and squares by inner products of halves.
    void reduce() {
        of_ones_ = rest_ = variance_ = Doubles{};
        Doubles with_query{};
        for (std::size_t row = 0; row < size_; ++row) {
            const Doubles one = half(0, row), query = half(1, row);
            of_ones_ += one * one;
            with_query += one * query;
            variance_ += query * query;
        }
        rest_ = 1.0 - with_query;
        variance_ = 1.0 - variance_ + rest_ * rest_ / of_ones_;
        for (std::size_t output = 0; output < n_outputs_; ++output) {
            Doubles total{}, mean{}, squares{};
            for (std::size_t row = 0; row < size_; ++row)
                total += half(0, row) * half(2 + output, row);
            const Doubles intercept = total / of_ones_;
            for (std::size_t row = 0; row < size_; ++row) {
                const Doubles difference = half(2 + output, row) - half(0, row) * intercept;
                mean += half(1, row) * difference;
                squares += difference * difference;
            }
            intercepts_.data()[output] = intercept;
            means_.data()[output] = intercept + mean;
            squares_.data()[output] = squares;
        }
    }

    // Sum the gradient in the logarithms of the factors of the gathered columns over all pairs.
    QUADFEAT_NOINLINE void sum_by_columns() {
        const Doubles* const pair = pair_.data();
        Doubles* const sums = sums_.data();
        std::fill_n(sums, width_, Doubles{});
        for (std::size_t I = 0; I < panels_; ++I) {
            const Doubles* const upper = offsets_.data() + I * width_ * block;
            for (std::size_t J = 0; J <= I; ++J) {
                Block part;
                part.load(slopes_.data() + panel_start(I) + J * block_size);
                // Each pair is in two entries of the matrix. On the diagonal, a block has both.
                const double share = I == J ? 1.0 : 2.0;
#pragma GCC unroll 4
                for (std::size_t i = 0; i < block; ++i)
#pragma GCC unroll 4
                    for (std::size_t j = 0; j < block; ++j) {
                        const Doubles* const one = pair + 2 * (I * block + i);
                        const Doubles* const other = pair + 2 * (J * block + j);
                        part.at[i][j] *= share * (one[0] * other[1] + one[1] * other[0]);
                    }
                const Doubles* a = upper;
                const Doubles* b = offsets_.data() + J * width_ * block;
                for (std::size_t column = 0; column < width_; ++column, a += block, b += block) {
                    Doubles partial[block] = {};
#pragma GCC unroll 4
                    for (std::size_t i = 0; i < block; ++i)
#pragma GCC unroll 4
                        for (std::size_t j = 0; j < block; ++j) {
                            const Doubles difference = a[i] - b[j];
                            partial[i] += part.at[i][j] * difference * difference;
                        }
                    for (std::size_t i = 0; i < block; ++i) sums[column] += partial[i];
                }
            }
            const Doubles* a = upper;
            for (std::size_t column = 0; column < width_; ++column, a += block)
                for (std::size_t i = 0; i < block; ++i) {
                    const Doubles difference = a[i] - query_.data()[column];
                    sums[column] +=
                        2.0 * query_slopes_.data()[I * block + i] * difference * difference;
                }
        }
    }

    const Hoods& hoods_;
    const bool wants_slopes_;
    const std::size_t k_, d_, n_outputs_, panels_, size_, width_, sides_;
    Rows tile_{0, 0};
    std::vector<std::size_t> indices_;
    VectorMemory<double> offsets_, query_, matrix_, slopes_, query_slopes_, lower_, inverses_,
        noise_, right_, halves_, intercepts_, means_, squares_, pair_, sums_;
    std::vector<double> origins_ = std::vector<double>(width_),
                        factors_ = std::vector<double>(width_);
    Doubles jitter_{}, of_ones_{}, rest_{}, variance_{};
};

// Call use(solver) for the queries of each tile, after it has solved their systems.
template <class Use>
bool for_hoods(const Hoods& hoods, bool wants_slopes, std::size_t n_threads,
               const ShouldStop& should_stop, const Use& use) {
    const std::size_t n_queries = hoods.neighbors.rows;
    return share_tiles(count_tiles<double>(n_queries), n_threads, should_stop, [&] {
        return [&, solver = HoodSolver(hoods, wants_slopes)](std::size_t tile) mutable {
            solver.solve(rows_of_tile<double>(tile, n_queries));
            use(solver);
        };
    });
}

inline bool condition(const Hoods& hoods, const Conditionals& out, std::size_t n_threads,
                      const ShouldStop& should_stop) {
    return for_hoods(hoods, false, n_threads, should_stop,
                     [&](HoodSolver& solver) { solver.write(out); });
}

inline bool pull_back(const Hoods& hoods, const Derivatives& derivatives, std::size_t n_threads,
                      const ShouldStop& should_stop) {
    return for_hoods(hoods, true, n_threads, should_stop,
                     [&](HoodSolver& solver) { solver.pull_back(derivatives); });
}

}  // namespace quadfeat::QUADFEAT_ISA
