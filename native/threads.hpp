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

// Call make_worker() once a thread, and what it returns once a tile. Returns false if stopped early.
template <class MakeWorker>
bool share_tiles(std::size_t n_tiles, std::size_t n_threads, const ShouldStop& should_stop,
                 MakeWorker make_worker) {
    using Clock = std::chrono::steady_clock;
    constexpr auto patience = std::chrono::milliseconds(50);

    std::atomic<std::size_t> next{0};
    std::atomic<bool> stopped{false};
    std::exception_ptr failure;
    std::atomic<bool> failed{false};

    const auto work = [&](bool asks) {
        try {
            auto worker = make_worker();
            auto asked = Clock::now();
            for (std::size_t tile; !stopped && (tile = next++) < n_tiles;) {
                worker(tile);
                if (asks && Clock::now() - asked > patience) {
                    if (should_stop()) stopped = true;
                    asked = Clock::now();
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
