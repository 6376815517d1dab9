package io.leafd;

/**
 * How many ids the next run should have.
 *
 * <p>Where ids grow old within milliseconds (snowflake), a run is to last about three milliseconds of the rate at which the
 * process takes them. Elsewhere (segments) runs begin small, double while one lasts too short to ask for the next one in
 * time, and shrink when it lasts too long: so a process that ends skips fewer ids than it has drawn, on average. It reads
 * no clock.
 */
final class Sizing {
    /** Most ids of a run. */
    static final int RUN_COUNT_MAX = 65_536;

    /** Ids that may be held for less than this are short-lived. */
    static final long SHORT_HOLD_MS = 1000;

    /** The first run of a tag: small, as a process may draw a few ids and end, and skips what it holds then. */
    private static final int FIRST = 4;

    /** Fewest ids of a run that may be held for long. */
    static final int LONG_FLOOR = 4;

    /** Runs of fewer ids are short. */
    private static final int SHORT_RUN_COUNT = 256;

    /** How long a run of short-lived ids is to last. */
    private static final long SHORT_RUN_NS = 3_000_000;

    /** A long-lived run should last from this, so that of 1,000 ids a second fewer than one in 100 pays for asking. */
    private static final long LONG_RUN_MIN_NS = 250_000_000;

    private static final long LONG_RUN_MAX_NS = 2_000_000_000;

    /** Most growth in one step: one measurement may be off. */
    private static final long GROWTH_MAX = 16;

    private int wish = FIRST;

    /**
     * Whoever takes the id of this offset asks for the next run. A long run leaves half of itself for the answer to come in:
     * it is used by the microsecond. A short one is used slowly, or its process has just begun and may end soon; the later
     * it asks, the less is skipped then.
     */
    static int refillOffset(int count) {
        return count < SHORT_RUN_COUNT ? count - (count + 3) / 4 : count / 2;
    }

    /** How many ids to ask for now. */
    int wish() {
        return wish;
    }

    /** Learns that {@code used} ids of a run of {@code count} went in {@code lastedNs}. */
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
