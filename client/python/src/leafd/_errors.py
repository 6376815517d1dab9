"""The exceptions. Each has a status that gives more detail.

    Error
    ├── UnavailableError        no ids right now; retry
    ├── TimeoutError            too slow; retry (also the builtin TimeoutError)
    ├── ConnectError            no connection (also ConnectionError)
    │   └── ConnectDeniedError  this user may not open the socket (also PermissionError)
    ├── DisconnectedError       the connection broke (also ConnectionError)
    ├── InterruptedError        a signal ended the call (also the builtin InterruptedError)
    ├── InvalidArgumentError    an argument or a value is not allowed (also ValueError)
    ├── UnknownTagError         there is no such tag (also LookupError)
    ├── DeniedError             this user may not do this (also PermissionError)
    ├── ExhaustedError          the numbers of a tag or layout are exhausted
    ├── MaskKeyError            the daemon has no mask key, or a wrong one
    ├── StoreError              the store holds something that can't be used safely
    ├── ResourceError           a limit of the library or the system was reached
    ├── ProtocolError           the peer is not leafd, or speaks another protocol version
    └── InternalError           a bug in leafd
"""

from __future__ import annotations

import builtins
import enum
import errno as numbers
from typing import Any, ClassVar, Dict, Optional, Tuple, Type


class Status(enum.IntEnum):
    """The library's statuses, by number: up to 999, those of the daemon; from 1000 on, those of the library."""

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
    """A failed call. It may have skipped ids, but an id that it drew is never returned by another call."""

    status: Status
    """The status of the failure, which is more precise than the exception's class."""

    message: str
    """What failed, why, and what to do."""

    retryable: bool
    """Whether the same call may succeed later without any other action."""

    retry_after: Optional[float]
    """The number of seconds after which a retry may succeed; None if unknown."""

    errno: Optional[int]
    """The system's error number (see :mod:`errno`) that caused the failure, or None."""

    # The default status of an exception that a program creates itself, and the errno that a builtin base class needs.
    _status: ClassVar[Status] = Status.INTERNAL
    _errno: ClassVar[Optional[int]] = None

    def __init__(
        self,
        message: str,
        *,
        status: Optional[Status] = None,
        retryable: bool = False,
        retry_after: Optional[float] = None,
        errno: Optional[int] = None,
    ) -> None:
        super().__init__(message)
        self.status = self._status if status is None else status
        self.message = message
        self.retryable = retryable
        self.retry_after = retry_after
        self.errno = self._errno if errno is None else errno
        if isinstance(self, OSError):
            # As in any OSError, `strerror` contains the text.
            setattr(self, "strerror", message)

    @property
    def is_timeout(self) -> bool:
        """Whether the call timed out. The exception is then a builtin :class:`TimeoutError` as well."""
        return isinstance(self, TimeoutError)

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> Tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.status, self.retryable, self.retry_after, self.errno)


def _rebuild(
    kind: Type[Error],
    message: str,
    status: Status,
    retryable: bool,
    retry_after: Optional[float],
    errno: Optional[int],
) -> Error:
    return kind(message, status=status, retryable=retryable, retry_after=retry_after, errno=errno)


class UnavailableError(Error):
    """The daemon can't issue ids right now, because its store, clock, worker or journal is not ready, or because it is
    overloaded or stopping. A retry may help."""

    _status = Status.STORE_UNAVAILABLE


class TimeoutError(Error, builtins.TimeoutError):
    """The call timed out: the daemon reported it (`DEADLINE`; the message says what the call was waiting for), or did not
    answer in time (`TIMEOUT`)."""

    _status = Status.TIMEOUT
    _errno = numbers.ETIMEDOUT


class ConnectError(Error, ConnectionError):
    """No connection could be made: no daemon listens, or this user may not open the socket."""

    _status = Status.CONNECT


class ConnectDeniedError(ConnectError, PermissionError):
    """This user may not open the socket."""


