// A wall clock that a test sets for the program into which this library is loaded: it is off by the milliseconds in the
// file that WALL_CLOCK_OFFSET names. The file is mapped, so all threads see a change at once. The boot-time clock stays.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const int64_t *offset;

// Adds the offset this many times: once for a time of this clock, minus once for one of the kernel's.
static void shift(struct timespec *at, int64_t times) {
    int64_t ms = offset ? times * __atomic_load_n(offset, __ATOMIC_RELAXED) : 0;
    int64_t nanoseconds = at->tv_nsec + ms % 1000 * 1000000;
    at->tv_sec += ms / 1000 + (nanoseconds >= 1000000000) - (nanoseconds < 0);
    at->tv_nsec = (nanoseconds + 1000000000) % 1000000000;
}

__attribute__((constructor)) static void map_offset(void) {
    const char *path = getenv("WALL_CLOCK_OFFSET");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *mapped = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED) {
        perror("WALL_CLOCK_OFFSET");
        abort();
    }
    close(file);
    offset = mapped;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = syscall(SYS_clock_gettime, clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        shift(now, 1);
    }
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    (void)zone;
    struct timespec exact;
    int failed = clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return failed;
}

time_t time(time_t *to) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (to) {
        *to = now.tv_sec;
    }
    return now.tv_sec;
}

// Waits until a time of this clock, by the kernel's.
int pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock,
                           const struct timespec *until) {
    static int (*real)(pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *);
    if (!real) {
        *(void **)&real = dlsym(RTLD_NEXT, "pthread_cond_clockwait");
    }
    struct timespec kernel = *until;
    if (clock == CLOCK_REALTIME) {
        shift(&kernel, -1);
    }
    return real(condition, mutex, clock, &kernel);
}

// Which clock a condition goes by shows in the time: no machine has been up for thirty years.
int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until) {
    clockid_t clock = until->tv_sec > 1000000000 ? CLOCK_REALTIME : CLOCK_MONOTONIC;
    return pthread_cond_clockwait(condition, mutex, clock, until);
}
