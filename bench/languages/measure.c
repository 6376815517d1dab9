/* Prints what an id costs in C, from a held run and drawn directly, in nanoseconds. */
#include <leafd.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

static double cost(const leafd_tag *tag) {
    const double began = now_ns(), limit = atof(getenv("MS")) * 1e6;
    leafd_error error;
    uint64_t id;
    long drawn = 0;
    for (; now_ns() - began < limit; drawn += 100) {
        for (int i = 0; i < 100; i++) {
            if (leafd_tag_next(tag, LEAFD_TIMEOUT_DEFAULT, &id, &error) != LEAFD_STATUS_OK) {
                fprintf(stderr, "%s\n", error.message);
                exit(1);
            }
        }
    }
    return (now_ns() - began) / drawn;
}

int main(void) {
    leafd_client *client;
    leafd_tag *held, *direct;
    leafd_error error;
    if (leafd_new(NULL, &client, &error) != LEAFD_STATUS_OK ||
        leafd_tag_new(client, "bench", 0, &held, &error) != LEAFD_STATUS_OK ||
        leafd_tag_new(client, "bench", LEAFD_DIRECT, &direct, &error) != LEAFD_STATUS_OK) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    cost(held);
    printf("%f %f\n", cost(held), cost(direct));
    leafd_tag_free(held);
    leafd_tag_free(direct);
    return leafd_free(client);
}
