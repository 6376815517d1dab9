package io.leafd;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.Map;
import java.util.Queue;
import java.util.stream.LongStream;

/**
 * A source of ids for tests, which needs no daemon. The ids of each tag are 1, 2, 3, and so on. All threads can share
 * an instance.
 */
public final class FakeClient implements IdSource {
    private final Map<String, Long> last = new HashMap<>();
    private final Queue<Status> failures = new ArrayDeque<>();

    /** Creates a fake whose tags all start at 1. */
    public FakeClient() {}

    /**
     * Makes the next call fail as if the daemon had answered with this status. Call it several times to make that many calls
     * fail.
     *
     * @param status the daemon's answer
     */
    public synchronized void failNext(Status status) {
        failures.add(Argument.given(status, "a status"));
    }

    @Override
    public long nextId(String tag) {
        return nextIds(tag, 1)[0];
    }

    @Override
    public long nextId(String tag, Duration within) {
        return nextIds(tag, 1, within)[0];
    }

    @Override
    public long nextIdDirect(String tag) {
        return nextId(tag);
    }

    @Override
    public long nextIdDirect(String tag, Duration within) {
        return nextId(tag, within);
    }

    @Override
    public synchronized long[] nextIds(String tag, int count) {
        Wire.tagBytes(Argument.given(tag, "a tag's name"));
        if (count < 0) {
            throw new IllegalArgumentException("a count of ids is from 0, not " + count);
        }
        Status failure = failures.poll();
        if (failure != null) {
            throw new LeafdException.Refused(failure.number(), 0, "the fake was told to fail");
        }
        long end = last.merge(tag, (long) count, Long::sum);
        return LongStream.rangeClosed(end - count + 1, end).toArray();
    }

    @Override
    public long[] nextIds(String tag, int count, Duration within) {
        Deadline.Limit.of(within);
        return nextIds(tag, count);
    }

    @Override
    public DaemonInfo info() {
        return new DaemonInfo(Wire.VERSION, true, true, Wire.COUNT_MAX, Wire.DEADLINE_MS_MAX,
                ProcessHandle.current().pid(), "fake", Map.of("snowflake", Layout.LEAF));
    }
}
