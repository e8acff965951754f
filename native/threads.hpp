// Distribute tiles, or chunks of tiles, over the calling thread and idle threads of the pool.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>

#include "core.hpp"
#include "pool.hpp"

namespace quadfeat {

struct Range {
    std::size_t begin, end;
};

// Hand out tiles, many at a time at first and few at the end. Threads then write to distant parts
// of the output. If two threads touched the same new page of memory, both would wait for it.
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

// Hand out chunks one at a time.
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

// Let threads proceed one after another, in the order of their chunks.
class Turns {
public:
    // Call add() after all earlier chunks have had their turn. Do not call it if stopped.
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

// Call make_worker(stopped) once per thread, and the worker that it returns once per task that
// `counter` hands out. Return false if stopped early.
template <class Counter, class MakeWorker>
bool share(Counter& counter, std::size_t n_tasks, std::size_t n_threads,
           const ShouldStop& should_stop, MakeWorker make_worker) {
    using Clock = std::chrono::steady_clock;
    constexpr auto patience = std::chrono::milliseconds(50);

    std::atomic<bool> stopped{false}, failed{false};
    std::exception_ptr failure;

    // Call after_task() after each task.
    const auto work = [&](auto after_task) {
        try {
            Range range = counter.next();
            if (range.begin == range.end) return;  // the other threads were faster
            auto worker = make_worker(stopped);
            for (; range.begin < range.end && !stopped; range = counter.next()) {
                for (std::size_t task = range.begin; task < range.end && !stopped; ++task) {
                    worker(task);
                    after_task();
                }
            }
        } catch (...) {
            if (!failed.exchange(true)) failure = std::current_exception();
            stopped = true;
        }
    };

    const std::function<void()> help = [&] { work([] {}); };
    {
        Crew crew(n_threads, n_tasks, help);
        const auto ask = [&] {
            if (should_stop()) stopped = true;
            crew.check();
        };
        work([&, asked = Clock::now()]() mutable {
            if (Clock::now() - asked <= patience) return;
            ask();
            asked = Clock::now();
        });
        crew.check();
        crew.wait(patience, ask);
    }
    if (failure) std::rethrow_exception(failure);
    return !stopped;
}

// Call make_worker() once per thread, and the worker that it returns once per tile. Return false if
// stopped early.
template <class MakeWorker>
bool share_tiles(std::size_t n_tiles, std::size_t n_threads, const ShouldStop& should_stop,
                 MakeWorker make_worker) {
    TileCounter tiles(n_tiles, n_threads);
    return share(tiles, n_tiles, n_threads, should_stop,
                 [&](const std::atomic<bool>&) { return make_worker(); });
}

// Call make_worker() once per thread. For each chunk, call compute(chunk) of the worker at any
// time, then its add() in the order of the chunks, since sums of floating-point numbers depend on
// the order. Return false if stopped early.
template <class MakeWorker>
bool share_chunks(std::size_t n_chunks, std::size_t n_threads, const ShouldStop& should_stop,
                  MakeWorker make_worker) {
    ChunkCounter chunks(n_chunks);
    auto turns = std::make_unique<Turns>();
    try {
        return share(chunks, n_chunks, n_threads, should_stop, [&](const auto& stopped) {
            return [&, worker = make_worker()](std::size_t chunk) mutable {
                worker.compute(chunk);
                turns->wait(chunk, stopped, [&] { worker.add(); });
            };
        });
    } catch (const Forked&) {
        turns.release();  // its destructor would wait for threads that only the parent has
        throw;
    }
}

}  // namespace quadfeat
