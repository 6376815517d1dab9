/*
 * durable.so: keeps, beside a directory, what a disk would hold of it if the power failed now.
 *
 * Preloaded into a process, it watches fsync and fdatasync on what lies below $DURABLE_DIR and keeps in
 * $DURABLE_IMAGE the state that is certain to be on the disk, and nothing more:
 *
 *  - What a file contains is durable as of its last successful fsync or fdatasync. Every write after
 *    that is lost, in whatever order; no write gets lucky. A file never synced is empty.
 *  - Which names there are in a directory is durable as of that directory's last fsync. A file that was
 *    created, renamed or unlinked since is in the image under its old name or not at all, however
 *    often the file itself was synced. (Many file systems do more; none has to.)
 *  - Nothing else makes anything durable: not close, sync, msync, O_SYNC, nor the passing of time.
 *
 * The image is <image>/<name>, a symbolic link to <image>/.files/<inode>-<birth>, a copy of what that
 * file durably contains. So a sync of a file replaces one copy (written apart, then renamed: a killed
 * process leaves the old or the new one), and a sync of a directory makes and removes links. The copy
 * is taken after the real sync and before the call returns: whoever was told "synced" is in the image.
 * Writes by other threads to the same file during the call may be counted as durable too early: what
 * is written to a file must be synced by the thread that writes it. Directories below the watched one are not looked into.
 *
 * With $DURABLE_MODE=nosync both calls do nothing and say that they succeeded, as a database does
 * that was told not to sync: nothing becomes durable any more.
 *
 * While there is a file <image>/.fail, both calls do nothing and fail with EIO, as on a broken disk. As Linux
 * does it, what such a call was to write counts as written from then on: it can be read, but no later sync
 * makes it durable, not even of a later process. Only what is written once more by write, pwrite or pwrite64
 * is synced again, in whole pages. <image>/.files/<inode>-<birth>.lost has a byte for each page, 1 if it was
 * lost so. When the power fails it has to be removed, as what could be read is gone then.
 * While there is a file <image>/.hang, both calls wait, as on a disk that doesn't answer.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What the system writes to a disk at once. */
#define PAGE 4096

/* A test that can't keep its image must not go on as if it had. */
static void give_up(const char *what)
{
    perror(what);
    abort();
}

/* Whether the descriptor is the watched directory (2), something directly in it (1), or neither (0). */
static int watched(int fd)
{
    const char *dir = getenv("DURABLE_DIR");
    char link[64], path[PATH_MAX];
    if (dir == NULL || getenv("DURABLE_IMAGE") == NULL)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0)
        return 0;
    path[length] = '\0';
    size_t above = strlen(dir);
    if (strncmp(path, dir, above) != 0)
        return 0;
    if (path[above] == '\0')
        return 2;
    return path[above] == '/' && strchr(path + above + 1, '/') == NULL;
}

/* The name of a file's copy; inodes are used again, so the birth belongs to it. */
static void copy_name(char *to, size_t size, int at, const char *name, int flags)
{
    struct statx s;
    if (statx(at, name, flags | AT_STATX_SYNC_AS_STAT, STATX_INO | STATX_BTIME, &s) != 0)
        give_up("durable: statx");
    snprintf(to, size, ".files/%llu-%lld.%u", (unsigned long long)s.stx_ino,
             (long long)s.stx_btime.tv_sec, s.stx_btime.tv_nsec);
}

