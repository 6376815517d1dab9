package io.leafd;

/**
 * Determines the size of the next run.
 *
 * <p>Snowflake ids expire within milliseconds, so their runs should last about three milliseconds at the process's
 * rate. Runs of segment ids start small, double while they are too short to request the next one in time, and shrink
 * when they last too long. A process that exits therefore skips fewer ids, on average, than it has drawn. This class
 * reads no clock.
 */
final class Sizing {
    /** The maximum number of ids in a run. */
    static final int RUN_COUNT_MAX = 65_536;

    /** Ids that may be held for less than this are short-lived. */
    static final long SHORT_HOLD_MS = 1000;

    /** The size of a tag's first run: small, because a process may draw a few ids, exit, and skip the rest. */
    private static final int FIRST = 4;

    /** The minimum size of a run of long-lived ids. */
    static final int LONG_FLOOR = 4;

    /** Runs with fewer ids are short. */
    private static final int SHORT_RUN_COUNT = 256;

    /** How long a run of short-lived ids should last. */
    private static final long SHORT_RUN_NS = 3_000_000;

    /** The minimum duration of a long-lived run: at 1,000 ids per second, fewer than one in 100 then waits for a request. */
    private static final long LONG_RUN_MIN_NS = 250_000_000;

    private static final long LONG_RUN_MAX_NS = 2_000_000_000;

    /** The largest growth in one step, because a single measurement may be wrong. */
    private static final long GROWTH_MAX = 16;

    private int wish = FIRST;

    /**
     * The thread that takes the id at this offset requests the next run. A long run is used quickly, so half of it is
     * left for the time until the answer arrives. A short run is used slowly, or its process has just started and may
     * exit soon, so the later the request, the fewer ids are skipped.
     */
    static int refillOffset(int count) {
        return count < SHORT_RUN_COUNT ? count - (count + 3) / 4 : count / 2;
    }

    /** How many ids to request now. */
    int wish() {
        return wish;
    }

    /** Learns that {@code used} ids of a run of {@code count} were used in {@code lastedNs}. */
    void observe(long holdMs, int count, int used, long lastedNs) {
        double taken = Math.max(used, 1);
        double lasted = Math.max(lastedNs, 1);
        double next;
        int floor;
        if (holdMs < SHORT_HOLD_MS) {
            floor = 1;
            next = taken * Math.min(SHORT_RUN_NS, holdMs * 1_000_000 / 2) / lasted;
        } else {
            floor = LONG_FLOOR;
            double wholeRunNs = lasted * count / taken;
            next = wholeRunNs < LONG_RUN_MIN_NS ? wish * 2.0 : wholeRunNs > LONG_RUN_MAX_NS ? wish / 2 : wish;
        }
        double ceiling = Math.max(floor, Math.min(wish * GROWTH_MAX, RUN_COUNT_MAX));
        wish = (int) Math.max(floor, Math.min(next, ceiling));
    }
}
