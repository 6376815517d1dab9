package io.leafd;

/** Checks that arguments are not null. */
final class Argument {
    private Argument() {}

    /** Returns the value, or throws an exception that says that {@code what} is missing. */
    static <T> T given(T value, String what) {
        if (value == null) {
            throw new NullPointerException(what + " is missing: null was given");
        }
        return value;
    }
}