static int open_image(void)
{
    int image = open(getenv("DURABLE_IMAGE"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (image < 0)
        give_up("durable: opening the image");
    if (mkdirat(image, ".files", 0700) != 0 && errno != EEXIST)
        give_up("durable: making .files");
    return image;
}

/* A descriptor of its own: the watched one may be for writing only. */
static int open_again(int fd)
{
    char self[64];
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    int from = open(self, O_RDONLY | O_CLOEXEC);
    if (from < 0)
        give_up("durable: opening a file again");
    return from;
}

/* The list of lost pages, or -1 if there is none and none is to be made. */
static int open_lost(int image, const char *name, int flags)
{
    char lost[160];
    snprintf(lost, sizeof lost, "%s.lost", name);
    int list = openat(image, lost, flags | O_CLOEXEC, 0600);
    if (list < 0 && errno != ENOENT)
        give_up("durable: opening a list of lost pages");
    return list;
}

/* Zeros beyond the end; and there is no file before it was synced. */
static void read_page(int file, char *page, off_t number)
{
    memset(page, 0, PAGE);
    if (file >= 0 && pread(file, page, PAGE, number * PAGE) < 0)
        give_up("durable: reading a page");
}

/* A sync has failed: what differs from what is durable is lost unless it is written again. */
static void lose_pages(int fd)
{
    char name[128], now[PAGE], then[PAGE];
    struct stat s;
    int image = open_image();
    copy_name(name, sizeof name, fd, "", AT_EMPTY_PATH);
    int from = open_again(fd), copy = openat(image, name, O_RDONLY | O_CLOEXEC);
    int lost = open_lost(image, name, O_WRONLY | O_CREAT);
    if (fstat(from, &s) != 0)
        give_up("durable: fstat");
    for (off_t page = 0; page * PAGE < s.st_size; page++) {
        read_page(from, now, page);
        read_page(copy, then, page);
        if (memcmp(now, then, PAGE) != 0 && pwrite(lost, "\1", 1, page) != 1)
            give_up("durable: noting a lost page");
    }
    if (copy >= 0)
        close(copy);
    close(from);
    close(lost);
    close(image);
}

/* Puts back into a new copy what the old one has of lost pages. */
static void without_lost(int image, const char *name, int to)
{
    char is_lost, page[PAGE];
    struct stat s;
    int lost = open_lost(image, name, O_RDONLY);
    if (lost < 0)
        return;
    int old = openat(image, name, O_RDONLY | O_CLOEXEC);
    if (fstat(to, &s) != 0)
        give_up("durable: fstat");
    for (off_t number = 0; number * PAGE < s.st_size; number++) {
        off_t left = s.st_size - number * PAGE;
        size_t length = left < PAGE ? (size_t)left : PAGE;
        if (pread(lost, &is_lost, 1, number) != 1 || !is_lost)
            continue;
        read_page(old, page, number);
        if (pwrite(to, page, length, number * PAGE) != (ssize_t)length)
            give_up("durable: putting back a lost page");
    }
    if (old >= 0)
        close(old);
    close(lost);
}

static void keep_contents(int fd)
{
    char name[128], buffer[65536];
    int image = open_image();
    copy_name(name, sizeof name, fd, "", AT_EMPTY_PATH);
    int from = open_again(fd);
    int to = openat(image, ".files/.new", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (to < 0)
        give_up("durable: opening a copy");
    for (off_t at = 0;;) {
        ssize_t got = pread(from, buffer, sizeof buffer, at);
        if (got < 0 || (got > 0 && write(to, buffer, (size_t)got) != got))
            give_up("durable: copying");
        if (got == 0)
            break;
        at += got;
    }
    without_lost(image, name, to);
    close(from);
    close(to);
    if (renameat(image, ".files/.new", image, name) != 0)
        give_up("durable: renaming a copy");
    close(image);
}

static void keep_name(int image, int dir, const char *name)
{
    char copy[128], old[128];
    copy_name(copy, sizeof copy, dir, name, AT_SYMLINK_NOFOLLOW);
    ssize_t length = readlinkat(image, name, old, sizeof old - 1);
    if (length >= 0) {
        old[length] = '\0';
        if (strcmp(old, copy) == 0)
            return;
    }
    int empty = openat(image, copy, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (empty < 0)
        give_up("durable: making an empty copy");
    close(empty);
    unlinkat(image, ".link", 0);
    if (symlinkat(copy, image, ".link") != 0 || renameat(image, ".link", image, name) != 0)
        give_up("durable: linking a name");
}

static DIR *entries_of(int fd)
{
    int own = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *entries = own < 0 ? NULL : fdopendir(own);
    if (entries == NULL)
        give_up("durable: listing");
    return entries;
}

static void keep_names(int dir)
{
    struct dirent *entry;
    struct stat s;
    int image = open_image();
    DIR *entries = entries_of(dir);
    while ((entry = readdir(entries)) != NULL) {
        if (fstatat(dir, entry->d_name, &s, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(s.st_mode))
            keep_name(image, dir, entry->d_name);
    }
    closedir(entries);
    entries = entries_of(image);
    while ((entry = readdir(entries)) != NULL) {
        if (entry->d_type == DT_LNK && fstatat(dir, entry->d_name, &s, AT_SYMLINK_NOFOLLOW) != 0)
            unlinkat(image, entry->d_name, 0);
    }
    closedir(entries);
    close(image);
}

/* Threads sync files of their own, but there is one image. */
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

static int is_switched(const char *name)
{
    int image = open_image();
    int found = faccessat(image, name, F_OK, 0) == 0;
    close(image);
    return found;
}

static int sync_and_keep(int fd, const char *real_name)
{
    int (*real)(int);
    int what = watched(fd);
    const char *mode = getenv("DURABLE_MODE");
    if (what != 0 && mode != NULL && strcmp(mode, "nosync") == 0)
        return 0;
    while (what != 0 && is_switched(".hang"))
        usleep(10000);
    if (what != 0 && is_switched(".fail")) {
        if (what == 1) {
            pthread_mutex_lock(&one_at_a_time);
            lose_pages(fd);
            pthread_mutex_unlock(&one_at_a_time);
        }
        errno = EIO;
        return -1;
    }
    *(void **)&real = dlsym(RTLD_NEXT, real_name);
    int outcome = real(fd);
    int error = errno;
    if (outcome == 0 && what != 0) {
        pthread_mutex_lock(&one_at_a_time);
        if (what == 2)
            keep_names(fd);
        else
            keep_contents(fd);
        pthread_mutex_unlock(&one_at_a_time);
    }
    errno = error;
    return outcome;
}

int fsync(int fd)
{
    return sync_and_keep(fd, "fsync");
}

int fdatasync(int fd)
{
    return sync_and_keep(fd, "fdatasync");
}

/* Pages are written, so that a sync takes them along again. at < 0: up to where the descriptor stands. */
static ssize_t written(int fd, off_t at, ssize_t count)
{
    char name[128];
    int error = errno;
    if (count <= 0 || watched(fd) != 1)
        goto done;
    if (at < 0)
        at = lseek(fd, 0, SEEK_CUR) - count;
    pthread_mutex_lock(&one_at_a_time);
    int image = open_image();
    copy_name(name, sizeof name, fd, "", AT_EMPTY_PATH);
    int lost = open_lost(image, name, O_WRONLY);
    if (lost >= 0) {
        for (off_t page = at / PAGE; page * PAGE < at + count; page++)
            if (pwrite(lost, "", 1, page) != 1)
                give_up("durable: noting a page that is written again");
        close(lost);
    }
    close(image);
    pthread_mutex_unlock(&one_at_a_time);
done:
    errno = error;
    return count;
}

ssize_t write(int fd, const void *bytes, size_t count)
{
    ssize_t (*real)(int, const void *, size_t);
    *(void **)&real = dlsym(RTLD_NEXT, "write");
    return written(fd, -1, real(fd, bytes, count));
}

ssize_t pwrite(int fd, const void *bytes, size_t count, off_t at)
{
    ssize_t (*real)(int, const void *, size_t, off_t);
    *(void **)&real = dlsym(RTLD_NEXT, "pwrite");
    return written(fd, at, real(fd, bytes, count, at));
}

ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t at)
{
    ssize_t (*real)(int, const void *, size_t, off64_t);
    *(void **)&real = dlsym(RTLD_NEXT, "pwrite64");
    return written(fd, at, real(fd, bytes, count, at));
}
