// The interface of the core: one table of functions per instruction set.
#pragma once

#include <atomic>
#include <functional>
#include <type_traits>

#include "hoods.hpp"
#include "plan.hpp"

namespace quadfeat {

// The calling thread calls this regularly. True means to stop early.
using ShouldStop = std::function<bool()>;

// A limit for the entries of X. If an entry is NaN or larger, a function sets `beyond` and stops.
// Tiles are checked while they are computed, so that X is read from memory once.
template <class T>
struct Bounds {
    T limit;
    std::atomic<bool>& beyond;
};

// Functions that write return false if they were stopped early. Only sums are then not written.
template <class T>
struct Functions {
    // Write the features Z of X into out.
    bool (*transform)(const Plan<T>&, const Matrix<const char>& X, const Matrix<char>& out,
                      const Bounds<T>&, std::size_t n_threads, const ShouldStop&);
    // Write Z V into out.
    bool (*multiply)(const Plan<T>&, const Matrix<const char>& X, const Matrix<const char>& V,
                     const Matrix<char>& out, const Bounds<T>&, std::size_t n_threads,
                     const ShouldStop&);
    // Add Z' diag(weights) Z V to out, a matrix of doubles. The weights are a matrix of one column.
    bool (*normal_multiply)(const Plan<T>&, const Matrix<const char>& X,
                            const Matrix<const char>& weights, const Matrix<const char>& V,
                            const Matrix<char>& out, const Bounds<T>&, std::size_t n_threads,
                            const ShouldStop&);
    // Add Z' U to out, a matrix of doubles.
    bool (*transposed_multiply)(const Plan<T>&, const Matrix<const char>& X,
                                const Matrix<const char>& U, const Matrix<char>& out,
                                const Bounds<T>&, std::size_t n_threads, const ShouldStop&);
    // Return the largest magnitude in X, or infinity or NaN if an entry is not finite.
    T (*largest_magnitude)(Matrix<const char> X);
};

struct Core {
    const char* name;
    Functions<float> on_float;
    Functions<double> on_double;

    // Write the conditional distributions of some queries.
    bool (*condition)(const Hoods&, const Conditionals& out, std::size_t n_threads,
                      const ShouldStop&);
    // Write the derivatives with respect to the logarithms of the factors and of alpha.
    bool (*pull_back)(const Hoods&, const Derivatives&, std::size_t n_threads, const ShouldStop&);

    template <class T>
    const Functions<T>& on() const {
        if constexpr (std::is_same_v<T, float>)
            return on_float;
        else
            return on_double;
    }
};

namespace baseline {
extern const Core core;
}
#ifdef QUADFEAT_X86
namespace v3 {
extern const Core core;
}
namespace v4 {
extern const Core core;
}
#endif

}  // namespace quadfeat
