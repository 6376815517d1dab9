package io.leafd;

/** Checks that arguments are not null. */
final class Argument {
    private Argument() {}

    /** Returns the value. If it is null, the exception names it by {@code what}. */
    static <T> T given(T value, String what) {
        if (value == null) {
            throw new NullPointerException(what + " is missing: null was given");
        }
        return value;
    }
}
