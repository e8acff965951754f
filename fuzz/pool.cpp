// Stress the pool of threads: many callers at once, with nested calls, errors and early stops. `make
// sanitize-threads` compiles this file with ThreadSanitizer. The program aborts at the first wrong
// result, and ThreadSanitizer reports races.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "threads.hpp"

namespace {

using quadfeat::ShouldStop;

void require(bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "wrong: %s\n", what);
    std::abort();
}

const ShouldStop never = [] { return false; };
std::atomic<std::size_t> n_helped{0};  // tiles that helpers computed

// Every tile is computed once, and all writes are visible to the caller.
void write_tiles(std::size_t n_tiles, std::size_t n_threads) {
    std::vector<int> written(n_tiles);  // not atomic, so that ThreadSanitizer sees missing order
    std::atomic<std::size_t> now{0}, most{0};
    const auto caller = std::this_thread::get_id();
    const bool finished = quadfeat::share_tiles(n_tiles, n_threads, never, [&] {
        return [&](std::size_t tile) {
            const std::size_t here = ++now;
            for (std::size_t seen = most; seen < here && !most.compare_exchange_weak(seen, here);) {
            }
            ++written[tile];
            if (std::this_thread::get_id() != caller) ++n_helped;
            --now;
        };
    });
    require(finished, "not stopped");
    require(most <= n_threads, "at most n_threads");
    for (const int times : written) require(times == 1, "each tile once");
}

// Chunks are added in their order.
void add_chunks(std::size_t n_chunks, std::size_t n_threads) {
    struct Worker {
        std::vector<std::size_t>& added;
        std::size_t chunk = 0;
        void compute(std::size_t given) { chunk = given; }
        void add() { added.push_back(chunk); }
    };
    std::vector<std::size_t> added;
    const bool finished =
        quadfeat::share_chunks(n_chunks, n_threads, never, [&] { return Worker{added}; });
    require(finished && added.size() == n_chunks, "all chunks");
    for (std::size_t i = 0; i < n_chunks; ++i) require(added[i] == i, "chunks in order");
}

// An error of any thread reaches the caller.
void fail(std::size_t n_tiles, std::size_t n_threads, std::size_t at) {
    bool thrown = false;
    try {
        quadfeat::share_tiles(n_tiles, n_threads, never, [&] {
            return [&](std::size_t tile) {
                if (tile == at) throw std::runtime_error(std::to_string(tile));
            };
        });
    } catch (const std::runtime_error& error) {
        thrown = error.what() == std::to_string(at);
    }
    require(thrown, "the error is rethrown");
}

// Endless work stops when the caller asks for it, which may itself use the pool.
void stop(std::size_t n_threads, bool chunks) {
    const ShouldStop now = [&] {
        write_tiles(20, n_threads);
        return true;
    };
    constexpr auto endless = static_cast<std::size_t>(-1) / 2;
    struct Worker {
        void compute(std::size_t) {}
        void add() {}
    };
    const bool finished =
        chunks ? quadfeat::share_chunks(endless, n_threads, now, [] { return Worker{}; })
               : quadfeat::share_tiles(endless, n_threads, now, [] { return [](std::size_t) {}; });
    require(!finished, "stopped");
}

void call_often(unsigned seed, int times) {
    std::mt19937 random(seed);
    const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    for (int k = 0; k < times; ++k) {
        const std::size_t n_threads = 1 + below(12), n_tasks = below(100);
        switch (below(4)) {
            case 0: write_tiles(n_tasks, n_threads); break;
            case 1: add_chunks(n_tasks, n_threads); break;
            case 2: fail(n_tasks + 1, n_threads, below(n_tasks + 1)); break;
            default:  // a call within a call
                quadfeat::share_tiles(4, n_threads, never, [&] {
                    return [&](std::size_t) { write_tiles(n_tasks, n_threads); };
                });
        }
        if (k % 50 == 0) stop(n_threads, k % 100 == 0);
    }
}

}  // namespace

int main() {
    constexpr int calls = 1200;
    for (const int n_callers : {1, 2, 5, 32}) {
        std::vector<std::thread> callers;
        for (int k = 0; k < n_callers; ++k) callers.emplace_back(call_often, k, calls / n_callers);
        for (std::thread& caller : callers) caller.join();
    }
    require(n_helped > 0, "helpers help");
    std::printf("%d calls, by 1, 2, 5 and 32 threads; helpers computed %zu tiles\n", calls,
                n_helped.load());
}
