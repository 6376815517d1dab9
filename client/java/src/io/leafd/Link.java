package io.leafd;

import java.io.IOException;
import java.net.BindException;
import java.net.ConnectException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;

/**
 * The connection to the daemon: one at a time, shared by all threads and reopened when it breaks.
 *
 * <p>Requests are told apart by their id, so that any number of threads wait at once. One of them reads and hands the
 * others their answers; when it has its own, the next one takes over. No lock is held while a thread waits.
 */
final class Link {
    /** The first pause before another attempt to connect, and the longest. */
    private static final long BACK_OFF_MIN_NS = 2_000_000;

    private static final long BACK_OFF_MAX_NS = 100_000_000;

    /** Writes a request's frame. */
    interface Writer {
        void put(ByteBuffer out, int requestId);
    }

    private final ReentrantLock lock = new ReentrantLock();
    private final Path path;
    private final boolean mayPoll;
    private Connection connection;
    private boolean closed;
    /** Whether a connection was ever made: then a missing daemon is one that restarts. */
    private boolean reached;

    private long nextTryNs = System.nanoTime();
    private long backOffNs = BACK_OFF_MIN_NS;

    Link(Path path, boolean mayPoll) {
        this.path = path;
        this.mayPoll = mayPoll;
    }

    /** Sends a request of at most so many bytes, on a connection that is made anew if need be. */
    <T> Pending<T> submit(int opcode, int bytes, Writer writer, Pending.Reader<T> reader, Deadline deadline) {
        lockConnected(deadline);
        try {
            return submit(connection, opcode, bytes, writer, reader);
        } finally {
            lock.unlock();
        }
    }

    /** As {@link #submit}, if there is nothing to wait for in doing so; else null. */
    <T> Pending<T> trySubmit(int opcode, int bytes, Writer writer, Pending.Reader<T> reader) {
        if (!lock.tryLock()) {
            return null;
        }
        try {
            boolean able = connection != null && connection.socket.isSent();
            return able ? submit(connection, opcode, bytes, writer, reader) : null;
        } finally {
            lock.unlock();
        }
    }

    private static <T> Pending<T> submit(
            Connection to, int opcode, int bytes, Writer writer, Pending.Reader<T> reader) {
        ByteBuffer out = to.socket.room(bytes);
        Pending<T> pending = to.begin(opcode, reader);
        writer.put(out, pending.id);
        to.send();
        return pending;
    }

    /**
     * Waits until the request is over.
     *
     * @param maybeThere it was sent some time ago
     * @return false: it is not over by {@code untilNs}, and still in flight
     */
    boolean await(Pending<?> pending, boolean maybeThere, long untilNs) {
        Connection to = pending.connection;
        boolean look = maybeThere;
        lock.lock();
        try {
            boolean poll = !pending.isDone() && to.polling.begin(System.nanoTime());
            while (!pending.isDone()) {
                if (System.nanoTime() - untilNs >= 0) {
                    return false;
                }
                throwIfInterrupted();
                to.send();
                if (to.isReading) {
                    sleep(pending, untilNs);
                } else {
                    poll = read(to, poll, look, untilNs);
                    look = false;
                }
            }
            return true;
        } finally {
            to.passReadingOn();
            lock.unlock();
        }
    }

    /** Sleeps until the thread that reads wakes this one. */
    private void sleep(Pending<?> pending, long untilNs) {
        pending.sleeper = Thread.currentThread();
        pending.connection.sleeping.add(pending);
        lock.unlock();
        try {
            LockSupport.parkNanos(this, untilNs - System.nanoTime());
        } finally {
            lock.lock();
            pending.connection.sleeping.remove(pending);
            pending.sleeper = null;
        }
    }

    /** Reads once for all, without the lock. Says whether polling goes on. */
    private boolean read(Connection from, boolean poll, boolean look, long untilNs) {
        boolean deaf = from.isDeaf();
        int got = 0;
        boolean missed = false;
        IOException failure = null;
        from.isReading = true;
        lock.unlock();
        try {
            if (poll || look || deaf) {
                got = poll ? poll(from.socket) : from.socket.receive();
                missed = poll && got == 0;
            }
            if (got == 0 && !deaf) {
                from.socket.await(untilNs);
                got = from.socket.receive();
            }
        } catch (IOException e) {
            failure = e;
        } finally {
            lock.lock();
            from.isReading = false;
        }
        if (!from.hasEnded()) {
            if (poll) {
                from.polling.end(!missed);
            }
            takeIn(from, got, failure);
        }
        return poll && !missed;
    }

    /** Asks the socket again and again, for a moment. */
    private static int poll(Socket socket) throws IOException {
        long endNs = System.nanoTime() + Polling.WINDOW_NS;
        while (true) {
            int got = socket.receive();
            if (got != 0 || System.nanoTime() - endNs >= 0) {
                return got;
            }
            Thread.onSpinWait();
        }
    }

