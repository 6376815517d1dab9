package io.leafd;

import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import java.util.concurrent.CyclicBarrier;

/** Tests runs, their sizes and polling in isolation, without a daemon or a clock. */
final class HeldRunTest {
    private HeldRunTest() {}

    static void aRunIsTakenFromItsOffsetToItsEndAndNoFurther() {
        HeldRun run = new HeldRun(new Run(100, 4, 3), 1, 60_000, Moment.now().plusMs(60_000));
        List<Long> ids = new ArrayList<>();
        for (long offset = run.nextOffset(); run.isGood(offset); offset = run.nextOffset()) {
            ids.add(run.id(offset));
        }
        Check.equal(List.of(103L, 106L, 109L), ids);
        Check.equal(3, run.refillOffset);
        Check.equal(4, run.used());
        Check.that(!HeldRun.EMPTY.isGood(HeldRun.EMPTY.nextOffset()), "the empty run has an id");
    }

    static void anOldRunGivesNothing() {
        HeldRun run = new HeldRun(new Run(1, 1000, 1), 0, 50, Moment.now());
        Check.that(!run.isGood(run.nextOffset()), "an id that is too old");
        // With a timer, only every 64th id checks the clock, so fewer than 64 ids are late.
        run.setExpiredElsewhere(true);
        int late = 0;
        while (run.isGood(run.nextOffset())) {
            late++;
        }
        Check.that(late < 64, late + " ids were late");
        run.setExpiredElsewhere(false);
        Check.that(!run.isGood(run.nextOffset()), "an id that is too old");
    }

    /** A suspend as seen by a process, whose monotonic clock did not advance; and a wall clock that was set back. */
    static void aRunIsOldWhenEitherClockSaysSo() {
        Moment now = Moment.now();
        for (Moment expires : List.of(new Moment(now.ns() + 60_000_000_000L, now.wallMs()), new Moment(now.ns(), now.wallMs() + 60_000))) {
            HeldRun run = new HeldRun(new Run(1, 1000, 1), 0, 60_000, expires);
            Check.that(!run.isGood(run.nextOffset()), "an id that is too old");
        }
        HeldRun run = new HeldRun(new Run(1, 1000, 1), 0, 60_000, now.plusMs(60_000));
        Check.that(run.isGood(run.nextOffset()), "an id that is not");
    }

    static void theNextRunIsAskedForLateInShortRuns() {
        int[][] offsets = {{1, 0}, {2, 1}, {3, 2}, {4, 3}, {64, 48}, {255, 191}, {256, 128}, {65_536, 32_768}};
        for (int[] of : offsets) {
            Check.equal(of[1], Sizing.refillOffset(of[0]));
        }
    }

    static void idsUpToTheLargestCanBeTaken() {
        HeldRun run = new HeldRun(new Run(Long.MAX_VALUE - 1, 2, 1), 1, 60_000, Moment.now().plusMs(60_000));
        Check.equal(Long.MAX_VALUE, run.id(run.nextOffset()));
        Check.that(!run.isGood(run.nextOffset()), "the run has two ids");
    }

    static void threadsThatShareARunNeverShareAnId() throws Exception {
        int count = 20_000_000;
        HeldRun run = new HeldRun(new Run(1, count, 1), 0, 60_000, Moment.now().plusMs(60_000));
        run.setExpiredElsewhere(true);
        CyclicBarrier together = new CyclicBarrier(4);
        List<BitSet> taken = Check.inThreads(4, () -> {
            BitSet ids = new BitSet(count);
            together.await();
            for (long offset = run.nextOffset(); run.isGood(offset); offset = run.nextOffset()) {
                int id = (int) run.id(offset);
                Check.that(!ids.get(id), id + " was returned twice to one thread");
                ids.set(id);
            }
            return ids;
        });
        BitSet all = new BitSet(count);
        for (BitSet ids : taken) {
            Check.that(!all.intersects(ids), "two threads got the same id");
            all.or(ids);
        }
        Check.equal(count, all.cardinality());
    }

    /** Returns the size at which the wish settles at a steady rate. */
    private static int settled(long holdMs, long idsASecond) {
        Sizing sizing = new Sizing();
        for (int round = 0; round < 64; round++) {
            int count = sizing.wish();
            sizing.observe(holdMs, count, count, count * 1_000_000_000L / idsASecond);
        }
        return sizing.wish();
    }

    static void shortLivedRunsLastThreeMilliseconds() {
        Check.equal(3000, settled(8, 1_000_000));
        Check.equal(3, settled(8, 1000));
        Check.equal(1, settled(8, 10));
        Check.equal(1000, settled(2, 1_000_000));
        Check.equal(Sizing.RUN_COUNT_MAX, settled(8, 1_000_000_000));
    }

    static void longLivedRunsLastAQuarterOfASecondAndHaveAFloor() {
        Check.equal(Sizing.LONG_FLOOR, settled(60_000, 1));
        int wish = settled(60_000, 1000);
        Check.that(wish >= 250 && wish <= 512, "at 1,000 a second: " + wish);
        Check.equal(Sizing.RUN_COUNT_MAX, settled(60_000, 1_000_000));
        Check.equal(Sizing.RUN_COUNT_MAX, settled(60_000, 1_000_000_000));
    }

    static void aTagThatGoesIdleShrinks() {
        Sizing sizing = new Sizing();
        for (int round = 0; round < 20; round++) {
            sizing.observe(60_000, sizing.wish(), sizing.wish(), 1);
        }
        Check.equal(Sizing.RUN_COUNT_MAX, sizing.wish());
        for (int round = 0; round < 16; round++) {
            sizing.observe(60_000, 1000, 1, 60_000_000_000L);
        }
        Check.equal(Sizing.LONG_FLOOR, sizing.wish());
    }

    static void pollsOnlyBackToBackWithADaemonThatIsAwake() {
        Polling polling = new Polling(true);
        Check.that(!polling.begin(0), "before any answer");
        polling.answered(0, true);
        Check.that(polling.begin(Polling.WINDOW_NS / 2), "back to back");
        Check.that(!polling.begin(Polling.WINDOW_NS * 2), "after a pause");
        polling.answered(0, false);
        Check.that(!polling.begin(0), "with a sleeping daemon");
        Polling never = new Polling(false);
        never.answered(0, true);
        Check.that(!never.begin(0), "where it is not allowed");
    }

    static void pollsThatBringNothingGetRarer() {
        Polling polling = new Polling(true);
        polling.answered(0, true);
        int polls = 0;
        for (int request = 0; request < 100_000; request++) {
            if (polling.begin(0)) {
                polling.end(false);
                polls++;
            }
        }
        Check.that(polls < 40, polls + " polls");
    }
}
