// The core as the rest of the program sees it: one table of functions for each instruction set.
#pragma once

#include <atomic>
#include <functional>
#include <type_traits>

#include "plan.hpp"

namespace quadfeat {

// Asked now and then by the calling thread; true means to stop early.
using ShouldStop = std::function<bool()>;

// All that writes returns false if it was stopped early.
template <class T>
struct Functions {
    // Write the features Z of X into out. Sets `beyond` if an entry of X is larger than a finite
    // limit, or NaN; the rest is not written then.
    bool (*transform)(const Plan<T>&, const Matrix<const char>& X, const Matrix<char>& out, T limit,
                      std::atomic<bool>& beyond, std::size_t n_threads, const ShouldStop&);
    // Write Z V into out.
    bool (*multiply)(const Plan<T>&, const Matrix<const char>& X, const Matrix<const char>& V,
                     const Matrix<char>& out, std::size_t n_threads, const ShouldStop&);
    // Add Z' diag(weights) Z V to out, which is of doubles; weights are a matrix of one column.
    bool (*normal_multiply)(const Plan<T>&, const Matrix<const char>& X,
                            const Matrix<const char>& weights, const Matrix<const char>& V,
                            const Matrix<char>& out, std::size_t n_threads, const ShouldStop&);
    // Add Z' U to out, which is of doubles.
    bool (*transposed_multiply)(const Plan<T>&, const Matrix<const char>& X,
                                const Matrix<const char>& U, const Matrix<char>& out,
                                std::size_t n_threads, const ShouldStop&);
    // The largest magnitude in X: infinite or NaN if an entry is.
    T (*largest_magnitude)(Matrix<const char> X);
};

struct Core {
    const char* name;
    Functions<float> on_float;
    Functions<double> on_double;

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
