package io.leafd;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;

/**
 * A run that the process holds, and taking an id of it by one atomic addition.
 *
 * <p>A run counts in a cursor of its own that only goes up, so each of its ids is handed to one thread only, however long
 * a thread slept in between and whichever run is the current one then.
 *
 * <p>Reading the clock costs several times what the addition does. So where {@link #setExpiredElsewhere} says that a timer drops
 * the run when its time is over, only every {@value #CHECK_EVERY}th id looks at the clock: what a process can use late, when
 * all of it was paused until then, is fewer ids than that.
 */
final class HeldRun {
    static final HeldRun EMPTY = new HeldRun();

    private static final int CHECK_EVERY = 64;

    private static final VarHandle ELEMENT = MethodHandles.arrayElementVarHandle(long[].class);

    /** A cache line and its neighbour on both sides of the cursor are nobody else's. */
    private static final int CURSOR_LONGS = 32;

    private static final int CURSOR = CURSOR_LONGS / 2;

    /** Ids in the run; none are left when the cursor is there. */
    final int count;
    /** When the id of this offset is taken, it is time to ask for the next run. */
    final int refillOffset;
    final long holdMs;

    private final long first;
    private final long stride;
    /** When the ids are too old. */
    final Moment expires;

    private final long[] cursor;
    /** Of which offsets these bits are 0, the clock is looked at. A thread that sees it late looks too often. */
    private int uncheckedBits;

    /** Nothing, which is always used up. */
    private HeldRun() {
        cursor = new long[CURSOR_LONGS];
        count = 0;
        refillOffset = -1;
        holdMs = 0;
        expires = new Moment(0, 0);
        first = stride = 1;
    }

    /**
     * A run whose first {@code taken} ids are taken.
     *
     * @param holdMs as the daemon said
     * @param expires when the ids are too old
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

    /** The next offset, which is this caller's alone. From {@link #count} on it has no id. */
    long nextOffset() {
        return (long) ELEMENT.getAndAddAcquire(cursor, CURSOR, 1L);
    }

    /** Whether the offset's id may be used: it is one of the run's, and not too old. */
    boolean isGood(long offset) {
        return offset < count && ((offset & uncheckedBits) != 0 || !expires.isPast());
    }

    long id(long offset) {
        return first + offset * stride;
    }

    /** How many of the ids have been given out. */
    int used() {
        return (int) Math.min(count, (long) ELEMENT.getAcquire(cursor, CURSOR));
    }

    /** Whether somebody else drops the run when its time is over. */
    void setExpiredElsewhere(boolean expired) {
        uncheckedBits = expired ? CHECK_EVERY - 1 : 0;
    }
}
