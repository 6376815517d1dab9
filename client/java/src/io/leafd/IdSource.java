package io.leafd;

import java.time.Duration;

/** Where ids come from: a {@link LeafdClient}, or a {@link FakeClient} in tests. */
public interface IdSource {
    /**
     * The next id of a tag.
     *
     * @param tag a segment tag, or the name of a snowflake layout
     * @return a positive number, and unique
     * @throws LeafdException if the daemon does not answer with an id
     */
    long nextId(String tag);

    /**
     * The next id of a tag, within a time limit.
     *
     * @param tag as in {@link #nextId(String)}
     * @param within the time limit
     * @return a positive number, and unique
     * @throws LeafdException if the daemon does not answer with an id
     */
    long nextId(String tag, Duration within);

    /**
     * The next id of a tag by a request of its own: higher than all ids drawn directly on this host before.
     *
     * @param tag as in {@link #nextId(String)}
     * @return a positive number, and unique
     * @throws LeafdException if the daemon does not answer with an id
     */
    long nextIdDirect(String tag);

    /**
     * The next id of a tag by a request of its own, within a time limit.
     *
     * @param tag as in {@link #nextId(String)}
     * @param within the time limit
     * @return a positive number, and unique
     * @throws LeafdException if the daemon does not answer with an id
     */
    long nextIdDirect(String tag, Duration within);

    /**
     * Several ids of a tag, straight from the daemon.
     *
     * @param tag as in {@link #nextId(String)}
     * @param count how many, from 0
     * @return the ids, in the order of issue
     * @throws LeafdException if the daemon does not answer with all of them
     */
    long[] nextIds(String tag, int count);

    /**
     * Several ids of a tag, all of them within a time limit.
     *
     * @param tag as in {@link #nextId(String)}
     * @param count how many, from 0
     * @param within the time limit
     * @return the ids, in the order of issue
     * @throws LeafdException if the daemon does not answer with all of them
     */
    long[] nextIds(String tag, int count, Duration within);

    /**
     * What the daemon reports about itself, such as whether it is ready.
     *
     * @return the state at the time of the call
     * @throws LeafdException if the daemon does not answer
     */
    DaemonInfo info();
}
