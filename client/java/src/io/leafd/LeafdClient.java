package io.leafd;

import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Draws ids from the leafd daemon on this host. One client serves all threads of a process, including virtual ones.
 *
 * <p>Calls block, but no longer than their deadline plus 250 ms. An interrupt ends a wait. Taking an id from a held run
 * doesn't wait. The client starts no threads. {@link #close} releases its descriptors.
 */
public final class LeafdClient implements IdSource, AutoCloseable {
    /** The maximum number of tags that one client can use. */
    public static final int TAGS_MAX = 65_536;

    private final Path path;
    private final Requests requests;
    private final Deadline.Limit limit;
    private final boolean mayHold;
    private final Map<String, Supply> supplies = new ConcurrentHashMap<>();
    private volatile boolean closed;

    private LeafdClient(Builder builder) {
        path = SocketPath.check(builder.path == null ? SocketPath.byDefault() : builder.path);
        limit = Deadline.Limit.of(builder.deadline, builder.wait);
        mayHold = !builder.direct;
        // With one core, polling only keeps the daemon from running.
        requests = new Requests(path, builder.mayPoll && Runtime.getRuntime().availableProcessors() > 1);
    }

    /**
     * Connects now to the daemon on this host: at {@code $LEAFD_SOCKET}, otherwise at this user's own socket if it
     * exists, otherwise at {@code /run/leafd/leafd.sock}.
     *
     * @return a client; close it when it is no longer needed
     * @throws LeafdException if no daemon answers, or if it doesn't support this version of the protocol
     */
    public static LeafdClient connect() {
        return builder().connect();
    }

    /**
     * Connects now to the daemon at a path.
     *
     * @param socket the path, 1 to 107 bytes
     * @return a client; close it when it is no longer needed
     * @throws IllegalArgumentException if the path is invalid
     * @throws LeafdException if no daemon answers, or if it doesn't support this version of the protocol
     */
    public static LeafdClient connect(Path socket) {
        return builder().socket(socket).connect();
    }

    /**
     * Creates a builder for a client with other settings, or for one that connects on first use.
     *
     * @return a builder with the default settings
     */
    public static Builder builder() {
        return new Builder();
    }

    /**
     * Draws the next id of a tag.
     *
     * <p>With held runs (the default), most calls return an id from a run that the process holds, without a system
     * call. Such ids are not in chronological order across threads and processes. {@link #tag} avoids looking up the
     * name.
     *
     * @param tag a segment tag or the name of a snowflake layout; 1 to 128 characters, no control characters
     * @return a positive, unique number
     * @throws IllegalArgumentException if the name is invalid
     * @throws LeafdException if the call fails
     */
    @Override
    public long nextId(String tag) {
        return supply(tag).next(limit);
    }

    /**
     * Does the same as {@link #nextId(String)}, within a time limit.
     *
     * @param tag as in {@link #nextId(String)}
     * @param within see {@link Builder#deadline}
     * @return a positive, unique number
     * @throws IllegalArgumentException if the name is invalid, or the limit is negative
     * @throws LeafdException if the call fails
     */
    @Override
    public long nextId(String tag, Duration within) {
        return supply(tag).next(Deadline.Limit.of(within));
    }

    /**
     * Draws the next id of a tag with a separate request. It is higher than any id drawn directly on this host before.
     *
     * @param tag as in {@link #nextId(String)}
     * @return a positive, unique number
     * @throws IllegalArgumentException if the name is invalid
     * @throws LeafdException if the call fails
     */
    @Override
    public long nextIdDirect(String tag) {
        return supply(tag).nextDirect(limit);
    }

    /**
     * Does the same as {@link #nextIdDirect(String)}, within a time limit.
     *
     * @param tag as in {@link #nextId(String)}
     * @param within see {@link Builder#deadline}
     * @return a positive, unique number
     * @throws IllegalArgumentException if the name is invalid, or the limit is negative
     * @throws LeafdException if the call fails
     */
    @Override
    public long nextIdDirect(String tag, Duration within) {
        return supply(tag).nextDirect(Deadline.Limit.of(within));
    }

