/* The contract of every call: pointers, outputs, failures, limits. `calls SOCKET`, with a daemon that has the tag `orders`. */
#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "check.h"

static const uint64_t UNTOUCHED = 0x5555555555555555u;

static void check_message(const char *part)
{
    char message[1024];
    size_t length = leafd_error_message(message, sizeof message);
    CHECK(length == strlen(message));
    if (strstr(message, part) == NULL) {
        fprintf(stderr, "\"%s\" says nothing of \"%s\"\n", message, part);
        _exit(1);
    }
    /* Cut to what fits, and always ended. */
    char piece[5] = "....";
    CHECK(leafd_error_message(piece, sizeof piece) == length);
    CHECK(strlen(piece) == 4 && strncmp(piece, message, 4) == 0);
    CHECK(leafd_error_message(piece, 1) == length && piece[0] == 0);
    CHECK(leafd_error_message(NULL, 0) == length);
}

static void check_versions(void)
{
    CHECK(leafd_abi_version() == LEAFD_ABI_VERSION);
    CHECK(strchr(leafd_version(), '.') != NULL);
    CHECK(strcmp(leafd_status_name(LEAFD_STATUS_OK), "OK") == 0);
    CHECK(strcmp(leafd_status_name(LEAFD_STATUS_TAG_UNKNOWN), "TAG_UNKNOWN") == 0);
    CHECK(strcmp(leafd_status_name(LEAFD_STATUS_PANIC), "PANIC") == 0);
    CHECK(strcmp(leafd_status_name(999), "UNKNOWN") == 0);
    CHECK(strlen(leafd_status_text(LEAFD_STATUS_TIMEOUT)) > 0 && strlen(leafd_status_text(4000000000u)) > 0);
}

static void check_new(const char *path)
{
    leafd_client *client = (leafd_client *)&client;
    leafd_client *const untouched = client;
    FAILS(leafd_new(path, LEAFD_TIMEOUT_DEFAULT, 0, NULL), NULL_POINTER);
    FAILS(leafd_new(path, LEAFD_TIMEOUT_DEFAULT, 8, &client), INVALID_ARGUMENT);
    FAILS(leafd_new("", LEAFD_TIMEOUT_DEFAULT, 0, &client), INVALID_ARGUMENT);
    CHECK(client == untouched);
    /* A path that no socket can have. */
    char too_long[200];
    memset(too_long, 'x', sizeof too_long - 1);
    too_long[sizeof too_long - 1] = 0;
    FAILS(leafd_new(too_long, 100, 0, &client), INVALID_ARGUMENT);
    check_message("107");
    CHECK(client == untouched && !leafd_error_is_retryable());
    /* Nobody there. */
    OK(leafd_new("/nowhere/at/all", LEAFD_TIMEOUT_DEFAULT, LEAFD_NO_POLLING, &client));
    uint64_t id = UNTOUCHED;
    FAILS(leafd_next(client, "orders", &id), CONNECT);
    check_message("is the daemon running");
    CHECK(leafd_error_errno() == ENOENT && leafd_error_is_retryable() && leafd_error_retry_after_ms() == 0);
    CHECK(id == UNTOUCHED);
    OK(leafd_free(client));
}

