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
 * The link to the daemon: one connection at a time, shared by all threads and reopened when it breaks.
 *
 * <p>Any number of threads can wait at once, because each request has an id. One of them reads, and passes the others
 * their answers. When it has its own answer, another thread takes over. No lock is held while a thread waits.
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
    /** Whether a connection was ever made. If so, a missing daemon is restarting. */
    private boolean reached;

    private long nextTryNs = System.nanoTime();
    private long backOffNs = BACK_OFF_MIN_NS;

    Link(Path path, boolean mayPoll) {
        this.path = path;
        this.mayPoll = mayPoll;
    }

    /** Sends a request of at most this many bytes, and reconnects first if necessary. */
    <T> Pending<T> submit(int opcode, int bytes, Writer writer, Pending.Reader<T> reader, Deadline deadline) {
        lockConnected(deadline);
        try {
            return submit(connection, opcode, bytes, writer, reader);
        } finally {
            lock.unlock();
        }
    }

    /** Like {@link #submit}, but returns null if that would have to wait. */
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
     * Waits until the request ends.
     *
     * @param maybeThere whether the answer may have arrived already
     * @return false if it is still in flight at {@code untilNs}
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

    /** Sleeps until the reading thread wakes this one. */
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

    /** Reads once for all threads, without the lock. Returns whether to continue polling. */
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

    /** Polls the socket for a moment. */
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
            // The cause is probably exhausted memory. It is unknown how much was read.
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

    /** Abandons a request. */
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

    /** The error of a call on a closed client. */
    RuntimeException closedException() {
        return Break.closed().toException(path);
    }

    /** Closes the connection for good. */
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
                // A connection without any answer counts as a failed attempt.
                backOff(System.nanoTime());
            }
        }
    }

    /**
     * Takes the lock, and reconnects if necessary: with growing pauses until the deadline, and then one last time. If
     * no daemon has ever run, it fails immediately, unless the call waits for one.
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
                    // Another thread may have connected while this one waited.
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

    /** Doubles the pause, with jitter, so that a host's processes don't all reconnect at once. */
    private void backOff(long nowNs) {
        nextTryNs = nowNs + backOffNs * ThreadLocalRandom.current().nextLong(75, 125) / 100;
        backOffNs = Math.min(2 * backOffNs, BACK_OFF_MAX_NS);
    }

    /** Whether an unreachable daemon may be back soon. */
    private boolean mayComeBack(IOException e, Deadline deadline) {
        if (e instanceof BindException) {
            return false;
        }
        // A full backlog means that a daemon is running. A socket that refuses connections was left by a killed daemon.
        return Files.exists(path) || deadline.waits() || reached || SocketPath.hasJustGone(path);
    }

    private LeafdException unreachable(IOException e) {
        // The JDK throws this class for EACCES.
        boolean denied = e instanceof BindException;
        String hint;
        if (denied) {
            hint = "this user may not open the socket or enter its folder. The socket's group and mode decide that; they come"
                    + " from systemd's unit leafd.socket, or from the daemon's settings socket_group and socket_mode";
        } else if (e instanceof ConnectException || !Files.exists(path)) {
            hint = "is the daemon running, and is this its socket? `systemctl status leafd` shows the state of the system's"
                    + " daemon; " + (path.toString().equals(System.getenv("LEAFD_SOCKET"))
                            ? "LEAFD_SOCKET names this path" : "LEAFD_SOCKET can name another path");
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