    /**
     * Draws several ids of a tag from the daemon.
     *
     * @param tag as in {@link #nextId(String)}
     * @param count the number of ids, from 0; each million takes one request
     * @return the ids, in the order of issue
     * @throws IllegalArgumentException if the name is invalid, or the count is negative
     * @throws LeafdException if the call fails; ids that were drawn before the failure are skipped
     */
    @Override
    public long[] nextIds(String tag, int count) {
        return supply(tag).nextIds(count, limit);
    }

    /**
     * Does the same as {@link #nextIds(String, int)}, within a time limit for all ids.
     *
     * @param tag as in {@link #nextId(String)}
     * @param count the number of ids, from 0
     * @param within see {@link Builder#deadline}
     * @return the ids, in the order of issue
     * @throws IllegalArgumentException if the name is invalid, or the count or the limit is negative
     * @throws LeafdException if the call fails
     */
    @Override
    public long[] nextIds(String tag, int count, Duration within) {
        return supply(tag).nextIds(count, Deadline.Limit.of(within));
    }

    /**
     * Creates a handle for drawing many ids, without checking whether the tag exists.
     *
     * @param name as in {@link #nextId(String)}
     * @return a handle that all threads can use while the client is open
     * @throws IllegalArgumentException if the name is invalid, or this client has used {@link #TAGS_MAX} other tags
     */
    public LeafdTag tag(String name) {
        return new LeafdTag(this, name, supply(name), limit);
    }

    /**
     * Creates a converter between a tag's dense ids and public ids, without checking whether the tag exists.
     *
     * @param tag as in {@link #nextId(String)}
     * @return a converter for 63 bits, no prefix and the daemon's current key; all threads can use it
     * @throws IllegalArgumentException if the name is invalid
     */
    public PublicIds publicIds(String tag) {
        return new PublicIds(this, requests, tag, limit);
    }

    /**
     * Creates a handle for drawing document numbers of a series, without checking whether the series exists.
     *
     * @param name the name of the series
     * @return a handle for the series without a tenant; all threads can use it
     * @throws IllegalArgumentException if the name is invalid
     */
    public Series series(String name) {
        return new Series(this, requests, name, "", limit);
    }

    /**
     * Returns what the daemon reports about itself: its release, whether ids are available now, its snowflake layouts.
     *
     * @return the state at the time of the call
     * @throws LeafdException if the call fails
     */
    @Override
    public DaemonInfo info() {
        return info(limit);
    }

    /**
     * Does the same as {@link #info()}, within a time limit.
     *
     * @param within see {@link Builder#deadline}
     * @return the state at the time of the call
     * @throws IllegalArgumentException if the limit is negative
     * @throws LeafdException if the daemon does not answer
     */
    public DaemonInfo info(Duration within) {
        return info(Deadline.Limit.of(within));
    }

    private DaemonInfo info(Deadline.Limit limit) {
        DaemonInfo info = requests.info(Deadline.after(limit));
        if (info.version() != Wire.VERSION) {
            throw new LeafdException.ProtocolBroken("leafd " + info.release() + " chose protocol version "
                    + info.version() + ", but this client offered only version " + Wire.VERSION);
        }
        return info;
    }

    /**
     * Decodes a snowflake id by one of the daemon's layouts. {@link Layout#decode} does so without asking the daemon.
     *
     * @param layout the layout's name, such as {@code snowflake}
     * @param id an id of that layout
     * @return its parts
     * @throws IllegalArgumentException if the daemon has no such layout, or the id doesn't fit it
     * @throws LeafdException if the call fails
     */
    public Layout.Decoded decode(String layout, long id) {
        Argument.given(layout, "a layout's name");
        Map<String, Layout> layouts = info().layouts();
        if (!layouts.containsKey(layout)) {
            throw new IllegalArgumentException("leafd has no layout \"" + layout + "\"; its layouts are " + layouts.keySet());
        }
        return layouts.get(layout).decode(id);
    }

