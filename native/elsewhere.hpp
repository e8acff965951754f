// Where new threads begin.
#pragma once

#include <thread>

#if defined(__linux__) && !defined(__ANDROID__)
#define QUADFEAT_HAS_AFFINITY
#include <pthread.h>
#include <sched.h>
#endif

namespace quadfeat {

// Move a thread that has just been made off the processor of the one that made it.
//
// Linux may leave it to wait there until the next balancing of loads, some milliseconds later, while
// other processors idle: virtual machines that pack their load do. Forbidding the processor for a
// moment moves a thread that waits for it; where the system refuses, nothing is lost. The thread
// must not have ended: C libraries take its number, 0 by then, for that of the caller.
inline void move_elsewhere(std::thread& thread) {
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
