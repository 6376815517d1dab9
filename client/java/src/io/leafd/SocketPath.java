package io.leafd;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Objects;
import java.util.function.Predicate;
import java.util.function.UnaryOperator;
import java.util.stream.Stream;

/**
 * The default path of the daemon's socket: that of this user's daemon, or of the system's.
 *
 * <ol>
 *   <li>{@code $LEAFD_SOCKET}, if it is not empty;
 *   <li>for root {@code /run/leafd/leafd.sock}, where root's daemon listens;
 *   <li>the user's own, if it exists: {@code leafd/leafd.sock} in {@code $XDG_RUNTIME_DIR}, or in the state directory:
 *       {@code $XDG_STATE_HOME}, else {@code ~/.local/state};
 *   <li>{@code /run/leafd/leafd.sock}, if it exists;
 *   <li>the first path of step 3, where this user's daemon would listen; without a home directory,
 *       {@code /run/leafd/leafd.sock}.
 * </ol>
 */
final class SocketPath {
    /** The longest path that fits into the system's address structure. */
    private static final int BYTES_MAX = 107;

    private static final Duration JUST_NOW = Duration.ofSeconds(10);

    private static final Path SYSTEM = Path.of("/run/leafd/leafd.sock");
    private static final String FOLDER_AND_NAME = "leafd/leafd.sock";

    private SocketPath() {}

    static Path byDefault() {
        return choose(System::getenv, isRoot(), Files::exists);
    }

    static Path choose(UnaryOperator<String> variable, boolean isRoot, Predicate<Path> exists) {
        String said = variable.apply("LEAFD_SOCKET");
        if (said != null && !said.isEmpty()) {
            return Path.of(said);
        }
        if (isRoot) {
            return SYSTEM;
        }
        Path home = absolute(variable.apply("HOME"));
        Path ofHome = home == null ? null : home.resolve(".local/state");
        Path state = absolute(variable.apply("XDG_STATE_HOME"));
        // Both are tried, because cron and su start daemons without a runtime directory.
        List<Path> own = Stream.of(absolute(variable.apply("XDG_RUNTIME_DIR")), state == null ? ofHome : state)
                .filter(Objects::nonNull)
                .map(folder -> folder.resolve(FOLDER_AND_NAME))
                .toList();
        Stream<Path> known = Stream.concat(own.stream(), Stream.of(SYSTEM));
        return known.filter(exists).findFirst().orElse(own.isEmpty() ? SYSTEM : own.get(0));
    }

    /** As the XDG base directory specification requires, variables that are not absolute paths are ignored. */
    private static Path absolute(String value) {
        return value != null && value.startsWith("/") ? Path.of(value) : null;
    }

    private static boolean isRoot() {
        try (Stream<String> lines = Files.lines(Path.of("/proc/self/status"))) {
            // The line lists the real, effective, saved and file system user.
            return lines.anyMatch(line -> line.matches("Uid:\\s+\\d+\\s+0\\s.*"));
        } catch (IOException | java.io.UncheckedIOException e) {
            // Without /proc, the user's name decides.
            return "root".equals(System.getProperty("user.name"));
        }
    }

    /**
     * Whether a daemon's socket was removed recently: its lock file remains, and the directory has just changed.
     */
    static boolean hasJustGone(Path socket) {
        Path folder = socket.toAbsolutePath().getParent();
        try {
            Instant changed = Files.getLastModifiedTime(folder).toInstant();
            return changed.plus(JUST_NOW).isAfter(Instant.now()) && Files.exists(Path.of(socket + ".lock"));
        } catch (IOException e) {
            return false;
        }
    }

    /** Checks that a socket can have this path. */
    static Path check(Path path) {
        int bytes = path.toString().getBytes(StandardCharsets.UTF_8).length;
        if (bytes < 1 || bytes > BYTES_MAX) {
            throw new IllegalArgumentException(
                    "a socket path must have 1 to " + BYTES_MAX + " bytes; this one has " + bytes + ": " + path);
        }
        return path;
    }
}
