package io.leafd;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** Tests names, statuses, layouts and the socket's path, without a daemon. */
final class CodecTest {
    private CodecTest() {}

    static void tagsAreCheckedAsTheDaemonDoes() {
        for (String tag : List.of("a", "x".repeat(128), "订单", "\uD83D\uDE00".repeat(128), "with space", "\u00AD")) {
            Check.that(Wire.tagBytes(tag).length > 0, tag);
        }
        for (String tag : List.of("", "x".repeat(129), "\uD83D\uDE00".repeat(129))) {
            Check.throwing(IllegalArgumentException.class, "1 to 128 characters", () -> Wire.tagBytes(tag));
        }
        for (String tag : List.of("a\nb", "\0", "\u007F", "\u0085", "\uD83D", "a\uDE00b")) {
            Check.throwing(IllegalArgumentException.class, "no control characters", () -> Wire.tagBytes(tag));
        }
    }

    static void statusesAreTheDocuments() throws Exception {
        List<String[]> rows = Files.readAllLines(Host.ROOT.resolve("protocol.md")).stream()
                .map(line -> line.replaceAll("^\\| *| *\\|$", "").split(" *\\| *"))
                .filter(cells -> cells.length == 5 && cells[0].matches("\\d+"))
                .toList();
        Check.equal(Status.values().length, rows.size());
        for (String[] row : rows) {
            Status status = Status.of(Integer.parseInt(row[0]));
            Check.equal(row[1], status.name());
            Check.equal(status == Status.OK ? "" : status.isRetryable() ? "yes" : "no", row[3]);
            Check.equal(status.closes() ? "yes" : "no", row[4]);
        }
        Check.equal(Status.INTERNAL, Status.of(777));
    }

    static void idsAreTakenApart() {
        Layout.Decoded decoded = Layout.LEAF.decode((1000L << 22) | (17L << 12) | 5);
        Check.equal(new Layout.Decoded(Instant.ofEpochMilli(1_288_834_975_657L), 1000, 17, 5), decoded);
        Check.equal(1023L, Layout.LEAF.decode(Long.MAX_VALUE).worker());
        Check.throwing(IllegalArgumentException.class, "an id of this layout", () -> Layout.LEAF.decode(-1));
        Layout small = new Layout(31, 10, 12, 1000, 0);
        Check.equal(Instant.ofEpochSecond(7), small.decode(7L << 22).time());
        Check.throwing(IllegalArgumentException.class, "an id of this layout", () -> small.decode(1L << 53));
    }

    static void theFirstIdOfAMomentIsBelowAllOfItsIds() {
        Layout layout = new Layout(31, 10, 12, 1000, 5000);
        Check.equal(7L << 22, layout.firstIdAt(Instant.ofEpochMilli(12_999)));
        Check.equal(0L, layout.firstIdAt(Instant.ofEpochMilli(5000)));
        Instant now = Instant.ofEpochMilli(System.currentTimeMillis());
        Check.equal(now, Layout.LEAF.decode(Layout.LEAF.firstIdAt(now)).time());
        for (Instant time : List.of(Instant.ofEpochMilli(4999), Instant.MIN, Instant.MAX)) {
            Check.throwing(IllegalArgumentException.class, "have times from", () -> layout.firstIdAt(time));
        }
    }

    static void layoutsThatCantBeAreRefused() {
        long[][] layouts = {
            {0, 10, 12, 1, 0}, {41, 10, 0, 1, 0}, {41, -1, 12, 1, 0}, {42, 10, 12, 1, 0}, {255, 255, 255, 1, 0},
            {41, 10, 12, 0, 0}, {41, 10, 12, 3_600_001, 0}, {41, 10, 12, -1, 0}, {41, 10, 12, 1, -1},
            {41, 10, 12, 1, Long.MAX_VALUE}, {60, 1, 1, 3_600_000, 0},
        };
        for (long[] l : layouts) {
            Check.throwing(IllegalArgumentException.class, "", () ->
                    new Layout((int) l[0], (int) l[1], (int) l[2], (int) l[3], l[4]));
        }
    }

    static void runsThatLeaveThePositiveNumbersAreNone() {
        Check.that(Run.isValid(1, 1, 1), "the first id");
        Check.that(Run.isValid(Long.MAX_VALUE, 1, 0xFFFF_FFFFL), "the last id");
        Check.that(Run.isValid(1, 1_000_000, 0xFFFF_FFFFL), "a wide run");
        long[][] none = {
            {0, 1, 1}, {-5, 1, 1}, {Long.MIN_VALUE, 1, 1}, {5, 0, 1}, {5, 1, 0}, {5, 0xFFFF_FFFFL, 1},
            {Long.MAX_VALUE, 2, 1}, {Long.MAX_VALUE - 9, 3, 5}, {Long.MAX_VALUE / 2, Integer.MAX_VALUE, 0xFFFF_FFFFL},
        };
        for (long[] run : none) {
            Check.that(!Run.isValid(run[0], run[1], run[2]), Arrays.toString(run));
        }
    }

    static void theSocketIsWhereEveryClientLooks() {
        Map<String, String> all = Map.of(
                "LEAFD_SOCKET", "x.sock", "XDG_RUNTIME_DIR", "/run/user/1", "XDG_STATE_HOME", "/state", "HOME", "/home/a");
        Map<String, String> home = Map.of("LEAFD_SOCKET", "", "XDG_STATE_HOME", "relative", "HOME", "/home/a");
        String system = "/run/leafd/leafd.sock";
        String runtime = "/run/user/1/leafd/leafd.sock";
        String state = "/home/a/.local/state/leafd/leafd.sock";
        chosen("x.sock", all, true, Set.of(system));
        chosen(system, Map.of(), true, Set.of(runtime));
        chosen(state, home, false, Set.of(state, system));
        chosen(system, home, false, Set.of(system));
        chosen(state, home, false, Set.of());
        chosen(system, Map.of(), false, Set.of());
        chosen(runtime, Map.of("XDG_RUNTIME_DIR", "/run/user/1", "HOME", "/home/a"), false, Set.of());
        Check.that(SocketPath.byDefault() != null, "one's own");
    }

    private static void chosen(String expected, Map<String, String> variables, boolean isRoot, Set<String> existing) {
        Path path = SocketPath.choose(variables::get, isRoot, candidate -> existing.contains(candidate.toString()));
        Check.equal(expected, path.toString());
    }
}
