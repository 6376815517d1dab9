import io.leafd.LeafdClient;
import io.leafd.LeafdTag;

/**
 * Draws ids.
 *
 * <pre>java -cp "$(client/java/build)" client/java/examples/DrawIds.java orders 5</pre>
 */
class DrawIds {
    public static void main(String[] arguments) {
        String tag = arguments.length > 0 ? arguments[0] : "orders";
        int count = arguments.length > 1 ? Integer.parseInt(arguments[1]) : 3;
        try (LeafdClient client = LeafdClient.connect()) {
            // From a run of ids that the process holds, in nanoseconds each.
            LeafdTag orders = client.tag(tag);
            for (int left = count; left > 0; left--) {
                System.out.println(orders.nextId());
            }
            // Draw many ids at once, in the order of issue.
            for (long id : client.nextIds(tag, 10)) {
                System.out.println(id);
            }
        }
    }
}
