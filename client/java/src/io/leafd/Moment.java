package io.leafd;

/**
 * The instant until which ids may be held, on both of the JDK's clocks. The monotonic clock stops while the machine is
 * suspended. The wall clock continues, but may be set back. The instant has passed as soon as either clock has passed
 * it.
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