class DisconnectedError(Error, ConnectionError):
    """The connection broke while the call waited, and again after a retry."""

    _status = Status.DISCONNECTED


class InterruptedError(Error, builtins.InterruptedError):
    """A signal ended the call. If its handler raises an exception, such as KeyboardInterrupt, that one is raised instead."""

    _status = Status.INTERRUPTED


class InvalidArgumentError(Error, ValueError):
    """An argument is invalid: a tag's name, a count, a timeout, a public id."""

    _status = Status.INVALID_ARGUMENT


class UnknownTagError(Error, LookupError):
    """The store has no such tag."""

    _status = Status.TAG_UNKNOWN


class DeniedError(Error, PermissionError):
    """This user has no right to do this."""

    _status = Status.DENIED
    _errno = numbers.EACCES


class ExhaustedError(Error):
    """The numbers of a tag, or the time bits of a layout, are exhausted."""

    _status = Status.TAG_EXHAUSTED


class MaskKeyError(Error):
    """The daemon has no key for masking, or its key differs from the one that the store knows."""

    _status = Status.MASK_KEY


class StoreError(Error):
    """The store's data for this tag can't be used safely."""

    _status = Status.STORE_REFUSED


class ResourceError(Error):
    """A limit of the library or the system was reached."""

    _status = Status.RESOURCES


class ProtocolError(Error):
    """The peer is not leafd, or speaks another version of the protocol."""

    _status = Status.PROTOCOL


class InternalError(Error):
    """A bug in the daemon, the library or this package, or a status that this package doesn't know."""


BY_STATUS: Dict[int, Type[Error]] = {
    Status.MALFORMED: InternalError,
    Status.UNKNOWN_OPCODE: ProtocolError,
    Status.VERSION: ProtocolError,
    Status.FRAME_LENGTH: InternalError,
    Status.TAG_INVALID: InvalidArgumentError,
    Status.TAG_UNKNOWN: UnknownTagError,
    Status.COUNT_INVALID: InvalidArgumentError,
    Status.DENIED: DeniedError,
    Status.OVERLOADED: UnavailableError,
    Status.DEADLINE: TimeoutError,
    Status.STORE_UNAVAILABLE: UnavailableError,
    Status.CLOCK_BEHIND: UnavailableError,
    Status.NO_WORKER: UnavailableError,
    Status.TAG_EXHAUSTED: ExhaustedError,
    Status.TIME_EXHAUSTED: ExhaustedError,
    Status.JOURNAL: UnavailableError,
    Status.SHUTTING_DOWN: UnavailableError,
    Status.TAG_EXISTS: InvalidArgumentError,
    Status.VALUE_REFUSED: InvalidArgumentError,
    Status.INTERNAL: InternalError,
    Status.CONNECTION_LIMIT: UnavailableError,
    Status.STORE_REFUSED: StoreError,
    Status.MASK_KEY: MaskKeyError,
    Status.CONNECT: ConnectError,
    Status.DISCONNECTED: DisconnectedError,
    Status.TIMEOUT: TimeoutError,
    Status.PROTOCOL: ProtocolError,
    Status.INVALID_ARGUMENT: InvalidArgumentError,
    Status.RESOURCES: ResourceError,
    Status.NULL_POINTER: InternalError,
    Status.HANDLE: InternalError,
    Status.PANIC: InternalError,
    Status.INTERRUPTED: InterruptedError,
}


def error_of(
    status: int, message: str, *, retryable: bool, retry_after: Optional[float] = None, errno: Optional[int] = None
) -> Error:
    """Creates the exception for a status, with the system's error number that caused it."""
    kind = BY_STATUS.get(status, InternalError)
    if kind is ConnectError and errno in (numbers.EACCES, numbers.EPERM):
        kind = ConnectDeniedError
    known = Status(status) if status in BY_STATUS else Status.INTERNAL
    return kind(message, status=known, retryable=retryable, retry_after=retry_after, errno=errno)
