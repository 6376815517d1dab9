package io.leafd;

import java.nio.file.Path;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;

/** Sends requests that a caller waits for. Each has a deadline, and is retried if that is safe. */
final class Requests {
    /**
     * The maximum number of threads that may wait for answers at once; further threads queue. This is the daemon's
     * limit per connection.
     */
    private static final int ASKING_MAX = 1024;

    /** How many times a request is retried if the connection had answered before, because then the daemon is restarting. */
    private static final int SERVED_BREAKS_MAX = 1;

    /**
     * How many times a request is retried if new connections never answer, because then the daemon is still stopping or
     * starting.
     */
    private static final int BREAKS_MAX = 5;

    final Link link;
    private final Path path;
    private final Semaphore turns = new Semaphore(ASKING_MAX);

    Requests(Path path, boolean mayPoll) {
        this.path = path;
        link = new Link(path, mayPoll);
    }

    /**
     * Draws ids. {@code hold}: they are for a run that the process holds, so the daemon may return fewer than
     * {@code count}.
     */
    Pending<Wire.Drawn> draw(byte[] tag, int count, boolean hold, Deadline deadline) {
        return ask(
                Wire.IDS,
                Wire.IDS_BYTES + tag.length,
                (out, id) -> Wire.putIds(out, id, hold, count, deadline.leftMs(), tag),
                body -> Wire.readIds(body, count, hold),
                deadline);
    }

    /** Requests a run without waiting for it. Returns null if sending would have to wait. */
    Pending<Wire.Drawn> tryDraw(byte[] tag, int count, Deadline.Limit limit) {
        return link.trySubmit(
                Wire.IDS,
                Wire.IDS_BYTES + tag.length,
                (out, id) -> Wire.putIds(out, id, true, count, limit.ms(), tag),
                body -> Wire.readIds(body, count, true));
    }

    DaemonInfo info(Deadline deadline) {
        Pending<DaemonInfo> asked = ask(
                Wire.INFO,
                Wire.HEADER_BYTES + 4,
                (out, id) -> Wire.putInfo(out, id, Wire.VERSION, Wire.VERSION),
                Wire::readInfo,
                deadline);
        return asked.answer();
    }

    /** Masks or unmasks; {@code put} writes a request of {@code bytes} bytes for {@code count} ids. */
    byte[][] mask(int opcode, int bytes, Link.Writer put, int count, Deadline deadline) {
        return ask(opcode, bytes, put, body -> Wire.readMasked(body, count), deadline).answer();
    }

    /** Draws document numbers with a single request. */
    String[] numbers(byte[] name, int count, Deadline deadline) {
        Pending<String[]> asked = ask(
                Wire.SERIES_NEXT,
                Wire.IDS_BYTES + name.length,
                (out, id) -> Wire.putSeries(out, id, count, deadline.leftMs(), name),
                body -> Wire.readNumbers(body, count),
                deadline);
        return asked.answer();
    }

    /** Sends a request that is safe to retry, and waits for its answer. */
    private <T> Pending<T> ask(
            int opcode, int bytes, Link.Writer writer, Pending.Reader<T> reader, Deadline deadline) {
        takeTurn(deadline);
        try {
            int breaks = 0;
            int servedBreaks = 0;
            while (true) {
                Pending<T> asked = link.submit(opcode, bytes, writer, reader, deadline);
                awaitOrAbandon(asked, deadline);
                if (asked.answer() != null) {
                    return asked;
                }
                if (asked.refusal() != null) {
                    LeafdException.Refused refused = asked.refusal().toException();
                    if (refused.number() != Status.SHUTTING_DOWN.number() || deadline.isOver()) {
                        throw refused;
                    }
                    continue;
                }
                breaks++;
                servedBreaks += asked.connection.hasServed() ? 1 : 0;
                Break why = asked.broken();
                if (!why.isRetryable() || servedBreaks > SERVED_BREAKS_MAX || breaks > BREAKS_MAX) {
                    throw why.toException(path);
                }
            }
        } finally {
            turns.release();
        }
    }

    private void takeTurn(Deadline deadline) {
        try {
            if (!turns.tryAcquire() && !turns.tryAcquire(deadline.lastMomentNs() - System.nanoTime(), TimeUnit.NANOSECONDS)) {
                throw deadline.missed();
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new LeafdException.Interrupted();
        }
    }

    private void awaitOrAbandon(Pending<?> asked, Deadline deadline) {
        boolean done = false;
        try {
            done = link.await(asked, false, deadline.endOfGraceNs());
        } finally {
            if (!done) {
                link.abandon(asked);
            }
        }
        if (!done) {
            throw deadline.missed();
        }
    }
}
