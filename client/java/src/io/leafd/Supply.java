package io.leafd;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.ArrayDeque;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/**
 * One tag of a client: its current run, and how the next one is fetched.
 *
 * <p>One thread at a time fetches the next run. The others wait for it, each up to its own deadline. No lock is held
 * meanwhile, and other tags don't wait. Well before a run ends, one thread requests the next one without waiting for the
 * answer.
 */
final class Supply {
    private static final VarHandle CURRENT;

    static {
        try {
            CURRENT = MethodHandles.lookup().findVarHandle(Supply.class, "current", HeldRun.class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    private final byte[] tag;
    private final Requests requests;
    private final boolean mayHold;
    private final Deadline.Limit limit;

    /** The run from which ids are taken. It is written under the lock, except when a run is dropped. */
    private volatile HeldRun current = HeldRun.EMPTY;

    private volatile boolean closed;

    private final ReentrantLock lock = new ReentrantLock();
    /** Signalled when a run is installed, or the thread that fetches one fails. */
    private final Condition changed = lock.newCondition();
    /** Runs that arrived together with an installed one, with their expiry times. */
    private final Queue<HeldRun> queued = new ArrayDeque<>();

    private final Sizing sizing = new Sizing();
    /** The run installed last, until its use has been taken into account. */
    private HeldRun unlearned;

    private long installedNs;
    /** The request for the next run, if it was sent but no thread waits for it. */
    private Pending<Wire.Drawn> refill;
    /** Whether a thread is fetching the next run. */
    private boolean fetching;

    private int waiting;
    /** Whether ids of this tag may not be held. */
    private boolean neverHold;
    /** Whether a timer will check the age of the current run. */
    private boolean timed;

    private long timerNs;

    /** {@code limit}: how long the daemon may take for a run for which no thread waits yet. */
    Supply(byte[] tag, Requests requests, boolean mayHold, Deadline.Limit limit) {
        this.tag = tag;
        this.requests = requests;
        this.mayHold = mayHold;
        this.limit = limit;
    }

    /** The next id, from the held run if there is one. */
    long next(Deadline.Limit limit) {
        HeldRun run = current;
        long offset = run.nextOffset();
        if (!run.isGood(offset)) {
            return nextSlow(limit);
        }
        if (offset == run.refillOffset) {
            askAhead();
        }
        return run.id(offset);
    }

    /** The next id, drawn with a separate request. */
    long nextDirect(Deadline.Limit limit) {
        return requests.draw(tag, 1, false, Deadline.after(limit)).answer().runs()[0].first();
    }

    /** Ids from the daemon, in the order of issue. */
    long[] nextIds(int count, Deadline.Limit limit) {
        if (count < 0) {
            throw new IllegalArgumentException("a number of ids is from 0, not " + count);
        }
        Deadline deadline = Deadline.after(limit);
        long[] ids = new long[count];
        int filled = 0;
        while (filled < count) {
            int part = Math.min(count - filled, Wire.COUNT_MAX);
            for (Run run : requests.draw(tag, part, false, deadline).answer().runs()) {
                for (int offset = 0; offset < run.count(); offset++) {
                    ids[filled++] = run.id(offset);
                }
            }
        }
        return ids;
    }

    /** Drops all held ids. */
    void close() {
        closed = true;
        drop(current);
    }

    private long nextSlow(Deadline.Limit limit) {
        if (!mayHold) {
            return nextDirect(limit);
        }
        Deadline deadline = Deadline.after(limit);
        lock.lock();
        try {
            while (true) {
                // Another thread may have installed a run in the meantime.
                HeldRun run = current;
                long offset = run.nextOffset();
                if (run.isGood(offset)) {
                    return run.id(offset);
                }
                learn();
                drop(run);
                if (neverHold) {
                    break;
                }
                HeldRun next = closed ? null : nextQueued();
                if (next != null) {
                    install(next);
                    wakeWaiting();
                    return next.id(0);
                }
                if (!fetching) {
                    return fetch(deadline);
                }
                awaitChange(deadline);
            }
        } finally {
            lock.unlock();
        }
        return nextUnheld(deadline);
    }

    private void awaitChange(Deadline deadline) {
        waiting++;
        try {
            if (changed.awaitNanos(deadline.lastMomentNs() - System.nanoTime()) <= 0) {
                throw deadline.missed();
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new LeafdException.Interrupted();
        } finally {
            waiting--;
        }
    }

    /**
     * Fetches the next run while others wait, and takes its first id. The caller holds the lock, which is released
     * meanwhile.
     */
    private long fetch(Deadline deadline) {
        Pending<Wire.Drawn> ahead = refill;
        int count = wish();
        Pending<Wire.Drawn> drawn;
        fetching = true;
        lock.unlock();
        try {
            drawn = ahead != null && arrived(ahead, deadline) ? ahead : requests.draw(tag, count, true, deadline);
        } finally {
            lock.lock();
            fetching = false;
            if (ahead != null && ahead.isDone()) {
                refill = null;
            }
            wakeWaiting();
        }
        if (closed) {
            // The answer may have arrived before the client was closed.
            throw requests.link.closedException();
        }
        return stow(drawn.answer(), drawn.sent);
    }

    /** Waits for a run that was requested ahead. Returns false if the request failed, or if the ids are too old by now. */
    private boolean arrived(Pending<Wire.Drawn> ahead, Deadline deadline) {
        if (!requests.link.await(ahead, true, deadline.endOfGraceNs())) {
            throw deadline.missed();
        }
        // The error is old, and a new request will show the current one.
        Wire.Drawn drawn = ahead.answer();
        return drawn != null && !ahead.sent.plusMs(drawn.holdMs()).isPast();
    }

    /** Draws a single id of a tag whose ids may not be held. */
    private long nextUnheld(Deadline deadline) {
        Wire.Drawn drawn = requests.draw(tag, 1, true, deadline).answer();
        if (drawn.holdMs() > 0) {
            // The tag was recreated, and its ids may be held now.
            lock.lock();
            neverHold = false;
            lock.unlock();
        }
        return drawn.runs()[0].first();
    }

    /** Stores drawn ids and takes the first one. */
    private long stow(Wire.Drawn drawn, Moment sent) {
        Run[] runs = drawn.runs();
        if (drawn.holdMs() == 0) {
            // All ids except the first are skipped.
            neverHold = true;
            return runs[0].first();
        }
        // The time is counted from when the request was sent, because the time of issue is unknown.
        Moment expires = sent.plusMs(drawn.holdMs());
        for (Run run : runs) {
            // The caller gets the first id of the run, so each fetch yields one for its caller.
            queued.add(new HeldRun(run, 1, drawn.holdMs(), expires));
        }
        install(queued.remove());
        return runs[0].first();
    }

    private void install(HeldRun run) {
        unlearned = run;
        installedNs = System.nanoTime();
        current = run;
        if (closed) {
            // The thread that closes the client may have dropped the previous run instead.
            drop(run);
        }
        if (run.holdMs >= Sizing.SHORT_HOLD_MS) {
            run.setExpiredElsewhere(timed ? run.expires.ns() - timerNs >= 0 : startTimer(run));
        }
    }

    /** Schedules the run to be dropped when it expires. Returns false if there is no timer. */
    private boolean startTimer(HeldRun run) {
        try {
            long leftNs = run.expires.ns() - System.nanoTime();
            // This runs in the JDK's own timer thread, because the task is short and doesn't wait.
            CompletableFuture.delayedExecutor(leftNs, TimeUnit.NANOSECONDS, Runnable::run).execute(this::timeOver);
            timed = true;
            timerNs = run.expires.ns();
        } catch (RuntimeException | OutOfMemoryError e) {
            timed = false;
        }
        return timed;
    }

    /** Drops the current run if it has expired. */
    private void timeOver() {
        lock.lock();
        try {
            timed = false;
            HeldRun run = current;
            if (run.expires.isPast()) {
                drop(run);
            } else if (run.holdMs >= Sizing.SHORT_HOLD_MS) {
                run.setExpiredElsewhere(startTimer(run));
            }
        } finally {
            lock.unlock();
        }
    }

    private HeldRun nextQueued() {
        HeldRun run;
        do {
            run = queued.poll();
        } while (run != null && run.expires.isPast());
        return run;
    }

    private int wish() {
        // Each waiting thread needs one id.
        return Math.min(Math.max(sizing.wish(), waiting + 1), Sizing.RUN_COUNT_MAX);
    }

    /** Updates the size of the next run from the use of the current one, once per run. */
    private void learn() {
        if (unlearned != null) {
            HeldRun run = unlearned;
            unlearned = null;
            sizing.observe(run.holdMs, run.count, run.used(), System.nanoTime() - installedNs);
        }
    }

    /** Requests the next run, unless it has been requested already or the request would have to wait. */
    private void askAhead() {
        if (!lock.tryLock()) {
            return;
        }
        try {
            if (refill == null && !fetching && queued.isEmpty() && !neverHold && !closed) {
                learn();
                // If the request can't be sent, the run is requested again when the current one ends.
                refill = requests.tryDraw(tag, wish(), limit);
            }
        } finally {
            lock.unlock();
        }
    }

    private void wakeWaiting() {
        if (waiting > 0) {
            changed.signalAll();
        }
    }

    /** Drops a run, unless another one has replaced it. */
    private void drop(HeldRun run) {
        CURRENT.compareAndSet(this, run, HeldRun.EMPTY);
    }
}