    private void takeIn(Connection from, int got, IOException failure) {
        Break why = null;
        try {
            if (failure != null) {
                why = Break.io(failure);
            } else {
                from.takeIn(got, System.nanoTime());
            }
        } catch (Break e) {
            why = e;
        } catch (RuntimeException | Error e) {
            // No memory, most likely. What was read so far is not known any more.
            why = Break.io(new IOException(e));
            throw e;
        } finally {
            if (from.hasServed()) {
                backOffNs = BACK_OFF_MIN_NS;
            }
            if (why != null) {
                breakOff(from, why);
            }
        }
    }

    /** Gives up a request. */
    void abandon(Pending<?> pending) {
        lock.lock();
        try {
            pending.connection.abandon(pending);
            if (pending.connection.isOverdue()) {
                breakOff(pending.connection, Break.overdue());
            }
        } finally {
            lock.unlock();
        }
    }

    /** What a call on a closed client throws. */
    RuntimeException closedException() {
        return Break.closed().toException(path);
    }

    /** Ends the connection for good. */
    void close() {
        lock.lock();
        try {
            closed = true;
            if (connection != null) {
                breakOff(connection, Break.closed());
            }
        } finally {
            lock.unlock();
        }
    }

    private void breakOff(Connection from, Break why) {
        from.breakOff(why);
        if (connection == from) {
            connection = null;
            if (!from.hasServed()) {
                // A connection that never answered anything is as good as none.
                backOff(System.nanoTime());
            }
        }
    }

    /**
     * Takes the lock, with a connection. It is made anew, with growing pauses, up to the deadline, and then tried for a last
     * time; a daemon that never was there is an error at once, unless the call is to wait for it.
     */
    private void lockConnected(Deadline deadline) {
        long untilNs = deadline.connectByNs();
        boolean waited = false;
        while (true) {
            throwIfInterrupted();
            lock.lock();
            boolean keep = false;
            IOException refused = null;
            long nowNs = System.nanoTime();
            boolean over = nowNs - untilNs >= 0;
            long wakeNs;
            boolean hopeless = false;
            try {
                if (closed) {
                    throw closedException();
                }
                if (connection == null && (nowNs - nextTryNs >= 0 || waited && over)) {
                    try {
                        connection = new Connection(path, mayPoll);
                        reached = true;
                    } catch (IOException e) {
                        refused = e;
                        backOff(nowNs);
                        hopeless = over || !mayComeBack(e, deadline);
                    }
                }
                keep = connection != null;
                if (keep) {
                    // Another thread may have made it while this one waited.
                    deadline.connected(connection.madeNs);
                    return;
                }
                wakeNs = nextTryNs;
            } finally {
                if (!keep) {
                    lock.unlock();
                }
            }
            if (hopeless) {
                throw unreachable(refused);
            }
            if (over) {
                throw unreachable(new IOException("no connection was made in time"));
            }
            LockSupport.parkNanos(this, Math.min(wakeNs - nowNs, untilNs - nowNs));
            waited = true;
        }
    }

    /** The pauses double. A part of each is random, so that a host's processes don't all come at once. */
    private void backOff(long nowNs) {
        nextTryNs = nowNs + backOffNs * ThreadLocalRandom.current().nextLong(75, 125) / 100;
        backOffNs = Math.min(2 * backOffNs, BACK_OFF_MAX_NS);
    }

    /** Whether a daemon that can't be reached now may be there soon. */
    private boolean mayComeBack(IOException e, Deadline deadline) {
        if (e instanceof BindException) {
            return false;
        }
        // A socket whose queue is full has its daemon, and one that refuses was left by a daemon that was killed.
        return Files.exists(path) || deadline.waits() || reached || SocketPath.hasJustGone(path);
    }

    private LeafdException unreachable(IOException e) {
        // The JDK's words for EACCES.
        boolean denied = e instanceof BindException;
        String hint;
        if (denied) {
            hint = "this user may not open the socket or enter its folder. The socket's group and mode decide that; they come"
                    + " from systemd's unit leafd.socket, or from the daemon's settings socket_group and socket_mode";
        } else if (e instanceof ConnectException || !Files.exists(path)) {
            hint = "is the daemon running, and is this its socket? `systemctl status leafd` says how the system's is; "
                    + (path.toString().equals(System.getenv("LEAFD_SOCKET"))
                            ? "LEAFD_SOCKET has named this path" : "LEAFD_SOCKET can name another path");
        } else {
            hint = "check the daemon's log";
        }
        return new LeafdException.Unreachable(path, hint, denied, e);
    }

    private static void throwIfInterrupted() {
        if (Thread.currentThread().isInterrupted()) {
            throw new LeafdException.Interrupted();
        }
    }
}
