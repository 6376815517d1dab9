import io.leafd.LeafdClient;
import io.leafd.LeafdTag;
import java.util.function.LongSupplier;

/** Prints what an id costs in Java, from a held run and drawn directly, in nanoseconds. */
public final class Measure {
    private static double cost(LongSupplier draw) {
        long limit = Long.parseLong(System.getenv("MS")) * 1_000_000;
        long drawn = 0;
        long last = 0;
        long began = System.nanoTime();
        for (; System.nanoTime() - began < limit; drawn += 100) {
            for (int i = 0; i < 100; i++) {
                last ^= draw.getAsLong();
            }
        }
        double cost = (double) (System.nanoTime() - began) / drawn;
        return last == 1 ? cost + 1e-9 : cost; // so that no draw is optimized away
    }

    public static void main(String[] arguments) {
        try (LeafdClient client = LeafdClient.connect()) {
            LeafdTag tag = client.tag("bench");
            cost(tag::nextId); // the compiler warms up
            double held = cost(tag::nextId);
            cost(() -> client.nextIdDirect("bench"));
            System.out.println(held + " " + cost(() -> client.nextIdDirect("bench")));
        }
    }
}
