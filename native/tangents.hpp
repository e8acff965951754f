// The rotations of a butterfly round in the form in which the core applies them.
//
// A rotation u' = c u + s v, v' = c v - s u takes four operations, but only two as
// u' = c (u + t v), v' = c (v - t u), t = s / c, if the factor c waits. A pass applies up to three
// stages to coordinates whose factors wait: a tangent is then multiplied by the ratio of those of
// its two coordinates. In the end of the pass all factors are made good.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace quadfeat {

// How many stages the pass has whose first one rotates coordinates `half` apart.
inline std::size_t stages_of_pass(std::size_t d, std::size_t half) {
    return 4 * half < d ? 3 : 2 * half < d ? 2 : 1;
}

// How many coefficients such a pass has for each whole run of coordinates that it mixes.
constexpr std::size_t coefficients_of_run(std::size_t stages) {
    return stages == 3 ? 16 : stages == 2 ? 6 : 2;
}

// The angles of one stage, the first that of coordinate 0.
struct Stage {
    const double* cosines;
    const double* sines;
    std::size_t n_angles;
};

// Append the coefficients of a whole run. Coordinates 2 i and 2 i + 1 of it always have the same
// factor, so that what is needed for both is there once.
template <class T>
void append_run(const Stage* stages, std::size_t n_stages, std::size_t run,
                std::vector<T>& coefficients) {
    // A smaller cosine makes no difference to the rotation, but its tangent could overflow.
    const double smallest = std::numeric_limits<T>::epsilon() / 8;
    const std::size_t radix = std::size_t(1) << n_stages;
    double waiting[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    for (std::size_t k = 0; k < n_stages; ++k) {
        const std::size_t step = std::size_t(1) << k;
        for (std::size_t i = 0; i < radix; ++i) {
            if (i & step) continue;
            const std::size_t angle = (run * radix + i) / (2 * step);
            double c = stages[k].cosines[angle];
            if (std::abs(c) < smallest) c = std::copysign(smallest, c);
            const double t = stages[k].sines[angle] / c;
            if (i % 2 == 0) {
                const double ratio = waiting[i + step] / waiting[i];
                coefficients.push_back(static_cast<T>(t * ratio));
                if (k > 0) coefficients.push_back(static_cast<T>(t / ratio));
            }
            waiting[i] *= c;
            waiting[i + step] *= c;
        }
    }
    for (std::size_t i = 0; i < radix; i += 2) coefficients.push_back(static_cast<T>(waiting[i]));
}

// Append the coefficients of a round in the order in which butterfly_round reads them: pass by
// pass, in each the whole runs, then, stage by stage, the plain angles of what is left.
template <class T>
void append_round(const double* cosines, const double* sines, std::size_t d,
                  std::vector<T>& coefficients) {
    const auto append_plain = [&](const Stage& stage, std::size_t angle) {
        coefficients.push_back(static_cast<T>(stage.cosines[angle]));
        coefficients.push_back(static_cast<T>(stage.sines[angle]));
    };
    for (std::size_t half = 1; half < d;) {
        const std::size_t n_stages = stages_of_pass(d, half);
        Stage stages[3];
        for (std::size_t k = 0; k < n_stages; ++k) {
            const std::size_t reach = half << k;
            stages[k] = {cosines, sines, (d + reach - 1) / (2 * reach)};
            cosines += stages[k].n_angles;
            sines += stages[k].n_angles;
        }
        const std::size_t whole = d / (half << n_stages);
        for (std::size_t run = 0; run < whole; ++run) {
            if (n_stages == 1)
                append_plain(stages[0], run);  // a single stage gains nothing by tangents
            else
                append_run<T>(stages, n_stages, run, coefficients);
        }
        for (std::size_t k = 0; k < n_stages; ++k)
            for (std::size_t angle = whole << (n_stages - 1 - k); angle < stages[k].n_angles; ++angle)
                append_plain(stages[k], angle);
        half <<= n_stages;
    }
}

}  // namespace quadfeat
