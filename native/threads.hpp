// Threads that share out tiles, or chunks of them. Started for one call and joined by it: nothing
// outlives a call, so forks and concurrent calls need no care.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "core.hpp"
#include "elsewhere.hpp"

namespace quadfeat {

struct Range {
    std::size_t begin, end;
};

// Hands out tiles: many at once at first, few in the end. So threads write far from one another,
// which matters where a page of the output is new: two that touch the same one both wait for it.
class TileCounter {
public:
    TileCounter(std::size_t n_tiles, std::size_t n_threads)
        : n_tiles_(n_tiles), n_threads_(n_threads) {}

    Range next() {
        std::size_t begin = next_, end;
        do {
            const std::size_t left = n_tiles_ - begin;
            const std::size_t share = left / 2 / n_threads_;
            end = begin + (left && !share ? 1 : share);
        } while (!next_.compare_exchange_weak(begin, end));
        return {begin, end};
    }

private:
    const std::size_t n_tiles_, n_threads_;
    std::atomic<std::size_t> next_{0};
};

// Hands out chunks one at a time.
class ChunkCounter {
public:
    explicit ChunkCounter(std::size_t n_chunks) : n_chunks_(n_chunks) {}

    Range next() {
        const std::size_t begin = next_++;
        return {begin, begin < n_chunks_ ? begin + 1 : begin};
    }

private:
    const std::size_t n_chunks_;
    std::atomic<std::size_t> next_{0};
};

// Lets threads in one after another, in the order of their chunks.
class Turns {
public:
    // Call add() when all chunks before this one have had their turn; not at all if stopped.
    template <class Add>
    void wait(std::size_t chunk, const std::atomic<bool>& stopped, Add add) {
        constexpr auto patience = std::chrono::milliseconds(5);
        std::unique_lock<std::mutex> lock(mutex_);
        while (next_ != chunk) {
            if (stopped) return;
            changed_.wait_for(lock, patience);
        }
        add();
        ++next_;
        changed_.notify_all();
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::size_t next_ = 0;
};

// Call make_worker(stopped) once a thread, and what it returns once a task of those that `counter`
// hands out. Returns false if stopped early.
template <class Counter, class MakeWorker>
bool share(Counter& counter, std::size_t n_tasks, std::size_t n_threads,
           const ShouldStop& should_stop, MakeWorker make_worker) {
    using Clock = std::chrono::steady_clock;
    constexpr auto patience = std::chrono::milliseconds(50);

    std::atomic<bool> stopped{false};
    std::exception_ptr failure;
    std::atomic<bool> failed{false};

    const auto work = [&](bool asks) {
        try {
            auto worker = make_worker(stopped);
            auto asked = Clock::now();
            for (auto range = counter.next(); range.begin < range.end; range = counter.next()) {
                for (std::size_t task = range.begin; task < range.end && !stopped; ++task) {
                    worker(task);
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
    std::atomic<bool> all_started{false};
    const auto help = [&] {
        work(false);
        while (!all_started) std::this_thread::yield();  // move_elsewhere wants them alive
    };
    try {
        for (std::size_t k = 1; k < n_threads && k < n_tasks; ++k) {
            helpers.emplace_back(help);
            move_elsewhere(helpers.back());
        }
    } catch (...) {
        // No more threads to be had: those that there are do the work.
    }
    all_started = true;
    work(true);
    for (auto& helper : helpers) helper.join();
    if (failure) std::rethrow_exception(failure);
    return !stopped;
}

// Call make_worker() once a thread, and what it returns once a tile. Returns false if stopped early.
template <class MakeWorker>
bool share_tiles(std::size_t n_tiles, std::size_t n_threads, const ShouldStop& should_stop,
                 MakeWorker make_worker) {
    TileCounter tiles(n_tiles, n_threads);
    return share(tiles, n_tiles, n_threads, should_stop,
                 [&](const std::atomic<bool>&) { return make_worker(); });
}

// Call make_worker() once a thread, and once a chunk the compute(chunk) of what it returns, at any
// time, then its add(), in the order of the chunks: sums of floating-point numbers depend on it.
// Returns false if stopped early.
template <class MakeWorker>
bool share_chunks(std::size_t n_chunks, std::size_t n_threads, const ShouldStop& should_stop,
                  MakeWorker make_worker) {
    ChunkCounter chunks(n_chunks);
    Turns turns;
    return share(chunks, n_chunks, n_threads, should_stop, [&](const std::atomic<bool>& stopped) {
        return [&, worker = make_worker()](std::size_t chunk) mutable {
            worker.compute(chunk);
            turns.wait(chunk, stopped, [&] { worker.add(); });
        };
    });
}

}  // namespace quadfeat
