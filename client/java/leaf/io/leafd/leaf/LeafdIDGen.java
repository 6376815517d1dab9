package io.leafd.leaf;

import com.sankuai.inf.leaf.IDGen;
import com.sankuai.inf.leaf.common.Result;
import io.leafd.DaemonInfo;
import io.leafd.LeafdClient;
import io.leafd.LeafdException;
import io.leafd.Status;
import java.util.Objects;

/**
 * Ids from leafd in the shape of Leaf's {@link IDGen}, so that a service that embedded Leaf changes the line that makes its
 * generator:
 *
 * <pre>{@code
 * IDGen segments = new LeafdIDGen();           // was: new SegmentIDGenImpl(), and its data access object
 * IDGen snowflakes = LeafdIDGen.snowflake();   // was: new SnowflakeIDGenImpl(zookeeper, port)
 * }</pre>
 *
 * <p>A call that fails returns a {@link Failure}, a {@link Result} with Leaf's code that carries the cause as well.
 */
public final class LeafdIDGen implements IDGen, AutoCloseable {
    /** The code of a daemon that can't be reached, as of Leaf before it is ready. */
    public static final long NOT_READY = -1;

    /** The code of a tag that isn't there. */
    public static final long NO_SUCH_KEY = -2;

    /** The code of any other failure, as of Leaf when no segment could be loaded. */
    public static final long NO_ID = -3;

    private static final String SNOWFLAKE = "snowflake";

    private final LeafdClient client;
    /** What is drawn whatever the key; null: the key. */
    private final String layout;

    /** A result without an id, with its cause. */
    public static final class Failure extends Result {
        private final RuntimeException cause;

        Failure(long code, RuntimeException cause) {
            super(code, com.sankuai.inf.leaf.common.Status.EXCEPTION);
            this.cause = cause;
        }

        /**
         * What went wrong.
         *
         * @return a {@link LeafdException}, or what a key that no tag can have and a closed client are told by
         */
        public RuntimeException getCause() {
            return cause;
        }

        @Override
        public String toString() {
            return super.toString() + ": " + cause.getMessage();
        }
    }

    /** Ids of segment tags, from this host's daemon. It connects in {@link #init}, or by the first id. */
    public LeafdIDGen() {
        this(LeafdClient.builder().build(), null);
    }

    /**
     * Ids of segment tags, by a client with settings of its own.
     *
     * @param client is closed by {@link #close}
     */
    public LeafdIDGen(LeafdClient client) {
        this(client, null);
    }

    private LeafdIDGen(LeafdClient client, String layout) {
        this.client = Objects.requireNonNull(client, "a client is missing: null was given");
        this.layout = layout;
    }

    /**
     * Snowflake ids of Leaf's layout, whatever the key, as Leaf has it.
     *
     * @return from this host's daemon
     */
    public static LeafdIDGen snowflake() {
        return snowflake(LeafdClient.builder().build());
    }

    /**
     * Snowflake ids of Leaf's layout, whatever the key, by a client with settings of its own.
     *
     * @param client is closed by {@link #close}
     * @return from the client's daemon
     */
    public static LeafdIDGen snowflake(LeafdClient client) {
        return new LeafdIDGen(client, SNOWFLAKE);
    }

    @Override
    public Result get(String key) {
        try {
            long id = client.nextId(layout == null ? key : layout);
            return new Result(id, com.sankuai.inf.leaf.common.Status.SUCCESS);
        } catch (RuntimeException e) {
            return new Failure(code(e), e);
        }
    }

    private static long code(RuntimeException e) {
        if (e instanceof LeafdException failure) {
            boolean unknown = failure.status().filter(status -> status == Status.TAG_UNKNOWN).isPresent();
            return unknown ? NO_SUCH_KEY : failure instanceof LeafdException.Unreachable ? NOT_READY : NO_ID;
        }
        // A key that no tag can have.
        return e instanceof IllegalArgumentException || e instanceof NullPointerException ? NO_SUCH_KEY : NO_ID;
    }

    /**
     * Connects to the daemon.
     *
     * @return whether ids of this kind can be had now
     */
    @Override
    public boolean init() {
        try {
            DaemonInfo info = client.info();
            return layout == null ? info.segmentsReady() : info.snowflakeReady();
        } catch (LeafdException e) {
            return false;
        }
    }

    /** Closes the client. */
    @Override
    public void close() {
        client.close();
    }
}
