/* Tests the contract of every call: pointers, outputs, failures and limits. Run `calls SOCKET` with a daemon that has
 * the tag `orders`. */
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "check.h"

static const uint64_t UNTOUCHED = 0x5555555555555555u;

static void check_message(const char *part)
{
    if (strstr(why.message, part) == NULL) {
        fprintf(stderr, "\"%s\" doesn't mention \"%s\"\n", why.message, part);
        _exit(1);
    }
}

static void check_versions(void)
{
    CHECK(leafd_abi_version() == LEAFD_ABI_VERSION);
    CHECK(strchr(leafd_version(), '.') != NULL);
    CHECK(strcmp(leafd_status_name(LEAFD_STATUS_OK), "OK") == 0);
    CHECK(strcmp(leafd_status_name(LEAFD_STATUS_TAG_UNKNOWN), "TAG_UNKNOWN") == 0);
    CHECK(strcmp(leafd_status_name(LEAFD_STATUS_PANIC), "PANIC") == 0);
    CHECK(strcmp(leafd_status_name(999), "UNKNOWN") == 0);
    CHECK(leafd_status_is_timeout(LEAFD_STATUS_DEADLINE) && leafd_status_is_timeout(LEAFD_STATUS_TIMEOUT));
    CHECK(!leafd_status_is_timeout(LEAFD_STATUS_OK) && !leafd_status_is_timeout(LEAFD_STATUS_CONNECT));
}

static void check_new(const char *path)
{
    leafd_client *client = (leafd_client *)&client;
    leafd_client *const untouched = client;
    FAILS(make_client(path, 0, 0, 0, NULL), NULL_POINTER);
    FAILS(make_client(path, 0, 0, 8, &client), INVALID_ARGUMENT);
    FAILS(make_client("", 0, 0, 0, &client), INVALID_ARGUMENT);
    CHECK(client == untouched);
    /* A path that no socket can have. */
    char too_long[200];
    memset(too_long, 'x', sizeof too_long - 1);
    too_long[sizeof too_long - 1] = 0;
    FAILS(make_client(too_long, 100, 0, 0, &client), INVALID_ARGUMENT);
    check_message("107");
    CHECK(client == untouched && !why.retryable);
    /* No daemon listens there. */
    OK(make_client("/nowhere/at/all", 0, 0, LEAFD_NO_POLLING, &client));
    uint64_t id = UNTOUCHED;
    FAILS(leafd_next(client, "orders", LEAFD_TIMEOUT_DEFAULT, &id, &why), CONNECT);
    check_message("is the daemon running");
    CHECK(why.os_error == ENOENT && why.retryable && why.retry_after_ms == 0);
    CHECK(id == UNTOUCHED);
    OK(leafd_free(client));
}

static void check_shared(const char *path)
{
    CHECK(setenv("LEAFD_SOCKET", path, 1) == 0);
    leafd_client *client = NULL, *again = NULL;
    FAILS(leafd_shared(NULL, &why), NULL_POINTER);
    OK(leafd_shared(&client, &why));
    uint64_t first, next;
    OK(leafd_next(client, "orders", 5000, &first, &why));
    OK(leafd_free(client));
    OK(leafd_shared(&again, &why));
    CHECK(again == client);
    OK(leafd_next(again, "orders", 5000, &next, &why));
    CHECK(next == first + 1);
}

