package io.leafd;

import java.time.Duration;
import java.time.Instant;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.LongStream;

/** Tests drawing ids from the real daemon. */
final class DrawingTest {
    private DrawingTest() {}

    static void idsOfEveryFormAreUnique() throws Exception {
        try (Host host = Host.serving();
                LeafdClient client = host.client()) {
            LeafdTag orders = client.tag("orders");
            long[] direct = LongStream.generate(orders::nextIdDirect).limit(500).toArray();
            Check.ascending(direct);
            long[] batch = orders.nextIds(100_000);
            Check.ascending(batch);
            Check.that(batch[0] > direct[499], "direct ids increase");
            long[] held = LongStream.generate(() -> client.nextId("orders")).limit(300_000).toArray();
            long[] byHandle = LongStream.generate(orders::nextId).limit(300_000).toArray();
            Check.unique(700_500, List.of(direct, batch, held, byHandle));
        }
    }

    static void moreIdsThanOneRequestMayAskForAreDrawn() throws Exception {
        try (Host host = Host.serving();
                LeafdClient client = host.client()) {
            long[] ids = client.nextIds("orders", 2_500_001, Duration.ofSeconds(30));
            Check.ascending(ids);
            Check.equal(2_500_001, ids.length);
        }
    }

    static void snowflakesAreUniqueAndTellTheirTime() throws Exception {
        try (Host host = Host.serving();
                LeafdClient client = host.client()) {
            Check.equal(Layout.LEAF, client.info().layouts().get("snowflake"));
            Instant before = Instant.now();
            List<long[]> drawn = Check.inThreads(4, () ->
                    LongStream.generate(() -> client.nextId("snowflake")).limit(20_000).toArray());
            Check.unique(80_000, drawn);
            // This is more than one tick has.
            long[] batch = client.nextIds("snowflake", 10_000);
            Check.ascending(batch);
            for (long id : batch) {
                Layout.Decoded decoded = client.decode("snowflake", batch[0]);
                Check.equal(17L, decoded.worker());
                Check.equal(17L, Layout.LEAF.decode(id).worker());
                Check.that(!decoded.time().isBefore(before.minusMillis(10)), "an id with the time " + decoded.time());
                break;
            }
            Check.that(Layout.LEAF.firstIdAt(before.minusMillis(10)) < batch[0], "the range of a moment");
        }
    }

    static void manyThreadsShareOneClient() throws Exception {
        try (Host host = Host.serving();
                LeafdClient client = host.client()) {
            AtomicInteger number = new AtomicInteger();
            List<long[]> drawn = Check.inVirtualThreads(400, () -> {
                boolean direct = number.getAndIncrement() % 2 == 0;
                long[] ids = new long[50];
                Arrays.setAll(ids, index -> direct ? client.nextIdDirect("orders") : client.nextId("orders"));
                if (direct) {
                    Check.ascending(ids);
                }
                return ids;
            });
            Check.unique(20_000, drawn);
        }
    }

    static void strictTagsAscendOverThreads() throws Exception {
        try (Host host = Host.serving();
                LeafdClient client = host.client()) {
            host.leafctl("tag", "create", "ledger", "--strict");
            long[] ids = LongStream.generate(() -> client.nextId("ledger")).limit(50).toArray();
            Check.ascending(ids);
            List<long[]> drawn = Check.inThreads(4, () ->
                    LongStream.generate(() -> client.nextId("ledger")).limit(20).toArray());
            drawn.forEach(Check::ascending);
            Check.unique(80, drawn);
            Check.that(drawn.stream().allMatch(of -> of[0] > ids[49]), "strict ids increase across threads");
        }
    }

    static void unknownAndRemovedTagsAreTold() throws Exception {
        try (Host host = Host.serving();
                LeafdClient client = host.client()) {
            LeafdException e = Check.throwing(LeafdException.Refused.class, "nosuch", () -> client.nextId("nosuch"));
            Check.equal(Status.TAG_UNKNOWN, e.status().orElseThrow());
            Check.that(!e.isRetryable(), "a retry does not help");
            host.leafctl("tag", "create", "nosuch");
            Check.eventually("the tag is known", () -> {
                try {
                    return client.nextId("nosuch") == 1;
                } catch (LeafdException.Refused refused) {
                    return false;
                }
            });
            host.leafctl("tag", "delete", "nosuch", "--yes-delete", "nosuch");
            Check.eventually("a removed tag stops", () -> {
                try {
                    client.nextIdDirect("nosuch");
                    return false;
                } catch (LeafdException.Refused refused) {
                    return refused.status().orElseThrow() == Status.TAG_UNKNOWN;
                }
            });
            // Held ids continue to be returned until they expire or run out.
            Check.throwing(LeafdException.Refused.class, "TAG_UNKNOWN", () -> {
                for (int id = 0; id <= Sizing.RUN_COUNT_MAX; id++) {
                    client.nextId("nosuch");
                }
            });
        }
    }

    static void ceilingsAndCountsAreTold() throws Exception {
        try (Host host = Host.serving();
                LeafdClient client = host.client()) {
            host.leafctl("tag", "create", "few", "--ceiling", "10");
            List<long[]> ids = List.of(LongStream.generate(() -> client.nextIdDirect("few")).limit(10).toArray());
            Check.unique(10, ids);
            LeafdException e = Check.throwing(LeafdException.Refused.class, "", () -> client.nextId("few"));
            Check.equal(Status.TAG_EXHAUSTED, e.status().orElseThrow());
        }
    }
}
