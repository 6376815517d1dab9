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
    ConnectDenied,
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
    Interrupted,
    InvalidArgument,
    JournalUnavailable,
    LibraryPanic,
    Malformed,
    MaskKeyError,
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
from ._layout import LEAF, Decoded, Layout, decode, snowflake_at
from ._library import library_version
from ._public_ids import AsyncPublicIds, PublicIds

__version__ = library_version()

__all__ = [
    "LEAF",
    "AsyncClient",
    "AsyncPublicIds",
    "Client",
    "ClockBehind",
    "ConnectDenied",
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
    "Interrupted",
    "InvalidArgument",
    "JournalUnavailable",
    "Layout",
    "LibraryPanic",
    "Malformed",
    "MaskKeyError",
    "NoWorker",
    "NullPointer",
    "Overloaded",
    "ProtocolBroken",
    "PublicIds",
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
    "snowflake_at",
]

# Shown, in tracebacks and by help(), as they are imported.
for _name in __all__:
    _public = globals()[_name]
    if hasattr(_public, "__qualname__"):
        _public.__module__ = __name__
del _name, _public
