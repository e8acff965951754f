// Butterfly matrices on a tile: stages of Givens rotations, three of them a pass.
#pragma once

#include "simd.hpp"

namespace quadfeat::QUADFEAT_ISA {

template <class T>
inline void rotate(Vector<T>& left, Vector<T>& right, T cosine, T sine) {
    const Vector<T> turned = cosine * left + sine * right;
    right = cosine * right - sine * left;
    left = turned;
}

// The angles of one round, stage by stage.
template <class T>
struct Angles {
    const T* cosines;
    const T* sines;

    // Skip the stage of this half-size.
    Angles after(std::size_t d, std::size_t half) const {
        const std::size_t angles = (d + half - 1) / (2 * half);
        return {cosines + angles, sines + angles};
    }
};

// One stage on the coordinates from `first` on; pairs whose partner is past `d` are left alone.
template <class T>
inline void butterfly_stage(Vector<T>* u, std::size_t first, std::size_t d, std::size_t half,
                            Angles<T> angles) {
    for (std::size_t start = first; start + half < d; start += 2 * half) {
        const std::size_t run = start / (2 * half);
        const T c = angles.cosines[run], s = angles.sines[run];
        const std::size_t pairs = start + 2 * half <= d ? half : d - half - start;
        for (std::size_t i = start; i < start + pairs; ++i) rotate<T>(u[i], u[i + half], c, s);
    }
}

// Three stages at once where runs are whole, so that the tile is read and written once. Reads
// coordinate i from `from(i)`, which may be elsewhere and in another order.
template <class T, class From>
inline void butterfly_three_stages(From from, Vector<T>* to, std::size_t d, std::size_t half,
                                   Angles<T> first, Angles<T> second, Angles<T> third) {
    const std::size_t whole = d / (8 * half);
    for (std::size_t run = 0; run < whole; ++run) {
        const T c0 = first.cosines[4 * run], s0 = first.sines[4 * run];
        const T c1 = first.cosines[4 * run + 1], s1 = first.sines[4 * run + 1];
        const T c2 = first.cosines[4 * run + 2], s2 = first.sines[4 * run + 2];
        const T c3 = first.cosines[4 * run + 3], s3 = first.sines[4 * run + 3];
        const T c4 = second.cosines[2 * run], s4 = second.sines[2 * run];
        const T c5 = second.cosines[2 * run + 1], s5 = second.sines[2 * run + 1];
        const T c6 = third.cosines[run], s6 = third.sines[run];
        const std::size_t start = run * 8 * half;
        for (std::size_t i = start; i < start + half; ++i) {
            Vector<T> v0 = from(i), v1 = from(i + half);
            Vector<T> v2 = from(i + 2 * half), v3 = from(i + 3 * half);
            rotate<T>(v0, v1, c0, s0);
            rotate<T>(v2, v3, c1, s1);
            rotate<T>(v0, v2, c4, s4);
            rotate<T>(v1, v3, c4, s4);
            Vector<T> v4 = from(i + 4 * half), v5 = from(i + 5 * half);
            Vector<T> v6 = from(i + 6 * half), v7 = from(i + 7 * half);
            rotate<T>(v4, v5, c2, s2);
            rotate<T>(v6, v7, c3, s3);
            rotate<T>(v4, v6, c5, s5);
            rotate<T>(v5, v7, c5, s5);
            rotate<T>(v0, v4, c6, s6);
            rotate<T>(v1, v5, c6, s6);
            rotate<T>(v2, v6, c6, s6);
            rotate<T>(v3, v7, c6, s6);
            to[i] = v0;
            to[i + half] = v1;
            to[i + 2 * half] = v2;
            to[i + 3 * half] = v3;
            to[i + 4 * half] = v4;
            to[i + 5 * half] = v5;
            to[i + 6 * half] = v6;
            to[i + 7 * half] = v7;
        }
    }
    const std::size_t rest = whole * 8 * half;
    for (std::size_t i = rest; i < d; ++i) to[i] = from(i);
    butterfly_stage<T>(to, rest, d, half, first);
    butterfly_stage<T>(to, rest, d, 2 * half, second);
    butterfly_stage<T>(to, rest, d, 4 * half, third);
}

// Two stages at once, in place.
template <class T>
inline void butterfly_two_stages(Vector<T>* u, std::size_t d, std::size_t half, Angles<T> first,
                                 Angles<T> second) {
    const std::size_t whole = d / (4 * half);
    for (std::size_t run = 0; run < whole; ++run) {
        const T c0 = first.cosines[2 * run], s0 = first.sines[2 * run];
        const T c1 = first.cosines[2 * run + 1], s1 = first.sines[2 * run + 1];
        const T c2 = second.cosines[run], s2 = second.sines[run];
        for (std::size_t i = run * 4 * half; i < run * 4 * half + half; ++i) {
            Vector<T> v0 = u[i], v1 = u[i + half], v2 = u[i + 2 * half], v3 = u[i + 3 * half];
            rotate<T>(v0, v1, c0, s0);
            rotate<T>(v2, v3, c1, s1);
            rotate<T>(v0, v2, c2, s2);
            rotate<T>(v1, v3, c2, s2);
            u[i] = v0;
            u[i + half] = v1;
            u[i + 2 * half] = v2;
            u[i + 3 * half] = v3;
        }
    }
    const std::size_t rest = whole * 4 * half;
    butterfly_stage<T>(u, rest, d, half, first);
    butterfly_stage<T>(u, rest, d, 2 * half, second);
}

// Multiply a tile by the butterfly matrix of one round, without its permutation. Coordinate i is
// read from `from(i)` and the result written to `to`.
template <class T, class From>
inline void butterfly_round(From from, Vector<T>* to, std::size_t d, Angles<T> angles) {
    const auto in_place = [to](std::size_t i) { return to[i]; };
    std::size_t half = 1;
    for (; 4 * half < d; half *= 8) {
        const Angles<T> second = angles.after(d, half);
        const Angles<T> third = second.after(d, 2 * half);
        if (half == 1)
            butterfly_three_stages<T>(from, to, d, half, angles, second, third);
        else
            butterfly_three_stages<T>(in_place, to, d, half, angles, second, third);
        angles = third.after(d, 4 * half);
    }
    if (half == 1)
        for (std::size_t i = 0; i < d; ++i) to[i] = from(i);
    if (2 * half < d)
        butterfly_two_stages<T>(to, d, half, angles, angles.after(d, half));
    else if (half < d)
        butterfly_stage<T>(to, 0, d, half, angles);
}

}  // namespace quadfeat::QUADFEAT_ISA
