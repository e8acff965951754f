// Compiled once for each instruction set; QUADFEAT_ISA names the namespace of this one.
#include "core.hpp"
#include "magnitude.hpp"
#include "products.hpp"
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

template <class T>
bool transform(const Plan<T>& plan, const Matrix<const char>& X, const Matrix<char>& out,
               std::size_t n_threads, const ShouldStop& should_stop) {
    const bool streams = should_stream<T>(out);
    const auto make = tile_maker<T, RowWriter<T>>(plan);
    return share_tiles(count_tiles<T>(X.rows), n_threads, should_stop, [&] {
        return [&, work = Workspace<T>(plan)](std::size_t tile) mutable {
            const Rows rows = rows_of_tile<T>(tile, X.rows);
            RowWriter<T> writer(out, rows.first, rows.count, work.stage(), streams);
            make(plan, X, rows, work, writer);
        };
    });
}

template <class T>
constexpr Functions<T> functions{transform<T>, multiply<T>, normal_multiply<T>,
                                 transposed_multiply<T>, largest_magnitude<T>};

#define QUADFEAT_TEXT_(x) #x
#define QUADFEAT_TEXT(x) QUADFEAT_TEXT_(x)

}  // namespace

extern const Core core{QUADFEAT_TEXT(QUADFEAT_ISA), functions<float>, functions<double>};

}  // namespace quadfeat::QUADFEAT_ISA
