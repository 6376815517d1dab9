package io.leafd;

import java.time.Duration;

/** Until when a call may take. All times are those of {@link System#nanoTime}. */
final class Deadline {
    /** How much longer than the deadline that the daemon was told a client waits for the daemon's own word on it. */
    private static final long GRACE_NS = 250_000_000;

    private static final Duration LIMIT_MAX = Duration.ofMillis(Wire.DEADLINE_MS_MAX);

    /** Longest wait for a daemon that isn't there. */
    private static final Duration WAIT_MAX = Duration.ofHours(1);

    private final long startNs = System.nanoTime();
    private final Limit limit;
    private long endNs;

    /**
     * How long a call may take.
     *
     * @param ns from 0
     * @param waitNs how long it waits for a daemon that isn't there, before the other time begins to count
     */
    record Limit(long ns, long waitNs) {
        /** Of times that can be: longer ones than the daemon honours, or than anybody waits, are cut to that. */
        static Limit of(Duration limit, Duration wait) {
            return new Limit(ns(limit, LIMIT_MAX), ns(wait, WAIT_MAX));
        }

        static Limit of(Duration limit) {
            return of(limit, Duration.ZERO);
        }

        private static long ns(Duration time, Duration max) {
            if (Argument.given(time, "the time that a call may take").isNegative()) {
                throw new IllegalArgumentException("a call takes no negative time: " + time);
            }
            return time.compareTo(max) > 0 ? max.toNanos() : time.toNanos();
        }

        /** As the wire has it, in milliseconds. */
        int ms() {
            return roundedUpMs(ns);
        }
    }

    private Deadline(Limit limit) {
        this.limit = limit;
        endNs = startNs + limit.ns;
    }

    /** From now on. */
    static Deadline after(Limit limit) {
        return new Deadline(limit);
    }

    /** Whether the call waits for a daemon that never was there. */
    boolean waits() {
        return limit.waitNs > 0;
    }

    /** When there has to be a connection. */
    long connectByNs() {
        return startNs + Math.max(limit.waitNs, limit.ns);
    }

    /**
     * There is a connection, made at that time: the time that the daemon has for its answer counts from then if the call waited
     * for it.
     */
    void connected(long atNs) {
        if (waits() && atNs + limit.ns - endNs > 0) {
            endNs = atNs + limit.ns;
        }
    }

    /** When the client stops to wait for the daemon's word. */
    long endOfGraceNs() {
        return endNs + GRACE_NS;
    }

    /** When a call stops to wait for another thread, which may be waiting for a connection. */
    long lastMomentNs() {
        return waits() ? connectByNs() + limit.ns + GRACE_NS : endOfGraceNs();
    }

    boolean isOver() {
        return System.nanoTime() - endNs >= 0;
    }

    /** What is left, as the wire has it: in milliseconds, rounded up. */
    int leftMs() {
        return roundedUpMs(Math.max(0, endNs - System.nanoTime()));
    }

    private static int roundedUpMs(long ns) {
        return (int) ((ns + 999_999) / 1_000_000);
    }

    /** The error of a call that waited until it was over. */
    LeafdException.TimedOut missed() {
        return new LeafdException.TimedOut((System.nanoTime() - startNs) / 1_000_000);
    }
}
