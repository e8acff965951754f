// Queries with the rows near them, in the form that the core uses: views of memory of the caller.
#pragma once

#include "plan.hpp"

namespace quadfeat {

// How a kernel depends on the squared distance of two scaled rows. To add one, also add a case in
// profiles.hpp and a name in bindings.cpp.
enum class Profile { gaussian, matern12, matern32, matern52, rational_quadratic };

struct Kernel {
    Profile profile;
    double shape;  // alpha of the rational quadratic kernel
};

// The largest number of neighbors. With more of them, BLAS is faster for each matrix.
inline constexpr std::size_t largest_hood = 1024;

// All entries are doubles, except for those of `neighbors`, which are 64-bit integers.
struct Hoods {
    Kernel kernel;
    double alpha;  // the ratio of noise variance to signal variance

    Matrix<const char> points;     // (n_rows, d)
    Matrix<const char> targets;    // (n_rows, n_outputs)
    Matrix<const char> weights;    // (n_rows, 1)
    Matrix<const char> queries;    // (n_queries, d)
    Matrix<const char> factors;    // (1, d): multiply differences of points and queries
    Matrix<const char> neighbors;  // (n_queries, k): indices of points, nearest first
};

// The distributions of the latent function at the queries.
struct Conditionals {
    Matrix<char> mean;      // (n_queries, n_outputs)
    Matrix<char> variance;  // (n_queries, 1), relative to the signal variance
    // (n_queries, n_outputs): squares of the whitened differences between targets and their mean
    Matrix<char> squares;
    Matrix<char> jitter;    // (n_queries, 1): the part of the mean diagonal that was added to it
};

// The derivatives of some number with respect to these distributions, and its gradient in the
// logarithms of the factors and of alpha.
struct Derivatives {
    Matrix<const char> by_mean;      // (n_queries, n_outputs)
    Matrix<const char> by_variance;  // (n_queries, 1)
    Matrix<char> by_logarithms;      // (n_queries, d + 1)
};

// Multiples of the mean diagonal to add until a matrix has a Cholesky factor.
inline constexpr double jitters[] = {0.0,   1e-14, 1e-13, 1e-12, 1e-11,
                                     1e-10, 1e-9,  1e-8,  1e-7,  1e-6};
inline constexpr std::size_t n_jitters = sizeof jitters / sizeof jitters[0];

}  // namespace quadfeat
