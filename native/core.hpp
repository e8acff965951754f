// The core as the rest of the program sees it: one table of functions for each instruction set.
#pragma once

#include <functional>

#include "plan.hpp"

namespace quadfeat {

// Asked now and then by the calling thread; true means to stop early.
using ShouldStop = std::function<bool()>;

struct Core {
    const char* name;
    // Write the features of X into out; false if stopped early.
    bool (*transform_float)(const Plan<float>&, const Matrix<const char>&, const Matrix<char>&,
                            std::size_t n_threads, const ShouldStop&);
    bool (*transform_double)(const Plan<double>&, const Matrix<const char>&, const Matrix<char>&,
                             std::size_t n_threads, const ShouldStop&);
    // The largest magnitude in X: infinite or NaN if an entry is.
    float (*largest_float)(Matrix<const char>);
    double (*largest_double)(Matrix<const char>);
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
