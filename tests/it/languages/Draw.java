import io.leafd.LeafdClient;
import io.leafd.LeafdException;
import java.io.FileOutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Path;

/** Writes ids of every form to a file until standard input ends. Only what a retry may mend may go wrong. */
class Draw {
    private static volatile boolean ended;

    public static void main(String[] arguments) throws Exception {
        Thread input = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {}
            } catch (java.io.IOException e) {
                // It is the end as well.
            }
            ended = true;
        });
        input.setDaemon(true);
        input.start();
        try (LeafdClient client = LeafdClient.builder().socket(Path.of(arguments[0])).build();
                FileOutputStream out = new FileOutputStream(arguments[1], true)) {
            while (!ended) {
                ByteBuffer ids = ByteBuffer.allocate(8 * 26).order(ByteOrder.LITTLE_ENDIAN);
                try {
                    for (int left = 20; left > 0; left--) {
                        ids.putLong(client.nextId("orders"));
                    }
                    ids.putLong(client.nextIdDirect("orders"));
                    for (long id : client.nextIds("orders", 5)) {
                        ids.putLong(id);
                    }
                } catch (LeafdException e) {
                    if (!e.isRetryable()) {
                        throw e;
                    }
                }
                out.write(ids.array(), 0, ids.position());
                Thread.sleep(1);
            }
        }
    }
}
