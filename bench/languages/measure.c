/* What a call takes in C. leafd-bench compiles it and runs it with an echo at its standard input:
 *
 *     measure SOCKET TAG IDS DIVISOR [REDIS_SOCKET]
 *
 * It prints the nanoseconds of a call by name, and adds the ids that it draws to the file IDS. Each call is timed a number
 * of times in a row, which DIVISOR divides.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <leafd.h>

/* Bytes of a request for one id of the tag `orders`, and of its answer. */
enum { REQUEST_BYTES = 28, REPLY_BYTES = 36 };
/* How many ids a batch has. */
enum { BATCH = 1000 };

/* How often each call is timed in a row. */
static size_t held = 500000, direct = 1500, batches = 200, uuids = 20000;

static uint64_t *drawn;
static size_t drawn_count;

static void end(const char *what)
{
    fprintf(stderr, "measure: %s\n", what);
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
    for (size_t number = 0; number < held; number++) {
        ok(leafd_next(client, name, &drawn[drawn_count++]));
    }
    double began = now_ns();
    for (size_t number = 0; number < held; number++) {
        ok(leafd_next(client, name, &drawn[drawn_count++]));
    }
    tell("held", began, held);
    began = now_ns();
    for (size_t number = 0; number < held; number++) {
        ok(leafd_tag_next(tag, &drawn[drawn_count++]));
    }
    tell("handle", began, held);
    began = now_ns();
    for (size_t number = 0; number < direct; number++) {
        ok(leafd_next_direct(client, name, LEAFD_TIMEOUT_DEFAULT, &drawn[drawn_count++]));
    }
    tell("direct", began, direct);
    began = now_ns();
    for (size_t number = 0; number < batches; number++) {
        ok(leafd_next_many(client, name, LEAFD_TIMEOUT_DEFAULT, &drawn[drawn_count], BATCH));
        drawn_count += BATCH;
    }
    tell("batch", began, batches);
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
    for (size_t number = 0; number < uuids; number++) {
        uuid_generate(uuid);
    }
    tell("uuid", began, uuids);
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
    for (size_t number = 0; number < direct; number++) {
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
    tell("redis", began, direct);
    close(line);
}

static void measure_echo(int line)
{
    double began = now_ns();
    for (size_t number = 0; number < direct; number++) {
        char request[REQUEST_BYTES] = {0}, reply[REPLY_BYTES];
        send_all(line, request, sizeof request);
        receive_all(line, reply, sizeof reply);
    }
    tell("echo", began, direct);
}

int main(int argc, char **argv)
{
    size_t divisor = argc >= 5 ? strtoul(argv[4], NULL, 10) : 0;
    if (divisor == 0 || argc > 6) {
        end("see the first lines of measure.c");
    }
    held /= divisor, direct /= divisor, batches /= divisor, uuids /= divisor;
    const size_t bytes = (3 * held + direct + batches * BATCH) * sizeof *drawn;
    drawn = malloc(bytes);
    FILE *file = fopen(argv[3], "ab");
    if (drawn == NULL || file == NULL) {
        end("no room for the ids");
    }
    /* So that no row pays for the memory. */
    memset(drawn, 1, bytes);
    measure_leafd(argv[1], argv[2]);
    measure_uuid();
    measure_echo(STDIN_FILENO);
    if (argc == 6) {
        measure_redis(argv[5]);
    }
    if (fwrite(drawn, sizeof *drawn, drawn_count, file) != drawn_count || fclose(file) != 0) {
        end("the ids can't be written");
    }
    return EXIT_SUCCESS;
}