static uint64_t now_ms(void)
{
    struct timespec now;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* A call waits as long as it may, and with a timeout of its own no longer than that. */
static void check_waiting(void)
{
    leafd_client *client = NULL;
    uint64_t id = UNTOUCHED;
    FAILS(leafd_new_waiting("/nowhere/at/all", 100, 100, 8, &client), INVALID_ARGUMENT);
    OK(leafd_new_waiting("/nowhere/at/all", 100, UINT32_MAX, 0, &client));
    FAILS(leafd_next_within(client, "orders", 50, &id), CONNECT);
    OK(leafd_free(client));
    OK(leafd_new_waiting("/nowhere/at/all", 1, 100, 0, &client));
    const uint64_t begun_ms = now_ms();
    FAILS(leafd_next(client, "orders", &id), CONNECT);
    CHECK(now_ms() - begun_ms >= 99);
    CHECK(leafd_error_errno() == ENOENT && id == UNTOUCHED);
    OK(leafd_free(client));
}

/* A socket that this user may not open. Root may open every one: so a child of root's is nobody. */
static void check_denied(const char *path)
{
    const int is_root = geteuid() == 0;
    CHECK(chmod(path, is_root ? 0600 : 0) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        leafd_client *client = NULL;
        CHECK(!is_root || setuid(65534) == 0);
        OK(leafd_new(path, LEAFD_TIMEOUT_DEFAULT, 0, &client));
        FAILS(leafd_connect(client), CONNECT);
        check_message("socket_mode");
        CHECK(leafd_error_errno() == EACCES && !leafd_error_is_retryable());
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
    /* NULL. */
    FAILS(leafd_connect(NULL), NULL_POINTER);
    FAILS(leafd_next(NULL, "orders", &id), NULL_POINTER);
    check_message("NULL");
    FAILS(leafd_next(live, NULL, &id), NULL_POINTER);
    check_message("`tag`");
    FAILS(leafd_next(live, "orders", NULL), NULL_POINTER);
    FAILS(leafd_next_within(NULL, "orders", 5, &id), NULL_POINTER);
    FAILS(leafd_next_direct(live, NULL, 5, &id), NULL_POINTER);
    FAILS(leafd_next_many(live, "orders", 5, NULL, 1), NULL_POINTER);
    FAILS(leafd_tag_new(live, "orders", 0, NULL), NULL_POINTER);
    FAILS(leafd_tag_new(live, NULL, 0, &tag), NULL_POINTER);
    FAILS(leafd_tag_next(NULL, &id), NULL_POINTER);
    FAILS(leafd_tag_next_within(NULL, 5, &id), NULL_POINTER);
    FAILS(leafd_tag_next_many(NULL, 5, &id, 1), NULL_POINTER);
    FAILS(leafd_layout_of(live, NULL, NULL), NULL_POINTER);
    FAILS(leafd_decode(1, NULL, NULL), NULL_POINTER);
    CHECK(leafd_tag_take(NULL) == 0);
    /* Foreign: other memory, another kind, a crooked address. */
    FAILS(leafd_next((leafd_client *)foreign, "orders", &id), HANDLE);
    check_message("not one that this library created");
    FAILS(leafd_free((leafd_client *)foreign), HANDLE);
    FAILS(leafd_next((leafd_client *)((char *)foreign + 1), "orders", &id), HANDLE);
    OK(leafd_tag_new(live, "orders", 0, &tag));
    FAILS(leafd_next((leafd_client *)tag, "orders", &id), HANDLE);
    FAILS(leafd_tag_next((const leafd_tag *)live, &id), HANDLE);
    FAILS(leafd_free((leafd_client *)tag), HANDLE);
    CHECK(leafd_tag_take((leafd_tag *)foreign) == 0);
    CHECK(id == UNTOUCHED);
    /* Freed, also when others were made and freed since. */
    OK(leafd_tag_free(tag));
    FAILS(leafd_tag_next(tag, &id), HANDLE);
    check_message("has been freed");
    FAILS(leafd_tag_free(tag), HANDLE);
    OK(leafd_new(NULL, LEAFD_TIMEOUT_DEFAULT, 0, &client));
    OK(leafd_free(client));
    for (int number = 0; number < 500; number++) {
        leafd_tag *other = NULL;
        OK(leafd_tag_new(live, "orders", 0, &other));
        CHECK(other != tag);
        OK(leafd_tag_free(other));
    }
    FAILS(leafd_tag_next(tag, &id), HANDLE);
    FAILS(leafd_free(client), HANDLE);
    FAILS(leafd_next(client, "orders", &id), HANDLE);
    CHECK(id == UNTOUCHED);
    /* However many are made, memory is used again. */
    for (int number = 0; number < 5000; number++) {
        leafd_tag *other = NULL;
        OK(leafd_tag_new(live, "orders", 0, &other));
        OK(leafd_tag_free(other));
    }
}

static void check_drawing(const char *path, const leafd_client *client)
{
    uint64_t ids[64], last = 0;
    size_t count = 0;
    leafd_tag *tag = NULL, *direct = NULL;
    OK(leafd_connect(client));
    OK(leafd_tag_new(client, "orders", 0, &tag));
    OK(leafd_tag_new(client, "orders", LEAFD_DIRECT, &direct));
    FAILS(leafd_tag_new(client, "orders", LEAFD_NO_POLLING, &tag), INVALID_ARGUMENT);
    OK(leafd_next(client, "orders", &ids[count++]));
    OK(leafd_next(client, "orders", &ids[count++]));
    OK(leafd_next_within(client, "orders", 5000, &ids[count++]));
    OK(leafd_next_within(client, "orders", LEAFD_TIMEOUT_DEFAULT, &ids[count++]));
    OK(leafd_next_direct(client, "orders", 5000, &ids[count++]));
    OK(leafd_next_direct(client, "orders", LEAFD_TIMEOUT_DEFAULT, &ids[count++]));
    CHECK(ids[count - 1] > ids[count - 2]);
    OK(leafd_tag_next(tag, &ids[count++]));
    OK(leafd_tag_next_within(tag, 5000, &ids[count++]));
    OK(leafd_tag_next(direct, &ids[count++]));
    CHECK((ids[count] = leafd_tag_take(tag)) != 0);
    count++;
    CHECK(leafd_tag_take(direct) == 0);
    OK(leafd_next_many(client, "orders", 5000, &ids[count], 10));
    count += 10;
    OK(leafd_tag_next_many(tag, LEAFD_TIMEOUT_DEFAULT, &ids[count], 10));
    count += 10;
    OK(leafd_next_many(client, "orders", 5000, NULL, 0));
    /* The name's place stays, its letters change. */
    char name[16] = "orders";
    OK(leafd_next(client, name, &ids[count++]));
    OK(leafd_next(client, name, &ids[count++]));
    strcpy(name, "nosuch");
    uint64_t id = UNTOUCHED;
    FAILS(leafd_next(client, name, &id), TAG_UNKNOWN);
    strcpy(name, "orders");
    OK(leafd_next(client, name, &ids[count++]));
    for (size_t one = 0; one < count; one++) {
        CHECK(ids[one] > 0 && ids[one] < (uint64_t)1 << 63);
        for (size_t other = 0; other < one; other++) {
            CHECK(ids[one] != ids[other]);
        }
    }
    /* Failures write nothing. */
    uint64_t many[3] = {UNTOUCHED, UNTOUCHED, UNTOUCHED};
    FAILS(leafd_next_many(client, "nosuch", 5000, many, 3), TAG_UNKNOWN);
    check_message("nosuch");
    CHECK(many[0] == UNTOUCHED && many[1] == UNTOUCHED && many[2] == UNTOUCHED && id == UNTOUCHED);
    CHECK(!leafd_error_is_retryable() && leafd_error_errno() == 0);
    FAILS(leafd_next(client, "", &id), INVALID_ARGUMENT);
    FAILS(leafd_next(client, "a\nb", &id), INVALID_ARGUMENT);
    FAILS(leafd_next(client, "\xff\xfe", &id), INVALID_ARGUMENT);
    check_message("UTF-8");
    FAILS(leafd_next_many(client, "orders", 5, many, SIZE_MAX), INVALID_ARGUMENT);
    /* A client of its own whose every id is a request: they ascend. A tag outlives its client. */
    leafd_client *ordered = NULL;
    leafd_tag *orphan = NULL;
    OK(leafd_new(path, 5000, LEAFD_DIRECT | LEAFD_NO_POLLING, &ordered));
    for (int number = 0; number < 100; number++) {
        OK(leafd_next(ordered, "orders", &id));
        CHECK(id > last);
        last = id;
    }
    OK(leafd_tag_new(ordered, "orders", 0, &orphan));
    OK(leafd_free(ordered));
    OK(leafd_tag_next(orphan, &id));
    CHECK(id > last);
    OK(leafd_tag_free(orphan));
    leafd_client *none = NULL;
    FAILS(leafd_new(path, 5000, 4, &none), INVALID_ARGUMENT);
    check_message("1 and 2");
    OK(leafd_tag_free(direct));
    OK(leafd_tag_free(tag));
}

static void *leave_nothing(void)
{
    return NULL;
}

/* An interpreter that lacks something is none. */
static void check_interpreter(void)
{
    const leafd_interpreter incomplete = {leave_nothing, NULL, NULL};
    FAILS(leafd_set_interpreter(&incomplete), NULL_POINTER);
    check_message("`enter`");
    OK(leafd_set_interpreter(NULL));
}

/* Counts that can only be a mistake draw nothing. */
static void check_counts(const leafd_client *client)
{
    uint64_t ids[1] = {UNTOUCHED};
    FAILS(leafd_next_many(client, "orders", LEAFD_TIMEOUT_DEFAULT, ids, 2000000000000), INVALID_ARGUMENT);
    check_message("at most 1000000000 ids");
    CHECK(ids[0] == UNTOUCHED);
}

/* What an event loop does that asks for runs by itself. */
static void check_loop(const leafd_client *live)
{
    static const uint8_t reply[] = {
        0x60, 0xea, 0, 0, 1, 0, 0, 0,               /* 60000 ms, one run */
        5, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, /* 5 to 8 */
    };
    leafd_client *client = NULL;
    leafd_tag *tag = NULL;
    uint64_t id = UNTOUCHED;
    OK(leafd_new("/nowhere/at/all", LEAFD_TIMEOUT_DEFAULT, 0, &client));
    OK(leafd_tag_new(client, "orders", 0, &tag));
    CHECK(leafd_loop_take(tag) == 0 && leafd_loop_advance(tag) == 0 && leafd_loop_wish(tag, 3) >= 3);
    FAILS(leafd_loop_hold(tag, NULL, 0, 4, 0, &id), NULL_POINTER);
    FAILS(leafd_loop_hold(tag, reply, sizeof reply, 4, 0, NULL), NULL_POINTER);
    FAILS(leafd_loop_hold(tag, reply, sizeof reply - 1, 4, UINT64_MAX, &id), PROTOCOL);
    FAILS(leafd_loop_hold(tag, reply, sizeof reply, 3, UINT64_MAX, &id), PROTOCOL);
    CHECK(id == UNTOUCHED);
    OK(leafd_loop_hold(tag, reply, sizeof reply, 4, UINT64_MAX, &id));
    CHECK(id == 0);
    CHECK(leafd_loop_advance(tag) == 5 && leafd_loop_take(tag) == 6);
    CHECK(leafd_loop_take(tag) == 7 && leafd_loop_take(tag) == (8 | LEAFD_LOOP_REFILL) && leafd_loop_take(tag) == 0);
    /* Too late to be held: asked for when the machine was started, to be held for 1 ms. */
    static const uint8_t late[] = {1, 0, 0, 0, 1, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0};
    OK(leafd_loop_hold(tag, late, sizeof late, 4, 0, &id));
    CHECK(id == 9 && leafd_loop_take(tag) == 0 && leafd_loop_advance(tag) == 0 && leafd_loop_wish(tag, 3) >= 3);
    OK(leafd_tag_free(tag));
    CHECK(leafd_loop_take(tag) == 0 && leafd_loop_advance(tag) == 0 && leafd_loop_wish(tag, 3) == 1);
    FAILS(leafd_loop_hold(tag, reply, sizeof reply, 4, 0, &id), HANDLE);
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
    OK(leafd_layout_of(client, "snowflake", &layout));
    CHECK(layout.time_bits == leaf.time_bits && layout.tick_ms == 1 && layout.epoch_ms == leaf.epoch_ms);
    FAILS(leafd_layout_of(client, "other", &layout), INVALID_ARGUMENT);
    FAILS(leafd_decode(UINT64_MAX, &layout, &parts), INVALID_ARGUMENT);
    CHECK(parts.tick == UNTOUCHED && parts.unix_ms == UNTOUCHED);
    OK(leafd_decode(((uint64_t)1000 << 22) | (17 << 12) | 5, &leaf, &parts));
    CHECK(parts.tick == 1000 && parts.worker == 17 && parts.sequence == 5 && parts.unix_ms == 1288834975657u);
    OK(leafd_next(client, "snowflake", &id));
    OK(leafd_decode(id, &layout, &parts));
    CHECK(parts.worker == 17);
    layout.time_bits = 200;
    FAILS(leafd_decode(id, &layout, &parts), INVALID_ARGUMENT);
}

/* What went wrong is told by call. */
static void check_told(const leafd_client *client)
{
    leafd_error error;
    uint64_t ids[3] = {UNTOUCHED, UNTOUCHED, UNTOUCHED};
    memset(&error, 0x55, sizeof error);
    OK(leafd_connect_e(client, &error));
    CHECK(error.status == LEAFD_STATUS_OK && error.message[0] == 0 && !error.retryable && error.os_error == 0);
    FAILS(leafd_next_e(client, "nosuch", 0, LEAFD_TIMEOUT_DEFAULT, ids, &error), TAG_UNKNOWN);
    CHECK(error.status == LEAFD_STATUS_TAG_UNKNOWN && strstr(error.message, "nosuch") != NULL && !error.retryable);
    FAILS(leafd_next_e(client, "orders", LEAFD_NO_POLLING, LEAFD_TIMEOUT_DEFAULT, ids, &error), INVALID_ARGUMENT);
    FAILS(leafd_next_e(client, "orders", 0, 1000, NULL, &error), NULL_POINTER);
    FAILS(leafd_next_e(NULL, "orders", 0, 1000, ids, NULL), NULL_POINTER);
    FAILS(leafd_next_many_e(client, "nosuch", 1000, ids, 3, &error), TAG_UNKNOWN);
    FAILS(leafd_connect_e(NULL, &error), NULL_POINTER);
    CHECK(error.status == LEAFD_STATUS_NULL_POINTER && ids[0] == UNTOUCHED && ids[2] == UNTOUCHED);
    OK(leafd_next_e(client, "orders", 0, LEAFD_TIMEOUT_DEFAULT, &ids[0], &error));
    OK(leafd_next_e(client, "orders", LEAFD_DIRECT, 1000, &ids[1], &error));
    OK(leafd_next_e(client, "orders", LEAFD_DIRECT, LEAFD_TIMEOUT_DEFAULT, &ids[2], NULL));
    CHECK(ids[0] != ids[1] && ids[1] < ids[2] && ids[0] != ids[2]);
    OK(leafd_next_many_e(client, "orders", LEAFD_TIMEOUT_DEFAULT, ids, 3, &error));
    CHECK(ids[0] < ids[1] && ids[1] < ids[2] && error.status == LEAFD_STATUS_OK);
    /* A message that doesn't fit is cut between characters: the path is all of two bytes each. */
    leafd_client *away = NULL;
    char path[100] = "/";
    while (strlen(path) < 97) {
        strcat(path, "\xc3\xa9");
    }
    OK(leafd_new(path, 100, 0, &away));
    FAILS(leafd_next_e(away, "orders", 0, 100, ids, &error), CONNECT);
    CHECK(error.os_error == ENOENT && error.retryable && strlen(error.message) < sizeof error.message);
    OK(leafd_free(away));
}

static void *fail_elsewhere(void *client)
{
    uint64_t id;
    CHECK(leafd_error_message(NULL, 0) == 0);
    FAILS(leafd_next((leafd_client *)client, "", &id), INVALID_ARGUMENT);
    check_message("tag");
    return NULL;
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    leafd_client *client = NULL;
    check_versions();
    check_new(argv[1]);
    check_waiting();
    check_denied(argv[1]);
    OK(leafd_new(argv[1], 5000, 0, &client));
    check_handles(client);
    check_drawing(argv[1], client);
    check_counts(client);
    check_loop(client);
    check_told(client);
    check_interpreter();
    check_layouts(client);
    /* Each thread has its own last failure. */
    uint64_t id;
    pthread_t thread;
    FAILS(leafd_next(client, "nosuch", &id), TAG_UNKNOWN);
    CHECK(pthread_create(&thread, NULL, fail_elsewhere, client) == 0 && pthread_join(thread, NULL) == 0);
    check_message("nosuch");
    OK(leafd_free(client));
    puts("calls: ok");
    return 0;
}
