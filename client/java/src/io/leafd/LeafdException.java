package io.leafd;

import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Optional;

/**
 * Why a call failed: each kind is a class of its own in here.
 *
 * <p>{@link Refused} is the daemon's own answer; the client found all others. A failed call never used up an id that
 * another call could return: at most ids are skipped. Invalid arguments are
 * {@link IllegalArgumentException}, calls of a closed client {@link IllegalStateException}.
 */
public abstract sealed class LeafdException extends RuntimeException {
    private static final long serialVersionUID = 1;

    private LeafdException(String message, Throwable cause) {
        super(message, cause);
    }

    /**
     * Whether the same call may succeed later without any repair.
     *
     * @return false where somebody has to do something first
     */
    public abstract boolean isRetryable();

    /**
     * Whether the call took too long: the daemon says so, or it did not answer in time.
     *
     * @return true for {@link TimedOut}, and for {@link Refused} with {@link Status#DEADLINE}
     */
    public final boolean isTimeout() {
        return this instanceof TimedOut || status().filter(status -> status == Status.DEADLINE).isPresent();
    }

    /**
     * After how long a retry may succeed, when the daemon said so.
     *
     * @return empty if unknown
     */
    public Optional<Duration> retryAfter() {
        return Optional.empty();
    }

    /**
     * What the daemon said.
     *
     * @return empty when it was not the daemon that failed the call
     */
    public Optional<Status> status() {
        return Optional.empty();
    }

    /** The daemon answered, and refused. */
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
         * The status as it came in.
         *
         * @return a number that this client may not know; {@link #status} is {@link Status#INTERNAL} then
         */
        public int number() {
            return number;
        }
    }

    /** No connection could be made. */
    public static final class Unreachable extends LeafdException {
        private static final long serialVersionUID = 1;

        /** Whether the socket is there, and not for this user. */
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

    /** The connection broke while the call waited, and what may be retried has been. */
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
            super("leafd gave no answer within " + waitedMs
                    + " ms; try again, allow a longer deadline, or look at `systemctl status leafd` and the daemon's log", null);
        }

        @Override
        public boolean isRetryable() {
            return true;
        }
    }

    /**
     * The thread was interrupted while it waited; its interrupt status is still set. Not retryable: while the status is
     * set, each further call that waits would end in the same way.
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

    /** The peer sent something that is not leafd's protocol. */
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
