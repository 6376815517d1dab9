package io.leafd;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;

/** Runs the tests: every non-private static method without parameters of these classes. */
public final class Tests {
    private static final List<Class<?>> CLASSES = List.of(
            CodecTest.class,
            VectorsTest.class,
            HeldRunTest.class,
            HoldingTest.class,
            HostileTest.class,
            WaitingTest.class,
            DrawingTest.class,
            RestartsTest.class,
            OthersTest.class,
            LeafIdGenTest.class,
            PublicIdsTest.class,
            SeriesTest.class,
            FakeTest.class,
            ReadmeTest.class);

    /** All tests together take half a minute. If one hangs, the results of the others can't be trusted. */
    private static final long MINUTES_MAX = 3;

    private Tests() {}

    public static void main(String[] chosen) throws Exception {
        guard();
        int passed = 0;
        List<String> failed = new ArrayList<>();
        for (Class<?> tests : CLASSES) {
            Method[] methods = tests.getDeclaredMethods();
            Arrays.sort(methods, Comparator.comparing(Method::getName));
            for (Method test : methods) {
                String name = tests.getSimpleName() + "." + test.getName();
                boolean wanted = chosen.length == 0 || Arrays.stream(chosen).anyMatch(name::contains);
                if (isTest(test) && wanted) {
                    if (run(name, test)) {
                        passed++;
                    } else {
                        failed.add(name);
                    }
                }
            }
        }
        System.out.printf("%d passed, %d failed%n", passed, failed.size());
        failed.forEach(name -> System.out.println("FAILED " + name));
        System.exit(failed.isEmpty() && passed > 0 ? 0 : 1);
    }

    private static boolean isTest(Method method) {
        int modifiers = method.getModifiers();
        return Modifier.isStatic(modifiers) && !Modifier.isPrivate(modifiers) && !method.isSynthetic()
                && method.getParameterCount() == 0;
    }

    private static boolean run(String name, Method test) throws IllegalAccessException {
        long beganNs = System.nanoTime();
        try {
            test.invoke(null);
            System.out.printf("ok   %s (%d ms)%n", name, (System.nanoTime() - beganNs) / 1_000_000);
            return true;
        } catch (InvocationTargetException e) {
            System.out.println("FAIL " + name);
            e.getCause().printStackTrace(System.out);
            return false;
        }
    }

    /** Ends the tests if they hang, and prints the stack traces of all threads. */
    private static void guard() {
        Thread guard = new Thread(() -> {
            try {
                Thread.sleep(MINUTES_MAX * 60_000);
            } catch (InterruptedException e) {
                return;
            }
            Thread.getAllStackTraces().forEach((thread, stack) -> {
                System.out.println(thread);
                Arrays.stream(stack).forEach(frame -> System.out.println("    " + frame));
            });
            System.out.println("FAILED: hanging for " + MINUTES_MAX + " minutes");
            Runtime.getRuntime().halt(1);
        });
        guard.setDaemon(true);
        guard.start();
    }
}
