// Threads that share out tiles. Started for one call and joined by it: nothing outlives a call, so
// forks and concurrent calls need no care.
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <thread>
#include <vector>

#include "core.hpp"

namespace quadfeat {

// Hands out tiles: many at once at first, few in the end. So threads write far from one another,
// which matters where a page of the output is new: two that touch the same one both wait for it.
class TileCounter {
public:
    TileCounter(std::size_t n_tiles, std::size_t n_threads)
        : n_tiles_(n_tiles), n_threads_(n_threads) {}

    struct Range {
        std::size_t begin, end;
    };

    Range next() {
        std::size_t begin = next_, end;
        do {
            const std::size_t left = n_tiles_ - begin;
            const std::size_t share = left / (2 * n_threads_);
            end = begin + (left && !share ? 1 : share);
        } while (!next_.compare_exchange_weak(begin, end));
        return {begin, end};
    }

private:
    const std::size_t n_tiles_, n_threads_;
    std::atomic<std::size_t> next_{0};
};

// Call make_worker() once a thread, and what it returns once a tile. Returns false if stopped early.
template <class MakeWorker>
bool share_tiles(std::size_t n_tiles, std::size_t n_threads, const ShouldStop& should_stop,
                 MakeWorker make_worker) {
    using Clock = std::chrono::steady_clock;
    constexpr auto patience = std::chrono::milliseconds(50);

    TileCounter tiles(n_tiles, n_threads);
    std::atomic<bool> stopped{false};
    std::exception_ptr failure;
    std::atomic<bool> failed{false};

    const auto work = [&](bool asks) {
        try {
            auto worker = make_worker();
            auto asked = Clock::now();
            for (auto range = tiles.next(); range.begin < range.end; range = tiles.next()) {
                for (std::size_t tile = range.begin; tile < range.end && !stopped; ++tile) {
                    worker(tile);
                    if (asks && Clock::now() - asked > patience) {
                        if (should_stop()) stopped = true;
                        asked = Clock::now();
                    }
                }
            }
        } catch (...) {
            if (!failed.exchange(true)) failure = std::current_exception();
            stopped = true;
        }
    };

    std::vector<std::thread> helpers;
    try {
        for (std::size_t k = 1; k < n_threads && k < n_tiles; ++k) helpers.emplace_back(work, false);
    } catch (...) {
        // No more threads to be had: those that there are do the work.
    }
    work(true);
    for (auto& helper : helpers) helper.join();
    if (failure) std::rethrow_exception(failure);
    return !stopped;
}

}  // namespace quadfeat
