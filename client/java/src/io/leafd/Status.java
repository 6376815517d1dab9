package io.leafd;

/**
 * The numbered outcomes of a request, as {@code protocol.md} has them. A number is given once and never used again for
 * anything else.
 */
public enum Status {
    /** The answer is there. */
    OK(false, false),
    /** The body is not what the opcode asks for. */
    MALFORMED(false, false),
    /** The daemon doesn't know the opcode. */
    UNKNOWN_OPCODE(false, false),
    /** Client and daemon have no version of the protocol in common. */
    VERSION(false, true),
    /** A length field that no frame may have. */
    FRAME_LENGTH(false, true),
    /** The tag's name is not one that a tag can have. */
    TAG_INVALID(false, false),
    /** The store has no such tag. */
    TAG_UNKNOWN(false, false),
    /** The count is zero or above the limit. */
    COUNT_INVALID(false, false),
    /** This user may not do this. */
    DENIED(false, false),
    /** A queue is full. */
    OVERLOADED(true, false),
    /** The deadline passed; the message says what was waited for. */
    DEADLINE(true, false),
    /** The central store can't be reached. */
    STORE_UNAVAILABLE(true, false),
    /** The clock is further behind the last id than the daemon's {@code max_drift}. */
    CLOCK_BEHIND(true, false),
    /** The daemon holds no snowflake worker; the message says why, and whether it is getting one. */
    NO_WORKER(true, false),
    /** The tag's numbers are used up to its ceiling. */
    TAG_EXHAUSTED(false, false),
    /** The layout's time bits can't hold the present time. */
    TIME_EXHAUSTED(false, false),
    /** The daemon's state directory can't be written; nothing is issued until it can. */
    JOURNAL(true, false),
    /** The daemon is stopping. */
    SHUTTING_DOWN(true, true),
    /** A tag of this name is there already. */
    TAG_EXISTS(false, false),
    /** An administrative request asks for a value that is not allowed. */
    VALUE_REFUSED(false, false),
    /** A defect in the daemon; also what a status that this client doesn't know counts as. */
    INTERNAL(false, false),
    /** The daemon has as many connections as it may have. */
    CONNECTION_LIMIT(true, true),
    /** The store holds something for this tag that can't be used safely. */
    STORE_REFUSED(false, false),
    /** The daemon lacks the key for masking, or has another one than the store knows. */
    MASK_KEY(false, false);

    // Numbers go up from 0 without a gap, so that the place in this list is the number.
    private static final Status[] ALL = values();

    private final boolean retryable;
    private final boolean closes;

    Status(boolean retryable, boolean closes) {
        this.retryable = retryable;
        this.closes = closes;
    }

    /**
     * The number that goes over the wire.
     *
     * @return from 0 up
     */
    public int number() {
        return ordinal();
    }

    /**
     * Whether the same request for ids may succeed later without anyone changing anything.
     *
     * @return as the protocol's table of statuses has it
     */
    public boolean isRetryable() {
        return retryable;
    }

    /** Whether the daemon closes the connection after an answer of this status. */
    boolean closes() {
        return closes;
    }

    /** The status of a number; one that a later daemon may know is INTERNAL. */
    static Status of(int number) {
        return isKnown(number) ? ALL[number] : INTERNAL;
    }

    static boolean isKnown(int number) {
        return number >= 0 && number < ALL.length;
    }
}
