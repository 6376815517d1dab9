package io.leafd;

import java.io.Closeable;
import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.ClosedSelectorException;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import java.nio.file.Path;

/**
 * A connected socket, its unsent bytes, and its received frames. Only {@link #await} waits.
 *
 * <p>It is never in blocking mode, because an interrupt of a waiting thread would close the channel for all others.
 */
final class Socket implements Closeable {
    /** Room for about a thousand requests, or replies of one run each. */
    private static final int BUFFER_BYTES = 64 * 1024;

    private final SocketChannel channel;
    private final Selector selector;
    private final SelectionKey key;
    /** Bytes that the system has not accepted yet, up to the position. */
    private ByteBuffer out = allocate(BUFFER_BYTES);
    /** Bytes received and not yet taken: from {@link #taken} to the position. Only for the reading thread. */
    private ByteBuffer in = allocate(BUFFER_BYTES);

    private int taken;

    private Socket(SocketChannel channel) throws IOException {
        this.channel = channel;
        channel.configureBlocking(false);
        selector = Selector.open();
        key = channel.register(selector, SelectionKey.OP_READ);
    }

    /** Connects without waiting; a full backlog is an exception. */
    static Socket connect(Path path) throws IOException {
        SocketChannel channel = SocketChannel.open(StandardProtocolFamily.UNIX);
        Socket socket = null;
        try {
            socket = new Socket(channel);
            channel.connect(UnixDomainSocketAddress.of(path));
            if (!channel.finishConnect()) {
                throw new IOException("the daemon's queue of connections is full");
            }
            return socket;
        } catch (Throwable e) {
            // This catches every Throwable, so that descriptors are closed even when memory is exhausted.
            if (socket != null) {
                socket.close();
            }
            channel.close();
            throw e;
        }
    }

    private static ByteBuffer allocate(int bytes) {
        return ByteBuffer.allocateDirect(bytes).order(ByteOrder.LITTLE_ENDIAN);
    }

    /** Returns the buffer to which a request of at most this many bytes is written; the next {@link #send} sends it. */
    ByteBuffer room(int bytes) {
        if (out.remaining() < bytes) {
            out = allocate(Math.max(2 * out.capacity(), out.position() + bytes)).put(out.flip());
        }
        return out;
    }

    /** Sends as much as the system accepts without waiting. */
    void send() throws IOException {
        out.flip();
        try {
            while (out.hasRemaining() && channel.write(out) > 0) {}
        } finally {
            out.compact();
        }
        boolean sent = isSent();
        if (sent && out.capacity() > BUFFER_BYTES) {
            out = allocate(BUFFER_BYTES);
        }
        int wanted = sent ? SelectionKey.OP_READ : SelectionKey.OP_READ | SelectionKey.OP_WRITE;
        if (key.interestOps() != wanted) {
            key.interestOps(wanted);
            // The reading thread may be asleep and not know about these bytes.
            selector.wakeup();
        }
    }

    boolean isSent() {
        return out.position() == 0;
    }

    /** Receives the available bytes; -1 means the end of the stream. */
    int receive() throws IOException {
        return channel.read(in);
    }

    /**
     * Sleeps until bytes or the end of the stream arrive, unsent bytes can be sent, {@code untilNs} passes, or the
     * thread is interrupted.
     */
    void await(long untilNs) throws IOException {
        long leftMs = (untilNs - System.nanoTime() + 999_999) / 1_000_000;
        try {
            selector.select(Math.max(1, leftMs));
            selector.selectedKeys().clear();
        } catch (ClosedSelectorException e) {
            throw new ClosedChannelException();
        }
    }

    /**
     * Returns the next complete frame, from its opcode on, or null if there is none. It is valid until the next
     * {@link #makeRoom}.
     */
    ByteBuffer frame() throws Break {
        int length = length();
        int begin = taken + Wire.LENGTH_BYTES;
        if (length < 0 || in.position() - begin < length) {
            return null;
        }
        taken = begin + length;
        return in.duplicate().limit(taken).position(begin).slice().order(ByteOrder.LITTLE_ENDIAN);
    }

    /** Makes room for the rest of the current frame. */
    void makeRoom() throws Break {
        int needed = Wire.LENGTH_BYTES + Math.max(0, length());
        in.flip().position(taken);
        in = (needed > in.capacity() ? allocate(needed).put(in) : in.compact());
        taken = 0;
    }

    /** The length field of the next frame, or -1 if it has not arrived. */
    private int length() throws Break {
        if (in.position() - taken < Wire.LENGTH_BYTES) {
            return -1;
        }
        int length = in.getInt(taken);
        if (length < Wire.HEADER_BYTES - Wire.LENGTH_BYTES || length > Wire.REPLY_LENGTH_MAX) {
            throw Break.protocol("a reply's length field says " + Integer.toUnsignedString(length) + "; from 8 to "
                    + Wire.REPLY_LENGTH_MAX + " is allowed");
        }
        return length;
    }

    /** Closes the connection and wakes the thread that waits on it. */
    @Override
    public void close() throws IOException {
        try (selector) {
            channel.close();
        }
    }
}
