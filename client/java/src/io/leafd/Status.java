package io.leafd;

/**
 * The numbered outcomes of a request, as in {@code protocol.md}. Numbers are never reused.
 */
public enum Status {
    /** Success. */
    OK(false, false),
    /** The body doesn't match the opcode. */
    MALFORMED(false, false),
    /** The daemon doesn't know the opcode. */
    UNKNOWN_OPCODE(false, false),
    /** Client and daemon have no version of the protocol in common. */
    VERSION(false, true),
    /** The length field is out of range. */
    FRAME_LENGTH(false, true),
    /** The tag's name is invalid. */
    TAG_INVALID(false, false),
    /** The store has no such tag. */
    TAG_UNKNOWN(false, false),
    /** The count is zero or above the limit. */
    COUNT_INVALID(false, false),
    /** This user has no right to do this. */
    DENIED(false, false),
    /** A queue is full. */
    OVERLOADED(true, false),
    /** The deadline passed; the message says what the request waited for. */
    DEADLINE(true, false),
    /** The store is unavailable. */
    STORE_UNAVAILABLE(true, false),
    /** The clock is behind the last id by more than the daemon's {@code max_drift}. */
    CLOCK_BEHIND(true, false),
    /** The daemon holds no worker number; the message says why, and whether it is trying to get one. */
    NO_WORKER(true, false),
    /** All ids up to the tag's ceiling are used. */
    TAG_EXHAUSTED(false, false),
    /** The current time doesn't fit into the layout's time bits. */
    TIME_EXHAUSTED(false, false),
    /** The daemon can't write to its state directory; it issues no ids until it can. */
    JOURNAL(true, false),
    /** The daemon is stopping. */
    SHUTTING_DOWN(true, true),
    /** A tag of this name already exists. */
    TAG_EXISTS(false, false),
    /** The request contains a value that is not allowed there. */
    VALUE_REFUSED(false, false),
    /** A bug in the daemon, or a status that this client doesn't know. */
    INTERNAL(false, false),
    /** The connection limit is reached. */
    CONNECTION_LIMIT(true, true),
    /** The store's data for this tag can't be used safely. */
    STORE_REFUSED(false, false),
    /** The daemon has no key for masking, or its key differs from the one that the store knows. */
    MASK_KEY(false, false);

    // The numbers start at 0 and have no gaps, so a constant's position in this list is its number.
    private static final Status[] ALL = values();

    private final boolean retryable;
    private final boolean closes;

    Status(boolean retryable, boolean closes) {
        this.retryable = retryable;
        this.closes = closes;
    }

    /**
     * Returns the number in the protocol.
     *
     * @return the number, from 0
     */
    public int number() {
        return ordinal();
    }

    /**
     * Returns whether the same request for ids may succeed later without any other action.
     *
     * @return the value in the protocol's status table
     */
    public boolean isRetryable() {
        return retryable;
    }

    /** Whether the daemon closes the connection after a reply with this status. */
    boolean closes() {
        return closes;
    }

    /** The status with this number; INTERNAL if this client doesn't know it. */
    static Status of(int number) {
        return isKnown(number) ? ALL[number] : INTERNAL;
    }

    static boolean isKnown(int number) {
        return number >= 0 && number < ALL.length;
    }
}
