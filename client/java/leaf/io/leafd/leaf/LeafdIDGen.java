package io.leafd.leaf;

import com.sankuai.inf.leaf.IDGen;
import com.sankuai.inf.leaf.common.Result;
import io.leafd.DaemonInfo;
import io.leafd.LeafdClient;
import io.leafd.LeafdException;
import io.leafd.Status;
import java.util.Objects;

/**
 * Leaf's {@link IDGen}, backed by leafd. A service that embedded Leaf only changes the line that creates its generator:
 *
 * <pre>{@code
 * IDGen segments = new LeafdIDGen();           // was: new SegmentIDGenImpl(), and its data access object
 * IDGen snowflakes = LeafdIDGen.snowflake();   // was: new SnowflakeIDGenImpl(zookeeper, port)
 * }</pre>
 *
 * <p>A failed call returns a {@link Failure}: a {@link Result} with Leaf's code for the failure, and its cause.
 */
public final class LeafdIDGen implements IDGen, AutoCloseable {
    /** The code for an unreachable daemon. Leaf returns it until it has been initialized. */
    public static final long NOT_READY = -1;

    /** The code for an unknown tag. */
    public static final long NO_SUCH_KEY = -2;

    /** The code for any other failure. Leaf returns it if it could not load a segment. */
    public static final long NO_ID = -3;

    private static final String SNOWFLAKE = "snowflake";

    private final LeafdClient client;
    /** The layout whose ids are drawn, regardless of the key. Null: ids of the tag named by the key are drawn. */
    private final String layout;

    /** The result of a failed call. */
    public static final class Failure extends Result {
        private final RuntimeException cause;

        Failure(long code, RuntimeException cause) {
            super(code, com.sankuai.inf.leaf.common.Status.EXCEPTION);
            this.cause = cause;
        }

        /**
         * Returns why the call failed.
         *
         * @return a {@link LeafdException}; for an invalid key, an {@link IllegalArgumentException} or a
         *     {@link NullPointerException}; for a closed client, an {@link IllegalStateException}
         */
        public RuntimeException getCause() {
            return cause;
        }

        @Override
        public String toString() {
            return super.toString() + ": " + cause.getMessage();
        }
    }

    /** Creates a generator of segment ids. It connects to this host's daemon in {@link #init} or on first use. */
    public LeafdIDGen() {
        this(LeafdClient.builder().build(), null);
    }

    /**
     * Creates a generator of segment ids that uses a given client.
     *
     * @param client the client, which {@link #close} closes
     */
    public LeafdIDGen(LeafdClient client) {
        this(client, null);
    }

    private LeafdIDGen(LeafdClient client, String layout) {
        this.client = Objects.requireNonNull(client, "a client is missing: null was given");
        this.layout = layout;
    }

    /**
     * Creates a generator of snowflake ids in Leaf's layout. As in Leaf, they don't depend on the key.
     *
     * @return a generator that connects to this host's daemon
     */
    public static LeafdIDGen snowflake() {
        return snowflake(LeafdClient.builder().build());
    }

    /**
     * Creates a generator of snowflake ids in Leaf's layout that uses a given client.
     *
     * @param client the client, which {@link #close} closes
     * @return the generator
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
        // No tag can have this key as its name.
        return e instanceof IllegalArgumentException || e instanceof NullPointerException ? NO_SUCH_KEY : NO_ID;
    }

    /**
     * Connects to the daemon.
     *
     * @return whether ids of this kind are available now
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
