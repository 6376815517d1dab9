package io.leafd;

/** What callers give: told in words when it is missing. */
final class Argument {
    private Argument() {}

    /** The value, which {@code what} names. */
    static <T> T given(T value, String what) {
        if (value == null) {
            throw new NullPointerException(what + " is missing: null was given");
        }
        return value;
    }
}
