package io.leafd;

/**
 * Decides when a waiting thread polls the socket for a moment before it sleeps.
 *
 * <p>Waking a sleeping core costs more than the rest of a round trip, so polling pays off while requests are sent back
 * to back and the daemon polls too. Otherwise it wastes a core that others could use, above all the daemon. Polling is
 * therefore limited, and each failed poll turns it off for a growing number of requests. Each connection has its own
 * policy, which reads no clock.
 */
final class Polling {
    /** Longest poll, and the longest pause between an answer and the next request that still counts as back to back. */
    static final long WINDOW_NS = 100_000;

    /** How many requests skip polling after the first failed poll, and at most after many failed polls. */
    private static final int PENALTY_MIN = 8;

    private static final int PENALTY_MAX = 4096;

    private final boolean allowed;
    private boolean daemonAwake;
    private boolean answered;
    private long answeredNs;
    /** How many more requests must not poll. */
    private int rest;

    private int penalty;

    Polling(boolean allowed) {
        this.allowed = allowed;
    }

    /** Whether a request that is sent now should poll for its answer. */
    boolean begin(long nowNs) {
        if (!allowed || !answered || nowNs - answeredNs >= WINDOW_NS) {
            return false;
        }
        // Counted even if the daemon is asleep: it falls asleep while this client pauses, and the two must not wait for each
        // other.
        if (rest > 0) {
            rest--;
            return false;
        }
        return daemonAwake;
    }

    /** Records whether a poll found an answer. */
    void end(boolean hit) {
        if (hit) {
            penalty /= 2;
        } else {
            penalty = Math.max(PENALTY_MIN, Math.min(penalty * 2, PENALTY_MAX));
            rest = penalty;
        }
    }

    /** Records that an answer arrived. */
    void answered(long nowNs, boolean daemonAwake) {
        this.daemonAwake = daemonAwake;
        answered = true;
        answeredNs = nowNs;
    }
}
