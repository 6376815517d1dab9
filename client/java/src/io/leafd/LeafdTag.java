package io.leafd;

import java.time.Duration;

/** A handle for one tag of a client, created by {@link LeafdClient#tag}. Any thread may use it. */
public final class LeafdTag {
    private final LeafdClient client;
    private final String name;
    private final Supply supply;
    private final Deadline.Limit limit;

    LeafdTag(LeafdClient client, String name, Supply supply, Deadline.Limit limit) {
        this.client = client;
        this.name = name;
        this.supply = supply;
        this.limit = limit;
    }

    /**
     * Returns the tag's name.
     *
     * @return the name that was passed to {@link LeafdClient#tag}
     */
    public String name() {
        return name;
    }

    /**
     * Draws the next id; see {@link LeafdClient#nextId(String)}. From a held run this takes nanoseconds.
     *
     * @return a positive, unique number
     * @throws LeafdException if the call fails
     */
    public long nextId() {
        return supply.next(limit);
    }

    /**
     * Does the same as {@link #nextId()}, within a time limit.
     *
     * @param within see {@link LeafdClient.Builder#deadline}
     * @return a positive, unique number
     * @throws IllegalArgumentException if the limit is negative
     * @throws LeafdException if the call fails
     */
    public long nextId(Duration within) {
        return supply.next(Deadline.Limit.of(within));
    }

    /**
     * Draws the next id directly; see {@link LeafdClient#nextIdDirect(String)}.
     *
     * @return a positive, unique number
     * @throws LeafdException if the call fails
     */
    public long nextIdDirect() {
        return supply.nextDirect(limit);
    }

    /**
     * Draws several ids from the daemon; see {@link LeafdClient#nextIds(String, int)}.
     *
     * @param count the number of ids, from 0
     * @return the ids, in the order of issue
     * @throws IllegalArgumentException if the count is negative
     * @throws LeafdException if the call fails
     */
    public long[] nextIds(int count) {
        return client.nextIds(name, count);
    }

    /**
     * Does the same as {@link #nextIdDirect()}, within a time limit.
     *
     * @param within see {@link LeafdClient.Builder#deadline}
     * @return a positive, unique number
     * @throws IllegalArgumentException if the limit is negative
     * @throws LeafdException if the call fails
     */
    public long nextIdDirect(Duration within) {
        return supply.nextDirect(Deadline.Limit.of(within));
    }

    /**
     * Does the same as {@link #nextIds(int)}, within a time limit for all ids.
     *
     * @param count the number of ids, from 0
     * @param within see {@link LeafdClient.Builder#deadline}
     * @return the ids, in the order of issue
     * @throws IllegalArgumentException if the count or the limit is negative
     * @throws LeafdException if the call fails
     */
    public long[] nextIds(int count, Duration within) {
        return client.nextIds(name, count, within);
    }

    @Override
    public String toString() {
        return "LeafdTag[" + name + " at " + client.socketPath() + "]";
    }
}
