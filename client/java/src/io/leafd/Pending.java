package io.leafd;

import java.nio.ByteBuffer;

/**
 * A request in flight, and the thread that waits for its answer. The link's lock guards it until it ends.
 *
 * @param <T> the type of the decoded answer
 */
final class Pending<T> {
    /** Reads the body of an answer whose status is OK. */
    interface Reader<T> {
        T read(ByteBuffer body) throws Break;
    }

    final Connection connection;
    final int opcode;
    final int id;
    final Moment sent = Moment.now();
    /** The thread that sleeps until another thread has read the answer. */
    Thread sleeper;
    /**
     * Whether the request was abandoned. It stays in flight until it is answered, so that its answer is never mistaken
     * for that of another request.
     */
    boolean abandoned;

    private final Reader<T> reader;
    /** Exactly one of these three is set in the end. */
    private T answer;

    private Wire.Refusal refusal;
    private Break broken;

    Pending(Connection connection, int opcode, int id, Reader<T> reader) {
        this.connection = connection;
        this.opcode = opcode;
        this.id = id;
        this.reader = reader;
    }

    boolean isDone() {
        return answer != null || refusal != null || broken != null;
    }

    T answer() {
        return answer;
    }

    Wire.Refusal refusal() {
        return refusal;
    }

    Break broken() {
        return broken;
    }

    /** The reply arrived. */
    void complete(int status, ByteBuffer body) throws Break {
        if (status == Status.OK.number()) {
            answer = reader.read(body);
        } else {
            refusal = Wire.readRefusal(status, body);
        }
    }

    /** The daemon refused all requests on the connection. */
    void refuse(Wire.Refusal refusal) {
        this.refusal = refusal;
    }

    /** The connection ended first. */
    void breakOff(Break why) {
        broken = why;
    }
}
