/* Draws ids in C.
 *
 *     cc -o orders orders.c $(pkg-config --cflags --libs leafd)
 *     ./orders orders 5
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <leafd.h>

static int complain(const char *what, leafd_status status)
{
    char why[512];
    leafd_error_message(why, sizeof why);
    fprintf(stderr, "%s: %s: %s\n", what, leafd_status_name(status), why);
    if (leafd_error_is_retryable()) {
        fprintf(stderr, "a retry may help, after %" PRIu32 " ms\n", leafd_error_retry_after_ms());
    }
    return EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    const char *tag = argc > 1 ? argv[1] : "orders";
    unsigned long count = argc > 2 ? strtoul(argv[2], NULL, 10) : 3;

    leafd_client *client = NULL;
    leafd_status status = leafd_new(NULL, LEAFD_TIMEOUT_DEFAULT, 0, &client);
    if (status != LEAFD_STATUS_OK) {
        return complain("no client", status);
    }
    /* Out of a run of ids that the process holds: nanoseconds each. */
    for (unsigned long number = 0; number < count; number++) {
        uint64_t id = 0;
        status = leafd_next(client, tag, &id);
        if (status != LEAFD_STATUS_OK) {
            leafd_free(client);
            return complain(tag, status);
        }
        printf("%" PRIu64 "\n", id);
    }
    /* Many at once, in the order in which they were issued. */
    uint64_t batch[10];
    status = leafd_next_many(client, tag, 500, batch, sizeof batch / sizeof batch[0]);
    if (status != LEAFD_STATUS_OK) {
        leafd_free(client);
        return complain(tag, status);
    }
    for (size_t number = 0; number < sizeof batch / sizeof batch[0]; number++) {
        printf("%" PRIu64 "\n", batch[number]);
    }
    leafd_free(client);
    return EXIT_SUCCESS;
}
