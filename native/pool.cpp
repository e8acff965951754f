// This file is compiled once, for any processor, and shared by all builds of the core.
#include "pool.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "thread_settings.hpp"

namespace quadfeat {

// A thread that sleeps until a crew hires it.
class Helper {
public:
    // Start the thread. Throw std::system_error if the system cannot.
    Helper() {
        const SignalsBlocked blocked;  // inherited by the new thread
        std::thread thread([this] { run(); });
        name_thread(thread, "quadfeat");
        const std::lock_guard<std::mutex> lock(mutex_);
        affinity_ = Affinity(thread);
        thread.detach();
    }

    void begin(const std::function<void()>& work) {
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            affinity_.prepare();
            work_ = &work;
        }
        hired_.notify_one();
    }

    // Dismiss the thread if it has not begun. Return false if it has, and has not returned in time.
    bool end(std::chrono::milliseconds patience) {
        std::unique_lock<std::mutex> lock(mutex_);
        if (work_ && !is_working_) {
            work_ = nullptr;
            affinity_.suspect();
        }
        return returned_.wait_for(lock, patience, [this] { return !work_; });
    }

private:
    [[noreturn]] void run() {
        std::unique_lock<std::mutex> lock(mutex_);
        for (;;) {
            while (!work_) {
                hired_.wait(lock);
                affinity_.release();
            }
            is_working_ = true;
            lock.unlock();
            (*work_)();
            lock.lock();
            affinity_.release();
            is_working_ = false;
            work_ = nullptr;
            returned_.notify_one();
        }
    }

    std::mutex mutex_;
    std::condition_variable hired_, returned_;
    const std::function<void()>* work_ = nullptr;
    bool is_working_ = false;
    Affinity affinity_;
};

// The helpers of this process.
class Pool {
public:
    // Return the pool. It is never destroyed, since daemon threads may compute until the very end.
    static Pool& of_this_process() {
        Pool* found = current_;
        if (found) return *found;
        auto made = std::make_unique<Pool>();
        return current_.compare_exchange_strong(found, made.get()) ? *made.release() : *found;
    }

    bool is_of_this_process() const { return this == current_; }

    // Count a caller, and return helpers for it.
    std::vector<Helper*> hire(std::size_t n_threads, std::size_t n_tasks) {
        std::vector<Helper*> hired;
        const std::lock_guard<std::mutex> lock(mutex_);
        ++n_computing_;
        if (n_threads <= n_computing_ || n_tasks < 2) return hired;
        std::size_t n_wanted = std::min(n_threads - n_computing_, n_tasks - 1);
        try {
            for (; n_wanted && (!idle_.empty() || start_one()); --n_wanted) {
                hired.push_back(idle_.back());
                idle_.pop_back();
            }
        } catch (...) {
            // The system has no more memory. Continue with the helpers so far.
        }
        n_computing_ += hired.size();
        return hired;
    }

    // Discount a caller, and take its helpers back.
    void give_back(const std::vector<Helper*>& hired) {
        const std::lock_guard<std::mutex> lock(mutex_);
        n_computing_ -= 1 + hired.size();
        idle_.insert(idle_.end(), hired.rbegin(), hired.rend());  // does not allocate
    }

private:
    // Start a thread, unless there are many or the system cannot.
    bool start_one() {
        if (n_started_ == most_) return false;
        idle_.reserve(n_started_ + 1);
        try {
            idle_.push_back(new Helper);
        } catch (const std::system_error&) {
            return false;
        }
        ++n_started_;
        return true;
    }

    // More helpers than processors are of no use, except to tests.
    const std::size_t most_ = std::max(64u, std::thread::hardware_concurrency());
    std::mutex mutex_;
    std::vector<Helper*> idle_;
    std::size_t n_started_ = 0, n_computing_ = 0;

    static std::atomic<Pool*> current_;
    // A forked child has no helpers, and its copy of the pool may be locked. So the child forgets
    // the pool and makes another one when it needs it.
    static const bool forgets_at_fork_;
};

std::atomic<Pool*> Pool::current_{nullptr};
const bool Pool::forgets_at_fork_ = call_in_forked_children([] { current_ = nullptr; });

Crew::Crew(std::size_t n_threads, std::size_t n_tasks, const std::function<void()>& work)
    : pool_(&Pool::of_this_process()), helpers_(pool_->hire(n_threads, n_tasks)) {
    for (Helper* helper : helpers_) helper->begin(work);
}

Crew::~Crew() {
    if (!pool_->is_of_this_process()) return;
    wait(std::chrono::hours(1), [] {});
    pool_->give_back(helpers_);
}

void Crew::wait(std::chrono::milliseconds patience, const std::function<void()>& meanwhile) {
    for (Helper* helper : helpers_)
        while (!helper->end(patience)) meanwhile();
}

void Crew::check() const {
    if (!pool_->is_of_this_process()) throw Forked();
}

}  // namespace quadfeat
