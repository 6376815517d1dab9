/* Helpers of the test programs: assertions that print their location, and a file to which ids are written. */
#ifndef CHECK_H
#define CHECK_H

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <leafd.h>

#define CHECK(what) check((what) ? 1 : 0, #what, __FILE__, __LINE__)
#define OK(call) check_status((call), LEAFD_STATUS_OK, #call, __FILE__, __LINE__)
#define FAILS(call, status) check_status((call), LEAFD_STATUS_##status, #call, __FILE__, __LINE__)

static inline void check(int holds, const char *what, const char *file, int line)
{
    if (!holds) {
        fprintf(stderr, "%s:%d: %s (errno %d)\n", file, line, what, errno);
        _exit(1);
    }
}

/* The error of this thread's last failed call. */
static _Thread_local leafd_error why;

static inline void check_status(leafd_status got, leafd_status wanted, const char *call, const char *file, int line)
{
    if (got != wanted) {
        fprintf(stderr, "%s:%d: %s: %s, not %s: %s\n", file, line, call, leafd_status_name(got),
                leafd_status_name(wanted), got == LEAFD_STATUS_OK ? "" : why.message);
        _exit(1);
    }
}

static inline leafd_status make_client(const char *path, uint32_t timeout_ms, uint32_t wait_ms, uint32_t flags,
                                       leafd_client **client)
{
    const leafd_settings settings = {path, timeout_ms, wait_ms, flags};
    return leafd_new(&settings, client, &why);
}

static inline leafd_status connect_now(const leafd_client *client)
{
    leafd_daemon_info info;
    return leafd_info(client, LEAFD_TIMEOUT_DEFAULT, &info, &why);
}

/* Appends ids to a file that many processes append to. Each write is atomic. */
static inline void record(int file, const uint64_t *ids, size_t count)
{
    CHECK(write(file, ids, count * sizeof *ids) == (ssize_t)(count * sizeof *ids));
}

#endif
