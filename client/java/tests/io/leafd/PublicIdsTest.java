package io.leafd;

import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.stream.LongStream;

/** Tests public ids: masking and unmasking by the real daemon, and refusals. */
final class PublicIdsTest {
    private static final String KEY = "000102030405060708090a0b0c0d0e0f";
    private static final String OTHER_KEY = "f0e0d0c0b0a090807060504030201000";
    private static final long[] IDS = LongStream.concat(LongStream.rangeClosed(1, 600), LongStream.of((1L << 53) - 1)).toArray();

    private PublicIdsTest() {}

    private static Path write(Host host, String keys) throws Exception {
        Path file = host.folder().resolve("mask_keys");
        Files.writeString(file, keys);
        return Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rw-------"));
    }

    /** Creates a host with the key of the protocol's vectors. */
    private static Host masking() throws Exception {
        Host host = new Host();
        host.start("mask_key_file=" + write(host, "1 " + KEY + "\n"), "socket_mode=0666");
        return host;
    }

    private static LeafdException.Refused refused(Status status, String words, Check.Code code) {
        LeafdException.Refused refused = Check.throwing(LeafdException.Refused.class, words, code);
        Check.equal(status, refused.status().orElseThrow());
        Check.that(!refused.isRetryable(), "the error is not retryable");
        return refused;
    }

    static void idsAreMaskedAndComeBack() throws Exception {
        try (Host host = masking();
                LeafdClient client = host.client()) {
            Check.equal(7_414_752_538_351_631_688L, client.publicIds("orders").mask(17)[0]);
            Check.equal(List.of("ord_16p14s38ca3hx"), client.publicIds("orders").prefix("ord").bits(53).maskText(17));
            PublicIds orders = client.publicIds("orders").within(Duration.ofSeconds(30));
            for (PublicIds form : List.of(orders, orders.bits(53), orders.key(1).prefix("a23456789_b23456789_c23456789_d2"))) {
                long[] numbers = form.mask(IDS);
                Check.unique(IDS.length, List.of(numbers));
                Check.that(Arrays.equals(IDS, form.unmask(numbers)), "numbers come back: " + form);
                List<String> texts = form.maskText(IDS);
                Check.that(Arrays.equals(IDS, form.unmaskText(texts)), "texts come back: " + form);
                Check.equal(1L, form.unmaskText(texts.get(0)));
                Check.equal(0, form.mask().length + form.unmaskText(List.of()).length);
            }
            // All threads can use one converter.
            Check.inVirtualThreads(50, () -> {
                Check.that(Arrays.equals(IDS, orders.unmaskText(orders.maskText(IDS))), "in threads");
                return null;
            });
            host.stop();
            write(host, "1 " + KEY + "\n");
            host.start("mask_key_file=" + host.folder().resolve("mask_keys"));
            Check.equal(17L, orders.unmask(7_414_752_538_351_631_688L)[0]);
        }
    }

    static void whatIsNoPublicIdIsRefusedInWords() throws Exception {
        try (Host host = masking();
                LeafdClient client = host.client()) {
            PublicIds orders = client.publicIds("orders").prefix("ord").bits(53);
            String good = orders.maskText(17).get(0);
            String[][] wrong = {
                {good.substring(0, good.length() - 1) + (good.endsWith("y") ? "z" : "y"), "mistyped"},
                {good + "\0", "long"},
                {good.substring(0, good.length() - 1) + "!", "digit"},
                {good.substring(0, good.length() - 2) + "é", "digit"},
                {"cus" + good.substring(3), "prefix"},
                {"", "prefix"},
                {"ord_" + "1".repeat(1000), "long"},
            };
            for (String[] one : wrong) {
                refused(Status.VALUE_REFUSED, one[1], () -> orders.unmaskText(List.of(good, one[0])));
            }
            refused(Status.VALUE_REFUSED, "9007199254740992", () -> orders.mask(1, 1L << 53));
            for (long none : new long[] {0, -1, 1L << 53}) {
                refused(Status.VALUE_REFUSED, "", () -> orders.mask(none));
                refused(Status.VALUE_REFUSED, "", () -> orders.unmask(none));
            }
            refused(Status.VALUE_REFUSED, "bits", () -> orders.bits(19).mask(17));
            refused(Status.VALUE_REFUSED, "prefix", () -> orders.prefix("9th").maskText(17));
            refused(Status.VALUE_REFUSED, "31", () -> orders.key(32).mask(17));
            refused(Status.MASK_KEY, "mask key 2", () -> orders.key(2).mask(17));
            Check.throwing(IllegalArgumentException.class, "300", () -> orders.bits(300));
            Check.throwing(IllegalArgumentException.class, "-1", () -> orders.key(-1));
            Check.throwing(IllegalArgumentException.class, "256", () -> orders.prefix("a".repeat(256)));
            Check.throwing(IllegalArgumentException.class, "characters", () -> client.publicIds(""));
            LeafdClient closed = host.client();
            PublicIds late = closed.publicIds("orders");
            closed.close();
            Check.throwing(IllegalStateException.class, "closed", () -> late.mask(17));
        }
    }

