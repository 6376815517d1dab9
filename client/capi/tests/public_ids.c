/* Public ids: `public_ids SOCKET` checks the calls, with a daemon whose only mask key is that of the protocol's vectors;
 * `public_ids SOCKET TEXT [UID]` prints the results of masking 17 and of unmasking TEXT, as another user. */
#include "check.h"

enum { MANY = 500 };

static const uint64_t UNTOUCHED = 0x5555555555555555u;

static void check_numbers(const leafd_client *client)
{
    uint64_t ids[MANY], shown[MANY], back[MANY];
    leafd_error error;
    for (int place = 0; place < MANY; place++) {
        ids[place] = (uint64_t)place + 1;
    }
    ids[MANY - 1] = INT64_MAX;
    OK(leafd_mask(client, "orders", NULL, LEAFD_TIMEOUT_DEFAULT, ids, shown, MANY, &error));
    CHECK(error.status == LEAFD_STATUS_OK && error.message[0] == 0);
    CHECK(shown[16] == 7414752538351631688u);
    OK(leafd_unmask(client, "orders", NULL, 5000, shown, back, MANY, NULL));
    CHECK(memcmp(ids, back, sizeof ids) == 0);
    /* Converts in place, with a different number of bits and a given key. */
    const leafd_public_form small = {.bits = 53, .key = 1};
    memcpy(back, ids, sizeof ids);
    OK(leafd_mask(client, "orders", &small, 5000, back, back, MANY - 1, NULL));
    for (int place = 0; place < MANY - 1; place++) {
        CHECK(back[place] > 0 && back[place] < (uint64_t)1 << 53 && back[place] != shown[place]);
    }
    OK(leafd_unmask(client, "orders", &small, 5000, back, back, MANY - 1, NULL));
    CHECK(memcmp(ids, back, sizeof ids - sizeof ids[0]) == 0);
    OK(leafd_mask(client, "orders", NULL, 5000, NULL, NULL, 0, NULL));
}

static void check_texts(const leafd_client *client)
{
    uint64_t ids[MANY], back[MANY];
    char shown[MANY][LEAFD_PUBLIC_ID_BYTES];
    const char *places[MANY];
    const leafd_public_form form = {.bits = 53, .prefix = "ord"}, bare = {.prefix = ""};
    for (int place = 0; place < MANY; place++) {
        ids[place] = (uint64_t)place + 17;
        places[place] = shown[place];
    }
    OK(leafd_mask_text(client, "orders", &form, 5000, ids, shown, MANY, NULL));
    CHECK(strcmp(shown[0], "ord_16p14s38ca3hx") == 0);
    OK(leafd_unmask_text(client, "orders", &form, 5000, places, back, MANY, NULL));
    CHECK(memcmp(ids, back, sizeof ids) == 0);
    OK(leafd_mask_text(client, "orders", &bare, 5000, ids, shown, 1, NULL));
    CHECK(strlen(shown[0]) == 15 && strchr(shown[0], '_') == NULL);
    OK(leafd_unmask_text(client, "orders", NULL, 5000, places, back, 1, NULL));
    CHECK(back[0] == 17);
    /* The longest prefix. */
    const leafd_public_form longest = {.prefix = "a23456789_b23456789_c23456789_d2"};
    OK(leafd_mask_text(client, "orders", &longest, 5000, ids, shown, 2, NULL));
    CHECK(strlen(shown[1]) == 32 + 1 + 15);
    OK(leafd_unmask_text(client, "orders", &longest, 5000, places, back, 2, NULL));
    CHECK(back[0] == 17 && back[1] == 18);
}

/* Texts that a stranger may have typed, each together with a valid one. */
static void check_mistyped(const leafd_client *client)
{
    static const struct {
        const char *text, *why;
    } wrong[] = {
        {"ord_16p14s38ca3hy", "mistyped"}, {"ord_16p14s38ca3h", "long"},     {"cus_16p14s38ca3hx", "prefix"},
        {"", "prefix"},                    {"ord_16p14s38\xff" "a3hx", ""}, {"ord_16p14s38!a3hx", "digit"},
    };
    const leafd_public_form form = {.bits = 53, .prefix = "ord"};
    char endless[1000];
    memset(endless, '1', sizeof endless - 1);
    endless[sizeof endless - 1] = 0;
    memcpy(endless, "ord_", 4);
    for (size_t which = 0; which <= sizeof wrong / sizeof wrong[0]; which++) {
        const int is_known = which < sizeof wrong / sizeof wrong[0];
        const char *texts[2] = {"ord_16p14s38ca3hx", is_known ? wrong[which].text : endless};
        uint64_t ids[2] = {UNTOUCHED, UNTOUCHED};
        leafd_error error;
        FAILS(leafd_unmask_text(client, "orders", &form, 5000, texts, ids, 2, &error), VALUE_REFUSED);
        CHECK(error.status == LEAFD_STATUS_VALUE_REFUSED && strstr(error.message, is_known ? wrong[which].why : "long"));
        CHECK(!error.retryable && ids[0] == UNTOUCHED && ids[1] == UNTOUCHED);
    }
}

