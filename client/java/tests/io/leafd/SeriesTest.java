package io.leafd;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;

/** Tests document numbers, drawn from the real daemon. */
final class SeriesTest {
    private SeriesTest() {}

    static void numbersAreDrawn() throws Exception {
        try (Host host = Host.serving();
                LeafdClient client = host.client()) {
            host.leafctl("series", "create", "bills", "--format", "B{n:4}");
            host.leafctl("series", "create", "orders", "--format", "O-{tenant}-{n:3}");
            Series bills = client.series("bills").within(Duration.ofSeconds(10));
            Check.equal("B0001", bills.next());
            List<String> numbers = bills.next(1_500);
            Check.equal(List.of("B0002", "B1501"), List.of(numbers.get(0), numbers.get(1_499)));
            Check.equal(List.of("O-ACME-001", "O-ACME-002"), client.series("orders").tenant("acme").next(2));
            Check.equal(List.of(), bills.next(0));
            LeafdException.Refused unknown =
                    Check.throwing(LeafdException.Refused.class, "no series", () -> client.series("nosuch").next());
            Check.equal(Status.TAG_UNKNOWN, unknown.status().orElseThrow());
            Check.throwing(LeafdException.Refused.class, "{tenant}", () -> bills.tenant("acme").next());
            Check.throwing(IllegalArgumentException.class, "count", () -> bills.next(-1));
            Check.throwing(IllegalArgumentException.class, "a tag", () -> client.series(""));
            host.stop();
        }
    }

    static void brokenAnswersAreNone() {
        for (String body : List.of("", "\n", "B1\n", "\nB1", "B1\nB2")) {
            ByteBuffer read = ByteBuffer.wrap(body.getBytes(StandardCharsets.US_ASCII));
            Check.throwing(Break.class, "", () -> Wire.readNumbers(read, 1));
        }
    }
}
