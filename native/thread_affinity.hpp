// Place new threads on other processors.
#pragma once

#include <thread>

#if defined(__linux__) && !defined(__ANDROID__)
#define QUADFEAT_HAS_AFFINITY
#include <pthread.h>
#include <sched.h>
#endif

namespace quadfeat {

// Move a new thread off the processor of the thread that started it.
//
// Linux may keep it waiting there until the next load balancing, a few milliseconds later, while
// other processors are idle. Virtual machines that pack their load do so. Briefly forbidding the
// processor moves the waiting thread. If the system does not allow it, nothing is lost. The thread
// must still be running: an ended thread has the number 0, which C libraries take for the caller.
inline void move_to_other_processor(std::thread& thread) {
#if defined(QUADFEAT_HAS_AFFINITY)
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < 2) return;
    cpu_set_t others = allowed;
    const int here = sched_getcpu();
    if (here < 0 || here >= CPU_SETSIZE) return;
    CPU_CLR(here, &others);
    const auto handle = thread.native_handle();
    if (pthread_setaffinity_np(handle, sizeof others, &others) == 0)
        pthread_setaffinity_np(handle, sizeof allowed, &allowed);
#else
    static_cast<void>(thread);
#endif
}

}  // namespace quadfeat
