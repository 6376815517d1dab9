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
 * One tag of a client: the run that the process holds, and where the next one comes from.
 *
 * <p>One thread at a time fetches the next run; the others wait for it, each by its own deadline. No lock is held
 * meanwhile, and other tags are not held up. Well before a run's end the thread that takes that id asks for the next one,
 * without waiting for the answer.
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

    /** The run that ids are taken of. Written under the lock, but for runs that are dropped. */
    private volatile HeldRun current = HeldRun.EMPTY;

    private volatile boolean closed;

    private final ReentrantLock lock = new ReentrantLock();
    /** A run was installed, or the thread that fetched one gave up. */
    private final Condition changed = lock.newCondition();
    /** Runs that came along with an installed one, and when they are too old. */
    private final Queue<HeldRun> queued = new ArrayDeque<>();

    private final Sizing sizing = new Sizing();
    /** The run installed last, to learn from how it went; null: that has been done. */
    private HeldRun unlearned;

    private long installedNs;
    /** The next run, asked for and not yet awaited. */
    private Pending<Wire.Drawn> refill;
    /** A thread awaits the next run. */
    private boolean fetching;

    private int waiting;
    /** Ids of this tag may not be held. */
    private boolean neverHold;
    /** A timer will look whether the current run is too old, and when. */
    private boolean timed;

    private long timerNs;

    /** {@code limit}: how long the daemon may take over a run that nobody waits for yet. */
    Supply(byte[] tag, Requests requests, boolean mayHold, Deadline.Limit limit) {
        this.tag = tag;
        this.requests = requests;
        this.mayHold = mayHold;
        this.limit = limit;
    }

    /** The next id, out of the held run if there is one. */
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

    /** The next id by a request of its own. */
    long nextDirect(Deadline.Limit limit) {
        return requests.draw(tag, 1, false, Deadline.after(limit)).answer().runs()[0].first();
    }

    /** Ids straight from the daemon, in the order in which they were issued. */
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

    /** Gives no id out of a held run any more. */
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
                // Another thread may have installed a run since.
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

    /** Gets the next run while others wait, and takes its first id. With the lock, which it gives up meanwhile. */
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

    /** Waits for a run that was asked for ahead. False: it brought no ids, or such as are too old by now. */
    private boolean arrived(Pending<Wire.Drawn> ahead, Deadline deadline) {
        if (!requests.link.await(ahead, true, deadline.endOfGraceNs())) {
            throw deadline.missed();
        }
        // What went wrong was some time ago: a request of now tells what is the matter now.
        Wire.Drawn drawn = ahead.answer();
        return drawn != null && !ahead.sent.plusMs(drawn.holdMs()).isPast();
    }

    /** One id by a request of its own, of a tag whose ids may not be held. */
    private long nextUnheld(Deadline deadline) {
        Wire.Drawn drawn = requests.draw(tag, 1, true, deadline).answer();
        if (drawn.holdMs() > 0) {
            // The tag was made anew, as one whose ids may be held.
            lock.lock();
            neverHold = false;
            lock.unlock();
        }
        return drawn.runs()[0].first();
    }

    /** Puts drawn ids where they belong and takes the first. */
    private long stow(Wire.Drawn drawn, Moment sent) {
        Run[] runs = drawn.runs();
        if (drawn.holdMs() == 0) {
            // What came beyond the one id is skipped.
            neverHold = true;
            return runs[0].first();
        }
        // Counted from the sending: when the daemon issued them is not known any better.
        Moment expires = sent.plusMs(drawn.holdMs());
        for (Run run : runs) {
            // Each run's first id is its caller's, so that each fetch brings its caller one.
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
            // Whoever closes may have dropped the run before this one.
            drop(run);
        }
        if (run.holdMs >= Sizing.SHORT_HOLD_MS) {
            run.setExpiredElsewhere(timed ? run.expires.ns() - timerNs >= 0 : startTimer(run));
        }
    }

    /** Has the run dropped when its time is over. False: no timer can be had. */
    private boolean startTimer(HeldRun run) {
        try {
            long leftNs = run.expires.ns() - System.nanoTime();
            // The JDK's own thread for such things: what it runs here is short, and waits for nothing.
            CompletableFuture.delayedExecutor(leftNs, TimeUnit.NANOSECONDS, Runnable::run).execute(this::timeOver);
            timed = true;
            timerNs = run.expires.ns();
        } catch (RuntimeException | OutOfMemoryError e) {
            timed = false;
        }
        return timed;
    }

    /** The time of the run that the timer was started for is over, if it is there still. */
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
        // Each thread that waits is to get one.
        return Math.min(Math.max(sizing.wish(), waiting + 1), Sizing.RUN_COUNT_MAX);
    }

    /** Learns from how the current run went so far; once a run. */
    private void learn() {
        if (unlearned != null) {
            HeldRun run = unlearned;
            unlearned = null;
            sizing.observe(run.holdMs, run.count, run.used(), System.nanoTime() - installedNs);
        }
    }

    /** Asks for the next run, if nobody has and nobody is in the way. */
    private void askAhead() {
        if (!lock.tryLock()) {
            return;
        }
        try {
            if (refill == null && !fetching && queued.isEmpty() && !neverHold && !closed) {
                learn();
                // One that can't be sent is not missed: the end of the run asks again.
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

    /** Drops a run, unless another one has taken its place. */
    private void drop(HeldRun run) {
        CURRENT.compareAndSet(this, run, HeldRun.EMPTY);
    }
}
