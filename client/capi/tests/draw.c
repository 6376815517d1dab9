/* Draws ids in one of the ways in which programs do, and records them: `draw SOCKET MODE FILE COUNT`.
 *
 * threads: 8 threads of one client           forks: children and grandchildren while threads draw
 * bare: children created by clone(2)         reuse: a child has another socket under the parent's descriptor
 * spawn: posix_spawn while threads draw      signals: a timer interrupts every call
 * descriptors: with 1,500 of them open       until: until standard input ends, whatever the daemon does
 *
 * If LEAFD_TEST_REFUSE is set, a seccomp filter first makes madvise(…, MADV_WIPEONFORK) fail.
 */
#define _GNU_SOURCE
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "check.h"

enum { THREADS = 8, CHUNK = 160, CHILD_SECONDS_MAX = 120, DESCRIPTORS = 1500 };

extern char **environ;

static const char *path;
static int file;
static size_t count;
static leafd_client *client;
static leafd_tag *tag;
static volatile int stop;

/* Draws CHUNK ids with every kind of call. */
static void draw(void)
{
    uint64_t ids[CHUNK];
    for (size_t number = 0; number < CHUNK - 60; number += 2) {
        OK(leafd_next(client, "orders", LEAFD_TIMEOUT_DEFAULT, &ids[number], &why));
        OK(leafd_tag_next(tag, LEAFD_TIMEOUT_DEFAULT, &ids[number + 1], &why));
    }
    for (size_t number = CHUNK - 60; number < CHUNK - 50; number++) {
        OK(leafd_next_direct(client, "orders", LEAFD_TIMEOUT_DEFAULT, &ids[number], &why));
    }
    OK(leafd_next_many(client, "orders", LEAFD_TIMEOUT_DEFAULT, &ids[CHUNK - 50], 25, &why));
    OK(leafd_tag_next_many(tag, LEAFD_TIMEOUT_DEFAULT, &ids[CHUNK - 25], 25, &why));
    record(file, ids, CHUNK);
}

static void *draw_count(void *unused)
{
    (void)unused;
    for (size_t number = 0; number < count; number++) {
        draw();
    }
    return NULL;
}

static void *draw_until_stop(void *unused)
{
    (void)unused;
    while (!stop) {
        draw();
    }
    return NULL;
}

static void start(pthread_t *threads, size_t how_many, void *(*work)(void *))
{
    for (size_t number = 0; number < how_many; number++) {
        CHECK(pthread_create(&threads[number], NULL, work, NULL) == 0);
    }
}

static void join(const pthread_t *threads, size_t how_many)
{
    for (size_t number = 0; number < how_many; number++) {
        CHECK(pthread_join(threads[number], NULL) == 0);
    }
}

static void await(pid_t child)
{
    int status = -1;
    while (waitpid(child, &status, 0) < 0) {
        CHECK(errno == EINTR);
    }
    if (status != 0) {
        fprintf(stderr, "a child ended %s %d\n", WIFSIGNALED(status) ? "by signal" : "with status",
                WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    }
    CHECK(status == 0);
}

static void end_child(void)
{
    OK(leafd_tag_free(tag));
    OK(leafd_free(client));
    _exit(0);
}

static void draw_threads(void)
{
    pthread_t threads[THREADS];
    start(threads, THREADS, draw_count);
    join(threads, THREADS);
}

static void draw_forks(void)
{
    pthread_t threads[3];
    start(threads, 3, draw_until_stop);
    for (size_t number = 0; number < count; number++) {
        draw();
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            alarm(CHILD_SECONDS_MAX);
            if (number % 3 != 0) {
                draw();
            }
            pid_t grandchild = fork();
            CHECK(grandchild >= 0);
            draw();
            if (grandchild > 0) {
                await(grandchild);
            }
            end_child();
        }
        draw();
        await(child);
    }
    stop = 1;
    join(threads, 3);
}

/* The C library doesn't know about these children, so no other threads run, because nobody would release their locks. */
static void draw_bare(void)
{
    for (size_t number = 0; number < count; number++) {
        draw();
        long child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        CHECK(child >= 0);
        if (child == 0) {
            alarm(CHILD_SECONDS_MAX);
            draw();
            end_child();
        }
        draw();
        await((pid_t)child);
    }
}

/* The descriptor of the client's connection: the socket whose peer is the daemon's socket. */
static int connection(void)
{
    for (int number = 3; number < 1024; number++) {
        struct sockaddr_un peer;
        socklen_t length = sizeof peer;
        memset(&peer, 0, sizeof peer);
        if (getpeername(number, (struct sockaddr *)&peer, &length) == 0
            && strncmp(peer.sun_path, path, strlen(path)) == 0) {
            return number;
        }
    }
    return -1;
}

