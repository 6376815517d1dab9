/* What an id costs in C, beside what else there is. client/python/bench.py compiles it, runs it and prints its figures.
 *
 *     bench measure SOCKET TAG FILE [REDIS_SOCKET]    nanoseconds a call by name; the ids go to the end of FILE
 *     bench echo                                      answers requests on standard input, as long as they come
 *     bench check FILE                                whether no id in FILE is there twice
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <leafd.h>

/* Bytes of a request for one id of the tag `orders`, and of its answer. */
enum { REQUEST_BYTES = 28, REPLY_BYTES = 36 };
/* How often each call is timed in a row, and how many ids a batch has. */
enum { HELD = 500000, ASKED = 1500, BATCHES = 200, BATCH = 1000, UUIDS = 20000 };

static uint64_t *drawn;
static size_t drawn_count;

static void end(const char *what)
{
    fprintf(stderr, "bench: %s\n", what);
    exit(EXIT_FAILURE);
}

static void ok(leafd_status status)
{
    if (status != LEAFD_STATUS_OK) {
        char why[512];
        leafd_error_message(why, sizeof why);
        end(why);
    }
}

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void tell(const char *name, double began_ns, size_t calls)
{
    printf("%s\t%.3f\n", name, (now_ns() - began_ns) / (double)calls);
}

/* === leafd === */

static void measure_leafd(const char *socket_path, const char *name)
{
    leafd_client *client = NULL;
    leafd_tag *tag = NULL;
    ok(leafd_new(socket_path, 10000, 0, &client));
    ok(leafd_tag_new(client, name, 0, &tag));
    /* Until the runs are as large as the rate asks for. */
    for (size_t number = 0; number < HELD; number++) {
        ok(leafd_next(client, name, &drawn[drawn_count++]));
    }
    double began = now_ns();
    for (size_t number = 0; number < HELD; number++) {
        ok(leafd_next(client, name, &drawn[drawn_count++]));
    }
    tell("held", began, HELD);
    began = now_ns();
    for (size_t number = 0; number < HELD; number++) {
        ok(leafd_tag_next(tag, &drawn[drawn_count++]));
    }
    tell("handle", began, HELD);
    began = now_ns();
    for (size_t number = 0; number < ASKED; number++) {
        ok(leafd_next_unleased(client, name, LEAFD_TIMEOUT_DEFAULT, &drawn[drawn_count++]));
    }
    tell("asked", began, ASKED);
    began = now_ns();
    for (size_t number = 0; number < BATCHES; number++) {
        ok(leafd_next_many(client, name, LEAFD_TIMEOUT_DEFAULT, &drawn[drawn_count], BATCH));
        drawn_count += BATCH;
    }
    tell("batch", began, BATCHES);
    ok(leafd_tag_free(tag));
    ok(leafd_free(client));
}

/* === what else there is === */

static void measure_uuid(void)
{
    void *library = dlopen("libuuid.so.1", RTLD_NOW);
    void *symbol = library == NULL ? NULL : dlsym(library, "uuid_generate");
    if (symbol == NULL) {
        return;
    }
    void (*uuid_generate)(unsigned char *);
    memcpy(&uuid_generate, &symbol, sizeof uuid_generate);
    unsigned char uuid[16];
    double began = now_ns();
    for (size_t number = 0; number < UUIDS; number++) {
        uuid_generate(uuid);
    }
    tell("uuid", began, UUIDS);
}

static void send_all(int line, const char *bytes, size_t count)
{
    if (write(line, bytes, count) != (ssize_t)count) {
        end("a short write");
    }
}

static void receive_all(int line, char *bytes, size_t count)
{
    for (size_t got = 0; got < count;) {
        ssize_t more = read(line, bytes + got, count - got);
        if (more <= 0) {
            end("the peer is gone");
        }
        got += (size_t)more;
    }
}

static void measure_redis(const char *path)
{
    static const char request[] = "*2\r\n$4\r\nINCR\r\n$5\r\nbench\r\n";
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int line = socket(AF_UNIX, SOCK_STREAM, 0);
    strncpy(address.sun_path, path, sizeof address.sun_path - 1);
    if (line < 0 || connect(line, (struct sockaddr *)&address, sizeof address) != 0) {
        end("no connection to Redis");
    }
    double began = now_ns();
    for (size_t number = 0; number < ASKED; number++) {
        char reply[64];
        size_t got = 0;
        send_all(line, request, sizeof request - 1);
        while (got == 0 || reply[got - 1] != '\n') {
            ssize_t more = read(line, reply + got, sizeof reply - got);
            if (more <= 0) {
                end("Redis is gone");
            }
            got += (size_t)more;
        }
        if (reply[0] != ':') {
            end("Redis refuses");
        }
    }
    tell("redis", began, ASKED);
    close(line);
}

static void echo(int line)
{
    char request[REQUEST_BYTES], reply[REPLY_BYTES] = {0};
    while (read(line, request, sizeof request) == (ssize_t)sizeof request) {
        send_all(line, reply, sizeof reply);
    }
}

static void measure_echo(void)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) {
        end("no socket pair");
    }
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        echo(ends[1]);
        _exit(0);
    }
    close(ends[1]);
    double began = now_ns();
    for (size_t number = 0; number < ASKED; number++) {
        char request[REQUEST_BYTES] = {0}, reply[REPLY_BYTES];
        send_all(ends[0], request, sizeof request);
        receive_all(ends[0], reply, sizeof reply);
    }
    tell("echo", began, ASKED);
    close(ends[0]);
    waitpid(child, NULL, 0);
}

/* === the ids === */

static void check(const char *path)
{
    FILE *file = fopen(path, "rb");
    uint64_t id, count = 0, largest = 0;
    if (file == NULL) {
        end("the ids can't be read");
    }
    while (fread(&id, sizeof id, 1, file) == 1) {
        largest = id > largest ? id : largest;
    }
    unsigned char *seen = calloc(1, largest / 8 + 1);
    if (seen == NULL) {
        end("no memory");
    }
    rewind(file);
    for (; fread(&id, sizeof id, 1, file) == 1; count++) {
        if (id == 0 || (seen[id / 8] >> (id % 8) & 1) != 0) {
            end("AN ID CAME TWICE, or is 0");
        }
        seen[id / 8] |= (unsigned char)(1u << (id % 8));
    }
    fclose(file);
    free(seen);
    printf("%" PRIu64 "\n", count);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "echo") == 0) {
        echo(STDIN_FILENO);
    } else if (argc == 3 && strcmp(argv[1], "check") == 0) {
        check(argv[2]);
    } else if (argc >= 5 && strcmp(argv[1], "measure") == 0) {
        const size_t bytes = (3 * HELD + ASKED + BATCHES * BATCH) * sizeof *drawn;
        drawn = malloc(bytes);
        FILE *file = fopen(argv[4], "ab");
        if (drawn == NULL || file == NULL) {
            end("no room for the ids");
        }
        /* So that no row pays for the memory. */
        memset(drawn, 1, bytes);
        measure_leafd(argv[2], argv[3]);
        measure_uuid();
        measure_echo();
        if (argc > 5) {
            measure_redis(argv[5]);
        }
        if (fwrite(drawn, sizeof *drawn, drawn_count, file) != drawn_count || fclose(file) != 0) {
            end("the ids can't be written");
        }
    } else {
        end("see the first lines of bench.c");
    }
    return EXIT_SUCCESS;
}
