/* Document numbers: run `series SOCKET` with a daemon that has the new series bills (B{n:4}) and orders
 * (O-{tenant}-{n:3}). */
#include "check.h"

enum { MANY = 1500 };

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    leafd_client *client = NULL;
    leafd_error error;
    static char texts[MANY][LEAFD_NUMBER_BYTES];
    OK(make_client(argv[1], 20000, 0, 0, &client));
    OK(leafd_series_next(client, "bills", NULL, LEAFD_TIMEOUT_DEFAULT, texts, 1, &error));
    CHECK(strcmp(texts[0], "B0001") == 0 && error.status == LEAFD_STATUS_OK);
    OK(leafd_series_next(client, "bills", "", 5000, texts, MANY, NULL));
    CHECK(strcmp(texts[0], "B0002") == 0 && strcmp(texts[MANY - 1], "B1501") == 0);
    OK(leafd_series_next(client, "orders", "acme", LEAFD_TIMEOUT_DEFAULT, texts, 2, &error));
    CHECK(strcmp(texts[0], "O-ACME-001") == 0 && strcmp(texts[1], "O-ACME-002") == 0);
    OK(leafd_series_next(client, "bills", NULL, LEAFD_TIMEOUT_DEFAULT, NULL, 0, &error));
    strcpy(texts[0], "untouched");
    FAILS(leafd_series_next(client, "nosuch", NULL, LEAFD_TIMEOUT_DEFAULT, texts, 1, &error), TAG_UNKNOWN);
    FAILS(leafd_series_next(client, "bills", "acme", LEAFD_TIMEOUT_DEFAULT, texts, 1, &error), VALUE_REFUSED);
    CHECK(strstr(error.message, "{tenant}") != NULL);
    FAILS(leafd_series_next(client, NULL, NULL, LEAFD_TIMEOUT_DEFAULT, texts, 1, &error), NULL_POINTER);
    FAILS(leafd_series_next(client, "bills", NULL, LEAFD_TIMEOUT_DEFAULT, NULL, 1, &error), NULL_POINTER);
    FAILS(leafd_series_next(NULL, "bills", NULL, LEAFD_TIMEOUT_DEFAULT, texts, 1, NULL), NULL_POINTER);
    CHECK(strcmp(texts[0], "untouched") == 0);
    OK(leafd_free(client));
    puts("series: ok");
    return 0;
}
