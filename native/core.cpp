// Compiled once for each instruction set; QUADFEAT_ISA names the namespace of this one.
#include "core.hpp"
#include "magnitude.hpp"
#include "threads.hpp"
#include "tile.hpp"

namespace quadfeat::QUADFEAT_ISA {

namespace {

// An output at least this large is not in the caches when it is read again.
constexpr std::size_t stream_from = std::size_t(1) << 24;
// Rows shorter than this have too large a part of lines that two of them share, which must not be
// streamed; and RowWriter wants more than what it stages.
constexpr std::size_t shortest_streamed_row = 1024;
static_assert(shortest_streamed_row > staged_columns<float> * sizeof(float));

template <class T>
bool should_stream(const Matrix<char>& out) {
    const std::size_t row = out.columns * sizeof(T);
    return out.column_stride == static_cast<std::ptrdiff_t>(sizeof(T)) &&
           out.row_stride % static_cast<std::ptrdiff_t>(sizeof(T)) == 0 &&
           reinterpret_cast<std::uintptr_t>(out.data) % sizeof(T) == 0 &&
           row >= shortest_streamed_row && out.rows * row >= stream_from;
}

template <class T, Phi phi, bool reflected>
bool transform_with(const Plan<T>& plan, const Matrix<const char>& X, const Matrix<char>& out,
                    std::size_t n_threads, const ShouldStop& should_stop) {
    const std::size_t n_tiles = (X.rows + lanes<T> - 1) / lanes<T>;
    const bool streams = should_stream<T>(out);
    return share_tiles(n_tiles, n_threads, should_stop, [&] {
        return [&, work = Workspace<T>(plan)](std::size_t tile) mutable {
            transform_tile<T, phi, reflected>(plan, X, out, tile, streams, work);
        };
    });
}

template <class T>
bool transform(const Plan<T>& plan, const Matrix<const char>& X, const Matrix<char>& out,
               std::size_t n_threads, const ShouldStop& should_stop) {
    const auto with = [&](auto run) { return run(plan, X, out, n_threads, should_stop); };
    const bool reflected = plan.reflected;
    switch (plan.phi) {
        case Phi::fourier:
            return with(transform_with<T, Phi::fourier, false>);
        case Phi::step:
            return with(reflected ? transform_with<T, Phi::step, true>
                                  : transform_with<T, Phi::step, false>);
        case Phi::ramp:
            return with(reflected ? transform_with<T, Phi::ramp, true>
                                  : transform_with<T, Phi::ramp, false>);
        case Phi::squared_ramp:
            return with(reflected ? transform_with<T, Phi::squared_ramp, true>
                                  : transform_with<T, Phi::squared_ramp, false>);
        case Phi::identity:
            return with(transform_with<T, Phi::identity, false>);
    }
    return false;
}

#define QUADFEAT_TEXT_(x) #x
#define QUADFEAT_TEXT(x) QUADFEAT_TEXT_(x)

}  // namespace

extern const Core core{QUADFEAT_TEXT(QUADFEAT_ISA), transform<float>, transform<double>,
                       largest_magnitude<float>, largest_magnitude<double>};

}  // namespace quadfeat::QUADFEAT_ISA
