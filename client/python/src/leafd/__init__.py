"""Unique 64-bit ids from leafd, the daemon of this host.

    import leafd

    with leafd.Client() as client:
        order_id = client.next_id("orders")
        hundred = client.next_ids("orders", 100)

A client is shared freely between threads and over forks: a forked child never gets an id that its parent held.
"""

from ._aio import AsyncClient
from ._client import Client
from ._errors import (
    ClockBehind,
    ConnectFailed,
    ConnectionLimit,
    CountInvalid,
    DeadlinePassed,
    Denied,
    Disconnected,
    Error,
    FrameLengthRefused,
    HandleRefused,
    InternalError,
    InvalidArgument,
    JournalUnavailable,
    LibraryPanic,
    Malformed,
    NoWorker,
    NullPointer,
    Overloaded,
    ProtocolBroken,
    ResourcesExhausted,
    ShuttingDown,
    Status,
    StoreRefused,
    StoreUnavailable,
    TagExhausted,
    TagExists,
    TagInvalid,
    TagUnknown,
    TimedOut,
    TimeExhausted,
    UnknownOpcode,
    ValueRefused,
    VersionRefused,
)
from ._layout import LEAF, Decoded, Layout, decode
from ._library import library_version

__version__ = library_version()

__all__ = [
    "LEAF",
    "AsyncClient",
    "Client",
    "ClockBehind",
    "ConnectFailed",
    "ConnectionLimit",
    "CountInvalid",
    "DeadlinePassed",
    "Decoded",
    "Denied",
    "Disconnected",
    "Error",
    "FrameLengthRefused",
    "HandleRefused",
    "InternalError",
    "InvalidArgument",
    "JournalUnavailable",
    "Layout",
    "LibraryPanic",
    "Malformed",
    "NoWorker",
    "NullPointer",
    "Overloaded",
    "ProtocolBroken",
    "ResourcesExhausted",
    "ShuttingDown",
    "Status",
    "StoreRefused",
    "StoreUnavailable",
    "TagExhausted",
    "TagExists",
    "TagInvalid",
    "TagUnknown",
    "TimeExhausted",
    "TimedOut",
    "UnknownOpcode",
    "ValueRefused",
    "VersionRefused",
    "decode",
]
