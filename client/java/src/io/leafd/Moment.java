package io.leafd;

/**
 * An instant up to which ids may be held, by the two clocks that the JDK has. Its monotonic clock stands still while the
 * machine is suspended; the wall clock goes on, but may be set back. The instant is past as soon as either says so.
 *
 * @param ns by {@link System#nanoTime}
 * @param wallMs by {@link System#currentTimeMillis}
 */
record Moment(long ns, long wallMs) {
    static Moment now() {
        return new Moment(System.nanoTime(), System.currentTimeMillis());
    }

    Moment plusMs(long ms) {
        return new Moment(ns + ms * 1_000_000, wallMs + ms);
    }

    boolean isPast() {
        return System.nanoTime() - ns >= 0 || System.currentTimeMillis() - wallMs >= 0;
    }
}