static uint64_t now_ms(void)
{
    struct timespec now;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* A call waits as long as the settings allow, but never longer than its own timeout. */
static void check_waiting(void)
{
    leafd_client *client = NULL;
    uint64_t id = UNTOUCHED;
    FAILS(make_client("/nowhere/at/all", 100, 100, 8, &client), INVALID_ARGUMENT);
    OK(make_client("/nowhere/at/all", 100, UINT32_MAX, 0, &client));
    FAILS(leafd_next(client, "orders", 50, &id, &why), CONNECT);
    OK(leafd_free(client));
    OK(make_client("/nowhere/at/all", 1, 100, 0, &client));
    const uint64_t begun_ms = now_ms();
    FAILS(leafd_next(client, "orders", LEAFD_TIMEOUT_DEFAULT, &id, &why), CONNECT);
    CHECK(now_ms() - begun_ms >= 99);
    CHECK(why.os_error == ENOENT && id == UNTOUCHED);
    OK(leafd_free(client));
}

/* A socket that this user may not open. Root may open every socket, so a child of root runs as nobody. */
static void check_denied(const char *path)
{
    const int is_root = geteuid() == 0;
    CHECK(chmod(path, is_root ? 0600 : 0) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        leafd_client *client = NULL;
        CHECK(!is_root || setuid(65534) == 0);
        OK(make_client(path, 0, 0, 0, &client));
        FAILS(connect_now(client), CONNECT);
        check_message("socket_mode");
        CHECK(why.os_error == EACCES && !why.retryable);
        OK(leafd_free(client));
        _exit(0);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(chmod(path, 0660) == 0);
}

static void check_handles(const leafd_client *live)
{
    uint64_t id = UNTOUCHED, foreign[8] = {0};
    leafd_client *client = NULL;
    leafd_tag *tag = NULL;
    OK(leafd_free(NULL));
    OK(leafd_tag_free(NULL));
    /* A NULL pointer. */
    FAILS(connect_now(NULL), NULL_POINTER);
    FAILS(leafd_next(NULL, "orders", LEAFD_TIMEOUT_DEFAULT, &id, &why), NULL_POINTER);
    check_message("NULL");
    FAILS(leafd_next(live, NULL, LEAFD_TIMEOUT_DEFAULT, &id, &why), NULL_POINTER);
    check_message("`tag`");
    FAILS(leafd_next(live, "orders", LEAFD_TIMEOUT_DEFAULT, NULL, &why), NULL_POINTER);
    FAILS(leafd_next(NULL, "orders", 5, &id, &why), NULL_POINTER);
    FAILS(leafd_next_direct(live, NULL, 5, &id, &why), NULL_POINTER);
    FAILS(leafd_next_many(live, "orders", 5, NULL, 1, &why), NULL_POINTER);
    FAILS(leafd_tag_new(live, "orders", 0, NULL, &why), NULL_POINTER);
    FAILS(leafd_tag_new(live, NULL, 0, &tag, &why), NULL_POINTER);
    FAILS(leafd_tag_next(NULL, LEAFD_TIMEOUT_DEFAULT, &id, &why), NULL_POINTER);
    FAILS(leafd_tag_next(NULL, 5, &id, &why), NULL_POINTER);
    FAILS(leafd_tag_next_many(NULL, 5, &id, 1, &why), NULL_POINTER);
    FAILS(leafd_layout_of(live, NULL, LEAFD_TIMEOUT_DEFAULT, NULL, &why), NULL_POINTER);
    FAILS(leafd_decode(1, NULL, NULL, &why), NULL_POINTER);
    CHECK(leafd_tag_take(NULL) == 0);
    /* Foreign pointers: other memory, a handle of another kind, a misaligned address. */
    FAILS(leafd_next((leafd_client *)foreign, "orders", LEAFD_TIMEOUT_DEFAULT, &id, &why), HANDLE);
    check_message("not one that this library created");
    FAILS(leafd_free((leafd_client *)foreign), HANDLE);
    FAILS(leafd_next((leafd_client *)((char *)foreign + 1), "orders", LEAFD_TIMEOUT_DEFAULT, &id, &why), HANDLE);
    OK(leafd_tag_new(live, "orders", 0, &tag, &why));
    FAILS(leafd_next((leafd_client *)tag, "orders", LEAFD_TIMEOUT_DEFAULT, &id, &why), HANDLE);
    FAILS(leafd_tag_next((const leafd_tag *)live, LEAFD_TIMEOUT_DEFAULT, &id, &why), HANDLE);
    FAILS(leafd_free((leafd_client *)tag), HANDLE);
    CHECK(leafd_tag_take((leafd_tag *)foreign) == 0);
    CHECK(id == UNTOUCHED);
    /* Freed handles, even after other handles were created and freed. */
    OK(leafd_tag_free(tag));
    FAILS(leafd_tag_next(tag, LEAFD_TIMEOUT_DEFAULT, &id, &why), HANDLE);
    check_message("has been freed");
    FAILS(leafd_tag_free(tag), HANDLE);
    OK(make_client(NULL, 0, 0, 0, &client));
    OK(leafd_free(client));
    for (int number = 0; number < 500; number++) {
        leafd_tag *other = NULL;
        OK(leafd_tag_new(live, "orders", 0, &other, &why));
        CHECK(other != tag);
        OK(leafd_tag_free(other));
    }
    FAILS(leafd_tag_next(tag, LEAFD_TIMEOUT_DEFAULT, &id, &why), HANDLE);
    FAILS(leafd_free(client), HANDLE);
    FAILS(leafd_next(client, "orders", LEAFD_TIMEOUT_DEFAULT, &id, &why), HANDLE);
    CHECK(id == UNTOUCHED);
    /* Memory is reused, however many handles are created. */
    for (int number = 0; number < 5000; number++) {
        leafd_tag *other = NULL;
        OK(leafd_tag_new(live, "orders", 0, &other, &why));
        OK(leafd_tag_free(other));
    }
}

static void check_drawing(const char *path, const leafd_client *client)
{
    uint64_t ids[64], last = 0;
    size_t count = 0;
    leafd_tag *tag = NULL, *direct = NULL;
    OK(connect_now(client));
    OK(leafd_tag_new(client, "orders", 0, &tag, &why));
    OK(leafd_tag_new(client, "orders", LEAFD_DIRECT, &direct, &why));
    FAILS(leafd_tag_new(client, "orders", LEAFD_NO_POLLING, &tag, &why), INVALID_ARGUMENT);
    OK(leafd_next(client, "orders", LEAFD_TIMEOUT_DEFAULT, &ids[count++], &why));
    OK(leafd_next(client, "orders", LEAFD_TIMEOUT_DEFAULT, &ids[count++], &why));
    OK(leafd_next(client, "orders", 5000, &ids[count++], &why));
    OK(leafd_next(client, "orders", LEAFD_TIMEOUT_DEFAULT, &ids[count++], &why));
    OK(leafd_next_direct(client, "orders", 5000, &ids[count++], &why));
    OK(leafd_next_direct(client, "orders", LEAFD_TIMEOUT_DEFAULT, &ids[count++], &why));
    CHECK(ids[count - 1] > ids[count - 2]);
    OK(leafd_tag_next(tag, LEAFD_TIMEOUT_DEFAULT, &ids[count++], &why));
    OK(leafd_tag_next(tag, 5000, &ids[count++], &why));
    OK(leafd_tag_next(direct, LEAFD_TIMEOUT_DEFAULT, &ids[count++], &why));
    CHECK((ids[count] = leafd_tag_take(tag)) != 0);
    count++;
    CHECK(leafd_tag_take(direct) == 0);
    OK(leafd_next_many(client, "orders", 5000, &ids[count], 10, &why));
    count += 10;
    OK(leafd_tag_next_many(tag, LEAFD_TIMEOUT_DEFAULT, &ids[count], 10, &why));
    count += 10;
    OK(leafd_next_many(client, "orders", 5000, NULL, 0, &why));
    /* The name's address stays the same, but its letters change. */
    char name[16] = "orders";
    OK(leafd_next(client, name, LEAFD_TIMEOUT_DEFAULT, &ids[count++], &why));
    OK(leafd_next(client, name, LEAFD_TIMEOUT_DEFAULT, &ids[count++], &why));
    strcpy(name, "nosuch");
    uint64_t id = UNTOUCHED;
    FAILS(leafd_next(client, name, LEAFD_TIMEOUT_DEFAULT, &id, &why), TAG_UNKNOWN);
    strcpy(name, "orders");
    OK(leafd_next(client, name, LEAFD_TIMEOUT_DEFAULT, &ids[count++], &why));
    for (size_t one = 0; one < count; one++) {
        CHECK(ids[one] > 0 && ids[one] < (uint64_t)1 << 63);
        for (size_t other = 0; other < one; other++) {
            CHECK(ids[one] != ids[other]);
        }
    }
    /* Failed calls write nothing. */
    uint64_t many[3] = {UNTOUCHED, UNTOUCHED, UNTOUCHED};
    FAILS(leafd_next_many(client, "nosuch", 5000, many, 3, &why), TAG_UNKNOWN);
    check_message("nosuch");
    CHECK(many[0] == UNTOUCHED && many[1] == UNTOUCHED && many[2] == UNTOUCHED && id == UNTOUCHED);
    CHECK(!why.retryable && why.os_error == 0);
    FAILS(leafd_next(client, "", LEAFD_TIMEOUT_DEFAULT, &id, &why), INVALID_ARGUMENT);
    FAILS(leafd_next(client, "a\nb", LEAFD_TIMEOUT_DEFAULT, &id, &why), INVALID_ARGUMENT);
    FAILS(leafd_next(client, "\xff\xfe", LEAFD_TIMEOUT_DEFAULT, &id, &why), INVALID_ARGUMENT);
    check_message("UTF-8");
    FAILS(leafd_next_many(client, "orders", 5, many, SIZE_MAX, &why), INVALID_ARGUMENT);
    /* A separate client that draws every id directly, so ids ascend. A tag outlives its client. */
    leafd_client *ordered = NULL;
    leafd_tag *orphan = NULL;
    OK(make_client(path, 5000, 0, LEAFD_DIRECT | LEAFD_NO_POLLING, &ordered));
    for (int number = 0; number < 100; number++) {
        OK(leafd_next(ordered, "orders", LEAFD_TIMEOUT_DEFAULT, &id, &why));
        CHECK(id > last);
        last = id;
    }
    OK(leafd_tag_new(ordered, "orders", 0, &orphan, &why));
    OK(leafd_free(ordered));
    OK(leafd_tag_next(orphan, LEAFD_TIMEOUT_DEFAULT, &id, &why));
    CHECK(id > last);
    OK(leafd_tag_free(orphan));
    leafd_client *none = NULL;
    FAILS(make_client(path, 5000, 0, 4, &none), INVALID_ARGUMENT);
    check_message("1 and 2");
    OK(leafd_tag_free(direct));
    OK(leafd_tag_free(tag));
}

static void *leave_nothing(void)
{
    return NULL;
}

/* An interpreter with a missing function is rejected. */
static void check_interpreter(void)
{
    const leafd_interpreter incomplete = {leave_nothing, NULL, NULL};
    FAILS(leafd_set_interpreter(&incomplete, &why), NULL_POINTER);
    check_message("`enter`");
    OK(leafd_set_interpreter(NULL, &why));
}

/* Counts that can only be mistakes draw no ids. */
static void check_counts(const leafd_client *client)
{
    uint64_t ids[1] = {UNTOUCHED};
    FAILS(leafd_next_many(client, "orders", LEAFD_TIMEOUT_DEFAULT, ids, 2000000000000, &why), INVALID_ARGUMENT);
    check_message("at most 1000000000 ids");
    CHECK(ids[0] == UNTOUCHED);
}

/* The calls of an event loop that requests runs itself. */
static void check_loop(const leafd_client *live)
{
    static const uint8_t reply[] = {
        0x60, 0xea, 0, 0, 1, 0, 0, 0,               /* 60000 ms, one run */
        5, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, /* 5 to 8 */
    };
    leafd_client *client = NULL;
    leafd_tag *tag = NULL;
    uint64_t id = UNTOUCHED;
    OK(make_client("/nowhere/at/all", 0, 0, 0, &client));
    OK(leafd_tag_new(client, "orders", 0, &tag, &why));
    CHECK(leafd_loop_take(tag) == 0 && leafd_loop_advance(tag) == 0 && leafd_loop_wish(tag, 3) >= 3);
    FAILS(leafd_loop_hold(tag, NULL, 0, 4, 0, &id, &why), NULL_POINTER);
    FAILS(leafd_loop_hold(tag, reply, sizeof reply, 4, 0, NULL, &why), NULL_POINTER);
    FAILS(leafd_loop_hold(tag, reply, sizeof reply - 1, 4, UINT64_MAX, &id, &why), PROTOCOL);
    FAILS(leafd_loop_hold(tag, reply, sizeof reply, 3, UINT64_MAX, &id, &why), PROTOCOL);
    CHECK(id == UNTOUCHED);
    OK(leafd_loop_hold(tag, reply, sizeof reply, 4, UINT64_MAX, &id, &why));
    CHECK(id == 0);
    CHECK(leafd_loop_advance(tag) == 5 && leafd_loop_take(tag) == 6);
    CHECK(leafd_loop_take(tag) == 7 && leafd_loop_take(tag) == (8 | LEAFD_LOOP_REFILL) && leafd_loop_take(tag) == 0);
    /* Ids too late to hold: requested when the machine started, to be held for 1 ms. */
    static const uint8_t late[] = {1, 0, 0, 0, 1, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0};
    OK(leafd_loop_hold(tag, late, sizeof late, 4, 0, &id, &why));
    CHECK(id == 9 && leafd_loop_take(tag) == 0 && leafd_loop_advance(tag) == 0 && leafd_loop_wish(tag, 3) >= 3);
    OK(leafd_tag_free(tag));
    CHECK(leafd_loop_take(tag) == 0 && leafd_loop_advance(tag) == 0 && leafd_loop_wish(tag, 3) == 1);
    FAILS(leafd_loop_hold(tag, reply, sizeof reply, 4, 0, &id, &why), HANDLE);
    char path[8] = "", whole[200];
    CHECK(leafd_socket_path(client, path, sizeof path) == 15 && strcmp(path, "/nowher") == 0);
    CHECK(leafd_socket_path(client, NULL, 0) == 15 && leafd_socket_path(NULL, path, sizeof path) == 0);
    CHECK(leafd_socket_path(live, whole, sizeof whole) == strlen(whole));
    OK(leafd_free(client));
}

static void check_layouts(const leafd_client *client)
{
    leafd_layout layout, leaf = leafd_layout_leaf();
    leafd_parts parts = {UNTOUCHED, UNTOUCHED, UNTOUCHED, UNTOUCHED};
    uint64_t id = 0;
    OK(leafd_layout_of(client, "snowflake", LEAFD_TIMEOUT_DEFAULT, &layout, &why));
    CHECK(layout.time_bits == leaf.time_bits && layout.tick_ms == 1 && layout.epoch_ms == leaf.epoch_ms);
    FAILS(leafd_layout_of(client, "other", LEAFD_TIMEOUT_DEFAULT, &layout, &why), INVALID_ARGUMENT);
    FAILS(leafd_decode(UINT64_MAX, &layout, &parts, &why), INVALID_ARGUMENT);
    CHECK(parts.tick == UNTOUCHED && parts.unix_ms == UNTOUCHED);
    OK(leafd_decode(((uint64_t)1000 << 22) | (17 << 12) | 5, &leaf, &parts, &why));
    CHECK(parts.tick == 1000 && parts.worker == 17 && parts.sequence == 5 && parts.unix_ms == 1288834975657u);
    OK(leafd_next(client, "snowflake", LEAFD_TIMEOUT_DEFAULT, &id, &why));
    OK(leafd_decode(id, &layout, &parts, &why));
    CHECK(parts.worker == 17);
    OK(leafd_first_id_at(1288834975657u, &leaf, &id, &why));
    CHECK(id == (uint64_t)1000 << 22);
    FAILS(leafd_first_id_at(0, &leaf, &id, &why), INVALID_ARGUMENT);
    check_message("no ids at 0 ms");
    FAILS(leafd_first_id_at(1, NULL, &id, &why), NULL_POINTER);
    layout.time_bits = 200;
    FAILS(leafd_decode(id, &layout, &parts, &why), INVALID_ARGUMENT);
}

/* Each call describes its own failure, and clears what an earlier one wrote. */
static void check_errors(const leafd_client *client)
{
    leafd_error error;
    leafd_daemon_info info;
    uint64_t ids[3] = {UNTOUCHED, UNTOUCHED, UNTOUCHED};
    memset(&error, 0x55, sizeof error);
    OK(leafd_info(client, 5000, &info, &error));
    CHECK(info.segments_ready && info.snowflake_ready && info.pid != 0 && strchr(info.release, '.') != NULL);
    CHECK(error.status == LEAFD_STATUS_OK && error.message[0] == 0 && !error.retryable && error.os_error == 0);
    FAILS(leafd_next(client, "nosuch", LEAFD_TIMEOUT_DEFAULT, ids, &error), TAG_UNKNOWN);
    CHECK(error.status == LEAFD_STATUS_TAG_UNKNOWN && strstr(error.message, "nosuch") != NULL && !error.retryable);
    FAILS(leafd_next(client, "orders", 1000, NULL, &error), NULL_POINTER);
    FAILS(leafd_next(NULL, "orders", 1000, ids, NULL), NULL_POINTER);
    FAILS(leafd_next_many(client, "nosuch", 1000, ids, 3, &error), TAG_UNKNOWN);
    FAILS(leafd_info(client, 1000, NULL, &error), NULL_POINTER);
    FAILS(leafd_info(NULL, 1000, &info, &error), NULL_POINTER);
    CHECK(error.status == LEAFD_STATUS_NULL_POINTER && ids[0] == UNTOUCHED && ids[2] == UNTOUCHED);
    OK(leafd_next(client, "orders", LEAFD_TIMEOUT_DEFAULT, ids, &error));
    CHECK(error.status == LEAFD_STATUS_OK && error.message[0] == 0);
    /* A message that doesn't fit is truncated between characters; each character of the path has two bytes. */
    leafd_client *away = NULL;
    char path[100] = "/";
    while (strlen(path) < 97) {
        strcat(path, "\xc3\xa9");
    }
    OK(make_client(path, 100, 0, 0, &away));
    FAILS(leafd_next(away, "orders", 100, ids, &error), CONNECT);
    CHECK(error.os_error == ENOENT && error.retryable && strlen(error.message) < sizeof error.message);
    OK(leafd_free(away));
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    leafd_client *client = NULL;
    check_versions();
    check_new(argv[1]);
    check_shared(argv[1]);
    check_waiting();
    check_denied(argv[1]);
    OK(make_client(argv[1], 5000, 0, 0, &client));
    check_handles(client);
    check_drawing(argv[1], client);
    check_counts(client);
    check_loop(client);
    check_errors(client);
    check_interpreter();
    check_layouts(client);
    OK(leafd_free(client));
    puts("calls: ok");
    return 0;
}