static void check_refused(const leafd_client *client)
{
    uint64_t ids[2] = {17, (uint64_t)1 << 53}, shown[2] = {UNTOUCHED, UNTOUCHED}, zero = 0;
    char texts[2][LEAFD_PUBLIC_ID_BYTES] = {"untouched"};
    const char *nothing[1] = {NULL};
    leafd_public_form form = {.bits = 53};
    leafd_error error;
    FAILS(leafd_mask(client, "orders", &form, 5000, ids, shown, 2, &error), VALUE_REFUSED);
    CHECK(strstr(error.message, "9007199254740992") != NULL);
    FAILS(leafd_mask(client, "orders", NULL, 5000, &zero, shown, 1, NULL), VALUE_REFUSED);
    FAILS(leafd_unmask(client, "orders", NULL, 5000, &zero, shown, 1, NULL), VALUE_REFUSED);
    form = (leafd_public_form){.bits = 19};
    FAILS(leafd_mask(client, "orders", &form, 5000, ids, shown, 1, NULL), VALUE_REFUSED);
    form = (leafd_public_form){.bits = 300};
    FAILS(leafd_mask(client, "orders", &form, 5000, ids, shown, 1, NULL), INVALID_ARGUMENT);
    form = (leafd_public_form){.key = 32};
    FAILS(leafd_mask(client, "orders", &form, 5000, ids, shown, 1, NULL), VALUE_REFUSED);
    form = (leafd_public_form){.key = 2};
    FAILS(leafd_mask(client, "orders", &form, 5000, ids, shown, 1, &error), MASK_KEY);
    CHECK(strstr(error.message, "mask key 2") != NULL);
    form = (leafd_public_form){.prefix = "9th"};
    FAILS(leafd_mask_text(client, "orders", &form, 5000, ids, texts, 1, NULL), VALUE_REFUSED);
    form = (leafd_public_form){.prefix = "\xff"};
    FAILS(leafd_mask_text(client, "orders", &form, 5000, ids, texts, 1, NULL), INVALID_ARGUMENT);
    FAILS(leafd_mask(client, "a\nb", NULL, 5000, ids, shown, 1, NULL), TAG_INVALID);
    FAILS(leafd_mask(NULL, "orders", NULL, 5000, ids, shown, 1, &error), NULL_POINTER);
    FAILS(leafd_mask(client, NULL, NULL, 5000, ids, shown, 1, &error), NULL_POINTER);
    CHECK(error.status == LEAFD_STATUS_NULL_POINTER && strstr(error.message, "`tag`") != NULL);
    FAILS(leafd_mask(client, "orders", NULL, 5000, NULL, shown, 1, NULL), NULL_POINTER);
    FAILS(leafd_mask(client, "orders", NULL, 5000, ids, NULL, 1, NULL), NULL_POINTER);
    FAILS(leafd_unmask(client, "orders", NULL, 5000, NULL, shown, 1, NULL), NULL_POINTER);
    FAILS(leafd_mask_text(client, "orders", NULL, 5000, ids, NULL, 1, NULL), NULL_POINTER);
    FAILS(leafd_unmask_text(client, "orders", NULL, 5000, NULL, shown, 1, NULL), NULL_POINTER);
    FAILS(leafd_unmask_text(client, "orders", NULL, 5000, nothing, shown, 1, NULL), NULL_POINTER);
    FAILS(leafd_mask(client, "orders", NULL, 5000, ids, shown, SIZE_MAX, NULL), INVALID_ARGUMENT);
    CHECK(shown[0] == UNTOUCHED && shown[1] == UNTOUCHED && strcmp(texts[0], "untouched") == 0);
    leafd_client *away = NULL;
    OK(make_client("/nowhere/at/all", 1000, 0, 0, &away));
    FAILS(leafd_mask(away, "orders", NULL, 100, ids, shown, 1, &error), CONNECT);
    CHECK(error.os_error == ENOENT);
    OK(leafd_free(away));
}

static void ask(const leafd_client *client, const char *text)
{
    const uint64_t id = 17;
    uint64_t read = 0;
    char shown[1][LEAFD_PUBLIC_ID_BYTES] = {""};
    leafd_error error;
    leafd_status status = leafd_mask_text(client, "orders", NULL, LEAFD_TIMEOUT_DEFAULT, &id, shown, 1, &error);
    printf("%s %s%s\n", leafd_status_name(status), shown[0], error.message);
    status = leafd_unmask_text(client, "orders", NULL, LEAFD_TIMEOUT_DEFAULT, &text, &read, 1, &error);
    printf("%s %" PRIu64 " %s\n", leafd_status_name(status), read, error.message);
}

int main(int argc, char **argv)
{
    CHECK(argc >= 2 && argc <= 4);
    CHECK(argc < 4 || setuid((uid_t)atoi(argv[3])) == 0);
    leafd_client *client = NULL;
    OK(make_client(argv[1], 20000, 0, 0, &client));
    if (argc >= 3) {
        ask(client, argv[2]);
    } else {
        check_numbers(client);
        check_texts(client);
        check_mistyped(client);
        check_refused(client);
        puts("public ids: ok");
    }
    OK(leafd_free(client));
    return 0;
}
