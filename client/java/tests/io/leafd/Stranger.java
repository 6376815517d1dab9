package io.leafd;

import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.BooleanSupplier;

/**
 * A fake daemon, whose answers a test defines. By default, it behaves like a real daemon with one counter.
 */
final class Stranger implements AutoCloseable {
    /** A received request. */
    record Request(int opcode, int flags, int id, ByteBuffer body) {
        int count() {
            return body.getInt(0);
        }

        boolean hold() {
            return (flags & Wire.FLAG_HOLD) != 0;
        }

        String tag() {
            byte[] bytes = new byte[Short.toUnsignedInt(body.getShort(8))];
            body.get(10, bytes);
            return new String(bytes, StandardCharsets.UTF_8);
        }
    }

    /** Returns the answer to a request. Null: there is no answer, and the connection is closed. */
    interface Answer {
        byte[] to(Request request);
    }

    /** No answer. */
    static final byte[] SILENCE = {};

    final AtomicInteger connections = new AtomicInteger();
    final AtomicInteger ended = new AtomicInteger();
    final List<Request> requests = new CopyOnWriteArrayList<>();
    /** How long the counter's ids may be held, in milliseconds. */
    volatile long holdMs = 60_000;

    volatile Answer answer = this::wellDone;
    /** Whether the connection ends after the answer. */
    volatile BooleanSupplier closes = () -> false;
    /** Sent on each connection as soon as it is open. */
    volatile byte[] greeting = SILENCE;

    private final Path folder = Files.createTempDirectory("leafd-stranger-");
    private final AtomicLong next = new AtomicLong(1);
    private ServerSocketChannel listener;
    private final List<SocketChannel> channels = new CopyOnWriteArrayList<>();

    Stranger() throws IOException {
        listen();
    }

    Path socket() {
        return folder.resolve("s");
    }

    LeafdClient.Builder builder() {
        return LeafdClient.builder().socket(socket());
    }

    /** Starts listening, for the first time or again. */
    void listen() throws IOException {
        ServerSocketChannel listener = ServerSocketChannel.open(StandardProtocolFamily.UNIX);
        listener.bind(UnixDomainSocketAddress.of(socket()));
        this.listener = listener;
        start(() -> {
            while (true) {
                SocketChannel channel = listener.accept();
                connections.incrementAndGet();
                channels.add(channel);
                start(() -> serve(channel));
            }
        });
    }

    /** Closes all connections, like a daemon that has exited. */
    void stop() throws IOException {
        listener.close();
        Files.deleteIfExists(socket());
        for (SocketChannel channel : channels) {
            channel.close();
        }
        channels.clear();
    }

    /** Sends unrequested bytes on every connection. */
    void push(byte[] bytes) throws IOException {
        for (SocketChannel channel : channels) {
            channel.write(ByteBuffer.wrap(bytes));
        }
    }

    private interface Work {
        void run() throws IOException;
    }

    private static void start(Work work) {
        Thread thread = new Thread(() -> {
            try {
                work.run();
            } catch (IOException e) {
                // The peer or the test has finished.
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    private void serve(SocketChannel channel) throws IOException {
        try (channel) {
            channel.write(ByteBuffer.wrap(greeting));
            while (true) {
                ByteBuffer header = read(channel, Wire.HEADER_BYTES);
                ByteBuffer body = read(channel, header.getInt() - 8);
                int opcode = header.get();
                int flags = header.get();
                Request request = new Request(opcode, flags, header.getInt(8), body);
                requests.add(request);
                byte[] bytes = answer.to(request);
                if (bytes == null) {
                    return;
                }
                channel.write(ByteBuffer.wrap(bytes));
                if (closes.getAsBoolean()) {
                    return;
                }
            }
        } finally {
            ended.incrementAndGet();
        }
    }

    private static ByteBuffer read(SocketChannel channel, int bytes) throws IOException {
        ByteBuffer buffer = buffer(bytes);
        while (buffer.hasRemaining()) {
            if (channel.read(buffer) < 0) {
                throw new IOException("the end");
            }
        }
        return buffer.flip();
    }

    static ByteBuffer buffer(int bytes) {
        return ByteBuffer.allocate(bytes).order(ByteOrder.LITTLE_ENDIAN);
    }

    /** The number of requests for ids received. */
    int drawn() {
        return (int) requests.stream().filter(request -> request.opcode() == Wire.IDS).count();
    }

    /** Returns as many ids as were requested, in one run. */
    byte[] wellDone(Request request) {
        if (request.opcode() == Wire.INFO) {
            return reply(request, 0, info(1, "0.1.0"));
        }
        return reply(request, 0, ids(holdMs, run(next.getAndAdd(request.count()), request.count(), 1)));
    }

    /** Returns the next number of the counter, and advances it by {@code count}. */
    long take(int count) {
        return next.getAndAdd(count);
    }

    static byte[] reply(Request request, int status, byte[] body) {
        return frame(request.opcode() + Wire.REPLY, 0, status, request.id(), body);
    }

    static byte[] refusal(Request request, int status, String explanation) {
        return reply(request, status, refusal(0, explanation));
    }

    static byte[] refusal(int retryAfterMs, String explanation) {
        byte[] text = explanation.getBytes(StandardCharsets.UTF_8);
        return buffer(4 + text.length).putInt(retryAfterMs).put(text).array();
    }

    static byte[] frame(int opcode, int flags, int status, int id, byte[] body) {
        ByteBuffer frame = buffer(Wire.HEADER_BYTES + body.length);
        frame.putInt(8 + body.length).put((byte) opcode).put((byte) flags).putShort((short) status).putInt(id).put(body);
        return frame.array();
    }

    static byte[] ids(long holdMs, byte[]... runs) {
        ByteBuffer body = buffer(8 + 16 * runs.length);
        body.putInt((int) holdMs).putShort((short) runs.length).putShort((short) 0);
        for (byte[] run : runs) {
            body.put(run);
        }
        return body.array();
    }

    static byte[] run(long first, int count, int stride) {
        return buffer(16).putLong(first).putInt(count).putInt(stride).array();
    }

    static byte[] info(int version, String release) {
        byte[] text = release.getBytes(StandardCharsets.UTF_8);
        ByteBuffer body = buffer(28 + text.length).putShort((short) version).putShort((short) 3);
        body.putInt(65_536).putInt(Wire.COUNT_MAX).putInt(1024).putInt(60_000).putInt(1);
        return body.putShort((short) text.length).put(text).putShort((short) 0).array();
    }

    @Override
    public void close() throws IOException {
        stop();
        Files.deleteIfExists(folder);
    }
}
