package io.leafd;

import java.time.Duration;

/** One tag of a client, with its name looked up already. It is made by {@link LeafdClient#tag}; any thread may use it. */
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
     * The tag's name.
     *
     * @return as it was given to {@link LeafdClient#tag}
     */
    public String name() {
        return name;
    }

    /**
     * The next id; see {@link LeafdClient#nextId(String)}. From a held run this takes nanoseconds.
     *
     * @return a positive number, and unique
     * @throws LeafdException if the daemon does not answer with what was asked for
     */
    public long nextId() {
        return supply.next(limit);
    }

    /**
     * As {@link #nextId()}, within a time.
     *
     * @param within see {@link LeafdClient.Builder#deadline}
     * @return a positive number, and unique
     * @throws LeafdException if the daemon does not answer with what was asked for
     */
    public long nextId(Duration within) {
        return supply.next(Deadline.Limit.of(within));
    }

    /**
     * The next id by a request of its own; see {@link LeafdClient#nextIdDirect(String)}.
     *
     * @return a positive number, and unique
     * @throws LeafdException if the daemon does not answer with what was asked for
     */
    public long nextIdDirect() {
        return supply.nextDirect(limit);
    }

    /**
     * Several ids straight from the daemon; see {@link LeafdClient#nextIds(String, int)}.
     *
     * @param count how many, from 0
     * @return the ids, in the order of issue
     * @throws LeafdException if the daemon does not answer with what was asked for
     */
    public long[] nextIds(int count) {
        return client.nextIds(name, count);
    }

    /**
     * As {@link #nextIdDirect()}, within a time limit.
     *
     * @param within see {@link LeafdClient.Builder#deadline}
     * @return a positive number, and unique
     * @throws LeafdException if the daemon does not answer with an id
     */
    public long nextIdDirect(Duration within) {
        return supply.nextDirect(Deadline.Limit.of(within));
    }

    /**
     * As {@link #nextIds(int)}, all of them within a time limit.
     *
     * @param count how many, from 0
     * @param within see {@link LeafdClient.Builder#deadline}
     * @return the ids, in the order of issue
     * @throws LeafdException if the daemon does not answer with all of them
     */
    public long[] nextIds(int count, Duration within) {
        return client.nextIds(name, count, within);
    }

    @Override
    public String toString() {
        return "LeafdTag[" + name + " at " + client.socketPath() + "]";
    }
}
