// Threads that outlive the calls they help, so that a call need not start its own.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <stdexcept>
#include <vector>

namespace quadfeat {

class Helper;
class Pool;

// The threads that help with one call. The calling thread works as well, so a call never waits for
// a helper to become idle, and any number of threads may call at once, even from within a call.
//
// All calls of a process share the helpers. A call gets a helper only while fewer than `n_threads`
// threads compute, counting those of other calls: callers that bring their own threads then do not
// use more processors than one caller would.
class Crew {
public:
    // Let idle helpers call `work`, at most n_threads - 1 of them and one less than there are
    // tasks. It must not throw, and it must outlive the crew.
    Crew(std::size_t n_threads, std::size_t n_tasks, const std::function<void()>& work);
    ~Crew();
    Crew(const Crew&) = delete;
    Crew& operator=(const Crew&) = delete;

    // Wait until all helpers have returned. Those that have not begun will not. Call `meanwhile`
    // every `patience` while waiting.
    void wait(std::chrono::milliseconds patience, const std::function<void()>& meanwhile);

    // Throw Forked if this process is a fork of the one that made the crew.
    void check() const;

private:
    Pool* pool_;
    std::vector<Helper*> helpers_;
};

// The process forked in the middle of a call, which only a signal handler can do, and the call
// returned to the child, where the helpers and their part of the work are missing.
class Forked : public std::runtime_error {
public:
    Forked() : runtime_error("a signal handler forked this process during a computation") {}
};

}  // namespace quadfeat
