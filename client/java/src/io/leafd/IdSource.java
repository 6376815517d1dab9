package io.leafd;

import java.time.Duration;

/** A source of ids: a {@link LeafdClient}, or a {@link FakeClient} in tests. */
public interface IdSource {
    /**
     * Draws the next id of a tag.
     *
     * @param tag a segment tag or the name of a snowflake layout; 1 to 128 characters, no control characters
     * @return a positive, unique number
     * @throws IllegalArgumentException if the name is invalid
     * @throws LeafdException if the call fails
     */
    long nextId(String tag);

    /**
     * Draws the next id of a tag, within a time limit.
     *
     * @param tag as in {@link #nextId(String)}
     * @param within the time limit, from 0; capped at 60 s
     * @return a positive, unique number
     * @throws IllegalArgumentException if the name is invalid, or the limit is negative
     * @throws LeafdException if the call fails
     */
    long nextId(String tag, Duration within);

    /**
     * Draws the next id of a tag with a separate request. It is higher than any id drawn directly on this host before.
     *
     * @param tag as in {@link #nextId(String)}
     * @return a positive, unique number
     * @throws IllegalArgumentException if the name is invalid
     * @throws LeafdException if the call fails
     */
    long nextIdDirect(String tag);

    /**
     * Draws the next id of a tag directly, within a time limit.
     *
     * @param tag as in {@link #nextId(String)}
     * @param within the time limit, from 0; capped at 60 s
     * @return a positive, unique number
     * @throws IllegalArgumentException if the name is invalid, or the limit is negative
     * @throws LeafdException if the call fails
     */
    long nextIdDirect(String tag, Duration within);

    /**
     * Draws several ids of a tag from the daemon.
     *
     * @param tag as in {@link #nextId(String)}
     * @param count the number of ids, from 0
     * @return the ids, in the order of issue
     * @throws IllegalArgumentException if the name is invalid, or the count is negative
     * @throws LeafdException if the call fails
     */
    long[] nextIds(String tag, int count);

    /**
     * Draws several ids of a tag from the daemon, within a time limit for all of them.
     *
     * @param tag as in {@link #nextId(String)}
     * @param count the number of ids, from 0
     * @param within the time limit, from 0; capped at 60 s
     * @return the ids, in the order of issue
     * @throws IllegalArgumentException if the name is invalid, or the count or the limit is negative
     * @throws LeafdException if the call fails
     */
    long[] nextIds(String tag, int count, Duration within);

    /**
     * Returns what the daemon reports about itself, such as whether it is ready.
     *
     * @return the state at the time of the call
     * @throws LeafdException if the daemon does not answer
     */
    DaemonInfo info();
}
