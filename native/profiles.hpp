// Kernels as functions of the squared distance, and their derivatives.
#pragma once

#include "exponential.hpp"
#include "hoods.hpp"

namespace quadfeat::QUADFEAT_ISA {

// The value of a kernel and its derivative with respect to the squared distance.
struct ValueAndSlope {
    Doubles value, slope;
};

struct GaussianProfile {
    QUADFEAT_HOT ValueAndSlope operator()(Doubles squared, double) const {
        const Doubles value = exp_of_negative(-0.5 * squared);
        return {value, -0.5 * value};
    }
};

struct Matern12Profile {
    QUADFEAT_HOT ValueAndSlope operator()(Doubles squared, double) const {
        // The slope is infinite at distance zero, where nothing depends on it.
        constexpr double no_distance = 1e-8;
        const Doubles distance = square_root(squared);
        const Doubles value = exp_of_negative(-distance);
        const DoubleBits apart = distance > no_distance;
        return {value, apart ? -0.5 * value / distance : Doubles{}};
    }
};

struct Matern32Profile {
    QUADFEAT_HOT ValueAndSlope operator()(Doubles squared, double) const {
        const Doubles distance = square_root(3.0 * squared);
        const Doubles decay = exp_of_negative(-distance);
        return {(1.0 + distance) * decay, -1.5 * decay};
    }
};

struct Matern52Profile {
    QUADFEAT_HOT ValueAndSlope operator()(Doubles squared, double) const {
        constexpr double third = 1.0 / 3.0;
        const Doubles five = 5.0 * squared;
        const Doubles distance = square_root(five);
        const Doubles decay = exp_of_negative(-distance);
        return {(1.0 + distance + five * third) * decay,
                (-5.0 / 6.0) * (1.0 + distance) * decay};
    }
};

struct RationalQuadraticProfile {
    QUADFEAT_HOT ValueAndSlope operator()(Doubles squared, double shape) const {
        const Doubles scaled = squared / (2.0 * shape);
        const Doubles value = exp_of_negative(-shape * log_of_one_plus(scaled));
        return {value, -0.5 * value / (1.0 + scaled)};
    }
};

// Call use(profile) with the function of a kernel, so that loops in `use` are compiled for each.
template <class Use>
QUADFEAT_HOT void with_profile(Profile profile, Use use) {
    switch (profile) {
        case Profile::gaussian: return use(GaussianProfile{});
        case Profile::matern12: return use(Matern12Profile{});
        case Profile::matern32: return use(Matern32Profile{});
        case Profile::matern52: return use(Matern52Profile{});
        case Profile::rational_quadratic: return use(RationalQuadraticProfile{});
    }
}

}  // namespace quadfeat::QUADFEAT_ISA
