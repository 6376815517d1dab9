package io.leafd;

import java.time.Duration;

/** Code that takes an {@link IdSource} works with a client and with a fake, and every call accepts a time limit. */
final class FakeTest {
    private static final Duration LIMIT = Duration.ofSeconds(10);

    private FakeTest() {}

    private static long[] draw(IdSource ids) {
        Check.that(ids.info().segmentsReady() && ids.info().snowflakeReady(), "both kinds are ready");
        long[] batch = ids.nextIds("orders", 2, LIMIT);
        return new long[] {ids.nextId("orders"), ids.nextId("orders", LIMIT), ids.nextIdDirect("orders"),
            ids.nextIdDirect("orders", LIMIT), batch[0], batch[1], ids.nextIds("orders", 1)[0]};
    }

    static void aFakeTakesAClientsPlace() throws Exception {
        long[] known = draw(new FakeClient());
        java.util.Arrays.sort(known);
        Check.that(java.util.Arrays.equals(known, new long[] {1, 2, 3, 4, 5, 6, 7}), java.util.Arrays.toString(known));
        try (Host host = Host.serving(); LeafdClient client = host.client()) {
            Check.unique(7, java.util.List.of(draw(client)));
            LeafdTag orders = client.tag("orders");
            Check.that(orders.nextIdDirect(LIMIT) < orders.nextIds(2, LIMIT)[0], "direct ids ascend");
            Check.equal(client.info(LIMIT).pid(), client.info().pid());
        }
    }

    static void aFakeFailsAsTheDaemonDoes() {
        FakeClient fake = new FakeClient();
        fake.failNext(Status.DEADLINE);
        fake.failNext(Status.TAG_UNKNOWN);
        LeafdException late = Check.throwing(LeafdException.Refused.class, "DEADLINE", () -> fake.nextId("orders"));
        Check.that(late.isTimeout() && late.isRetryable(), "the daemon's deadline is a timeout");
        LeafdException unknown = Check.throwing(LeafdException.Refused.class, "TAG_UNKNOWN", () -> fake.nextId("orders"));
        Check.that(!unknown.isTimeout() && !unknown.isRetryable(), "an unknown tag is none");
        Check.throwing(IllegalArgumentException.class, "", () -> fake.nextId(""));
        Check.throwing(IllegalArgumentException.class, "count", () -> fake.nextIds("orders", -1));
        Check.equal(1L, fake.nextId("orders"));
    }
}