    static void aKeyThatIsRetiredOrMissingIsTold() throws Exception {
        try (Host host = masking();
                LeafdClient client = host.client()) {
            PublicIds orders = client.publicIds("orders");
            String text = orders.maskText(17).get(0);
            long number = orders.mask(17)[0];
            write(host, "2 " + OTHER_KEY + "\n1 " + KEY + "\n");
            host.signal("HUP");
            Check.eventually("the new key is in use", () -> orders.maskText(17).get(0).startsWith("2"));
            Check.equal(17L, orders.unmaskText(text));
            Check.equal(17L, orders.key(1).unmask(number)[0]);
            write(host, "2 " + OTHER_KEY + "\n");
            host.signal("HUP");
            Check.eventually("the old key is gone", () -> {
                try {
                    return orders.unmaskText(text) < 0;
                } catch (LeafdException.Refused e) {
                    return e.status().orElseThrow() == Status.VALUE_REFUSED && e.getMessage().contains("mask key 1");
                }
            });
            refused(Status.MASK_KEY, "mask key 1", () -> orders.key(1).unmask(number));
        }
        try (Host host = Host.serving();
                LeafdClient client = host.client()) {
            refused(Status.MASK_KEY, "leafd mask-key new", () -> client.publicIds("orders").mask(17));
        }
    }

    /** Tests the error for another user's process; see {@link #main}. */
    static void aUserWithoutTheRightIsTold() throws Exception {
        try (Host host = masking()) {
            // The other user may not be able to read the original files, so it gets copies.
            Files.setPosixFilePermissions(host.folder(), PosixFilePermissions.fromString("rwxr-xr-x"));
            String[] path = System.getProperty("java.class.path").split(":");
            Path jar = Files.copy(Path.of(path[0]), host.folder().resolve("client.jar"));
            Path program = host.folder().resolve("io/leafd/PublicIdsTest.class");
            Files.createDirectories(program.getParent());
            Files.copy(Path.of(path[path.length - 1], "io/leafd/PublicIdsTest.class"), program);
            Process stranger = host.program(
                    "setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups",
                    Path.of(System.getProperty("java.home"), "bin/java").toString(),
                    "-cp", jar + ":" + host.folder(), PublicIdsTest.class.getName());
            String said = new String(stranger.getInputStream().readAllBytes());
            Check.equal(0, stranger.waitFor());
            Check.that(said.startsWith("DENIED ") && said.contains("unmask_uids"), said);
        }
    }

    /** Prints the result of masking. */
    public static void main(String[] arguments) {
        try (LeafdClient client = LeafdClient.connect()) {
            System.out.println(client.publicIds("orders").maskText(17));
        } catch (LeafdException.Refused e) {
            System.out.println(e.status().orElseThrow() + " " + e.getMessage());
        }
    }

    static void answersThatAreNoneAreTold() throws Exception {
        byte[][] bodies = {
            {}, {1, 0, 8}, {1, 0, 8, 0}, {1, 0, 0, 0}, {2, 0, 8, 0, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8},
            {1, 0, 7, 0, 1, 2, 3, 4, 5, 6, 7}, {1, 0, 8, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, {-1, -1, -1, -1},
        };
        for (byte[] body : bodies) {
            try (Stranger stranger = new Stranger();
                    LeafdClient client = stranger.builder().build()) {
                stranger.answer = request -> Stranger.reply(request, 0, body);
                Check.throwing(LeafdException.ProtocolBroken.class, "protocol", () -> client.publicIds("orders").unmask(17));
            }
        }
    }

    static void theCodecWritesAndReadsTheVectors() throws Exception {
        int checked = 0;
        for (VectorsTest.Part vector : VectorsTest.parts("masked")) {
            VectorsTest.Part request = vector.part("request");
            boolean masks = request.text("message").equals("MASK");
            byte[] prefix = request.has("prefix") ? request.text("prefix").getBytes() : null;
            ByteBuffer items = Stranger.buffer(100);
            if (masks) {
                items.putLong(17);
            } else {
                byte[] text = "ord_16p14s38ca3hx".getBytes();
                items.put((byte) text.length).put(text);
            }
            ByteBuffer out = Stranger.buffer(200);
            Wire.putMask(
                    out, (int) request.number("request_id"), masks ? Wire.MASK : Wire.UNMASK, (int) request.number("bits"),
                    (int) request.number("key"), request.text("tag").getBytes(), prefix, 1,
                    Arrays.copyOf(items.array(), items.position()));
            byte[] written = Arrays.copyOf(out.array(), out.position());
            Check.that(Arrays.equals(vector.bytes("send"), written), vector.text("name") + ": " + Arrays.toString(written));
            checked++;
        }
        Check.equal(3, checked);
    }
}
