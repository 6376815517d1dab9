package io.leafd;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;

/**
 * A held run. One atomic addition takes an id from it.
 *
 * <p>Each run has its own cursor, which only increases, so each id goes to one thread only, however long a thread was
 * suspended and whichever run is current afterwards.
 *
 * <p>Reading the clock costs several times as much as the addition. If a timer drops the run when it expires
 * ({@link #setExpiredElsewhere}), only every {@value #CHECK_EVERY}th id checks the clock. A process that was suspended
 * therefore uses fewer than that many expired ids.
 */
final class HeldRun {
    static final HeldRun EMPTY = new HeldRun();

    private static final int CHECK_EVERY = 64;

    private static final VarHandle ELEMENT = MethodHandles.arrayElementVarHandle(long[].class);

    /** Padding, so that the cursor shares neither its cache line nor an adjacent one with other data. */
    private static final int CURSOR_LONGS = 32;

    private static final int CURSOR = CURSOR_LONGS / 2;

    /** The number of ids in the run; when the cursor reaches it, none are left. */
    final int count;
    /** The thread that takes the id at this offset requests the next run. */
    final int refillOffset;
    final long holdMs;

    private final long first;
    private final long stride;
    /** When the ids expire. */
    final Moment expires;

    private final long[] cursor;
    /** The clock is checked at offsets where these bits are 0. A thread that sees a stale value only checks too often. */
    private int uncheckedBits;

    /** The empty run. */
    private HeldRun() {
        cursor = new long[CURSOR_LONGS];
        count = 0;
        refillOffset = -1;
        holdMs = 0;
        expires = new Moment(0, 0);
        first = stride = 1;
    }

    /**
     * Creates a run whose first {@code taken} ids are already taken.
     *
     * @param holdMs how long the daemon allows the ids to be held
     * @param expires when the ids expire
     */
    HeldRun(Run run, int taken, long holdMs, Moment expires) {
        cursor = new long[CURSOR_LONGS];
        cursor[CURSOR] = taken;
        count = run.count();
        refillOffset = Sizing.refillOffset(count);
        first = run.first();
        stride = run.stride();
        this.holdMs = holdMs;
        this.expires = expires;
    }

    /** Takes the next offset. Offsets from {@link #count} on have no id. */
    long nextOffset() {
        return (long) ELEMENT.getAndAddAcquire(cursor, CURSOR, 1L);
    }

    /** Whether the offset's id may be used: it is in the run and has not expired. */
    boolean isGood(long offset) {
        return offset < count && ((offset & uncheckedBits) != 0 || !expires.isPast());
    }

    long id(long offset) {
        return first + offset * stride;
    }

    /** How many of the ids have been taken. */
    int used() {
        return (int) Math.min(count, (long) ELEMENT.getAcquire(cursor, CURSOR));
    }

    /** Sets whether a timer drops the run when it expires. */
    void setExpiredElsewhere(boolean expired) {
        uncheckedBits = expired ? CHECK_EVERY - 1 : 0;
    }
}
