package io.leafd;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.locks.LockSupport;

/**
 * One connection: its requests in flight, the threads that sleep until they are answered, and the dispatch of replies.
 *
 * <p>The link's lock guards it, except for what the reading thread does without the lock.
 */
final class Connection {
    /** If this many abandoned requests are still unanswered, the daemon counts as hung. */
    static final int ABANDONED_MAX = 8192;

    final Socket socket;
    final Polling polling;
    final long madeNs = System.nanoTime();
    /** The threads that sleep while another one reads, in the order in which they fell asleep. */
    final Set<Pending<?>> sleeping = new LinkedHashSet<>();
    /** Whether a thread is reading, without the lock. */
    boolean isReading;

    private final Map<Integer, Pending<?>> inFlight = new HashMap<>();
    private int lastId;
    private int abandoned;
    /** The error if the peer accepts no more bytes. Bytes that it sent before can still be read. */
    private IOException deaf;
    /** Whether this connection has answered a request. */
    private boolean served;

    private Break ended;

    Connection(Path path, boolean mayPoll) throws IOException {
        socket = Socket.connect(path);
        polling = new Polling(mayPoll);
    }

    boolean hasServed() {
        return served;
    }

    boolean hasEnded() {
        return ended != null;
    }

    /** Creates a request in flight, with an unused id. */
    <T> Pending<T> begin(int opcode, Pending.Reader<T> reader) {
        do {
            lastId++;
            // The id 0 marks connection-level errors.
        } while (lastId == 0 || inFlight.containsKey(lastId));
        Pending<T> pending = new Pending<>(this, opcode, lastId, reader);
        inFlight.put(pending.id, pending);
        return pending;
    }

    /** Abandons a request. */
    void abandon(Pending<?> pending) {
        if (!pending.isDone() && !pending.abandoned) {
            pending.abandoned = true;
            abandoned++;
        }
    }

    boolean isOverdue() {
        return abandoned >= ABANDONED_MAX;
    }

    void send() {
        if (ended == null && deaf == null && !socket.isSent()) {
            try {
                socket.send();
            } catch (IOException e) {
                // The peer may have sent a reason before it closed. Reading finds that reason, and then the end.
                deaf = e;
            }
        }
    }

    boolean isDeaf() {
        return deaf != null;
    }

    /** Passes the received frames to their requests. {@code got}: the result of {@link Socket#receive}. */
    void takeIn(int got, long nowNs) throws Break {
        if (got < 0) {
            throw Break.end();
        }
        if (got == 0 && deaf != null) {
            throw Break.io(deaf);
        }
        for (ByteBuffer frame = socket.frame(); frame != null; frame = socket.frame()) {
            dispatch(frame, nowNs);
        }
        socket.makeRoom();
    }

    private void dispatch(ByteBuffer frame, long nowNs) throws Break {
        int opcode = Byte.toUnsignedInt(frame.get());
        int flags = frame.get();
        int status = Short.toUnsignedInt(frame.getShort());
        int id = frame.getInt();
        boolean closes = Status.of(status).closes();
        if (closes && id == 0) {
            // A connection-level error.
            Wire.Refusal refusal = Wire.readRefusal(status, frame);
            inFlight.values().forEach(pending -> pending.refuse(refusal));
            throw Break.end();
        }
        polling.answered(nowNs, (flags & Wire.FLAG_AWAKE) != 0);
        Pending<?> pending = inFlight.get(id);
        if (pending == null) {
            throw Break.protocol("a reply has the id of no request that awaits one");
        }
        if (opcode != pending.opcode + Wire.REPLY) {
            throw Break.protocol("a reply's opcode differs from its request's");
        }
        if (pending.abandoned) {
            abandoned--;
        } else {
            pending.complete(status, frame);
        }
        inFlight.remove(id);
        served |= status == Status.OK.number();
        wake(pending);
        if (closes) {
            throw Break.end();
        }
    }

    /** Closes the connection and fails all its requests. */
    void breakOff(Break why) {
        if (ended != null) {
            return;
        }
        ended = why;
        try {
            socket.close();
        } catch (IOException e) {
            // The connection is unusable anyway.
        }
        for (Pending<?> pending : inFlight.values()) {
            if (!pending.isDone()) {
                pending.breakOff(why);
            }
            wake(pending);
        }
        inFlight.clear();
    }

    /** Wakes a sleeping thread to read, if none is reading. */
    void passReadingOn() {
        if (!isReading && ended == null && !sleeping.isEmpty()) {
            wake(sleeping.iterator().next());
        }
    }

    private static void wake(Pending<?> pending) {
        if (pending.sleeper != null) {
            LockSupport.unpark(pending.sleeper);
        }
    }
}
