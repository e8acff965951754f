// Settings of threads and processes that differ between systems. Where a system lacks one, nothing
// happens.
#pragma once

#include <thread>

#if !defined(_WIN32)
#define QUADFEAT_HAS_PTHREADS
#include <pthread.h>
#include <signal.h>
#endif

#if defined(__linux__) && !defined(__ANDROID__)
#define QUADFEAT_HAS_AFFINITY
#include <sched.h>
#endif

namespace quadfeat {

// Call a function in each child that forks from this process, before anything else runs there.
// Return true.
inline bool call_in_forked_children(void (*function)()) {
#if defined(QUADFEAT_HAS_PTHREADS)
    pthread_atfork(nullptr, nullptr, function);
#else
    static_cast<void>(function);
#endif
    return true;
}

// While this object exists, the calling thread gets no signals, and neither do threads that it
// starts. The handlers of a program then run in the threads that expect them. Signals of faults are
// exempt, so that faulthandler can report them.
class SignalsBlocked {
public:
#if defined(QUADFEAT_HAS_PTHREADS)
    SignalsBlocked() {
        sigset_t blocked;
        sigfillset(&blocked);
        for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP})
            sigdelset(&blocked, fault);
        pthread_sigmask(SIG_SETMASK, &blocked, &before_);
    }
    ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

private:
    sigset_t before_;
#else
    SignalsBlocked() {}
#endif

public:
    SignalsBlocked(const SignalsBlocked&) = delete;
    SignalsBlocked& operator=(const SignalsBlocked&) = delete;
};

// The processors on which a helper may run: those of the thread that it helps.
//
// Linux often puts a thread that wakes on the processor of the thread that woke it, where it waits
// for milliseconds while other processors are idle. Virtual machines that pack their load do so
// all the time. So a helper that was last there wakes with that processor forbidden.
class Affinity {
public:
    Affinity() = default;
#if defined(QUADFEAT_HAS_AFFINITY)
    explicit Affinity(std::thread& helper)
        : helper_(helper.native_handle()), last_(sched_getcpu()) {}

    // The thread that is going to be helped calls this before it wakes the helper.
    void prepare() {
        if (sched_getaffinity(0, sizeof allowed_, &allowed_) != 0) return;
        cpu_set_t wanted = allowed_;
        const int here = sched_getcpu();
        if (here >= 0 && here == last_ && CPU_COUNT(&allowed_) > 1) CPU_CLR(here, &wanted);
        if (CPU_EQUAL(&wanted, &current_)) return;
        if (pthread_setaffinity_np(helper_, sizeof wanted, &wanted) == 0) current_ = wanted;
    }

    // The helper did not wake in time, so it may wait for the processor of the calling thread.
    void suspect() { last_ = sched_getcpu(); }

    // The helper calls this when it has woken, and when it has done its work.
    void release() {
        if (!CPU_EQUAL(&current_, &allowed_) &&
            pthread_setaffinity_np(helper_, sizeof allowed_, &allowed_) == 0)
            current_ = allowed_;
        last_ = sched_getcpu();
    }

private:
    pthread_t helper_{};
    int last_ = -1;
    cpu_set_t allowed_{}, current_{};  // empty: not known yet
#else
    explicit Affinity(std::thread&) {}
    void prepare() {}
    void suspect() {}
    void release() {}
#endif
};

// Name a thread for debuggers and `top`.
inline void name_thread(std::thread& thread, const char* name) {
#if defined(QUADFEAT_HAS_AFFINITY)
    pthread_setname_np(thread.native_handle(), name);
#else
    static_cast<void>(thread);
    static_cast<void>(name);
#endif
}

}  // namespace quadfeat
