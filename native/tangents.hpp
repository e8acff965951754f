// The coefficients of a butterfly round, in the form and order in which the core applies them.
//
// A rotation u' = c u + s v, v' = c v - s u takes four operations. In the form u' = c (u + t v),
// v' = c (v - t u) with t = s / c, it takes two if the factor c is deferred. A pass applies up to
// three stages with deferred factors. Each tangent t is multiplied by the ratio of the deferred
// factors of its two coordinates. The end of the pass applies all factors.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace quadfeat {

// Number of coordinates that fit in the L1 cache. Each chunk of them goes through all passes within
// the chunk before the next chunk starts.
inline constexpr std::size_t chunk_width = 512;

// Consecutive runs of coordinates in one pass. A run is `half << stages` wide, and the pass mixes
// sets of coordinates with a distance of `half`. A set has `present` coordinates: 2^stages, or
// fewer if the end of the vector cuts the run off.
struct Runs {
    std::size_t stages;
    std::size_t half;
    std::size_t start;    // the first coordinate
    std::size_t n_runs;   // more than one only if they are complete
    std::size_t count;    // number of adjacent sets in a run
    std::size_t present;  // number of coordinates of a set
};

// Call use() for the runs of one pass from coordinate `begin` to `end`.
template <class Use>
inline void for_runs_of_pass(std::size_t begin, std::size_t end, std::size_t half,
                             std::size_t stages, Use&& use) {
    const std::size_t width = half << stages;
    const std::size_t whole = (end - begin) / width;
    if (whole) use(Runs{stages, half, begin, whole, half, std::size_t(1) << stages});
    const std::size_t rest = begin + whole * width;
    const std::size_t present = (end - rest) / half, larger = (end - rest) % half;
    if (larger) use(Runs{stages, half, rest, 1, larger, present + 1});
    if (present) use(Runs{stages, half, rest + larger, 1, half - larger, present});
}

// Call use() for all runs of a round of width d, in order.
template <class Use>
inline void for_runs(std::size_t d, Use&& use) {
    const auto pass = [&](std::size_t begin, std::size_t end, std::size_t half) {
        const std::size_t stages = 4 * half < d ? 3 : 2 * half < d ? 2 : 1;
        for_runs_of_pass(begin, end, half, stages, use);
        return half << stages;
    };
    for (std::size_t begin = 0; begin < d; begin += chunk_width) {
        const std::size_t end = std::min(begin + chunk_width, d);
        for (std::size_t half = pass(begin, end, 1); half < std::min(d, chunk_width);)
            half = pass(begin, end, half);
    }
    for (std::size_t half = chunk_width; half < d;) half = pass(0, d, half);
}

// Return whether coordinates 2 i and 2 i + 1 of a set always have the same factor, so that their
// coefficients are stored once. This fails if the last coordinate has no partner.
constexpr bool has_twins(std::size_t present) { return present % 2 == 0; }

// Call use(i, stage) for the pairs of coordinates, i and i + 2^stage, that a pass rotates in a set.
template <class Use>
inline void for_pairs(std::size_t stages, std::size_t present, Use&& use) {
    for (std::size_t stage = 0; stage < stages; ++stage) {
        const std::size_t step = std::size_t(1) << stage;
        for (std::size_t i = 0; i + step < present; ++i)
            if (!(i & step)) use(i, stage);
    }
}

// Append the coefficients of a run: two tangents per pair (one if the pair are twins), then the
// factors.
template <class T>
void append_run(const Runs& runs, std::size_t run, const double* const* cosines,
                const double* const* sines, std::vector<T>& coefficients) {
    // A smaller cosine would not change the rotation, but its tangent could overflow.
    const double smallest = std::numeric_limits<T>::epsilon() / 8;
    const bool twins = has_twins(runs.present);
    const std::size_t first = (runs.start / (runs.half << runs.stages) + run) << runs.stages;
    double deferred[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    for_pairs(runs.stages, runs.present, [&](std::size_t i, std::size_t stage) {
        const std::size_t step = std::size_t(1) << stage;
        const std::size_t angle = (first + i) / (2 * step);
        double c = cosines[stage][angle];
        if (std::abs(c) < smallest) c = std::copysign(smallest, c);
        const double t = sines[stage][angle] / c;
        if (!twins || i % 2 == 0) {
            const double ratio = deferred[i + step] / deferred[i];
            coefficients.push_back(static_cast<T>(t * ratio));
            if (!twins || step > 1) coefficients.push_back(static_cast<T>(t / ratio));
        }
        deferred[i] *= c;
        deferred[i + step] *= c;
    });
    for (std::size_t i = 0; i < runs.present; i += twins ? 2 : 1)
        coefficients.push_back(static_cast<T>(deferred[i]));
}

// Append the coefficients of a round in the order in which butterfly_round reads them. The input
// angles are ordered by stage.
template <class T>
void append_round(const double* cosines, const double* sines, std::size_t d,
                  std::vector<T>& coefficients) {
    std::vector<const double*> cosines_of_stage, sines_of_stage;
    for (std::size_t reach = 1; reach < d; reach *= 2) {
        cosines_of_stage.push_back(cosines);
        sines_of_stage.push_back(sines);
        const std::size_t n_angles = (d + reach - 1) / (2 * reach);
        cosines += n_angles;
        sines += n_angles;
    }
    for_runs(d, [&](const Runs& runs) {
        if (runs.present == 1) return;
        std::size_t stage = 0;
        while (std::size_t(1) << stage != runs.half) ++stage;
        for (std::size_t run = 0; run < runs.n_runs; ++run)
            append_run<T>(runs, run, cosines_of_stage.data() + stage, sines_of_stage.data() + stage,
                          coefficients);
    });
}

}  // namespace quadfeat
