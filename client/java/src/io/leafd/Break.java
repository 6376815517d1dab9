package io.leafd;

import java.io.IOException;
import java.nio.file.Path;

/** Why a connection ended. */
final class Break extends Exception {
    private static final long serialVersionUID = 1;

    private enum Kind {
        ENDED,
        PROTOCOL,
        OVERDUE,
        CLOSED
    }

    private final Kind kind;

    private Break(Kind kind, String what, IOException cause) {
        // It has no stack trace, because all waiting threads receive it.
        super(what, cause, false, false);
        this.kind = kind;
    }

    static Break end() {
        return new Break(Kind.ENDED, "the daemon closed it", null);
    }

    static Break io(IOException cause) {
        return new Break(Kind.ENDED, String.valueOf(cause.getMessage()), cause);
    }

    static Break protocol(String what) {
        return new Break(Kind.PROTOCOL, what, null);
    }

    static Break overdue() {
        return new Break(Kind.OVERDUE, "too many answers are overdue; the daemon may be hanging", null);
    }

    /** The client was closed. */
    static Break closed() {
        return new Break(Kind.CLOSED, "this client is closed", null);
    }

    /** Whether its requests may be retried on a new connection. */
    boolean isRetryable() {
        return kind == Kind.ENDED || kind == Kind.OVERDUE;
    }

    RuntimeException toException(Path socket) {
        return switch (kind) {
            case PROTOCOL -> new LeafdException.ProtocolBroken(getMessage());
            case CLOSED -> new IllegalStateException(getMessage());
            case ENDED, OVERDUE -> new LeafdException.Disconnected(socket, getMessage(), getCause());
        };
    }
}
