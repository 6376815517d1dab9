"""What can go wrong: one exception for each status of the library, all of them :class:`Error`."""

from __future__ import annotations

import enum
import errno as numbers
from typing import Any, ClassVar, Dict, Optional, Tuple, Type


class Status(enum.IntEnum):
    """The library's statuses, by number: up to 999 the daemon's word, from 1000 on what the library found."""

    OK = 0
    MALFORMED = 1
    UNKNOWN_OPCODE = 2
    VERSION = 3
    FRAME_LENGTH = 4
    TAG_INVALID = 5
    TAG_UNKNOWN = 6
    COUNT_INVALID = 7
    DENIED = 8
    OVERLOADED = 9
    DEADLINE = 10
    STORE_UNAVAILABLE = 11
    CLOCK_BEHIND = 12
    NO_WORKER = 13
    TAG_EXHAUSTED = 14
    TIME_EXHAUSTED = 15
    JOURNAL = 16
    SHUTTING_DOWN = 17
    TAG_EXISTS = 18
    VALUE_REFUSED = 19
    INTERNAL = 20
    CONNECTION_LIMIT = 21
    STORE_REFUSED = 22
    MASK_KEY = 23
    CONNECT = 1000
    DISCONNECTED = 1001
    TIMEOUT = 1002
    PROTOCOL = 1003
    INVALID_ARGUMENT = 1004
    RESOURCES = 1005
    NULL_POINTER = 1006
    HANDLE = 1007
    PANIC = 1008
    INTERRUPTED = 1009


class Error(Exception):
    """A call that failed. It used up no id that another call could return."""

    status: ClassVar[Status] = Status.INTERNAL
    """Which status; each has an exception of its own."""

    message: str
    """What was tried, what happened, what to do."""

    retryable: bool
    """Whether the same call may succeed later without anyone changing anything."""

    retry_after: Optional[float]
    """After how many seconds a retry may succeed, when the daemon said so."""

    errno: Optional[int]
    """The system's error number (see :mod:`errno`) behind it, if there is one."""

    def __init__(
        self,
        message: str,
        *,
        retryable: bool = False,
        retry_after: Optional[float] = None,
        errno: Optional[int] = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.retryable = retryable
        self.retry_after = retry_after
        self.errno = self._errno_default if errno is None else errno
        if isinstance(self, OSError):
            # What OSError's own way of saying it would show.
            setattr(self, "strerror", message)

    # What a builtin base would have said, where the system said nothing.
    _errno_default: ClassVar[Optional[int]] = None

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> Tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.retryable, self.retry_after, self.errno)


def _rebuild(
    kind: Type[Error], message: str, retryable: bool, retry_after: Optional[float], errno: Optional[int]
) -> Error:
    return kind(message, retryable=retryable, retry_after=retry_after, errno=errno)


class Malformed(Error):
    """The daemon could not read a request."""

    status = Status.MALFORMED


class UnknownOpcode(Error):
    """The daemon doesn't know the request: it is older than the library."""

    status = Status.UNKNOWN_OPCODE


class VersionRefused(Error):
    """The library and the daemon have no protocol version in common."""

    status = Status.VERSION


class FrameLengthRefused(Error):
    """A length field that no frame may have."""

    status = Status.FRAME_LENGTH


class TagInvalid(Error, ValueError):
    """The daemon takes no tag of this name."""

    status = Status.TAG_INVALID


class TagUnknown(Error, LookupError):
    """The store has no such tag."""

    status = Status.TAG_UNKNOWN


class CountInvalid(Error, ValueError):
    """The count is zero or above the limit."""

    status = Status.COUNT_INVALID


class Denied(Error, PermissionError):
    """This user may not do this."""

    status = Status.DENIED
    _errno_default = numbers.EACCES


class Overloaded(Error):
    """A queue of the daemon's is full."""

    status = Status.OVERLOADED


class DeadlinePassed(Error, TimeoutError):
    """The timeout passed in the daemon; the message says what was waited for."""

    status = Status.DEADLINE
    _errno_default = numbers.ETIMEDOUT


class StoreUnavailable(Error):
    """The central store can't be reached."""

    status = Status.STORE_UNAVAILABLE


class ClockBehind(Error):
    """The clock is further behind the last id than the daemon allows."""

    status = Status.CLOCK_BEHIND


class NoWorker(Error):
    """The daemon holds no snowflake worker id."""

    status = Status.NO_WORKER


class TagExhausted(Error):
    """The tag's numbers are used up."""

    status = Status.TAG_EXHAUSTED


class TimeExhausted(Error):
    """The layout's time bits are used up, or the clock is before its epoch."""

    status = Status.TIME_EXHAUSTED


class JournalUnavailable(Error):
    """The daemon's state directory can't be written; it issues nothing until it can."""

    status = Status.JOURNAL


class ShuttingDown(Error):
    """The daemon is stopping, and no other came in time."""

    status = Status.SHUTTING_DOWN


class TagExists(Error):
    """A tag of this name is there already."""

    status = Status.TAG_EXISTS


class ValueRefused(Error, ValueError):
    """An administrative request asks for a value that is not allowed."""

    status = Status.VALUE_REFUSED


class InternalError(Error):
    """A defect in the daemon; also a status that this library doesn't know."""

    status = Status.INTERNAL


class ConnectionLimit(Error):
    """The daemon has as many connections as it may have."""

    status = Status.CONNECTION_LIMIT


class StoreRefused(Error):
    """The store answered with something that can't be used safely."""

    status = Status.STORE_REFUSED


class MaskKeyError(Error):
    """The daemon lacks the key for masking, or has another one than the store knows."""

    status = Status.MASK_KEY


class ConnectFailed(Error, ConnectionError):
    """No connection could be made: nobody listens, or this user may not open the socket."""

    status = Status.CONNECT


class ConnectDenied(ConnectFailed, PermissionError):
    """This user may not open the socket."""


class Disconnected(Error, ConnectionError):
    """The connection broke while the call waited, and again when it was repeated."""

    status = Status.DISCONNECTED


class TimedOut(Error, TimeoutError):
    """No answer came within the timeout."""

    status = Status.TIMEOUT
    _errno_default = numbers.ETIMEDOUT


class ProtocolBroken(Error):
    """The peer sent something that is not leafd's protocol."""

    status = Status.PROTOCOL


class InvalidArgument(Error, ValueError):
    """An argument can't be."""

    status = Status.INVALID_ARGUMENT


class ResourcesExhausted(Error):
    """A limit of the library or the system was reached."""

    status = Status.RESOURCES


class NullPointer(Error):
    """A pointer was NULL: a defect in this package."""

    status = Status.NULL_POINTER


class HandleRefused(Error):
    """A handle was none: a defect in this package."""

    status = Status.HANDLE


class LibraryPanic(Error):
    """A defect in the library."""

    status = Status.PANIC


class Interrupted(Error, InterruptedError):
    """A signal ended the call. Python's own exceptions, such as KeyboardInterrupt, come in its place."""

    status = Status.INTERRUPTED


BY_STATUS: Dict[int, Type[Error]] = {kind.status: kind for kind in Error.__subclasses__()}


def kind_of(status: int, errno: Optional[int]) -> Type[Error]:
    """The exception for a status, and the system's error number behind it."""
    if status == Status.CONNECT and errno in (numbers.EACCES, numbers.EPERM):
        return ConnectDenied
    return BY_STATUS.get(status, InternalError)
