package io.leafd;

import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Draws ids from the leafd daemon of this host. One client serves all threads of a process, virtual ones as well.
 *
 * <p>All calls block, none longer than its deadline (and 250 ms of grace). An interrupt ends a wait; an id of a held run
 * needs none. The client starts no thread. {@link #close} gives its descriptors back.
 */
public final class LeafdClient implements IdSource, AutoCloseable {
    /** Most tags that one client can use in its life. */
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
     * Connects to this host's daemon, now: at {@code $LEAFD_SOCKET}, else at this user's own socket if there is one, else
     * at {@code /run/leafd/leafd.sock}.
     *
     * @return a client to be closed when it isn't used any more
     * @throws LeafdException when nobody answers there, or none that speaks this version of the protocol
     */
    public static LeafdClient connect() {
        return builder().connect();
    }

    /**
     * Connects to the daemon at a path, now.
     *
     * @param socket of 1 to 107 bytes
     * @return a client to be closed when it isn't used any more
     * @throws LeafdException when nobody answers there, or none that speaks this version of the protocol
     */
    public static LeafdClient connect(Path socket) {
        return builder().socket(socket).connect();
    }

    /**
     * A client with other settings, or one that connects on first use.
     *
     * @return settings to be changed
     */
    public static Builder builder() {
        return new Builder();
    }

    /**
     * The next id of a tag.
     *
     * <p>With held runs (the default) most calls answer out of a run that the process holds, without a system call; ids of
     * different threads and processes are then not in order of time. {@link #tag} saves the look-up of the name.
     *
     * @param tag a segment tag, or a snowflake layout's name; 1 to 128 characters, none of them a control character
     * @return a positive number, and unique
     * @throws IllegalArgumentException for a name that no tag can have
     * @throws LeafdException if the daemon does not answer with what was asked for
     */
    @Override
    public long nextId(String tag) {
        return supply(tag).next(limit);
    }

    /**
     * As {@link #nextId(String)}, within a time.
     *
     * @param tag as there
     * @param within see {@link Builder#deadline}
     * @return a positive number, and unique
     * @throws LeafdException if the daemon does not answer with what was asked for
     */
    @Override
    public long nextId(String tag, Duration within) {
        return supply(tag).next(Deadline.Limit.of(within));
    }

    /**
     * The next id of a tag by a request of its own: higher than any that was drawn so on this host before.
     *
     * @param tag as in {@link #nextId(String)}
     * @return a positive number, and unique
     * @throws LeafdException if the daemon does not answer with what was asked for
     */
    @Override
    public long nextIdDirect(String tag) {
        return supply(tag).nextDirect(limit);
    }

    /**
     * As {@link #nextIdDirect(String)}, within a time.
     *
     * @param tag as in {@link #nextId(String)}
     * @param within see {@link Builder#deadline}
     * @return a positive number, and unique
     * @throws LeafdException if the daemon does not answer with what was asked for
     */
    @Override
    public long nextIdDirect(String tag, Duration within) {
        return supply(tag).nextDirect(Deadline.Limit.of(within));
    }

    /**
     * Several ids of a tag, straight from the daemon.
     *
     * @param tag as in {@link #nextId(String)}
     * @param count how many, from 0; each million is a request
     * @return in the order in which they were issued
     * @throws LeafdException if the daemon does not answer with what was asked for; ids that were drawn before that are skipped
     */
    @Override
    public long[] nextIds(String tag, int count) {
        return supply(tag).nextIds(count, limit);
    }

    /**
     * As {@link #nextIds(String, int)}, all of it within a time.
     *
     * @param tag as in {@link #nextId(String)}
     * @param count how many, from 0
     * @param within see {@link Builder#deadline}
     * @return in the order in which they were issued
     * @throws LeafdException if the daemon does not answer with what was asked for
     */
    @Override
    public long[] nextIds(String tag, int count, Duration within) {
        return supply(tag).nextIds(count, Deadline.Limit.of(within));
    }

    /**
     * A handle for drawing many ids. The daemon is not asked whether there is such a tag.
     *
     * @param name as in {@link #nextId(String)}
     * @return good for all threads, as long as the client is open
     * @throws IllegalArgumentException for a name that no tag can have, or when this client has used {@link #TAGS_MAX} others
     */
    public LeafdTag tag(String name) {
        return new LeafdTag(this, name, supply(name), limit);
    }

    /**
     * The public ids of a tag: what outsiders are shown instead of dense ones. The daemon is not asked whether there is such a
     * tag.
     *
     * @param tag as in {@link #nextId(String)}
     * @return of 63 bits, without a prefix and by the daemon's current key, as long as nothing else is said; good for all threads
     * @throws IllegalArgumentException for a name that no tag can have
     */
    public PublicIds publicIds(String tag) {
        return new PublicIds(this, requests, tag, limit);
    }

    /**
     * What the daemon reports about itself: its release, whether ids are available now, its snowflake layouts.
     *
     * @return the state at the time of the call
     * @throws LeafdException if the daemon does not answer with what was asked for
     */
    @Override
    public DaemonInfo info() {
        return info(limit);
    }

    /**
     * As {@link #info()}, within a time limit.
     *
     * @param within see {@link Builder#deadline}
     * @return the state at the time of the call
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
     * Takes a snowflake id apart, by the layout that the daemon has under a name. {@link Layout#decode} does so without
     * asking the daemon.
     *
     * @param layout such as {@code snowflake}
     * @param id an id of that layout
     * @return its parts
     * @throws IllegalArgumentException when the daemon has no such layout, or the id is none of it
     * @throws LeafdException if the daemon does not answer with what was asked for
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
     * The path of the daemon's socket.
     *
     * @return the path in use
     */
    public Path socketPath() {
        return path;
    }

    /** Closes the connection and drops what is held. Calls that wait fail, and so do all later ones. */
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

    /** Sets up a client. */
    public static final class Builder {
        private Path path;
        private Duration deadline = Duration.ofSeconds(2);
        private Duration wait = Duration.ZERO;
        private boolean direct;
        private boolean mayPoll = true;

        private Builder() {}

        /**
         * Where the daemon listens.
         *
         * @param path of 1 to 107 bytes; by default as {@link LeafdClient#connect()} says
         * @return this
         */
        public Builder socket(Path path) {
            this.path = Argument.given(path, "a socket's path");
            return this;
        }

        /**
         * How long calls without a deadline of their own may take. Connecting, waiting in the daemon and one retry all
         * count. When the time is over, a call still waits up to 250 ms for the daemon's own word on why.
         *
         * @param limit from 0; 2 s by default; more than 60 s, which is what the daemon honours, is cut to that
         * @return this
         */
        public Builder deadline(Duration limit) {
            Deadline.Limit.of(limit);
            deadline = limit;
            return this;
        }

        /**
         * How long calls without a deadline of their own wait for a daemon that isn't there, before their deadline begins
         * to count: for a process that may start before the daemon does. They wait as long as their deadline even if this
         * is shorter. Without, a daemon that never was there is an error at once. One that seems to be restarting is waited for even so, as long as the deadline lasts.
         *
         * @param limit from 0, which is the default; more than an hour is cut to that
         * @return this
         */
        public Builder waitForDaemon(Duration limit) {
            Deadline.Limit.of(limit);
            wait = limit;
            return this;
        }

        /**
         * Whether every id is drawn directly, by a request of its own, and none comes out of a run that the process
         * holds. Ids of a tag are then strictly increasing on this host, none is skipped when the process ends, and each
         * takes microseconds instead of nanoseconds.
         *
         * @param direct false by default
         * @return this
         */
        public Builder direct(boolean direct) {
            this.direct = direct;
            return this;
        }

        /**
         * Whether a waiting thread may poll the socket for at most 100 microseconds before it sleeps. Even then it does so
         * only while requests come back to back, the daemon polls as well, polls bring something, and more than one core
         * is usable.
         *
         * @param poll true by default
         * @return this
         */
        public Builder poll(boolean poll) {
            mayPoll = poll;
            return this;
        }

        /**
         * A client that connects on first use.
         *
         * @return to be closed when it isn't used any more
         * @throws IllegalArgumentException for a path that no socket can have
         */
        public LeafdClient build() {
            return new LeafdClient(this);
        }

        /**
         * A client that is connected.
         *
         * @return to be closed when it isn't used any more
         * @throws LeafdException when nobody answers, or none that speaks this version of the protocol
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
