package io.leafd;

import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Optional;

/**
 * The error of a failed call. Each kind of failure is a nested class.
 *
 * <p>{@link Refused} is an error of the daemon; all others come from the client. A failed call may skip ids, but an id that
 * it drew is never returned by another call. Invalid arguments cause an {@link IllegalArgumentException}, and
 * calls on a closed client an {@link IllegalStateException}.
 */
public abstract sealed class LeafdException extends RuntimeException {
    private static final long serialVersionUID = 1;

    private LeafdException(String message, Throwable cause) {
        super(message, cause);
    }

    /**
     * Returns whether the same call may succeed later without any other action.
     *
     * @return false if something must be fixed first
     */
    public abstract boolean isRetryable();

    /**
     * Returns whether the call timed out: the daemon reported it, or did not answer in time.
     *
     * @return true for {@link TimedOut}, and for {@link Refused} with {@link Status#DEADLINE}
     */
    public final boolean isTimeout() {
        return this instanceof TimedOut || status().filter(status -> status == Status.DEADLINE).isPresent();
    }

    /**
     * Returns the time after which a retry may succeed, if the daemon knows it.
     *
     * @return empty if unknown
     */
    public Optional<Duration> retryAfter() {
        return Optional.empty();
    }

    /**
     * Returns the daemon's status.
     *
     * @return empty if the error is not from the daemon
     */
    public Optional<Status> status() {
        return Optional.empty();
    }

    /** The daemon refused the request. */
    public static final class Refused extends LeafdException {
        private static final long serialVersionUID = 1;

        private final int number;
        private final long retryAfterMs;

        Refused(int number, long retryAfterMs, String explanation) {
            super(text(number, retryAfterMs, explanation), null);
            this.number = number;
            this.retryAfterMs = retryAfterMs;
        }

        private static String text(int number, long retryAfterMs, String explanation) {
            Status status = Status.of(number);
            String unknown = Status.isKnown(number) ? "" : " (status " + number + ", unknown to this client)";
            String colon = explanation.isEmpty() ? "" : ": ";
            String after = retryAfterMs == 0 ? "" : " (a retry may succeed in " + retryAfterMs + " ms)";
            return "leafd answered " + status + unknown + colon + explanation + after;
        }

        @Override
        public boolean isRetryable() {
            return Status.of(number).isRetryable();
        }

        @Override
        public Optional<Duration> retryAfter() {
            return retryAfterMs == 0 ? Optional.empty() : Optional.of(Duration.ofMillis(retryAfterMs));
        }

        @Override
        public Optional<Status> status() {
            return Optional.of(Status.of(number));
        }

        /**
         * Returns the status number as received.
         *
         * @return the number; if this client doesn't know it, {@link #status} is {@link Status#INTERNAL}
         */
        public int number() {
            return number;
        }
    }

    /** The connection failed. */
    public static final class Unreachable extends LeafdException {
        private static final long serialVersionUID = 1;

        /** Whether the socket exists, but this user may not use it. */
        private final boolean denied;

        Unreachable(Path socket, String hint, boolean denied, IOException cause) {
            super("can't connect to leafd at " + socket + ": " + cause.getMessage() + "; " + hint, cause);
            this.denied = denied;
        }

        @Override
        public boolean isRetryable() {
            return !denied;
        }
    }

    /** The connection broke while the call waited, and the connections of all retries broke too. */
    public static final class Disconnected extends LeafdException {
        private static final long serialVersionUID = 1;

        Disconnected(Path socket, String why, Throwable cause) {
            super("the connection to leafd at " + socket + " broke before the answer came: " + why
                    + "; the daemon may be restarting, check its log", cause);
        }

        @Override
        public boolean isRetryable() {
            return true;
        }
    }

    /** No answer came within the deadline. */
    public static final class TimedOut extends LeafdException {
        private static final long serialVersionUID = 1;

        TimedOut(long waitedMs) {
            super("leafd did not answer within " + waitedMs
                    + " ms; retry, allow a longer deadline, or check `systemctl status leafd` and the daemon's log", null);
        }

        @Override
        public boolean isRetryable() {
            return true;
        }
    }

    /**
     * The thread was interrupted while it waited; its interrupt status is still set. Not retryable, because further
     * waiting calls would fail in the same way while the status is set.
     */
    public static final class Interrupted extends LeafdException {
        private static final long serialVersionUID = 1;

        Interrupted() {
            super("the thread was interrupted while it waited for leafd", null);
        }

        @Override
        public boolean isRetryable() {
            return false;
        }
    }

    /** The peer doesn't follow leafd's protocol. */
    public static final class ProtocolBroken extends LeafdException {
        private static final long serialVersionUID = 1;

        ProtocolBroken(String what) {
            super("the peer broke leafd's protocol: " + what
                    + "; check that the socket is leafd's and that client and daemon have matching versions", null);
        }

        @Override
        public boolean isRetryable() {
            return false;
        }
    }
}
