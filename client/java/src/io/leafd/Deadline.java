package io.leafd;

import java.time.Duration;

/** The deadline of a call. All times are those of {@link System#nanoTime}. */
final class Deadline {
    /** How much longer than the daemon's deadline a client waits, so that the daemon's error can arrive. */
    private static final long GRACE_NS = 250_000_000;

    private static final Duration LIMIT_MAX = Duration.ofMillis(Wire.DEADLINE_MS_MAX);

    /** The longest wait for a missing daemon. */
    private static final Duration WAIT_MAX = Duration.ofHours(1);

    private final long startNs = System.nanoTime();
    private final Limit limit;
    private long endNs;

    /**
     * How long a call may take.
     *
     * @param ns the limit in nanoseconds, from 0
     * @param waitNs how long the call waits for a missing daemon before that limit starts, in nanoseconds
     */
    record Limit(long ns, long waitNs) {
        /** Limits above the maximums are capped. */
        static Limit of(Duration limit, Duration wait) {
            return new Limit(ns(limit, LIMIT_MAX), ns(wait, WAIT_MAX));
        }

        static Limit of(Duration limit) {
            return of(limit, Duration.ZERO);
        }

        private static long ns(Duration time, Duration max) {
            if (Argument.given(time, "the time that a call may take").isNegative()) {
                throw new IllegalArgumentException("a time limit can't be negative: " + time);
            }
            return time.compareTo(max) > 0 ? max.toNanos() : time.toNanos();
        }

        /** The limit in milliseconds, for the wire. */
        int ms() {
            return roundedUpMs(ns);
        }
    }

    private Deadline(Limit limit) {
        this.limit = limit;
        endNs = startNs + limit.ns;
    }

    /** Starts the deadline now. */
    static Deadline after(Limit limit) {
        return new Deadline(limit);
    }

    /** Whether the call waits for a daemon that has never run. */
    boolean waits() {
        return limit.waitNs > 0;
    }

    /** The time by which the client must be connected. */
    long connectByNs() {
        return startNs + Math.max(limit.waitNs, limit.ns);
    }

    /**
     * Records when the connection was made. If the call waited for it, the daemon's time to answer starts then.
     */
    void connected(long atNs) {
        if (waits() && atNs + limit.ns - endNs > 0) {
            endNs = atNs + limit.ns;
        }
    }

    /** The time at which the client stops waiting for the daemon's answer. */
    long endOfGraceNs() {
        return endNs + GRACE_NS;
    }

    /** The time at which a call stops waiting for another thread, which may be waiting for a connection. */
    long lastMomentNs() {
        return waits() ? connectByNs() + limit.ns + GRACE_NS : endOfGraceNs();
    }

    boolean isOver() {
        return System.nanoTime() - endNs >= 0;
    }

    /** The time left for the wire: in milliseconds, rounded up. */
    int leftMs() {
        return roundedUpMs(Math.max(0, endNs - System.nanoTime()));
    }

    private static int roundedUpMs(long ns) {
        return (int) ((ns + 999_999) / 1_000_000);
    }

    /** The error of a call that timed out. */
    LeafdException.TimedOut missed() {
        return new LeafdException.TimedOut((System.nanoTime() - startNs) / 1_000_000);
    }
}
