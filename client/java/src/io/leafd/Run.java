package io.leafd;

/**
 * A series of ids: {@code first}, {@code first + stride}, and so on, {@code count} of them.
 *
 * @param first the first id, a positive number
 * @param count how many ids, from 1
 * @param stride the distance between consecutive ids, from 1 to 2^32 - 1
 */
record Run(long first, int count, long stride) {
    Run {
        if (!isValid(first, count, stride)) {
            throw new AssertionError("no run: " + count + " ids from " + first + " by " + stride);
        }
    }

    /** Whether every id of such a run is a positive signed 64-bit number. */
    static boolean isValid(long first, long count, long stride) {
        if (first < 1 || count < 1 || count > Integer.MAX_VALUE || stride < 1 || stride > 0xFFFF_FFFFL) {
            return false;
        }
        // The product is below 2^31 * 2^32, so it can't overflow.
        return (count - 1) * stride <= Long.MAX_VALUE - first;
    }

    long id(long offset) {
        return first + offset * stride;
    }
}
