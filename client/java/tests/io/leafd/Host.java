package io.leafd;

import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/** A directory with a real daemon, which never outlives the tests. */
final class Host implements AutoCloseable {
    static final Path ROOT = Path.of("").toAbsolutePath();

    private static final Path BINARIES = Path.of(System.getenv("TESTED_BINARIES"));
    private static final Duration READY_WITHIN = Duration.ofSeconds(30);

    private final Path folder;
    private Process daemon;

    /** Creates a host without a daemon. */
    Host() throws IOException {
        folder = Files.createTempDirectory("leafd-java-");
        Files.createDirectory(folder.resolve("locks"));
    }

    /** Creates a host whose daemon serves the tag {@code orders}. */
    static Host serving() throws Exception {
        Host host = new Host();
        host.start();
        host.leafctl("tag", "create", "orders");
        return host;
    }

    Path socket() {
        return folder.resolve("s");
    }

    Path folder() {
        return folder;
    }

    LeafdClient client() {
        return LeafdClient.connect(socket());
    }

    /** Starts the daemon, with settings such as {@code name=value}. */
    void start(String... settings) throws IOException {
        List<String> command = new ArrayList<>(List.of(
                // The signal is sent when the parent thread exits. Tests start daemons only in their main thread.
                "setpriv", "--pdeathsig", "KILL",
                BINARIES.resolve("leafd").toString(),
                "--socket", socket().toString(),
                "--state-dir", folder.resolve("state").toString(),
                "--worker", "static:17",
                "--set", "worker_lock_dir=" + folder.resolve("locks")));
        for (String setting : settings) {
            command.addAll(List.of("--set", setting));
        }
        File log = folder.resolve("log").toFile();
        daemon = builder(command).redirectErrorStream(true).redirectOutput(ProcessBuilder.Redirect.appendTo(log)).start();
        LeafdClient.builder().socket(socket()).deadline(READY_WITHIN).waitForDaemon(READY_WITHIN).connect().close();
    }

    private static ProcessBuilder builder(List<String> command) {
        ProcessBuilder builder = new ProcessBuilder(command);
        // Variables with this prefix are the daemon's settings.
        builder.environment().keySet().removeIf(name -> name.startsWith("LEAFD_"));
        return builder;
    }

    /** Stops the daemon as its service manager would. */
    void stop() throws Exception {
        daemon.destroy();
        Check.that(daemon.waitFor(20, TimeUnit.SECONDS), "the daemon does not stop");
        Check.equal(0, daemon.exitValue());
    }

    void kill() {
        daemon.destroyForcibly().onExit().join();
    }

    /** Sends the daemon a signal, such as STOP. */
    void signal(String name) throws Exception {
        Check.equal(0, new ProcessBuilder("kill", "-" + name, String.valueOf(daemon.pid())).start().waitFor());
    }

    /** Starts a program in another language that uses this host's daemon. Its output is the process's output. */
    Process program(String... command) throws IOException {
        ProcessBuilder builder = builder(List.of(command));
        builder.environment().put("LEAFD_SOCKET", socket().toString());
        return builder.redirectError(ProcessBuilder.Redirect.INHERIT).start();
    }

    /** Starts leafctl. */
    Process leafctlStarted(String... arguments) throws IOException {
        List<String> command = new ArrayList<>(List.of(BINARIES.resolve("leafctl").toString()));
        command.addAll(List.of(arguments));
        return program(command.toArray(String[]::new));
    }

    /** Runs leafctl, and returns its output. */
    String leafctl(String... arguments) throws Exception {
        Process process = leafctlStarted(arguments);
        String said = new String(process.getInputStream().readAllBytes());
        Check.equal(0, process.waitFor());
        return said;
    }

    @Override
    public void close() throws IOException {
        if (daemon != null) {
            kill();
        }
        try (Stream<Path> files = Files.walk(folder)) {
            files.sorted(Comparator.reverseOrder()).forEach(Host::delete);
        }
    }

    private static void delete(Path file) {
        try {
            Files.deleteIfExists(file);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
