// This file is compiled once per instruction set. QUADFEAT_ISA names the namespace of each build.
#include "core.hpp"
#include "neighbors.hpp"
#include "products.hpp"
#include "threads.hpp"
#include "tile.hpp"

namespace quadfeat::QUADFEAT_ISA {

namespace {

template <class T>
bool transform(const Plan<T>& plan, const Matrix<const char>& X, const Matrix<char>& out,
               const Bounds<T>& bounds, std::size_t n_threads, const ShouldStop& should_stop) {
    const auto make = tile_maker<T, RowWriter<T>>(plan);
    return share_tiles(count_tiles<T>(X.rows), n_threads, should_stop, [&] {
        return [&, work = Workspace<T>(plan)](std::size_t tile) mutable {
            const Rows rows = rows_of_tile<T>(tile, X.rows);
            if (!admits<T>(bounds, X, rows)) return;
            RowWriter<T> writer(out, rows.first, rows.count);
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

extern const Core core{QUADFEAT_TEXT(QUADFEAT_ISA), functions<float>, functions<double>, condition,
                       pull_back};

}  // namespace quadfeat::QUADFEAT_ISA
