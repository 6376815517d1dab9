package io.leafd;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.BooleanSupplier;

/** Assertions for tests, and threads in which tests draw ids. */
final class Check {
    private Check() {}

    /** Code that may throw any exception. */
    interface Code {
        void run() throws Exception;
    }

    static void that(boolean holds, String otherwise) {
        if (!holds) {
            throw new AssertionError(otherwise);
        }
    }

    static void equal(Object expected, Object found) {
        that(Objects.equals(expected, found), "expected " + expected + ", found " + found);
    }

    /**
     * Returns the exception that the code throws. It must be of the given class, and its message must contain the
     * words.
     */
    static <E extends Exception> E throwing(Class<E> expected, String words, Code code) {
        try {
            code.run();
        } catch (Exception e) {
            if (!expected.isInstance(e)) {
                throw new AssertionError("not a " + expected.getSimpleName(), e);
            }
            that(e.getMessage().contains(words), "\"" + words + "\" is not in: " + e.getMessage());
            return expected.cast(e);
        }
        throw new AssertionError("no " + expected.getSimpleName() + " was thrown");
    }

    /** Waits until the condition holds. */
    static void eventually(String what, BooleanSupplier holds) {
        long endNs = System.nanoTime() + Duration.ofSeconds(20).toNanos();
        while (!holds.getAsBoolean()) {
            that(System.nanoTime() - endNs < 0, "not in 20 s: " + what);
            pause(2);
        }
    }

    static void pause(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    /** Checks that all ids are different and positive, and that there are as many as expected. */
    static void unique(long expected, List<long[]> drawn) {
        long[] all = drawn.stream().flatMapToLong(Arrays::stream).sorted().toArray();
        equal(expected, (long) all.length);
        for (int index = 0; index < all.length; index++) {
            that(all[index] > 0, "not positive: " + all[index]);
            that(index == 0 || all[index] != all[index - 1], "twice: " + all[index]);
        }
    }

    static void ascending(long[] ids) {
        for (int index = 1; index < ids.length; index++) {
            that(ids[index] > ids[index - 1], ids[index] + " after " + ids[index - 1]);
        }
    }

    /** Does the work in this many threads at once, and returns the results. */
    static <T> List<T> inThreads(int threads, Callable<T> work) throws Exception {
        return in(Executors.newFixedThreadPool(threads), threads, work);
    }

    /** The same in virtual threads if the JDK has them, otherwise in as many platform threads. */
    static <T> List<T> inVirtualThreads(int threads, Callable<T> work) throws Exception {
        try {
            Object executor = Executors.class.getMethod("newVirtualThreadPerTaskExecutor").invoke(null);
            return in((ExecutorService) executor, threads, work);
        } catch (NoSuchMethodException e) {
            return inThreads(threads, work);
        }
    }

    private static <T> List<T> in(ExecutorService executor, int threads, Callable<T> work) throws Exception {
        try {
            List<Future<T>> futures = new ArrayList<>();
            for (int thread = 0; thread < threads; thread++) {
                futures.add(executor.submit(work));
            }
            List<T> results = new ArrayList<>();
            for (Future<T> future : futures) {
                results.add(future.get());
            }
            return results;
        } catch (ExecutionException e) {
            throw new AssertionError("in a thread", e.getCause());
        } finally {
            executor.shutdownNow();
        }
    }
}
