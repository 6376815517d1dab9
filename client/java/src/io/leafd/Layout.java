package io.leafd;

import java.time.Instant;

/**
 * The composition of snowflake ids: a sign bit of 0, then time, worker and sequence.
 *
 * <p>Time counts ticks of {@code tickMs} milliseconds since the epoch.
 *
 * @param timeBits bits of the time field, from 1
 * @param workerBits bits of the worker field, from 0
 * @param sequenceBits bits of the sequence field, from 1; at most 63 with the other two
 * @param tickMs the length of a tick in milliseconds, 1 to 3,600,000
 * @param epochMs the epoch, at which tick 0 starts, in milliseconds of Unix time
 */
public record Layout(int timeBits, int workerBits, int sequenceBits, int tickMs, long epochMs) {
    /**
     * Leaf's own layout: 41 bits for the milliseconds since 2010-11-04T01:42:54.657Z, 10 for the worker and 12 for the
     * sequence.
     */
    public static final Layout LEAF = new Layout(41, 10, 12, 1, 1_288_834_974_657L);

    private static final int TICK_MS_MAX = 3_600_000;

    /**
     * Creates a valid layout.
     *
     * @throws IllegalArgumentException if its ids would not be positive, or its times don't fit into a long in
     *     milliseconds
     */
    public Layout {
        if (timeBits < 1 || workerBits < 0 || sequenceBits < 1 || (long) timeBits + workerBits + sequenceBits > 63) {
            throw new IllegalArgumentException(
                    "a layout has at least one bit of time and of sequence, and at most 63 in all; these are "
                            + timeBits + ", " + workerBits + " and " + sequenceBits);
        }
        if (tickMs < 1 || tickMs > TICK_MS_MAX) {
            throw new IllegalArgumentException("a tick lasts 1 to " + TICK_MS_MAX + " ms, not " + tickMs);
        }
        // Half the range, so that arithmetic on instants can't overflow.
        if (epochMs < 0 || epochMs > Long.MAX_VALUE / 2
                || 1L << timeBits > (Long.MAX_VALUE / 2 - epochMs) / tickMs) {
            throw new IllegalArgumentException("the time bits reach beyond the last instant that can be represented");
        }
    }

    /**
     * The parts of a snowflake id.
     *
     * @param time the start of its tick
     * @param tick ticks since the layout's epoch
     * @param worker the worker that issued it
     * @param sequence its sequence number within its tick and worker
     */
    public record Decoded(Instant time, long tick, long worker, long sequence) {}

    /**
     * Decodes an id.
     *
     * @param id an id of this layout
     * @return its parts
     * @throws IllegalArgumentException if the id is negative or has bits above those of the layout
     */
    public Decoded decode(long id) {
        long tick = id >>> (workerBits + sequenceBits);
        if (id < 0 || tick >= 1L << timeBits) {
            throw new IllegalArgumentException(id + " can't be an id of this layout: it has bits above the layout's");
        }
        long worker = (id >>> sequenceBits) & ((1L << workerBits) - 1);
        long sequence = id & ((1L << sequenceBits) - 1);
        return new Decoded(Instant.ofEpochMilli(epochMs + tick * tickMs), tick, worker, sequence);
    }

    /**
     * Returns the smallest id that can be issued at a given time or later, for range queries by time.
     *
     * @param time from the layout's epoch to the end of its time bits
     * @return the id, which need not have been issued
     * @throws IllegalArgumentException if the time is outside the layout's range
     */
    public long firstIdAt(Instant time) {
        Instant from = Instant.ofEpochMilli(epochMs);
        Instant to = Instant.ofEpochMilli(epochMs + (1L << timeBits) * tickMs - 1);
        if (Argument.given(time, "a moment").isBefore(from) || time.isAfter(to)) {
            throw new IllegalArgumentException("this layout's ids have times from " + from + " to " + to + ", not " + time);
        }
        // The tick that contains the time, because its ids may be issued until it ends.
        long tick = (time.toEpochMilli() - epochMs) / tickMs;
        return tick << (workerBits + sequenceBits);
    }
}
