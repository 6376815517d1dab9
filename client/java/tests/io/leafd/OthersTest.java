package io.leafd;

import java.io.BufferedReader;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.stream.LongStream;

/** Java and the clients of other processes and languages share a daemon that restarts, and no id repeats. */
final class OthersTest {
    private static final int EACH = 20_000;

    private OthersTest() {}

    private static CompletableFuture<long[]> read(Process process) {
        return CompletableFuture.supplyAsync(() -> {
            try (BufferedReader lines = process.inputReader()) {
                long[] ids = lines.lines().mapToLong(Long::parseLong).toArray();
                Check.equal(0, process.waitFor());
                return ids;
            } catch (IOException | InterruptedException e) {
                throw new AssertionError(e);
            }
        });
    }

    /** The Python client in {@code protocol.md}. */
    private static Path python(Path folder) throws IOException {
        String document = Files.readString(Host.ROOT.resolve("protocol.md"));
        int begin = document.indexOf("```python\n") + "```python\n".length();
        return Files.writeString(folder.resolve("client.py"), document.substring(begin, document.indexOf("```", begin)));
    }

    static void processesOfThreeLanguagesShareNoId() throws Exception {
        try (Host host = Host.serving();
                LeafdClient client = LeafdClient.builder()
                        .socket(host.socket())
                        .deadline(java.time.Duration.ofSeconds(30))
                        .connect()) {
            String program = python(host.folder()).toString();
            List<CompletableFuture<long[]>> others = new ArrayList<>();
            CompletableFuture<List<long[]>> java = CompletableFuture.supplyAsync(() -> {
                try {
                    return Check.inThreads(3, () ->
                            LongStream.generate(() -> client.nextId("orders")).limit(10 * EACH).toArray());
                } catch (Exception e) {
                    throw new AssertionError(e);
                }
            });
            String count = String.valueOf(EACH);
            for (int number = 0; number < 3; number++) {
                others.add(read(host.leafctlStarted("next", "orders", "-n", count)));
                others.add(read(host.program("python3", program, "orders", String.valueOf(EACH / 10))));
            }
            List<long[]> drawn = new ArrayList<>(java.get());
            drawn.add(client.nextIds("orders", EACH));
            host.stop();
            host.start();
            for (CompletableFuture<long[]> other : others) {
                drawn.add(other.get());
            }
            drawn.add(client.nextIds("orders", EACH));
            Check.unique(30L * EACH + 3L * EACH + 3L * EACH / 10 + 2L * EACH, drawn);
        }
    }
}