    /**
     * Returns the path of the daemon's socket.
     *
     * @return the path in use
     */
    public Path socketPath() {
        return path;
    }

    /** Closes the connection and drops held ids. Waiting calls fail, and so do all later ones. */
    @Override
    public void close() {
        closed = true;
        requests.link.close();
        supplies.values().forEach(Supply::close);
    }

    @Override
    public String toString() {
        return "LeafdClient[" + path + (closed ? ", closed]" : "]");
    }

    private Supply supply(String tag) {
        Supply supply = supplies.get(Argument.given(tag, "a tag's name"));
        return supply != null ? supply : newSupply(tag);
    }

    private Supply newSupply(String tag) {
        byte[] bytes = Wire.tagBytes(tag);
        if (supplies.size() >= TAGS_MAX) {
            throw new IllegalArgumentException(
                    "one client uses at most " + TAGS_MAX + " tags; make another client for \"" + tag + "\"");
        }
        Supply supply = supplies.computeIfAbsent(tag, name -> new Supply(bytes, requests, mayHold, limit));
        if (closed) {
            supply.close();
        }
        return supply;
    }

    /** Builds a client. */
    public static final class Builder {
        private Path path;
        private Duration deadline = Duration.ofSeconds(2);
        private Duration wait = Duration.ZERO;
        private boolean direct;
        private boolean mayPoll = true;

        private Builder() {}

        /**
         * Sets the path of the daemon's socket.
         *
         * @param path 1 to 107 bytes; by default as in {@link LeafdClient#connect()}
         * @return this
         */
        public Builder socket(Path path) {
            this.path = Argument.given(path, "a socket's path");
            return this;
        }

        /**
         * Sets how long calls without their own deadline may take, including connecting, waiting in the daemon and
         * retries. After this time, a call waits up to 250 ms more for the daemon's error.
         *
         * @param limit from 0; 2 s by default; capped at 60 s, the daemon's maximum
         * @return this
         * @throws IllegalArgumentException if the limit is negative
         */
        public Builder deadline(Duration limit) {
            Deadline.Limit.of(limit);
            deadline = limit;
            return this;
        }

        /**
         * Sets how long calls without their own deadline wait for a missing daemon before their deadline starts. Use
         * this in a process that may start before the daemon. The calls wait at least as long as their deadline. With
         * 0, calls fail immediately if no daemon has ever run. If the daemon appears to be restarting, calls always
         * wait for it, up to their deadline.
         *
         * @param limit from 0, the default; capped at one hour
         * @return this
         * @throws IllegalArgumentException if the limit is negative
         */
        public Builder waitForDaemon(Duration limit) {
            Deadline.Limit.of(limit);
            wait = limit;
            return this;
        }

        /**
         * Sets whether to draw each id directly, with a separate request, instead of from a run that the process holds.
         * Ids of a tag are then strictly increasing on this host, none is skipped when the process exits, and each takes
         * microseconds instead of nanoseconds.
         *
         * @param direct false by default
         * @return this
         */
        public Builder direct(boolean direct) {
            this.direct = direct;
            return this;
        }

        /**
         * Sets whether a waiting thread may poll the socket for at most 100 microseconds before it sleeps. It does so
         * only while requests are sent back to back, the daemon polls as well, polling succeeds, and the process can
         * use more than one core.
         *
         * @param polling true by default
         * @return this
         */
        public Builder polling(boolean polling) {
            mayPoll = polling;
            return this;
        }

        /**
         * Creates a client that connects on first use.
         *
         * @return a client; close it when it is no longer needed
         * @throws IllegalArgumentException if the path is invalid
         */
        public LeafdClient build() {
            return new LeafdClient(this);
        }

        /**
         * Creates a client and connects.
         *
         * @return a client; close it when it is no longer needed
         * @throws LeafdException if no daemon answers, or if it doesn't support this version of the protocol
         */
        public LeafdClient connect() {
            LeafdClient client = build();
            try {
                client.info();
                return client;
            } catch (LeafdException e) {
                client.close();
                throw e;
            }
        }
    }
}
