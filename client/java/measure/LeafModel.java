import com.sankuai.inf.leaf.IDGen;
import com.sankuai.inf.leaf.common.Result;
import com.sankuai.inf.leaf.common.Status;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.ReentrantReadWriteLock;

/**
 * A baseline for comparison: a model of how Leaf issues ids from segments in the process, with the locks and look-ups
 * that each id takes. A counter replaces the database, so claims cost nothing.
 */
final class LeafModel implements IDGen {
    private static final int STEP_MIN = 1_000;
    private static final int STEP_MAX = 1_000_000;

    /** A claimed range, from which ids are taken one by one. */
    private static final class Segment {
        final AtomicLong value = new AtomicLong();
        volatile long end;
        volatile int step;

        long idle() {
            return end - value.get();
        }
    }

    /** The two segments of a tag: one in use, and one that is claimed when a tenth of the first is used. */
    private static final class Buffer {
        final Segment[] segments = {new Segment(), new Segment()};
        final ReentrantReadWriteLock lock = new ReentrantReadWriteLock();
        final AtomicBoolean claiming = new AtomicBoolean();
        final AtomicLong database = new AtomicLong(1);
        volatile int current;
        volatile boolean nextReady;
        volatile boolean made;
        volatile int step = STEP_MIN;

        Segment current() {
            return segments[current];
        }

        /** Under load, each claim is twice as large as the last one. */
        void claim(Segment segment) {
            step = Math.min(2 * step, STEP_MAX);
            long first = database.getAndAdd(step);
            segment.value.set(first);
            segment.end = first + step;
            segment.step = step;
        }
    }

    private final Map<String, Buffer> cache = new ConcurrentHashMap<>();
    private final ExecutorService claims = Executors.newCachedThreadPool(work -> {
        Thread thread = new Thread(work);
        thread.setDaemon(true);
        return thread;
    });

    LeafModel(String key) {
        cache.put(key, new Buffer());
    }

    @Override
    public boolean init() {
        return true;
    }

    @Override
    public Result get(String key) {
        if (!cache.containsKey(key)) {
            return new Result(-2, Status.EXCEPTION);
        }
        Buffer buffer = cache.get(key);
        if (!buffer.made) {
            synchronized (buffer) {
                if (!buffer.made) {
                    buffer.claim(buffer.current());
                    buffer.made = true;
                }
            }
        }
        while (true) {
            buffer.lock.readLock().lock();
            try {
                Segment segment = buffer.current();
                boolean low = segment.idle() < 0.9 * segment.step;
                if (!buffer.nextReady && low && buffer.claiming.compareAndSet(false, true)) {
                    claims.execute(() -> claimNext(buffer));
                }
                long value = segment.value.getAndIncrement();
                if (value < segment.end) {
                    return new Result(value, Status.SUCCESS);
                }
            } finally {
                buffer.lock.readLock().unlock();
            }
            turn(buffer);
        }
    }

    private static void claimNext(Buffer buffer) {
        buffer.claim(buffer.segments[1 - buffer.current]);
        buffer.lock.writeLock().lock();
        try {
            buffer.nextReady = true;
            buffer.claiming.set(false);
        } finally {
            buffer.lock.writeLock().unlock();
        }
    }

    /** Switches to the next segment when it is available. */
    private static void turn(Buffer buffer) {
        while (buffer.claiming.get()) {
            Thread.onSpinWait();
        }
        buffer.lock.writeLock().lock();
        try {
            if (buffer.current().idle() <= 0 && buffer.nextReady) {
                buffer.current = 1 - buffer.current;
                buffer.nextReady = false;
            }
        } finally {
            buffer.lock.writeLock().unlock();
        }
    }
}
