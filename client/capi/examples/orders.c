/* Draws ids in C.
 *
 *     cc -o orders orders.c $(pkg-config --cflags --libs leafd)
 *     ./orders orders 5
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <leafd.h>

static int fail(const char *what, const leafd_error *error)
{
    fprintf(stderr, "%s: %s: %s\n", what, leafd_status_name(error->status), error->message);
    if (error->retryable) {
        fprintf(stderr, "a retry may succeed after %" PRIu32 " ms\n", error->retry_after_ms);
    }
    return EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    const char *tag = argc > 1 ? argv[1] : "orders";
    unsigned long count = argc > 2 ? strtoul(argv[2], NULL, 10) : 3;

    leafd_client *client = NULL;
    leafd_error error;
    if (leafd_new(NULL, &client, &error) != LEAFD_STATUS_OK) {
        return fail("no client", &error);
    }
    /* From a run of ids that the process holds, in nanoseconds each. */
    for (unsigned long number = 0; number < count; number++) {
        uint64_t id = 0;
        if (leafd_next(client, tag, LEAFD_TIMEOUT_DEFAULT, &id, &error) != LEAFD_STATUS_OK) {
            leafd_free(client);
            return fail(tag, &error);
        }
        printf("%" PRIu64 "\n", id);
    }
    /* Draw many ids at once, in the order of issue, within half a second. */
    uint64_t batch[10];
    if (leafd_next_many(client, tag, 500, batch, sizeof batch / sizeof batch[0], &error) != LEAFD_STATUS_OK) {
        leafd_free(client);
        return fail(tag, &error);
    }
    for (size_t number = 0; number < sizeof batch / sizeof batch[0]; number++) {
        printf("%" PRIu64 "\n", batch[number]);
    }
    leafd_free(client);
    return EXIT_SUCCESS;
}