static void draw_reuse(void)
{
    draw();
    int number = connection(), pair[2];
    CHECK(number >= 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        char heard[8] = "";
        CHECK(close(number) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
        CHECK(dup2(pair[0], number) == number);
        draw();
        OK(leafd_tag_free(tag));
        OK(leafd_free(client));
        /* The library neither closed it nor wrote to it. */
        CHECK(write(number, "there", 6) == 6 && read(pair[1], heard, sizeof heard) == 6);
        CHECK(strcmp(heard, "there") == 0);
        _exit(0);
    }
    draw();
    await(child);
    /* A child opens its own connection, and leaves its copy of its parent's connection unchanged. */
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        struct stat before, after;
        CHECK(fstat(number, &before) == 0);
        draw();
        CHECK(fstat(number, &after) == 0 && before.st_ino == after.st_ino);
        end_child();
    }
    await(child);
    draw();
}

static void draw_spawn(char *program)
{
    pthread_t threads[3];
    start(threads, 3, draw_until_stop);
    char number[32];
    snprintf(number, sizeof number, "%d", connection());
    for (size_t turn = 0; turn < count; turn++) {
        char *arguments[] = {program, (char *)path, "spawned", number, "1", NULL};
        pid_t child;
        CHECK(posix_spawn(&child, program, NULL, NULL, arguments, environ) == 0);
        draw();
        await(child);
    }
    stop = 1;
    join(threads, 3);
}

static size_t alarms;

static void count_alarm(int signal)
{
    (void)signal;
    __atomic_add_fetch(&alarms, 1, __ATOMIC_RELAXED);
}

static void draw_signals(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    /* SA_RESTART is not set, so every system call ends with EINTR. */
    action.sa_handler = count_alarm;
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    struct itimerval often = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
    CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
    pthread_t threads[THREADS];
    start(threads, THREADS, draw_count);
    for (size_t number = 0; number < count; number++) {
        /* New clients connect as well. */
        leafd_client *other = NULL;
        leafd_layout layout;
        uint64_t ids[2];
        OK(make_client(path, 10000, 0, 0, &other));
        if (number % 2 == 0) {
            OK(connect_now(other));
        }
        OK(leafd_next(other, "orders", LEAFD_TIMEOUT_DEFAULT, &ids[0], &why));
        OK(leafd_layout_of(other, "snowflake", LEAFD_TIMEOUT_DEFAULT, &layout, &why));
        OK(leafd_next(other, "orders", 10000, &ids[1], &why));
        OK(leafd_free(other));
        record(file, ids, 2);
    }
    join(threads, THREADS);
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    CHECK(alarms > 10);
}

static void draw_descriptors(void)
{
    struct rlimit limit;
    int last = -1;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = limit.rlim_max < 4096 ? limit.rlim_max : 4096;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    for (int number = 0; number < DESCRIPTORS; number++) {
        CHECK((last = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0);
    }
    CHECK(last > 1024);
    draw_threads();
}

static void draw_until_end(void)
{
    struct pollfd input = {0, POLLIN, 0};
    while (poll(&input, 1, 1) == 0) {
        uint64_t ids[6];
        size_t drawn = 0;
        leafd_status status = leafd_next(client, "orders", LEAFD_TIMEOUT_DEFAULT, &ids[0], &why);
        if (status == LEAFD_STATUS_OK) {
            drawn = 1;
            status = leafd_next_many(client, "orders", LEAFD_TIMEOUT_DEFAULT, &ids[1], 5, &why);
            drawn = status == LEAFD_STATUS_OK ? 6 : 1;
        }
        record(file, ids, drawn);
        if (status != LEAFD_STATUS_OK) {
            CHECK(why.retryable);
        }
    }
}

static void refuse_wipe_on_fork(void)
{
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MADV_WIPEONFORK, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof steps / sizeof steps[0], steps};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
    CHECK(madvise(NULL, 4096, MADV_WIPEONFORK) == -1 && errno == EPERM);
}

int main(int argc, char **argv)
{
    CHECK(argc == 5);
    path = argv[1];
    const char *mode = argv[2];
    if (strcmp(mode, "spawned") == 0) {
        /* The parent's connection is not inherited. */
        return connection() < 0 ? 0 : 1;
    }
    if (getenv("LEAFD_TEST_REFUSE") != NULL) {
        refuse_wipe_on_fork();
    }
    file = open(argv[3], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    CHECK(file >= 0);
    count = strtoul(argv[4], NULL, 10);
    OK(make_client(path, 10000, 0, 0, &client));
    OK(leafd_tag_new(client, "orders", 0, &tag, &why));
    if (strcmp(mode, "threads") == 0) {
        draw_threads();
    } else if (strcmp(mode, "forks") == 0) {
        draw_forks();
    } else if (strcmp(mode, "bare") == 0) {
        draw_bare();
    } else if (strcmp(mode, "reuse") == 0) {
        draw_reuse();
    } else if (strcmp(mode, "spawn") == 0) {
        draw_spawn(argv[0]);
    } else if (strcmp(mode, "signals") == 0) {
        draw_signals();
    } else if (strcmp(mode, "descriptors") == 0) {
        draw_descriptors();
    } else {
        CHECK(strcmp(mode, "until") == 0);
        draw_until_end();
    }
    OK(leafd_tag_free(tag));
    OK(leafd_free(client));
    return 0;
}
